//! A cluster: several Galley nodes that apply each other's purges, connected by Valkey or Redis ("the engine").
//!
//! Every purge is appended to one stream, and every node applies it in the stream's order. A node sends stored pages only
//! while it has a lease, which it renews after it has applied everything in the stream. A purge is acknowledged when every
//! member has applied it or its lease has expired, so no node can send the old page any more.
//!
//! ```text
//! galley:<name>:purges       stream: node, seq, site, strength, scope and its parts, seal
//! galley:<name>:members      sorted set of the nodes' runs, by the time of their last renewal
//! galley:<name>:node:<run>   the last entry that the node has applied; expires after KEY_LIFETIME
//! galley:<name>:head:<run>   what the node knows of the purges of all runs, see `ledger`; only with a key
//! galley:<name>:epoch        a random text; if it changes, the engine has lost data
//! galley:<name>:limits       stream: the charges of clients to shared limits; expires after seconds
//! galley:<name>:page:..      a shared page, see `shared_pages`
//! galley:<name>:fetch:..     a node fetches a page
//! galley:<name>:secret:..    a secret of the nodes, see `shared_secrets`, which also has `notes`, `turn` and `failures`
//! ```
//!
//! Why this is safe: a member sends stored pages until [`lease::LEASE`] after it *sent* a renewal; its key expires
//! [`lease::KEY_LIFETIME`] after the engine *received* the renewal, which is later. So if a key is absent, the lease is over,
//! unless the engine lost data. The publisher detects that by the engine's identity and the epoch. After a change of either
//! it waits for a whole key lifetime before it relies on an absent key.

mod append;
mod breaker;
mod cluster;
mod cluster_key;
mod confirm;
mod connection;
mod engine;
mod engine_link;
mod engine_replies;
mod engine_scripts;
mod engine_stream;
mod entry_seal;
mod error;
mod head;
mod identity;
mod inbox;
mod info;
mod inspect;
mod kept_ledger;
pub mod lease;
mod ledger;
mod limit_exchange;
mod limits;
mod members;
mod message;
mod noted;
mod outbox;
mod own_purges;
mod page_command;
mod page_counters;
mod page_thread;
mod page_value;
mod point;
mod position;
mod publisher;
mod reach;
mod reader;
mod record_file;
mod secret_lock;
mod secret_value;
mod sentinel;
mod sequences;
mod shared;
mod shared_pages;
mod shared_secrets;
mod status;
mod stream_id;

pub use cluster::{Cluster, ClusterPublisher, ClusterSettings, RunningCluster};
pub use cluster_key::{PageName, quic_secret};
pub use error::{EngineError, EngineUnavailable};
pub use inspect::{EngineProblem, EngineReport, inspect};
pub use limits::{ChargeSink, LimitCharge};
pub use message::RemotePurge;
pub use own_purges::StartedPurge;
pub use page_command::{FetchToken, FoundPage, RecordWriter};
#[cfg(fuzzing)]
pub use page_value::fuzz as fuzz_page_value;
pub use point::{BornPoint, NotedPoints, PurgePoints, StreamPoint};
pub use reach::{PendingReach, PurgeReach};
pub use record_file::RecordFile;
pub use secret_lock::SecretLock;
pub use secret_value::SecretName;
pub use shared::{NotePoint, PurgeSink};
pub use shared_pages::{PageSearch, PageSettings, PageToShare, SharedPages, SharedWait};
pub use shared_secrets::{PostedNotes, SharedSecrets};
pub use status::{ClusterStatus, MemberStatus, PagesStatus};
