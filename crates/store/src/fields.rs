//! Header fields as an entry holds them: in one buffer of their own.
//!
//! A client library's values are slices of the buffer that it read the response into. One short value would keep all of
//! that, head and body, as long as the entry lives, and nothing would count it.

use bytes::Bytes;
use http::header::{HeaderMap, HeaderValue};

/// The same fields, in the same order for each name, holding nothing but their own bytes.
pub(crate) fn compact(fields: &HeaderMap) -> HeaderMap {
    let mut bytes = Vec::with_capacity(fields.values().map(HeaderValue::len).sum());
    for value in fields.values() {
        bytes.extend_from_slice(value.as_bytes());
    }
    let bytes = Bytes::from(bytes.into_boxed_slice());
    let mut compacted = HeaderMap::with_capacity(fields.keys_len());
    let mut at = 0;
    for (name, value) in fields {
        let end = at + value.len();
        // What was a value is one.
        if let Ok(mut own) = HeaderValue::from_maybe_shared(bytes.slice(at..end)) {
            own.set_sensitive(value.is_sensitive());
            compacted.append(name, own);
        }
        at = end;
    }
    compacted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_the_same_and_hold_nothing_else() {
        let buffer = Bytes::from(vec![b'v'; 100_000]);
        let mut fields = HeaderMap::new();
        for (name, range) in [("a", 0..5), ("b", 5..6), ("a", 6..9), ("empty", 9..9)] {
            let value = HeaderValue::from_maybe_shared(buffer.slice(range)).unwrap();
            fields.append(name, value);
        }
        assert!(!buffer.is_unique());
        let compacted = compact(&fields);
        assert_eq!(compacted, fields);
        let in_order: Vec<_> = compacted.get_all("a").iter().collect();
        assert_eq!(in_order, ["vvvvv", "vvv"]);
        drop(fields);
        assert!(buffer.is_unique(), "nothing of the old buffer is held");
        assert_eq!(compact(&HeaderMap::new()).len(), 0);
    }
}
