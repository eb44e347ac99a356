//! Checks of the options for programs that Galley runs: PHP-FPM, or another FastCGI program (`php_command`).

use std::time::Duration;

use crate::check::not_empty;
use crate::diagnostic::{Diagnostics, shown};
use crate::options::OptionSection;
use crate::quantity::write_duration;
use crate::tree::{SectionTable, SiteTables};
use crate::upstream::{ManagedPhp, PhpSandbox, PhpWritable, UpstreamConfig};

/// Checks that a site has a source of responses, and that PHP has a root.
pub(crate) fn upstream(
    site: &SiteTables,
    upstream: &UpstreamConfig,
    diagnostics: &mut Diagnostics,
) {
    let options = &site.options;
    let (has_root, has_php) = (options.has("root"), options.has("php"));
    if !has_root && !has_php && !options.has("upstream") {
        let message =
            "the site has neither `root` nor `php` nor `upstream`, so it cannot serve anything";
        let help = "add `root` and `php`, or `upstream`";
        diagnostics.add(&options.position, "site.root", message, help);
    }
    if has_php && !has_root {
        needs_root(options, upstream, diagnostics);
    }
    if options.has_value("php") == has_php {
        only_if_managed(site, upstream, diagnostics);
    }
    timeout(site, diagnostics);
}

/// Reports the options that apply only to a PHP that Galley runs.
fn only_if_managed(site: &SiteTables, upstream: &UpstreamConfig, diagnostics: &mut Diagnostics) {
    for name in OF_MANAGED.iter().chain(OF_FPM).copied() {
        // A rule's program runs as the site's user.
        let applies =
            upstream.is_managed() || (name == "php_user" && site.rules.iter().any(runs_program));
        if site.options.has_value(name) && !applies {
            let why = "is given, but applies only to a PHP that Galley runs";
            let help = "write `php = \"managed\"`, or remove it";
            site.options.report(name, why, help, diagnostics);
        }
    }
}

fn needs_root(section: &SectionTable, php: &UpstreamConfig, diagnostics: &mut Diagnostics) {
    let text = match php {
        UpstreamConfig::Managed | UpstreamConfig::Program(_) => "`managed`",
        _ => "given",
    };
    let why =
        format!("is {text}, but the site has no `root`, and PHP needs the path of the script");
    let help = "add `root = \"/var/www/example.com\"` to the site";
    section.report("php", why, help, diagnostics);
}

/// The options of a PHP that Galley runs.
pub(crate) fn managed(site: &SiteTables, diagnostics: &mut Diagnostics) -> ManagedPhp {
    let options = &site.options;
    ManagedPhp {
        workers: options.value("php_workers"),
        timeout: options
            .get("php_timeout")
            .unwrap_or_else(|| longest(site).max(TIMEOUT)),
        memory_limit: options.get("php_memory_limit"),
        user: options.get("php_user"),
        binary: options.get("php_binary"),
        sandbox: sandbox(options, diagnostics),
        memory_high: options.get("php_memory_high"),
        pids_max: pids_max(options, diagnostics),
    }
}

/// The maximum number of processes, which must be enough for all workers and the master.
fn pids_max(options: &SectionTable, diagnostics: &mut Diagnostics) -> Option<u64> {
    let most = options.get("php_pids_max")?;
    let workers: u64 = options.value("php_workers");
    if workers >= most {
        let why = format!("is `{most}`, but there are `{workers}` workers and a master process");
        let help = "raise it, or lower `php_workers`";
        options.report("php_pids_max", why, help, diagnostics);
    }
    Some(most)
}

/// The sandbox of PHP-FPM, if it has one.
fn sandbox(options: &SectionTable, diagnostics: &mut Diagnostics) -> Option<PhpSandbox> {
    let writable = match options.value::<String>("php_sandbox").as_str() {
        "root" => PhpWritable::Root,
        "wp-content" => PhpWritable::Content,
        _ => {
            // These options are rejected for another PHP anyway.
            if matches!(options.get("php"), Some(UpstreamConfig::Managed)) {
                let why = "is given, but `php_sandbox` is `off`";
                let help = "write `php_sandbox = \"root\"`, or remove it";
                options.report_each(OF_SANDBOX, why, help, diagnostics);
            }
            return None;
        }
    };
    let ports: Option<Vec<u64>> = options.get("php_connect_ports");
    let ports = ports.map(|all| {
        // The bounds in the option table ensure that the values fit.
        let all = all.into_iter().filter_map(|port| u16::try_from(port).ok());
        all.collect()
    });
    Some(PhpSandbox {
        writable,
        paths: options.value("php_paths"),
        connect_ports: ports,
    })
}

/// Reports a rule that contradicts itself, or that needs PHP on a site without a root.
pub(crate) fn rule(section: &SectionTable, site: &SectionTable, diagnostics: &mut Diagnostics) {
    if let Some(php) = section.get::<UpstreamConfig>("php")
        && !site.has("root")
    {
        needs_root(section, &php, diagnostics);
    }
    let runs_php = matches!(site.get("php"), Some(UpstreamConfig::Managed));
    let is_managed = matches!(section.get("php"), Some(UpstreamConfig::Managed));
    if is_managed && !runs_php && !runs_program(section) {
        let why = "is `managed`, but Galley runs no PHP for this site";
        let help =
            "write `php = \"managed\"` in the site, or give the rule a socket or a `php_command`";
        section.report("php", why, help, diagnostics);
    }
    if section.get("cache") == Some(false) && section.has("ttl") {
        let why = "is given together with `cache = false`, but responses that are never stored have no lifetime";
        section.report("ttl", why, "remove one of the two", diagnostics);
    }
}

/// Reports an error if PHP-FPM would end a worker while its request may still start to respond.
fn timeout(site: &SiteTables, diagnostics: &mut Diagnostics) {
    let options = &site.options;
    let first_byte = longest(site);
    let Some(timeout) = options.get::<Duration>("php_timeout") else {
        return;
    };
    if timeout < first_byte {
        let why = format!(
            "is `{}`, but a request may take `{}` before it begins to answer",
            write_duration(timeout),
            write_duration(first_byte)
        );
        let help = "raise `php_timeout`, or lower `first_byte_timeout`";
        options.report("php_timeout", why, help, diagnostics);
    }
}

/// The longest `first_byte_timeout` of a site and its rules.
pub(crate) fn longest(site: &SiteTables) -> Duration {
    let of_rules = site.rules.iter();
    of_rules
        .filter_map(|rule| rule.get("first_byte_timeout"))
        .fold(site.options.value("first_byte_timeout"), Duration::max)
}

/// Checks `php_command` of a site or a rule: a program, without options that only apply to PHP-FPM.
pub(crate) fn command(section: &SectionTable, diagnostics: &mut Diagnostics) {
    let has_command = section.has("php_command");
    let in_rule = section.kind == OptionSection::SiteRule;
    if in_rule && section.has("php_workers") && !has_command {
        let why = "is given, but the rule names no program";
        let help = "add `php_command`, or remove it";
        section.report("php_workers", why, help, diagnostics);
    }
    if !has_command {
        return;
    }
    let is_managed = matches!(section.get("php"), Some(UpstreamConfig::Managed));
    if in_rule && !is_managed && section.has_value("php") == section.has("php") {
        let why = "is given, but applies only to a program that Galley runs";
        let help = "write `php = \"managed\"`, or remove it";
        section.report("php_command", why, help, diagnostics);
    }
    words(section, diagnostics);
    if is_managed {
        let why = "is given, but applies only to PHP-FPM, and `php_command` names another program";
        section.report_each(OF_FPM, why, "remove one of the two", diagnostics);
    }
}

fn words(section: &SectionTable, diagnostics: &mut Diagnostics) {
    not_empty(section, "php_command", "a program", diagnostics);
    let words: Vec<String> = section.get("php_command").unwrap_or_default();
    if let Some(program) = words.first().filter(|program| !program.starts_with('/')) {
        let why = format!(
            "begins with {}, which is not an absolute path",
            shown(program)
        );
        let help = "give the program with its folder, and each argument as a separate string: `[\"/usr/bin/php-cgi\", \"-d\", \"memory_limit=64M\"]`";
        section.report("php_command", why, help, diagnostics);
    }
}

/// Whether a rule has a separate program.
fn runs_program(rule: &SectionTable) -> bool {
    rule.has("php_command")
}

/// Options of all programs that Galley runs.
const OF_MANAGED: &[&str] = &["php_workers", "php_command", "php_user"];

/// Options of PHP-FPM only.
const OF_FPM: &[&str] = &[
    "php_binary",
    "php_timeout",
    "php_memory_limit",
    "php_sandbox",
    "php_paths",
    "php_connect_ports",
    "php_memory_high",
    "php_pids_max",
];

/// Options that require `php_sandbox`.
const OF_SANDBOX: &[&str] = &["php_paths", "php_connect_ports"];

/// The time limit that WordPress sets during an update (`set_time_limit( 300 )`).
const TIMEOUT: Duration = Duration::from_secs(300);
