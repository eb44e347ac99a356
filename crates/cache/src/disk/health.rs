//! Whether the disk accepts entries now, and why not.
//!
//! A write that fails because the disk is full, failing, read-only or not writable for this user turns storing off. After a pause
//! one entry is tried again; if it succeeds, storing is on again. Nothing else is written in between, so a failing disk does not
//! get a thousand requests a second. Reading always continues.

use std::io;
use std::time::Duration;

use galley_policy::time::Tick;
use galley_sys::Lock;

/// The error of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PauseReason {
    /// No space, or the quota is exceeded.
    #[error("the disk is full")]
    Full,
    /// Mounted read-only. Many file systems switch to that after an error.
    #[error("the file system is read-only")]
    ReadOnly,
    /// The owner or mode of the directory denies access.
    #[error("permission denied in the cache directory")]
    Denied,
    /// The device reported an error.
    #[error("the disk reports input/output errors")]
    Failing,
    /// Any other error, with its number.
    #[error("the disk: {}", io::Error::from_raw_os_error(*.0))]
    Other(i32),
}

/// The state of storing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// Entries are stored.
    Storing,
    /// Stored entries are read, but none is written: the entries are still being counted.
    Scanning,
    /// Storing is off, at least until `retry_at`.
    Off {
        /// The reason.
        reason: PauseReason,
        /// The time of the next trial.
        retry_at: Tick,
    },
    /// `Disk::close` was called.
    Closed,
}

/// Turns storing off and on.
#[derive(Debug, Default)]
pub(super) struct WriteBreaker {
    /// Held for a few lines. Written after each failure or success.
    off: Lock<Option<DisabledState>>,
}

#[derive(Clone, Copy, Debug)]
struct DisabledState {
    reason: PauseReason,
    retry_at: Tick,
    wait: Duration,
    /// Whether a trial has begun since.
    is_tried: bool,
}

impl WriteBreaker {
    /// Whether an entry may be written. During a pause, one trial at a time is permitted; all other entries are rejected.
    pub(super) fn admit(&self, now: Tick) -> Result<(), PauseReason> {
        let mut off = self.off.lock();
        let Some(state) = off.as_mut() else {
            return Ok(());
        };
        if now < state.retry_at {
            return Err(state.reason);
        }
        state.wait = (state.wait * 2).min(MAX_WAIT);
        state.retry_at = now.plus(state.wait);
        state.is_tried = true;
        Ok(())
    }

    /// Records that an entry was stored. Without a trial this changes nothing: an entry that was in progress when another one
    /// failed says nothing about the next one, because its space was reserved already.
    pub(super) fn succeeded(&self) {
        let mut off = self.off.lock();
        if off.is_some_and(|state| state.is_tried) {
            *off = None;
        }
    }

    /// Records that a call failed and returns the reason. Errors that say nothing about the disk do not turn storing off.
    pub(super) fn failed(&self, error: &io::Error, now: Tick) -> PauseReason {
        let reason = reason(error);
        if is_passing(error) {
            return reason;
        }
        // If storing is off already, the pause is set: this entry was in progress, or was the trial.
        let mut off = self.off.lock();
        match off.as_mut() {
            Some(state) => state.reason = reason,
            None => {
                *off = Some(DisabledState {
                    reason,
                    retry_at: now.plus(FIRST_WAIT),
                    wait: FIRST_WAIT,
                    is_tried: false,
                });
            }
        }
        reason
    }

    /// Records that a read failed. Only an error of the device counts, because any other error may concern one file.
    pub(super) fn read_failed(&self, error: &io::Error, now: Tick) {
        if reason(error) == PauseReason::Failing {
            self.failed(error, now);
        }
    }

    /// Why storing is off, and until when; `None`: storing is on.
    pub(super) fn state(&self) -> Option<(PauseReason, Tick)> {
        self.off.lock().map(|state| (state.reason, state.retry_at))
    }
}

fn reason(error: &io::Error) -> PauseReason {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            PauseReason::Full
        }
        io::ErrorKind::ReadOnlyFilesystem => PauseReason::ReadOnly,
        io::ErrorKind::PermissionDenied => PauseReason::Denied,
        _ => match error.raw_os_error() {
            Some(EIO) => PauseReason::Failing,
            number => PauseReason::Other(number.unwrap_or(0)),
        },
    }
}

/// Errors that do not concern the disk: no descriptors or memory, interrupted, or a directory in place of a file.
fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::Interrupted | io::ErrorKind::OutOfMemory
    ) || matches!(error.raw_os_error(), None | Some(ENFILE | EMFILE | EISDIR))
}

const EIO: i32 = rustix::io::Errno::IO.raw_os_error();
const ENFILE: i32 = rustix::io::Errno::NFILE.raw_os_error();
const EMFILE: i32 = rustix::io::Errno::MFILE.raw_os_error();
const EISDIR: i32 = rustix::io::Errno::ISDIR.raw_os_error();

/// Short, because an administrator who has freed space checks whether that helped.
const FIRST_WAIT: Duration = Duration::from_secs(5);
/// Long enough not to stress a failing disk, short enough to recover within the hour.
const MAX_WAIT: Duration = Duration::from_secs(300);

#[cfg(test)]
mod tests {
    use super::*;

    fn error(number: i32) -> io::Error {
        io::Error::from_raw_os_error(number)
    }

    #[test]
    fn reasons() {
        use rustix::io::Errno;
        let table = [
            (Errno::NOSPC, PauseReason::Full),
            (Errno::DQUOT, PauseReason::Full),
            (Errno::FBIG, PauseReason::Full),
            (Errno::ROFS, PauseReason::ReadOnly),
            (Errno::ACCESS, PauseReason::Denied),
            (Errno::PERM, PauseReason::Denied),
            (Errno::IO, PauseReason::Failing),
            (
                Errno::NODEV,
                PauseReason::Other(Errno::NODEV.raw_os_error()),
            ),
        ];
        for (number, wanted) in table {
            let breaker = WriteBreaker::default();
            assert_eq!(
                breaker.failed(&error(number.raw_os_error()), Tick(0)),
                wanted
            );
            assert_eq!(breaker.admit(Tick(0)), Err(wanted), "{number}");
            assert!(!wanted.to_string().is_empty());
        }
        for number in [EMFILE, ENFILE, EISDIR] {
            let breaker = WriteBreaker::default();
            breaker.failed(&error(number), Tick(0));
            assert_eq!(breaker.admit(Tick(0)), Ok(()), "{number}");
        }
    }

    #[test]
    fn only_device_errors_of_reads_turn_storing_off() {
        let breaker = WriteBreaker::default();
        breaker.read_failed(&error(rustix::io::Errno::ACCESS.raw_os_error()), Tick(0));
        assert_eq!(breaker.state(), None);
        breaker.read_failed(&error(EIO), Tick(0));
        assert_eq!(breaker.admit(Tick(0)), Err(PauseReason::Failing));
    }

    #[test]
    fn an_entry_in_progress_does_not_turn_storing_on() {
        let breaker = WriteBreaker::default();
        breaker.succeeded();
        assert_eq!(breaker.state(), None);
        breaker.failed(&error(rustix::io::Errno::NOSPC.raw_os_error()), Tick(0));
        breaker.succeeded();
        assert_eq!(breaker.admit(Tick(1)), Err(PauseReason::Full));
        assert_eq!(breaker.admit(Tick(5_000)), Ok(()));
        breaker.succeeded();
        assert_eq!(breaker.state(), None);
    }

    #[test]
    fn one_entry_tries_again_and_pauses_grow() {
        let breaker = WriteBreaker::default();
        let full = error(rustix::io::Errno::NOSPC.raw_os_error());
        breaker.failed(&full, Tick(1_000));
        breaker.failed(&full, Tick(1_001));
        assert_eq!(breaker.admit(Tick(5_999)), Err(PauseReason::Full));
        assert_eq!(breaker.admit(Tick(6_000)), Ok(()), "one trial");
        assert_eq!(
            breaker.admit(Tick(6_000)),
            Err(PauseReason::Full),
            "and no second"
        );
        breaker.failed(&full, Tick(6_001));
        let mut now = Tick(16_000);
        assert_eq!(breaker.state().unwrap().1, now, "twice as long");
        for _ in 0..20 {
            assert_eq!(breaker.admit(now), Ok(()));
            breaker.failed(&full, now);
            now = breaker.state().unwrap().1;
        }
        assert_eq!(breaker.admit(now), Ok(()));
        let waited = breaker.state().unwrap().1.since(now);
        assert_eq!(waited, MAX_WAIT);
        breaker.succeeded();
        assert_eq!((breaker.admit(now), breaker.state()), (Ok(()), None));
    }
}
