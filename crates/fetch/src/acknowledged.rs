//! The acknowledged purges of the plugin, so that the plugin can send lost ones again.
//!
//! A response that carries purges may name them (`id=`). The name is recorded when the purges are in effect and on the
//! disk, and is sent with later requests to the same site. Newer names replace older ones, and a restart discards all of
//! them: the plugin then sends unacknowledged purges again, which is harmless. A purge that was not received is never
//! recorded.

use std::collections::VecDeque;

use galley_policy::purge;
use galley_sys::Lock;
use http::HeaderMap;

/// The names of the purges in a response.
pub(super) fn names(fields: &HeaderMap) -> Vec<String> {
    purge::receipts(fields).map(str::to_owned).collect()
}

/// The names of one site; any thread writes and reads them.
#[derive(Debug, Default)]
pub struct AcknowledgedPurges(Lock<VecDeque<String>>);

impl AcknowledgedPurges {
    /// Records the names of acknowledged purges.
    pub(super) fn note(&self, new: Vec<String>) {
        for name in new {
            let mut names = self.0.lock();
            if names.contains(&name) {
                continue;
            }
            if names.len() == MAX_NAMES {
                names.pop_front();
            }
            names.push_back(name);
        }
    }

    /// All names, oldest first, separated by spaces.
    pub fn line(&self) -> String {
        let names = self.0.lock();
        names.iter().fold(String::new(), |mut line, name| {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(name);
            line
        })
    }
}

/// The maximum number of names. An editor's next request follows within seconds, and a field of two kilobytes is enough for the
/// edits of an import.
const MAX_NAMES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn response_names(value: &str) -> Vec<String> {
        let mut fields = HeaderMap::new();
        fields.insert("galley-purge", HeaderValue::from_str(value).unwrap());
        names(&fields)
    }

    #[test]
    fn each_name_is_recorded_once_and_the_oldest_are_dropped() {
        let acknowledged = AcknowledgedPurges::default();
        assert_eq!(acknowledged.line(), "");
        acknowledged.note(response_names("p1"));
        acknowledged.note(response_names("id=a1,p1"));
        acknowledged.note(response_names("id=b2,p1"));
        acknowledged.note(response_names("id=a1"));
        assert_eq!(acknowledged.line(), "a1 b2");
        for n in 0..MAX_NAMES {
            acknowledged.note(response_names(&format!("id=n{n}")));
        }
        let line = acknowledged.line();
        assert_eq!(line.split(' ').count(), MAX_NAMES);
        assert!(line.starts_with("n0 ") && line.ends_with(&format!(" n{}", MAX_NAMES - 1)));
    }
}
