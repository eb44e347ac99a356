//! The packets. They have a fixed size, little-endian numbers, and zeros in unused fields:
//!
//! ```text
//!  0      1      2       4            8               12             16
//! | kind | how  | 0   0 | pool (u32) | process (u32) | number (u32) |
//! ```
//!
//! | kind | packet | how | process | number |
//! |---|---|---|---|---|
//! | 1 | start | | | slot |
//! | 2 | signal | 1 quit, 2 terminate, 3 kill | main process | |
//! | 3 | replace | | worker | |
//! | 4 | connect | | | |
//! | 17 | ready | | | |
//! | 18 | started; carries the pipe of the output | | main process | slot |
//! | 19 | failed | | slot | `errno` |
//! | 20 | ended | | main process | status as in `wait(2)` |
//! | 21 | refused | | | |
//! | 22 | connected; carries a socket if the number is 0 | | | `errno` |
//!
//! Galley may be replaced by a later version while the process that keeps root continues, so packets never change their meaning.

/// The length of a packet, in bytes.
pub const BYTES: usize = 16;

/// A command from Galley.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrivilegedCommand {
    /// Start a process of a pool in one of its slots.
    Start {
        /// The number of the pool.
        pool: u32,
        /// The slot, counted from 0.
        slot: u32,
    },
    /// Signal a main process of a pool.
    Signal {
        /// The number of the pool.
        pool: u32,
        /// The process id, 1 to `i32::MAX`.
        process: u32,
        /// The signal.
        how: KillSignal,
    },
    /// Make a worker end after its current request.
    Replace {
        /// The number of the pool.
        pool: u32,
        /// The process id of a child of a main process of the pool, 1 to `i32::MAX`.
        worker: u32,
    },
    /// Return another socket, for the process that takes over from this Galley.
    Connect,
}

/// The signal that ends a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KillSignal {
    /// SIGQUIT: PHP-FPM lets its workers finish.
    Quit,
    /// SIGTERM.
    Terminate,
    /// SIGKILL, for the whole process group.
    Kill,
}

/// A report from the process that keeps root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// Everything is prepared.
    Ready,
    /// A process was started.
    Started {
        /// The number of the pool.
        pool: u32,
        /// The slot of the process.
        slot: u32,
        /// The process id.
        process: u32,
    },
    /// A process could not be started.
    Failed {
        /// The number of the pool.
        pool: u32,
        /// The slot of the process.
        slot: u32,
        /// The error number of the system; 0: unknown.
        errno: u32,
    },
    /// A main process has ended, and nothing remains of its process group.
    Ended {
        /// The number of the pool.
        pool: u32,
        /// The process id.
        process: u32,
        /// The status, as returned by `wait(2)`.
        status: u32,
    },
    /// A command was rejected.
    Refused,
    /// The packet carries another socket. The running processes are reported there, followed by `Ready`.
    Connected {
        /// The error number of the system if there is no socket; otherwise 0.
        errno: u32,
    },
}

impl PrivilegedCommand {
    /// Encodes the command.
    pub fn bytes(self) -> [u8; BYTES] {
        match self {
            Self::Start { pool, slot } => write(1, 0, [pool, 0, slot]),
            Self::Signal { pool, process, how } => write(2, how.number(), [pool, process, 0]),
            Self::Replace { pool, worker } => write(3, 0, [pool, worker, 0]),
            Self::Connect => write(4, 0, [0, 0, 0]),
        }
    }

    /// Decodes a command; `None` if it is invalid.
    pub fn read(packet: &[u8]) -> Option<Self> {
        let (kind, how, numbers) = read(packet)?;
        match (kind, how, numbers) {
            (1, 0, [pool, 0, slot]) => Some(Self::Start { pool, slot }),
            (2, how, [pool, process, 0]) => Some(Self::Signal {
                pool,
                process: process_id(process)?,
                how: KillSignal::of(how)?,
            }),
            (3, 0, [pool, worker, 0]) => Some(Self::Replace {
                pool,
                worker: process_id(worker)?,
            }),
            (4, 0, [0, 0, 0]) => Some(Self::Connect),
            _ => None,
        }
    }
}

impl KillSignal {
    fn number(self) -> u8 {
        match self {
            Self::Quit => 1,
            Self::Terminate => 2,
            Self::Kill => 3,
        }
    }

    fn of(number: u8) -> Option<Self> {
        [Self::Quit, Self::Terminate, Self::Kill]
            .into_iter()
            .find(|how| how.number() == number)
    }
}

impl Report {
    /// Encodes the report.
    pub fn bytes(self) -> [u8; BYTES] {
        match self {
            Self::Ready => write(17, 0, [0, 0, 0]),
            Self::Started {
                pool,
                slot,
                process,
            } => write(18, 0, [pool, process, slot]),
            Self::Failed { pool, slot, errno } => write(19, 0, [pool, slot, errno]),
            Self::Ended {
                pool,
                process,
                status,
            } => write(20, 0, [pool, process, status]),
            Self::Refused => write(21, 0, [0, 0, 0]),
            Self::Connected { errno } => write(22, 0, [0, 0, errno]),
        }
    }

    /// Decodes a report; `None` if it is invalid.
    pub fn read(packet: &[u8]) -> Option<Self> {
        let (kind, how, numbers) = read(packet)?;
        if how != 0 {
            return None;
        }
        match (kind, numbers) {
            (17, [0, 0, 0]) => Some(Self::Ready),
            (18, [pool, process, slot]) => Some(Self::Started {
                pool,
                slot,
                process: process_id(process)?,
            }),
            (19, [pool, slot, errno]) => Some(Self::Failed { pool, slot, errno }),
            (20, [pool, process, status]) => Some(Self::Ended {
                pool,
                process: process_id(process)?,
                status,
            }),
            (21, [0, 0, 0]) => Some(Self::Refused),
            (22, [0, 0, errno]) => Some(Self::Connected { errno }),
            _ => None,
        }
    }
}

/// Checks a process id. For the kernel, 0 and negative numbers mean process groups, or all processes.
fn process_id(number: u32) -> Option<u32> {
    (number != 0 && i32::try_from(number).is_ok()).then_some(number)
}

fn write(kind: u8, how: u8, numbers: [u32; 3]) -> [u8; BYTES] {
    let mut packet = [0; BYTES];
    let [pool, process, number] = numbers.map(u32::to_le_bytes);
    for (into, from) in packet
        .chunks_exact_mut(4)
        .zip([[kind, how, 0, 0], pool, process, number])
    {
        into.copy_from_slice(&from);
    }
    packet
}

fn read(packet: &[u8]) -> Option<(u8, u8, [u32; 3])> {
    let (words, []) = packet.as_chunks() else {
        return None;
    };
    let [[kind, how, 0, 0], numbers @ ..] = words else {
        return None;
    };
    let numbers: [[u8; 4]; 3] = numbers.try_into().ok()?;
    Some((*kind, *how, numbers.map(u32::from_le_bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn packets_have_the_documented_layout() {
        let command = PrivilegedCommand::Signal {
            pool: 2,
            process: 0x0102,
            how: KillSignal::Kill,
        };
        let bytes = [2, 3, 0, 0, 2, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0];
        assert_eq!(command.bytes(), bytes);
        let report = Report::Ended {
            pool: 1,
            process: 7,
            status: 9,
        };
        let bytes = [20, 0, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0, 9, 0, 0, 0];
        assert_eq!(report.bytes(), bytes);
    }

    #[test]
    fn invalid_packets_are_rejected() {
        let of = |kind, how, process: u32, number| write(kind, how, [0, process, number]);
        for odd in [
            of(0, 0, 0, 0),
            of(4, 0, 0, 1),
            of(4, 1, 0, 0),
            of(5, 0, 0, 0),
            of(17, 0, 0, 0),
            of(1, 1, 0, 0),
            of(1, 0, 1, 0),
            of(2, 0, 5, 0),
            of(2, 4, 5, 0),
            of(2, 1, 5, 1),
            // To the kernel: the own group, and every process but the first.
            of(2, 3, 0, 0),
            of(2, 3, u32::MAX, 0),
            of(3, 0, 0, 0),
            of(3, 0, 1 << 31, 0),
            of(3, 1, 5, 0),
        ] {
            assert_eq!(PrivilegedCommand::read(&odd), None, "{odd:?}");
        }
        let good = of(1, 0, 0, 0);
        assert!(PrivilegedCommand::read(&good).is_some());
        let longer = [&good[..], &[0]].concat();
        assert_eq!(PrivilegedCommand::read(&longer), None);
        assert_eq!(PrivilegedCommand::read(&good[..15]), None);
        assert_eq!(PrivilegedCommand::read(&[]), None);
    }

    proptest! {
        #[test]
        fn valid_bytes_are_encoded_unchanged(bytes in prop::collection::vec(any::<u8>(), 0..20)) {
            if let Some(command) = PrivilegedCommand::read(&bytes) {
                prop_assert_eq!(&command.bytes()[..], &bytes[..]);
            }
            if let Some(report) = Report::read(&bytes) {
                prop_assert_eq!(&report.bytes()[..], &bytes[..]);
            }
        }

        #[test]
        fn nearly_valid_bytes_are_encoded_unchanged(kind in 0_u8..24, how in 0_u8..5, numbers in any::<[u32; 3]>(), zero in any::<[bool; 3]>()) {
            let numbers = std::array::from_fn(|at| if zero[at] { 0 } else { numbers[at] });
            let bytes = write(kind, how, numbers);
            let command = PrivilegedCommand::read(&bytes);
            let report = Report::read(&bytes);
            prop_assert!(command.is_none() || report.is_none());
            prop_assert!(command.is_none_or(|command| command.bytes() == bytes));
            prop_assert!(report.is_none_or(|report| report.bytes() == bytes));
        }
    }
}
