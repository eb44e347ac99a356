//! Diagnostics: the error, its position, the reason, and the remedy.
//!
//! They are collected and never returned early, so one run reports all of them. Text from the file is shown in backticks,
//! shortened and with control characters escaped, because a diagnostic is printed on a terminal.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use annotate_snippets::{
    AnnotationKind, Group, Level, Origin, Renderer, Snippet, normalize_untrusted_str,
};

/// One diagnostic.
#[derive(Clone, Debug)]
pub struct Diagnostic {
    /// The file as it was named, or the folder for a configuration without a file.
    pub file: PathBuf,
    /// The line, from 1; 0: the file as a whole.
    pub line: usize,
    /// The column in characters, from 1; 0: the file as a whole.
    pub column: usize,
    /// The option with its section, such as `site.root`; empty if the diagnostic is about the syntax of the file.
    pub option: String,
    /// The error and its reason.
    pub message: String,
    /// The remedy.
    pub help: String,
    position: SourceSpan,
}

/// All diagnostics of one run, in the order of files and lines. Not empty if returned as an error.
#[derive(Debug, Default)]
pub struct Diagnostics {
    list: Vec<Diagnostic>,
    warnings: Vec<Warning>,
    sources: Vec<SourceFile>,
}

/// A warning: Galley can start nevertheless.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// `file:line`.
    pub spot: String,
    /// The option with its section.
    pub option: String,
    /// The finding and its consequence.
    pub message: String,
    /// The remedy.
    pub help: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.spot, self.message, self.help)
    }
}

/// A position: a source, and a byte range in it or the whole source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SourceSpan {
    pub source: usize,
    pub span: Option<Range<usize>>,
}

/// A file that was read.
#[derive(Clone, Debug)]
pub(crate) struct SourceFile {
    /// The name as given.
    pub name: PathBuf,
    pub text: Arc<str>,
}

impl Diagnostics {
    /// The diagnostics, in the order of files and lines.
    pub fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        self.list.iter()
    }

    /// The number of diagnostics.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there are no diagnostics; never true for an error that this crate returns.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// An empty list about the same files.
    pub(crate) fn with_the_same_sources(&self) -> Self {
        Self {
            sources: self.sources.clone(),
            ..Self::default()
        }
    }

    /// Adds a file. Returns the number that identifies it in positions.
    pub(crate) fn add_source(&mut self, name: &Path, text: &str) -> usize {
        self.sources.push(SourceFile {
            name: name.to_owned(),
            text: text.into(),
        });
        self.sources.len() - 1
    }

    /// The text of a source with a number from [`Self::add_source`].
    pub(crate) fn text(&self, source: usize) -> Arc<str> {
        self.sources
            .get(source)
            .map_or_else(|| "".into(), |source| Arc::clone(&source.text))
    }

    /// Adds a diagnostic.
    pub(crate) fn add(
        &mut self,
        position: &SourceSpan,
        option: impl Into<String>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        let (line, column) = self.position(position);
        self.list.push(Diagnostic {
            file: self
                .sources
                .get(position.source)
                .map_or_else(PathBuf::new, |source| source.name.clone()),
            line,
            column,
            option: option.into(),
            message: message.into(),
            help: help.into(),
            position: position.clone(),
        });
    }

    /// Adds a warning.
    pub(crate) fn warn(
        &mut self,
        position: &SourceSpan,
        option: impl Into<String>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.warnings.push(Warning {
            spot: self.spot(position),
            option: option.into(),
            message: message.into(),
            help: help.into(),
        });
    }

    /// Removes and returns the warnings.
    pub(crate) fn take_warnings(&mut self) -> Vec<Warning> {
        std::mem::take(&mut self.warnings)
    }

    /// `file:line` of a position, to be mentioned in a diagnostic about another one.
    pub(crate) fn spot(&self, position: &SourceSpan) -> String {
        let name = self
            .sources
            .get(position.source)
            .map_or_else(String::new, |source| source.name.display().to_string());
        match self.position(position).0 {
            0 => name,
            line => format!("{name}:{line}"),
        }
    }

    /// The text at a position; empty for a whole file.
    pub(crate) fn text_at(&self, position: &SourceSpan) -> &str {
        let (Some(span), Some(source)) = (&position.span, self.sources.get(position.source)) else {
            return "";
        };
        let start = floor(&source.text, span.start);
        let end = floor(&source.text, span.end).max(start);
        &source.text[start..end]
    }

    /// Line and column from 1; both 0 for a whole file.
    pub(crate) fn position(&self, position: &SourceSpan) -> (usize, usize) {
        let (Some(span), Some(source)) = (&position.span, self.sources.get(position.source)) else {
            return (0, 0);
        };
        let before = &source.text[..floor(&source.text, span.start)];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let line = before.matches('\n').count() + 1;
        (line, before[line_start..].chars().count() + 1)
    }

    /// Removes diagnostics that follow from an error in their line: those after the first `from`, about `source`, on a line for
    /// which `is_affected` is true.
    pub(crate) fn drop_consequential(
        &mut self,
        from: usize,
        source: usize,
        is_affected: impl Fn(usize) -> bool,
    ) {
        let mut index = 0;
        self.list.retain(|one| {
            index += 1;
            index <= from || one.position.source != source || !is_affected(one.line)
        });
    }

    /// Sorts the diagnostics by position. The sort is stable: diagnostics about the same position keep their order.
    pub(crate) fn sorted(mut self) -> Self {
        self.list.sort_by_key(|one| {
            (
                one.position.source,
                one.position.span.as_ref().map_or(0, |span| span.start),
            )
        });
        self
    }

    fn render_one(&self, one: &Diagnostic, renderer: &Renderer) -> String {
        let title = Level::ERROR.primary_title(one.message.as_str());
        let help = Level::HELP.message(normalize_untrusted_str(&one.help));
        let name = one.file.display().to_string();
        let group = match (&one.position.span, self.sources.get(one.position.source)) {
            (Some(span), Some(source)) => {
                let start = floor(&source.text, span.start);
                let end = floor(&source.text, span.end).max(start);
                // A value of several lines would be shown completely; its first line is enough to find it.
                let first_line = source.text[start..end]
                    .split(['\n', '\r'])
                    .next()
                    .map_or(start, |line| start + line.len());
                let mark = AnnotationKind::Primary.span(start..first_line);
                let text = without_passwords(&source.text);
                title.element(Snippet::source(text).path(name).annotation(mark))
            }
            _ => Group::with_title(title).element(Origin::path(name)),
        };
        renderer.render(&[group.element(help)])
    }
}

/// All diagnostics as text for people, separated by empty lines.
impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let renderer = Renderer::plain();
        let blocks = self.list.iter().map(|one| self.render_one(one, &renderer));
        let blocks: Vec<String> = blocks.collect();
        writeln!(f, "{}", blocks.join("\n\n"))
    }
}

impl std::error::Error for Diagnostics {}

/// Replaces each byte of a password in a URL, such as `http://user:password@host`, by an asterisk, because diagnostics are
/// logged. Lengths and positions do not change.
fn without_passwords(text: &str) -> Cow<'_, str> {
    let mut hidden = Cow::Borrowed(text);
    for (at, _) in text.match_indices("://") {
        let start = at + "://".len();
        let rest = text.get(start..).unwrap_or_default();
        // Also in an invalid URL, whose password may contain a slash.
        let ends = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`');
        let address = rest.split(ends).next().unwrap_or_default();
        let Some((login, _)) = address.rsplit_once('@') else {
            continue;
        };
        if let Some((user, password)) = login.split_once(':') {
            let first = start + user.len() + 1;
            let stars = "*".repeat(password.len());
            hidden
                .to_mut()
                .replace_range(first..first + password.len(), &stars);
        }
    }
    hidden
}

/// A text of the file as it is shown: in backticks, without control characters and passwords, at most 80 characters.
pub(crate) fn shown(text: &str) -> String {
    const MAX_CHARACTERS: usize = 80;
    let mut out = String::from("`");
    for (count, c) in without_passwords(text).chars().enumerate() {
        if count == MAX_CHARACTERS {
            out.push_str("...");
            break;
        }
        match c {
            c if c.is_control() || is_format(c) => out.extend(c.escape_default()),
            c => out.push(c),
        }
    }
    out.push('`');
    out
}

/// The known word that is nearest to `input`, if one is near enough to be probable.
pub(crate) fn nearest<'a>(input: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let input = input.to_lowercase();
    known
        .filter(|word| {
            // The first measure favors a common beginning: `http3` is no `https_port`.
            strsim::normalized_damerau_levenshtein(&input, &word.to_lowercase()) >= 0.5
        })
        .map(|word| (strsim::jaro_winkler(&input, &word.to_lowercase()), word))
        .filter(|(similarity, _)| *similarity > 0.82)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, word)| word)
}

/// Whether a character changes the direction of text on a terminal, or hides it (Trojan Source, CVE-2021-42574).
fn is_format(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// The last character boundary at or before `at`.
fn floor(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_shown_without_control_characters() {
        assert_eq!(shown("a\u{1b}[31mb"), "`a\\u{1b}[31mb`");
        assert_eq!(shown("a\u{202e}b"), "`a\\u{202e}b`");
        assert_eq!(shown("größe"), "`größe`");
        assert_eq!(shown(&"x".repeat(100)), format!("`{}...`", "x".repeat(80)));
    }

    #[test]
    fn passwords_of_urls_are_hidden() {
        for (text, wanted) in [
            (
                "otlp = \"http://a:secret@b:1/\" # c",
                "otlp = \"http://a:******@b:1/\" # c",
            ),
            ("redis://:p/w@b redis://c@d", "redis://:***@b redis://c@d"),
            ("http://a:ü@b://c:d@e", "http://a:**********@e"),
            ("http://a:80/b", "http://a:80/b"),
            ("a:b@c", "a:b@c"),
            ("://", "://"),
        ] {
            assert_eq!(without_passwords(text), wanted);
        }
        assert_eq!(shown("http://a:secret@b"), "`http://a:******@b`");
        let mut diagnostics = Diagnostics::default();
        let text = "[log]\notlp = \"ftp://a:secret@b\"\n";
        let source = diagnostics.add_source(Path::new("a.toml"), text);
        let span = Some(13..text.len() - 1);
        let position = SourceSpan { source, span };
        diagnostics.add(&position, "log.otlp", "unusable", "give another");
        let shown = diagnostics.to_string();
        assert!(!shown.contains("secret"), "{shown}");
        assert!(shown.contains("ftp://a:******@b"), "{shown}");
    }

    proptest::proptest! {
        #[test]
        fn hiding_passwords_changes_no_positions(text in "[a-z:/@ü\"]{0,40}") {
            proptest::prop_assert_eq!(without_passwords(&text).len(), text.len());
        }
    }

    #[test]
    fn similar_names_are_found() {
        let known = || ["listen", "workers", "head_timeout"].into_iter();
        assert_eq!(nearest("lisen", known()), Some("listen"));
        assert_eq!(nearest("worker", known()), Some("workers"));
        assert_eq!(nearest("HEAD_TIMEOUT", known()), Some("head_timeout"));
        assert_eq!(nearest("colour", known()), None);
        assert_eq!(nearest("http3", ["https_port"].into_iter()), None);
    }

    #[test]
    fn colors_are_rendered_only_if_requested() {
        let mut diagnostics = Diagnostics::default();
        let source = diagnostics.add_source(Path::new("a.toml"), "x = 1\n");
        diagnostics.add(
            &SourceSpan {
                source,
                span: Some(0..1),
            },
            "x",
            "unknown option `x`",
            "leave it out",
        );
        assert!(!diagnostics.to_string().contains('\u{1b}'));
    }

    #[test]
    fn positions_count_lines_and_characters() {
        let mut diagnostics = Diagnostics::default();
        let source = diagnostics.add_source(Path::new("a.toml"), "ä = 1\nöö = 2\n");
        let position = |at: usize| SourceSpan {
            source,
            span: Some(at..at),
        };
        assert_eq!(diagnostics.position(&position(0)), (1, 1));
        assert_eq!(diagnostics.position(&position(7)), (2, 1));
        assert_eq!(diagnostics.position(&position(9)), (2, 2));
        assert_eq!(diagnostics.position(&position(10_000)), (3, 1));
        assert_eq!(diagnostics.spot(&position(7)), "a.toml:2");
        assert_eq!(
            diagnostics.spot(&SourceSpan { source, span: None }),
            "a.toml"
        );
    }
}
