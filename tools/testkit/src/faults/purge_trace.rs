//! Reads the output of `strace -f -y` and checks that each purge was on the disk before its response was sent.
//!
//! ```text
//! 812 pwrite64(9</c/purges/purges.log>, "..."..., 84, 140) = 84
//! 812 fdatasync(9</c/purges/purges.log> <unfinished ...>
//! 806 epoll_wait(...)                     = 1
//! 812 <... fdatasync resumed>)            = 0
//! 806 writev(12<socket:[7]>, [{iov_base="HTTP/1.1 200 OK"...
//! ```
//! A call that blocks takes two lines, and lines of other threads can be between them.

use std::collections::BTreeSet;

/// The events that a trace contains.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct TraceSummary {
    /// Responses with status 200.
    pub(super) responses: usize,
    /// Responses without a purge written and synced since the previous response.
    pub(super) early: usize,
    /// Completed syncs of the purge log.
    pub(super) syncs: usize,
}

/// Summarizes a trace; `log` is the path of the purge log.
pub(super) fn read(text: &str, log: &str) -> TraceSummary {
    let mut summary = TraceSummary::default();
    let mut syncing = BTreeSet::new();
    let (mut is_written, mut is_synced) = (false, false);
    for line in text.lines() {
        let Some((thread, call)) = line.trim_start().split_once(' ') else {
            continue;
        };
        let call = call.trim_start();
        let is_log = call.contains(&format!("<{log}>"));
        match event(call) {
            Event::Write if is_log && !is_header_write(call) => is_written = true,
            Event::Sync if is_log && call.ends_with("<unfinished ...>") => {
                syncing.insert(thread);
            }
            Event::Sync if is_log && succeeded(call) => {
                summary.syncs += 1;
                is_synced = is_written;
            }
            Event::Synced if syncing.remove(thread) && succeeded(call) => {
                summary.syncs += 1;
                is_synced = is_written;
            }
            Event::Write if call.contains("\"HTTP/1.1 200") => {
                summary.responses += 1;
                summary.early += usize::from(!is_synced);
                (is_written, is_synced) = (false, false);
            }
            Event::Write | Event::Sync | Event::Synced | Event::Other => {}
        }
    }
    summary
}

enum Event {
    Write,
    Sync,
    Synced,
    Other,
}

fn event(call: &str) -> Event {
    let starts = |names: &[&str]| {
        names.iter().any(|name| {
            call.strip_prefix(name)
                .is_some_and(|rest| rest.starts_with('('))
        })
    };
    if starts(WRITES) {
        Event::Write
    } else if starts(SYNCS) {
        Event::Sync
    } else if SYNCS
        .iter()
        .any(|name| call.starts_with(&format!("<... {name} resumed>")))
    {
        Event::Synced
    } else {
        Event::Other
    }
}

/// Whether a call updates the acknowledged length: sixteen bytes in the header of the file.
fn is_header_write(call: &str) -> bool {
    call.contains(", 16, 40)") || call.contains(", 16, 40 <unfinished")
}

fn succeeded(call: &str) -> bool {
    call.trim_end().ends_with("= 0")
}

/// The system calls to trace.
pub(super) fn calls() -> String {
    [WRITES, SYNCS].concat().join(",")
}

const WRITES: &[&str] = &[
    "write", "pwrite64", "writev", "pwritev", "sendto", "sendmsg",
];
const SYNCS: &[&str] = &["fdatasync", "fsync"];

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD: &str = "812 pwrite64(9</c/purges.log>, \"T\\0\"..., 84, 140) = 84\n";
    const SYNC: &str = "812 fdatasync(9</c/purges.log>) = 0\n";
    const SYNC_STARTED: &str = "812 fdatasync(9</c/purges.log> <unfinished ...>\n";
    const SYNC_DONE: &str = "812 <... fdatasync resumed>) = 0\n";
    const HEADER: &str = "812 pwrite64(9</c/purges.log>, \"T\\0\"..., 16, 40) = 16\n";
    const RESPONSE: &str = "806 writev(7<socket:[1]>, [{iov_base=\"HTTP/1.1 200 OK\"..., 2) = 9\n";
    const OTHER: &str = "806 write(2</c/log>, \"x\", 1) = 1\n";

    #[test]
    fn a_response_before_the_end_of_its_sync_is_early() {
        let table: [(&[&str], usize, usize); 10] = [
            (&[RECORD, SYNC, RESPONSE, HEADER], 1, 0),
            (
                &[RECORD, SYNC_STARTED, OTHER, SYNC_DONE, HEADER, RESPONSE],
                1,
                0,
            ),
            (&[RECORD, SYNC_STARTED, RESPONSE, SYNC_DONE, HEADER], 1, 1),
            (&[RECORD, RESPONSE, SYNC], 1, 1),
            (&[RESPONSE], 1, 1),
            (&[SYNC, RESPONSE], 1, 1),
            (&[HEADER, SYNC, RESPONSE], 1, 1),
            (&[RECORD, SYNC, RESPONSE, RESPONSE], 2, 1),
            (&[RECORD, SYNC, RECORD, RESPONSE], 1, 0),
            (
                &[
                    RECORD,
                    "812 fdatasync(9</c/purges.log>) = -1 EIO\n",
                    RESPONSE,
                ],
                1,
                1,
            ),
        ];
        for (lines, responses, early) in table {
            let summary = read(&lines.concat(), "/c/purges.log");
            assert_eq!(
                (summary.responses, summary.early),
                (responses, early),
                "{lines:?}"
            );
        }
        let foreign = [RECORD, "812 fdatasync(9</c/other>) = 0\n", RESPONSE].concat();
        assert_eq!(read(&foreign, "/c/purges.log").early, 1);
    }
}
