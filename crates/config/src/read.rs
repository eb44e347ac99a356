//! From a TOML value to a value of the kind that the table asks for, or a complaint.
//!
//! [`ValueReader`] knows the file; what a text means is decided in `text`. Bounds of numbers are checked here and nowhere else.

use std::ops::Range;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeInteger, DeValue};

use crate::complaint::{Complaints, SourceSpan, shown};
use crate::limit;
use crate::options::{OptionRow, ValueKind};
use crate::text::parse_text;
use crate::tls;
use crate::value::ConfigValue;

/// Reads values of one file.
pub(crate) struct ValueReader<'r> {
    /// The folder of the file, absolute.
    pub base: &'r Path,
    pub source: usize,
    pub complaints: &'r mut Complaints,
}

/// Why a value cannot be used, and the way out.
pub(crate) struct Problem {
    /// Goes on after "`option` is `value`, ".
    pub why: String,
    pub help: String,
}

impl ValueReader<'_> {
    /// The place of a span in this file.
    pub fn place(&self, span: Range<usize>) -> SourceSpan {
        SourceSpan {
            source: self.source,
            span: Some(span),
        }
    }

    /// The value of an option; `None` after a complaint.
    pub fn read(&mut self, row: &OptionRow, value: &Spanned<DeValue<'_>>) -> Option<ConfigValue> {
        let each = match row.kind {
            ValueKind::List(each) => each,
            ValueKind::Certificates => return tls::read(self, row, value),
            ValueKind::UpstreamTls => return tls::read_upstream(self, row, value),
            _ => return self.read_one(row, &row.kind, value, "is"),
        };
        let DeValue::Array(members) = value.get_ref() else {
            let problem = Problem {
                why: format!(
                    "{}; it wants {}",
                    with_article(value.get_ref()),
                    row.kind.describe()
                ),
                help: format!("put it in brackets: `{} = {}`", row.name, row.example),
            };
            self.complain(row, value, "is", problem);
            return None;
        };
        let mut list = Vec::new();
        for member in members {
            if let Some(read) = self.read_one(row, each, member, "holds") {
                list.push((self.place(member.span()), read));
            }
        }
        // A list of which nothing is left has been complained about; it is not an empty one.
        if list.is_empty() && !members.is_empty() {
            None
        } else {
            Some(ConfigValue::List(list))
        }
    }

    fn read_one(
        &mut self,
        row: &OptionRow,
        kind: &ValueKind,
        value: &Spanned<DeValue<'_>>,
        verb: &str,
    ) -> Option<ConfigValue> {
        let read = match (kind, value.get_ref()) {
            (ValueKind::Flag, DeValue::Boolean(flag)) => Ok(ConfigValue::Flag(*flag)),
            (ValueKind::Count { .. }, DeValue::Integer(number)) => {
                whole(number).and_then(|n| bounded_number(kind, n))
            }
            (ValueKind::Size { .. }, DeValue::Integer(number)) => {
                whole(number).and_then(|n| bounded_number(kind, n))
            }
            (ValueKind::Limit, DeValue::Table(table)) => {
                limit::of_table(table).map(ConfigValue::Limit)
            }
            (ValueKind::Flag | ValueKind::Count { .. }, other) => Err(wrong_type(row, kind, other)),
            (_, DeValue::String(text)) => parse_text(kind, text, self.base),
            (_, other) => Err(wrong_type(row, kind, other)),
        };
        match read {
            Ok(value) => Some(value),
            Err(problem) => {
                self.complain(row, value, verb, problem);
                None
            }
        }
    }

    fn complain(
        &mut self,
        row: &OptionRow,
        value: &Spanned<DeValue<'_>>,
        verb: &str,
        problem: Problem,
    ) {
        let text = match value.get_ref() {
            DeValue::String(text) => shown(text),
            _ => shown(
                self.complaints
                    .text(self.source)
                    .get(value.span())
                    .unwrap_or_default(),
            ),
        };
        let message = format!("`{}` {verb} {text}, {}", row.path(), problem.why);
        let place = self.place(value.span());
        self.complaints
            .add(&place, row.path(), message, problem.help);
    }
}

fn whole(number: &DeInteger<'_>) -> Result<u64, Problem> {
    match u64::from_str_radix(number.as_str(), number.radix()) {
        Ok(number) => Ok(number),
        Err(_) if number.as_str().starts_with('-') => {
            problem("which is below 0", "give a whole number from 0 up")
        }
        Err(_) => problem("which is too large", "give a smaller number"),
    }
}

pub(crate) fn bounded_number(kind: &ValueKind, number: u64) -> Result<ConfigValue, Problem> {
    let (ValueKind::Count { least, most } | ValueKind::Size { least, most }) = *kind else {
        return Ok(ConfigValue::Number(number));
    };
    if number < least || number > most {
        return Err(out_of_bounds(kind, number < least));
    }
    Ok(ConfigValue::Number(number))
}

pub(crate) fn out_of_bounds(kind: &ValueKind, too_small: bool) -> Problem {
    let (least, most) = kind.bounds().unwrap_or_default();
    let why = if too_small {
        format!("below the least, {least}")
    } else {
        format!("above the most, {most}")
    };
    Problem {
        why,
        help: format!("give a value from {least} to {most}"),
    }
}

fn wrong_type(row: &OptionRow, kind: &ValueKind, value: &DeValue<'_>) -> Problem {
    Problem {
        why: format!("{}; it wants {}", with_article(value), kind.describe()),
        help: format!("for example `{} = {}`", row.name, row.example),
    }
}

fn with_article(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a number",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "a truth value",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

/// A problem as the error of any result.
pub(crate) fn problem<T>(why: impl Into<String>, help: impl Into<String>) -> Result<T, Problem> {
    Err(Problem {
        why: why.into(),
        help: help.into(),
    })
}
