//! Turns the [`Document`] into the [`Config`]: reads every option, here or in `site`, and checks combinations of options.
//!
//! The result is always a configuration; the caller discards it if there are diagnostics.

use crate::acme;
use crate::check;
use crate::cluster;
use crate::config::{AdminConfig, Cache, CacheDisk, Config};
use crate::config_files::ConfigFiles;
use crate::dashboard;
use crate::diagnostic::Diagnostics;
use crate::listen::AdminListen;
use crate::log::{LogConfig, LogFormat, LogLevel, LogTarget, OtlpConfig};
use crate::log_field::{KnownField, LogField};
use crate::machine::Environment;
use crate::names;
use crate::object_cache::ObjectContext;
use crate::quantity::write_size;
use crate::server;
use crate::site;
use crate::tls;
use crate::tree::{Document, SectionTable};

/// Checks the whole document, and returns the configuration or all diagnostics.
pub(crate) fn finish(
    mut document: Document,
    environment: &Environment,
) -> Result<Config, Diagnostics> {
    let mut config = assemble(&mut document, environment);
    config.warnings = document.diagnostics.take_warnings();
    if document.diagnostics.is_empty() {
        config.origin = Some(ConfigFiles::new(document));
        Ok(config)
    } else {
        Err(document.diagnostics.sorted())
    }
}

/// The admin interface that a document defines, even if parts are invalid, and the diagnostics.
pub(crate) fn admin_of(
    mut document: Document,
    environment: &Environment,
) -> (AdminConfig, Diagnostics) {
    let admin = assemble(&mut document, environment).admin;
    (admin, document.diagnostics.sorted())
}

/// The configuration that a document defines. Adds diagnostics to those of the document.
fn assemble(document: &mut Document, environment: &Environment) -> Config {
    let mut diagnostics = std::mem::take(&mut document.diagnostics);
    let cache = cache(&document.cache, environment, &mut diagnostics);
    let largest = server::largest_body(document);
    let server = server::server(&document.server, largest, &cache, &mut diagnostics);
    let names = names::names(
        &document.sites,
        [&server.listen, &server.listen_tls],
        &mut diagnostics,
    );
    let cluster = cluster::cluster(&document.cluster, &mut diagnostics);
    let context = site::SiteContext {
        objects: ObjectContext::new(cache.memory, cluster.as_ref()),
        listen: &server.listen,
        listen_tls: &server.listen_tls,
        now: environment.now,
        known: &environment.known,
        request_body: server.request_body,
        folder: document.files.first().and_then(|file| file.parent()),
        names: &names,
    };
    let sites = document.sites.iter().zip(&names);
    let sites: Vec<_> = sites
        .map(|(tables, name)| site::site(tables, name.clone(), &context, &mut diagnostics))
        .collect();
    let wants_acme = sites.iter().any(|site| site.has_auto_tls);
    let acme = acme::acme(&document.acme, environment, &mut diagnostics);
    let challenges = acme.challenges.clone();
    if wants_acme && cluster.as_ref().is_some_and(|one| one.key_file.is_none()) {
        cluster::warn_of_certificates(&document.cluster, &mut diagnostics);
    }
    let config = Config {
        cluster,
        acme: wants_acme.then_some(acme),
        admin: admin(&document.admin, environment, &mut diagnostics),
        cache,
        log: log(&document.log, &mut diagnostics),
        warnings: Vec::new(),
        files: std::mem::take(&mut document.files),
        patterns: std::mem::take(&mut document.patterns),
        server,
        sites,
        origin: None,
        kept: Vec::new(),
    };
    if config.sites.is_empty() && !document.is_incomplete {
        let message = "there is no `[[site]]`, so nothing could be served";
        diagnostics.add(&document.whole, "site", message, NO_SITE);
    }
    for (tables, site) in document.sites.iter().zip(&config.sites) {
        if site.has_auto_tls {
            acme::hosts(&tables.options, &challenges, &mut diagnostics);
        }
        if config.server.geoip.is_none() {
            check::countries(tables, &mut diagnostics);
        }
        check::outer_countries(tables, &mut diagnostics);
        dashboard::admin(&tables.options, &config.admin.listen, &mut diagnostics);
        if config.cluster.is_none() {
            check::shared_limits(tables, &mut diagnostics);
        }
    }
    let wants_country = |field: &LogField| *field == LogField::Known(KnownField::Country);
    if config.server.geoip.is_none() && config.log.fields.iter().any(wants_country) {
        document.log.report(
            "fields",
            check::NO_GEOIP,
            check::NAME_GEOIP,
            &mut diagnostics,
        );
    }
    check::hosts(&document.sites, &config.sites, &mut diagnostics);
    tls::listeners(document, &config.sites, &mut diagnostics);
    check::admin_address(&document.admin, &config, &mut diagnostics);
    server::check(document, &config, &mut diagnostics);
    document.diagnostics = diagnostics;
    config
}

fn admin(
    section: &SectionTable,
    environment: &Environment,
    diagnostics: &mut Diagnostics,
) -> AdminConfig {
    check::token_file(section, "token_file", diagnostics);
    let listen: Option<AdminListen> = section.get("listen");
    if let Some(AdminListen::Tcp(address)) = listen
        && !section.has("token_file")
    {
        let why = format!(
            "is `{address}`, which every user of the machine can connect to, but `token_file` is missing"
        );
        let help =
            "add `token_file = \"...\"`, or listen on a socket: `unix:/run/galley/admin.sock`";
        section.report("listen", why, help, diagnostics);
    }
    AdminConfig {
        listen: listen.unwrap_or_else(|| AdminListen::Unix(environment.runtime.join("admin.sock"))),
        token_file: section.get("token_file"),
    }
}

fn cache(
    section: &SectionTable,
    environment: &Environment,
    diagnostics: &mut Diagnostics,
) -> Cache {
    let memory = section
        .get("memory")
        .unwrap_or_else(|| (environment.memory / 4).max(MIN_MEMORY));
    let max_object = match section.get::<u64>("max_object") {
        Some(bytes) => bytes,
        None => (memory / 4).min(MAX_OBJECT),
    };
    let cache = Cache {
        memory,
        memory_per_site: section.get("memory_per_site"),
        max_object,
        max_file: section
            .get("max_file")
            .unwrap_or_else(|| (memory / 128).clamp(MIN_MAX_FILE, MOST_MAX_FILE)),
        disk: disk(section),
    };
    check_cache(section, &cache, diagnostics);
    check_memory_per_site(section, &cache, diagnostics);
    cache
}

fn disk(section: &SectionTable) -> Option<CacheDisk> {
    section.get("disk").map(|path| CacheDisk {
        path,
        bytes: section.value("disk_size"),
        site_bytes: section.get("disk_size_per_site"),
        inactive: section.value("inactive"),
    })
}

/// Options of the disk require `disk`, and the cache must have enough memory or disk for the largest page.
fn check_cache(section: &SectionTable, cache: &Cache, diagnostics: &mut Diagnostics) {
    if cache.disk.is_none() {
        let why = "is set, but `cache.disk` is not, so Galley stores nothing on disk";
        let help = "add `disk = \"/var/cache/galley\"`, or remove the line";
        let options = ["disk_size", "disk_size_per_site", "inactive"];
        section.report_each(&options, why, help, diagnostics);
    }
    let on_disk = cache.disk.as_ref().map_or(0, |disk| disk.bytes / 2);
    if cache.max_object > on_disk.max(cache.memory) {
        let why = format!(
            "is `{}`, but `cache.memory` is `{}`",
            write_size(cache.max_object),
            write_size(cache.memory)
        );
        let help =
            "lower `max_object`, raise `memory`, or set `disk` and a `disk_size` of twice as much";
        section.report("max_object", why, help, diagnostics);
    }
}

/// The limit of one site cannot exceed the whole memory.
fn check_memory_per_site(section: &SectionTable, cache: &Cache, diagnostics: &mut Diagnostics) {
    if cache
        .memory_per_site
        .is_some_and(|most| most > cache.memory)
    {
        let why = format!(
            "is more than `cache.memory`, which is `{}`",
            write_size(cache.memory)
        );
        let help = "lower `memory_per_site`, raise `memory`, or remove the line";
        section.report("memory_per_site", why, help, diagnostics);
    }
}

fn log(section: &SectionTable, diagnostics: &mut Diagnostics) -> LogConfig {
    check::log_folders(section, diagnostics);
    let format = match section.value::<String>("format").as_str() {
        "json" => LogFormat::Json,
        "ecs" => LogFormat::Ecs,
        _ => LogFormat::Combined,
    };
    let fields = log_fields(section, format, diagnostics);
    LogConfig {
        access: section.value::<LogTarget>("access"),
        format,
        fields,
        error: section.value("error"),
        level: level(&section.value::<String>("level")),
        otlp: otlp(section, diagnostics),
    }
}

/// `None` if no collector is configured.
fn otlp(section: &SectionTable, diagnostics: &mut Diagnostics) -> Option<OtlpConfig> {
    let Some(collector) = section.get("otlp") else {
        let why = "has no effect without `otlp`";
        let help = "add `otlp = \"http://127.0.0.1:4318\"`, or remove the line";
        section.report_each(&["otlp_sample", "trace_parent"], why, help, diagnostics);
        return None;
    };
    Some(OtlpConfig {
        collector,
        percent: u8::try_from(section.value::<u64>("otlp_sample")).unwrap_or(100),
        continues_any: section.value::<String>("trace_parent") == "any",
    })
}

/// The level for one of the words in the option's row.
fn level(word: &str) -> LogLevel {
    match word {
        "error" => LogLevel::Error,
        "warn" => LogLevel::Warn,
        "debug" => LogLevel::Debug,
        "trace" => LogLevel::Trace,
        _ => LogLevel::Info,
    }
}

/// The configured fields of access lines; empty: those of the format.
fn log_fields(
    section: &SectionTable,
    format: LogFormat,
    diagnostics: &mut Diagnostics,
) -> Vec<LogField> {
    let fields: Vec<LogField> = section.get("fields").unwrap_or_default();
    if !fields.is_empty() && format == LogFormat::Combined {
        let why = "applies only to `json` and `ecs`, but the format is `combined`";
        let help = "add `format = \"json\"` or `format = \"ecs\"`, or remove the line";
        section.report("fields", why, help, diagnostics);
    }
    let mut numbered = fields.iter().enumerate();
    if numbered.any(|(index, field)| fields.iter().take(index).any(|one| one == field)) {
        let help = "name each field once";
        section.report("fields", "contains a field twice", help, diagnostics);
    }
    if fields.len() > MAX_LOG_FIELDS {
        let why = format!("contains more than {MAX_LOG_FIELDS} fields");
        section.report("fields", why, "remove some", diagnostics);
    }
    fields
}

const NO_SITE: &str = "add a `[[site]]` with `hosts`, `root` and `php`, or start without a file: `galley run --root DIR`";
/// The minimum that the option table allows.
const MIN_MEMORY: u64 = 16 << 20;

/// The maximum number of fields: enough for all known fields and many header fields.
const MAX_LOG_FIELDS: usize = 40;
const MAX_OBJECT: u64 = 64 << 20;

/// The limits of the computed `max_file`. A file may use a sixteenth of the memory of all files.
const MIN_MAX_FILE: u64 = 2 << 20;
const MOST_MAX_FILE: u64 = 16 << 20;
