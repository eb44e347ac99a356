//! Checks of the options for programs that Galley runs: PHP-FPM, or another FastCGI program (`php_command`).

use std::time::Duration;

use crate::check::not_empty;
use crate::complaint::{Complaints, shown};
use crate::options::OptionSection;
use crate::quantity::write_duration;
use crate::tree::{GivenSite, SectionTable};
use crate::upstream::{ManagedPhp, PhpSandbox, PhpWritable, UpstreamConfig};

/// Checks that a site has a source of responses, and that PHP has a root.
pub(crate) fn upstream(given: &GivenSite, upstream: &UpstreamConfig, complaints: &mut Complaints) {
    let own = &given.own;
    let (has_root, has_php) = (own.has("root"), own.has("php"));
    if !has_root && !has_php && !own.has("upstream") {
        let message =
            "the site has neither `root` nor `php` nor `upstream`, so it cannot serve anything";
        let help = "add `root` and `php`, or `upstream`";
        complaints.add(&own.place, "site.root", message, help);
    }
    if has_php && !has_root {
        needs_root(own, upstream, complaints);
    }
    for name in OF_MANAGED.iter().chain(OF_FPM).copied() {
        // A rule's program runs as the site's user.
        let applies =
            upstream.is_managed() || (name == "php_user" && given.rules.iter().any(runs_program));
        if own.has_value(name) && !applies && own.has_value("php") == has_php {
            let why = "is given, but applies only to a PHP that Galley runs";
            let help = "write `php = \"managed\"`, or remove it";
            own.complain(name, why, help, complaints);
        }
    }
    timeout(given, complaints);
}

fn needs_root(given: &SectionTable, php: &UpstreamConfig, complaints: &mut Complaints) {
    let text = match php {
        UpstreamConfig::Managed | UpstreamConfig::Program(_) => "`managed`",
        _ => "given",
    };
    let why =
        format!("is {text}, but the site has no `root`, and PHP needs the path of the script");
    let help = "add `root = \"/var/www/example.com\"` to the site";
    given.complain("php", why, help, complaints);
}

/// The options of a PHP that Galley runs.
pub(crate) fn managed(site: &GivenSite, complaints: &mut Complaints) -> ManagedPhp {
    let own = &site.own;
    ManagedPhp {
        workers: own.value("php_workers"),
        timeout: own
            .given("php_timeout")
            .unwrap_or_else(|| longest(site).max(TIMEOUT)),
        memory_limit: own.given("php_memory_limit"),
        user: own.given("php_user"),
        binary: own.given("php_binary"),
        sandbox: sandbox(own, complaints),
        memory_high: own.given("php_memory_high"),
        pids_max: pids_max(own, complaints),
    }
}

/// The maximum number of processes, which must be enough for all workers and the master.
fn pids_max(own: &SectionTable, complaints: &mut Complaints) -> Option<u64> {
    let most = own.given("php_pids_max")?;
    let workers: u64 = own.value("php_workers");
    if workers >= most {
        let why = format!("is `{most}`, but there are `{workers}` workers and a master process");
        let help = "raise it, or lower `php_workers`";
        own.complain("php_pids_max", why, help, complaints);
    }
    Some(most)
}

/// The sandbox of PHP-FPM, if it has one.
fn sandbox(own: &SectionTable, complaints: &mut Complaints) -> Option<PhpSandbox> {
    let writable = match own.value::<String>("php_sandbox").as_str() {
        "root" => PhpWritable::Root,
        "wp-content" => PhpWritable::Content,
        _ => {
            // These options are rejected for another PHP anyway.
            if matches!(own.given("php"), Some(UpstreamConfig::Managed)) {
                let why = "is given, but `php_sandbox` is `off`";
                let help = "write `php_sandbox = \"root\"`, or remove it";
                own.complain_of_given(OF_SANDBOX, why, help, complaints);
            }
            return None;
        }
    };
    let ports: Option<Vec<u64>> = own.given("php_connect_ports");
    let ports = ports.map(|all| {
        // The bounds in the option table ensure that the values fit.
        let all = all.into_iter().filter_map(|port| u16::try_from(port).ok());
        all.collect()
    });
    Some(PhpSandbox {
        writable,
        paths: own.value("php_paths"),
        connect_ports: ports,
    })
}

/// Complains about a rule that contradicts itself, or that needs PHP on a site without a root.
pub(crate) fn rule(given: &SectionTable, site: &SectionTable, complaints: &mut Complaints) {
    if let Some(php) = given.given::<UpstreamConfig>("php")
        && !site.has("root")
    {
        needs_root(given, &php, complaints);
    }
    let runs_php = matches!(site.given("php"), Some(UpstreamConfig::Managed));
    let is_managed = matches!(given.given("php"), Some(UpstreamConfig::Managed));
    if is_managed && !runs_php && !runs_program(given) {
        let why = "is `managed`, but Galley runs no PHP for this site";
        let help =
            "write `php = \"managed\"` in the site, or give the rule a socket or a `php_command`";
        given.complain("php", why, help, complaints);
    }
    if given.given("cache") == Some(false) && given.has("ttl") {
        let why = "is given together with `cache = false`, but responses that are never stored have no lifetime";
        given.complain("ttl", why, "remove one of the two", complaints);
    }
}

/// Complains if PHP-FPM would end a worker while its request may still start to respond.
fn timeout(site: &GivenSite, complaints: &mut Complaints) {
    let own = &site.own;
    let first_byte = longest(site);
    let Some(timeout) = own.given::<Duration>("php_timeout") else {
        return;
    };
    if timeout < first_byte {
        let why = format!(
            "is `{}`, but a request may take `{}` before it begins to answer",
            write_duration(timeout),
            write_duration(first_byte)
        );
        let help = "raise `php_timeout`, or lower `first_byte_timeout`";
        own.complain("php_timeout", why, help, complaints);
    }
}

/// The longest `first_byte_timeout` of a site and its rules.
pub(crate) fn longest(site: &GivenSite) -> Duration {
    let of_rules = site.rules.iter();
    of_rules
        .filter_map(|rule| rule.given("first_byte_timeout"))
        .fold(site.own.value("first_byte_timeout"), Duration::max)
}

/// Checks `php_command` of a site or a rule: a program, without options that only apply to PHP-FPM.
pub(crate) fn command(given: &SectionTable, complaints: &mut Complaints) {
    let has_command = given.has("php_command");
    let in_rule = given.section == OptionSection::SiteRule;
    if in_rule && given.has("php_workers") && !has_command {
        let why = "is given, but the rule names no program";
        let help = "add `php_command`, or remove it";
        given.complain("php_workers", why, help, complaints);
    }
    if !has_command {
        return;
    }
    let is_managed = matches!(given.given("php"), Some(UpstreamConfig::Managed));
    if in_rule && !is_managed && given.has_value("php") == given.has("php") {
        let why = "is given, but applies only to a program that Galley runs";
        let help = "write `php = \"managed\"`, or remove it";
        given.complain("php_command", why, help, complaints);
    }
    words(given, complaints);
    if is_managed {
        let why = "is given, but applies only to PHP-FPM, and `php_command` names another program";
        given.complain_of_given(OF_FPM, why, "remove one of the two", complaints);
    }
}

fn words(given: &SectionTable, complaints: &mut Complaints) {
    not_empty(given, "php_command", "a program", complaints);
    let words: Vec<String> = given.given("php_command").unwrap_or_default();
    if let Some(program) = words.first().filter(|program| !program.starts_with('/')) {
        let why = format!(
            "begins with {}, which is not an absolute path",
            shown(program)
        );
        let help = "give the program with its folder, and each argument as a separate string: `[\"/usr/bin/php-cgi\", \"-d\", \"memory_limit=64M\"]`";
        given.complain("php_command", why, help, complaints);
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
