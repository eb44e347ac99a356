//! One `[[site]]`: converts its options to a [`SiteConfig`].

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use galley_certs::CertificateFiles;
use galley_policy::compress::Compress;
use galley_policy::encoding::Coding;
use galley_policy::headers::FieldName;
use galley_policy::images::ImageSiblings;
use galley_policy::redirect::Home;
use galley_policy::route::HostPattern;
use galley_policy::site::{
    EsiPolicy, Ignore, MemberPages, NamePattern, Policy, Preset, Rule, TtlTable, UpstreamTimeouts,
};

use crate::access;
use crate::balance;
use crate::check;
use crate::complaint::{Complaints, SourceSpan};
use crate::config::SiteConfig;
use crate::dashboard;
use crate::forward_check;
use crate::headers;
use crate::listen::Listen;
use crate::php;
use crate::quantity::Pace;
use crate::redirect;
use crate::tls;
use crate::tree::{SectionTable, SiteTables};
use crate::upstream::{HttpUpstream, Program, UpstreamConfig, UpstreamLimits};
use crate::value::FromValue;

/// The parts of the whole configuration on which sites depend.
pub(crate) struct SiteContext<'a> {
    /// The listeners of sites that name none.
    pub listen: &'a [Listen],
    /// The TLS listeners of sites that name none.
    pub listen_tls: &'a [Listen],
    /// The current time.
    pub now: SystemTime,
    /// Certificates that may be unreadable now.
    pub known: &'a [CertificateFiles],
    /// The maximum request body of sites that set none, in bytes.
    pub request_body: u64,
    /// The folder of the configuration file; `None` if there is no file.
    pub folder: Option<&'a Path>,
}

/// The configuration of a site.
pub(crate) fn site(
    site: &SiteTables,
    context: &SiteContext<'_>,
    complaints: &mut Complaints,
) -> SiteConfig {
    let options = &site.options;
    check_hosts(options, complaints);
    check::listeners(options, complaints);
    check::root(options, complaints);
    check::error_page(options, "error_page", options.get("error_page"), complaints);
    check::token_file(options, "token_file", complaints);
    check::token_file(options, "purge_secret_file", complaints);
    check::applications(options, complaints);
    check::log_folders(&site.log, complaints);
    let hosts: Vec<HostPattern> = options.get("hosts").unwrap_or_default();
    let upstream = upstream(options, complaints);
    php::upstream(site, &upstream, complaints);
    let mut further = Vec::new();
    let home = redirect::home(options, &hosts, context.listen_tls, complaints);
    let rules = site_rules(site, home, &mut further, complaints);
    let obstacle = cron_obstacle(&hosts, &upstream, rules.preset);
    let cron = cron(options, obstacle, complaints);
    SiteConfig {
        dashboard_auth: options.get("dashboard_auth"),
        token_file: token_file(site, context, &hosts, complaints),
        name: hosts.first().map_or_else(String::new, check::host_text),
        listen: listeners(options, "listen", context.listen),
        listen_tls: if options.has("tls") {
            listeners(options, "listen_tls", context.listen_tls)
        } else {
            Vec::new()
        },
        certificates: tls::certificates(options, &hosts, context.now, context.known, complaints),
        upstream_tls: tls::upstream(options, uses_tls(&upstream, &further), complaints),
        root: options.get::<PathBuf>("root"),
        allow_files: allow_files(options),
        image_siblings: image_siblings(options),
        early_hints: options.value("early_hints"),
        balancing: balance::balancing(options, complaints),
        limits: limits(options, &upstream),
        upstream,
        further,
        compress: compress(options, rules.preset),
        nginx_cache_path: nginx_cache_path(options, rules.preset, complaints),
        rules,
        error_page: options.get("error_page"),
        error_pages: error_pages(site, complaints),
        request_body: options.get("request_body").unwrap_or(context.request_body),
        purge_allow: options.value("purge_allow"),
        purge_secret_file: options.get("purge_secret_file"),
        purge_get: options.value("purge_get"),
        purge_directory: options.get("purge_directory"),
        purge_forward: forward_check::read(options, &hosts, complaints),
        multisite: options.value("multisite"),
        cron,
        upgrade: upgrade(options, complaints),
        managed: php::managed(site, complaints),
        has_auto_tls: tls::is_auto(options),
        access: site.log.get("access"),
        errors: site.log.get("error"),
        hosts,
    }
}

/// Checks that the site has hosts.
fn check_hosts(options: &SectionTable, complaints: &mut Complaints) {
    check::required(
        options,
        "hosts",
        "add `hosts = [\"example.com\"]`, or `hosts = [\"*\"]` for every host",
        complaints,
    );
    check::not_empty(
        options,
        "hosts",
        "a host, or `\"*\"` for every host",
        complaints,
    );
}

/// The listeners of the site, otherwise those of the server.
fn listeners(options: &SectionTable, name: &str, server: &[Listen]) -> Vec<Listen> {
    options.get(name).unwrap_or_else(|| server.to_owned())
}

fn uses_tls(upstream: &UpstreamConfig, further: &[UpstreamConfig]) -> bool {
    let mut all = further.iter().chain([upstream]);
    all.any(|one| matches!(one, UpstreamConfig::Http(servers) if servers.iter().any(|one| one.tls)))
}

/// `upgrade` of a site. Complains about protocols that would let requests bypass Galley.
fn upgrade(options: &SectionTable, complaints: &mut Complaints) -> Vec<String> {
    let all: Vec<String> = options.value("upgrade");
    let positioned: Vec<(SourceSpan, String)> = options.get("upgrade").unwrap_or_default();
    for (position, name) in positioned {
        if let Some((why, help)) = upgrade_obstacle(&name) {
            let message = format!("`site.upgrade` names `{name}`, {why}");
            complaints.add(&position, "site.upgrade", message, help);
        }
    }
    all.iter().map(|name| name.to_ascii_lowercase()).collect()
}

/// Why connections may not switch to a protocol, and the remedy.
fn upgrade_obstacle(protocol: &str) -> Option<(&'static str, &'static str)> {
    let lower = protocol.to_ascii_lowercase();
    if ["h2", "http", "tls"]
        .iter()
        .any(|known| lower.starts_with(known))
    {
        return Some((
            "which would carry requests to the upstream that Galley does not check",
            "remove it: only Galley speaks HTTP to the upstream",
        ));
    }
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~/".contains(&byte);
    (!lower.bytes().all(is_token)).then_some((
        "which is not the name of a protocol",
        "write the name as in the `Upgrade` field: `websocket`",
    ))
}

/// The token file that the site names, or the default one if it exists.
fn token_file(
    site: &SiteTables,
    context: &SiteContext<'_>,
    hosts: &[HostPattern],
    complaints: &mut Complaints,
) -> Option<PathBuf> {
    let options = &site.options;
    if options.has("token_file") {
        return options.get("token_file");
    }
    let usual = default_token_file(context.folder?, hosts.first()?);
    usual.symlink_metadata().ok()?;
    check::token_at(options, "token_file", &options.position, &usual, complaints);
    Some(usual)
}

/// The token file of a site without `token_file`: `tokens/HOST.token` in the configuration's folder.
pub fn default_token_file(folder: &Path, first_host: &HostPattern) -> PathBuf {
    let name = match first_host {
        HostPattern::Exact(name) => name.clone(),
        HostPattern::Wildcard(suffix) => format!("any{suffix}"),
        HostPattern::Any => "any".to_owned(),
    };
    folder.join("tokens").join(format!("{name}.token"))
}

/// `php` or `upstream` of a site or a rule; `Files` if neither is set.
fn upstream(section: &SectionTable, complaints: &mut Complaints) -> UpstreamConfig {
    let prefix = section.kind.prefix();
    if section.has("php") && section.has("upstream") {
        let message = format!(
            "`{prefix}.php` and `{prefix}.upstream` are both given, but only one of them can generate the pages"
        );
        let help = "keep `php` for PHP-FPM, or `upstream` for a web server with PHP in it";
        let position = section.position("upstream");
        complaints.add(position, section.path("upstream"), message, help);
    }
    check::not_empty(section, "upstream", "a URL", complaints);
    php::command(section, complaints);
    let upstream = match (section.get("php"), section.get("php_command")) {
        (Some(UpstreamConfig::Managed), Some(command)) => UpstreamConfig::Program(Program {
            command,
            workers: section.value("php_workers"),
        }),
        (Some(php), _) => php,
        (None, _) => section
            .get::<Vec<HttpUpstream>>("upstream")
            .map_or(UpstreamConfig::Files, UpstreamConfig::Http),
    };
    balance::servers(section, &upstream, complaints);
    upstream
}

fn image_siblings(options: &SectionTable) -> ImageSiblings {
    let word: String = options.value("image_siblings");
    let mut all = ImageSiblings::ALL.into_iter();
    all.find(|one| one.word() == word).unwrap_or_default()
}

fn allow_files(options: &SectionTable) -> Vec<NamePattern> {
    let paths: Vec<String> = options.value("allow_files");
    paths.iter().map(|path| NamePattern::parse(path)).collect()
}

/// Pages for single statuses.
fn error_pages(site: &SiteTables, complaints: &mut Complaints) -> Vec<(u16, PathBuf)> {
    let mut pages = Vec::new();
    for (status, value) in &site.error_pages.statuses {
        let page = PathBuf::from_value(value);
        let option = status.to_string();
        check::error_page(&site.error_pages.options, &option, page.clone(), complaints);
        pages.extend(page.map(|page| (*status, page)));
    }
    pages
}

/// How often the scheduled tasks run: by default once a minute if possible. Complains about an interval if it is not possible.
fn cron(options: &SectionTable, obstacle: Option<&str>, complaints: &mut Complaints) -> Pace {
    let configured = options.get::<Pace>("cron");
    let Some(obstacle) = obstacle else {
        return configured.unwrap_or(Pace::Every(DEFAULT_CRON_INTERVAL));
    };
    if let Some(Pace::Every(_)) = configured {
        let why = format!("is given, but {obstacle}");
        options.complain("cron", why, "remove it, or correct that", complaints);
    }
    Pace::Off
}

/// Why Galley cannot run the scheduled tasks of a site.
fn cron_obstacle(
    hosts: &[HostPattern],
    upstream: &UpstreamConfig,
    preset: Preset,
) -> Option<&'static str> {
    let has_host = hosts
        .iter()
        .any(|host| matches!(host, HostPattern::Exact(_)));
    match (preset, upstream) {
        (Preset::None, _) => Some("Galley runs scheduled tasks only with the WordPress preset"),
        (_, UpstreamConfig::Files) => Some("there is neither `php` nor `upstream` to run them"),
        _ if !has_host => Some("all `hosts` have a `*`, so that there is no URL to request"),
        _ => None,
    }
}

fn limits(options: &SectionTable, upstream: &UpstreamConfig) -> UpstreamLimits {
    let in_flight = match (options.value("in_flight"), upstream) {
        (0, UpstreamConfig::Php(_) | UpstreamConfig::Http(_) | UpstreamConfig::Files) => {
            DEFAULT_IN_FLIGHT
        }
        (count, _) => count,
    };
    UpstreamLimits {
        in_flight,
        queue: options.value("queue"),
        queue_timeout: options.value("queue_timeout"),
        lock_age: options.value("lock_age"),
        waiters: options.value("waiters"),
        connect_timeout: options.value("connect_timeout"),
        first_byte_timeout: options.value("first_byte_timeout"),
        read_timeout: options.value("read_timeout"),
        idle_share: options.value("idle_share"),
        idle_age: options.value("idle_age"),
    }
}

/// The folder that imitates nginx's cache. Without a preset some stored responses belong to no fetch, so it is not supported.
fn nginx_cache_path(
    options: &SectionTable,
    preset: Preset,
    complaints: &mut Complaints,
) -> Option<PathBuf> {
    let path: Option<PathBuf> = options.get("nginx_cache_path");
    if path.is_some() && preset == Preset::None {
        let why = "has no effect with `preset = \"none\"`";
        options.complain("nginx_cache_path", why, "remove one of the two", complaints);
    }
    if path.is_some() && path == options.get("purge_directory") {
        let why = "names the folder of `purge_directory`";
        let help = "remove `purge_directory`: removing all files of `nginx_cache_path` purges the site, too";
        options.complain("nginx_cache_path", why, help, complaints);
    }
    path
}

/// The compression of pages. Without a preset the upstream's representations are not changed, unless the file sets it.
fn compress(options: &SectionTable, preset: Preset) -> Compress {
    let of_preset = || match preset {
        Preset::WordPress => vec![Coding::Brotli, Coding::Gzip],
        Preset::None => Vec::new(),
    };
    let codings = options.get::<Vec<String>>("compress").map(|words| {
        let codings = words.iter();
        codings
            .filter_map(|word| Coding::parse(word.as_bytes()))
            .collect()
    });
    let types: Vec<String> = options.value("compress_types");
    // The bounds in the option table ensure that the value fits.
    let level = |name| u32::try_from(options.value::<u64>(name)).unwrap_or_default();
    Compress {
        codings: codings.unwrap_or_else(of_preset),
        types: types.iter().map(|text| text.to_ascii_lowercase()).collect(),
        min_bytes: options.value("compress_min"),
        gzip_level: level("gzip_level"),
        brotli_level: level("brotli_level"),
        zstd_level: level("zstd_level"),
        dense_after: options.value("dense_after"),
        passed: options.value("compress_passed"),
    }
}

fn site_rules(
    site: &SiteTables,
    home: Home,
    further: &mut Vec<UpstreamConfig>,
    complaints: &mut Complaints,
) -> Policy {
    let options = &site.options;
    let preset = match options.value::<String>("preset").as_str() {
        "none" => Preset::None,
        _ => Preset::WordPress,
    };
    let policy = Policy::of(preset);
    Policy {
        device_variants: options.value("device_variants"),
        members: match options.value::<String>("members").as_str() {
            "fragments" => MemberPages::Fragments,
            _ => MemberPages::Pass,
        },
        esi: esi(options),
        litespeed: options.value("litespeed"),
        harmless_cookies: options.value("harmless_cookies"),
        vary_cookies: options.value("vary_cookies"),
        bypass_cookies: options.value("bypass_cookies"),
        ignore_query: options.value("ignore_query"),
        ttl: ttl(site, policy.ttl.clone()),
        home,
        changes: headers::changes(options, complaints),
        tag_field: options.get::<FieldName>("tag_header"),
        outer_ttl: options.get("outer_ttl"),
        hsts: redirect::hsts(options, complaints).map(|(_, value)| value),
        dashboard: dashboard::path(options, complaints),
        access: access::site(options, preset, complaints),
        rules: site
            .rules
            .iter()
            .map(|one| {
                let rule = rule(one, options, further, complaints);
                access::reach(one, &rule, policy.urls.spellings, complaints);
                rule
            })
            .collect(),
        ..policy
    }
    .guarded()
}

/// The ESI policy: includes may name the hosts of the site and those in `esi_hosts`.
fn esi(options: &SectionTable) -> Option<EsiPolicy> {
    options.value::<bool>("esi").then(|| {
        let mut hosts: Vec<HostPattern> = options.get("hosts").unwrap_or_default();
        hosts.extend(options.value::<Vec<HostPattern>>("esi_hosts"));
        EsiPolicy { hosts }
    })
}

/// The lifetimes by status: those of the file override those of the preset. Without a preset the RFC decides, so that only
/// the statuses of the file are included.
fn ttl(site: &SiteTables, preset_ttl: TtlTable) -> TtlTable {
    let window = |name, preset| site.ttl.options.get(name).unwrap_or(preset);
    let mut by_status = preset_ttl.by_status;
    for (status, value) in &site.ttl.statuses {
        if let Some(lifetime) = Duration::from_value(value) {
            by_status.retain(|(known, _)| known != status);
            by_status.push((*status, lifetime));
        }
    }
    by_status.sort_unstable();
    TtlTable {
        by_status,
        default: window("default", preset_ttl.default),
        stale_while_revalidate: window("stale_while_revalidate", preset_ttl.stale_while_revalidate),
        stale_if_error: window("stale_if_error", preset_ttl.stale_if_error),
    }
}

fn rule(
    section: &SectionTable,
    site: &SectionTable,
    further: &mut Vec<UpstreamConfig>,
    complaints: &mut Complaints,
) -> Rule {
    check::paths(section, complaints);
    check::not_empty(section, "methods", "a method", complaints);
    check::not_empty(section, "countries", "a country", complaints);
    php::rule(section, site, complaints);
    let ignored: Vec<String> = section.value("ignore");
    let ignores = |word: &str| ignored.iter().any(|one| one == word);
    Rule {
        path: section.get("path").unwrap_or_default(),
        pattern: section.get("pattern"),
        methods: section.get("methods").unwrap_or_default(),
        countries: section.get("countries").unwrap_or_default(),
        cache: section.get("cache"),
        ttl: section.get("ttl"),
        ignore: Ignore {
            cache_control: ignores("cache-control"),
            expires: ignores("expires"),
            set_cookie: ignores("set-cookie"),
            cookie: ignores("cookie"),
            vary: ignores("vary"),
        },
        stream: section.value("stream"),
        stream_request: section.value("stream_request"),
        upstream: match upstream(section, complaints) {
            UpstreamConfig::Files => None,
            other => Some(index_of(other, further)),
        },
        redirect: redirect::of_rule(section, complaints),
        changes: headers::changes(section, complaints),
        request_body: section.get("request_body"),
        timeouts: UpstreamTimeouts {
            first_byte: section.get("first_byte_timeout"),
            read: section.get("read_timeout"),
        },
        access: access::common(section, complaints),
    }
}

/// The index of an upstream in `further`. Equal upstreams have the same index, and so share connections and limits.
fn index_of(upstream: UpstreamConfig, further: &mut Vec<UpstreamConfig>) -> usize {
    further
        .iter()
        .position(|known| *known == upstream)
        .unwrap_or_else(|| {
            further.push(upstream);
            further.len() - 1
        })
}

/// The same as WordPress, which calls its scheduler at most once a minute.
const DEFAULT_CRON_INTERVAL: Duration = Duration::from_secs(60);

/// Four times the default of PHP-FPM, five workers; a typical number for small servers.
const DEFAULT_IN_FLIGHT: usize = 20;
