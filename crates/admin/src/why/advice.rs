//! A reason with its parameters, and the advice for it.

use std::fmt::Display;

use galley_config::rounded_duration;
use serde_json::{Map, Value, json};

/// The text of a reason, with placeholders for parameters, such as `{cookie}`.
#[derive(Debug)]
pub(crate) struct ReasonText {
    /// The id for programs.
    pub(crate) id: &'static str,
    /// The text. It begins in lower case and has no full stop.
    pub(crate) why: &'static str,
    /// The advice; `None`: no action is necessary.
    pub(crate) what_to_do: Option<&'static str>,
}

impl ReasonText {
    /// The reason without parameters.
    pub(crate) fn plain(&'static self) -> Advice {
        self.with(&[])
    }

    /// The reason with a parameter for each placeholder.
    pub(crate) fn with(&'static self, params: &[(&'static str, &dyn Display)]) -> Advice {
        let params = params.iter();
        let params = params.map(|(name, value)| (*name, value.to_string()));
        Advice::new(self, params.collect())
    }
}

/// A reason with its parameters, and an optional note.
#[derive(Debug)]
pub(crate) struct Advice {
    reason: &'static ReasonText,
    params: Vec<(&'static str, String)>,
    /// A detail that only the server knows; it is not translated.
    note: String,
}

impl Advice {
    fn new(reason: &'static ReasonText, params: Vec<(&'static str, String)>) -> Self {
        Self {
            reason,
            params,
            note: String::new(),
        }
    }

    /// Adds a note.
    pub(super) fn noting(self, note: &str) -> Self {
        Self {
            note: note.to_owned(),
            ..self
        }
    }

    /// The text with parameters and note.
    pub(crate) fn why(&self) -> String {
        let mut text = filled(self.reason.why, &self.params);
        if !self.note.is_empty() {
            text.push_str(": ");
            text.push_str(&self.note);
        }
        text
    }

    /// The JSON: `why` and `do` for people, `id` and `params` for programs with translated texts, and `note` if there is one.
    pub(crate) fn value(&self) -> Value {
        let mut value = json!({ "why": self.why(), "do": self.reason.what_to_do });
        self.identify(&mut value);
        value
    }

    /// Adds `id`, `params` and `note` to an object.
    pub(crate) fn identify(&self, value: &mut Value) {
        let params = self.params.iter();
        let params: Map<String, Value> = params
            .map(|(name, text)| ((*name).to_owned(), json!(text)))
            .collect();
        value["id"] = json!(self.reason.id);
        value["params"] = Value::Object(params);
        if !self.note.is_empty() {
            value["note"] = json!(self.note);
        }
    }
}

/// Replaces the placeholders in a text; `{seconds}` becomes a time for people. Placeholders in the parameters are not replaced.
fn filled(text: &str, params: &[(&'static str, String)]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        out.push_str(before);
        let Some((name, behind)) = after.split_once('}') else {
            break;
        };
        let value = params.iter().find(|(known, _)| *known == name);
        debug_assert!(value.is_some(), "no parameter `{name}` for `{text}`");
        let value = value.map_or("", |(_, value)| value);
        match value.parse() {
            Ok(seconds) if name == "seconds" => out.push_str(&rounded_duration(seconds)),
            _ => out.push_str(value),
        }
        rest = behind;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::super::reasons;
    use super::*;

    #[test]
    fn seconds_are_a_time_for_people_in_the_text_and_a_number_for_programs() {
        let value = reasons::NOW_HIT.with(&[("seconds", &604_774)]).value();
        let why = "answered from memory, fresh for another 6 days 23 h";
        assert_eq!(value["why"], why);
        assert_eq!(value["params"]["seconds"], "604774");
    }

    #[test]
    fn parameters_are_in_the_text_and_separate() {
        let advice = reasons::STORED_FIELD.with(&[("field", &"a{value}b"), ("value", &"{field}")]);
        let value = advice.value();
        assert_eq!(value["why"], "its response has `a{value}b: {field}`");
        assert_eq!(value["id"], "not-stored-field");
        assert_eq!(
            value["params"],
            json!({ "field": "a{value}b", "value": "{field}" })
        );
        assert!(value["do"].is_string() && value["note"].is_null());
        let noted = reasons::REFUSED_BAD_REQUEST.plain().noting("two hosts");
        let value = noted.value();
        assert_eq!(value["why"], "it is not a valid HTTP request: two hosts");
        assert_eq!(value["note"], "two hosts");
        assert_eq!((&value["do"], &value["params"]), (&Value::Null, &json!({})));
    }
}
