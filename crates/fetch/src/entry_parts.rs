//! Parts of an entry, and of the head of a response, that depend only on the request, the body and the time.

use std::time::SystemTime;

use galley_cache::entry::Scopes;
use galley_policy::forward::BY_GALLEY;
use galley_policy::purge::PURGE_FIELDS;
use galley_policy::request_info::RequestInfo;
use galley_policy::storable;
use galley_policy::time::write_date;
use galley_sys::clock::Clock;
use http::header::{self, HeaderMap, HeaderValue};

/// The properties by which purges match a response.
pub(super) fn scopes(info: &RequestInfo, tags: Vec<u64>) -> Scopes {
    let mut path_query = Vec::new();
    info.path_query(&mut path_query);
    Scopes {
        host: info.host_id(),
        url: info.url_id(),
        path_query: path_query.into(),
        tags: tags.into(),
    }
}

/// A strong validator for the body in its coding (RFC 9110 §8.8.3).
pub(super) fn strong_etag(body: &[u8]) -> HeaderValue {
    use std::hash::Hasher;
    let mut hasher = siphasher::sip128::SipHasher24::new();
    hasher.write(body);
    let sum = siphasher::sip128::Hasher128::finish128(&hasher).as_u128();
    let mut text = [b'"'; 34];
    let digits = text.iter_mut().skip(1).take(32);
    for (position, digit) in (0..32).rev().zip(digits) {
        let value = ((sum >> (4 * position)) & 0xf) as u8;
        *digit = match value {
            0..=9 => b'0' + value,
            _ => b'a' + value - 10,
        };
    }
    HeaderValue::from_bytes(&text).unwrap_or(HeaderValue::from_static("\"\""))
}

/// Updates the validators and the length: another body is another representation (RFC 9110 section 8.8).
pub(super) fn renew_validators(fields: &mut HeaderMap, body: &[u8], now: SystemTime) {
    fields.insert(header::ETAG, strong_etag(body));
    if fields.contains_key(header::LAST_MODIFIED) {
        let mut text = Vec::with_capacity(29);
        write_date(now, &mut text);
        if let Ok(value) = HeaderValue::from_bytes(&text) {
            fields.insert(header::LAST_MODIFIED, value);
        }
    }
    if fields.contains_key(header::CONTENT_LENGTH) {
        fields.insert(header::CONTENT_LENGTH, HeaderValue::from(body.len()));
    }
}

/// Adds a missing `Date`, as RFC 9110 section 6.6.1 requires of a recipient with a clock.
pub(super) fn add_date(fields: &mut HeaderMap, clock: Clock) {
    if !fields.contains_key(header::DATE) {
        let mut text = Vec::with_capacity(29);
        write_date(clock.wall(), &mut text);
        if let Ok(value) = HeaderValue::from_bytes(&text) {
            fields.insert(header::DATE, value);
        }
    }
}

/// The fields of a response that is sent to one client only.
pub(super) fn private_head(fields: &HeaderMap, clock: Clock) -> HeaderMap {
    let mut fields = storable::forwarded_fields(fields);
    for name in PURGE_FIELDS {
        fields.remove(*name);
    }
    finish_head(&mut fields, clock);
    fields
}

/// Adds the fields that each forwarded response has: a date (RFC 9110 §6.6.1), and `Via` (§7.6.3).
pub(super) fn finish_head(fields: &mut HeaderMap, clock: Clock) {
    add_date(fields, clock);
    if fields.get_all(header::VIA).iter().next_back() != Some(&BY_GALLEY) {
        fields.append(header::VIA, BY_GALLEY);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn validators_match_the_new_body() {
        let mut fields = HeaderMap::new();
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        renew_validators(&mut fields, b"new", now);
        assert_eq!(
            fields.len(),
            1,
            "only what is there is renewed, and an ETag"
        );
        let before = "Sat, 05 Nov 1994 08:49:37 GMT";
        fields.insert(header::LAST_MODIFIED, HeaderValue::from_static(before));
        fields.insert(header::CONTENT_LENGTH, HeaderValue::from_static("99"));
        fields.insert(header::ETAG, HeaderValue::from_static("W/\"old\""));
        renew_validators(&mut fields, b"new", now);
        assert_eq!(fields[header::ETAG], strong_etag(b"new"));
        assert_ne!(fields[header::ETAG], strong_etag(b"old"));
        assert_eq!(
            fields[header::LAST_MODIFIED],
            "Sun, 06 Nov 1994 08:49:37 GMT"
        );
        assert_eq!(fields[header::CONTENT_LENGTH], "3");
    }
}
