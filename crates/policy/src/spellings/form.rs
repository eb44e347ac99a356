//! Bodies of forms: WordPress reads query variables from them, too, before those of the URL.

use crate::query::{self, is_urlencoded};

/// Scans a body in pieces for any of some variables.
#[derive(Debug)]
pub struct FormScanner<'g> {
    names: &'g [&'static [u8]],
    kind: FormEncoding,
    /// The part of the last piece that may belong to a name.
    rest: Vec<u8>,
    /// Whether the next byte is inside a value.
    in_value: bool,
    found: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FormEncoding {
    Urlencoded,
    Parts,
    /// PHP reads no variables from such a body.
    Other,
}

impl<'g> FormScanner<'g> {
    pub(crate) fn new(names: &'g [&'static [u8]], content_type: &[u8]) -> Self {
        let is_parts = content_type
            .get(..10)
            .is_some_and(|start| start.eq_ignore_ascii_case(b"multipart/"));
        Self {
            names,
            kind: if is_urlencoded(content_type) {
                FormEncoding::Urlencoded
            } else if is_parts {
                FormEncoding::Parts
            } else {
                FormEncoding::Other
            },
            rest: Vec::new(),
            in_value: false,
            found: false,
        }
    }

    /// Reads a piece. Returns whether more pieces are needed.
    pub fn push(&mut self, piece: &[u8]) -> bool {
        match self.kind {
            FormEncoding::Other => {}
            FormEncoding::Urlencoded => self.pairs(piece),
            FormEncoding::Parts => {
                self.rest.extend_from_slice(piece);
                // A part that begins after this may not be complete yet.
                let ready = self.rest.len().saturating_sub(2 * MAX_NAME);
                self.found |= has_part(&self.rest, ready, self.names);
                self.rest.drain(..ready.saturating_sub(NAME.len() + 1));
            }
        }
        !self.found && self.kind != FormEncoding::Other
    }

    /// Whether the body contains a variable.
    pub fn finish(mut self) -> bool {
        match self.kind {
            FormEncoding::Urlencoded => self.end_name(),
            FormEncoding::Parts => self.found |= has_part(&self.rest, self.rest.len(), self.names),
            FormEncoding::Other => {}
        }
        self.found
    }

    fn pairs(&mut self, mut piece: &[u8]) {
        while !self.found {
            if self.in_value {
                let Some(end) = memchr::memchr(b'&', piece) else {
                    return;
                };
                piece = piece.get(end + 1..).unwrap_or_default();
                self.in_value = false;
            }
            let Some(end) = memchr::memchr2(b'=', b'&', piece) else {
                self.rest.extend_from_slice(piece);
                self.found |= self.is_too_long();
                return;
            };
            self.rest
                .extend_from_slice(piece.get(..end).unwrap_or_default());
            self.in_value = piece.get(end) == Some(&b'=');
            piece = piece.get(end + 1..).unwrap_or_default();
            self.end_name();
        }
    }

    fn end_name(&mut self) {
        if self.rest.is_empty() {
            return;
        }
        let mut variable = Vec::new();
        query::variable(&self.rest, &mut variable);
        self.found |= self.is_too_long() || self.names.contains(&variable.as_slice());
        self.rest.clear();
    }

    /// Whether a name is longer than any real one. Such a name counts as a match, however the body is split.
    fn is_too_long(&self) -> bool {
        self.rest.len() > MAX_NAME
    }
}

/// Whether a part whose `=` is before `end` has one of the names. Broader than PHP's parser, since it does not check
/// whether the text is in the head of a part.
fn has_part(body: &[u8], end: usize, names: &[&'static [u8]]) -> bool {
    let equals = memchr::memchr_iter(b'=', body).take_while(|at| *at < end);
    let is_keyword = |at: &usize| {
        let before = body.get(..*at).unwrap_or_default();
        let keyword = before.get(before.len().saturating_sub(NAME.len())..);
        keyword.is_some_and(|text| text.eq_ignore_ascii_case(NAME))
    };
    equals.filter(is_keyword).any(|at| {
        let after = body.get(at + 1..).unwrap_or_default();
        let after = after.get(..MAX_NAME).unwrap_or(after);
        let is_space = |byte: &u8| matches!(byte, b'"' | b'\'') || byte.is_ascii_whitespace();
        let spaces = after.iter().take_while(|byte| is_space(byte)).count();
        let text = after.get(spaces..).unwrap_or_default();
        spaces == MAX_NAME || names.iter().any(|name| is_name(text, name))
    })
}

/// Whether a text begins with a name in PHP's form: `.`, space and `[` count as `_`, and an index or the end follows.
fn is_name(text: &[u8], name: &[u8]) -> bool {
    let Some((start, after)) = text.split_at_checked(name.len()) else {
        return false;
    };
    let is_alike = |(one, wanted): (&u8, &u8)| {
        one == wanted || (*wanted == b'_' && matches!(one, b'.' | b' ' | b'['))
    };
    let ends = !matches!(after.first(), Some(byte) if byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    ends && start.iter().zip(name).all(is_alike)
}

/// The parameter with the name of the variable in the head of a part.
const NAME: &[u8] = b"name";

/// The maximum length of a name with its quotes and index, in bytes.
const MAX_NAME: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_too_long_is_found_however_the_body_is_split() {
        let form = |name: usize, piece: usize| {
            let mut scanner = FormScanner::new(&[b"p"], b"application/x-www-form-urlencoded");
            let body = [&vec![b'n'; name][..], b"&d=1"].concat();
            for piece in body.chunks(piece) {
                scanner.push(piece);
            }
            scanner.finish()
        };
        for piece in [1, 30, 512, 513, 10_000] {
            assert!(!form(MAX_NAME, piece), "{piece}");
            assert!(form(MAX_NAME + 1, piece), "{piece}");
        }
    }
}
