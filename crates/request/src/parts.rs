//! Several ranges of a stored page in one response: `multipart/byteranges` (RFC 9110 §14.6).
//!
//! The ranges are sorted, disjoint, and few (`galley_policy::range`), so the response is not much larger than the page.

use std::io::Write as _;

use bytes::Bytes;
use galley_files::BodyPiece;
use galley_policy::range::ByteSpan;
use http::HeaderValue;

/// The parts and how they are named.
pub struct Multipart {
    /// All parts of the stored body, with their heads between.
    pub parts: Vec<BodyPiece>,
    /// With the boundary.
    pub media_type: HeaderValue,
}

/// Puts parts of a body of `length` bytes together.
pub fn multipart(
    length: u64,
    media_type: Option<&HeaderValue>,
    spans: &[ByteSpan],
) -> Option<Multipart> {
    let boundary = boundary(length, spans);
    let mut parts = Vec::with_capacity(spans.len() * 2 + 1);
    for span in spans {
        let mut head = format!("\r\n--{boundary}\r\n").into_bytes();
        if let Some(media_type) = media_type {
            head.extend([b"Content-Type: ", media_type.as_bytes(), b"\r\n"].concat());
        }
        let ByteSpan { start, end } = *span;
        let last = end.checked_sub(1)?;
        write!(head, "Content-Range: bytes {start}-{last}/{length}\r\n\r\n").ok()?;
        parts.push(BodyPiece::Bytes(head));
        parts.push(BodyPiece::Span { start, end });
    }
    let end = format!("\r\n--{boundary}--\r\n");
    parts.push(BodyPiece::Bytes(end.into_bytes()));
    let media_type = format!("multipart/byteranges; boundary={boundary}");
    let media_type = HeaderValue::from_str(&media_type).ok()?;
    Some(Multipart { parts, media_type })
}

/// The bytes of parts of `whole`, which they share. `None` if one is outside.
pub fn cut(whole: &Bytes, parts: Vec<BodyPiece>) -> Option<Vec<Bytes>> {
    let piece = |part| match part {
        BodyPiece::Bytes(bytes) => Some(bytes.into()),
        BodyPiece::Span { start, end } => {
            let range = usize::try_from(start).ok()?..usize::try_from(end).ok()?;
            whole.get(range.clone()).map(|_| whole.slice(range))
        }
    };
    parts.into_iter().map(piece).collect()
}

/// A boundary that the parts do not contain: random, so nobody can have put it into them.
fn boundary(length: u64, spans: &[ByteSpan]) -> String {
    use std::hash::{BuildHasher, Hasher};
    let mut hasher = std::collections::hash_map::RandomState::new().build_hasher();
    hasher.write_u64(length);
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
        let spans = [
            ByteSpan { start: 0, end: 2 },
            ByteSpan { start: 5, end: 10 },
        ];
        let text = HeaderValue::from_static("text/plain");
        let parts = multipart(10, Some(&text), &spans).unwrap();
        let media_type = parts.media_type.to_str().unwrap();
        let boundary = media_type.rsplit('=').next().unwrap();
        let wanted = format!(
            "\r\n--{boundary}\r\nContent-Type: text/plain\r\nContent-Range: bytes 0-1/10\r\n\r\n01\
             \r\n--{boundary}\r\nContent-Type: text/plain\r\nContent-Range: bytes 5-9/10\r\n\r\n56789\
             \r\n--{boundary}--\r\n"
        );
        let pieces = cut(&whole, parts.parts).unwrap();
        assert_eq!(pieces.concat(), wanted.as_bytes());
        assert_eq!(pieces[3].as_ptr(), whole[5..].as_ptr(), "shared");
        let beyond = multipart(10, None, &[ByteSpan { start: 5, end: 11 }]).unwrap();
        assert!(cut(&whole, beyond.parts).is_none());
    }
}
