//! Tracks whether all purges that this node has published are in the stream, and up to which entry.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::stream_id::StreamId;
use galley_sys::Lock;

/// Written by all publishers of purges and by the publisher's thread; read by the reader's thread.
#[derive(Debug, Default)]
pub(crate) struct OwnPurges {
    /// The number of purges that have a number on this node, or are about to get one, but are not in the stream.
    unappended: AtomicU64,
    appended: Lock<AppendedPurge>,
    /// The newest entry that the reader knows. Later ones get higher ids.
    horizon: Lock<StreamId>,
}

#[derive(Debug, Default)]
struct AppendedPurge {
    /// The engine to which the publisher connected last.
    engine: String,
    /// All appended purges are in the stream up to this entry.
    newest: StreamId,
    /// The number and entry of the last one of this run, also one that purges nothing; `None`: none is in this engine's stream.
    last: Option<(u64, StreamId)>,
    /// The newest mark of this run, if it was appended after the last request of one.
    mark: Option<StreamId>,
    /// How many marks were requested, and which of the requests were met.
    requested: u64,
    met: u64,
}

/// A purge that is being added to the stream, counted from before it is in effect on this node.
///
/// If it is dropped without `settle`, it counts forever: this node then accepts no further shared page, which is safe.
#[derive(Debug)]
#[must_use = "a purge that never gets into the stream ends the use of shared pages"]
pub struct StartedPurge(Arc<OwnPurges>);

impl StartedPurge {
    pub(crate) fn new(own: &Arc<OwnPurges>) -> Self {
        own.unappended.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(own))
    }

    /// Called when the purge is in the stream, or another one that purges as much is being added.
    pub(crate) fn settle(self) {
        self.0.unappended.fetch_sub(1, Ordering::AcqRel);
    }
}

impl OwnPurges {
    /// Records that the publisher has connected to an engine. `least`: an entry before all later ones, if the engine may have
    /// lost appended purges.
    pub(crate) fn connected(&self, engine: String, least: Option<StreamId>) {
        let mut appended = self.appended.lock();
        if let Some(least) = least {
            appended.newest = least;
            appended.last = None;
        }
        appended.engine = engine;
    }

    /// Records an entry of this node. Must be called before its [`StartedPurge::settle`].
    pub(crate) fn appended(&self, sequence: u64, id: StreamId) {
        let mut appended = self.appended.lock();
        appended.newest = appended.newest.max(id);
        appended.last = Some((sequence, id));
    }

    /// Records an entry of this node that purges nothing. `request`: the last one before it was appended.
    pub(crate) fn marked(&self, sequence: u64, id: StreamId, request: u64) {
        let mut appended = self.appended.lock();
        appended.last = Some((sequence, id));
        appended.met = request;
        if appended.requested == request {
            appended.mark = Some(id);
        }
    }

    /// Requests another mark: an entry behind all entries of now.
    pub(crate) fn request_mark(&self) {
        let mut appended = self.appended.lock();
        appended.mark = None;
        appended.requested += 1;
    }

    /// Whether a mark was requested after the last one was appended.
    pub(crate) fn wants_mark(&self) -> bool {
        let appended = self.appended.lock();
        appended.requested != appended.met
    }

    /// The number of the last request of a mark.
    pub(crate) fn request(&self) -> u64 {
        self.appended.lock().requested
    }

    /// The newest mark of this run, if it was appended after the last request of one.
    pub(crate) fn mark(&self) -> Option<StreamId> {
        self.appended.lock().mark
    }

    /// The number and entry of this run's last one in this engine's stream.
    pub(crate) fn last(&self, engine: &str) -> Option<(u64, StreamId)> {
        let appended = self.appended.lock();
        appended.last.filter(|_| appended.engine == engine)
    }

    /// An entry of this engine's stream such that all published purges are in the stream up to it; `None`: there is none.
    pub(crate) fn newest(&self, engine: &str) -> Option<StreamId> {
        if self.unappended.load(Ordering::Acquire) > 0 {
            return None;
        }
        let appended = self.appended.lock();
        (appended.engine == engine).then_some(appended.newest)
    }

    pub(crate) fn note_horizon(&self, id: StreamId) {
        let mut horizon = self.horizon.lock();
        *horizon = id.max(*horizon);
    }

    pub(crate) fn horizon(&self) -> StreamId {
        *self.horizon.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> StreamId {
        StreamId::parse(text).unwrap()
    }

    #[test]
    fn no_entry_is_known_while_a_purge_is_being_added() {
        let own = Arc::new(OwnPurges::default());
        assert_eq!(own.newest("a"), None);
        own.connected("a".to_owned(), None);
        assert_eq!(own.newest("a"), Some(StreamId::START));
        let (first, second) = (StartedPurge::new(&own), StartedPurge::new(&own));
        own.appended(1, id("5-0"));
        first.settle();
        assert_eq!(own.newest("a"), None);
        own.appended(2, id("4-0"));
        second.settle();
        assert_eq!(own.newest("a"), Some(id("5-0")));
        assert_eq!(own.newest("b"), None);
    }

    #[test]
    fn after_a_loss_of_data_old_entries_do_not_count() {
        let own = Arc::new(OwnPurges::default());
        own.connected("a".to_owned(), None);
        own.appended(1, id("9-0"));
        assert_eq!(own.last("a"), Some((1, id("9-0"))));
        own.connected("b".to_owned(), Some(id("3-1")));
        assert_eq!(own.newest("b"), Some(id("3-1")));
        assert_eq!((own.newest("a"), own.last("b")), (None, None));
    }

    #[test]
    fn a_mark_is_wanted_until_one_is_appended_after_the_request() {
        let own = OwnPurges::default();
        own.marked(1, id("5-0"), own.request());
        assert_eq!((own.wants_mark(), own.mark()), (false, Some(id("5-0"))));
        own.request_mark();
        assert_eq!((own.wants_mark(), own.mark()), (true, None));
        // Appending it fails; then another request comes while it is appended.
        assert!(own.wants_mark());
        let request = own.request();
        own.request_mark();
        own.marked(2, id("6-0"), request);
        assert_eq!((own.wants_mark(), own.mark()), (true, None));
        own.marked(3, id("7-0"), own.request());
        assert_eq!((own.wants_mark(), own.mark()), (false, Some(id("7-0"))));
    }

    #[test]
    fn a_dropped_purge_counts_forever() {
        let own = Arc::new(OwnPurges::default());
        own.connected("a".to_owned(), None);
        drop(StartedPurge::new(&own));
        assert_eq!(own.newest("a"), None);
    }
}
