//! The canonical address of a site, and redirects of rules.

use std::time::Duration;

use galley_policy::headers::{self, HeaderField};
use galley_policy::pattern::PathPattern;
use galley_policy::redirect::{CanonicalAddress, Redirect, RedirectTarget};
use galley_policy::route::{HostPattern, HostTable};

use crate::diagnostic::{Diagnostics, shown};
use crate::listen::Listen;
use crate::quantity::RunInterval;
use crate::tree::SectionTable;

/// The canonical address of a site.
pub(crate) fn home(
    options: &SectionTable,
    hosts: &[HostPattern],
    listen_tls: &[Listen],
    diagnostics: &mut Diagnostics,
) -> CanonicalAddress {
    let redirects = options.get("https_redirect").unwrap_or(options.has("tls"));
    if options.has("https_port") && !redirects {
        let why = "is given, but no request is redirected to `https`";
        let help = "add `https_redirect = true`, or remove it";
        options.report("https_port", why, help, diagnostics);
    }
    let port = options.get::<u64>("https_port");
    // The bounds in the option table ensure that the value fits.
    let port = port.and_then(|port| u16::try_from(port).ok());
    let listens: Option<Vec<Listen>> = options.get("listen_tls");
    let listens = listens.as_deref().unwrap_or(listen_tls);
    let of_listener = listens
        .iter()
        .find_map(Listen::port)
        .filter(|port| *port != 0);
    CanonicalAddress {
        https: redirects.then(|| port.or(of_listener).unwrap_or(HTTPS)),
        host: canonical_host(options, hosts, diagnostics),
        secure_first: hsts_time(options).is_some(),
    }
}

fn canonical_host(
    options: &SectionTable,
    hosts: &[HostPattern],
    diagnostics: &mut Diagnostics,
) -> Option<String> {
    let host: HostPattern = options.get("canonical_host")?;
    let table = HostTable::new(hosts.iter().map(|host| (host.clone(), 0)));
    let why = match &host {
        HostPattern::Exact(name) if table.find(name).is_some() => return Some(name.clone()),
        HostPattern::Exact(_) => "which is not one of the site's `hosts`",
        HostPattern::Wildcard(_) | HostPattern::Any => "which is not one host",
    };
    let why = format!("is {}, {why}", shown(&host.to_string()));
    let help = "name one of `hosts`, the one in the site's own address";
    options.report("canonical_host", why, help, diagnostics);
    None
}

fn hsts_time(options: &SectionTable) -> Option<Duration> {
    match options.value("hsts") {
        RunInterval::Every(time) => Some(time),
        RunInterval::Off => None,
    }
}

/// The field `Strict-Transport-Security` (RFC 6797 section 6.1).
pub(crate) fn hsts(options: &SectionTable, diagnostics: &mut Diagnostics) -> Option<HeaderField> {
    let time = hsts_time(options);
    let subdomains: bool = options.value("hsts_subdomains");
    let preload: bool = options.value("hsts_preload");
    let report = |option: &str, why: &str, help: &str, diagnostics: &mut Diagnostics| {
        let why = format!("is `true`, but {why}");
        options.report(option, why, help, diagnostics);
    };
    if preload && (time.is_none_or(|time| time < YEAR) || !subdomains) {
        let help = "add `hsts = \"365d\"` and `hsts_subdomains = true`, or remove it";
        let why =
            "the preload lists of browsers need at least a year of `hsts`, with all subdomains";
        report("hsts_preload", why, help, diagnostics);
    } else if subdomains && time.is_none() {
        let help = "add `hsts = \"1h\"`, or remove it";
        report("hsts_subdomains", "`hsts` is `off`", help, diagnostics);
    }
    let mut line = format!("Strict-Transport-Security: max-age={}", time?.as_secs());
    for (is_said, directive) in [(subdomains, "; includeSubDomains"), (preload, "; preload")] {
        line.push_str(if is_said { directive } else { "" });
    }
    headers::parse_line(&line)
}

/// The redirect of a rule.
pub(crate) fn of_rule(rule: &SectionTable, diagnostics: &mut Diagnostics) -> Option<Redirect> {
    let Some(text) = rule.get::<String>("redirect") else {
        let why = "is given, but the rule has no `redirect`";
        let help = "add `redirect = \"/new\"`, or remove it";
        let options = ["redirect_status", "redirect_query"];
        rule.report_each(&options, why, help, diagnostics);
        return None;
    };
    for option in MEANINGLESS.iter().filter(|option| rule.has(option)) {
        let message = format!(
            "`site.rule.redirect` and `site.rule.{option}` are both given, but Galley does nothing else with a request that it redirects"
        );
        let help = "remove one of the two";
        diagnostics.add(rule.position(option), rule.path(option), message, help);
    }
    let status = status(rule, diagnostics);
    Some(Redirect {
        target: target(rule, &text, diagnostics)?,
        status,
        keeps_query: rule.value("redirect_query"),
    })
}

/// The target of a redirect. The groups in `text` are those of `pattern`, or the rest of `path`.
fn target(
    rule: &SectionTable,
    text: &str,
    diagnostics: &mut Diagnostics,
) -> Option<RedirectTarget> {
    let path: Option<String> = rule.get("path");
    let groups = rule.get("pattern").map_or_else(
        || usize::from(path.is_some_and(|path| path.ends_with('*'))),
        |pattern: PathPattern| pattern.groups(),
    );
    RedirectTarget::parse(text, groups)
        .map_err(|why| {
            let why = format!("is {}, {why}", shown(text));
            let help = "write `/new`, `/new/$1` or `https://www.example.com/new`; each `$` stands for a group in brackets of `pattern`, or for the `*` of `path`";
            rule.report("redirect", why, help, diagnostics);
        })
        .ok()
}

fn status(rule: &SectionTable, diagnostics: &mut Diagnostics) -> Option<u16> {
    let status: u64 = rule.get("redirect_status")?;
    if matches!(status, 301..=303 | 307 | 308) {
        return u16::try_from(status).ok();
    }
    let why = format!("is `{status}`, which is not the status of a redirect");
    let help = "write 301 or 308 for a permanent redirect, 302, 303 or 307 for a temporary one";
    rule.report("redirect_status", why, help, diagnostics);
    None
}

/// Options that would have no effect together with a redirect.
const MEANINGLESS: &[&str] = &[
    "cache",
    "ttl",
    "ignore",
    "php",
    "upstream",
    "stream",
    "stream_request",
    "request_body",
    "first_byte_timeout",
    "read_timeout",
];

const HTTPS: u16 = 443;

/// The minimum for the preload list of browsers.
const YEAR: Duration = Duration::from_secs(365 * 86_400);
