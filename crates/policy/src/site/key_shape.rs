//! The settings of a site that shape the keys or the stored bytes of its pages.
//!
//! Pages that were stored under another [`KeyShape`] are not found. All other settings may change, and every page stays: limits
//! and access control are checked before the lookup, lifetimes are written with each page, and fields are changed when a response
//! is sent. The built-in rules of a preset change with [`KEY_FORMAT`].

use std::path::Path;

use super::flags::SiteFlags;
use super::policy::{MemberPages, Policy, Preset};
use super::preset::UpstreamRequests;
use super::rule::{IgnoredParts, Rule};
use crate::access::CountryCode;
use crate::key::KEY_FORMAT;
use crate::send_file::InternalFolder;
use crate::shape::Shape;

/// The fields that shape keys or stored bytes, by the names of their options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyShape(Shape);

impl KeyShape {
    /// The shape of a policy; of the folder `nginx_cache_path`, because a page that was stored without a file there could not be
    /// purged by removing one; and of the paths of `internal`, because pages at these paths must not be found once they are closed.
    pub fn of(
        policy: &Policy,
        nginx_cache_path: Option<&Path>,
        internal: &[InternalFolder],
    ) -> Self {
        // Every field is here, so that a new one is either declared below or, with its reason, not.
        let Policy {
            preset,
            members,
            esi,
            // The other flags shape nothing. A test changes every option of the option table by a reload, and looks for the page.
            flags:
                SiteFlags {
                    device_variants,
                    litespeed,
                    ..
                },
            harmless_cookies,
            vary_cookies,
            bypass_cookies,
            ignore_query,
            tag_field,
            rules,
            upstream_requests,
            // Set by the preset alone.
            requests: _,
            urls: _,
            unnamed_cookies: _,
            storage: _,
            unsafe_methods: _,
            // Lifetimes, which are written with each page.
            ttl: _,
            outer_ttl: _,
            // Applied to each request before the lookup.
            home: _,
            dashboard: _,
            access: _,
            guard: _,
            // Applied to each response when it is sent.
            changes: _,
            hsts: _,
            alt_svc: _,
        } = policy;
        let preset = match preset {
            Preset::WordPress => None,
            Preset::None => Some("none"),
        };
        let members = match members {
            MemberPages::Pass => None,
            MemberPages::Fragments => Some("fragments"),
        };
        // Galley removes an ignored cookie from the requests for pages, unless it sends them as they are. Then a page may depend
        // on a harmless cookie, and must not be found once that cookie identifies a visitor.
        let is_sent =
            *upstream_requests == UpstreamRequests::AsSent && !harmless_cookies.is_empty();
        let bypass_cookies = if is_sent { &**bypass_cookies } else { &[] };
        let shape = Shape::new("keys", KEY_FORMAT)
            .with("preset", preset)
            .with("members", members)
            .with_flag("esi", esi.is_some())
            .with_set("esi_hosts", esi.iter().flat_map(|esi| &esi.hosts))
            .with_flag("device_variants", *device_variants)
            .with_flag("litespeed", *litespeed)
            .with_set("harmless_cookies", harmless_cookies)
            .with_set("vary_cookies", vary_cookies)
            .with_set("bypass_cookies", bypass_cookies)
            .with_set("ignore_query", ignore_query)
            .with(
                "tag_header",
                tag_field.as_ref().map(http::HeaderName::as_str),
            )
            .with("nginx_cache_path", nginx_cache_path.map(Path::display))
            .with_set("internal", internal.iter().map(|one| &one.path));
        Self(with_rules(shape, rules))
    }

    /// The hash that is part of the mark of a site.
    pub fn hash(&self) -> u64 {
        self.0.hash()
    }

    /// The options because of which pages of the other shape are not found.
    pub fn differing(&self, other: &Self) -> Vec<&'static str> {
        self.0.differing(&other.0)
    }
}

/// Adds the rules that decide what is stored, and those that may take requests from them, in their order.
fn with_rules(mut shape: Shape, rules: &[Rule]) -> Shape {
    let last = rules.iter().rposition(shapes_pages);
    let deciding = last.map_or(&[][..], |last| rules.get(..=last).unwrap_or_default());
    // Keys contain the number of a rule with `countries`.
    let is_numbered = deciding.iter().any(|rule| !rule.countries.is_empty());
    for (index, rule) in deciding.iter().enumerate() {
        let mut later = deciding.iter().skip(index + 1);
        if is_numbered
            || shapes_pages(rule)
            || later.any(|later| shapes_pages(later) && may_share_pages(rule, later))
        {
            shape = shape.with(RULE, described(rule));
        }
    }
    shape
}

/// Whether keys or stored bytes depend on a rule.
fn shapes_pages(rule: &Rule) -> bool {
    rule.ignore != IgnoredParts::default() || !rule.countries.is_empty()
}

/// Whether both rules may match a request whose response is stored.
fn may_share_pages(one: &Rule, other: &Rule) -> bool {
    let is_stored = |method: &String| matches!(method.as_str(), "GET" | "HEAD");
    if !one.methods.is_empty() && !one.methods.iter().any(is_stored) {
        return false;
    }
    if one.pattern.is_some() || other.pattern.is_some() {
        return true;
    }
    match (one.path.strip_suffix('*'), other.path.strip_suffix('*')) {
        (None, None) => one.path == other.path,
        (Some(prefix), None) => other.path.starts_with(prefix),
        (None, Some(prefix)) => one.path.starts_with(prefix),
        (Some(one), Some(other)) => one.starts_with(other) || other.starts_with(one),
    }
}

/// The requests that a rule matches, and what it ignores.
fn described(rule: &Rule) -> [String; 5] {
    let IgnoredParts {
        cache_control,
        expires,
        set_cookie,
        cookie,
        vary,
    } = rule.ignore;
    let ignored = [
        (cache_control, "cache-control"),
        (expires, "expires"),
        (set_cookie, "set-cookie"),
        (cookie, "cookie"),
        (vary, "vary"),
    ];
    let ignored = ignored.iter().filter(|(is_ignored, _)| *is_ignored);
    let ignored: Vec<&str> = ignored.map(|(_, name)| *name).collect();
    let countries: Vec<&str> = rule.countries.iter().map(CountryCode::as_str).collect();
    let pattern = rule.pattern.as_ref().map_or("", |pattern| pattern.text());
    [
        rule.path.clone(),
        pattern.to_owned(),
        rule.methods.join(" "),
        countries.join(" "),
        ignored.join(" "),
    ]
}

/// Rules, among the options.
const RULE: &str = "[[site.rule]]";

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::pattern::PathPattern;
    use crate::route::HostPattern;
    use crate::site::{EsiPolicy, NamePattern};

    fn names(all: &[&str]) -> Vec<NamePattern> {
        all.iter().map(|one| NamePattern::parse(one)).collect()
    }

    fn rule(path: &str) -> Rule {
        Rule {
            path: path.to_owned(),
            ..Rule::default()
        }
    }

    /// A rule on which stored pages depend.
    fn ignoring(path: &str) -> Rule {
        Rule {
            ignore: IgnoredParts {
                cookie: true,
                ..IgnoredParts::default()
            },
            ..rule(path)
        }
    }

    fn of_rules(rules: &[Rule]) -> KeyShape {
        let policy = Policy {
            rules: rules.to_vec(),
            ..Policy::default()
        };
        KeyShape::of(&policy, None, &[])
    }

    /// Pages on disk and in caches that another version hands over are found by this number. It may change only with
    /// [`KEY_FORMAT`].
    #[test]
    fn the_hash_of_a_policy_is_the_same_in_every_version() {
        let policy = Policy {
            members: MemberPages::Fragments,
            esi: Some(EsiPolicy {
                hosts: vec![
                    HostPattern::Any,
                    HostPattern::Wildcard(".a.test".to_owned()),
                ],
            }),
            flags: SiteFlags {
                device_variants: true,
                litespeed: true,
                ..SiteFlags::default()
            },
            harmless_cookies: names(&["seen"]),
            vary_cookies: names(&["currency", "lang*"]),
            bypass_cookies: names(&["session"]),
            ignore_query: names(&["ref"]),
            tag_field: Some(http::HeaderName::from_static("cache-tag")),
            rules: vec![ignoring("/shop*")],
            ..Policy::rfc9111()
        };
        let plain = KeyShape::of(&Policy::default(), None, &[]);
        let full = KeyShape::of(&policy, Some(Path::new("/var/cache/nginx")), &[]);
        assert_eq!(
            (plain.hash(), full.hash()),
            (1_945_013_312_890_044_015, 16_949_744_048_189_981_130)
        );
        assert_eq!(
            plain.differing(&full),
            [
                "preset",
                "members",
                "esi",
                "esi_hosts",
                "device_variants",
                "litespeed",
                "harmless_cookies",
                "vary_cookies",
                "bypass_cookies",
                "ignore_query",
                "tag_header",
                "nginx_cache_path",
                RULE,
            ]
        );
    }

    #[test]
    fn the_order_of_names_does_not_matter() {
        let shape = |all: &[&str]| {
            let policy = Policy {
                vary_cookies: names(all),
                ..Policy::default()
            };
            KeyShape::of(&policy, None, &[])
        };
        assert_eq!(shape(&["a", "b"]), shape(&["b", "a"]));
        assert_ne!(shape(&["a"]), shape(&["a*"]));
    }

    #[test]
    fn rules_that_do_not_change_what_is_stored_keep_every_page() {
        let limited = Rule {
            ttl: Some(Duration::from_secs(7)),
            cache: Some(false),
            request_body: Some(7),
            stream: true,
            ..rule("/a*")
        };
        assert_eq!(of_rules(std::slice::from_ref(&limited)), of_rules(&[]));
        let kept = of_rules(&[ignoring("/b*")]);
        let posts = Rule {
            methods: vec!["POST".to_owned()],
            ..rule("/b*")
        };
        for before in [limited, rule("/a"), rule("/c*"), posts] {
            assert_eq!(
                of_rules(&[before.clone(), ignoring("/b*")]),
                kept,
                "{before:?}"
            );
            assert_eq!(
                of_rules(&[ignoring("/b*"), before.clone()]),
                kept,
                "{before:?}"
            );
        }
    }

    #[test]
    fn a_rule_that_takes_requests_from_another_shapes_keys() {
        let pattern = Rule {
            pattern: PathPattern::compile("x").ok(),
            ..Rule::default()
        };
        let kept = of_rules(&[ignoring("/b*")]);
        for before in [rule("/b/c"), rule("/b*"), rule("/*"), rule("/b/*"), pattern] {
            assert_ne!(
                of_rules(&[before.clone(), ignoring("/b*")]),
                kept,
                "{before:?}"
            );
        }
    }

    /// Keys contain the number of a rule with countries.
    #[test]
    fn rules_with_countries_shape_keys_by_their_number() {
        let german = Rule {
            countries: CountryCode::parse("DE").into_iter().collect(),
            ..rule("/a")
        };
        let kept = of_rules(std::slice::from_ref(&german));
        assert_eq!(of_rules(&[german.clone(), rule("/a")]), kept);
        assert_ne!(of_rules(&[rule("/unrelated"), german]), kept);
        assert_ne!(of_rules(&[]), kept);
    }
}
