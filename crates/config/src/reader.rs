//! The file from which values are read, and how invalid values are reported.

use std::ops::Range;
use std::path::Path;

use toml::Spanned;
use toml::de::DeValue;

use crate::diagnostic::{Diagnostics, SourceSpan, shown};
use crate::options::OptionRow;

/// Reads the values of one file.
pub(crate) struct ValueReader<'r> {
    /// The folder of the file, absolute.
    pub base: &'r Path,
    pub source: usize,
    pub diagnostics: &'r mut Diagnostics,
}

/// Why a value is invalid, and the remedy.
pub(crate) struct Problem {
    /// Continues after "`option` is `value`, ".
    pub why: String,
    pub help: String,
}

impl ValueReader<'_> {
    /// The position of a span in this file.
    pub fn position(&self, span: Range<usize>) -> SourceSpan {
        SourceSpan {
            source: self.source,
            span: Some(span),
        }
    }

    /// Reports an invalid value, or an invalid member of a list.
    pub fn report(
        &mut self,
        row: &OptionRow,
        value: &Spanned<DeValue<'_>>,
        verb: &str,
        problem: Problem,
    ) {
        let text = match value.get_ref() {
            DeValue::String(text) => shown(text),
            _ => shown(
                self.diagnostics
                    .text(self.source)
                    .get(value.span())
                    .unwrap_or_default(),
            ),
        };
        let message = format!("`{}` {verb} {text}, {}", row.path(), problem.why);
        let position = self.position(value.span());
        self.diagnostics
            .add(&position, row.path(), message, problem.help);
    }
}

/// Returns a problem as an error.
pub(crate) fn problem<T>(why: impl Into<String>, help: impl Into<String>) -> Result<T, Problem> {
    Err(Problem {
        why: why.into(),
        help: help.into(),
    })
}
