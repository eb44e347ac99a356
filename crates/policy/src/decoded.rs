//! Content codings that an upstream applied although identity was requested, and the head after decoding.
//!
//! A fetch for storage sends `Accept-Encoding: identity`, but some plugins compress anyway. Codings are listed in the
//! order in which they were applied (RFC 9110 §8.4). Known codings are decoded. A list with any other coding is an
//! [`UnknownCoding`], and only clients that accept the coding get such a response.

use http::HeaderMap;
use http::header::{CONTENT_ENCODING, ETAG};
use smallvec::SmallVec;

use crate::compress::remove_byte_fields;

/// A content coding that Galley can decode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// RFC 1952.
    Gzip,
    /// RFC 1950 by specification, RFC 1951 in practice (RFC 9110 §8.4.1.2).
    Deflate,
    /// RFC 7932.
    Brotli,
    /// RFC 8878.
    Zstd,
}

/// A coding is not known, or there are more than [`MAX_APPLIED`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownCoding;

/// The codings of a response, in the order in which they were applied; empty if it has none.
pub fn applied(fields: &HeaderMap) -> Result<SmallVec<[Applied; MAX_APPLIED]>, UnknownCoding> {
    let mut codings = SmallVec::new();
    let lines = fields.get_all(CONTENT_ENCODING).iter();
    for token in lines
        .flat_map(|line| line.as_bytes().split(|byte| *byte == b','))
        .map(<[u8]>::trim_ascii)
    {
        let is = |name: &str| token.eq_ignore_ascii_case(name.as_bytes());
        let one = if token.is_empty() || is("identity") {
            continue;
        } else if is("gzip") || is("x-gzip") {
            Applied::Gzip
        } else if is("deflate") {
            Applied::Deflate
        } else if is("br") {
            Applied::Brotli
        } else if is("zstd") {
            Applied::Zstd
        } else {
            return Err(UnknownCoding);
        };
        if codings.len() == MAX_APPLIED {
            return Err(UnknownCoding);
        }
        codings.push(one);
    }
    Ok(codings)
}

/// Turns the head of a coded response into that of the decoded body. Fields about the coded bytes are removed, including a strong
/// validator. A weak one describes the content and stays.
pub fn undo(fields: &mut HeaderMap) {
    fields.remove(CONTENT_ENCODING);
    remove_byte_fields(fields);
    let is_weak = fields
        .get(ETAG)
        .is_some_and(|etag| etag.as_bytes().starts_with(b"W/"));
    if !is_weak {
        fields.remove(ETAG);
    }
}

/// The maximum number of codings; each needs a decoder. A plugin behind a compressing server applies two.
pub const MAX_APPLIED: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderName, HeaderValue};

    fn fields(rows: &[(&'static str, &str)]) -> HeaderMap {
        let mut fields = HeaderMap::new();
        for (name, value) in rows {
            let value = HeaderValue::from_str(value).unwrap();
            fields.append(HeaderName::from_static(name), value);
        }
        fields
    }

    #[test]
    fn codings_are_parsed_in_their_order() {
        use Applied::{Brotli, Deflate, Gzip, Zstd};
        type Row = (
            &'static [&'static str],
            Result<&'static [Applied], UnknownCoding>,
        );
        let table: &[Row] = &[
            (&[], Ok(&[])),
            (&[""], Ok(&[])),
            (&["identity"], Ok(&[])),
            (&["GZIP"], Ok(&[Gzip])),
            (&["x-gzip"], Ok(&[Gzip])),
            (&["deflate, br"], Ok(&[Deflate, Brotli])),
            (&["gzip", " identity , zstd"], Ok(&[Gzip, Zstd])),
            (&["gzip, gzip, gzip"], Ok(&[Gzip, Gzip, Gzip])),
            (&["gzip, gzip, gzip, gzip"], Err(UnknownCoding)),
            (&["compress"], Err(UnknownCoding)),
            (&["gzip, aes128gcm"], Err(UnknownCoding)),
            (&["gzip;q=1"], Err(UnknownCoding)),
        ];
        for (lines, wanted) in table {
            let rows: Vec<_> = lines
                .iter()
                .map(|line| ("content-encoding", *line))
                .collect();
            let found = applied(&fields(&rows));
            let found = found
                .as_ref()
                .map(|found| &found[..])
                .map_err(|error| *error);
            assert_eq!(found, *wanted, "{lines:?}");
        }
    }

    #[test]
    fn a_decoded_head_has_no_fields_of_coded_bytes() {
        let rows = [
            ("content-encoding", "gzip"),
            ("content-length", "5"),
            ("content-md5", "x"),
            ("repr-digest", "x"),
            ("content-type", "text/html"),
            ("vary", "Accept-Encoding"),
        ];
        let mut plain = fields(&rows);
        undo(&mut plain);
        let mut names: Vec<_> = plain.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["content-type", "vary"]);
        for (etag, is_kept) in [("\"x\"", false), ("W/\"x\"", true), ("x", false)] {
            let mut plain = fields(&[("etag", etag)]);
            undo(&mut plain);
            assert_eq!(plain.contains_key(ETAG), is_kept, "{etag}");
        }
    }
}
