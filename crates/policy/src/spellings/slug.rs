//! Folds paths in the way in which WordPress folds them before it searches for a page (`sanitize_title_for_query`,
//! `WP::parse_request`).
//!
//! A folded path begins and ends with `/` and has no empty segment, so the form without the last slash is a slice of it.

/// Writes a path in lower case to `out`, which is cleared first.
pub(super) fn lower(path: &[u8], out: &mut Vec<u8>) {
    segments(path, out, |segment, out| {
        for_each(segment, |c| push_lower(c, out));
    });
}

/// Writes a path whose segments are slugs to `out`, which is cleared first: lower-case letters, digits, `_`, single `-` between
/// other characters, and all that is not ASCII.
pub(super) fn slug(path: &[u8], out: &mut Vec<u8>) {
    segments(path, out, |segment, out| {
        let start = out.len();
        let mut dash = false;
        let mut push = |c: Result<char, u8>, out: &mut Vec<u8>| match c {
            Ok('-' | '.' | '+' | ' ') => dash = out.len() > start,
            Ok(c) if c.is_ascii() && !matches!(c, '_' | '%') && !c.is_ascii_alphanumeric() => {}
            c => {
                if std::mem::take(&mut dash) {
                    out.push(b'-');
                }
                push_lower(c, out);
            }
        };
        let mut rest = segment;
        while let Some(at) = memchr::memchr2(b'&', b'%', rest) {
            let (before, found) = rest.split_at_checked(at).unwrap_or_default();
            for_each(before, |c| push(c, out));
            rest = found.get(1..).unwrap_or_default();
            if found.first() == Some(&b'%') {
                // An encoded octet stays; a lone sign is removed.
                if crate::uri::escape(rest).is_some() {
                    push(Ok('%'), out);
                }
            } else if let Some(end) = rest.get(1..).and_then(|text| memchr::memchr(b';', text)) {
                // An entity is removed as a whole.
                rest = rest.get(end + 2..).unwrap_or_default();
            }
        }
        for_each(rest, |c| push(c, out));
    });
}

/// Removes the suffix of a feed, an embed or a further page from a path in lower case. Returns whether there was one.
pub(super) fn strip(path: &mut Vec<u8>) -> bool {
    let whole = path.strip_suffix(b"/").unwrap_or(path);
    let cut = memchr::memrchr(b'/', whole);
    let Some((before, last)) = cut.and_then(|at| whole.split_at_checked(at)) else {
        return false;
    };
    let last = last.get(1..).unwrap_or_default();
    let is_number = |text: &[u8]| !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    let numbered = |name: &[u8]| last.strip_prefix(name).is_some_and(is_number);
    let keep = if is_number(last) {
        before.strip_suffix(b"/page").unwrap_or(before).len()
    } else if PAGE_SUFFIXES.contains(&last) || numbered(b"page") || numbered(b"comment-page-") {
        before.len()
    } else {
        return false;
    };
    path.truncate(keep);
    path.push(b'/');
    true
}

/// The path after `/wp-json/`.
pub(super) fn route(path: &[u8]) -> Option<&[u8]> {
    let at = memchr::memmem::find(path, b"/wp-json/")?;
    path.get(at + 9..)
}

fn segments(path: &[u8], out: &mut Vec<u8>, fold: impl Fn(&[u8], &mut Vec<u8>)) {
    out.clear();
    out.push(b'/');
    for segment in path.split(|&b| b == b'/') {
        let start = out.len();
        fold(segment, out);
        if out.len() > start {
            out.push(b'/');
        }
    }
}

fn for_each(bytes: &[u8], mut each: impl FnMut(Result<char, u8>)) {
    for chunk in bytes.utf8_chunks() {
        chunk.valid().chars().for_each(|c| each(Ok(c)));
        chunk.invalid().iter().for_each(|&byte| each(Err(byte)));
    }
}

fn push_lower(c: Result<char, u8>, out: &mut Vec<u8>) {
    match c {
        Ok(c) if c.is_ascii() => out.extend(u8::try_from(c.to_ascii_lowercase())),
        Ok(c) => {
            let mut buffers = [0; 4];
            for lower in c.to_lowercase() {
                out.extend_from_slice(lower.encode_utf8(&mut buffers).as_bytes());
            }
        }
        Err(byte) => out.push(byte),
    }
}

const PAGE_SUFFIXES: [&[u8]; 8] = [
    b"feed",
    b"rdf",
    b"rss",
    b"rss2",
    b"atom",
    b"embed",
    b"trackback",
    b"page",
];
