//! What a client program says it saw, whichever program it is.

mod ab;
mod wrk;

use std::time::Duration;

use super::plan::Output;
use crate::demo::Complaint;

/// One run of a client program.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Seen {
    /// Answers that came whole.
    pub(super) requests: u64,
    pub(super) per_second: f64,
    /// Of the answers that came before the end: those still awaited then count nowhere.
    pub(super) p50: Duration,
    pub(super) p99: Duration,
    /// Connections and answers that went wrong, answers of another length, and statuses other than success.
    pub(super) failed: u64,
    /// Answers on connections that stayed open, where the program tells.
    pub(super) kept_alive: Option<u64>,
}

impl Seen {
    /// Reads the program's output; `csv` is the file of percentiles that only ab writes.
    pub(super) fn read(output: Output, said: &str, csv: &str) -> Result<Self, Complaint> {
        let seen = match output {
            Output::Ab => ab::read(said, csv),
            Output::Wrk => wrk::read(said),
        };
        seen.map_err(|missing| {
            format!("its output has no `{missing}`, or none that is understood:\n{said}").into()
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever a program prints, also around the words that are looked for, it is read or refused.
        #[test]
        fn nothing_printed_panics(
            words in prop::collection::vec(
                prop_oneof![
                    "\\PC{0,12}",
                    "[0-9.eE+-]{1,25}(us|ms|s|m|h)?",
                    prop::sample::select(vec![
                        "Complete requests:", "Failed requests:", "Non-2xx responses:", "Requests per second:",
                        " requests in ", "Requests/sec:", "50%", "99%", "Socket errors:", "50,", "99,", "\n", " ",
                        "Non-2xx or 3xx responses:",
                    ]).prop_map(str::to_owned),
                ],
                0..40,
            ),
        ) {
            let said = words.concat();
            for output in [Output::Ab, Output::Wrk] {
                let _ = Seen::read(output, &said, &said);
            }
        }
    }
}
