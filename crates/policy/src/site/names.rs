//! Patterns for the names of cookies and parameters, as the configuration lists them.

use std::fmt;

/// A name, or a prefix of names: `woocommerce_*`. Case-sensitive, as cookies and PHP variables are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamePattern {
    /// This name only.
    Exact(String),
    /// Every name that begins with this text.
    Prefix(String),
}

impl NamePattern {
    /// Reads `name` or `prefix*`.
    pub fn parse(text: &str) -> Self {
        match text.strip_suffix('*') {
            Some(prefix) => Self::Prefix(prefix.to_owned()),
            None => Self::Exact(text.to_owned()),
        }
    }

    /// Whether `name` matches.
    pub fn matches(&self, name: &[u8]) -> bool {
        match self {
            Self::Exact(text) => text.as_bytes() == name,
            Self::Prefix(text) => name.starts_with(text.as_bytes()),
        }
    }
}

/// In the notation of the configuration.
impl fmt::Display for NamePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(name) => f.write_str(name),
            Self::Prefix(prefix) => write!(f, "{prefix}*"),
        }
    }
}
