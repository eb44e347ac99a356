//! Statements that visitors may notice.

use std::path::PathBuf;

use crate::directive::Directive;
use crate::served::paths::StatementPaths;
use crate::source::StatementOrigin;

/// The parts of a configuration that visitors may notice.
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
    /// The names of the host, without those with `*`. Empty: every name.
    pub names: Vec<String>,
    /// The document root.
    pub root: Option<PathBuf>,
    /// The listeners of the host.
    pub listeners: Vec<ServedListener>,
}

/// An address on which a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedListener {
    /// `80`, or `192.0.2.1:80` for one address only.
    pub key: String,
    /// Whether it uses TLS.
    pub is_tls: bool,
}

impl ServedListener {
    /// The default listener of servers that name none.
    pub(super) fn plain() -> Self {
        Self {
            key: "80".to_owned(),
            is_tls: false,
        }
    }
}

/// A statement with the paths that it applies to.
#[derive(Clone, Debug)]
pub struct ServedStatement {
    /// The words of the statement, shortened to one line.
    pub text: String,
    /// The position of the statement.
    pub origin: StatementOrigin,
    /// The effect of the statement.
    pub subject: StatementSubject,
    /// The hosts that it applies to; empty: all.
    pub hosts: Vec<String>,
    /// Whether it applies only with TLS (`true`) or only without (`false`); `None`: to both.
    pub is_tls: Option<bool>,
    /// The paths that it applies to.
    pub paths: StatementPaths,
}

/// The effect of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StatementSubject {
    /// The part of the configuration that applies to the paths.
    Section,
    /// A redirect.
    Redirect,
    /// The addresses that have access: the networks in the statement.
    Access(Vec<String>),
    /// Access control: the password file.
    Password(PathBuf),
    /// A field of the response, in lower case.
    Field(String),
    /// The lifetime in browsers.
    Lifetime,
    /// The page for an error.
    ErrorPage,
    /// The upstream or file that provides the response.
    Content,
}

/// The scope of statements.
#[derive(Clone, Debug, Default)]
pub(super) struct StatementScope {
    pub hosts: Vec<String>,
    pub is_tls: Option<bool>,
    pub paths: StatementPaths,
}

impl StatementScope {
    /// The scope of a host.
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

    pub fn statement(&self, directive: &Directive, subject: StatementSubject) -> ServedStatement {
        let words = directive.words.join(" ");
        ServedStatement {
            text: words
                .chars()
                .filter(|c| !c.is_control())
                .take(MAX_CHARACTERS)
                .collect(),
            origin: directive.origin.clone(),
            subject,
            hosts: self.hosts.clone(),
            is_tls: self.is_tls,
            paths: self.paths.clone(),
        }
    }
}

/// The host of requests to a server for every name.
pub(super) const NO_NAME: &str = "localhost";

const MAX_CHARACTERS: usize = 160;
