//! Patterns of purges: regular expressions that are checked when they are parsed, so that publishing one cannot fail.
//!
//! A purge contains the text only. What compares it with pages compiles it ([`PurgePattern::compile`]) and counts its size, so
//! purges that wait, are logged or are listed cost no more than their text.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

use regex_automata::nfa::thompson::pikevm::{Cache, PikeVM};
use regex_automata::nfa::thompson::{self, NFA, WhichCaptures};
use regex_syntax::ast::{self, Ast, Flag, FlagsItemKind, GroupKind};
use regex_syntax::hir::translate::TranslatorBuilder;

use super::error::{COMPILED_BYTES, MAX_PATTERN_BYTES, PurgeError};

/// A regular expression in the syntax of the `regex` crate, compared with canonical `path?query`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PurgePattern(Arc<str>);

impl PurgePattern {
    /// Reads a pattern and checks that it can be compiled within its limits.
    pub fn parse(text: &str) -> Result<Self, PurgeError> {
        let pattern = Self::accepted(text).ok_or(PurgeError::PatternTooLong)?;
        build(text)?;
        Ok(pattern)
    }

    /// A pattern that was parsed when it was published, without compiling it again; `None`: it is too long.
    pub fn accepted(text: &str) -> Option<Self> {
        (text.len() <= MAX_PATTERN_BYTES).then(|| Self(text.into()))
    }

    /// The pattern as it was written.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// The pattern for comparing. Takes up to a millisecond. One that this version cannot compile matches everything.
    pub fn compile(&self) -> CompiledPattern {
        CompiledPattern(build(&self.0).ok())
    }
}

impl fmt::Display for PurgePattern {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text().escape_debug().fmt(out)
    }
}

/// A compiled pattern. It matches in linear time.
#[derive(Debug)]
pub struct CompiledPattern(Option<PikeVM>);

impl CompiledPattern {
    /// The memory that the pattern uses, at most `COMPILED_BYTES` and a little.
    pub fn bytes(&self) -> usize {
        let automaton = self.0.as_ref().map(|vm| vm.get_nfa().memory_usage());
        size_of::<Self>() + automaton.unwrap_or_default()
    }

    /// The steps that a comparison with so many bytes takes at most. A million takes about a millisecond.
    pub fn steps(&self, bytes: usize) -> usize {
        let states = self.0.as_ref().map_or(0, |vm| vm.get_nfa().states().len());
        states.saturating_mul(bytes)
    }

    /// Whether the pattern matches anywhere in `path?query`.
    pub fn matches(&self, path_query: &[u8]) -> bool {
        // Each thread has one scratch space for all patterns: a space in each pattern takes more than the pattern.
        thread_local! {
            static SCRATCH: RefCell<Option<Cache>> = const { RefCell::new(None) };
        }
        let Some(vm) = &self.0 else { return true };
        SCRATCH.with_borrow_mut(|scratch| {
            let scratch = scratch.get_or_insert_with(|| vm.create_cache());
            scratch.reset(vm);
            vm.is_match(scratch, path_query)
        })
    }
}

/// Of the engines of `regex` only the simplest one: the others add tables of up to a megabyte, beyond any limit of the `regex`
/// crate.
fn build(text: &str) -> Result<PikeVM, PurgeError> {
    let invalid = |why: String| PurgeError::Pattern(why);
    let parsed = ast::parse::Parser::new().parse(text);
    let parsed = parsed.map_err(|error| invalid(error.kind().to_string()))?;
    ast::visit(&parsed, NoUnicode)?;
    let mut translator = TranslatorBuilder::new().unicode(false).utf8(false).build();
    let expression = translator.translate(text, &parsed);
    let expression = expression.map_err(|error| invalid(error.kind().to_string()))?;
    let limits = thompson::Config::new()
        .utf8(false)
        .nfa_size_limit(Some(COMPILED_BYTES))
        .which_captures(WhichCaptures::None);
    let automaton = NFA::compiler()
        .configure(limits)
        .build_from_hir(&expression);
    let automaton = automaton.map_err(|error| match error.size_limit() {
        Some(_) => PurgeError::PatternTooLarge,
        None => invalid(error.to_string()),
    })?;
    PikeVM::new_from_nfa(automaton).map_err(|error| invalid(error.to_string()))
}

/// Rejects the flag `u`. Canonical paths are ASCII, and folding the case of all letters 36 times takes a second.
struct NoUnicode;

impl ast::Visitor for NoUnicode {
    type Output = ();
    type Err = PurgeError;

    fn finish(self) -> Result<(), PurgeError> {
        Ok(())
    }

    fn visit_pre(&mut self, part: &Ast) -> Result<(), PurgeError> {
        let flags = match part {
            Ast::Flags(set) => &set.flags,
            Ast::Group(group) => match &group.kind {
                GroupKind::NonCapturing(flags) => flags,
                GroupKind::CaptureIndex(_) | GroupKind::CaptureName { .. } => return Ok(()),
            },
            _ => return Ok(()),
        };
        let unicode = FlagsItemKind::Flag(Flag::Unicode);
        if flags.items.iter().any(|item| item.kind == unicode) {
            return Err(PurgeError::PatternUnicode);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_limited_in_size() {
        let matches =
            |text: &str| PurgePattern::parse(text).map(|one| one.compile().matches(b"/a?x=1"));
        assert_eq!(matches("^/a"), Ok(true));
        assert_eq!(matches("A\\?X"), Ok(false));
        assert_eq!(matches("(?i)A\\?X"), Ok(true));
        assert_eq!(matches("x=2$"), Ok(false));
        assert_eq!(matches(&"a".repeat(MAX_PATTERN_BYTES)), Ok(false));
        let long = "a".repeat(MAX_PATTERN_BYTES + 1);
        assert_eq!(matches(&long), Err(PurgeError::PatternTooLong));
        assert!(matches!(matches("(a"), Err(PurgeError::Pattern(why)) if why.contains("unclosed")));
        for large in ["((a{100}){100}){100}", "(?:a{999}){999}", "[^a]{60000}"] {
            assert_eq!(matches(large), Err(PurgeError::PatternTooLarge), "{large}");
        }
        // This takes a second with Unicode.
        let folded = "(?iu)[\\x{100}-\\x{10FFFF}]".repeat(36);
        for unicode in [&folded, "(?u)a", "(?:a(?i-u:b)c)", "a|(?P<n>(?iu:b))"] {
            assert_eq!(
                matches(unicode),
                Err(PurgeError::PatternUnicode),
                "{unicode}"
            );
        }
        assert!(matches!(matches("\\pL"), Err(PurgeError::Pattern(_))));
    }

    #[test]
    fn a_pattern_uses_no_more_memory_than_its_limit() {
        for text in [
            "^/shop/.*",
            "(?i)^/(de|fr|it)/.*/[0-9]{1,60}$",
            &".".repeat(600),
        ] {
            let bytes = PurgePattern::parse(text).unwrap().compile().bytes();
            assert!(
                (100..=COMPILED_BYTES + 4_096).contains(&bytes),
                "{text}: {bytes}"
            );
        }
    }

    #[test]
    fn a_pattern_that_cannot_be_compiled_any_more_matches_everything() {
        let pattern = PurgePattern::accepted("(a").unwrap();
        assert!(pattern.compile().matches(b"/b"));
        assert_eq!(
            PurgePattern::accepted(&"a".repeat(MAX_PATTERN_BYTES + 1)),
            None
        );
    }
}
