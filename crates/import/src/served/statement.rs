//! A statement that visitors may notice.

use std::path::PathBuf;

use crate::served::paths::StatementPaths;
use crate::source::StatementOrigin;
use crate::tree::ParsedDirective;

/// The part of a configuration that visitors may notice.
#[derive(Clone, Debug, Default)]
pub struct ServedConfiguration {
    /// The hosts, in the order of the configuration.
    pub hosts: Vec<ServedHost>,
    /// The statements, in the order of the configuration.
    pub statements: Vec<ServedStatement>,
}

/// A `server` of nginx, a `VirtualHost` of Apache, or a site of Caddy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServedHost {
    /// Its names; those with `*` are omitted. Empty: it has every name.
    pub names: Vec<String>,
    /// Its files.
    pub root: Option<PathBuf>,
    /// Its listeners.
    pub listeners: Vec<ServedListener>,
}

/// An address on which a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedListener {
    /// `80`, or `192.0.2.1:80` for one address only.
    pub key: String,
    /// Whether it speaks TLS.
    pub is_tls: bool,
}

impl ServedListener {
    /// Where servers listen that do not say.
    pub(super) fn plain() -> Self {
        Self {
            key: "80".to_owned(),
            is_tls: false,
        }
    }
}

/// A statement with the paths that it is about.
#[derive(Clone, Debug)]
pub struct ServedStatement {
    /// Its words, cut to a line.
    pub text: String,
    /// Its position.
    pub origin: StatementOrigin,
    /// Its effect.
    pub subject: StatementSubject,
    /// The hosts that it is about; empty: all.
    pub hosts: Vec<String>,
    /// Whether it is about TLS only, or about connections without it; `None`: about both.
    pub is_tls: Option<bool>,
    /// The paths.
    pub paths: StatementPaths,
}

/// What a statement decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StatementSubject {
    /// Which part of the configuration has the paths.
    Section,
    /// Where visitors are sent.
    Redirect,
    /// Which addresses may enter: the networks that it names.
    Access(Vec<String>),
    /// Access control: the password file.
    Password(PathBuf),
    /// A field of the response, in lower case.
    Field(String),
    /// What browsers may keep.
    Lifetime,
    /// The page for an error.
    ErrorPage,
    /// Which server answers, or which file.
    Content,
}

/// The scope in which statements stand.
#[derive(Clone, Debug, Default)]
pub(super) struct StatementScope {
    pub hosts: Vec<String>,
    pub is_tls: Option<bool>,
    pub paths: StatementPaths,
}

impl StatementScope {
    /// The statements of a host.
    pub fn of_host(host: &ServedHost) -> Self {
        let mut hosts = host.names.clone();
        if hosts.is_empty() {
            hosts.push(NO_NAME.to_owned());
        }
        let mut schemes = host.listeners.iter().map(|listener| listener.is_tls);
        let first = schemes.next();
        Self {
            hosts,
            is_tls: first.filter(|first| schemes.all(|other| other == *first)),
            paths: StatementPaths::All,
        }
    }

    pub fn of(&self, paths: StatementPaths) -> Self {
        Self {
            hosts: self.hosts.clone(),
            is_tls: self.is_tls,
            paths,
        }
    }

    pub fn statement(
        &self,
        directive: &ParsedDirective,
        subject: StatementSubject,
    ) -> ServedStatement {
        let words = directive.words.join(" ");
        ServedStatement {
            text: words
                .chars()
                .filter(|c| !c.is_control())
                .take(MOST_CHARACTERS)
                .collect(),
            origin: directive.origin.clone(),
            subject,
            hosts: self.hosts.clone(),
            is_tls: self.is_tls,
            paths: self.paths.clone(),
        }
    }
}

/// The host of requests to a server that has every name.
pub(super) const NO_NAME: &str = "localhost";

const MOST_CHARACTERS: usize = 160;
