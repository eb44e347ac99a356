//! Splits a body with ESI tags into the remaining bytes and the positions of includes among them.
//!
//! Linear, and accepts any body. An unknown or incomplete tag, or one without `src`, stays unchanged. The contents of
//! `<!--esi ... -->` are processed as if the comment did not exist.

use memchr::memmem;

use super::attributes::{self, TagAttributes};

/// A page without its tags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EsiTemplate {
    /// The remaining bytes.
    pub body: Vec<u8>,
    /// The includes, in rising order.
    pub includes: Vec<IncludeTag>,
    /// The number of ESI tags that remain in the body: unknown ones, and those that cannot be processed.
    pub left: u64,
}

/// An include, and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncludeTag {
    /// The position among the remaining bytes.
    pub at: usize,
    /// The URLs of the include.
    pub source: IncludeSource,
}

/// The URLs of an include.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncludeSource {
    /// The URL, as the page contains it.
    pub src: Box<str>,
    /// The URL to request if the first one fails.
    pub alt: Option<Box<str>>,
    /// What happens if both fail.
    pub on_error: OnError,
}

/// What happens to a page whose include fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnError {
    /// The page fails.
    Fail,
    /// The page is sent without the include (`onerror="continue"`).
    Continue,
}

impl EsiTemplate {
    /// Splits a body.
    pub fn parse(body: &[u8]) -> Self {
        let mut parser = TemplateParser {
            source: body,
            at: 0,
            template: Self {
                body: Vec::with_capacity(body.len()),
                includes: Vec::new(),
                left: 0,
            },
            comment_end: None,
            comment_ends: Occurrences::new(b"-->"),
            remove_ends: Occurrences::new(b"</esi:remove>"),
        };
        while parser.step() {}
        parser.template
    }
}

struct TemplateParser<'b> {
    source: &'b [u8],
    at: usize,
    template: EsiTemplate,
    /// The position of the `-->` that ends the open `<!--esi`.
    comment_end: Option<usize>,
    comment_ends: Occurrences,
    remove_ends: Occurrences,
}

impl TemplateParser<'_> {
    /// Processes the text up to the next `<` and the tag there. Returns false at the end.
    fn step(&mut self) -> bool {
        let limit = self.comment_end.unwrap_or(self.source.len());
        let rest = self.source.get(self.at..limit).unwrap_or_default();
        let text = memchr::memchr(b'<', rest).unwrap_or(rest.len());
        self.keep(text);
        if self.at >= limit {
            return match self.comment_end.take() {
                Some(end) => {
                    self.at = end + COMMENT_END.len();
                    true
                }
                None => false,
            };
        }
        if !self.read_tag(limit) {
            let rest = self.source.get(self.at..limit).unwrap_or_default();
            self.template.left += u64::from(rest.starts_with(TAG));
            self.keep(1);
        }
        true
    }

    /// Copies the next bytes to the page.
    fn keep(&mut self, length: usize) {
        let end = self.at + length;
        let bytes = self.source.get(self.at..end).unwrap_or_default();
        self.template.body.extend_from_slice(bytes);
        self.at = end;
    }

    /// Processes the tag that begins here, if it is one and ends before `limit`.
    fn read_tag(&mut self, limit: usize) -> bool {
        let rest = self.source.get(self.at..limit).unwrap_or_default();
        if rest.starts_with(COMMENT) {
            return self.open_comment();
        }
        for closing in CLOSING {
            if rest.starts_with(closing) {
                self.at += closing.len();
                return true;
            }
        }
        let tag = |name: &[u8]| {
            let tail = attributes::parse(rest.strip_prefix(name)?)?;
            Some((name.len() + tail.length, tail))
        };
        if let Some((length, tail)) = tag(b"<esi:include") {
            let Some(source) = source(&tail) else {
                return false;
            };
            let at = self.template.body.len();
            self.template.includes.push(IncludeTag { at, source });
            self.at += length;
            return true;
        }
        if let Some((length, _)) = tag(b"<esi:comment") {
            self.at += length;
            return true;
        }
        match tag(b"<esi:remove") {
            Some((length, tail)) => self.remove(self.at + length, &tail, limit),
            None => false,
        }
    }

    /// Enters a `<!--esi` that has an end. Comments are not nested.
    fn open_comment(&mut self) -> bool {
        let inside = self.at + COMMENT.len();
        let begins_word = self
            .source
            .get(inside)
            .is_some_and(u8::is_ascii_alphanumeric);
        if self.comment_end.is_some() || begins_word {
            return false;
        }
        self.comment_end = self.comment_ends.from(self.source, inside);
        if self.comment_end.is_some() {
            self.at = inside;
        }
        self.comment_end.is_some()
    }

    fn remove(&mut self, inside: usize, tag: &TagAttributes, limit: usize) -> bool {
        if tag.is_empty {
            self.at = inside;
            return true;
        }
        let end = self.remove_ends.from(self.source, inside);
        match end.map(|end| end + REMOVE_END.len()) {
            Some(after) if after <= limit => {
                self.at = after;
                true
            }
            _ => false,
        }
    }
}

fn source(tag: &TagAttributes) -> Option<IncludeSource> {
    let on_error = match tag.get("onerror") {
        Some("continue") => OnError::Continue,
        _ => OnError::Fail,
    };
    Some(IncludeSource {
        src: tag.get("src").filter(|src| !src.is_empty())?.into(),
        alt: tag.get("alt").filter(|alt| !alt.is_empty()).map(Box::from),
        on_error,
    })
}

/// Finds the next occurrence of a text. With rising positions, it reads the body once.
struct Occurrences {
    needle: &'static [u8],
    /// The last occurrence that was found; the end of the body if there is none.
    found: Option<usize>,
}

impl Occurrences {
    const fn new(needle: &'static [u8]) -> Self {
        Self {
            needle,
            found: None,
        }
    }

    fn from(&mut self, body: &[u8], at: usize) -> Option<usize> {
        let is_known = self.found.is_some_and(|found| found >= at);
        if !is_known {
            let rest = body.get(at..).unwrap_or_default();
            let offset = memmem::find(rest, self.needle);
            self.found = Some(offset.map_or(body.len(), |offset| at + offset));
        }
        self.found.filter(|&found| found < body.len())
    }
}

/// The beginning of an opening tag.
const TAG: &[u8] = b"<esi:";

const COMMENT: &[u8] = b"<!--esi";

const COMMENT_END: &[u8] = b"-->";

const REMOVE_END: &[u8] = b"</esi:remove>";

/// The end tags of elements without contents.
const CLOSING: [&[u8]; 2] = [b"</esi:include>", b"</esi:comment>"];

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use proptest::prelude::*;

    use super::*;

    /// The page with `[src]` in place of includes.
    fn shown(body: &str) -> String {
        let template = EsiTemplate::parse(body.as_bytes());
        let mut out = Vec::new();
        let mut copied = 0;
        for tag in &template.includes {
            out.extend_from_slice(&template.body[copied..tag.at]);
            out.extend_from_slice(format!("[{}]", tag.source.src).as_bytes());
            copied = tag.at;
        }
        out.extend_from_slice(&template.body[copied..]);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn tags_are_removed_and_other_text_stays() {
        let table = [
            ("", ""),
            ("a<b>c", "a<b>c"),
            ("a<esi:include src='/x'/>b", "a[/x]b"),
            ("<esi:include src=\"/x\" ></esi:include>", "[/x]"),
            ("<esi:include src='/x'><esi:include src='/y'/>", "[/x][/y]"),
            ("a<esi:remove>b<esi:include src='/x'/></esi:remove>c", "ac"),
            ("a<esi:remove/>b", "ab"),
            ("a<esi:comment text='b'/>c", "ac"),
            ("a<!--esi b<esi:include src='/x'/> -->c", "a b[/x] c"),
            ("a<!--esi\n<esi:remove>b</esi:remove>-->c", "a\nc"),
            ("<!--esi a <!--esi b --> c -->", " a <!--esi b  c -->"),
            // Unknown tags, or incomplete ones.
            ("<!-- esi a -->", "<!-- esi a -->"),
            ("<!--esify a -->", "<!--esify a -->"),
            ("<!--esi a", "<!--esi a"),
            ("<esi:include/>", "<esi:include/>"),
            ("<esi:include src=''/>", "<esi:include src=''/>"),
            ("<esi:include src='/x'", "<esi:include src='/x'"),
            ("<esi:includes src='/x'/>", "<esi:includes src='/x'/>"),
            ("<ESI:include src='/x'/>", "<ESI:include src='/x'/>"),
            ("<esi:remove>a", "<esi:remove>a"),
            (
                "<esi:vars>$(HTTP_HOST)</esi:vars>",
                "<esi:vars>$(HTTP_HOST)</esi:vars>",
            ),
            ("<!--esi <esi:include src='-->'/>", " <esi:include src=''/>"),
            (
                "<!--esi <esi:remove>a --> b</esi:remove>",
                " <esi:remove>a  b</esi:remove>",
            ),
            (
                "&lt;esi:include src='/x'/&gt;",
                "&lt;esi:include src='/x'/&gt;",
            ),
        ];
        for (body, expected) in table {
            assert_eq!(shown(body), expected, "{body}");
        }
    }

    #[test]
    fn tags_that_stay_are_counted() {
        let left = |body: &str| EsiTemplate::parse(body.as_bytes()).left;
        assert_eq!(
            left("a<esi:include src='/x'/><esi:remove>b</esi:remove>"),
            0
        );
        let body =
            "<esi:choose><esi:when test=\"1\">a</esi:when></esi:choose><esi:vars>b</esi:vars>";
        assert_eq!(left(body), 3);
        assert_eq!(
            left("<!--esi <esi:try> --><esi:include/><ESI:vars>&lt;esi:vars"),
            2
        );
    }

    #[test]
    fn includes_state_what_happens_if_they_fail() {
        let body = b"<esi:include src='/a' alt='/b' onerror='continue'/><esi:include src='/c' onerror='x'/>";
        let sources: Vec<_> = EsiTemplate::parse(body)
            .includes
            .into_iter()
            .map(|tag| tag.source)
            .collect();
        let source = |src: &str, alt: Option<&str>, on_error| IncludeSource {
            src: src.into(),
            alt: alt.map(Box::from),
            on_error,
        };
        assert_eq!(
            sources,
            [
                source("/a", Some("/b"), OnError::Continue),
                source("/c", None, OnError::Fail)
            ]
        );
    }

    #[test]
    fn repeated_openings_take_linear_time() {
        for unit in [
            "<esi:remove>",
            "<!--esi",
            "<!--esi ",
            "<esi:include ",
            "<esi:include src='",
            "<esi:include src=\"'",
            "<!--esi <esi:remove>",
            "<esi:include          ",
        ] {
            for tail in ["", "</esi:remove>", "-->"] {
                let body = unit.repeat(200_000) + tail;
                let began = Instant::now();
                EsiTemplate::parse(body.as_bytes());
                let took = began.elapsed();
                assert!(took < Duration::from_secs(5), "{unit}{tail}: {took:?}");
            }
        }
    }

    #[derive(Clone, Debug)]
    enum Piece {
        Text(String),
        Include(String),
        Removed(String),
        Note(String),
        Unhidden(String),
    }

    impl Piece {
        fn printed(&self) -> String {
            match self {
                Self::Text(text) => text.clone(),
                Self::Include(src) => format!("<esi:include src=\"{src}\"/>"),
                Self::Removed(text) => format!("<esi:remove>{text}</esi:remove>"),
                Self::Note(text) => format!("<esi:comment text='{text}'/>"),
                Self::Unhidden(text) => format!("<!--esi {text}-->"),
            }
        }

        fn read(&self) -> String {
            match self {
                Self::Text(text) => text.clone(),
                Self::Include(src) => format!("[{src}]"),
                Self::Removed(_) | Self::Note(_) => String::new(),
                Self::Unhidden(text) => format!(" {text}"),
            }
        }
    }

    fn piece() -> impl Strategy<Value = Piece> {
        let text = || "[a-z >/'\"-]{0,6}";
        prop_oneof![
            text().prop_map(Piece::Text),
            "/[a-z]{0,6}".prop_map(Piece::Include),
            text().prop_map(Piece::Removed),
            "[a-z ]{0,6}".prop_map(Piece::Note),
            "[a-z ]{0,6}".prop_map(Piece::Unhidden),
        ]
    }

    proptest! {
        #[test]
        fn any_bytes_are_accepted(body in prop::collection::vec(any::<u8>(), 0..200)) {
            let template = EsiTemplate::parse(&body);
            prop_assert!(template.body.len() <= body.len());
        }

        #[test]
        fn any_text_like_tags_is_accepted(body in "(<esi:|<!--esi |-->|</esi:|include|remove|comment| src=|'/x'|\"|/>|>|[a-c]){0,30}") {
            let template = EsiTemplate::parse(body.as_bytes());
            let mut last = 0;
            for tag in &template.includes {
                prop_assert!(last <= tag.at && tag.at <= template.body.len());
                last = tag.at;
            }
        }

        #[test]
        fn printed_templates_are_parsed_to_the_same(pieces in prop::collection::vec(piece(), 0..12)) {
            let body: String = pieces.iter().map(Piece::printed).collect();
            let expected: String = pieces.iter().map(Piece::read).collect();
            prop_assert_eq!(shown(&body), expected);
        }
    }
}
