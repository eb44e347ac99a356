//! One `[[site]]`: converts its options to a [`SiteConfig`].

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use galley_certs::CertificateFiles;
use galley_policy::compress::Compress;
use galley_policy::encoding::Coding;
use galley_policy::headers::FieldName;
use galley_policy::images::ImageSiblings;
use galley_policy::redirect::CanonicalAddress;
use galley_policy::route::HostPattern;
use galley_policy::send_file::InternalFolder;
use galley_policy::site::{
    EsiPolicy, MemberPages, NamePattern, Policy, Preset, SiteFlags, TtlTable,
};

use crate::access;
use crate::audit;
use crate::balance;
use crate::check;
use crate::config::SiteConfig;
use crate::dashboard;
use crate::diagnostic::Diagnostics;
use crate::forward_check;
use crate::headers;
use crate::internal;
use crate::listen::Listen;
use crate::names;
use crate::object_cache;
use crate::php;
use crate::quantity::RunInterval;
use crate::redirect;
use crate::rule;
use crate::tls;
use crate::tree::{SectionTable, SiteTables};
use crate::upgrade;
use crate::upstream::{UpstreamConfig, UpstreamLimits};
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
    /// The names of all sites.
    pub names: &'a [String],
    /// What the object caches of all sites depend on.
    pub objects: object_cache::ObjectContext,
}

/// The configuration of a site.
pub(crate) fn site(
    site: &SiteTables,
    name: String,
    context: &SiteContext<'_>,
    diagnostics: &mut Diagnostics,
) -> SiteConfig {
    let options = &site.options;
    check_hosts(options, diagnostics);
    check::listeners(options, diagnostics);
    check::root(options, diagnostics);
    check::error_page(
        options,
        "error_page",
        options.get("error_page"),
        diagnostics,
    );
    check::token_file(options, "token_file", diagnostics);
    check::token_file(options, "purge_secret_file", diagnostics);
    check::applications(options, diagnostics);
    check::log_folders(&site.log, diagnostics);
    let hosts: Vec<HostPattern> = options.get("hosts").unwrap_or_default();
    let [listen, listen_tls] = names::listeners(options, [context.listen, context.listen_tls]);
    let upstream = rule::upstream(options, diagnostics);
    php::upstream(site, &upstream, diagnostics);
    let mut further = Vec::new();
    let home = redirect::home(options, &hosts, context.listen_tls, diagnostics);
    let policy = site_policy(site, home, &mut further, diagnostics);
    let obstacle = cron_obstacle(&hosts, &upstream, policy.preset);
    let cron = cron(options, obstacle, diagnostics);
    SiteConfig {
        dashboard_auth: options.get("dashboard_auth"),
        token_file: token_file(site, &name, context, &hosts, diagnostics),
        name,
        listen,
        listen_tls,
        certificates: tls::certificates(options, &hosts, context.now, context.known, diagnostics),
        upstream_tls: tls::upstream(options, uses_tls(&upstream, &further), diagnostics),
        root: options.get::<PathBuf>("root"),
        allow_files: allow_files(options),
        link_targets: check::folders(options, "link_targets", diagnostics),
        internal: internal_folders(options, diagnostics),
        image_siblings: image_siblings(options),
        audit: audit::audit(options, &upstream, policy.preset, diagnostics),
        object_cache: object_cache::memory(options, policy.preset, context.objects, diagnostics),
        balancing: balance::balancing(options, diagnostics),
        limits: limits(options, &upstream),
        upstream,
        further,
        compress: compress(options, policy.preset),
        dictionaries: dictionaries(options, policy.preset),
        nginx_cache_path: nginx_cache_path(options, policy.preset, diagnostics),
        policy,
        error_page: options.get("error_page"),
        error_pages: error_pages(site, diagnostics),
        request_body: options.get("request_body").unwrap_or(context.request_body),
        purge_allow: options.value("purge_allow"),
        purge_secret_file: options.get("purge_secret_file"),
        purge_directory: options.get("purge_directory"),
        purge_forward: forward_check::read(options, &hosts, diagnostics),
        cron,
        crawl_delay: options.get("crawl_delay"),
        upgrade: upgrade::protocols(options, diagnostics),
        managed: php::managed(site, diagnostics),
        has_auto_tls: tls::is_auto(options),
        access: site.log.get("access"),
        errors: site.log.get("error"),
        hosts,
    }
}

/// Checks that the site has hosts.
fn check_hosts(options: &SectionTable, diagnostics: &mut Diagnostics) {
    check::required(
        options,
        "hosts",
        "add `hosts = [\"example.com\"]`, or `hosts = [\"*\"]` for every host",
        diagnostics,
    );
    check::not_empty(
        options,
        "hosts",
        "a host, or `\"*\"` for every host",
        diagnostics,
    );
}

fn uses_tls(upstream: &UpstreamConfig, further: &[UpstreamConfig]) -> bool {
    let mut upstreams = further.iter().chain([upstream]);
    upstreams.any(
        |one| matches!(one, UpstreamConfig::Http(servers) if servers.iter().any(|one| one.tls)),
    )
}

/// The token file that the site names, or the default one if it exists: that of its name, otherwise that of one of its hosts.
fn token_file(
    site: &SiteTables,
    name: &str,
    context: &SiteContext<'_>,
    hosts: &[HostPattern],
    diagnostics: &mut Diagnostics,
) -> Option<PathBuf> {
    let options = &site.options;
    if options.has("token_file") {
        return options.get("token_file");
    }
    let folder = context.folder?;
    // The file of another site's name is that site's.
    let is_free = |word: &String| !context.names.contains(word);
    let of_hosts = names::in_order(hosts).map(names::word).filter(is_free);
    let mut usual = std::iter::once(name.to_owned())
        .chain(of_hosts)
        .map(|name| default_token_file(folder, &name));
    let usual = usual.find(|file| file.symlink_metadata().is_ok())?;
    check::token_at(
        options,
        "token_file",
        &options.position,
        &usual,
        diagnostics,
    );
    Some(usual)
}

/// The token file of a site without `token_file`: `tokens/NAME.token` in the configuration's folder.
pub fn default_token_file(folder: &Path, name: &str) -> PathBuf {
    folder.join("tokens").join(format!("{name}.token"))
}

/// The folders of a site. Warns of those that do not exist.
fn internal_folders(options: &SectionTable, diagnostics: &mut Diagnostics) -> Vec<InternalFolder> {
    let folders: Vec<InternalFolder> = options.value("internal");
    for folder in folders.iter().filter_map(|entry| entry.folder.as_deref()) {
        check::folder(options, "internal", folder, diagnostics);
    }
    let is_below_root = |entry: &InternalFolder| entry.folder.is_none();
    if folders.iter().any(is_below_root) && !options.has("root") {
        let why = "names a path below `root`, and the site has no `root`";
        options.report("internal", why.to_owned(), internal::EXAMPLE, diagnostics);
    }
    folders
}

fn image_siblings(options: &SectionTable) -> ImageSiblings {
    let word: String = options.value("image_siblings");
    let mut choices = ImageSiblings::ALL.iter().copied();
    choices.find(|one| one.word() == word).unwrap_or_default()
}

fn allow_files(options: &SectionTable) -> Vec<NamePattern> {
    let paths: Vec<String> = options.value("allow_files");
    paths.iter().map(|path| NamePattern::parse(path)).collect()
}

/// Pages for single statuses.
fn error_pages(site: &SiteTables, diagnostics: &mut Diagnostics) -> Vec<(u16, PathBuf)> {
    let mut pages = Vec::new();
    for (status, value) in &site.error_pages.statuses {
        let page = PathBuf::from_value(value);
        let option = status.to_string();
        check::error_page(
            &site.error_pages.options,
            &option,
            page.clone(),
            diagnostics,
        );
        pages.extend(page.map(|page| (*status, page)));
    }
    pages
}

/// How often the scheduled tasks run: by default once a minute if possible. Reports an interval if it is not possible.
fn cron(
    options: &SectionTable,
    obstacle: Option<&str>,
    diagnostics: &mut Diagnostics,
) -> RunInterval {
    let configured = options.get::<RunInterval>("cron");
    let Some(obstacle) = obstacle else {
        return configured.unwrap_or(RunInterval::Every(DEFAULT_CRON_INTERVAL));
    };
    if let Some(RunInterval::Every(_)) = configured {
        let why = format!("is given, but {obstacle}");
        options.report("cron", why, "remove it, or correct that", diagnostics);
    }
    RunInterval::Off
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
    diagnostics: &mut Diagnostics,
) -> Option<PathBuf> {
    let path: Option<PathBuf> = options.get("nginx_cache_path");
    if path.is_some() && preset == Preset::None {
        let why = "has no effect with `preset = \"none\"`";
        options.report(
            "nginx_cache_path",
            why,
            "remove one of the two",
            diagnostics,
        );
    }
    if path.is_some() && path == options.get("purge_directory") {
        let why = "names the folder of `purge_directory`";
        let help = "remove `purge_directory`: removing all files of `nginx_cache_path` purges the site, too";
        options.report("nginx_cache_path", why, help, diagnostics);
    }
    path
}

/// Whether pages are sent as differences: only over TLS, so a site without certificates does not prepare any.
fn dictionaries(options: &SectionTable, preset: Preset) -> bool {
    let has_tls = tls::is_used(options);
    let by_itself = || has_tls && preset == Preset::WordPress;
    options.get("dictionaries").unwrap_or_else(by_itself)
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
    }
}

fn site_policy(
    site: &SiteTables,
    home: CanonicalAddress,
    further: &mut Vec<UpstreamConfig>,
    diagnostics: &mut Diagnostics,
) -> Policy {
    let options = &site.options;
    let preset = match options.value::<String>("preset").as_str() {
        "none" => Preset::None,
        _ => Preset::WordPress,
    };
    let of_preset = Policy::of(preset);
    Policy {
        members: match options.value::<String>("members").as_str() {
            "fragments" => MemberPages::Fragments,
            _ => MemberPages::Pass,
        },
        flags: SiteFlags::read(|name| options.value(name)),
        esi: esi(options),
        harmless_cookies: options.value("harmless_cookies"),
        vary_cookies: options.value("vary_cookies"),
        bypass_cookies: options.value("bypass_cookies"),
        ignore_query: options.value("ignore_query"),
        ttl: ttl(site, of_preset.ttl.clone()),
        home,
        changes: headers::changes(options, diagnostics),
        tag_field: options.get::<FieldName>("tag_header"),
        outer_ttl: options.get("outer_ttl"),
        hsts: redirect::hsts(options, diagnostics).map(|(_, value)| value),
        dashboard: dashboard::path(options, diagnostics),
        access: access::site(options, preset, diagnostics),
        rules: rule::all(site, of_preset.urls.spellings, further, diagnostics),
        ..of_preset
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

/// The same as WordPress, which calls its scheduler at most once a minute.
const DEFAULT_CRON_INTERVAL: Duration = Duration::from_secs(60);

/// Four times the default of PHP-FPM, five workers; a typical number for small servers.
const DEFAULT_IN_FLIGHT: usize = 20;
