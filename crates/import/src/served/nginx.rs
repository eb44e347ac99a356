//! The parts of an nginx configuration that visitors may notice.

use std::path::{Path, PathBuf};

use crate::copy::listen_key;
use crate::directive::ParsedDirective;
use crate::served::paths::StatementPaths;
use crate::served::statement::{
    ServedConfiguration, ServedHost, ServedListener, StatementScope, StatementSubject,
};

/// Adds the servers and the statements of a configuration.
pub(super) fn read(all: &[ParsedDirective], main: &Path, found: &mut ServedConfiguration) {
    let mut reader = NginxReader {
        folder: main.parent().unwrap_or(Path::new("/")).to_owned(),
        found,
    };
    let is_server = |one: &ParsedDirective| one.name() == "listen" || one.name() == "server_name";
    if all.iter().any(is_server) {
        reader.server(all);
    } else {
        reader.statements(all, &StatementScope::default());
    }
}

struct NginxReader<'f> {
    folder: PathBuf,
    found: &'f mut ServedConfiguration,
}

impl NginxReader<'_> {
    fn server(&mut self, block: &[ParsedDirective]) {
        let mut host = ServedHost::default();
        for directive in block {
            match directive.name() {
                "listen" => host.listeners.extend(listener(directive)),
                "server_name" => {
                    let names = directive
                        .arguments()
                        .iter()
                        .filter_map(|name| plain_name(name));
                    host.names.extend(names);
                }
                "root" => host.root = Some(self.folder.join(directive.argument(0))),
                _ => {}
            }
        }
        if host.listeners.is_empty() {
            host.listeners.push(ServedListener::plain());
        }
        let scope = StatementScope::of_host(&host);
        self.found.hosts.push(host);
        self.statements(block, &scope);
    }

    fn statements(&mut self, block: &[ParsedDirective], scope: &StatementScope) {
        for directive in block {
            match directive.name() {
                "http" => self.statements(directive.inner(), scope),
                "server" if directive.block.is_some() => self.server(directive.inner()),
                "location" => {
                    let scope = scope.of(location_paths(directive));
                    self.found
                        .statements
                        .push(scope.statement(directive, StatementSubject::Section));
                    self.statements(directive.inner(), &scope);
                }
                "if" => self.statements(directive.inner(), &condition(directive, scope)),
                "limit_except" => {
                    let networks = directive
                        .inner()
                        .iter()
                        .map(|one| one.argument(0).to_owned());
                    let subject = StatementSubject::Access(networks.collect());
                    self.found
                        .statements
                        .push(scope.statement(directive, subject));
                }
                "rewrite" => {
                    let scope = scope.of(StatementPaths::pattern(directive.argument(0), false));
                    self.found
                        .statements
                        .push(scope.statement(directive, StatementSubject::Redirect));
                }
                _ => {
                    if let Some(subject) = self.subject(directive) {
                        self.found
                            .statements
                            .push(scope.statement(directive, subject));
                    }
                }
            }
        }
    }

    fn subject(&self, directive: &ParsedDirective) -> Option<StatementSubject> {
        let argument = directive.argument(0);
        Some(match directive.name() {
            "return" if argument.starts_with('3') || argument.contains("://") => {
                StatementSubject::Redirect
            }
            "return" => StatementSubject::Access(Vec::new()),
            "allow" | "deny" => StatementSubject::Access(vec![argument.to_owned()]),
            "auth_basic_user_file" => StatementSubject::Password(self.folder.join(argument)),
            "auth_basic" => StatementSubject::Field("www-authenticate".to_owned()),
            "add_header" | "more_set_headers" => {
                let name = argument.split(':').next().unwrap_or(argument);
                StatementSubject::Field(name.to_ascii_lowercase())
            }
            "expires" => StatementSubject::Lifetime,
            "error_page" => StatementSubject::ErrorPage,
            "try_files" | "root" | "alias" | "index" | "proxy_pass" | "fastcgi_pass"
            | "autoindex" => StatementSubject::Content,
            name => return fixed_field(name),
        })
    }
}

/// The field that a statement is about, if it does not name it.
fn fixed_field(name: &str) -> Option<StatementSubject> {
    let field = match name {
        "charset" | "default_type" | "charset_types" => "content-type",
        "gzip" | "brotli" | "gzip_types" | "gunzip" => "content-encoding",
        _ => return None,
    };
    Some(StatementSubject::Field(field.to_owned()))
}

/// The listener of a `listen`. `None` if visitors cannot connect to it.
fn listener(directive: &ParsedDirective) -> Option<ServedListener> {
    let words = directive.arguments();
    let has = |word: &str| words.iter().any(|one| one == word);
    if has("quic") {
        return None;
    }
    let key = listen_key(directive.argument(0), "80")?;
    Some(ServedListener {
        is_tls: has("ssl") || key == "443",
        key,
    })
}

/// The name in a form that a request can have.
fn plain_name(name: &str) -> Option<String> {
    let name = name.strip_prefix('.').unwrap_or(name);
    let is_plain = !name.is_empty() && name != "_" && !name.contains(['*', '~', '$']);
    is_plain.then(|| name.to_ascii_lowercase())
}

fn location_paths(directive: &ParsedDirective) -> StatementPaths {
    match directive.arguments() {
        [path] if path.starts_with('@') => StatementPaths::Unknown,
        [path] => match path.strip_prefix('=') {
            Some(path) => StatementPaths::Exact(path.to_owned()),
            None => StatementPaths::Prefix(path.clone()),
        },
        [modifier, path, ..] => match modifier.as_str() {
            "=" => StatementPaths::Exact(path.clone()),
            "~" | "~*" => StatementPaths::pattern(path, modifier == "~*"),
            _ => StatementPaths::Prefix(path.clone()),
        },
        [] => StatementPaths::Unknown,
    }
}

/// The paths for which `if ($request_uri ~ "...")` is true; for other variables, those of the enclosing block.
fn condition(directive: &ParsedDirective, scope: &StatementScope) -> StatementScope {
    let words = directive.arguments();
    let word = |at: usize| {
        words
            .get(at)
            .map_or("", |word| word.trim_matches(['(', ')']))
    };
    let is_path = ["$request_uri", "$uri", "$document_uri"].contains(&word(0));
    match word(1) {
        operator @ ("~" | "~*") if is_path => {
            // A final bracket ends the condition.
            let last = words
                .get(2)
                .map_or("", |word| word.strip_suffix(')').unwrap_or(word));
            scope.of(StatementPaths::pattern(last, operator == "~*"))
        }
        "=" if is_path => scope.of(StatementPaths::Exact(word(2).to_owned())),
        _ => scope.clone(),
    }
}
