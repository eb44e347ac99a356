//! Checks of the options for what Galley runs itself: PHP-FPM, or another FastCGI program (`php_command`).

use std::time::Duration;

use crate::check::{not_empty, path};
use crate::complaint::{Complaints, shown};
use crate::config::UpstreamConfig;
use crate::options::OptionSection;
use crate::quantity::write_duration;
use crate::tree::{GivenSite, SectionTable};

/// A worker must not be ended while its request may still begin to answer.
pub(crate) fn timeout(site: &GivenSite, complaints: &mut Complaints) {
    let own = &site.own;
    let first_byte = longest(site);
    let Some(timeout) = own.given::<Duration>("php_timeout") else {
        return;
    };
    if timeout < first_byte {
        let message = format!(
            "`site.php_timeout` is `{}`, but a request may take `{}` before it begins to answer",
            write_duration(timeout),
            write_duration(first_byte)
        );
        complaints.add(
            own.place("php_timeout"),
            "site.php_timeout",
            message,
            "raise `php_timeout`, or lower `first_byte_timeout`",
        );
    }
}

/// How long any request of a site may take before it begins to answer.
pub(crate) fn longest(site: &GivenSite) -> Duration {
    let of_rules = site.rules.iter();
    of_rules
        .filter_map(|rule| rule.given("first_byte_timeout"))
        .fold(site.own.value("first_byte_timeout"), Duration::max)
}

/// `php_command` of a site or a rule: a program, and nothing beside it that is meant for PHP-FPM.
pub(crate) fn command(given: &SectionTable, complaints: &mut Complaints) {
    let has_command = given.has("php_command");
    let in_rule = given.section == OptionSection::SiteRule;
    if in_rule && given.has("php_workers") && !has_command {
        complaints.add(
            given.place("php_workers"),
            path(given, "php_workers"),
            "`site.rule.php_workers` is given, but the rule names no program",
            "add `php_command`, or take it out",
        );
    }
    if !has_command {
        return;
    }
    let option = path(given, "php_command");
    let is_managed = matches!(given.given("php"), Some(UpstreamConfig::Managed));
    if in_rule && !is_managed && given.stands("php") == given.has("php") {
        complaints.add(
            given.place("php_command"),
            &option,
            format!("`{option}` is given, but counts only for a program that Galley runs"),
            "write `php = \"managed\"`, or take it out",
        );
    }
    words(given, &option, complaints);
    for name in OF_FPM.iter().filter(|name| is_managed && given.has(name)) {
        let option = path(given, name);
        let message = format!(
            "`{option}` is given, but counts only for PHP-FPM, and `php_command` names another program"
        );
        complaints.add(
            given.place(name),
            option,
            message,
            "take one of the two out",
        );
    }
}

fn words(given: &SectionTable, option: &str, complaints: &mut Complaints) {
    not_empty(given, "php_command", "a program", complaints);
    let words: Vec<String> = given.given("php_command").unwrap_or_default();
    if let Some(program) = words.first().filter(|program| !program.starts_with('/')) {
        let message = format!(
            "`{option}` begins with {}, which is no absolute path",
            shown(program)
        );
        complaints.add(
            given.place("php_command"),
            option,
            message,
            "give the program with its folder, and each argument as a text of its own: `[\"/usr/bin/php-cgi\", \"-d\", \"memory_limit=64M\"]`",
        );
    }
}

/// Whether a rule has a program of its own.
pub(crate) fn runs_program(rule: &SectionTable) -> bool {
    rule.has("php_command")
}

/// Options of what Galley runs, whichever program it is.
pub(crate) const OF_MANAGED: &[&str] = &["php_workers", "php_command", "php_user"];

/// Options of PHP-FPM alone.
pub(crate) const OF_FPM: &[&str] = &["php_binary", "php_timeout", "php_memory_limit"];
