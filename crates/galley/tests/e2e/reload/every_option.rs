//! Changes every option of the option table by a reload. A page stays exactly if the table says that keys do not depend on the option, and
//! the option keeps its value exactly if the table says that it needs a restart.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use galley_config::{Fallback, OptionRow, OptionSection, ValueKind, options, write_size};
use galley_testkit::runs_as_root;

use super::config;
use crate::support::{AssertStatus, HOST, SiteBuilder, TEST_PAGE, TestSite};
use crate::tls_support::Authority;

/// Options by section and name. Those without a value are left out.
#[derive(Clone, Default)]
struct Text(BTreeMap<(OptionSection, String), String>);

impl Text {
    /// Sets options by their paths, such as `site.rule.path`.
    fn set(&mut self, path: &str, value: &str) {
        let (section, name) = path.rsplit_once('.').unwrap_or(("", path));
        let mut sections = OptionSection::ALL.into_iter();
        let section = sections.find(|one| one.prefix() == section).unwrap();
        self.0.insert((section, name.to_owned()), value.to_owned());
    }

    fn write(&self) -> String {
        let mut text = String::new();
        for section in OptionSection::ALL {
            let own = self.0.iter().filter(|((of, _), _)| *of == section);
            let own: Vec<_> = own.filter(|(_, value)| !value.is_empty()).collect();
            if !own.is_empty() {
                let _ = writeln!(text, "{}", section.header());
            }
            for ((_, name), value) in own {
                let _ = writeln!(text, "{name} = {value}");
            }
        }
        text
    }
}

#[test]
fn a_reload_keeps_pages_and_values_as_the_option_table_says() {
    let site = SiteBuilder::php().disk().start();
    let base = base(&site);
    let mut wrong = Vec::new();
    for row in options() {
        if !is_stored(&site) {
            try_apply(&site, &base).unwrap();
            site.get(PAGE).assert_status(200);
            assert!(is_stored(&site), "{}", row.path());
        }
        let mut changed = base.clone();
        if row.path() == "site.esi_hosts" {
            changed.set("site.esi", "true");
            try_apply(&site, &changed).unwrap();
            site.get(PAGE).assert_status(200);
        }
        let (companions, value) = change(row);
        for (path, value) in companions {
            changed.set(path, &filled(&site, value));
        }
        changed.set(
            &row.path().replace("<status>", "404"),
            &filled(&site, &value),
        );
        let what = format!("{} = {value}", row.path());
        match try_apply(&site, &changed) {
            Err(reply) => wrong.push(format!("{what}: {reply}")),
            Ok(reply) if reply.contains("\"restart\":[]") == row.needs_restart => {
                wrong.push(format!("{what}: {reply}"));
            }
            Ok(_) if is_stored(&site) == row.shapes_keys => {
                let kept = if row.shapes_keys { "kept" } else { "lost" };
                wrong.push(format!("{what}: the page was {kept}"));
            }
            Ok(_) => {}
        }
    }
    assert!(
        wrong.is_empty(),
        "{}\n{}",
        wrong.join("\n"),
        site.galley.log()
    );
}

/// The configuration before each change, and the files that options name.
fn base(site: &TestSite) -> Text {
    let dir = site.scratch.path();
    for name in ["purge", "nginx", "acme", "root2", "spool"] {
        let path = site.scratch.dir(name).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    for (name, text) in [
        ("token", TOKEN),
        ("token2", TOKEN),
        ("secret", "abcdefgh-abcdefgh-abcdefgh-abcdefgh-abcdefgh"),
    ] {
        let path = site.scratch.write(name, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    }
    site.scratch
        .write("people", "jane:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\n")
        .unwrap();
    site.scratch
        .write("crawlers.txt", "192.0.2.0/24\n")
        .unwrap();
    site.scratch.write("error.html", "<p>error").unwrap();
    site.scratch.write("root2/index.php", TEST_PAGE).unwrap();
    Authority::new().issue(dir, "site", &[HOST]);
    let mut text = Text::default();
    let php = config(site);
    let php = php.lines().find_map(|line| line.strip_prefix("php = "));
    for (path, value) in [
        ("server.listen", "[\"127.0.0.1:0\"]"),
        ("admin.listen", "\"unix:{dir}/galley/admin.sock\""),
        ("admin.token_file", "\"{dir}/token\""),
        ("cache.memory", "\"64MiB\""),
        ("cache.disk", "\"{dir}/cache\""),
        ("log.access", "\"{dir}/access.log\""),
        ("site.hosts", "[\"example.test\"]"),
        ("site.root", "\"{dir}/root\""),
        ("site.php", php.unwrap()),
    ] {
        text.set(path, &filled(site, value));
    }
    text
}

fn filled(site: &TestSite, value: &str) -> String {
    let database = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../access/tests/fixtures/countries.mmdb"
    );
    value
        .replace("{dir}", &site.scratch.path().display().to_string())
        .replace("{countries}", database)
        .replace("{user}", &user())
        .replace("{fpm}", &fpm())
}

/// A user that may run PHP and Galley.
fn user() -> String {
    if runs_as_root() {
        return "www-data".to_owned();
    }
    let output = Command::new("id").arg("-un").output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// The path of a PHP-FPM.
fn fpm() -> String {
    let mut files = fs::read_dir("/usr/sbin").unwrap().flatten();
    let found = files.find(|file| file.file_name().to_string_lossy().starts_with("php-fpm"));
    found.unwrap().path().display().to_string()
}

/// Writes a configuration and reloads it, over the admin interface of the running server, whose user needs no token.
fn try_apply(site: &TestSite, text: &Text) -> Result<String, String> {
    fs::write(site.galley.config(), text.write()).unwrap();
    let reply = site.admin("POST /reload", None, "{}");
    let is_done = reply.starts_with("HTTP/1.1 200");
    if is_done { Ok(reply) } else { Err(reply) }
}

/// Whether the page is among those that the site finds by its keys.
fn is_stored(site: &TestSite) -> bool {
    let reply = site.admin(&format!("GET /cache?prefix={PAGE}"), None, "");
    assert!(reply.contains("\"entries\":["), "{reply}");
    !reply.contains("\"entries\":[]")
}

/// Another valid value of an option, and the options that it needs.
fn change(row: &OptionRow) -> (Vec<(&'static str, &'static str)>, String) {
    let path = row.path();
    let mut companions: Vec<(&str, &str)> = Vec::new();
    for (prefix, needed) in NEEDS {
        if path.starts_with(prefix) {
            companions.extend(needed.iter().filter(|(one, _)| *one != path));
        }
    }
    let value = VALUES.iter().find(|(one, _)| *one == path);
    (
        companions,
        value.map_or_else(|| usual(row), |(_, value)| (*value).to_owned()),
    )
}

/// A value other than the default: the example, or one that follows from the kind.
fn usual(row: &OptionRow) -> String {
    let default = match row.fallback {
        Fallback::Value(text) => text,
        Fallback::Computed(_) | Fallback::Absent | Fallback::Required => "",
    };
    match row.kind {
        _ if !row.example.is_empty() && row.example != default => row.example.to_owned(),
        ValueKind::Flag => (default == "false").to_string(),
        ValueKind::Count { least, .. } => {
            let mut values = [least + 1, least + 2].into_iter();
            values
                .find(|value| value.to_string() != default)
                .unwrap()
                .to_string()
        }
        ValueKind::Size { least, .. } => format!("\"{}\"", write_size(least.max(1024) * 2)),
        ValueKind::Time { .. } | ValueKind::TimeOrOff { .. } => "\"61s\"".to_owned(),
        ValueKind::Word(words) => {
            let mut quoted = words.iter().map(|word| format!("\"{word}\""));
            quoted.find(|word| word != default).unwrap()
        }
        _ => panic!("{}: add a value to `VALUES`", row.path()),
    }
}

const PAGE: &str = "/walk/";

const TOKEN: &str = "0123456789-0123456789-0123456789-0123456789";

const TLS: &[(&str, &str)] = &[
    ("server.listen_tls", "[\"127.0.0.1:0\"]"),
    (
        "site.tls",
        "{ cert = \"{dir}/site.pem\", key = \"{dir}/site.key\" }",
    ),
    ("site.https_redirect", "false"),
];

const ACME: &[(&str, &str)] = &[
    ("server.listen_tls", "[\"127.0.0.1:0\"]"),
    ("site.tls", "\"auto\""),
    ("site.https_redirect", "false"),
    ("acme.directory", "\"https://127.0.0.1:9/dir\""),
    ("acme.storage", "\"{dir}/acme\""),
];

const COUNTRIES: &[(&str, &str)] = &[("server.geoip", "\"{countries}\"")];

const MANAGED: &[(&str, &str)] = &[("site.php", "\"managed\"")];

const RULE: &[(&str, &str)] = &[("site.rule.path", "\"/other*\"")];

/// Options without which others are invalid, by the beginning of their paths.
const NEEDS: &[(&str, &[(&str, &str)])] = &[
    ("server.group", &[("server.user", "\"{user}\"")]),
    (
        "server.client_field",
        &[("server.trusted_proxies", "[\"10.0.0.0/8\"]")],
    ),
    (
        "server.proxy_protocol",
        &[(
            "server.listen",
            "[\"127.0.0.1:0\", \"unix:{dir}/proxy.sock\"]",
        )],
    ),
    ("server.listen_tls", TLS),
    ("server.listen_quic", TLS),
    (
        "server.proxy_protocol",
        &[("server.trusted_proxies", "[\"10.0.0.0/8\"]")],
    ),
    ("log.fields", &[("log.format", "\"json\"")]),
    ("log.otlp_sample", &[("log.otlp", "\"http://127.0.0.1:9\"")]),
    (
        "log.trace_parent",
        &[("log.otlp", "\"http://127.0.0.1:9\"")],
    ),
    ("acme.", ACME),
    ("acme.dns", &[("acme.challenge", "[\"dns-01\"]")]),
    ("acme.dns_wait", &[("acme.dns_hook", "\"/bin/true\"")]),
    (
        "acme.account_id",
        &[("acme.account_key_file", "\"{dir}/secret\"")],
    ),
    ("acme.account_key_file", &[("acme.account_id", "\"kid-1\"")]),
    ("cluster.", &[("cluster.engine", "\"redis://127.0.0.1:9\"")]),
    ("cluster.pages", &[("cluster.key_file", "\"{dir}/secret\"")]),
    ("site.upstream", &[("site.php", "")]),
    (
        "site.upstream_tls",
        &[("site.upstream", "[\"https://127.0.0.1:9\"]")],
    ),
    ("site.allow_countries", COUNTRIES),
    ("site.deny_countries", COUNTRIES),
    (
        "site.basic_auth_forward",
        &[("site.basic_auth", "\"{dir}/people\"")],
    ),
    ("site.php_", MANAGED),
    ("site.php_paths", &[("site.php_sandbox", "\"root\"")]),
    (
        "site.php_connect_ports",
        &[("site.php_sandbox", "\"root\"")],
    ),
    ("site.balance_cookie", &[("site.balance", "\"cookie\"")]),
    ("site.health_", &[("site.health_check", "\"/index.php\"")]),
    ("site.tls", TLS),
    ("site.listen_tls", TLS),
    ("site.https_", TLS),
    ("site.https_port", &[("site.https_redirect", "true")]),
    ("site.hsts", TLS),
    ("site.hsts_", &[("site.hsts", "\"365d\"")]),
    ("site.hsts_preload", &[("site.hsts_subdomains", "true")]),
    (
        "site.dashboard",
        &[
            ("site.dashboard", "\"/galley/\""),
            ("site.dashboard_auth", "\"{dir}/people\""),
        ],
    ),
    ("site.rule.", RULE),
    ("site.rule.pattern", &[("site.rule.path", "")]),
    (
        "site.rule.deny_status",
        &[("site.rule.deny", "[\"10.0.0.0/8\"]")],
    ),
    ("site.rule.countries", COUNTRIES),
    ("site.rule.allow_countries", COUNTRIES),
    ("site.rule.deny_countries", COUNTRIES),
    ("site.rule.php_", &[("site.rule.php", "\"managed\"")]),
    (
        "site.rule.php_workers",
        &[("site.rule.php_command", "[\"/usr/bin/php-cgi\"]")],
    ),
    (
        "site.rule.redirect_",
        &[("site.rule.redirect", "\"/new/$1\"")],
    ),
];

/// Values of options whose example is the default, or needs files that do not exist.
const VALUES: &[(&str, &str)] = &[
    (
        "server.listen",
        "[\"127.0.0.1:0\", \"unix:{dir}/web.sock\"]",
    ),
    ("server.listen_tls", "[\"127.0.0.1:0\"]"),
    ("server.listen_quic", "[\"127.0.0.1:0\"]"),
    ("server.spool", "\"{dir}/spool\""),
    ("server.spool_size", "\"2GiB\""),
    ("server.user", "\"{user}\""),
    ("server.group", "\"{user}\""),
    ("server.limit_exempt", "[\"10.0.0.0/8\"]"),
    ("server.geoip", "\"{countries}\""),
    ("server.crawlers", "{ Googlebot = \"{dir}/crawlers.txt\" }"),
    ("server.max_connections", "5000"),
    ("server.connections_per_address", "255"),
    ("server.trusted_proxies", "[\"10.0.0.0/8\"]"),
    ("server.proxy_protocol", "[\"unix:{dir}/proxy.sock\"]"),
    ("admin.listen", "\"unix:{dir}/galley/other.sock\""),
    ("admin.token_file", "\"{dir}/token2\""),
    ("cache.disk", "\"{dir}/other-cache\""),
    ("log.access", "\"{dir}/other.log\""),
    ("log.error", "\"{dir}/error.log\""),
    ("acme.directory", "\"https://127.0.0.1:10/dir\""),
    ("acme.ca", "\"{dir}/site.pem\""),
    ("acme.storage", "\"{dir}/acme2\""),
    ("acme.challenge", "[\"tls-alpn-01\"]"),
    ("acme.dns_hook", "\"/bin/true\""),
    ("acme.account_key_file", "\"{dir}/secret\""),
    ("cluster.engine", "\"redis://127.0.0.1:9\""),
    ("cluster.password_file", "\"{dir}/secret\""),
    ("cluster.key_file", "\"{dir}/secret\""),
    ("cluster.name", "\"other\""),
    ("site.hosts", "[\"www.example.test\", \"example.test\"]"),
    ("site.listen", "[\"127.0.0.1:0\", \"unix:{dir}/web.sock\"]"),
    ("site.root", "\"{dir}/root2\""),
    ("site.php", "\"127.0.0.1:9\""),
    ("site.error_page", "\"{dir}/error.html\""),
    ("site.cron", "\"61s\""),
    ("site.token_file", "\"{dir}/secret\""),
    ("site.dashboard_auth", "\"{dir}/people\""),
    ("site.dashboard", "\"/other/\""),
    ("site.basic_auth", "\"{dir}/people\""),
    ("site.login_limit", "{ rate = \"7/m\", burst = 3 }"),
    ("site.xmlrpc", "\"off\""),
    ("site.xmlrpc_limit", "{ rate = \"7/m\", burst = 3 }"),
    ("site.balance", "\"least-connections\""),
    ("site.health_check", "\"/index.php\""),
    ("site.php_workers", "1"),
    ("site.php_command", "[\"/usr/bin/php-cgi\"]"),
    ("site.php_user", "\"{user}\""),
    ("site.php_binary", "\"{fpm}\""),
    ("site.php_paths", "[\"{dir}/purge\"]"),
    ("site.upgrade", "[]"),
    ("site.purge_secret_file", "\"{dir}/secret\""),
    ("site.purge_allow", "[\"10.0.0.0/8\"]"),
    ("site.purge_directory", "\"{dir}/purge\""),
    ("site.nginx_cache_path", "\"{dir}/nginx\""),
    ("site.purge_forward", "[{ purge = \"http://127.0.0.1:9\" }]"),
    ("site.remove_headers", "[\"X-Powered-By\"]"),
    ("site.canonical_host", "\"example.test\""),
    ("site.https_redirect", "true"),
    ("site.hsts", "\"365d\""),
    ("site.compress", "[\"gzip\"]"),
    ("site.compress_types", "[\"text/html\"]"),
    ("site.upstream", "[\"http://127.0.0.1:9\"]"),
    ("site.upstream_tls", "{ verify = false }"),
    (
        "site.tls",
        "{ cert = \"{dir}/site.pem\", key = \"{dir}/site.key\" }",
    ),
    ("site.listen_tls", "[\"127.0.0.1:0\"]"),
    ("site.error_pages.<status>", "\"{dir}/error.html\""),
    ("site.log.access", "\"{dir}/site.log\""),
    ("site.log.error", "\"{dir}/site-error.log\""),
    ("site.ttl.<status>", "\"61s\""),
    ("site.ttl.default", "\"61s\""),
    ("site.ttl.stale_while_revalidate", "\"61s\""),
    ("site.ttl.stale_if_error", "\"61s\""),
    ("site.rule.path", "\"/another*\""),
    ("site.rule.basic_auth", "\"{dir}/people\""),
    ("site.rule.php_command", "[\"/usr/bin/php-cgi\"]"),
    ("site.rule.php_workers", "1"),
];
