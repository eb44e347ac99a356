//! The state that the threads of a node and its handles share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard};

use galley_policy::purge::Strength;
use galley_sys::Lock;

use crate::inbox::Inbox;
use crate::lease::Lease;
use crate::limits::LimitQueue;
use crate::message::RemotePurge;
use crate::own_purges::OwnPurges;
use crate::page_counters::PageCounters;
use crate::point::NotedPoints;
use crate::position::Position;
use crate::status::ClusterStatus;

/// Applies the purges of other nodes.
pub trait PurgeSink: Send + Sync {
    /// Applies purges in order. When this returns, they are in effect, and on the disk if there is one.
    fn apply(&self, purges: &[RemotePurge]);

    /// Purges everything of all sites, because purges may be missing.
    fn apply_to_all(&self, strength: Strength);

    /// Whether pages of an earlier run are stored.
    fn has_earlier_pages(&self) -> bool;

    /// Whether purges of an earlier run are known.
    fn has_earlier_purges(&self) -> bool;

    /// Reads the number of each site's newest purge. The returned function is called with the state of the stream at that time.
    fn numbers(&self) -> NotePoint;
}

/// Records the state of the stream while certain numbers are the newest.
pub type NotePoint = Box<dyn FnOnce(&NotedPoints) + Send>;

/// The state that all threads of a node share.
#[derive(Default)]
pub(crate) struct ClusterState {
    pub(crate) lease: Arc<Lease>,
    /// The run of this node, which its messages contain.
    pub(crate) incarnation: String,
    /// The name of this node among the members.
    pub(crate) member: String,
    pub(crate) serves_through_partitions: bool,
    pub(crate) is_stopped: AtomicBool,
    /// Whether the stream was read to its end once.
    pub(crate) has_read: AtomicBool,
    /// Written by all threads of the server, read by the publisher.
    pub(crate) inbox: Inbox,
    pub(crate) limits: LimitQueue,
    /// The last position that the reader has applied.
    pub(crate) position: Lock<Option<Position>>,
    pub(crate) status: Lock<ClusterStatus>,
    pub(crate) applied: AtomicU64,
    pub(crate) gaps: AtomicU64,
    pub(crate) acknowledged: AtomicU64,
    pub(crate) local_only: AtomicU64,
    pub(crate) own: Arc<OwnPurges>,
    pub(crate) pages: PageCounters,
}

impl ClusterState {
    pub(crate) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
        self.inbox.stop();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }

    pub(crate) fn position(&self) -> Option<Position> {
        self.position.lock().clone()
    }

    pub(crate) fn set_position(&self, position: Option<&Position>) {
        let mut shared = self.position.lock();
        *shared = position.cloned();
    }

    pub(crate) fn status(&self) -> MutexGuard<'_, ClusterStatus> {
        self.status.lock()
    }
}

/// The name of a node's run among the members. It distinguishes two nodes with one name, and two processes of one node.
pub(crate) fn member(node: &str, incarnation: &str, serves_through_partitions: bool) -> String {
    let serves = if serves_through_partitions {
        SERVES
    } else {
        ""
    };
    format!("{node} {incarnation}{serves}")
}

/// The node of a member.
pub(crate) fn node_of(member: &str) -> &str {
    let run = member.strip_suffix(SERVES).unwrap_or(member);
    run.split_once(' ').map_or(run, |(node, _)| node)
}

/// The run of a member; `None`: the name is none of a node.
pub(crate) fn run_of(member: &str) -> Option<u128> {
    let run = member.strip_suffix(SERVES).unwrap_or(member);
    u128::from_str_radix(run.rsplit_once(' ')?.1, 16).ok()
}

/// The suffix of a member that sends stored pages without a lease, so its absent key proves nothing.
pub(crate) const SERVES: &str = " serves";
