//! The state that survives a restart, from the configuration: the folder, and a fingerprint of the rules of a site on which
//! its stored pages depend.
//!
//! A site is identified by its name, and by a fingerprint of the rules that determine its keys: pages that were written
//! under other rules are never used. The position of the site in the configuration does not matter.

use std::hash::Hasher;
use std::sync::Arc;

use galley_cache::disk::DiskLimits;
use galley_cache::memory::Memory;
use galley_config::{Config, SiteConfig};
use galley_policy::headers::Changes;
use galley_policy::key::KEY_FORMAT;
use galley_policy::redirect::CanonicalAddress;
use galley_policy::site::{Policy, Rule, TtlTable, UpstreamTimeouts};
use galley_policy::spellings::SpellingGuard;
use siphasher::sip::SipHasher13;

use super::ServerStartError;
use crate::clock::Clock;
use crate::durable::{Durable, Settings};

/// Opens the folder that the configuration names, or none.
pub(super) fn open(
    config: &Config,
    memory: &Arc<Memory>,
    clock: Clock,
) -> Result<Durable, ServerStartError> {
    let Some(disk) = &config.cache.disk else {
        return Ok(Durable::nothing(clock));
    };
    let settings = Settings {
        path: disk.path.clone(),
        limits: DiskLimits {
            bytes: disk.bytes,
            site_bytes: disk.site_bytes,
            object_bytes: config.cache.max_object,
            inactive: disk.inactive,
            in_memory_bytes: memory.max_object(),
        },
    };
    Durable::open(&settings, Arc::clone(memory), clock).map_err(|cause| ServerStartError::Disk {
        path: disk.path.clone(),
        cause,
    })
}

/// A hash of the rules that determine keys and scopes, and the stored form of pages. Lifetimes are not included, since they
/// are written with each page, nor are changes of responses that are made when they are sent. The presets' built-in rules
/// change with the version.
pub(super) fn fingerprint(rules: &Policy) -> u64 {
    let rules = rules.clone();
    let shaping = Policy {
        ttl: TtlTable::default(),
        home: CanonicalAddress::default(),
        changes: Changes::default(),
        hsts: None,
        // Derived from the other rules.
        guard: SpellingGuard::default(),
        rules: rules.rules.into_iter().map(as_stored).collect(),
        ..rules
    };
    hash(&format!("{KEY_FORMAT} {shaping:?}"))
}

/// The fingerprint of a site's rules. Includes `nginx_cache_path`: pages that were stored without a file there could not be
/// purged by removing one, so they are not used.
pub(super) fn site_fingerprint(site: &SiteConfig) -> u64 {
    let of_rules = fingerprint(&site.rules);
    match &site.nginx_cache_path {
        None => of_rules,
        Some(path) => hash(&format!("{of_rules:016x} {}", path.display())),
    }
}

/// A rule without the changes of responses when they are sent.
fn as_stored(rule: Rule) -> Rule {
    Rule {
        changes: Changes::default(),
        request_body: None,
        timeouts: UpstreamTimeouts::default(),
        ..rule
    }
}

/// A hash that is the same in every run.
pub(super) fn hash(text: &str) -> u64 {
    let mut hasher = SipHasher13::new();
    hasher.write(text.as_bytes());
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use galley_policy::site::NamePattern;
    use std::time::Duration;

    #[test]
    fn key_rules_change_the_fingerprint_but_lifetimes_do_not() {
        let rules = Policy::default();
        let same = Policy {
            ttl: TtlTable {
                default: Duration::from_secs(7),
                ..TtlTable::default()
            },
            home: CanonicalAddress {
                https: Some(443),
                ..CanonicalAddress::default()
            },
            ..rules.clone()
        };
        assert_eq!(fingerprint(&rules), fingerprint(&same));
        let others = [
            Policy {
                unnamed_cookies: galley_policy::site::UnnamedCookies::Bypass,
                ..rules.clone()
            },
            Policy {
                device_variants: true,
                ..rules.clone()
            },
            Policy {
                ignore_query: vec![NamePattern::parse("ref")],
                ..rules.clone()
            },
            Policy {
                vary_cookies: vec![NamePattern::parse("lang")],
                ..rules.clone()
            },
        ];
        for other in others {
            assert_ne!(fingerprint(&rules), fingerprint(&other), "{other:?}");
        }
    }
}
