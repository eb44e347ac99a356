//! Changes as the configuration defines them.

use http::{HeaderName, HeaderValue};

use crate::fields::is_hop_by_hop;

/// A field's name, in lower case.
pub type FieldName = HeaderName;

/// A field with its value.
pub type HeaderField = (HeaderName, HeaderValue);

/// What a site or a rule says about fields of responses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Left out.
    pub remove: Vec<HeaderName>,
    /// Take the place of those of their name.
    pub set: Vec<HeaderField>,
    /// Come in addition.
    pub add: Vec<HeaderField>,
}

/// The change of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldChange {
    /// Leave it out.
    Remove,
    /// Put it in the place of those of its name.
    Set,
    /// Add it.
    Add,
}

/// The name of a field; `None` if it is invalid (RFC 9110 section 5.1).
pub fn parse_name(text: &str) -> Option<HeaderName> {
    HeaderName::from_bytes(text.as_bytes()).ok()
}

/// `Name: value`. `None`: no name, no value, or a character in it that could end the line.
pub fn parse_line(text: &str) -> Option<HeaderField> {
    let (name, value) = text.split_once(':')?;
    let value = HeaderValue::from_str(value.trim()).ok()?;
    (!value.is_empty()).then_some((parse_name(name)?, value))
}

/// Why a field may not be changed so, as the end of a sentence.
pub fn refusal(name: &HeaderName, change: FieldChange) -> Option<&'static str> {
    let text = name.as_str();
    if is_hop_by_hop(text, std::iter::empty()) || text == "content-length" {
        return Some("which delimits the response, and which Galley sets itself");
    }
    match (text, change) {
        ("date" | "age" | "cache-status", _) => {
            Some("which names the time and origin of the response, and which Galley sets itself")
        }
        ("content-encoding" | "content-range" | "accept-ranges", _) => {
            Some("which names the coding of the response, and which Galley sets itself")
        }
        ("vary", FieldChange::Remove | FieldChange::Set) => {
            Some("without which other caches would send one visitor's response to another")
        }
        ("etag" | "last-modified", FieldChange::Set | FieldChange::Add) => {
            Some("which belongs to one version of one page")
        }
        ("strict-transport-security", FieldChange::Set | FieldChange::Add) => {
            Some("which is allowed over TLS only: use `hsts`")
        }
        _ => None,
    }
}

/// Fields that reveal software and versions, and an address that only attacks use: omitted unless the configuration keeps
/// them, and not even stored then.
pub const HIDDEN: [&str; 3] = ["x-powered-by", "x-pingback", "server"];
