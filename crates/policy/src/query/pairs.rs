//! Pairs of a query or an urlencoded form, split as PHP splits them.

use crate::span::Span;
use crate::uri;

/// With more parameters a request bypasses the cache: PHP reads no more (`max_input_vars`), so dropping one would make PHP read
/// another.
pub const MAX_PARAMETERS: usize = 1000;

/// One parameter: its position in the raw query, and its name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parameter {
    pub(super) disposition: Disposition,
    /// The name of the PHP variable: a range of the work buffer.
    pub(super) name: Span,
    /// `name=value` as sent: a range of the raw query.
    pub(super) raw: Span,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Disposition {
    Keep,
    Drop,
}

pub(crate) fn split_pair(part: &[u8]) -> (&[u8], &[u8]) {
    split_at(part, memchr::memchr(b'=', part))
}

/// The parts before and after the byte at `at`.
pub(super) fn split_at(part: &[u8], at: Option<usize>) -> (&[u8], &[u8]) {
    match at {
        Some(at) => (
            part.get(..at).unwrap_or_default(),
            part.get(at + 1..).unwrap_or_default(),
        ),
        None => (part, b""),
    }
}

/// The parameters of a query or an urlencoded body: the name of the PHP variable that each sets, and its value as sent.
pub(crate) fn variables(raw: &[u8]) -> impl Iterator<Item = (Vec<u8>, &[u8])> {
    let parts = raw.split(|&b| b == b'&').filter(|part| !part.is_empty());
    parts.map(|part| {
        let (name, value) = split_pair(part);
        let mut variable: Vec<u8> = FormDecoded(name).collect();
        rename(&mut variable, 0);
        (variable, value)
    })
}

/// Writes the name of the PHP variable that a parameter sets to `out`, which is cleared first.
pub(crate) fn variable(name: &[u8], out: &mut Vec<u8>) {
    out.clear();
    out.extend(FormDecoded(name));
    rename(out, 0);
}

/// Turns the decoded name at `start` of `work` into the name of the PHP variable, without its index.
///
/// Follows `php_register_variable_ex`: the name ends at NUL, leading spaces are removed, `.` and space become `_`, and `[` begins
/// an index if a `]` follows, otherwise it becomes `_`.
pub(super) fn rename(work: &mut Vec<u8>, start: usize) {
    let name = work.get(start..).unwrap_or_default();
    let end = memchr::memchr(0, name).unwrap_or(name.len());
    work.truncate(start + end);
    let name = work.get(start..).unwrap_or_default();
    let spaces = name.iter().take_while(|&&b| b == b' ').count();
    work.drain(start..start + spaces);
    let name = work.get(start..).unwrap_or_default();
    if let Some(open) = memchr::memchr(b'[', name)
        && name.get(open..).is_some_and(|index| index.contains(&b']'))
    {
        work.truncate(start + open);
    }
    for byte in work.iter_mut().skip(start) {
        if matches!(byte, b' ' | b'.' | b'[') {
            *byte = b'_';
        }
    }
}

/// Form decoding (`+` is a space). An invalid escape is text, as in PHP.
#[derive(Clone)]
pub(crate) struct FormDecoded<'a>(pub(crate) &'a [u8]);

impl Iterator for FormDecoded<'_> {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        let (&byte, rest) = self.0.split_first()?;
        self.0 = rest;
        match byte {
            b'+' => Some(b' '),
            b'%' => match uri::escape(rest) {
                Some((value, rest)) => {
                    self.0 = rest;
                    Some(value)
                }
                None => Some(b'%'),
            },
            _ => Some(byte),
        }
    }
}

/// Whether PHP parses a body of this type as an urlencoded form.
pub(crate) fn is_urlencoded(content_type: &[u8]) -> bool {
    // The type ends where it ends for PHP (`sapi_read_post_data`).
    let media_type = content_type
        .trim_ascii_start()
        .split(|&b| matches!(b, b';' | b',' | b' '))
        .next()
        .unwrap_or_default();
    media_type
        .trim_ascii()
        .eq_ignore_ascii_case(b"application/x-www-form-urlencoded")
}
