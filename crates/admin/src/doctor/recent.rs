//! Counters of the kernel over the last hour, so that the doctor reports current problems and not one that happened once since the
//! machine started.
//!
//! The kernel only counts from the start of the machine. The running server reads the counters once a minute and reports the
//! differences in its status; without a running server there is nothing to compare with, and the findings are `unknown`.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::ProcFs;

/// The values of the counters at one time. A counter that the kernel does not report is 0 in each reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelCounters {
    /// Connections of any program that were dropped because a listener's queue was full (`TcpExt: ListenDrops`).
    pub(super) listen_drops: u64,
    /// Connections that any program accepted (`Tcp: PassiveOpens`).
    pub(super) accepted: u64,
    /// Processes that were killed because memory ran out (`oom_kill`).
    pub(super) oom_kills: u64,
    /// Pages read back from swap (`pswpin`).
    #[serde(rename = "swapped_in_pages")]
    pub(super) swapped_in: u64,
    /// Request bodies that Galley refused because its spool was full.
    pub(super) spool_refused: u64,
    /// Responses that kept PHP waiting because the spool was full.
    pub(super) spool_held_up: u64,
}

/// The readings of the last hour. The owner calls [`Self::add`] once a minute.
#[derive(Debug)]
pub struct RecentCounters {
    /// The readings, the oldest first; 1 to [`READINGS`].
    readings: VecDeque<KernelCounters>,
}

/// The differences between the oldest reading and the current values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RecentChanges {
    /// The time that the counts cover, in minutes, 0 to 60.
    pub minutes: u64,
    #[serde(flatten)]
    pub counts: KernelCounters,
}

impl KernelCounters {
    /// Reads the current values from three files of `/proc`.
    pub fn of(machine: &ProcFs) -> Self {
        Self {
            listen_drops: listen_drops(machine),
            accepted: machine
                .counter("proc/net/snmp", "Tcp", "PassiveOpens")
                .unwrap_or(0),
            oom_kills: machine
                .word("proc/vmstat", "oom_kill ", "oom_kill")
                .unwrap_or(0),
            swapped_in: machine
                .word("proc/vmstat", "pswpin ", "pswpin")
                .unwrap_or(0),
            spool_refused: 0,
            spool_held_up: 0,
        }
    }

    /// Sets the server's counters of its spool.
    #[must_use]
    pub fn with_spool(mut self, refused: u64, held_up: u64) -> Self {
        self.spool_refused = refused;
        self.spool_held_up = held_up;
        self
    }
}

/// Connections dropped since the machine started.
pub(super) fn listen_drops(machine: &ProcFs) -> u64 {
    let drops = machine.counter("proc/net/netstat", "TcpExt", "ListenDrops");
    drops.unwrap_or(0)
}

impl RecentCounters {
    /// Creates counters that begin with the reading `first`.
    pub fn new(first: KernelCounters) -> Self {
        Self {
            readings: VecDeque::from([first]),
        }
    }

    /// Adds the reading of one minute later.
    pub fn add(&mut self, reading: KernelCounters) {
        if self.readings.len() == READINGS {
            self.readings.pop_front();
        }
        self.readings.push_back(reading);
    }

    /// The differences up to `now`, in the form of the status.
    pub fn value(&self, now: &KernelCounters) -> Value {
        let oldest = self.readings.front().copied().unwrap_or(*now);
        json!(RecentChanges {
            minutes: self.readings.len().saturating_sub(1) as u64,
            counts: KernelCounters {
                listen_drops: now.listen_drops.saturating_sub(oldest.listen_drops),
                accepted: now.accepted.saturating_sub(oldest.accepted),
                oom_kills: now.oom_kills.saturating_sub(oldest.oom_kills),
                swapped_in: now.swapped_in.saturating_sub(oldest.swapped_in),
                spool_refused: now.spool_refused.saturating_sub(oldest.spool_refused),
                spool_held_up: now.spool_held_up.saturating_sub(oldest.spool_held_up),
            },
        })
    }
}

impl RecentChanges {
    /// Reads the differences in the status of the running server; `None` if no server responds, or if the status has none.
    pub(super) fn of_status(status: &Result<Value, String>) -> Option<Self> {
        Self::deserialize(&status.as_ref().ok()?["last_hour"]).ok()
    }

    /// The time that the counts cover, for people.
    pub(super) fn period(&self) -> String {
        match self.minutes {
            0 => "since Galley started, less than a minute ago".to_owned(),
            1 => "in the last minute".to_owned(),
            many => format!("in the last {many} minutes"),
        }
    }
}

/// One reading a minute for an hour, and the one before.
const READINGS: usize = 61;

#[cfg(test)]
pub(super) mod tests {
    use super::super::machine::stand_in::StandIn;
    use super::*;

    /// The report of a server that has run for 40 minutes.
    pub(in crate::doctor) fn quiet() -> RecentChanges {
        RecentChanges {
            minutes: 40,
            counts: KernelCounters {
                accepted: 10_000,
                ..KernelCounters::default()
            },
        }
    }

    fn reading(drops: u64) -> KernelCounters {
        KernelCounters {
            listen_drops: drops,
            accepted: drops * 10,
            ..KernelCounters::default()
        }
    }

    #[test]
    fn counts_cover_the_last_hour_only() {
        let mut counters = RecentCounters::new(reading(7));
        let status = Ok(json!({ "last_hour": counters.value(&reading(9)) }));
        let recent = RecentChanges::of_status(&status).unwrap();
        assert_eq!((recent.minutes, recent.counts.listen_drops), (0, 2));
        for minute in 1..=100 {
            counters.add(reading(7 + minute));
        }
        let status = Ok(json!({ "last_hour": counters.value(&reading(107)) }));
        let recent = RecentChanges::of_status(&status).unwrap();
        assert_eq!(
            (
                recent.minutes,
                recent.counts.listen_drops,
                recent.counts.accepted
            ),
            (60, 60, 600)
        );
        assert_eq!(counters.readings.len(), READINGS);
    }

    #[test]
    fn a_status_without_counters_gives_none() {
        assert_eq!(RecentChanges::of_status(&Err("no server".to_owned())), None);
        assert_eq!(
            RecentChanges::of_status(&Ok(json!({ "version": "1" }))),
            None
        );
        let text = Ok(json!({ "last_hour": { "minutes": "x" } }));
        assert_eq!(RecentChanges::of_status(&text), None);
    }

    #[test]
    fn the_kernels_files_are_read() {
        let stand_in = StandIn::new(&[
            ("proc/net/netstat", "TcpExt: A ListenDrops\nTcpExt: 5 3\n"),
            ("proc/net/snmp", "Tcp: ActiveOpens PassiveOpens\nTcp: 5 4\n"),
            ("proc/vmstat", "pswpin 6\npswpout 1\noom_kill 2\n"),
        ]);
        let expected = KernelCounters {
            listen_drops: 3,
            accepted: 4,
            oom_kills: 2,
            swapped_in: 6,
            ..KernelCounters::default()
        };
        assert_eq!(KernelCounters::of(&stand_in.machine()), expected);
        assert_eq!(
            KernelCounters::of(&StandIn::new(&[]).machine()),
            KernelCounters::default()
        );
    }
}
