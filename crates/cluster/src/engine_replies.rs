//! What a node tells the engine's scripts, and what they return.
//!
//! The scripts are in `engine_scripts`; [`crate::engine::Session`] runs them.

use crate::cluster_key::ClusterKey;
use crate::head::NodeHead;
use crate::shared::run_of;
use crate::stream_id::StreamId;

/// A node's state of the stream.
pub(crate) struct KnownStream<'k> {
    pub(crate) epoch: &'k str,
    /// The last entry that the node had applied before it read the newest entries.
    pub(crate) before: StreamId,
}

/// The result of renewing a node's key.
pub(crate) struct Renewal {
    pub(crate) epoch: Option<String>,
    /// Whether the epoch is unchanged, and the stream still contains both the entry that the node had applied before and the
    /// one that it has applied now. If so, all entries between them were read, and the key is written.
    pub(crate) is_whole: bool,
}

/// A member, and the head that it has written.
pub(crate) struct MemberHead {
    pub(crate) member: String,
    /// Whether its key is there.
    pub(crate) is_present: bool,
    /// `None`: there is none that this run has sealed.
    pub(crate) head: Option<NodeHead>,
}

impl MemberHead {
    /// Opens the head of a member.
    pub(crate) fn open(key: &ClusterKey, member: String, is_present: bool, head: &[u8]) -> Self {
        let head = NodeHead::open(key, head);
        Self {
            head: head.filter(|head| run_of(&member) == Some(head.run)),
            member,
            is_present,
        }
    }
}

/// An entry to be appended.
pub(crate) struct NewEntry {
    /// `None`: the engine chooses one.
    pub(crate) id: Option<StreamId>,
    pub(crate) fields: Vec<(&'static str, Vec<u8>)>,
}

/// The result of appending.
pub(crate) enum AppendReply {
    Ids(Vec<StreamId>),
    /// Nothing was appended: ids must be higher than this one.
    Behind(StreamId),
}

/// Whether the engine takes writes that need memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum EngineSpace {
    Left,
    None,
}

/// The progress of the members.
pub(crate) struct Progress {
    pub(crate) epoch: Option<String>,
    /// The members with the values of their keys; `None`: the key is absent.
    pub(crate) members: Vec<(String, Option<StreamId>)>,
}
