//! Whether a managed PHP runs, for its observers.

/// Where a managed PHP stands; anyone may watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MasterState {
    /// The socket accepts connections.
    Running {
        /// Process id of the master; of a program, of the process that watches over it.
        master: u32,
    },
    /// The master died; another is started after a pause.
    Restarting,
    /// Stopped.
    Ended,
}
