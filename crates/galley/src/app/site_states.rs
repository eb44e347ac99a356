//! The state of each site that outlives a configuration: its purges, its counters, the runs of its scheduler.
//!
//! A site is identified by its name; its position in the file does not matter. The state of a site
//! that was removed from the configuration is kept here. If the site is added again, its stored pages are compared with the
//! purges from before: an empty table would call purged pages valid. Keys contain a fingerprint of the name and of the
//! [`galley_policy::site::KeyShape`], so that a page that was stored under another one is never found.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use galley_cache::budget::MemoryBudget;
use galley_cache::fragment_table::FragmentTable;
use galley_cache::private::PrivateStore;
use galley_config::{RunInterval, SiteConfig, UpstreamConfig};
use galley_policy::purge::{Purge, Scope, Strength};
use galley_policy::shape::Shape;
use galley_policy::site::MemberPages;

use super::durable::{hash, key_shape};
use galley_codec::compress::Compressing;
use galley_codec::dictionaries::Dictionaries;
use galley_codec::next_pages::NextPages;
use galley_fetch::acknowledged::AcknowledgedPurges;
use galley_fetch::audits::Audits;
use galley_fetch::counters::FetchCounters;
use galley_fetch::cron::CronRuns;
use galley_fetch::{FetchLimits, FetchSite};
use galley_purging::{Durable, PurgeSource, SitePurges};
use galley_sys::Lock;

/// The states of all sites. Owned by the control thread.
pub(super) struct SiteStates {
    durable: Durable,
    /// The memory budget for private fragments of logged-in members.
    private: MemoryBudget,
    by_name: HashMap<String, SiteState>,
    /// Names with fingerprints, by mark.
    marks: HashMap<u32, (String, u64)>,
    purges: PurgesByName,
}

/// The purges of all sites that were ever configured, by name. Purges from other nodes are applied to them.
#[derive(Clone, Default)]
pub(super) struct PurgesByName(Arc<Lock<NamedPurges>>);

#[derive(Default)]
struct NamedPurges {
    by_name: HashMap<String, Arc<SitePurges>>,
    /// Whether this node reads the purges of other nodes, so that it has missed those of a site that is added later.
    is_read: bool,
}

impl PurgesByName {
    /// The purges of a site.
    pub(super) fn find(&self, name: &str) -> Option<Arc<SitePurges>> {
        self.0.lock().by_name.get(name).cloned()
    }

    /// The purges of all sites.
    pub(super) fn all(&self) -> Vec<Arc<SitePurges>> {
        self.0.lock().by_name.values().cloned().collect()
    }

    /// Must be called when this node starts to read the purges of other nodes.
    pub(super) fn are_read(&self) {
        self.0.lock().is_read = true;
    }

    fn add(&self, name: &str, purges: &Arc<SitePurges>) {
        let mut purges_of_sites = self.0.lock();
        purges_of_sites
            .by_name
            .insert(name.to_owned(), Arc::clone(purges));
        if purges_of_sites.is_read {
            // The purges of this site were missed so far, and pages on the disk may be older than those.
            let everything = Purge {
                scope: Scope::Site,
                strength: Strength::Hard,
            };
            drop(purges.apply(&everything, PurgeSource::Cluster));
        }
    }
}

struct SiteState {
    row: u32,
    purges: Arc<SitePurges>,
    counters: Arc<FetchCounters>,
    acknowledged: Arc<AcknowledgedPurges>,
    cron: Arc<CronRuns>,
    audits: Arc<Audits>,
    /// The fragments, with the fingerprint of the rules under which they were rendered.
    fragments: (u64, Arc<FragmentTable>),
    private: Arc<PrivateStore>,
}

/// The numbers that identify a site in counters and keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SiteIdentity {
    /// The site's row in the counters.
    pub(super) row: u32,
    /// Part of the keys of the site's pages.
    pub(super) mark: u32,
    /// Part of the keys of the site's files.
    pub(super) file_mark: u32,
}

impl SiteStates {
    /// Starts without sites.
    pub(super) fn new(durable: Durable, private: MemoryBudget) -> Self {
        Self {
            durable,
            private,
            by_name: HashMap::new(),
            marks: HashMap::new(),
            purges: PurgesByName::default(),
        }
    }

    /// The purges of all sites, including those of later configurations.
    pub(super) fn purges(&self) -> PurgesByName {
        self.purges.clone()
    }

    /// The number of rows that the counters need.
    pub(super) fn rows(&self) -> usize {
        self.by_name.len()
    }

    /// The part of a site that fetch threads use, and its identity.
    pub(super) fn fetch_site(
        &mut self,
        site: &SiteConfig,
        compressing: Compressing,
    ) -> (FetchSite, SiteIdentity) {
        let name = &site.name;
        let fingerprint = key_shape(site).hash();
        let identity = SiteIdentity {
            mark: self.mark(name, fingerprint),
            file_mark: file_mark(site),
            row: self.state(name, fingerprint).row,
        };
        let disk = self.durable.site_disk_cache(name, fingerprint);
        let state = self.state(name, fingerprint);
        let core = FetchSite {
            name: site.name.clone(),
            policy: site.policy.clone(),
            disk,
            compressing,
            // Not those of the former configuration, which may have opened pages that are now closed.
            dictionaries: Arc::new(Dictionaries::new(
                site.dictionaries,
                site.policy.flags.next_pages.then(NextPages::new),
            )),
            purges: Arc::clone(&state.purges),
            counters: Arc::clone(&state.counters),
            limits: FetchLimits {
                lock_age: site.limits.lock_age,
                waiters: site.limits.waiters,
            },
            acknowledged: Arc::clone(&state.acknowledged),
            // WordPress must not rely on runs that Galley no longer makes.
            cron: match site.cron {
                RunInterval::Every(_) => Arc::clone(&state.cron),
                RunInterval::Off => Arc::default(),
            },
            audits: Arc::clone(&state.audits),
            fragments: Arc::clone(&state.fragments.1),
            private: (site.policy.members == MemberPages::Fragments)
                .then(|| Arc::clone(&state.private)),
            markers: None,
        };
        (core, identity)
    }

    fn state(&mut self, name: &str, fingerprint: u64) -> &mut SiteState {
        let row = u32::try_from(self.by_name.len()).unwrap_or(u32::MAX);
        let (durable, purges_by_name) = (&self.durable, &self.purges);
        let private = &self.private;
        let state = self.by_name.entry(name.to_owned()).or_insert_with(|| {
            let purges = Arc::new(durable.site_purges(name.to_owned()));
            purges_by_name.add(name, &purges);
            SiteState {
                row,
                purges,
                counters: Arc::default(),
                acknowledged: Arc::default(),
                cron: Arc::default(),
                audits: Arc::default(),
                fragments: (fingerprint, Arc::default()),
                private: Arc::new(PrivateStore::new(private.clone(), secret())),
            }
        });
        if state.fragments.0 != fingerprint {
            state.fragments = (fingerprint, Arc::default());
        }
        state
    }

    /// The mark of a name and a fingerprint: a part of their hash, or the next unused number.
    fn mark(&mut self, name: &str, fingerprint: u64) -> u32 {
        let [a, b, c, d, ..] = hash(&format!("{fingerprint:016x} {name}")).to_be_bytes();
        let mut mark = u32::from_be_bytes([a, b, c, d]);
        loop {
            let owner = self
                .marks
                .entry(mark)
                .or_insert_with(|| (name.to_owned(), fingerprint));
            if owner.0 == name && owner.1 == fingerprint {
                return mark;
            }
            mark = mark.wrapping_add(1);
        }
    }
}

/// A random key that no other site has.
fn secret() -> [u64; 2] {
    [galley_sys::random_bytes(), galley_sys::random_bytes()].map(u64::from_ne_bytes)
}

/// The mark for files: a hash of the settings that determine which files are sent.
fn file_mark(site: &SiteConfig) -> u32 {
    let runs_scripts = match site.upstream {
        UpstreamConfig::Php(_) | UpstreamConfig::Managed | UpstreamConfig::Program(_) => true,
        UpstreamConfig::Http(_) | UpstreamConfig::Files => false,
    };
    let internal = site.internal.iter().map(|one| {
        let folder = one.folder.as_deref().unwrap_or(Path::new(""));
        format!("{} {}", one.path, folder.display())
    });
    let shape = Shape::new("files", 1)
        .with("name", [&site.name])
        .with("root", site.root.iter().map(|root| root.display()))
        .with("allow_files", &site.allow_files)
        .with("internal", internal)
        .with(
            "link_targets",
            site.link_targets.iter().map(|path| path.display()),
        )
        .with_flag("wordpress", site.policy.urls.has_wordpress_paths)
        .with_flag("multisite", site.policy.flags.multisite)
        .with("image_siblings", [site.image_siblings.word()])
        .with_flag("php", runs_scripts);
    let [a, b, c, d, ..] = shape.hash().to_be_bytes();
    u32::from_be_bytes([a, b, c, d])
}

#[cfg(test)]
mod tests {
    use super::*;
    use galley_sys::clock::Clock;

    fn states() -> SiteStates {
        SiteStates::new(Durable::nothing(Clock::start()), MemoryBudget::new(0))
    }

    #[test]
    fn a_mark_depends_on_the_name_and_the_key_rules() {
        let mut states = states();
        let first = states.mark("example.com", 1);
        assert_eq!(first, states.mark("example.com", 1));
        assert_ne!(first, states.mark("example.com", 2));
        assert_ne!(first, states.mark("example.org", 1));
        // The mark is the same in every run.
        assert_eq!(first, self::states().mark("example.com", 1));
        states
            .marks
            .insert(first.wrapping_add(1), ("other".to_owned(), 7));
        states.marks.insert(first, ("other".to_owned(), 8));
        assert_eq!(states.mark("example.com", 1), first.wrapping_add(2));
    }

    #[test]
    fn a_site_that_is_added_again_has_its_purges_and_its_row() {
        let mut states = states();
        let purges = Arc::clone(&states.state("a.test", 1).purges);
        assert_eq!(states.state("b.test", 1).row, 1);
        let again = states.state("a.test", 2);
        assert!(Arc::ptr_eq(&again.purges, &purges) && again.row == 0);
        assert_eq!(states.rows(), 2);
    }
}
