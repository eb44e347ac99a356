//! `ProxyPass`, handlers of PHP-FPM, and `Redirect`: what they do with a request, and the options for them.

use super::parts::PartKind;
use super::rewrite::{Unknown, expanded};
use crate::closed;
use crate::directive::Directive;
use crate::draft::{ImportedSite, RuleDraft, RulePriority, Section};
use crate::evidence::SampleRequest;
use crate::expectation::Answer;
use crate::host_redirect::{HostRedirect, OF_HOST};
use crate::known::{self, NO_LOOK_AROUND, Patterns};
use crate::report::StatementOutcome;
use crate::units;
use crate::words::WordList;

/// The rest of a path below the path of a directive.
fn rest_below<'p>(path: &'p str, own: &str) -> Option<&'p str> {
    let rest = path.strip_prefix(own)?;
    (own.ends_with('/') || rest.is_empty() || rest.starts_with('/')).then_some(rest)
}

/// The `ProxyPass` that passes a path on: the first one that has it.
pub(super) fn proxied<'d>(block: &[&'d Directive], path: &str) -> Option<&'d Directive> {
    let mut passes = block.iter().filter(|one| one.name() == "proxypass");
    let pass = passes.find(|one| rest_below(path, one.argument(0)).is_some())?;
    (pass.argument(1) != "!").then_some(pass)
}

/// The value of `upstream` for a `ProxyPass`. `None`: Galley forwards paths as they are, to servers that speak HTTP.
pub(super) fn upstream(directive: &Directive) -> Option<String> {
    let path = directive.argument(0);
    let (server, below) = http_server(directive.argument(1))?;
    // The target replaces the path: only the same one changes nothing.
    let is_same = below == path || path == "/" && below.is_empty();
    (is_same && path.starts_with('/') && directive.arguments().len() == 2).then_some(server)
}

/// Whether these directives send the host of the visitor to HTTP servers. `None`: they do not say.
pub(super) fn preserves_host(block: &[&Directive]) -> Option<bool> {
    let mut directives = block.iter().rev();
    let last = directives.find(|one| one.name() == "proxypreservehost")?;
    Some(last.argument(0).eq_ignore_ascii_case("on"))
}

/// Converts `ProxyPassMatch` of all scripts.
pub(super) fn proxy_by_pattern(directive: &Directive, site: &mut ImportedSite) {
    let target = directive.argument(1);
    if OF_PHP.contains(directive.argument(0)) && target.contains("fcgi://") {
        return handler(directive, target, site);
    }
    directive.not_carried("write a rule with `pattern` and `upstream`");
}

/// Converts `ProxyPass`: `ProxyPass / http://127.0.0.1:8080/` sets the site's upstream; other paths become rules.
pub(super) fn proxy(directive: &Directive, preserves_host: bool, site: &mut ImportedSite) {
    let path = directive.argument(0);
    let Some(server) = upstream(directive) else {
        return directive.not_carried(SAME_PATH);
    };
    if !preserves_host {
        directive.not_carried(OTHER_HOST);
    }
    if path == "/" {
        return directive.adds("upstream", [server], &mut site.section);
    }
    let mut section = Section::default();
    if path.ends_with('/') {
        section.set("path", format!("{path}*"), &directive.origin);
    } else {
        let pattern = format!("^{}(/.*)?$", known::glob(path));
        section.set("pattern", pattern, &directive.origin);
    }
    section.add("upstream", [server], &directive.origin);
    site.add_rule(RuleDraft::of_prefix(section, path.len()));
    directive.carried("a rule with upstream");
}

const OTHER_HOST: &str = "as `upstream`, but that server gets the host of the visitor, as with `ProxyPreserveHost On`, and from Apache the name in `ProxyPass`: \
     have it answer to the hosts of the site";

/// Patterns of all scripts.
const OF_PHP: WordList =
    WordList(r"^/(.*\.php)$ ^/(.*\.php(/.*)?)$ ^(.*\.php)$ ^/(.+\.php(/.*)?)$");

const SAME_PATH: &str = "Galley forwards paths as they are, to http:// and https:// servers: have the server behind it take the whole path, and set \
     `upstream` in the site or in a rule";

/// The server of a target, and the path on it.
fn http_server(target: &str) -> Option<(String, String)> {
    let (scheme, rest) = target.split_once("://")?;
    if !matches!(scheme, "http" | "https") {
        return None;
    }
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let port = if scheme == "https" { 443 } else { 80 };
    let has_port = host
        .rsplit_once(':')
        .is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let server = if has_port {
        host.to_owned()
    } else {
        format!("{host}:{port}")
    };
    let is_plain = !host.is_empty() && !rest.contains(['$', '%', '|']);
    is_plain.then(|| (format!("{scheme}://{server}"), path.to_owned()))
}

/// Converts `proxy:unix:/run/php.sock|fcgi://localhost` and `fcgi://127.0.0.1:9000/...`.
pub(super) fn handler(directive: &Directive, target: &str, site: &mut ImportedSite) {
    let target = target.trim_start_matches("proxy:");
    let server = match target.split_once('|') {
        Some((socket, _)) => units::fastcgi(socket),
        None => target
            .split_once("fcgi://")
            .and_then(|(_, rest)| units::fastcgi(rest.split('/').next().unwrap_or_default())),
    };
    match server {
        Some(server) => directive.sets("php", server, &mut site.section),
        None => directive.not_carried("set `php` to the socket of PHP-FPM"),
    }
}

/// `Redirect` in its forms.
struct RedirectDirective<'d> {
    status: &'d str,
    from: &'d str,
    /// Empty: the status is an error.
    to: &'d str,
    is_match: bool,
}

impl<'d> RedirectDirective<'d> {
    fn of(directive: &'d Directive) -> Option<Self> {
        let is_match = directive.name() == "redirectmatch";
        let words: Vec<&str> = directive.arguments().iter().map(String::as_str).collect();
        let (status, rest) = match (directive.name(), words.as_slice()) {
            ("redirectpermanent", words) => ("301", words),
            ("redirecttemp", words) => ("302", words),
            ("redirect" | "redirectmatch", [first, rest @ ..]) => match *first {
                "permanent" => ("301", rest),
                "temp" => ("302", rest),
                "seeother" => ("303", rest),
                "gone" => ("410", rest),
                status if status.parse::<u16>().is_ok() => (status, rest),
                _ => ("302", words.as_slice()),
            },
            _ => return None,
        };
        let is_redirect = matches!(status, "301" | "302" | "303" | "307" | "308");
        let (from, to) = match rest {
            [from, to] if is_redirect => (*from, *to),
            [from] if known::is_error_status(status) => (*from, ""),
            _ => return None,
        };
        let is_path = from.starts_with('/') || is_match;
        (is_path && !to.contains('%')).then_some(Self {
            status,
            from,
            to,
            is_match,
        })
    }

    /// What a request gets. `None`: its path is none of these.
    fn answer(
        &self,
        sample: &SampleRequest<'_>,
        patterns: &Patterns,
    ) -> Result<Option<Answer>, Unknown> {
        let path = sample.path();
        let location = if self.is_match {
            let regex = patterns.of(self.from, false).ok_or(Unknown)?;
            let Some(found) = regex.captures(path) else {
                return Ok(None);
            };
            let groups = found.iter().map(|one| one.map_or("", |one| one.as_str()));
            let groups: Vec<String> = groups.map(str::to_owned).collect();
            expanded(self.to, &groups, sample).ok_or(Unknown)?
        } else {
            match rest_below(path, self.from) {
                Some(rest) => format!("{}{rest}", self.to),
                None => return Ok(None),
            }
        };
        let keeps = !sample.query().is_empty() && !location.contains('?');
        let query = if keeps {
            format!("?{}", sample.query())
        } else {
            String::new()
        };
        let status: u16 = self.status.parse().map_err(|_| Unknown)?;
        Ok(Some(if self.to.is_empty() {
            Answer::Closed
        } else {
            Answer::Redirected(status, location + &query)
        }))
    }
}

/// The status of `Redirect` to no other address.
pub(super) fn error_of(directive: &Directive) -> Option<String> {
    let redirect = RedirectDirective::of(directive)?;
    redirect.to.is_empty().then(|| redirect.status.to_owned())
}

/// The first redirect of a block for a request.
pub(super) fn redirected<'d>(
    block: &[&'d Directive],
    sample: &SampleRequest<'_>,
    patterns: &Patterns,
) -> Result<Option<(Answer, &'d Directive)>, Unknown> {
    for one in block {
        let Some(redirect) = RedirectDirective::of(one) else {
            continue;
        };
        match redirect.answer(sample, patterns) {
            Ok(Some(answer)) => return Ok(Some((answer, one))),
            Err(Unknown) if !one.entry.is_lost() => return Err(Unknown),
            Ok(None) | Err(Unknown) => {}
        }
    }
    Ok(None)
}

/// Converts `Redirect permanent / https://example.com/`, `Redirect 301 /old /new`, `RedirectMatch 301 ^/a(.*)$ /b$1`. Returns a
/// redirect of all requests.
pub(super) fn redirect(
    directive: &Directive,
    kind: PartKind,
    site: &mut ImportedSite,
) -> Option<HostRedirect> {
    let Some(redirect) = RedirectDirective::of(directive) else {
        directive.not_carried("write a rule with `redirect`");
        return None;
    };
    let to = redirect.to;
    let is_whole = redirect.from == "/" && !redirect.is_match && !to.is_empty();
    if is_whole && kind == PartKind::Host && to.contains("://") && to.ends_with('/') {
        directive.carried(OF_HOST);
        return HostRedirect::of(directive, redirect.status, &format!("{to}$1"));
    }
    let pattern = match (redirect.is_match, redirect.from.ends_with('/')) {
        (true, _) => known::pattern(redirect.from, false),
        (false, true) => Some(format!("^{}(.*)$", known::glob(redirect.from))),
        (false, false) => Some(format!("^{}(/.*)?$", known::glob(redirect.from))),
    };
    let Some(pattern) = pattern else {
        if to.is_empty() {
            directive.undecided(NO_LOOK_AROUND);
        } else {
            directive.not_carried(NO_LOOK_AROUND);
        }
        return None;
    };
    // After the access control of a folder, and before that of a host.
    let mut rule = closed::rule_for("pattern", pattern, directive, RulePriority::Exact);
    if kind != PartKind::Host && !to.is_empty() {
        (rule.priority, rule.length) = (RulePriority::FirstPrefix, usize::MAX);
    }
    let outcome = if to.is_empty() {
        closed::close(directive, rule, redirect.status, site)
    } else {
        let rest = if redirect.is_match { "" } else { "$1" };
        let (target, keeps) = (format!("{to}{rest}"), !to.contains('?'));
        rule.section
            .redirects(target, redirect.status, keeps, &directive.origin);
        site.add_rule(rule);
        StatementOutcome::Carried("a rule".to_owned())
    };
    directive.entry.record(outcome);
    None
}
