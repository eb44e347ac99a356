//! The parts of an explanation in JSON: the parsed request, and the lines of the configuration that apply.
//!
//! Cookies are shown with names and classes, never with values.

use galley_policy::access::CountryCode;
use galley_policy::cookie::{self, Class};
use galley_policy::pattern::PathPattern;
use galley_policy::request_info::{Cacheability, Device, RequestInfo};
use galley_policy::route::HostPattern;
use galley_policy::site::{NamePattern, Policy, Preset};
use serde_json::{Value, json};

use super::applying::text;
use super::{applying, words};
use galley_fetch::hit_for_pass::PassReason;
use galley_request::Exchange;

pub(super) fn request(exchange: &Exchange<'_>) -> Value {
    let info = &exchange.info;
    json!({
        "method": info.method_text(),
        "scheme": info.scheme().as_str(),
        "host": info.host(),
        "port": info.port(),
        "path": text(info.path()),
        "decoded_path": text(info.decoded_path()),
        "query": info.query().map(text),
        "dropped_query": info.dropped_query().map(text),
    })
}

pub(super) fn site(exchange: &Exchange<'_>, listener: Option<&str>) -> Value {
    let site = &exchange.site;
    let host = exchange.info.host();
    json!({
        "name": site.core.name,
        "host_pattern": host_pattern(&site.config.hosts, host).map(ToString::to_string),
        "listener": listener,
        "preset": match site.core.policy.preset {
            Preset::WordPress => "wordpress",
            Preset::None => "none",
        },
    })
}

/// The pattern that matches a host, in the order of `HostTable`: exact, then the longest wildcard, then any.
fn host_pattern<'p>(patterns: &'p [HostPattern], host: &str) -> Option<&'p HostPattern> {
    let rank = |pattern: &HostPattern| match pattern {
        HostPattern::Exact(name) => (name == host).then_some(usize::MAX),
        HostPattern::Wildcard(suffix) => host.ends_with(suffix.as_str()).then_some(suffix.len()),
        HostPattern::Any => Some(0),
    };
    let matching = patterns.iter().filter_map(|p| Some((rank(p)?, p)));
    matching
        .max_by_key(|(rank, _)| *rank)
        .map(|(_, pattern)| pattern)
}

/// The cookies of the request, in their order, without values.
pub(super) fn cookies(exchange: &Exchange<'_>) -> Vec<Value> {
    let policy = &exchange.site.core.policy;
    let shown = |(name, class): (String, Class)| {
        let by = classed_by(name.as_bytes(), class, policy);
        json!({ "name": name, "class": word(class), "by": by })
    };
    applying::classes(exchange).into_iter().map(shown).collect()
}

const fn word(class: Class) -> &'static str {
    match class {
        Class::Bypass => "bypass",
        Class::Vary => "vary",
        Class::Ignored => "ignored",
    }
}

/// The line of the configuration, or the built-in list, that determines the class of a cookie.
fn classed_by(name: &[u8], class: Class, policy: &Policy) -> String {
    let listed = |option: &str, list: &[NamePattern]| {
        let found = list.iter().find(|pattern| pattern.matches(name))?;
        Some(match found {
            NamePattern::Exact(text) => format!("{option} `{text}`"),
            NamePattern::Prefix(text) => format!("{option} `{text}*`"),
        })
    };
    let by_file = match class {
        Class::Bypass => listed("bypass_cookies", &policy.bypass_cookies),
        Class::Vary => listed("vary_cookies", &policy.vary_cookies),
        Class::Ignored => listed("harmless_cookies", &policy.harmless_cookies),
    };
    by_file.unwrap_or_else(|| {
        let by_preset = match (policy.preset, class) {
            (Preset::WordPress, Class::Bypass | Class::Vary) => "the WordPress preset",
            (Preset::WordPress, Class::Ignored) => "no preset or option names it",
            (Preset::None, _) => "no preset: an unknown cookie may identify a visitor",
        };
        by_preset.to_owned()
    })
}

/// The rule that applies, in the notation of the file.
pub(super) fn rule(exchange: &Exchange<'_>) -> Option<Value> {
    let (number, rule) = applying::applying(exchange)?;
    let ignore = rule.ignore;
    let ignored: Vec<&str> = [
        (ignore.cache_control, "cache-control"),
        (ignore.expires, "expires"),
        (ignore.set_cookie, "set-cookie"),
        (ignore.cookie, "cookie"),
        (ignore.vary, "vary"),
    ]
    .into_iter()
    .filter_map(|(is_ignored, name)| is_ignored.then_some(name))
    .collect();
    Some(json!({
        "number": number,
        "path": rule.pattern.as_ref().map_or(rule.path.as_str(), PathPattern::text),
        "methods": rule.methods,
        "countries": rule.countries.iter().map(CountryCode::as_str).collect::<Vec<_>>(),
        "cache": rule.cache,
        "ttl_s": rule.ttl.map(|ttl| ttl.as_secs()),
        "ignore": ignored,
        "upstream": rule.upstream.is_some(),
    }))
}

pub(super) fn gate(exchange: &Exchange<'_>) -> Value {
    match exchange.info.cacheability() {
        Cacheability::Cacheable => {
            json!({ "open": true, "why": null, "sentence": "the request may be answered from the cache" })
        }
        Cacheability::Pass(why) => {
            let advice = words::pass(why, Some(exchange));
            json!({ "open": false, "why": why.word(), "sentence": advice.why() })
        }
    }
}

pub(super) fn key(exchange: &Exchange<'_>) -> Value {
    let info: &RequestInfo = &exchange.info;
    let vary: Vec<String> = cookie::pairs(info.vary_cookies())
        .map(|pair| text(pair.name))
        .collect();
    json!({
        "site": exchange.site.mark,
        "scheme": info.scheme().as_str(),
        "authority": info.authority(),
        "path": text(info.path()),
        "query": info.query().map(text),
        "accept": info.accept().word(),
        "device": match info.device() {
            Device::Any => "any",
            Device::Desktop => "desktop",
            Device::Mobile => "mobile",
        },
        "vary_cookies": vary,
    })
}

/// The reason why the page may not be stored, from a hit-for-pass entry.
pub(super) fn reason(reason: &PassReason) -> Value {
    json!({
        "why": reason.why.word(),
        "cookies": reason.cookies,
        "fields": reason.fields,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_specific_pattern_matches_a_host() {
        let patterns: Vec<HostPattern> = ["*", "*.b.test", "*.a.b.test", "x.a.b.test"]
            .iter()
            .map(|text| HostPattern::parse(text).unwrap())
            .collect();
        for (host, wanted) in [
            ("x.a.b.test", "x.a.b.test"),
            ("y.a.b.test", "*.a.b.test"),
            ("c.b.test", "*.b.test"),
            ("b.test", "*"),
        ] {
            let found = host_pattern(&patterns, host).map(ToString::to_string);
            assert_eq!(found.as_deref(), Some(wanted), "{host}");
        }
        assert_eq!(host_pattern(&patterns[1..], "other.test"), None);
    }

    #[test]
    fn cookies_name_the_option_of_their_class() {
        let policy = Policy {
            bypass_cookies: vec![NamePattern::parse("member*")],
            ..Policy::default()
        };
        for (name, by) in [
            ("member_1", "bypass_cookies `member*`"),
            ("wordpress_logged_in_x", "the WordPress preset"),
            ("_ga", "no preset or option names it"),
        ] {
            let class = cookie::classify(name.as_bytes(), &policy);
            assert_eq!(classed_by(name.as_bytes(), class, &policy), by);
        }
    }
}
