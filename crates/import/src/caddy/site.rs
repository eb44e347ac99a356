//! Converts the directives of one site.

use std::collections::HashMap;

use crate::draft::{ImportedSite, RuleDraft, RulePriority, Section, Value};
use crate::known;
use crate::report::Report;
use crate::tree::ParsedDirective;
use crate::units;
use crate::write::certificate_pair;

/// The state of the conversion of a site.
pub(super) struct Converter<'a> {
    pub snippets: &'a HashMap<&'a str, &'a ParsedDirective>,
    pub report: &'a mut Report,
    /// The paths of named matchers, as patterns.
    pub matchers: HashMap<String, Section>,
    pub level: usize,
    /// The remaining number of snippet imports: a snippet that imports itself twice would never end.
    pub imports_left: usize,
}

impl Converter<'_> {
    pub fn block(&mut self, block: &[ParsedDirective], site: &mut ImportedSite) {
        // A matcher may be defined after its use.
        for directive in block.iter().filter(|one| one.name().starts_with('@')) {
            self.matcher(directive);
        }
        for directive in block.iter().filter(|one| !one.name().starts_with('@')) {
            self.directive(directive, site);
        }
    }

    fn directive(&mut self, directive: &ParsedDirective, site: &mut ImportedSite) {
        let matcher = directive.argument(0);
        if matcher.starts_with('@') && !self.matchers.contains_key(matcher) {
            return directive.not_carried(NO_MATCHER, self.report);
        }
        let last = directive.arguments().last().map_or("", String::as_str);
        match directive.name() {
            "root" => {
                directive.sets("root", last, &mut site.section, self.report);
            }
            "php_fastcgi" => match units::fastcgi(&last.replacen("unix//", "unix:/", 1)) {
                Some(server) => {
                    directive.sets("php", server, &mut site.section, self.report);
                    self.record_outcome(directive.inner(), "Galley does this by itself, or has a safe default");
                }
                None => directive.not_carried("set `php` to the socket or address of PHP-FPM", self.report),
            },
            "reverse_proxy" => self.proxy(directive, site),
            "tls" => self.tls(directive, site),
            "encode" => directive.not_needed("Galley compresses once, when it stores a page", self.report),
            "file_server" | "log_skip" | "skip_log" | "templates" | "bind" | "handle_errors" | "try_files" | "push" => {
                directive.not_needed("Galley does this by itself, or has a safe default", self.report);
            }
            "log" => self.log(directive, site),
            "header" => self.header(directive, site),
            "redir" => self.redirect(directive, site),
            "respond" | "error" | "abort" => self.deny(directive, site),
            "basicauth" | "basic_auth" => directive.not_carried("write the users into a file with `htpasswd` and set `basic_auth`", self.report),
            "request_body" => self.request_body(directive, site),
            "import" => self.import(directive, site),
            "handle" | "handle_path" | "route" => self.handle(directive, site),
            "rewrite" | "uri" if last.contains("index.php") => {
                self.report.not_needed(directive.id, "Galley forwards what is no file to index.php");
            }
            _ => directive.not_carried("Galley has no counterpart that the import knows: look for an option in docs/reference/options.md", self.report),
        }
    }

    /// Converts a block of directives for all paths, or for those of a matcher, which then applies to each directive.
    fn handle(&mut self, directive: &ParsedDirective, site: &mut ImportedSite) {
        let matcher = directive.argument(0);
        if matcher.is_empty() || matches!(matcher, "*" | "/*") {
            self.report.not_needed(directive.id, BLOCK);
            return self.block(directive.inner(), site);
        }
        if directive.name() == "handle_path" {
            return directive.not_carried(NO_STRIPPING, self.report);
        }
        self.report.carried(directive.id, "rules for its paths");
        for inner in directive.inner() {
            if OF_MATCHERS.contains(&inner.name()) {
                let mut of_paths = inner.clone();
                of_paths.words.insert(1, matcher.to_owned());
                self.directive(&of_paths, site);
            } else if ANYWHERE.contains(&inner.name()) {
                self.directive(inner, site);
            } else {
                inner.not_carried("write a rule for the paths of the block", self.report);
            }
        }
    }

    /// Converts `@name path /a/* /b` and `@name { path ... }`.
    fn matcher(&mut self, directive: &ParsedDirective) {
        let inner = directive.inner().iter().map(|one| one.words.as_slice());
        let mut patterns = Vec::new();
        let mut is_known = false;
        let all = std::iter::once(directive.arguments()).chain(inner);
        for (kind, values) in all.filter_map(<[String]>::split_first) {
            is_known = true;
            match kind.as_str() {
                "path" => patterns.extend(values.iter().map(|path| path_pattern(path))),
                "path_regexp" => {
                    patterns.extend(values.last().and_then(|text| known::pattern(text, false)));
                }
                _ => is_known = false,
            }
        }
        if is_known && !patterns.is_empty() {
            let mut section = Section::default();
            section.set("pattern", patterns.join("|"), &directive.origin);
            self.matchers.insert(directive.name().to_owned(), section);
            directive.carried("the pattern of a rule", self.report);
        } else {
            let remedy = "Galley's rules match paths: write them with `path` or `pattern`";
            directive.not_carried(remedy, self.report);
        }
    }

    /// An empty rule for the matcher with which a directive begins. `None` if there is no matcher.
    fn rule(&self, directive: &ParsedDirective) -> Option<RuleDraft> {
        let first = directive.argument(0);
        let (section, priority, length) = match self.matchers.get(first) {
            Some(section) => (section.clone(), RulePriority::Pattern, 0),
            None if first.starts_with('/') && first != "/*" && directive.arguments().len() > 1 => {
                let mut section = Section::default();
                section.set("path", first, &directive.origin);
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
            return directive.not_carried("set `upstream`", self.report);
        }
        let why = "Galley forwards client address, scheme and host itself";
        self.record_outcome(directive.inner(), why);
        let servers = Value::List(servers);
        if let Some(mut rule) = self.rule(directive) {
            rule.section.set("upstream", servers, &directive.origin);
            site.add_rule(rule);
            self.report.carried(directive.id, "a rule with upstream");
        } else {
            directive.sets("upstream", servers, &mut site.section, self.report);
        }
    }

    fn tls(&mut self, directive: &ParsedDirective, site: &mut ImportedSite) {
        match directive.arguments() {
            [cert, key] => {
                let pair = certificate_pair(cert, key);
                directive.sets("tls", pair, &mut site.section, self.report);
            }
            [word] if word == "internal" => directive.not_carried(
                "Galley has no authority of its own: set `tls` to files",
                self.report,
            ),
            _ => {
                self.report.carried(directive.id, "tls");
                self.record_outcome(directive.inner(), "Galley orders certificates by `[acme]`");
            }
        }
    }

    fn log(&mut self, directive: &ParsedDirective, site: &mut ImportedSite) {
        let report = &mut *self.report;
        report.not_needed(directive.id, "Galley logs to stdout by default");
        for inner in directive.inner() {
            match (inner.name(), inner.argument(0)) {
                ("output", "file") => {
                    site.log.set("access", inner.argument(1), &inner.origin);
                    report.carried(directive.id, "site.log.access");
                    inner.not_needed("logrotate rotates logs", report);
                    report.carried(inner.id, "site.log.access");
                }
                ("output", _) => {}
                _ => report.not_needed(inner.id, LOGS_OF_ALL),
            }
        }
    }

    /// Converts `header [MATCHER] Name Value`, or a block of such lines.
    fn header(&mut self, directive: &ParsedDirective, site: &mut ImportedSite) {
        let mut rule = self.rule(directive);
        let skipped = usize::from(rule.is_some() || directive.argument(0) == "*");
        let of_rule = rule.as_mut().map(|rule| &mut rule.section);
        let section = of_rule.unwrap_or(&mut site.section);
        if directive.inner().is_empty() {
            let words = directive.arguments().get(skipped..).unwrap_or_default();
            field(directive, words, section, self.report);
        } else {
            self.report.carried(directive.id, "set_headers");
        }
        for line in directive.inner() {
            field(line, &line.words, section, self.report);
        }
        if let Some(rule) = rule {
            site.add_rule(rule);
        }
    }

    fn redirect(&mut self, directive: &ParsedDirective, site: &mut ImportedSite) {
        let words = directive.arguments();
        let last = words.last().map(String::as_str);
        let status = last.filter(|word| STATUSES.contains(word));
        let words = words.iter().map(String::as_str);
        let words: Vec<&str> = words.filter(|word| Some(*word) != status).collect();
        match words.as_slice() {
            [target] if target.contains("://") && target.contains("{uri}") => {
                self.canonical_host(directive, target, site);
            }
            [from, to] if from.starts_with('/') && !to.contains('{') => {
                let origin = &directive.origin;
                let mut section = Section::default();
                section.set("path", *from, origin);
                section.set("redirect", *to, origin);
                section.set("redirect_query", false, origin);
                section.set_status(code(status), origin);
                site.add_rule(RuleDraft::new(section, RulePriority::Exact));
                self.report.carried(directive.id, "redirect");
            }
            _ => directive.not_carried("write a rule with `redirect`", self.report),
        }
    }

    /// Converts `redir https://example.com{uri}`.
    fn canonical_host(
        &mut self,
        directive: &ParsedDirective,
        target: &str,
        site: &mut ImportedSite,
    ) {
        let rest = target.split_once("://").map_or("", |(_, rest)| rest);
        let host = rest.split(['/', '{']).next().unwrap_or_default();
        if host.is_empty() {
            return directive.not_carried("set `canonical_host`", self.report);
        }
        directive.sets("canonical_host", host, &mut site.section, self.report);
        site.section.add("hosts", [host.to_owned()], None);
    }

    /// Converts `respond @forbidden 403`.
    fn deny(&mut self, directive: &ParsedDirective, site: &mut ImportedSite) {
        let refuses = directive.name() != "respond"
            || directive
                .arguments()
                .iter()
                .any(|word| matches!(word.as_str(), "403" | "404" | "410"));
        let Some(mut rule) = self.rule(directive).filter(|_| refuses) else {
            directive.not_carried(
                "write a rule with `deny`, or send the response from PHP",
                self.report,
            );
            return;
        };
        let pattern = rule.section.text("pattern").unwrap_or_default();
        if known::is_script_of_folder(pattern) {
            return directive.not_needed(known::NO_SCRIPTS, self.report);
        }
        rule.section.deny_all(&directive.origin);
        site.add_rule(rule);
        self.report.carried(directive.id, "a rule with deny");
    }

    fn request_body(&mut self, directive: &ParsedDirective, site: &mut ImportedSite) {
        let size = directive
            .inner()
            .iter()
            .find(|inner| inner.name() == "max_size");
        match size.and_then(|inner| units::size(inner.argument(0)).map(|size| (inner, size))) {
            Some((inner, size)) => {
                site.section.set("request_body", size, &inner.origin);
                self.report.carried(directive.id, "request_body");
                self.report.carried(inner.id, "request_body");
            }
            None => directive.not_carried("set `request_body`", self.report),
        }
    }

    fn import(&mut self, directive: &ParsedDirective, site: &mut ImportedSite) {
        match self.snippets.get(directive.argument(0)).copied() {
            Some(snippet) if self.level < MAX_SNIPPETS && self.imports_left > 0 => {
                self.imports_left -= 1;
                self.report
                    .not_needed(directive.id, "the snippet is converted here");
                self.level += 1;
                self.block(snippet.inner(), site);
                self.level -= 1;
            }
            _ => directive.not_carried("import the file separately", self.report),
        }
    }

    fn record_outcome(&mut self, block: &[ParsedDirective], why: &str) {
        for directive in block {
            directive.not_needed(why, self.report);
        }
    }
}

const LOGS_OF_ALL: &str = "`format` and `level` in `[log]` apply to all sites";

const BLOCK: &str = "the directives in the block are converted one by one";

const NO_MATCHER: &str = "its matcher is not carried: write a rule for the paths";

const NO_STRIPPING: &str = "Galley forwards paths as they are: have the server behind it take the whole path, and write a rule with `upstream`";

/// Directives that are converted in a block for a matcher as if the matcher were their argument.
const OF_MATCHERS: &[&str] = &[
    "reverse_proxy",
    "header",
    "respond",
    "error",
    "abort",
    "redir",
];

/// Directives with the same effect for every path.
const ANYWHERE: &[&str] = &["encode", "file_server", "log", "templates", "try_files"];

/// The status of a redirect. Caddy's default is a temporary one.
fn code(status: Option<&str>) -> &str {
    match status {
        Some("permanent") => "301",
        None | Some("temporary") => "302",
        Some(code) => code,
    }
}

const STATUSES: &[&str] = &["301", "302", "303", "307", "308", "permanent", "temporary"];

/// The maximum depth of nested snippets.
const MAX_SNIPPETS: usize = 8;

/// The maximum number of imports of a site.
pub(super) const MAX_IMPORTS: usize = 100;

/// Converts `Name value`, `-Name`, `+Name value`, `?Name value`.
fn field(
    directive: &ParsedDirective,
    words: &[String],
    section: &mut Section,
    report: &mut Report,
) {
    let word = |place: usize| words.get(place).map_or("", String::as_str);
    let (name, value) = (word(0), word(1));
    let lower = name
        .trim_start_matches(['-', '+', '?', '>'])
        .to_ascii_lowercase();
    if matches!(lower.as_str(), "server" | "x-powered-by" | "etag" | "vary") {
        report.not_needed(directive.id, "Galley decides about this field itself");
    } else if let Some(removed) = name.strip_prefix('-') {
        directive.adds("remove_headers", [removed.to_owned()], section, report);
    } else if value.is_empty() || value.contains('{') {
        report.not_carried(
            directive.id,
            "a value that depends on the request: have PHP send the field",
        );
    } else if let Some(added) = name.strip_prefix('+') {
        directive.adds(
            "add_headers",
            [format!("{added}: {value}")],
            section,
            report,
        );
    } else {
        let name = name.trim_start_matches(['?', '>']);
        directive.adds("set_headers", [format!("{name}: {value}")], section, report);
    }
}

/// Converts a path of a matcher to a pattern.
fn path_pattern(path: &str) -> String {
    let start = if path.starts_with('*') { "" } else { "^" };
    format!("{start}{}$", known::glob(path))
}

/// Converts `localhost:8080`, `http://a:80` to a server of `upstream`.
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
