//! Reading what `strace -f -y` wrote: whether each answer left after its order was on the disk.
//!
//! ```text
//! 812 pwrite64(9</c/purges/purges.log>, "..."..., 84, 140) = 84
//! 812 fdatasync(9</c/purges/purges.log> <unfinished ...>
//! 806 epoll_wait(...)                     = 1
//! 812 <... fdatasync resumed>)            = 0
//! 806 writev(12<socket:[7]>, [{iov_base="HTTP/1.1 200 OK"...
//! ```
//! A call that does not return at once takes two lines, with those of other threads between.

use std::collections::BTreeSet;

/// What the trace shows.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Traced {
    /// Answers that began to leave, status 200.
    pub(super) answers: usize,
    /// Those before which no order had been written and synced since the answer before.
    pub(super) early: usize,
    /// Completed syncs of the log.
    pub(super) syncs: usize,
}

/// Reads a trace; `log` is the path of the purge log.
pub(super) fn read(text: &str, log: &str) -> Traced {
    let mut traced = Traced::default();
    let mut syncing = BTreeSet::new();
    let (mut is_written, mut is_synced) = (false, false);
    for line in text.lines() {
        let Some((thread, call)) = line.trim_start().split_once(' ') else {
            continue;
        };
        let call = call.trim_start();
        let of_log = call.contains(&format!("<{log}>"));
        match event(call) {
            Event::Write if of_log && !is_mark(call) => is_written = true,
            Event::Sync if of_log && call.ends_with("<unfinished ...>") => {
                syncing.insert(thread);
            }
            Event::Sync if of_log && succeeded(call) => {
                traced.syncs += 1;
                is_synced = is_written;
            }
            Event::Synced if syncing.remove(thread) && succeeded(call) => {
                traced.syncs += 1;
                is_synced = is_written;
            }
            Event::Write if call.contains("\"HTTP/1.1 200") => {
                traced.answers += 1;
                traced.early += usize::from(!is_synced);
                (is_written, is_synced) = (false, false);
            }
            Event::Write | Event::Sync | Event::Synced | Event::Other => {}
        }
    }
    traced
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

/// The note of how much has been acknowledged: sixteen bytes in the header of the file.
fn is_mark(call: &str) -> bool {
    call.contains(", 16, 40)") || call.contains(", 16, 40 <unfinished")
}

fn succeeded(call: &str) -> bool {
    call.trim_end().ends_with("= 0")
}

/// The calls that are traced.
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
    const BEGUN: &str = "812 fdatasync(9</c/purges.log> <unfinished ...>\n";
    const DONE: &str = "812 <... fdatasync resumed>) = 0\n";
    const MARK: &str = "812 pwrite64(9</c/purges.log>, \"T\\0\"..., 16, 40) = 16\n";
    const ANSWER: &str = "806 writev(7<socket:[1]>, [{iov_base=\"HTTP/1.1 200 OK\"..., 2) = 9\n";
    const OTHER: &str = "806 write(2</c/log>, \"x\", 1) = 1\n";

    #[test]
    fn an_answer_follows_the_end_of_its_sync() {
        let table: [(&[&str], usize, usize); 10] = [
            (&[RECORD, SYNC, ANSWER, MARK], 1, 0),
            (&[RECORD, BEGUN, OTHER, DONE, MARK, ANSWER], 1, 0),
            (&[RECORD, BEGUN, ANSWER, DONE, MARK], 1, 1),
            (&[RECORD, ANSWER, SYNC], 1, 1),
            (&[ANSWER], 1, 1),
            (&[SYNC, ANSWER], 1, 1),
            (&[MARK, SYNC, ANSWER], 1, 1),
            (&[RECORD, SYNC, ANSWER, ANSWER], 2, 1),
            (&[RECORD, SYNC, RECORD, ANSWER], 1, 0),
            (
                &[RECORD, "812 fdatasync(9</c/purges.log>) = -1 EIO\n", ANSWER],
                1,
                1,
            ),
        ];
        for (lines, answers, early) in table {
            let traced = read(&lines.concat(), "/c/purges.log");
            assert_eq!(
                (traced.answers, traced.early),
                (answers, early),
                "{lines:?}"
            );
        }
        let foreign = [RECORD, "812 fdatasync(9</c/other>) = 0\n", ANSWER].concat();
        assert_eq!(read(&foreign, "/c/purges.log").early, 1);
    }
}
