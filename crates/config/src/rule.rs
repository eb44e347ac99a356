//! One `[[site.rule]]`: converts its options to a [`Rule`]. And the upstream of a site or a rule.

use galley_policy::site::{EqualSpellings, IgnoredParts, Rule, UpstreamTimeouts};

use crate::access;
use crate::balance;
use crate::check;
use crate::diagnostic::Diagnostics;
use crate::headers;
use crate::php;
use crate::redirect;
use crate::tree::{SectionTable, SiteTables};
use crate::upstream::{HttpUpstream, Program, UpstreamConfig};

/// The rules of a site. Their upstreams are added to `further`.
pub(crate) fn all(
    site: &SiteTables,
    spellings: EqualSpellings,
    further: &mut Vec<UpstreamConfig>,
    diagnostics: &mut Diagnostics,
) -> Vec<Rule> {
    let rules = site.rules.iter().map(|one| {
        let rule = rule(one, &site.options, further, diagnostics);
        access::reach(one, &rule, spellings, diagnostics);
        rule
    });
    rules.collect()
}

/// `php` or `upstream` of a site or a rule; `Files` if neither is set.
pub(crate) fn upstream(section: &SectionTable, diagnostics: &mut Diagnostics) -> UpstreamConfig {
    let prefix = section.kind.prefix();
    if section.has("php") && section.has("upstream") {
        let message = format!(
            "`{prefix}.php` and `{prefix}.upstream` are both given, but only one of them can generate the pages"
        );
        let help = "keep `php` for PHP-FPM, or `upstream` for a web server with PHP in it";
        let position = section.position("upstream");
        diagnostics.add(position, section.path("upstream"), message, help);
    }
    check::not_empty(section, "upstream", "a URL", diagnostics);
    php::command(section, diagnostics);
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
    balance::servers(section, &upstream, diagnostics);
    upstream
}

fn rule(
    section: &SectionTable,
    site: &SectionTable,
    further: &mut Vec<UpstreamConfig>,
    diagnostics: &mut Diagnostics,
) -> Rule {
    check::paths(section, diagnostics);
    check::not_empty(section, "methods", "a method", diagnostics);
    check::not_empty(section, "countries", "a country", diagnostics);
    php::rule(section, site, diagnostics);
    let ignored: Vec<String> = section.value("ignore");
    let ignores = |word: &str| ignored.iter().any(|one| one == word);
    Rule {
        path: section.get("path").unwrap_or_default(),
        pattern: section.get("pattern"),
        methods: section.get("methods").unwrap_or_default(),
        countries: section.get("countries").unwrap_or_default(),
        cache: section.get("cache"),
        ttl: section.get("ttl"),
        ignore: IgnoredParts {
            cache_control: ignores("cache-control"),
            expires: ignores("expires"),
            set_cookie: ignores("set-cookie"),
            cookie: ignores("cookie"),
            vary: ignores("vary"),
        },
        stream: section.value("stream"),
        stream_request: section.value("stream_request"),
        upstream: match upstream(section, diagnostics) {
            UpstreamConfig::Files => None,
            other => Some(index_of(other, further)),
        },
        redirect: redirect::of_rule(section, diagnostics),
        changes: headers::changes(section, diagnostics),
        request_body: section.get("request_body"),
        timeouts: UpstreamTimeouts {
            first_byte: section.get("first_byte_timeout"),
            read: section.get("read_timeout"),
        },
        access: access::common(section, diagnostics),
        deny_status: deny_status(section, diagnostics),
        exact_access: !section.value::<bool>("spellings"),
    }
}

fn deny_status(section: &SectionTable, diagnostics: &mut Diagnostics) -> Option<u16> {
    let status: u64 = section.get("deny_status")?;
    let denies = ["allow", "deny", "allow_countries", "deny_countries"];
    if !denies.iter().any(|option| section.has(option)) {
        let why = "is given, but the rule denies no client";
        let help = "add `deny = [\"0.0.0.0/0\", \"::/0\"]` for all clients, or remove it";
        section.report("deny_status", why, help, diagnostics);
    } else if !matches!(status, 403..=405 | 410) {
        let why = format!("is `{status}`, which does not say that a page is denied or gone");
        section.report(
            "deny_status",
            why,
            "write 403, 404, 405 or 410",
            diagnostics,
        );
    }
    u16::try_from(status).ok()
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
