//! Publishes the purges that a response causes, and removes other copies of a stored response.

use std::sync::Arc;

use galley_cache::entry::{Entry, EntryKind};
use galley_cache::memory::PutRefused;
use galley_policy::purge::{Purge, PurgeLabel};

use super::site::FetchSite;
use galley_purging::{PurgeSource, Receipt};

/// Handles a page that was offered to the memory cache: queues it for compression and writes it to the disk. If the page may not be
/// stored, removes the older copy from the disk.
pub(super) fn write_to_disk(site: &FetchSite, entry: &Arc<Entry>, outcome: Result<(), PutRefused>) {
    if outcome.is_ok() {
        site.compressing.offer(entry);
    }
    let Some(disk) = &site.disk else { return };
    match entry.kind {
        EntryKind::HitForPass => disk.forget(&entry.key, entry.born),
        EntryKind::Page | EntryKind::Varies if outcome == Err(PutRefused::Superseded) => {}
        EntryKind::Page | EntryKind::Varies => disk.keep(entry),
    }
}

/// Publishes purges that the upstream reports. They are in effect when this function returns.
pub(super) fn publish(site: &FetchSite, purges: &[Purge]) -> Acknowledgement {
    publish_labeled(site, purges, None)
}

/// The same with a label for the history.
pub(super) fn publish_labeled(
    site: &FetchSite,
    purges: &[Purge],
    label: Option<&PurgeLabel>,
) -> Acknowledgement {
    let source = PurgeSource::Upstream;
    let publish = || site.purges.publish_labeled(purges, source, label);
    Acknowledgement((!purges.is_empty()).then(publish))
}

/// The purges of an exchange.
pub(super) struct ExchangePurges {
    /// Those that the response reports.
    pub(super) reported: Vec<Purge>,
    /// Those that its unsafe method causes.
    pub(super) of_method: Vec<Purge>,
    /// What those that the response reports are for.
    pub(super) label: Option<PurgeLabel>,
}

impl ExchangePurges {
    pub(super) fn is_empty(&self) -> bool {
        self.reported.is_empty() && self.of_method.is_empty()
    }

    /// Publishes all of them. Returns how many purge numbers that took, too.
    pub(super) fn publish(&self, site: &FetchSite) -> (Acknowledgement, u64) {
        let reported = publish_labeled(site, &self.reported, self.label.as_ref());
        let of_method = publish_of_method(site, &self.of_method);
        let published = reported.published() + of_method.published();
        let newest = match of_method {
            Acknowledgement(None) => reported,
            newest => newest,
        };
        (newest, published)
    }
}

/// Publishes the purges that unsafe methods cause.
pub(super) fn publish_of_method(site: &FetchSite, purges: &[Purge]) -> Acknowledgement {
    let is_empty = purges.is_empty();
    Acknowledgement((!is_empty).then(|| site.purges.publish_all(purges, PurgeSource::Unsafe)))
}

/// The acknowledgement of purges that a response carries. The response is sent only after it.
#[must_use = "a response acknowledges the purges that it contains"]
pub(super) struct Acknowledgement(Option<Receipt>);

impl Acknowledgement {
    fn published(&self) -> u64 {
        self.0.as_ref().map_or(0, Receipt::published)
    }

    /// Waits until the purges are on the disk and final in the cluster, or known not to become final. False: they are not final.
    pub(super) async fn wait(self, site: &FetchSite) -> bool {
        let Some(receipt) = self.0 else { return true };
        let receipt = receipt.acknowledged().await;
        receipt.log(&site.name);
        receipt.is_final()
    }
}
