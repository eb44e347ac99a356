//! The elements of a list, from its end.
//!
//! The last proxy appended the last element, and a client may have written the first ones. Reading begins at the end, so
//! earlier text, such as a quote that is never closed, cannot change how the end is parsed.

/// The separator of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Separator {
    /// Every comma.
    Comma,
    /// Commas outside quoted strings (RFC 9110 section 5.6.4).
    CommaUnquoted,
}

/// The elements of a field, the last one first: at most [`MAX_HOPS`] of its last [`MAX_LINES`] lines, none empty.
#[derive(Clone)]
pub(super) struct Elements<'a> {
    /// A ring buffer of the last lines.
    lines: [&'a [u8]; MAX_LINES],
    /// The number of lines that were written to the ring, minus those that were read.
    end: usize,
    lines_left: usize,
    line: Option<&'a [u8]>,
    separator: Separator,
    hops_left: usize,
}

impl<'a> Elements<'a> {
    /// The elements of a field with these lines.
    pub(super) fn of(lines: impl Iterator<Item = &'a [u8]>, separator: Separator) -> Self {
        let mut elements = Self {
            lines: [b""; MAX_LINES],
            end: 0,
            lines_left: 0,
            line: None,
            separator,
            hops_left: MAX_HOPS,
        };
        for line in lines {
            if let Some(place) = elements.lines.get_mut(elements.end % MAX_LINES) {
                *place = line;
            }
            elements.end += 1;
            elements.lines_left = (elements.lines_left + 1).min(MAX_LINES);
        }
        elements
    }

    fn last_line(&mut self) -> Option<&'a [u8]> {
        self.lines_left = self.lines_left.checked_sub(1)?;
        self.end = self.end.checked_sub(1)?;
        self.lines.get(self.end % MAX_LINES).copied()
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        self.hops_left = self.hops_left.checked_sub(1)?;
        loop {
            let line = match self.line.take() {
                Some(line) => line,
                None => self.last_line()?,
            };
            let element = match last_comma(line, self.separator) {
                None => line,
                Some(at) => {
                    self.line = line.get(..at);
                    line.get(at + 1..).unwrap_or_default()
                }
            };
            let element = element.trim_ascii();
            if !element.is_empty() {
                return Some(element);
            }
        }
    }
}

fn last_comma(line: &[u8], separator: Separator) -> Option<usize> {
    if separator == Separator::Comma {
        return memchr::memrchr(b',', line);
    }
    let mut is_quoted = false;
    (0..line.len()).rev().find(|&at| {
        let byte = line.get(at).copied().unwrap_or_default();
        if byte == b'"' && !is_escaped(line, at) {
            is_quoted = !is_quoted;
        }
        byte == b',' && !is_quoted
    })
}

/// Whether an odd number of backslashes precedes the position.
fn is_escaped(line: &[u8], at: usize) -> bool {
    let before = line.get(..at).unwrap_or_default();
    let slashes = before.iter().rev().take_while(|&&byte| byte == b'\\');
    slashes.count() % 2 == 1
}

/// The maximum number of proxies in a row; two or three are usual.
const MAX_HOPS: usize = 16;

/// The maximum number of lines of one field; proxies join lines.
const MAX_LINES: usize = 8;
