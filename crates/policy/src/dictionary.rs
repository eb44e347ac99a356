//! Compression dictionaries (RFC 9842): which requests a page may be sent to as `dcz`, and the fields of dictionaries and pages.
//!
//! A page is sent as the difference to a dictionary, which is an earlier response that the browser has. Only the coding `dcz` (zstd) is
//! used. A dictionary has an address of its own below [`FOLDER`], because browsers use only fresh responses as dictionaries (section 2.2.2),
//! and pages are not fresh in browsers: a purge must reach them. Pages name the dictionary in a `Link` field.
//!
//! Departs: section 9.3.2 permits a dictionary for navigations from other origins, for responses that CORS makes readable, and for
//! requests without `Sec-Fetch-Mode`. Galley then uses none: only requests that the browser marks as its own origin's or its user's get
//! `dcz`. Pinned by `requests_that_may_be_answered_by_dictionary`.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderName;
use http::header::{self, HeaderMap, HeaderValue};

use crate::access;
use crate::compress::coded_fields;
use crate::encoding::{Coding, weighted};
use crate::request_info::{RequestInfo, Scheme};
use crate::site::Policy;

/// The SHA-256 of a dictionary.
pub type DictionaryHash = [u8; 32];

/// The URL pattern of the pages that share a template, such as `/product/*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageTemplate(String);

impl PageTemplate {
    /// The template of a canonical path with its query: the folder of the page, of at most two segments. Pages of a year and what has
    /// characters that mean something in a URL pattern belong to `/*`.
    pub fn of(path_query: &[u8]) -> Self {
        let end = path_query.iter().position(|byte| *byte == b'?');
        let path = path_query.get(..end.unwrap_or(path_query.len()));
        let mut segments: Vec<&[u8]> = path
            .unwrap_or_default()
            .split(|byte| *byte == b'/')
            .filter(|segment| !segment.is_empty())
            .take(MAX_SEGMENTS)
            .collect();
        if let [.., b"page", number] = &segments[..]
            && number.iter().all(u8::is_ascii_digit)
        {
            segments.truncate(segments.len() - 2);
        }
        segments.pop();
        let is_plain = |segment: &&&[u8]| {
            !segment.iter().all(u8::is_ascii_digit)
                && segment
                    .iter()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"-_~%".contains(byte))
        };
        let mut pattern = String::from("/");
        let plain = segments.iter().take_while(is_plain);
        for segment in plain.take(MAX_FOLDERS) {
            pattern.push_str(&String::from_utf8_lossy(segment));
            pattern.push('/');
        }
        pattern.push('*');
        Self(pattern)
    }
}

/// The hash of the dictionary that a client has, if a page may be sent as the difference to it; `None` otherwise. Called only if
/// `Available-Dictionary` occurs.
///
/// The client must name `dcz` and prefer no other coding, the connection must be secure (section 8), and `Sec-Fetch-Site` must say that
/// no other origin has made the request (section 9.3.2): the length of a page would tell it something about the dictionary.
pub(crate) fn of_request<'a>(
    scheme: Scheme,
    fields: impl Iterator<Item = (impl AsRef<[u8]>, &'a [u8])>,
) -> Option<DictionaryHash> {
    let mut hash = None;
    let mut codings = DczWeight::default();
    let mut is_own = false;
    let mut has_site = false;
    for (name, value) in fields {
        let is = |wanted: &str| name.as_ref().eq_ignore_ascii_case(wanted.as_bytes());
        if is("available-dictionary") {
            // A second line makes the field invalid (RFC 9651 section 4.2).
            if hash.is_some() {
                return None;
            }
            hash = Some(byte_sequence(value)?);
        } else if is("accept-encoding") {
            codings.read(value);
        } else if is("sec-fetch-site") {
            is_own = !has_site && matches!(value, b"same-origin" | b"none");
            has_site = true;
        }
    }
    (scheme == Scheme::Https && is_own && codings.is_best())
        .then_some(hash)
        .flatten()
}

/// A byte sequence of 32 bytes, without parameters (RFC 9651 section 3.3.5).
fn byte_sequence(value: &[u8]) -> Option<DictionaryHash> {
    let text = value.trim_ascii().strip_prefix(b":")?.strip_suffix(b":")?;
    let mut bytes = [0; 33];
    let length = STANDARD.decode_slice(text, &mut bytes).ok()?;
    bytes.get(..length)?.try_into().ok()
}

/// The weight of `dcz` in `Accept-Encoding`, in thousandths, and the highest of the others.
#[derive(Default)]
struct DczWeight {
    dcz: Option<u16>,
    others: u16,
}

impl DczWeight {
    fn read(&mut self, line: &[u8]) {
        for (token, weight) in line.split(|byte| *byte == b',').filter_map(weighted) {
            if token.eq_ignore_ascii_case(b"dcz") {
                self.dcz = Some(self.dcz.map_or(weight, |before| before.min(weight)));
            } else {
                self.others = self.others.max(weight);
            }
        }
    }

    fn is_best(&self) -> bool {
        self.dcz
            .is_some_and(|weight| weight > 0 && weight >= self.others)
    }
}

/// Whether a page may be a dictionary, or may be sent by one, as far as the request that selects it tells: it must be the same for
/// everyone. Pages that are closed to some networks or countries, need a password or depend on a cookie are not.
pub fn is_for_everyone(info: &RequestInfo, policy: &Policy) -> bool {
    info.vary_cookies().is_empty()
        && !info.has_session()
        && info.rule_by_country().is_none()
        && !access::is_restricted(policy, info)
}

/// Whether a stored page may be a dictionary, or may be sent by one, as far as its head tells. A page that depends on another field of the
/// request is not for everyone.
pub fn is_for(fields: &HeaderMap) -> bool {
    let is_html = fields.get(header::CONTENT_TYPE).is_some_and(|value| {
        let value = value.as_bytes();
        let end = value.iter().position(|byte| *byte == b';');
        let media_type = value.get(..end.unwrap_or(value.len())).unwrap_or_default();
        media_type.trim_ascii().eq_ignore_ascii_case(b"text/html")
    });
    let vary = fields.get_all(header::VARY).iter();
    let mut names = vary.flat_map(|line| crate::fields::members(line.as_bytes()));
    is_html
        && !fields.contains_key(header::SET_COOKIE)
        && names.all(|name| {
            name.eq_ignore_ascii_case(b"accept-encoding") || name.eq_ignore_ascii_case(b"accept")
        })
}

/// The head of a page that is sent as `dcz`. Its validator names the dictionary, because another dictionary gives other bytes.
pub fn dcz_fields(plain: &HeaderMap, hash: &DictionaryHash) -> HeaderMap {
    let mut fields = coded_fields(plain, Coding::Dcz);
    let etag = fields.get(header::ETAG).map(HeaderValue::as_bytes);
    if let Some(opaque) = etag.and_then(|etag| etag.strip_suffix(b"\"")) {
        let start = hex(hash.get(..8).unwrap_or_default());
        let etag = [opaque, b"-", start.as_bytes(), b"\""].concat();
        if let Ok(etag) = HeaderValue::from_bytes(&etag) {
            fields.insert(header::ETAG, etag);
        }
    }
    fields.append(
        header::VARY,
        HeaderValue::from_static("Available-Dictionary"),
    );
    fields
}

/// Removes the name of any dictionary of Galley from the head of a page, and adds that of `hash`. Returns whether the head changed.
pub fn name_dictionary(fields: &mut HeaderMap, hash: Option<&DictionaryHash>) -> bool {
    let link = hash.map(|hash| format!("<{}>; rel=\"{RELATION}\"", path(hash)));
    let is_own = |value: &&HeaderValue| {
        let value = value.as_bytes();
        value.strip_prefix(b"<").is_some_and(|rest| {
            rest.starts_with(FOLDER.as_bytes()) && value.ends_with(END_OF_LINK.as_bytes())
        })
    };
    let mut links = fields.get_all(header::LINK).iter().filter(is_own);
    let is_same = match (&link, links.next(), links.next()) {
        (None, None, _) => true,
        (Some(link), Some(one), None) => one.as_bytes() == link.as_bytes(),
        _ => false,
    };
    if is_same {
        return false;
    }
    let values: Vec<HeaderValue> = fields.get_all(header::LINK).iter().cloned().collect();
    fields.remove(header::LINK);
    let wanted = link.and_then(|link| HeaderValue::try_from(link).ok());
    for value in values
        .into_iter()
        .filter(|value| !is_own(&value))
        .chain(wanted)
    {
        fields.append(header::LINK, value);
    }
    true
}

/// The head of a dictionary for the pages of a template. It is for browsers only: a purge does not reach the copies of other caches.
pub fn own_fields(template: &PageTemplate, hash: &DictionaryHash) -> HeaderMap {
    let mut fields = HeaderMap::new();
    let mut insert = |name: HeaderName, value: &str| {
        if let Ok(value) = HeaderValue::from_str(value) {
            fields.insert(name, value);
        }
    };
    insert(header::CONTENT_TYPE, "application/octet-stream");
    insert(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    insert(
        header::CACHE_CONTROL,
        &format!("private, max-age={}, immutable", LIFETIME.as_secs()),
    );
    insert(header::ETAG, &format!("\"{}\"", hex(hash)));
    let pattern = &template.0;
    insert(
        USE_AS_DICTIONARY,
        &format!("match=\"{pattern}\", match-dest=(\"document\")"),
    );
    fields
}

/// The path of a dictionary.
pub fn path(hash: &DictionaryHash) -> String {
    format!("{FOLDER}{}", hex(hash))
}

/// The hash in the path of a dictionary; `None`: it is not one.
pub fn hash_of_path(path: &[u8]) -> Option<DictionaryHash> {
    let text = std::str::from_utf8(path.strip_prefix(FOLDER.as_bytes())?).ok()?;
    if text.len() != 64 || !text.bytes().all(|digit| HEX_DIGITS.contains(&digit)) {
        return None;
    }
    let mut hash = [0; 32];
    for (at, byte) in hash.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(hash)
}

/// The hash of the dictionary in the header of a `dcz` body (section 5).
///
/// ```text
/// 0       8                               40
/// | MAGIC | SHA-256 of the dictionary     | a zstd frame ...
/// ```
pub fn hash_of_body(body: &[u8]) -> Option<&[u8]> {
    body.strip_prefix(&MAGIC)?.get(..32)
}

/// Whether a page of this length may be a dictionary: its path is not that of the front page, which shares its template with other pages.
pub fn may_be_dictionary(path_query: &[u8], length: u64) -> bool {
    path_query != b"/" && length <= MAX_DICTIONARY
}

fn hex(bytes: &[u8]) -> String {
    let digit = |half: u8| char::from(HEX_DIGITS.get(usize::from(half)).copied().unwrap_or(b'0'));
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(digit).collect()
}

const HEX_DIGITS: &[u8; 16] = b"0123456789abcdef";

/// The beginning of a `dcz` body: a skippable zstd frame whose content is the hash.
pub const MAGIC: [u8; 8] = [0x5e, 0x2a, 0x4d, 0x18, 0x20, 0, 0, 0];

/// The folder of dictionaries, on each site.
pub const FOLDER: &str = "/galley-dictionary/";

/// How long a dictionary is used, from its choice on.
pub const LIFETIME: Duration = Duration::from_secs(86_400);

/// The maximum size of a dictionary in bytes. Each is held in memory, and the encoder reads it for each page.
const MAX_DICTIONARY: u64 = 512 * 1024;

/// The maximum number of folders in a template: a language and a kind of page.
const MAX_FOLDERS: usize = 2;

/// The segments of a path that are looked at.
const MAX_SEGMENTS: usize = 8;

const USE_AS_DICTIONARY: HeaderName = HeaderName::from_static("use-as-dictionary");
const RELATION: &str = "compression-dictionary";
const END_OF_LINK: &str = ">; rel=\"compression-dictionary\"";

#[cfg(test)]
mod tests;
