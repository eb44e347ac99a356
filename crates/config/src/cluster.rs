//! `[cluster]`: connecting several nodes by an engine such as Redis.

use crate::check;
use crate::config::{ClusterConfig, SharedPagesConfig};
use crate::diagnostic::Diagnostics;
use crate::tree::SectionTable;

/// `None` if `engine` is missing.
pub(crate) fn cluster(
    section: &SectionTable,
    diagnostics: &mut Diagnostics,
) -> Option<ClusterConfig> {
    check::token_file(section, "password_file", diagnostics);
    check::key_file(section, "key_file", diagnostics);
    let Some(engine) = section.get::<String>("engine") else {
        let why = "has no effect without `engine`";
        let help = "add `engine = \"redis://host:6379\"`, or remove the section";
        section.report_each(OTHERS, why, help, diagnostics);
        return None;
    };
    check_engine(section, &engine, diagnostics);
    check_pages(section, diagnostics);
    let node = section.get("node").unwrap_or_else(host_name);
    Some(ClusterConfig {
        pages: pages(section),
        key_file: section.get("key_file"),
        engine,
        password_file: section.get("password_file"),
        name: checked_name(section, "name", section.value("name"), diagnostics),
        node: checked_name(section, "node", node, diagnostics),
        serve_through_partitions: section.value::<String>("on_partition") == "serve",
    })
}

/// Options of shared pages require the key.
fn check_pages(section: &SectionTable, diagnostics: &mut Diagnostics) {
    if !section.has("key_file") {
        let why = "has no effect without `key_file`";
        let help = "add `key_file`: nodes share only pages that they can authenticate";
        section.report_each(&["pages", "pages_lifetime"], why, help, diagnostics);
    }
}

/// The URL must have a supported scheme, and sentinels require the name of their primary.
fn check_engine(section: &SectionTable, engine: &str, diagnostics: &mut Diagnostics) {
    if !SCHEMES.iter().any(|scheme| engine.starts_with(scheme)) {
        let why = format!(
            "is `{}`, which is not the URL of an engine",
            without_login(engine)
        );
        let help = "write `redis://host:6379`, `rediss://host:6379`, `redis+unix:///path` or `redis+sentinel://host,host,host/name`";
        section.report("engine", why, help, diagnostics);
    } else if engine.contains("+sentinel://") && !names_primary(engine) {
        let why = format!(
            "is `{}`, which does not name the primary of the sentinels",
            without_login(engine)
        );
        let help = "write `redis+sentinel://host1:26379,host2:26379,host3:26379/name`, with the name from `sentinel monitor name`; a password belongs in `password_file`";
        section.report("engine", why, help, diagnostics);
    }
}

/// A name that is a valid part of the engine's keys.
fn checked_name(
    section: &SectionTable,
    option: &str,
    name: String,
    diagnostics: &mut Diagnostics,
) -> String {
    if !is_name(&name) {
        let why = format!("is `{name}`, which is not a name");
        let help = "use up to 64 letters, digits, `-`, `_` and `.`";
        section.report(option, why, help, diagnostics);
    }
    name
}

/// `None` if the nodes share no pages.
fn pages(section: &SectionTable) -> Option<SharedPagesConfig> {
    let most_bytes = section.value("pages");
    (section.has("key_file") && most_bytes > 0).then(|| SharedPagesConfig {
        most_bytes,
        lifetime: section.value("pages_lifetime"),
    })
}

/// Warns that a site has `tls = "auto"`, but there is no key.
pub(crate) fn warn_of_certificates(section: &SectionTable, diagnostics: &mut Diagnostics) {
    let position = section.position("engine");
    let message = "is set without `key_file`, so each node orders a certificate of its own for the sites with `tls = \"auto\"`, and answers only the challenges of its own orders";
    let help =
        "add `key_file`: then one node orders for all, and every node answers the challenges";
    diagnostics.warn(position, "cluster.engine", message, help);
}

/// Whether a text is a valid part of the engine's keys.
fn is_name(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    !text.is_empty() && text.len() <= 64 && text.bytes().all(is_letter)
}

/// Whether a URL of sentinels has hosts, no login, and a name after them.
fn names_primary(url: &str) -> bool {
    let rest = url.split_once("://").map_or("", |(_, rest)| rest);
    let parts = rest.split_once('/');
    parts.is_some_and(|(hosts, name)| {
        hosts.split(',').all(|host| !host.is_empty()) && !rest.contains('@') && is_name(name)
    })
}

/// The URL without its login, which may contain a password.
fn without_login(url: &str) -> String {
    match url.rsplit_once('@') {
        Some((_, host)) => format!("...@{host}"),
        None => url.to_owned(),
    }
}

fn host_name() -> String {
    let name = rustix::system::uname();
    let text = name.nodename().to_string_lossy();
    let name: String = text
        .chars()
        .filter(|letter| is_name(&letter.to_string()))
        .collect();
    if name.is_empty() {
        "node".to_owned()
    } else {
        name
    }
}

/// The options other than `engine`.
const OTHERS: &[&str] = &[
    "password_file",
    "name",
    "node",
    "on_partition",
    "key_file",
    "pages",
    "pages_lifetime",
];

const SCHEMES: &[&str] = &[
    "redis://",
    "rediss://",
    "valkey://",
    "valkeys://",
    "redis+unix://",
    "valkey+unix://",
    "unix://",
    "redis+sentinel://",
    "rediss+sentinel://",
    "valkey+sentinel://",
    "valkeys+sentinel://",
];
