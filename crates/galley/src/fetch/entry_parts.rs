//! Parts of an entry that depend only on its request and its body.

use galley_cache::entry::Scopes;
use galley_policy::request_info::RequestInfo;
use http::header::HeaderValue;

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
