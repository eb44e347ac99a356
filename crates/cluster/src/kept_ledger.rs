//! The part of the ledger of a node ([`crate::ledger`]) that survives a restart, with the position.

use crate::sequences::Sequences;
use crate::stream_id::StreamId;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeptLedger {
    pub(crate) lineages: Vec<u128>,
    /// The run of the node that has written this.
    pub(crate) run: u128,
    /// Whether no other node has been seen in this lineage.
    pub(crate) is_alone: bool,
    /// The newest entry of a node that is known, also from heads.
    pub(crate) horizon: StreamId,
    pub(crate) sequences: Sequences,
}
