//! Reads the parts of a server's configuration that visitors may notice: its hosts, and each statement with its paths.

use crate::words::WordList;
use std::path::{Path, PathBuf};

use crate::apache::read_directives;
use crate::caddy::SiteAddress;
use crate::copy::listen_key;
use crate::directive::Directive;
use crate::imported::ServerKind;
use crate::known;
use crate::report::Report;
use crate::served::paths::StatementPaths;
use crate::served::statement::{
    ServedConfiguration, ServedHost, ServedListener, StatementScope, StatementSubject,
};
use crate::source::Source;
use crate::tree::{self, Grammar};

/// The parts of the configurations in `mains` that visitors may notice. `mains`: as for [`crate::import`].
pub fn served(source: &dyn Source, mains: &[(ServerKind, PathBuf)]) -> ServedConfiguration {
    let mut served = ServedConfiguration::default();
    for (kind, main) in mains {
        let mut reader = PartsReader {
            source,
            kind: *kind,
            folder: main.parent().unwrap_or(Path::new("/")).to_owned(),
            found: &mut served,
        };
        reader.file(main);
    }
    served
}

struct PartsReader<'a> {
    source: &'a dyn Source,
    kind: ServerKind,
    folder: PathBuf,
    found: &'a mut ServedConfiguration,
}

impl PartsReader<'_> {
    fn file(&mut self, main: &Path) {
        let read = |grammar| tree::read(self.source, main, grammar, &mut Report::default());
        let scope = StatementScope::default();
        match self.kind {
            ServerKind::Nginx => {
                let statements = read(Grammar::Nginx);
                let is_server = |one: &Directive| matches!(one.name(), "listen" | "server_name");
                if statements.iter().any(is_server) {
                    self.host(&[], &statements);
                } else {
                    self.statements(&statements, &scope, &mut None);
                }
            }
            ServerKind::Varnish => {
                conditions(&read(Grammar::Vcl), self.found);
                // Varnish has one address for all hosts.
                self.found.hosts.push(ServedHost {
                    listeners: vec![ServedListener::plain()],
                    ..ServedHost::default()
                });
            }
            ServerKind::Caddy => {
                let statements = read(Grammar::Caddy);
                let sites = statements.iter().filter(|one| one.block.is_some());
                for site in sites.filter(|one| !one.name().starts_with(['{', '('])) {
                    self.host(&site.words, site.inner());
                }
            }
            ServerKind::Apache => {
                let directives = read_directives(self.source, main, &mut Report::default());
                let mut host = ServedHost::default();
                self.statements(&directives, &scope, &mut host.root);
                if self.found.hosts.is_empty() {
                    if main.ends_with(".htaccess") {
                        host.root = main.parent().map(Path::to_owned);
                    } else {
                        self.htaccess(&mut host.root, &scope);
                    }
                    self.found.hosts.push(host);
                }
            }
        }
    }

    /// Adds a host and its statements. `addresses`: those of a virtual host, or of a site.
    fn host(&mut self, addresses: &[String], block: &[Directive]) {
        let mut host = ServedHost::default();
        let is_tls = has_tls(block);
        for address in addresses {
            if self.kind == ServerKind::Caddy {
                caddy_address(address.trim_end_matches(','), &mut host);
            } else {
                let default = if is_tls { "443" } else { "80" };
                let key = listen_key(address, default).unwrap_or_else(|| default.to_owned());
                host.listeners.push(ServedListener { key, is_tls });
            }
        }
        for one in block {
            let last = one.arguments().last().map_or("", String::as_str);
            match one.name() {
                "listen" => host.listeners.extend(listener(one)),
                "server_name" | "servername" | "serveralias" => {
                    host.names
                        .extend(one.arguments().iter().filter_map(|name| plain_name(name)));
                }
                "root" => host.root = Some(self.folder.join(last)),
                _ => {}
            }
        }
        if host.listeners.is_empty() {
            host.listeners.push(ServedListener::plain());
        }
        let scope = StatementScope::of_host(&host);
        self.statements(block, &scope, &mut host.root);
        if self.kind == ServerKind::Apache {
            self.htaccess(&mut host.root, &scope);
        }
        self.found.hosts.push(host);
    }

    /// Adds the `.htaccess` in the root of a host.
    fn htaccess(&mut self, root: &mut Option<PathBuf>, scope: &StatementScope) {
        let path = root.as_ref().map(|root| root.join(".htaccess"));
        if let Some(path) = path.filter(|path| self.source.text(path).is_some()) {
            let directives = read_directives(self.source, &path, &mut Report::default());
            self.statements(&directives, scope, root);
        }
    }

    fn statements(
        &mut self,
        block: &[Directive],
        scope: &StatementScope,
        root: &mut Option<PathBuf>,
    ) {
        for one in block {
            match one.name() {
                "server" if one.block.is_some() => {
                    self.host(&[], one.inner());
                    continue;
                }
                "<virtualhost" => {
                    self.host(one.arguments(), one.inner());
                    continue;
                }
                "documentroot" => {
                    *root = Some(PathBuf::from(one.argument(0).trim_end_matches('/')));
                }
                _ => {}
            }
            let paths = match self.kind {
                ServerKind::Nginx => nginx_paths(one),
                ServerKind::Apache => apache_paths(one, root.as_deref()),
                ServerKind::Caddy | ServerKind::Varnish => caddy_paths(one),
            };
            let has_paths = paths.is_some();
            let inner_scope = paths.map_or_else(|| scope.clone(), |paths| scope.of(paths));
            let is_section = match self.kind {
                ServerKind::Nginx => one.name() == "location",
                ServerKind::Apache => one.name().starts_with('<') && has_paths,
                ServerKind::Caddy | ServerKind::Varnish => has_paths,
            };
            let section = is_section.then_some(StatementSubject::Section);
            if let Some(subject) = self.subject(one).or(section) {
                self.found
                    .statements
                    .push(inner_scope.statement(one, subject));
            }
            self.statements(one.inner(), &inner_scope, root);
        }
    }

    /// The effect of a statement. `None`: visitors do not notice it, or its paths are what matters.
    fn subject(&self, one: &Directive) -> Option<StatementSubject> {
        let argument = one.argument(0);
        Some(match one.name() {
            "return" if argument.starts_with('3') || argument.contains("://") => {
                StatementSubject::Redirect
            }
            "rewrite" | "redir" | "redirect" | "redirectmatch" | "redirectpermanent"
            | "redirecttemp" | "rewriterule" => StatementSubject::Redirect,
            "return" | "respond" | "error" | "basicauth" | "basic_auth" | "remote_ip" => {
                StatementSubject::Access(Vec::new())
            }
            "limit_except" => {
                let networks = one.inner().iter().map(|one| one.argument(0).to_owned());
                StatementSubject::Access(networks.collect())
            }
            "require" | "allow" | "deny" => StatementSubject::Access(one.arguments().to_vec()),
            "auth_basic_user_file" | "authuserfile" => {
                StatementSubject::Password(self.folder.join(argument))
            }
            "expires" | "expiresbytype" | "expiresdefault" => StatementSubject::Lifetime,
            "error_page" | "errordocument" => StatementSubject::ErrorPage,
            "root" if self.kind == ServerKind::Caddy => return None,
            name if CONTENT.contains(name) => StatementSubject::Content,
            _ => StatementSubject::Field(field_of(one)?),
        })
    }
}

/// Statements that choose what provides the response.
const CONTENT: WordList = WordList(
    "try_files root alias index proxy_pass fastcgi_pass autoindex proxypass proxypassmatch sethandler directoryindex
    fallbackresource",
);

/// The field that a statement is about, in lower case.
fn field_of(one: &Directive) -> Option<String> {
    let mut words = one.arguments().iter().map(String::as_str);
    let is_other = |word: &&str| {
        [
            "always",
            "onsuccess",
            "set",
            "add",
            "append",
            "merge",
            "unset",
            "edit",
            "edit*",
            "setifempty",
            "echo",
            "note",
        ]
        .contains(word)
            || word.starts_with(['/', '@', '*'])
    };
    let field = match one.name() {
        "auth_basic" | "authname" => "www-authenticate",
        "charset" | "default_type" | "charset_types" | "adddefaultcharset" | "addcharset"
        | "addtype" | "forcetype" => "content-type",
        "gzip" | "brotli" | "gzip_types" | "gunzip" | "addoutputfilterbytype" => "content-encoding",
        "add_header" | "more_set_headers" => one.argument(0).split(':').next()?,
        "header" => words.find(|word| !is_other(word)).unwrap_or_default(),
        _ => return None,
    };
    let field = field.trim_start_matches(['+', '-', '>', '?']);
    Some(field.to_ascii_lowercase())
}

/// Adds the conditions on paths of a VCL file.
fn conditions(block: &[Directive], found: &mut ServedConfiguration) {
    for one in block {
        for words in one.arguments().windows(3) {
            if let [variable, operator, pattern] = words
                && variable.ends_with("req.url")
                && operator == "~"
            {
                let scope = StatementScope::default().of(StatementPaths::pattern(pattern, false));
                let statement = scope.statement(one, StatementSubject::Section);
                found.statements.push(statement);
            }
        }
        conditions(one.inner(), found);
    }
}

/// The listener of a `listen`. `None` if visitors cannot connect to it.
fn listener(one: &Directive) -> Option<ServedListener> {
    let has = |word: &str| one.arguments().iter().any(|known| known == word);
    let key = listen_key(one.argument(0), "80").filter(|_| !has("quic"))?;
    let is_tls = has("ssl") || key == "443";
    Some(ServedListener { key, is_tls })
}

/// The name in a form that a request can have.
fn plain_name(name: &str) -> Option<String> {
    let name = name.rsplit("://").next().unwrap_or(name);
    let name = name.split(':').next().unwrap_or(name);
    let name = name.strip_prefix('.').unwrap_or(name);
    let is_plain = !name.is_empty() && name != "_" && !name.contains(['*', '~', '$', '?']);
    is_plain.then(|| name.to_ascii_lowercase())
}

fn caddy_address(word: &str, host: &mut ServedHost) {
    let address = SiteAddress::of(word);
    let name = address.host;
    if !name.is_empty() && !name.contains('*') && !host.names.iter().any(|known| known == name) {
        host.names.push(name.to_owned());
    }
    let is_tls =
        address.scheme != Some("http") && address.port != Some(80) && !address.is_without_name();
    let mut add = |port: u16, is_tls: bool| {
        let key = port.to_string();
        if !host.listeners.iter().any(|known| known.key == key) {
            host.listeners.push(ServedListener { key, is_tls });
        }
    };
    if is_tls {
        add(address.port.unwrap_or(443), true);
    }
    // Caddy redirects to TLS on this port.
    add(address.port.filter(|_| !is_tls).unwrap_or(80), false);
}

/// The paths of a location, of a condition, or in the arguments of a statement of nginx.
fn nginx_paths(one: &Directive) -> Option<StatementPaths> {
    let words = one.arguments();
    let word = |at: usize| {
        words
            .get(at)
            .map_or("", |word| word.trim_matches(['(', ')']))
    };
    let is_path = ["$request_uri", "$uri", "$document_uri"].contains(&word(0));
    Some(match (one.name(), words) {
        ("location", [path]) if path.starts_with('@') => StatementPaths::Unknown,
        ("location", [path]) => match path.strip_prefix('=') {
            Some(path) => StatementPaths::Exact(path.to_owned()),
            None => StatementPaths::Prefix(path.clone()),
        },
        ("location", [modifier, path, ..]) => match modifier.as_str() {
            "=" => StatementPaths::Exact(path.clone()),
            "~" | "~*" => StatementPaths::pattern(path, modifier == "~*"),
            _ => StatementPaths::Prefix(path.clone()),
        },
        ("rewrite", [pattern, ..]) => StatementPaths::pattern(pattern, false),
        ("if", [_, operator, last, ..]) if is_path && operator.starts_with('~') => {
            // A final bracket ends the condition.
            let last = last.strip_suffix(')').unwrap_or(last);
            StatementPaths::pattern(last, operator == "~*")
        }
        ("if", [_, operator, ..]) if is_path && operator == "=" => {
            StatementPaths::Exact(word(2).to_owned())
        }
        _ => return None,
    })
}

/// The paths of a section, or in the arguments of a directive of Apache. `None` for a condition, or for the root.
fn apache_paths(one: &Directive, root: Option<&Path>) -> Option<StatementPaths> {
    let find = |starts: &[char]| one.arguments().iter().find(|word| word.contains(starts));
    let pattern = |text: &str| Some(StatementPaths::pattern(text, false));
    let path = match one.arguments() {
        [tilde, path, ..] if tilde == "~" => return pattern(path),
        [path, ..] => path.as_str(),
        [] => return None,
    };
    match one.name() {
        "redirect" | "redirectpermanent" | "redirecttemp" => {
            let path = one.arguments().iter().find(|word| word.starts_with('/'))?;
            Some(StatementPaths::Prefix(path.clone()))
        }
        "redirectmatch" => pattern(find(&['/', '^', '$'])?),
        "rewriterule" => {
            // In a `.htaccess` paths have no leading slash.
            let text = match path.strip_prefix('^') {
                Some(rest) if !rest.starts_with('/') => format!("^/{rest}"),
                _ => path.to_owned(),
            };
            let flags = one.argument(2).to_ascii_lowercase();
            Some(StatementPaths::pattern(&text, flags.contains("nc")))
        }
        "expiresbytype" => pattern(known::paths_of_type(path)?),
        "<location" => Some(StatementPaths::Prefix(path.to_owned())),
        "<locationmatch" => pattern(path),
        "<filesmatch" => pattern(&path.replacen('^', "/", 1)),
        "<files" => {
            let name = regex::escape(path)
                .replace("\\*", "[^/]*")
                .replace("\\?", "[^/]");
            pattern(&format!("/{name}$"))
        }
        "<directory" => {
            let below = Path::new(path).strip_prefix(root?).ok()?.to_str()?;
            let path = format!("/{}", below.trim_end_matches('/'));
            (!below.is_empty()).then_some(StatementPaths::Prefix(path))
        }
        _ => None,
    }
}

/// The path among the arguments of a directive of Caddy.
fn caddy_paths(one: &Directive) -> Option<StatementPaths> {
    let mut words = one.arguments().iter().filter(|_| one.name() != "root");
    let path = words.find(|word| word.starts_with('/'))?;
    Some(StatementPaths::of_rule_path(path))
}

fn has_tls(block: &[Directive]) -> bool {
    block.iter().any(|one| {
        one.name() == "sslengine" && one.argument(0).eq_ignore_ascii_case("on")
            || has_tls(one.inner())
    })
}
