//! The error of an order, in the directory's own words if it gave a reason.

use std::fmt::{self, Write as _};
use std::time::Duration;

use instant_acme::{Error, Problem};

/// The reason why an order failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{words}")]
pub(super) struct OrderError {
    /// The text for people: one line, without control characters, of limited length.
    pub(super) words: String,
    /// The type of the problem document, without the common prefix (RFC 8555 section 6.7).
    pub(super) kind: String,
    /// The pause that the directory requests.
    pub(super) retry_after: Option<Duration>,
}

impl OrderError {
    /// An error without a problem document of the directory.
    pub(super) fn new(words: impl fmt::Display) -> Self {
        Self {
            words: one_line(&words.to_string()),
            kind: String::new(),
            retry_after: None,
        }
    }

    /// The error in a problem document; `about` is the name that it concerns.
    pub(super) fn of_problem(about: Option<&str>, problem: &Problem) -> Self {
        let kind = problem.r#type.as_deref().unwrap_or_default();
        let kind = kind.strip_prefix(ERRORS).unwrap_or(kind);
        let mut words = about.map_or_else(String::new, |name| format!("{name}: "));
        words.push_str(problem.detail.as_deref().unwrap_or("no reason given"));
        if !kind.is_empty() {
            let _ = write!(words, " ({kind})");
        }
        for sub in problem.subproblems.iter().take(MAX_SUBPROBLEMS) {
            let _ = write!(words, "; {sub}");
        }
        Self {
            words: one_line(&words),
            kind: one_line(kind),
            retry_after: None,
        }
    }

    /// An error with the challenge of a name.
    pub(super) fn about(name: &str, error: Error) -> Self {
        match error {
            Error::Api(problem) => Self::of_problem(Some(name), &problem),
            other => Self::from(other),
        }
    }

    /// The same error with the pause that the directory requests.
    pub(super) fn with(self, retry_after: Option<Duration>) -> Self {
        Self {
            retry_after,
            ..self
        }
    }

    /// Whether a rate limit of the directory was exceeded.
    pub(super) fn is_rate_limit(&self) -> bool {
        self.kind == "rateLimited"
    }
}

impl From<Error> for OrderError {
    fn from(error: Error) -> Self {
        match error {
            Error::Api(problem) => Self::of_problem(None, &problem),
            Error::Timeout(_) => Self::new("the directory did not finish in time"),
            Error::Json(_) => Self::new("the directory's response does not follow RFC 8555"),
            other => Self::new(other),
        }
    }
}

/// Makes a text safe for logs and terminals, because the directory is untrusted.
fn one_line(text: &str) -> String {
    let plain = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut line: String = plain.take(MAX_WORDS + 1).collect();
    if line.chars().count() > MAX_WORDS {
        line = line.chars().take(MAX_WORDS - 3).collect();
        line.push_str("...");
    }
    line
}

/// The namespace of RFC 8555 section 6.7.
const ERRORS: &str = "urn:ietf:params:acme:error:";
const MAX_WORDS: usize = 600;
const MAX_SUBPROBLEMS: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(json: &str) -> Problem {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn the_problem_of_the_directory_is_quoted() {
        let found = problem(
            r#"{"type": "urn:ietf:params:acme:error:dns", "detail": "no valid A records found", "status": 400,
                "subproblems": [{"type": "x", "detail": "one more"}]}"#,
        );
        let trouble = OrderError::of_problem(Some("example.com"), &found);
        assert_eq!(
            trouble.words,
            "example.com: no valid A records found (dns); : one more (x)"
        );
        assert_eq!(trouble.kind, "dns");
        let limited = problem(r#"{"type": "urn:ietf:params:acme:error:rateLimited"}"#);
        let limited = OrderError::of_problem(None, &limited);
        assert!(limited.is_rate_limit());
        assert_eq!(limited.words, "no reason given (rateLimited)");
    }

    #[test]
    fn words_are_one_line_of_limited_length() {
        let trouble = OrderError::new(format!("a\n\x1b[31m{}", "ü".repeat(5_000)));
        assert!(trouble.words.starts_with("a  [31mü"));
        assert!(trouble.words.ends_with("..."));
        assert_eq!(trouble.words.chars().count(), MAX_WORDS);
    }
}
