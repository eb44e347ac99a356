//! A path below a root, split once.
//!
//! All later code works on plain segments: no empty ones, no `.` or `..`, no NUL, control byte or backslash. A path with one
//! of those is rejected and not repaired, since no client sends it by accident. Bytes above 127 are not changed: file names
//! are bytes.

use std::borrow::Cow;

/// Plain segments joined by single slashes, without a slash at either end. The empty text is the root itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RelPath {
    text: Vec<u8>,
    /// The end of each segment in `text`.
    ends: Vec<usize>,
    /// Whether the path ended with a slash and so means a directory.
    slash: bool,
}

impl RelPath {
    /// Parses a decoded request path. `None` if it does not begin with `/` or contains bytes or segments that are never
    /// legitimate.
    pub(crate) fn parse(decoded: &[u8]) -> Option<Self> {
        Self::from_relative(decoded.strip_prefix(b"/")?).map(|path| Self {
            slash: decoded.ends_with(b"/"),
            ..path
        })
    }

    /// As [`RelPath::parse`], for a path that is already relative.
    pub(crate) fn from_relative(relative: &[u8]) -> Option<Self> {
        if relative.iter().any(|b| b.is_ascii_control() || *b == b'\\') {
            return None;
        }
        let mut path = Self {
            text: Vec::with_capacity(relative.len()),
            ends: Vec::new(),
            slash: false,
        };
        for segment in relative.split(|b| *b == b'/').filter(|s| !s.is_empty()) {
            if segment == b"." || segment == b".." {
                return None;
            }
            path.push(segment);
        }
        Some(path)
    }

    /// The relative path as text.
    pub(crate) fn text(&self) -> &[u8] {
        &self.text
    }

    /// The number of segments.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether the path ended with a slash.
    pub(crate) fn has_slash(&self) -> bool {
        self.slash
    }

    /// The first `count` segments; all of them if there are fewer.
    pub(crate) fn first(&self, count: usize) -> &[u8] {
        let end = match count.checked_sub(1) {
            None => 0,
            Some(last) => self.ends.get(last).copied().unwrap_or(self.text.len()),
        };
        self.text.get(..end).unwrap_or_default()
    }

    /// The part after the first `count` segments, with the trailing slash if there was one.
    pub(crate) fn after(&self, count: usize) -> Cow<'_, [u8]> {
        let rest = self.text.get(self.first(count).len()..).unwrap_or_default();
        let rest = rest.strip_prefix(b"/").unwrap_or(rest);
        if self.slash && !rest.is_empty() {
            let mut with_slash = rest.to_vec();
            with_slash.push(b'/');
            return Cow::Owned(with_slash);
        }
        Cow::Borrowed(rest)
    }

    /// The segment with this index.
    pub(crate) fn segment(&self, index: usize) -> Option<&[u8]> {
        let end = *self.ends.get(index)?;
        let start = match index.checked_sub(1) {
            None => 0,
            Some(before) => self.ends.get(before)? + 1,
        };
        self.text.get(start..end)
    }

    /// All segments in order.
    pub(crate) fn segments(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).filter_map(|index| self.segment(index))
    }

    /// The last segment; `None` for the root.
    pub(crate) fn last(&self) -> Option<&[u8]> {
        self.segment(self.len().checked_sub(1)?)
    }

    /// The path of an entry of this directory.
    pub(crate) fn child(&self, name: &[u8]) -> Self {
        let mut path = self.clone();
        path.push(name);
        path.slash = false;
        path
    }

    /// The first `count` segments as a separate path, without a trailing slash.
    pub(crate) fn up_to(&self, count: usize) -> Self {
        let ends: Vec<usize> = self.ends.iter().take(count).copied().collect();
        Self {
            text: self.first(ends.len()).to_vec(),
            ends,
            slash: false,
        }
    }

    /// The path without its first segment; `None` if nothing would remain.
    pub(crate) fn without_first(&self) -> Option<Self> {
        if self.len() < 2 {
            return None;
        }
        let shift = self.ends.first()? + 1;
        Some(Self {
            text: self.text.get(shift..)?.to_vec(),
            ends: self.ends.iter().skip(1).map(|end| end - shift).collect(),
            slash: self.slash,
        })
    }

    /// The path without the name of a site, where WordPress's rules for sub-directory multisites remove it:
    /// `[_0-9a-zA-Z-]+/` before `wp-content`, `wp-admin`, `wp-includes` or a path that ends in `.php`.
    pub(crate) fn without_site(&self) -> Option<Self> {
        let is_name = |site: &[u8]| {
            site.iter()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
        };
        if !is_name(self.segment(0)?) {
            return None;
        }
        let second = self.segment(1)?;
        let is_core = [b"wp-content".as_slice(), b"wp-admin", b"wp-includes"]
            .iter()
            .any(|directory| second.starts_with(directory));
        let is_script = !self.has_slash() && self.last()?.ends_with(b".php");
        (is_core || is_script).then(|| self.without_first())?
    }

    /// Whether the path is this folder or below it.
    pub(crate) fn is_in(&self, folder: &Self) -> bool {
        let rest = self.text.strip_prefix(folder.text.as_slice());
        rest.is_some_and(|rest| folder.text.is_empty() || matches!(rest.first(), None | Some(b'/')))
    }

    /// The path as text with a leading `/`.
    pub(crate) fn absolute(&self) -> Vec<u8> {
        [b"/", self.text.as_slice()].concat()
    }

    fn push(&mut self, segment: &[u8]) {
        if !self.text.is_empty() {
            self.text.push(b'/');
        }
        self.text.extend_from_slice(segment);
        self.ends.push(self.text.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_paths_into_segments() {
        let path = RelPath::parse(b"//a//b.php/c/").unwrap();
        assert_eq!(path.text(), b"a/b.php/c");
        assert!(path.has_slash());
        assert_eq!(
            path.segments().collect::<Vec<_>>(),
            [b"a".as_slice(), b"b.php", b"c"]
        );
        assert_eq!(path.first(0), b"");
        assert_eq!(path.first(2), b"a/b.php");
        assert_eq!(path.first(9), b"a/b.php/c");
        assert_eq!(&*path.after(0), b"a/b.php/c/");
        assert_eq!(&*path.after(1), b"b.php/c/");
        assert_eq!(&*path.after(3), b"");
        assert_eq!(path.up_to(2).last(), Some(b"b.php".as_slice()));
        assert_eq!(path.without_first().unwrap().text(), b"b.php/c");
        assert_eq!(
            path.without_first().unwrap().segment(1),
            Some(b"c".as_slice())
        );
        assert_eq!(path.child(b"d").text(), b"a/b.php/c/d");
        let root = RelPath::parse(b"/").unwrap();
        assert_eq!((root.len(), root.has_slash(), root.last()), (0, true, None));
        assert_eq!(root.child(b"x").text(), b"x");
    }

    #[test]
    fn rejects_illegitimate_bytes_and_segments() {
        for bad in [
            b"".as_slice(),
            b"*",
            b"a/b",
            b"/a/../b",
            b"/..",
            b"/a/..",
            b"/./a",
            b"/a\0.css",
            b"/a\\b",
            b"/a\nb",
            b"/a\x7f",
        ] {
            assert!(RelPath::parse(bad).is_none(), "{bad:?}");
        }
        for good in [
            b"/...".as_slice(),
            b"/a..b",
            b"/%2e%2e/x",
            b"/\xc0\xae\xc0\xae/x",
            b"/\xff",
        ] {
            assert!(RelPath::parse(good).is_some(), "{good:?}");
        }
    }
}
