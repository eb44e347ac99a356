//! The directives of one site.

use std::collections::HashMap;

use crate::draft::{ImportedSite, RuleDraft, RulePriority, Section, Value};
use crate::known;
use crate::ledger::Ledger;
use crate::tree::ParsedDirective;
use crate::units;
use crate::write::quoted;

/// Converts the directives of a site.
pub(super) struct Converter<'a> {
    pub snippets: &'a HashMap<&'a str, &'a ParsedDirective>,
    pub ledger: &'a mut Ledger,
    /// Paths of named matchers, as patterns.
    pub matchers: HashMap<String, Section>,
    pub level: usize,
    /// Snippets that may still be imported: one that imports itself twice would never end.
    pub imports_left: usize,
}

impl Converter<'_> {
    pub fn block(&mut self, block: &[ParsedDirective], site: &mut ImportedSite) {
        // A matcher may stand behind its use.
        for directive in block.iter().filter(|one| one.name().starts_with('@')) {
            self.matcher(directive);
        }
        for directive in block.iter().filter(|one| !one.name().starts_with('@')) {
            self.directive(directive, site);
        }
    }

    fn directive(&mut self, directive: &ParsedDirective, site: &mut ImportedSite) {
        let origin = Some(&directive.origin);
        let last = directive.arguments().last().map_or("", String::as_str);
        match directive.name() {
            "root" => {
                site.section.set("root", Value::Text(last.to_owned()), origin);
                self.ledger.carried(directive.id, "root");
            }
            "php_fastcgi" => match units::fastcgi(&last.replacen("unix//", "unix:/", 1)) {
                Some(server) => {
                    site.section.set("php", Value::Text(server), origin);
                    self.ledger.carried(directive.id, "php");
                    self.settle(directive.inner(), "Galley does this by itself, or has a safe default");
                }
                None => directive.not_carried("set `php` to the socket or address of PHP-FPM", self.ledger),
            },
            "reverse_proxy" => self.proxy(directive, site),
            "tls" => self.tls(directive, site),
            "encode" => directive.not_needed("Galley compresses once, when it stores a page", self.ledger),
            "file_server" | "log_skip" | "skip_log" | "templates" | "bind" | "handle_errors" | "try_files" | "push" => {
                directive.not_needed("Galley does this by itself, or has a safe default", self.ledger);
            }
            "log" => self.log(directive, site),
            "header" => self.header(directive, site),
            "redir" => self.redirect(directive, site),
            "respond" | "error" | "abort" => self.refuse(directive, site),
            "basicauth" | "basic_auth" => directive.not_carried("write the users into a file with `htpasswd` and set `basic_auth`", self.ledger),
            "request_body" => self.request_body(directive, site),
            "import" => self.import(directive, site),
            "handle" | "handle_path" | "route" => {
                self.ledger.not_needed(directive.id, "the directives in the block are converted one by one");
                self.block(directive.inner(), site);
            }
            "rewrite" | "uri" if last.contains("index.php") => {
                self.ledger.not_needed(directive.id, "Galley forwards what is no file to index.php");
            }
            _ => directive.not_carried("Galley has no counterpart that the import knows: look for an option in docs/reference/options.md", self.ledger),
        }
    }

    /// `@name path /a/* /b` and `@name { path ... }`.
    fn matcher(&mut self, directive: &ParsedDirective) {
        let mut words: Vec<&ParsedDirective> = directive.inner().iter().collect();
        words.insert(0, directive);
        let mut patterns = Vec::new();
        let mut is_known = false;
        for one in words {
            let (kind, values) = if one.name().starts_with('@') {
                (
                    one.argument(0),
                    one.arguments().get(1..).unwrap_or_default(),
                )
            } else {
                (one.name(), one.arguments())
            };
            match kind {
                "path" => {
                    patterns.extend(values.iter().map(|path| path_pattern(path)));
                    is_known = true;
                }
                "path_regexp" => {
                    patterns.extend(values.last().and_then(|text| known::pattern(text, false)));
                    is_known = true;
                }
                "" => {}
                _ => is_known = false,
            }
        }
        if is_known && !patterns.is_empty() {
            let mut section = Section::default();
            section.set(
                "pattern",
                Value::Text(patterns.join("|")),
                Some(&directive.origin),
            );
            self.matchers.insert(directive.name().to_owned(), section);
            self.ledger.carried(directive.id, "the pattern of a rule");
            for inner in directive.inner() {
                self.ledger.carried(inner.id, "the pattern of a rule");
            }
        } else {
            directive.not_carried(
                "Galley's rules match paths: write them with `path` or `pattern`",
                self.ledger,
            );
        }
    }

    /// An empty rule for the matcher that a directive begins with, and the arguments behind it. `None`: it has none.
    fn rule(&self, directive: &ParsedDirective) -> Option<RuleDraft> {
        let first = directive.argument(0);
        let (section, priority, length) = match self.matchers.get(first) {
            Some(section) => (section.clone(), RulePriority::Pattern, 0),
            None if first.starts_with('/') && first != "/*" && directive.arguments().len() > 1 => {
                let mut section = Section::default();
                section.set(
                    "path",
                    Value::Text(first.to_owned()),
                    Some(&directive.origin),
                );
                (section, RulePriority::Prefix, first.len())
            }
            None => return None,
        };
        Some(RuleDraft {
            section,
            priority,
            length,
        })
    }

    fn proxy(&mut self, directive: &ParsedDirective, site: &mut ImportedSite) {
        let servers: Vec<String> = directive
            .arguments()
            .iter()
            .filter(|word| !word.starts_with(['/', '@', '*']))
            .filter_map(|word| server(word))
            .collect();
        if servers.is_empty() {
            directive.not_carried("set `upstream`", self.ledger);
            return;
        }
        self.settle(
            directive.inner(),
            "Galley forwards client address, scheme and host itself",
        );
        if let Some(mut rule) = self.rule(directive) {
            rule.section
                .set("upstream", Value::List(servers), Some(&directive.origin));
            site.add_rule(rule);
            self.ledger.carried(directive.id, "a rule with upstream");
        } else {
            site.section
                .set("upstream", Value::List(servers), Some(&directive.origin));
            self.ledger.carried(directive.id, "upstream");
        }
    }

    fn tls(&mut self, directive: &ParsedDirective, site: &mut ImportedSite) {
        match directive.arguments() {
            [cert, key] => {
                let value = format!("{{ cert = {}, key = {} }}", quoted(cert), quoted(key));
                site.section
                    .set("tls", Value::Verbatim(value), Some(&directive.origin));
                self.ledger.carried(directive.id, "tls");
            }
            [word] if word == "internal" => directive.not_carried(
                "Galley has no authority of its own: set `tls` to files",
                self.ledger,
            ),
            _ => {
                self.ledger.carried(directive.id, "tls");
                self.settle(directive.inner(), "Galley orders certificates by `[acme]`");
            }
        }
    }

    fn log(&mut self, directive: &ParsedDirective, site: &mut ImportedSite) {
        let output = directive
            .inner()
            .iter()
            .find(|inner| inner.name() == "output" && inner.argument(0) == "file");
        match output {
            Some(output) => {
                site.log.set(
                    "access",
                    Value::Text(output.argument(1).to_owned()),
                    Some(&output.origin),
                );
                self.ledger.carried(directive.id, "site.log.access");
                self.ledger.carried(output.id, "site.log.access");
                self.settle(output.inner(), "logrotate rotates logs");
            }
            None => self
                .ledger
                .not_needed(directive.id, "Galley logs to stdout by default"),
        }
        let rest = directive
            .inner()
            .iter()
            .filter(|inner| inner.name() != "output");
        for inner in rest {
            self.ledger.not_needed(
                inner.id,
                "`format` and `level` in `[log]` apply to all sites",
            );
        }
    }

    /// `header [MATCHER] Name Value`, or a block of them.
    fn header(&mut self, directive: &ParsedDirective, site: &mut ImportedSite) {
        let rule = self.rule(directive);
        let skipped = usize::from(rule.is_some() || directive.argument(0) == "*");
        let mut rule = rule;
        let lines: Vec<(&ParsedDirective, Vec<String>)> = if directive.inner().is_empty() {
            vec![(
                directive,
                directive
                    .arguments()
                    .get(skipped..)
                    .unwrap_or_default()
                    .to_vec(),
            )]
        } else {
            self.ledger.carried(directive.id, "set_headers");
            directive
                .inner()
                .iter()
                .map(|inner| (inner, inner.words.clone()))
                .collect()
        };
        for (line, words) in lines {
            let section = rule
                .as_mut()
                .map_or(&mut site.section, |rule| &mut rule.section);
            field(line, &words, section, self.ledger);
        }
        if let Some(rule) = rule {
            site.add_rule(rule);
        }
    }

    fn redirect(&mut self, directive: &ParsedDirective, site: &mut ImportedSite) {
        let words = directive.arguments();
        let status = words.last().map(String::as_str).filter(|word| {
            matches!(
                *word,
                "301" | "302" | "303" | "307" | "308" | "permanent" | "temporary"
            )
        });
        let words: Vec<&String> = words
            .iter()
            .filter(|word| Some(word.as_str()) != status)
            .collect();
        match words.as_slice() {
            [target] if target.contains("://") && target.contains("{uri}") => {
                let host = target
                    .split_once("://")
                    .map_or("", |(_, rest)| rest)
                    .split(['/', '{'])
                    .next()
                    .unwrap_or_default()
                    .to_owned();
                if host.is_empty() {
                    directive.not_carried("set `canonical_host`", self.ledger);
                    return;
                }
                site.section.set(
                    "canonical_host",
                    Value::Text(host.clone()),
                    Some(&directive.origin),
                );
                site.section.add("hosts", [host], None);
                self.ledger.carried(directive.id, "canonical_host");
            }
            [from, to] if from.starts_with('/') && !to.contains('{') => {
                let mut section = Section::default();
                section.set(
                    "path",
                    Value::Text((*from).clone()),
                    Some(&directive.origin),
                );
                section.set(
                    "redirect",
                    Value::Text((*to).clone()),
                    Some(&directive.origin),
                );
                if !matches!(status, Some("301" | "permanent")) {
                    section.set(
                        "redirect_status",
                        Value::Verbatim("302".to_owned()),
                        Some(&directive.origin),
                    );
                }
                site.add_rule(RuleDraft {
                    section,
                    priority: RulePriority::Exact,
                    length: 0,
                });
                self.ledger.carried(directive.id, "redirect");
            }
            _ => directive.not_carried("write a rule with `redirect`", self.ledger),
        }
    }

    /// `respond @forbidden 403`.
    fn refuse(&mut self, directive: &ParsedDirective, site: &mut ImportedSite) {
        let refuses = directive.name() != "respond"
            || directive
                .arguments()
                .iter()
                .any(|word| matches!(word.as_str(), "403" | "404" | "410"));
        let Some(mut rule) = self.rule(directive).filter(|_| refuses) else {
            directive.not_carried(
                "write a rule with `deny`, or send the response from PHP",
                self.ledger,
            );
            return;
        };
        rule.section.add(
            "deny",
            ["0.0.0.0/0".to_owned(), "::/0".to_owned()],
            Some(&directive.origin),
        );
        site.add_rule(rule);
        self.ledger.carried(directive.id, "a rule with deny");
    }

    fn request_body(&mut self, directive: &ParsedDirective, site: &mut ImportedSite) {
        let size = directive
            .inner()
            .iter()
            .find(|inner| inner.name() == "max_size");
        match size.and_then(|inner| units::size(inner.argument(0)).map(|size| (inner, size))) {
            Some((inner, size)) => {
                site.section
                    .set("request_body", Value::Text(size), Some(&inner.origin));
                self.ledger.carried(directive.id, "request_body");
                self.ledger.carried(inner.id, "request_body");
            }
            None => directive.not_carried("set `request_body`", self.ledger),
        }
    }

    fn import(&mut self, directive: &ParsedDirective, site: &mut ImportedSite) {
        match self.snippets.get(directive.argument(0)).copied() {
            Some(snippet) if self.level < MOST_SNIPPETS && self.imports_left > 0 => {
                self.imports_left -= 1;
                self.ledger
                    .not_needed(directive.id, "the snippet is converted here");
                self.level += 1;
                self.block(snippet.inner(), site);
                self.level -= 1;
            }
            _ => directive.not_carried("import the file separately", self.ledger),
        }
    }

    fn settle(&mut self, block: &[ParsedDirective], why: &str) {
        for directive in block {
            directive.not_needed(why, self.ledger);
        }
    }
}

/// Snippets in snippets.
const MOST_SNIPPETS: usize = 8;

/// Imports of one site.
pub(super) const MOST_IMPORTS: usize = 100;

/// `Name value`, `-Name`, `+Name value`, `?Name value`.
fn field(
    directive: &ParsedDirective,
    words: &[String],
    section: &mut Section,
    ledger: &mut Ledger,
) {
    let origin = Some(&directive.origin);
    let (name, value) = match words {
        [name] => (name.as_str(), ""),
        [name, value, ..] => (name.as_str(), value.as_str()),
        [] => ("", ""),
    };
    let lower = name
        .trim_start_matches(['-', '+', '?', '>'])
        .to_ascii_lowercase();
    if matches!(lower.as_str(), "server" | "x-powered-by" | "etag" | "vary") {
        ledger.not_needed(directive.id, "Galley decides about this field itself");
    } else if let Some(removed) = name.strip_prefix('-') {
        section.add("remove_headers", [removed.to_owned()], origin);
        ledger.carried(directive.id, "remove_headers");
    } else if value.is_empty() || value.contains('{') {
        ledger.not_carried(
            directive.id,
            "a value that depends on the request: have PHP send the field",
        );
    } else {
        let name = name.trim_start_matches(['+', '?', '>']);
        section.add("set_headers", [format!("{name}: {value}")], origin);
        ledger.carried(directive.id, "set_headers");
    }
}

/// A path of a matcher as a pattern.
fn path_pattern(path: &str) -> String {
    let mut pattern = String::from(if path.starts_with('*') { "" } else { "^" });
    for c in path.chars() {
        match c {
            '*' => pattern.push_str(".*"),
            c if c.is_ascii_alphanumeric() || matches!(c, '/' | '-' | '_') => pattern.push(c),
            c => pattern.extend(['\\', c]),
        }
    }
    pattern.push('$');
    pattern
}

/// `localhost:8080`, `http://a:80` as a server of `upstream`.
fn server(word: &str) -> Option<String> {
    let (scheme, rest) = word.split_once("://").unwrap_or(("http", word));
    let (host, port) = match rest.rsplit_once(':') {
        Some((host, port)) => (host, port.parse::<u16>().ok()?),
        None => (rest, if scheme == "https" { 443 } else { 80 }),
    };
    let host = if host.is_empty() { "127.0.0.1" } else { host };
    let is_valid = matches!(scheme, "http" | "https") && !host.contains(['{', '/']);
    is_valid.then(|| format!("{scheme}://{host}:{port}"))
}
