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
use crate::tree::{GivenSite, SectionTable};
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
    given: &GivenSite,
    context: &SiteContext<'_>,
    complaints: &mut Complaints,
) -> SiteConfig {
    let own = &given.own;
    check_hosts(own, complaints);
    check::listeners(own, complaints);
    check::root(own, complaints);
    check::error_page(own, "error_page", own.given("error_page"), complaints);
    check::token_file(own, "token_file", complaints);
    check::token_file(own, "purge_secret_file", complaints);
    check::applications(own, complaints);
    check::log_folders(&given.log, complaints);
    let hosts: Vec<HostPattern> = own.given("hosts").unwrap_or_default();
    let upstream = upstream(own, complaints);
    php::upstream(given, &upstream, complaints);
    let mut further = Vec::new();
    let home = redirect::home(own, &hosts, context.listen_tls, complaints);
    let rules = site_rules(given, home, &mut further, complaints);
    let cron = cron(own, no_cron(&hosts, &upstream, rules.preset), complaints);
    SiteConfig {
        dashboard_auth: own.given("dashboard_auth"),
        token_file: token_file(given, context, &hosts, complaints),
        name: hosts.first().map_or_else(String::new, check::host_text),
        listen: listeners(own, "listen", context.listen),
        listen_tls: if own.has("tls") {
            listeners(own, "listen_tls", context.listen_tls)
        } else {
            Vec::new()
        },
        certificates: tls::certificates(own, &hosts, context.now, context.known, complaints),
        upstream_tls: tls::upstream(own, uses_tls(&upstream, &further), complaints),
        root: own.given::<PathBuf>("root"),
        allow_files: allow_files(own),
        image_siblings: image_siblings(own),
        early_hints: own.value("early_hints"),
        balancing: balance::balancing(own, complaints),
        limits: limits(own, &upstream),
        upstream,
        further,
        compress: compress(own, rules.preset),
        nginx_cache_path: nginx_cache_path(own, rules.preset, complaints),
        rules,
        error_page: own.given("error_page"),
        error_pages: error_pages(given, complaints),
        request_body: own.given("request_body").unwrap_or(context.request_body),
        purge_allow: own.value("purge_allow"),
        purge_secret_file: own.given("purge_secret_file"),
        purge_get: own.value("purge_get"),
        purge_directory: own.given("purge_directory"),
        purge_forward: forward_check::read(own, &hosts, complaints),
        multisite: own.value("multisite"),
        cron,
        upgrade: upgrade(own, complaints),
        managed: php::managed(given, complaints),
        has_auto_tls: tls::is_auto(own),
        access: given.log.given("access"),
        errors: given.log.given("error"),
        hosts,
    }
}

/// Checks that the site has hosts.
fn check_hosts(own: &SectionTable, complaints: &mut Complaints) {
    check::required(
        own,
        "hosts",
        "add `hosts = [\"example.com\"]`, or `hosts = [\"*\"]` for every host",
        complaints,
    );
    check::not_empty(
        own,
        "hosts",
        "a host, or `\"*\"` for every host",
        complaints,
    );
}

/// The listeners of the site, otherwise those of the server.
fn listeners(own: &SectionTable, name: &str, server: &[Listen]) -> Vec<Listen> {
    own.given(name).unwrap_or_else(|| server.to_owned())
}

fn uses_tls(upstream: &UpstreamConfig, further: &[UpstreamConfig]) -> bool {
    let mut all = further.iter().chain([upstream]);
    all.any(|one| matches!(one, UpstreamConfig::Http(servers) if servers.iter().any(|one| one.tls)))
}

/// `upgrade` of a site. Complains about protocols that would let requests bypass Galley.
fn upgrade(own: &SectionTable, complaints: &mut Complaints) -> Vec<String> {
    let all: Vec<String> = own.value("upgrade");
    let placed: Vec<(SourceSpan, String)> = own.given("upgrade").unwrap_or_default();
    for (place, name) in placed {
        if let Some((why, help)) = no_upgrade(&name) {
            let message = format!("`site.upgrade` names `{name}`, {why}");
            complaints.add(&place, "site.upgrade", message, help);
        }
    }
    all.iter().map(|name| name.to_ascii_lowercase()).collect()
}

/// Why connections may not switch to a protocol, and the remedy.
fn no_upgrade(protocol: &str) -> Option<(&'static str, &'static str)> {
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
    given: &GivenSite,
    context: &SiteContext<'_>,
    hosts: &[HostPattern],
    complaints: &mut Complaints,
) -> Option<PathBuf> {
    let own = &given.own;
    if own.has("token_file") {
        return own.given("token_file");
    }
    let usual = default_token_file(context.folder?, hosts.first()?);
    usual.symlink_metadata().ok()?;
    check::token_at(own, "token_file", &own.place, &usual, complaints);
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
fn upstream(given: &SectionTable, complaints: &mut Complaints) -> UpstreamConfig {
    let prefix = given.section.prefix();
    if given.has("php") && given.has("upstream") {
        let message = format!(
            "`{prefix}.php` and `{prefix}.upstream` are both given, but only one of them can generate the pages"
        );
        let help = "keep `php` for PHP-FPM, or `upstream` for a web server with PHP in it";
        let place = given.position("upstream");
        complaints.add(place, given.path("upstream"), message, help);
    }
    check::not_empty(given, "upstream", "a URL", complaints);
    php::command(given, complaints);
    let upstream = match (given.given("php"), given.given("php_command")) {
        (Some(UpstreamConfig::Managed), Some(command)) => UpstreamConfig::Program(Program {
            command,
            workers: given.value("php_workers"),
        }),
        (Some(php), _) => php,
        (None, _) => given
            .given::<Vec<HttpUpstream>>("upstream")
            .map_or(UpstreamConfig::Files, UpstreamConfig::Http),
    };
    balance::servers(given, &upstream, complaints);
    upstream
}

fn image_siblings(own: &SectionTable) -> ImageSiblings {
    let word: String = own.value("image_siblings");
    let mut all = ImageSiblings::ALL.into_iter();
    all.find(|one| one.word() == word).unwrap_or_default()
}

fn allow_files(own: &SectionTable) -> Vec<NamePattern> {
    let paths: Vec<String> = own.value("allow_files");
    paths.iter().map(|path| NamePattern::parse(path)).collect()
}

/// Pages for single statuses.
fn error_pages(given: &GivenSite, complaints: &mut Complaints) -> Vec<(u16, PathBuf)> {
    let mut pages = Vec::new();
    for (status, value) in &given.error_pages.statuses {
        let page = PathBuf::from_value(value);
        let option = status.to_string();
        check::error_page(
            &given.error_pages.options,
            &option,
            page.clone(),
            complaints,
        );
        pages.extend(page.map(|page| (*status, page)));
    }
    pages
}

/// How often the scheduled tasks run: by default once a minute if possible. Complains about an interval if it is not possible.
fn cron(own: &SectionTable, obstacle: Option<&str>, complaints: &mut Complaints) -> Pace {
    let given = own.given::<Pace>("cron");
    let Some(obstacle) = obstacle else {
        return given.unwrap_or(Pace::Every(USUAL_CRON));
    };
    if let Some(Pace::Every(_)) = given {
        let why = format!("is given, but {obstacle}");
        own.complain("cron", why, "remove it, or correct that", complaints);
    }
    Pace::Off
}

/// Why Galley cannot run the scheduled tasks of a site.
fn no_cron(
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

fn limits(own: &SectionTable, upstream: &UpstreamConfig) -> UpstreamLimits {
    let in_flight = match (own.value("in_flight"), upstream) {
        (0, UpstreamConfig::Php(_) | UpstreamConfig::Http(_) | UpstreamConfig::Files) => {
            DEFAULT_IN_FLIGHT
        }
        (count, _) => count,
    };
    UpstreamLimits {
        in_flight,
        queue: own.value("queue"),
        queue_timeout: own.value("queue_timeout"),
        lock_age: own.value("lock_age"),
        waiters: own.value("waiters"),
        connect_timeout: own.value("connect_timeout"),
        first_byte_timeout: own.value("first_byte_timeout"),
        read_timeout: own.value("read_timeout"),
        idle_share: own.value("idle_share"),
        idle_age: own.value("idle_age"),
    }
}

/// The folder that imitates nginx's cache. Without a preset some stored responses belong to no fetch, so it is not supported.
fn nginx_cache_path(
    own: &SectionTable,
    preset: Preset,
    complaints: &mut Complaints,
) -> Option<PathBuf> {
    let path: Option<PathBuf> = own.given("nginx_cache_path");
    if path.is_some() && preset == Preset::None {
        let why = "has no effect with `preset = \"none\"`";
        own.complain("nginx_cache_path", why, "remove one of the two", complaints);
    }
    if path.is_some() && path == own.given("purge_directory") {
        let why = "names the folder of `purge_directory`";
        let help = "remove `purge_directory`: removing all files of `nginx_cache_path` purges the site, too";
        own.complain("nginx_cache_path", why, help, complaints);
    }
    path
}

/// The compression of pages. Without a preset the upstream's representations are not changed, unless the file sets it.
fn compress(own: &SectionTable, preset: Preset) -> Compress {
    let of_preset = || match preset {
        Preset::WordPress => vec![Coding::Brotli, Coding::Gzip],
        Preset::None => Vec::new(),
    };
    let codings = own.given::<Vec<String>>("compress").map(|words| {
        let codings = words.iter();
        codings
            .filter_map(|word| Coding::parse(word.as_bytes()))
            .collect()
    });
    let types: Vec<String> = own.value("compress_types");
    // The bounds in the option table ensure that the value fits.
    let level = |name| u32::try_from(own.value::<u64>(name)).unwrap_or_default();
    Compress {
        codings: codings.unwrap_or_else(of_preset),
        types: types.iter().map(|text| text.to_ascii_lowercase()).collect(),
        min_bytes: own.value("compress_min"),
        gzip_level: level("gzip_level"),
        brotli_level: level("brotli_level"),
        zstd_level: level("zstd_level"),
        dense_after: own.value("dense_after"),
        passed: own.value("compress_passed"),
    }
}

fn site_rules(
    given: &GivenSite,
    home: Home,
    further: &mut Vec<UpstreamConfig>,
    complaints: &mut Complaints,
) -> Policy {
    let own = &given.own;
    let preset = match own.value::<String>("preset").as_str() {
        "none" => Preset::None,
        _ => Preset::WordPress,
    };
    let policy = Policy::of(preset);
    Policy {
        device_variants: own.value("device_variants"),
        members: match own.value::<String>("members").as_str() {
            "fragments" => MemberPages::Fragments,
            _ => MemberPages::Pass,
        },
        esi: esi(own),
        litespeed: own.value("litespeed"),
        harmless_cookies: own.value("harmless_cookies"),
        vary_cookies: own.value("vary_cookies"),
        bypass_cookies: own.value("bypass_cookies"),
        ignore_query: own.value("ignore_query"),
        ttl: ttl(given, policy.ttl.clone()),
        home,
        changes: headers::changes(own, complaints),
        tag_field: own.given::<FieldName>("tag_header"),
        outer_ttl: own.given("outer_ttl"),
        hsts: redirect::hsts(own, complaints).map(|(_, value)| value),
        dashboard: dashboard::path(own, complaints),
        access: access::site(own, preset, complaints),
        rules: given
            .rules
            .iter()
            .map(|one| {
                let rule = rule(one, own, further, complaints);
                access::reach(one, &rule, policy.urls.spellings, complaints);
                rule
            })
            .collect(),
        ..policy
    }
    .guarded()
}

/// The ESI policy: includes may name the hosts of the site and those in `esi_hosts`.
fn esi(own: &SectionTable) -> Option<EsiPolicy> {
    own.value::<bool>("esi").then(|| {
        let mut hosts: Vec<HostPattern> = own.given("hosts").unwrap_or_default();
        hosts.extend(own.value::<Vec<HostPattern>>("esi_hosts"));
        EsiPolicy { hosts }
    })
}

/// The lifetimes by status: those of the file override those of the preset. Without a preset the RFC decides, so that only
/// the statuses of the file are included.
fn ttl(given: &GivenSite, preset_ttl: TtlTable) -> TtlTable {
    let window = |name, preset| given.ttl.options.given(name).unwrap_or(preset);
    let mut by_status = preset_ttl.by_status;
    for (status, value) in &given.ttl.statuses {
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
    given: &SectionTable,
    site: &SectionTable,
    further: &mut Vec<UpstreamConfig>,
    complaints: &mut Complaints,
) -> Rule {
    check::paths(given, complaints);
    check::not_empty(given, "methods", "a method", complaints);
    check::not_empty(given, "countries", "a country", complaints);
    php::rule(given, site, complaints);
    let ignored: Vec<String> = given.value("ignore");
    let ignores = |word: &str| ignored.iter().any(|one| one == word);
    Rule {
        path: given.given("path").unwrap_or_default(),
        pattern: given.given("pattern"),
        methods: given.given("methods").unwrap_or_default(),
        countries: given.given("countries").unwrap_or_default(),
        cache: given.given("cache"),
        ttl: given.given("ttl"),
        ignore: Ignore {
            cache_control: ignores("cache-control"),
            expires: ignores("expires"),
            set_cookie: ignores("set-cookie"),
            cookie: ignores("cookie"),
            vary: ignores("vary"),
        },
        stream: given.value("stream"),
        stream_request: given.value("stream_request"),
        upstream: match upstream(given, complaints) {
            UpstreamConfig::Files => None,
            other => Some(index_of(other, further)),
        },
        redirect: redirect::of_rule(given, complaints),
        changes: headers::changes(given, complaints),
        request_body: given.given("request_body"),
        timeouts: UpstreamTimeouts {
            first_byte: given.given("first_byte_timeout"),
            read: given.given("read_timeout"),
        },
        access: access::common(given, complaints),
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
const USUAL_CRON: Duration = Duration::from_secs(60);

/// Four times the default of PHP-FPM, five workers; a typical number for small servers.
const DEFAULT_IN_FLIGHT: usize = 20;
