//! Changes as the configuration defines them.

use http::{HeaderName, HeaderValue};

use crate::fields::is_hop_by_hop;

/// The name of a field, in lower case.
pub type FieldName = HeaderName;

/// A field with its value.
pub type HeaderField = (HeaderName, HeaderValue);

/// The changes of response fields for a site or a rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Names of fields to remove.
    pub remove: Vec<HeaderName>,
    /// Fields that replace all of the same name.
    pub set: Vec<HeaderField>,
    /// Fields to add.
    pub add: Vec<HeaderField>,
}

/// The change of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldChange {
    /// The field is removed.
    Remove,
    /// The field replaces all of the same name.
    Set,
    /// The field is added.
    Add,
}

/// Parses the name of a field; `None` if it is invalid (RFC 9110 section 5.1).
pub fn parse_name(text: &str) -> Option<HeaderName> {
    HeaderName::from_bytes(text.as_bytes()).ok()
}

/// Parses `Name: value`. `None`: the name or value is missing or invalid, such as one that could end the line.
pub fn parse_line(text: &str) -> Option<HeaderField> {
    let (name, value) = text.split_once(':')?;
    let value = HeaderValue::from_str(value.trim()).ok()?;
    (!value.is_empty()).then_some((parse_name(name)?, value))
}

/// The reason why a field may not be changed in this way, as the end of a sentence.
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

/// Fields that reveal software and versions, and a URL that only attackers use. They are removed, and not stored either, unless
/// the configuration keeps them.
pub const HIDDEN: [&str; 3] = ["x-powered-by", "x-pingback", "server"];
