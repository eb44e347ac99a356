//! The stored response that answers a job, and the key under which one is fetched.

use std::sync::Arc;

use galley_cache::entry::{Entry, EntryKind};
use galley_cache::key::Key;
use galley_cache::purge_table::Validity;
use galley_policy::decide::{Decision, decide};
use galley_policy::outcome::PassWhy;
use galley_policy::site::VaryPolicy;

use super::Storer;
use super::rfc9111::variants;
use crate::{PageJob, revalidate};

impl Storer {
    /// The key under which requests like this one are fetched, as far as known.
    pub(crate) fn fetch_key(&self, job: &PageJob) -> Key {
        let key = match job.storage().vary {
            VaryPolicy::CoveredByKey => job.key.clone(),
            VaryPolicy::Variants => {
                variants::fetch_key(&self.memory, &job.key, &job.call.request.fields)
            }
        };
        if job.depth == 0 {
            return key;
        }
        // Pages may include each other. A fetch waits only for fetches that are nested deeper, so no fetch waits for itself.
        Key::new(&[key.bytes(), b"\0esi", &[job.depth]].concat())
    }

    /// A stored entry that answers the job, from after the job was sent.
    pub(crate) fn usable_entry(&self, job: &PageJob) -> Option<Arc<Entry>> {
        let mut entry = self.memory.get(job.key.bytes())?;
        if entry.kind == EntryKind::Varies {
            entry = variants::find(&self.memory, &entry, &job.call.request.fields)?;
        }
        let is_held = job
            .held
            .as_ref()
            .is_some_and(|held| Arc::ptr_eq(held, &entry));
        let validity = job.site.purges.validity_waiting(&entry);
        let stored = revalidate::stored(&entry, validity, entry.age(self.clock.tick()));
        let decision = decide(&job.info, &job.site.policy, stored.as_ref());
        let is_usable = matches!(
            decision,
            Decision::Hit | Decision::HitAndRefresh | Decision::Pass(PassWhy::Remembered)
        );
        (is_usable && !is_held && validity == Validity::Valid).then_some(entry)
    }
}
