//! Which of the plugin's orders have arrived, so that it can send again what was lost.
//!
//! An answer that carries orders may name them (`id=`). The name is noted when the orders hold and are on the disk, and goes
//! along with later requests of the same site. Newer names push out older ones, and a restart forgets them all: then the
//! plugin sends once more what it has heard nothing of, which does no harm. Nothing is ever noted that has not arrived.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use galley_policy::purge;
use http::HeaderMap;

/// The names that an answer gives its orders.
pub(super) fn names(fields: &HeaderMap) -> Vec<String> {
    purge::receipts(fields).map(str::to_owned).collect()
}

/// The names of one site; any thread notes and reads.
#[derive(Debug, Default)]
pub struct AcknowledgedPurges(Mutex<VecDeque<String>>);

impl AcknowledgedPurges {
    /// Notes the names of orders that were acknowledged.
    pub(super) fn note(&self, arrived: Vec<String>) {
        for name in arrived {
            let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if names.contains(&name) {
                continue;
            }
            if names.len() == MOST_NAMES {
                names.pop_front();
            }
            names.push_back(name);
        }
    }

    /// All of them, oldest first, with blanks between.
    pub fn line(&self) -> String {
        let names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        names.iter().fold(String::new(), |mut line, name| {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(name);
            line
        })
    }
}

/// An editor's next request comes within seconds; in a field of two kilobytes is room for an import's worth of edits.
const MOST_NAMES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn answer(value: &str) -> Vec<String> {
        let mut fields = HeaderMap::new();
        fields.insert("galley-purge", HeaderValue::from_str(value).unwrap());
        names(&fields)
    }

    #[test]
    fn names_come_once_and_the_oldest_go() {
        let heard = AcknowledgedPurges::default();
        assert_eq!(heard.line(), "");
        heard.note(answer("p1"));
        heard.note(answer("id=a1,p1"));
        heard.note(answer("id=b2,p1"));
        heard.note(answer("id=a1"));
        assert_eq!(heard.line(), "a1 b2");
        for n in 0..MOST_NAMES {
            heard.note(answer(&format!("id=n{n}")));
        }
        let line = heard.line();
        assert_eq!(line.split(' ').count(), MOST_NAMES);
        assert!(line.starts_with("n0 ") && line.ends_with(&format!(" n{}", MOST_NAMES - 1)));
    }
}
