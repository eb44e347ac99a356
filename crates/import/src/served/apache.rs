//! The parts of an Apache configuration that visitors may notice.

use std::path::{Path, PathBuf};

use crate::apache::read_directives;
use crate::copy::listen_key;
use crate::directive::ParsedDirective;
use crate::known;
use crate::report::Report;
use crate::served::paths::StatementPaths;
use crate::served::statement::{
    ServedConfiguration, ServedHost, ServedListener, StatementScope, StatementSubject,
};
use crate::source::Source;

/// Adds the virtual hosts and the statements of a configuration, with the `.htaccess` of each root.
pub(super) fn read(source: &dyn Source, main: &Path, found: &mut ServedConfiguration) {
    let all = read_directives(source, main, &mut Report::default());
    let mut reader = ApacheStatements { source, found };
    let mut global = ServedHost::default();
    reader.statements(&all, &StatementScope::default(), &mut global);
    if reader.found.hosts.is_empty() {
        if main.file_name().is_some_and(|name| name == ".htaccess") {
            global.root = main.parent().map(Path::to_owned);
        } else {
            reader.htaccess(&mut global, &StatementScope::default());
        }
        reader.found.hosts.push(global);
    }
}

struct ApacheStatements<'a> {
    source: &'a dyn Source,
    found: &'a mut ServedConfiguration,
}

impl ApacheStatements<'_> {
    fn statements(
        &mut self,
        block: &[ParsedDirective],
        scope: &StatementScope,
        host: &mut ServedHost,
    ) {
        for directive in block {
            match directive.name() {
                "<virtualhost" => self.virtual_host(directive),
                "documentroot" => {
                    host.root = Some(PathBuf::from(directive.argument(0).trim_end_matches('/')));
                }
                "servername" | "serveralias" => {}
                name if name.starts_with('<') => {
                    let paths = section_paths(directive, host.root.as_deref());
                    let inner = paths.map_or_else(|| scope.clone(), |paths| scope.of(paths));
                    if !matches!(inner.paths, StatementPaths::All) {
                        self.found
                            .statements
                            .push(inner.statement(directive, StatementSubject::Section));
                    }
                    self.statements(directive.inner(), &inner, host);
                }
                _ => self.statement(directive, scope),
            }
        }
    }

    fn virtual_host(&mut self, directive: &ParsedDirective) {
        let inner = directive.inner();
        let is_tls = has_tls(inner);
        let mut host = ServedHost::default();
        for address in directive.arguments() {
            let default = if is_tls { "443" } else { "80" };
            let key = listen_key(address, default).unwrap_or_else(|| default.to_owned());
            host.listeners.push(ServedListener { key, is_tls });
        }
        for one in inner
            .iter()
            .filter(|one| matches!(one.name(), "servername" | "serveralias"))
        {
            let names = one.arguments().iter().map(|name| {
                let name = name.rsplit("://").next().unwrap_or(name);
                name.split(':').next().unwrap_or(name).to_ascii_lowercase()
            });
            host.names
                .extend(names.filter(|name| !name.contains(['*', '?'])));
        }
        let scope = StatementScope::of_host(&host);
        self.statements(inner, &scope, &mut host);
        self.htaccess(&mut host, &scope);
        self.found.hosts.push(host);
    }

    /// Adds the `.htaccess` in the root of a host.
    fn htaccess(&mut self, host: &mut ServedHost, scope: &StatementScope) {
        let Some(path) = host.root.as_ref().map(|root| root.join(".htaccess")) else {
            return;
        };
        if self.source.text(&path).is_some() {
            let all = read_directives(self.source, &path, &mut Report::default());
            self.statements(&all, scope, host);
        }
    }

    fn statement(&mut self, directive: &ParsedDirective, scope: &StatementScope) {
        let Some(subject) = subject(directive) else {
            return;
        };
        let scope = own_paths(directive).map_or_else(|| scope.clone(), |paths| scope.of(paths));
        self.found
            .statements
            .push(scope.statement(directive, subject));
    }
}

/// The paths in the arguments of a directive.
fn own_paths(directive: &ParsedDirective) -> Option<StatementPaths> {
    match directive.name() {
        "redirect" | "redirectpermanent" | "redirecttemp" => {
            let path = directive
                .arguments()
                .iter()
                .find(|word| word.starts_with('/'));
            path.map(|path| StatementPaths::Prefix(path.clone()))
        }
        "redirectmatch" => {
            let pattern = directive
                .arguments()
                .iter()
                .find(|word| word.contains(['/', '^', '$']));
            pattern.map(|pattern| StatementPaths::pattern(pattern, false))
        }
        "rewriterule" => Some(rewrite_paths(directive)),
        "expiresbytype" => known::paths_of_type(directive.argument(0))
            .map(|pattern| StatementPaths::pattern(pattern, false)),
        _ => None,
    }
}

fn subject(directive: &ParsedDirective) -> Option<StatementSubject> {
    Some(match directive.name() {
        "redirect" | "redirectmatch" | "redirectpermanent" | "redirecttemp" | "rewriterule" => {
            StatementSubject::Redirect
        }
        "require" | "allow" | "deny" => StatementSubject::Access(directive.arguments().to_vec()),
        "authuserfile" => StatementSubject::Password(PathBuf::from(directive.argument(0))),
        "authname" => StatementSubject::Field("www-authenticate".to_owned()),
        "header" => {
            let words = directive.arguments().iter();
            let mut words =
                words.skip_while(|word| matches!(word.as_str(), "always" | "onsuccess"));
            StatementSubject::Field(words.nth(1)?.to_ascii_lowercase())
        }
        "expiresbytype" | "expiresdefault" => StatementSubject::Lifetime,
        "adddefaultcharset" | "addcharset" | "addtype" | "forcetype" => {
            StatementSubject::Field("content-type".to_owned())
        }
        "addoutputfilterbytype" => StatementSubject::Field("content-encoding".to_owned()),
        "errordocument" => StatementSubject::ErrorPage,
        "proxypass" | "proxypassmatch" | "sethandler" | "alias" | "directoryindex"
        | "fallbackresource" => StatementSubject::Content,
        _ => return None,
    })
}

/// The paths of a section. `None` for a condition, or for the root.
fn section_paths(directive: &ParsedDirective, root: Option<&Path>) -> Option<StatementPaths> {
    let name = directive.name();
    let path = match directive.arguments() {
        [tilde, path, ..] if tilde == "~" => return Some(StatementPaths::pattern(path, false)),
        [path, ..] => path.as_str(),
        [] => return None,
    };
    match name {
        "<location" => Some(StatementPaths::Prefix(path.to_owned())),
        "<locationmatch" | "<filesmatch" => Some(StatementPaths::pattern(
            &path.replacen('^', "/", usize::from(name == "<filesmatch")),
            false,
        )),
        "<files" => Some(file_paths(path)),
        "<directory" => {
            let below = Path::new(path).strip_prefix(root?).ok()?.to_str()?;
            (!below.is_empty())
                .then(|| StatementPaths::Prefix(format!("/{}", below.trim_end_matches('/'))))
        }
        _ => None,
    }
}

/// The paths that end with a name, which may contain `*` and `?`.
fn file_paths(name: &str) -> StatementPaths {
    let escaped = regex::escape(name);
    let escaped = escaped.replace("\\*", "[^/]*").replace("\\?", "[^/]");
    StatementPaths::pattern(&format!("/{escaped}$"), false)
}

/// The paths of a rewrite rule. In a `.htaccess` paths have no leading slash.
fn rewrite_paths(directive: &ParsedDirective) -> StatementPaths {
    let pattern = directive.argument(0);
    let flags = directive.argument(2).to_ascii_lowercase();
    let text = match pattern.strip_prefix('^') {
        Some(rest) if !rest.starts_with('/') => format!("^/{rest}"),
        _ => pattern.to_owned(),
    };
    StatementPaths::pattern(&text, flags.contains("nc") || flags.contains("nocase"))
}

fn has_tls(block: &[ParsedDirective]) -> bool {
    block.iter().any(|one| {
        one.name() == "sslengine" && one.argument(0).eq_ignore_ascii_case("on")
            || has_tls(one.inner())
    })
}
