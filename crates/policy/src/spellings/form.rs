//! Bodies of forms: WordPress reads its query variables from there too, before those of the address.

use crate::query::{self, is_urlencoded};

/// Reads a body piece by piece, and finds whether it has one of some variables.
#[derive(Debug)]
pub struct FormScanner<'g> {
    names: &'g [&'static [u8]],
    kind: FormEncoding,
    /// What of the last piece may belong to a name.
    rest: Vec<u8>,
    /// Whether the next byte is inside a value.
    in_value: bool,
    found: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FormEncoding {
    Urlencoded,
    Parts,
    /// PHP reads no variables from it.
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

    /// Reads a piece. Says whether more has to be read to know.
    pub fn push(&mut self, piece: &[u8]) -> bool {
        match self.kind {
            FormEncoding::Other => {}
            FormEncoding::Urlencoded => self.pairs(piece),
            FormEncoding::Parts => {
                self.rest.extend_from_slice(piece);
                // What begins behind this may not be whole yet.
                let ready = self.rest.len().saturating_sub(2 * LONGEST_NAME);
                self.found |= has_part(&self.rest, ready, self.names);
                self.rest.drain(..ready.saturating_sub(NAME.len() + 1));
            }
        }
        !self.found && self.kind != FormEncoding::Other
    }

    /// Whether a variable was there.
    pub fn finish(mut self) -> bool {
        match self.kind {
            FormEncoding::Urlencoded => self.name_ends(),
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
            self.name_ends();
        }
    }

    fn name_ends(&mut self) {
        if self.rest.is_empty() {
            return;
        }
        let mut variable = Vec::new();
        query::variable(&self.rest, &mut variable);
        self.found |= self.is_too_long() || self.names.contains(&variable.as_slice());
        self.rest.clear();
    }

    /// No real name is as long as this. It counts as a match, however the body is split.
    fn is_too_long(&self) -> bool {
        self.rest.len() > LONGEST_NAME
    }
}

/// Whether a part whose `=` is before `end` has one of the names. Broader than PHP's own parser, since it does not check
/// whether that is the head of a part.
fn has_part(body: &[u8], end: usize, names: &[&'static [u8]]) -> bool {
    let equals = memchr::memchr_iter(b'=', body).take_while(|at| *at < end);
    let is_keyword = |at: &usize| {
        let before = body.get(..*at).unwrap_or_default();
        let keyword = before.get(before.len().saturating_sub(NAME.len())..);
        keyword.is_some_and(|text| text.eq_ignore_ascii_case(NAME))
    };
    equals.filter(is_keyword).any(|at| {
        let behind = body.get(at + 1..).unwrap_or_default();
        let behind = behind.get(..LONGEST_NAME).unwrap_or(behind);
        let is_space = |byte: &u8| matches!(byte, b'"' | b'\'') || byte.is_ascii_whitespace();
        let spaces = behind.iter().take_while(|byte| is_space(byte)).count();
        let text = behind.get(spaces..).unwrap_or_default();
        spaces == LONGEST_NAME || names.iter().any(|name| is_name(text, name))
    })
}

/// Whether a text begins with a name as PHP reads it: `.`, space and `[` are `_`, and an index follows or nothing.
fn is_name(text: &[u8], name: &[u8]) -> bool {
    let Some((start, behind)) = text.split_at_checked(name.len()) else {
        return false;
    };
    let is_alike = |(one, wanted): (&u8, &u8)| {
        one == wanted || (*wanted == b'_' && matches!(one, b'.' | b' ' | b'['))
    };
    let ends = !matches!(behind.first(), Some(byte) if byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    ends && start.iter().zip(name).all(is_alike)
}

/// The parameter of a part's head that names the variable.
const NAME: &[u8] = b"name";

/// Of a name with its quotes and index, in bytes.
const LONGEST_NAME: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_too_long_is_found_however_the_body_is_cut() {
        let form = |name: usize, piece: usize| {
            let mut scanner = FormScanner::new(&[b"p"], b"application/x-www-form-urlencoded");
            let body = [&vec![b'n'; name][..], b"&d=1"].concat();
            for piece in body.chunks(piece) {
                scanner.push(piece);
            }
            scanner.finish()
        };
        for piece in [1, 30, 512, 513, 10_000] {
            assert!(!form(LONGEST_NAME, piece), "{piece}");
            assert!(form(LONGEST_NAME + 1, piece), "{piece}");
        }
    }
}
