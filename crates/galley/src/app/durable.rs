//! What survives a restart, from the configuration: the folder, and what each site is called in it.
//!
//! A site is known by its name there, and by the rules that shape its keys: pages that were written under other rules are
//! dead. Where the configuration has the site, or what comes before it, does not matter.

use std::collections::HashSet;
use std::hash::Hasher;
use std::sync::Arc;

use galley_cache::disk::DiskLimits;
use galley_cache::fragment_table::FragmentTable;
use galley_cache::memory::Memory;
use galley_config::{Config, SiteConfig};
use galley_policy::headers::Changes;
use galley_policy::redirect::Home;
use galley_policy::site::{Policy, Rule, TtlTable, UpstreamTimeouts};
use galley_policy::spellings::Guard;
use siphasher::sip::SipHasher13;

use super::ServerStartError;
use crate::clock::Clock;
use crate::compress::Compressing;
use crate::durable::{Durable, Settings};
use crate::fetch::acknowledged::AcknowledgedPurges;
use crate::fetch::counters::FetchCounters;
use crate::fetch::cron::CronRuns;
use crate::fetch::{self, FetchLimits};

/// Opens the folder that the configuration names.
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

/// What sites are called in logs, files and keys.
pub(super) struct Identities(Vec<Identity>);

struct Identity {
    name: String,
    mark: u32,
}

impl Identities {
    /// Names are first hosts, and two sites may have one on different listeners: the second is told apart.
    pub(super) fn of(sites: &[SiteConfig]) -> Self {
        let mut names = HashSet::new();
        let mut marks = HashSet::new();
        let all = sites.iter().map(|site| {
            let mut name = site.name.clone();
            for number in 2_u32.. {
                if names.insert(name.clone()) {
                    break;
                }
                name = format!("{}#{number}", site.name);
            }
            let mut mark = mark(&name);
            while !marks.insert(mark) {
                mark = mark.wrapping_add(1);
            }
            Identity { name, mark }
        });
        Self(all.collect())
    }

    /// What composing needs of site number `number`, and its mark.
    pub(super) fn core(
        &self,
        number: u32,
        site: &SiteConfig,
        durable: &Durable,
        compressing: Compressing,
    ) -> (fetch::FetchSite, u32) {
        let identity = usize::try_from(number).ok().and_then(|at| self.0.get(at));
        let (name, mark) = identity.map_or((site.name.clone(), number), |identity| {
            (identity.name.clone(), identity.mark)
        });
        let core = fetch::FetchSite {
            name: site.name.clone(),
            rules: site.rules.clone(),
            shelved: durable.shelved(&name, fingerprint(&site.rules)),
            compressing,
            epochs: durable.orders(name),
            tally: FetchCounters::default(),
            flights: FetchLimits {
                lock_age: site.limits.lock_age,
                waiters: site.limits.waiters,
            },
            heard: AcknowledgedPurges::default(),
            cron: CronRuns::default(),
            fragments: FragmentTable::default(),
        };
        (core, mark)
    }
}

/// Tells the rules that shape keys and scopes, and what is stored under them, from any others. Lifetimes are no part of it:
/// they are written with each page, and neither is what happens to answers when they leave. What the presets bring changes with the version.
fn fingerprint(rules: &Policy) -> u64 {
    let rules = rules.clone();
    let shaping = Policy {
        ttl: TtlTable::default(),
        home: Home::default(),
        changes: Changes::default(),
        hsts: None,
        // Made of the rules.
        guard: Guard::default(),
        rules: rules.rules.into_iter().map(as_stored).collect(),
        ..rules
    };
    hash(&format!("{} {shaping:?}", env!("CARGO_PKG_VERSION")))
}

/// A rule without what is done to answers when they leave.
fn as_stored(rule: Rule) -> Rule {
    Rule {
        changes: Changes::default(),
        request_body: None,
        patience: UpstreamTimeouts::default(),
        ..rule
    }
}

fn mark(name: &str) -> u32 {
    let [a, b, c, d, ..] = hash(name).to_be_bytes();
    u32::from_be_bytes([a, b, c, d])
}

fn hash(text: &str) -> u64 {
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
    fn rules_that_shape_keys_change_the_fingerprint_and_lifetimes_do_not() {
        let rules = Policy::default();
        let same = Policy {
            ttl: TtlTable {
                default: Duration::from_secs(7),
                ..TtlTable::default()
            },
            home: Home {
                https: Some(443),
                ..Home::default()
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

    #[test]
    fn a_sites_mark_is_its_names() {
        assert_eq!(mark("example.com"), mark("example.com"));
        assert_ne!(mark("example.com"), mark("example.org"));
    }
}
