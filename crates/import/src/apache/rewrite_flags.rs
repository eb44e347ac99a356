//! The flags of `RewriteRule`.

use crate::directive::Directive;
use crate::known::is_error_status;
use crate::words::WordList;

/// Flags such as `[R=301,L]`, in lower case.
pub(super) struct RewriteFlags(String);

impl RewriteFlags {
    pub fn of(directive: &Directive) -> Self {
        let flags = directive.argument(2).trim_matches(['[', ']']);
        Self(flags.to_ascii_lowercase())
    }

    fn all(&self) -> impl Iterator<Item = &str> {
        self.0.split(',').map(str::trim)
    }

    pub fn has(&self, flag: &str) -> bool {
        self.all().any(|one| one.split('=').next() == Some(flag))
    }

    fn has_any(&self, flags: &[&str]) -> bool {
        flags.iter().any(|flag| self.has(flag))
    }

    pub fn refuses(&self) -> bool {
        self.error().is_some()
    }

    /// The status of a refusal.
    pub fn error(&self) -> Option<&str> {
        self.all().find_map(|one| match one.split_once('=') {
            None if matches!(one, "f" | "forbidden") => Some("403"),
            None if matches!(one, "g" | "gone") => Some("410"),
            Some(("r" | "redirect", status)) => Some(status).filter(|one| is_error_status(one)),
            _ => None,
        })
    }

    /// Whether no later rule of the block runs.
    pub fn ends(&self) -> bool {
        self.has_any(&["l", "last", "end"])
    }

    /// Whether the rules after it may be left out.
    pub fn skips(&self) -> bool {
        self.has_any(&["s", "skip", "c", "chain", "n", "next", "p", "proxy"])
    }

    /// Whether there is nothing but the end of the rules.
    pub fn only_end(&self) -> bool {
        self.all()
            .all(|flag| matches!(flag, "" | "l" | "last" | "end" | "qsa"))
    }

    /// Whether the rule only gives the field `Authorization` to PHP.
    pub fn passes_authorization(&self) -> bool {
        let is_meant = |flag: &str| flag == "e=http_authorization:%{http:authorization}";
        self.all().any(is_meant) && self.all().all(|flag| flag == "l" || is_meant(flag))
    }

    /// The status of a redirect.
    pub fn redirect(&self) -> Option<&str> {
        let status = self.all().find_map(|one| match one.split_once('=') {
            Some(("r" | "redirect", status)) => Some(status),
            None if matches!(one, "r" | "redirect") => Some("302"),
            _ => None,
        })?;
        match status {
            "permanent" => Some("301"),
            "temp" => Some("302"),
            "seeother" => Some("303"),
            "301" | "302" | "303" | "307" | "308" => Some(status),
            _ => None,
        }
    }

    /// Whether all flags are about denials and redirects.
    pub fn are_known(&self) -> bool {
        self.all().all(|flag| {
            let name = flag.split('=').next().unwrap_or_default();
            name.is_empty() || KNOWN.contains(name)
        })
    }
}

const KNOWN: WordList =
    WordList("l last end r redirect f forbidden g gone nc nocase qsa qsd ne noescape");
