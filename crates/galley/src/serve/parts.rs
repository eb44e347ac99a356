//! Several ranges of a stored page in one answer: `multipart/byteranges` (RFC 9110 §14.6).
//!
//! The spans come sorted, apart, and few (`galley_rules::range`), so that the answer is not much larger than the page.

use std::io::Write as _;

use bytes::Bytes;
use galley_rules::range::Span;
use http::HeaderValue;

/// The body and how it is named.
pub struct Multipart {
    /// All parts with their heads.
    pub body: Bytes,
    /// With the boundary.
    pub media_type: HeaderValue,
}

/// Puts the parts of `whole` together; `None` where they do not lie in it.
pub fn multipart(
    whole: &Bytes,
    media_type: Option<&HeaderValue>,
    spans: &[Span],
) -> Option<Multipart> {
    let boundary = boundary(whole, spans);
    let mut body = Vec::new();
    for span in spans {
        let (start, end) = (
            usize::try_from(span.start).ok()?,
            usize::try_from(span.end).ok()?,
        );
        let part = whole.get(start..end)?;
        write!(body, "\r\n--{boundary}\r\n").ok()?;
        if let Some(media_type) = media_type {
            body.extend_from_slice(b"Content-Type: ");
            body.extend_from_slice(media_type.as_bytes());
            body.extend_from_slice(b"\r\n");
        }
        let last = span.end.checked_sub(1)?;
        let length = whole.len();
        write!(
            body,
            "Content-Range: bytes {}-{last}/{length}\r\n\r\n",
            span.start
        )
        .ok()?;
        body.extend_from_slice(part);
    }
    write!(body, "\r\n--{boundary}--\r\n").ok()?;
    let media_type = format!("multipart/byteranges; boundary={boundary}");
    Some(Multipart {
        body: body.into(),
        media_type: HeaderValue::from_str(&media_type).ok()?,
    })
}

/// A line that the parts do not hold: a hash of them, which nobody can have put into them.
fn boundary(whole: &Bytes, spans: &[Span]) -> String {
    use std::hash::{BuildHasher, Hasher};
    let mut hasher = std::collections::hash_map::RandomState::new().build_hasher();
    hasher.write_usize(whole.len());
    for span in spans {
        hasher.write_u64(span.start);
        hasher.write_u64(span.end);
    }
    format!("{:016x}", hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_framed_by_the_boundary() {
        let whole = Bytes::from_static(b"0123456789");
        let spans = [Span { start: 0, end: 2 }, Span { start: 5, end: 10 }];
        let text = HeaderValue::from_static("text/plain");
        let parts = multipart(&whole, Some(&text), &spans).unwrap();
        let media_type = parts.media_type.to_str().unwrap();
        let boundary = media_type.rsplit('=').next().unwrap();
        let wanted = format!(
            "\r\n--{boundary}\r\nContent-Type: text/plain\r\nContent-Range: bytes 0-1/10\r\n\r\n01\
             \r\n--{boundary}\r\nContent-Type: text/plain\r\nContent-Range: bytes 5-9/10\r\n\r\n56789\
             \r\n--{boundary}--\r\n"
        );
        assert_eq!(parts.body, wanted.as_bytes());
        assert!(multipart(&whole, None, &[Span { start: 5, end: 11 }]).is_none());
    }
}
