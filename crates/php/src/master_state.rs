//! The state of a managed PHP, for observers.

/// The state of a managed PHP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MasterState {
    /// The socket accepts connections.
    Running {
        /// The process id of the master; for other programs, of the process that supervises them.
        master: u32,
    },
    /// The master died; another is started after a pause.
    Restarting,
    /// Stopped.
    Ended,
}
