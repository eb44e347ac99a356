//! Faults, done for real to a running server: what must not harm it, and the counting of what did.
//!
//! Each [`Part`] starts the given binary with a disk in a folder of its own and a scripted upstream behind it, does one
//! kind of harm again and again, and compares every response to its last byte with what the upstream generates. Nothing here
//! knows the formats of the files. The short form belongs to the tests, the long one to `make faults`; they differ in
//! rounds and sizes only. Touches no clock, file system or process of the machine but its own.

mod clock;
mod damage;
mod denied;
pub(crate) mod dice;
mod full;
mod kill;
mod mount;
mod orders;
mod rough;
mod stage;
mod start;
mod sync;
mod tally;
mod trace;
mod truth;
pub(crate) mod wall_clock;

use std::path::PathBuf;

pub use self::tally::Tally;
use crate::TestkitError;

/// What is run, and how much of it.
#[derive(Debug, Clone)]
pub struct Setting {
    /// The server.
    pub galley: PathBuf,
    /// Of everything that is drawn.
    pub seed: u64,
    /// How much.
    pub form: Form,
}

/// How much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Seconds each, for the tests.
    Short,
    /// Minutes all together.
    Long,
}

/// One kind of harm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// `kill -9` while it fills, purges and answers.
    Kill,
    /// An answer to a purge that leaves before the order is on the disk.
    Sync,
    /// A file system without room.
    Full,
    /// Files flipped, cut, swapped, brought back.
    Damage,
    /// Folders closed to the server's user.
    Denied,
    /// The wall clock set back and forward.
    Clock,
    /// Upstreams that hang, break off, send too little, too much, rubbish.
    Upstream,
    /// A start with very many entries on the disk.
    Start,
}

impl Part {
    /// All, in the order in which they are run.
    pub const ALL: [Self; 8] = [
        Self::Kill,
        Self::Sync,
        Self::Full,
        Self::Damage,
        Self::Denied,
        Self::Clock,
        Self::Upstream,
        Self::Start,
    ];

    /// One word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::Sync => "sync",
            Self::Full => "full",
            Self::Damage => "damage",
            Self::Denied => "denied",
            Self::Clock => "clock",
            Self::Upstream => "upstream",
            Self::Start => "start",
        }
    }

    /// A line for a table.
    pub fn title(self) -> &'static str {
        match self {
            Self::Kill => "kill -9 while filling, purging, reading",
            Self::Sync => "purge on the disk before its answer",
            Self::Full => "file system of 20 MB filled up",
            Self::Damage => "files flipped, cut, swapped, brought back",
            Self::Denied => "permission removed while running",
            Self::Clock => "clock set back and forward",
            Self::Upstream => "upstream that breaks in every way",
            Self::Start => "start with many entries on disk",
        }
    }

    /// Does the harm and counts.
    ///
    /// # Errors
    /// When the tools of the test fail, not the server: what the server does wrong is in the tally. A server that does not
    /// start is an error too.
    pub fn run(self, setting: &Setting) -> Result<Tally, TestkitError> {
        match self {
            Self::Kill => kill::run(setting),
            Self::Sync => sync::run(setting),
            Self::Full => full::run(setting),
            Self::Damage => damage::run(setting),
            Self::Denied => denied::run(setting),
            Self::Clock => clock::run(setting),
            Self::Upstream => rough::run(setting),
            Self::Start => start::run(setting),
        }
    }
}
