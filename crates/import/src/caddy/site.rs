//! Converts the directives of one site. A directive with a matcher becomes a rule for each path of the matcher; a matcher of anything
//! but paths is not carried, nor are its directives.

use std::collections::HashMap;

use super::address::upstream;
use super::field::field;
use super::matcher::{PathOption, Reach, path_option, rules};
use crate::closed::{self, undecided};
use crate::directive::ParsedDirective;
use crate::draft::{ImportedSite, RuleDraft, RulePriority, Section, Value};
use crate::known;
use crate::report::Report;
use crate::units;
use crate::write::certificate_pair;

/// The state of the conversion of a site.
pub(super) struct Converter<'a> {
    pub snippets: &'a HashMap<&'a str, &'a ParsedDirective>,
    pub report: &'a mut Report,
    /// The options for the paths of named matchers.
    pub matchers: HashMap<String, Vec<PathOption>>,
    /// Whether blocks answer requests before other directives of the site do.
    pub has_blocks: bool,
    pub level: usize,
    /// The remaining number of snippet imports: a snippet that imports itself twice would never end.
    pub imports_left: usize,
}

impl Converter<'_> {
    pub fn block(&mut self, block: &[ParsedDirective], site: &mut ImportedSite) {
        let is_block = |one: &ParsedDirective| {
            matches!(one.name(), "handle" | "handle_path" | "route") && !refuses(one)
        };
        self.has_blocks |= block.iter().any(is_block);
        // A matcher may be defined after its use.
        for directive in block.iter().filter(|one| one.name().starts_with('@')) {
            self.matcher(directive);
        }
        // The root decides which denials are not needed.
        let (roots, others): (Vec<_>, Vec<_>) = block
            .iter()
            .filter(|one| !one.name().starts_with('@'))
            .partition(|one| one.name() == "root");
        for directive in roots.into_iter().chain(others) {
            self.directive(directive, site);
        }
    }

    fn directive(&mut self, directive: &ParsedDirective, site: &mut ImportedSite) {
        let (reach, words) = self.reach(directive);
        let is_all = matches!(reach, Reach::All);
        match directive.name() {
            "respond" | "error" | "abort" => self.deny(directive, reach, &words, site),
            "rewrite" if words == ["/index.php"] && !is_all => {
                self.refuse(directive, reach, "404", site);
            }
            "basicauth" | "basic_auth" => self.password(directive, reach, site),
            "forward_auth" | "bind" | "request_header" | "vars" | "invoke" => {
                undecided(directive, DECIDES, self.report);
            }
            "reverse_proxy" => self.proxy(directive, reach, &words, site),
            "header" => self.header(directive, reach, &words, site),
            "redir" => self.redirect(directive, reach, &words, site),
            "handle" | "route" => self.handle(directive, &reach, site),
            "handle_path" => directive.not_carried(NO_STRIPPING, self.report),
            _ if !is_all => directive.not_carried(NO_MATCHER, self.report),
            "root" => match words.as_slice() {
                [root] if root.starts_with('/') && !root.contains(['{', '$']) => {
                    directive.sets("root", root.clone(), &mut site.section, self.report);
                }
                _ => directive.not_carried("set `root` to the folder", self.report),
            },
            "php_fastcgi" => match words.as_slice() {
                [server] if units::fastcgi(&server.replacen("unix//", "unix:/", 1)).is_some() => {
                    let server = server.replacen("unix//", "unix:/", 1);
                    directive.sets("php", server, &mut site.section, self.report);
                    self.lost(directive.inner(), "set the options of `php`");
                }
                _ => directive
                    .not_carried("set `php` to the socket or address of PHP-FPM", self.report),
            },
            "php_server" | "php" => {
                // FrankenPHP contains PHP: Galley runs a PHP-FPM in its place.
                directive.sets("php", "managed", &mut site.section, self.report);
                self.lost(directive.inner(), "set the options of `php`");
            }
            "tls" => self.tls(directive, &words, site),
            "encode" => {
                directive.not_needed("Galley compresses once, when it stores a page", self.report);
            }
            "file_server" if words.is_empty() && directive.inner().is_empty() => {
                self.report
                    .not_needed(directive.id, "Galley sends the files below `root`");
            }
            "log" => self.log(directive, site),
            "request_body" => self.request_body(directive, site),
            "import" => self.import(directive, site),
            _ => directive.not_carried(NO_COUNTERPART, self.report),
        }
    }

    /// The requests that a directive applies to, and its other words.
    fn reach(&self, directive: &ParsedDirective) -> (Reach, Vec<String>) {
        let words = directive.arguments();
        let rest = words.get(1..).unwrap_or_default().to_vec();
        let takes_path = |first: &str| {
            first.starts_with('/') && (rest.len() + 1 > 1 || !directive.inner().is_empty())
        };
        match words.first().map(String::as_str) {
            Some("*" | "/*") => (Reach::All, rest),
            Some(first) if first.starts_with('@') => match self.matchers.get(first) {
                Some(paths) => (Reach::Paths(paths.clone()), rest),
                None => (Reach::Unknown, rest),
            },
            Some(first)
                if takes_path(first) && !matches!(directive.name(), "rewrite" | "root" | "tls") =>
            {
                (Reach::Paths(vec![path_option(first)]), rest)
            }
            _ => (Reach::All, words.to_vec()),
        }
    }

    /// Converts `@name path /a/* /b` and `@name { path ... }`.
    fn matcher(&mut self, directive: &ParsedDirective) {
        let paths = paths_of(directive);
        match paths {
            Some(paths) => {
                self.matchers.insert(directive.name().to_owned(), paths);
                directive.carried("the paths of rules", self.report);
            }
            None => directive.not_carried(
                "Galley's rules match paths: write them with `path` or `pattern`",
                self.report,
            ),
        }
    }

    /// Converts a block of directives for all paths, or one that only refuses requests for its paths.
    fn handle(&mut self, directive: &ParsedDirective, reach: &Reach, site: &mut ImportedSite) {
        match directive.inner() {
            inner if matches!(reach, Reach::All) => {
                self.report.not_needed(directive.id, BLOCK);
                self.block(inner, site);
            }
            [one] if refuses(directive) => {
                self.report.carried(directive.id, "rules for its paths");
                let mut of_paths = one.clone();
                of_paths.words.insert(1, directive.argument(0).to_owned());
                self.directive(&of_paths, site);
            }
            inner => {
                self.report.not_carried(directive.id, IN_BLOCK);
                for one in inner {
                    match one.name() {
                        "respond" | "error" | "abort" | "basic_auth" | "basicauth"
                        | "forward_auth" | "request_header" => {
                            undecided(one, DECIDES, self.report);
                        }
                        _ => one.not_carried(IN_BLOCK, self.report),
                    }
                }
            }
        }
    }

    fn proxy(
        &mut self,
        directive: &ParsedDirective,
        reach: Reach,
        words: &[String],
        site: &mut ImportedSite,
    ) {
        let Some(servers) = servers_of(words) else {
            return directive.not_carried("set `upstream`", self.report);
        };
        self.lost(directive.inner(), "set the options of `upstream`");
        match reach {
            Reach::All => directive.sets("upstream", servers, &mut site.section, self.report),
            Reach::Paths(paths) => {
                for mut rule in rules(&paths, directive) {
                    let servers = servers.clone();
                    rule.section.set("upstream", servers, &directive.origin);
                    site.add_rule(rule);
                }
                self.report.carried(directive.id, "a rule with upstream");
            }
            Reach::Unknown => directive.not_carried(NO_MATCHER, self.report),
        }
    }

    fn tls(&mut self, directive: &ParsedDirective, words: &[String], site: &mut ImportedSite) {
        match words {
            [cert, key] => {
                let pair = certificate_pair(cert, key);
                directive.sets("tls", pair, &mut site.section, self.report);
                self.lost(directive.inner(), "set the options of TLS");
            }
            [word] if word == "internal" => directive.not_carried(
                "Galley has no authority of its own: set `tls` to files",
                self.report,
            ),
            _ if directive
                .inner()
                .iter()
                .any(|one| one.name() == "client_auth") =>
            {
                undecided(directive, DECIDES, self.report);
            }
            _ => {
                self.report.carried(directive.id, "tls");
                self.lost(directive.inner(), "see the options of `[acme]`");
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
                    inner.not_needed("logrotate rotates logs", report);
                    report.carried(inner.id, "site.log.access");
                }
                _ => {
                    inner.not_carried("`format` and `level` in `[log]` apply to all sites", report);
                }
            }
        }
    }

    /// Converts `header [MATCHER] Name Value`, or a block of such lines.
    fn header(
        &mut self,
        directive: &ParsedDirective,
        reach: Reach,
        words: &[String],
        site: &mut ImportedSite,
    ) {
        match reach {
            Reach::All => {
                if !directive.inner().is_empty() {
                    self.report.carried(directive.id, "set_headers");
                }
                self.fields(directive, words, &mut site.section);
            }
            Reach::Paths(paths) => {
                for mut rule in rules(&paths, directive) {
                    self.fields(directive, words, &mut rule.section);
                    site.add_rule(rule);
                }
                directive.not_carried(ONE_RULE, self.report);
            }
            Reach::Unknown => directive.not_carried(NO_MATCHER, self.report),
        }
    }

    fn fields(&mut self, directive: &ParsedDirective, words: &[String], section: &mut Section) {
        if directive.inner().is_empty() {
            return field(directive, words, section, self.report);
        }
        for line in directive.inner() {
            field(line, &line.words, section, self.report);
        }
    }

    /// Converts `redir https://example.com{uri}` for all paths, and `redir /from /to` for one.
    fn redirect(
        &mut self,
        directive: &ParsedDirective,
        reach: Reach,
        words: &[String],
        site: &mut ImportedSite,
    ) {
        let (target, status) = match words {
            [target] => (target.as_str(), "302"),
            [target, status] => (target.as_str(), code(status)),
            _ => ("", ""),
        };
        let (bare, keeps) = match target.strip_suffix("{uri}") {
            Some(bare) => (bare, true),
            None => (target, false),
        };
        let is_known = !bare.is_empty() && !bare.contains('{') && !status.is_empty();
        let Some(mut rule) = redirected(reach, directive).filter(|_| is_known) else {
            return directive.not_carried("write a rule with `redirect`", self.report);
        };
        let is_whole = rule.section.has("path");
        if keeps && !is_whole {
            return directive.not_carried("write a rule with `redirect`", self.report);
        }
        let rest = if keeps { "/$1" } else { "" };
        rule.section
            .redirects(format!("{bare}{rest}"), status, keeps, &directive.origin);
        if is_whole {
            site.redirects_all
                .get_or_insert_with(|| directive.origin.clone());
        }
        site.add_rule(rule);
        self.report.carried(directive.id, "redirect");
    }

    /// Converts `respond @forbidden 403`.
    fn deny(
        &mut self,
        directive: &ParsedDirective,
        reach: Reach,
        words: &[String],
        site: &mut ImportedSite,
    ) {
        let status = words
            .iter()
            .find(|word| word.parse::<u16>().is_ok())
            .map(String::as_str);
        let status = match (directive.name(), status) {
            ("abort", _) => "444",
            ("error", None) => "500",
            (_, status) => status.unwrap_or("200"),
        };
        if !known::is_error_status(status) {
            return directive
                .not_carried("send the response from PHP, or from a file", self.report);
        }
        self.refuse(directive, reach, status, site);
    }

    /// Closes the paths of a directive.
    fn refuse(
        &mut self,
        directive: &ParsedDirective,
        reach: Reach,
        status: &str,
        site: &mut ImportedSite,
    ) {
        let Reach::Paths(paths) = reach else {
            return undecided(directive, DECIDES, self.report);
        };
        for mut rule in rules(&paths, directive) {
            // Caddy decides about refusals before it proxies.
            rule.priority = RulePriority::Exact;
            let outcome = closed::close(directive, rule, status, site);
            closed::record_all(directive, &outcome, self.report);
        }
        if self.has_blocks {
            directive.not_carried(AFTER_BLOCKS, self.report);
        }
    }

    /// Users are in a file at Galley: until it is named, nobody gets in.
    fn password(&mut self, directive: &ParsedDirective, reach: Reach, site: &mut ImportedSite) {
        match reach {
            Reach::Paths(paths) => {
                for mut rule in rules(&paths, directive) {
                    rule.priority = RulePriority::Exact;
                    closed::close(directive, rule, "403", site);
                }
            }
            Reach::All | Reach::Unknown => site.section.deny_all(&directive.origin),
        }
        directive.not_carried("denied for all: write the users into a file with `htpasswd`, and set `basic_auth` in place of `deny`", self.report);
    }

    fn request_body(&mut self, directive: &ParsedDirective, site: &mut ImportedSite) {
        let size = match directive.inner() {
            [one] if one.name() == "max_size" => {
                units::size(one.argument(0)).map(|size| (one, size))
            }
            _ => None,
        };
        match size {
            Some((inner, size)) => {
                site.section.set("request_body", size, &inner.origin);
                directive.carried("request_body", self.report);
            }
            None => directive.not_carried("set `request_body`", self.report),
        }
    }

    fn import(&mut self, directive: &ParsedDirective, site: &mut ImportedSite) {
        let has_arguments = directive.arguments().len() > 1;
        match self.snippets.get(directive.argument(0)).copied() {
            Some(snippet)
                if self.level < MAX_SNIPPETS && self.imports_left > 0 && !has_arguments =>
            {
                self.imports_left -= 1;
                self.report
                    .not_needed(directive.id, "the snippet is converted here");
                self.level += 1;
                self.block(snippet.inner(), site);
                self.level -= 1;
            }
            _ => directive.not_carried(
                "the snippet or file is not here, or takes arguments: import it separately",
                self.report,
            ),
        }
    }

    fn lost(&mut self, block: &[ParsedDirective], remedy: &str) {
        for directive in block {
            directive.not_carried(remedy, self.report);
        }
    }
}

/// The paths of a matcher. `None`: it compares something else, too.
fn paths_of(directive: &ParsedDirective) -> Option<Vec<PathOption>> {
    let inner = directive.inner().iter().map(|one| one.words.as_slice());
    let own = std::iter::once(directive.arguments()).filter(|words| !words.is_empty());
    let lines: Vec<&[String]> = inner.chain(own).collect();
    let is_of = |line: &&[String], kind: &str| line.first().is_some_and(|first| first == kind);
    let is_path = |line: &&[String]| is_of(line, "path") && !line.concat().contains('{');
    match lines.as_slice() {
        [line] if is_of(line, "path_regexp") => {
            let pattern = known::pattern(line.last()?, false)?;
            Some(vec![("pattern", pattern)])
        }
        lines if !lines.is_empty() && lines.iter().all(is_path) => {
            let paths = lines.iter().flat_map(|line| line.iter().skip(1));
            Some(paths.map(|path| path_option(path)).collect())
        }
        _ => None,
    }
}

/// A rule for the paths of a redirect. `None`: there are several, or it depends on something else.
fn redirected(reach: Reach, directive: &ParsedDirective) -> Option<RuleDraft> {
    let (option, value) = match reach {
        Reach::All => ("path", "/*".to_owned()),
        Reach::Paths(paths) => match paths.as_slice() {
            [one] => one.clone(),
            _ => return None,
        },
        Reach::Unknown => return None,
    };
    // Caddy redirects before it refuses, and compares longer paths first.
    let (priority, length) = (RulePriority::Exact, usize::MAX / 2 + value.len());
    let rule = closed::rule_for(option, value, directive, priority);
    Some(RuleDraft { length, ..rule })
}

/// Whether a block does nothing but refuse requests.
fn refuses(block: &ParsedDirective) -> bool {
    let is_refusal = |one: &ParsedDirective| {
        matches!(one.name(), "respond" | "error" | "abort")
            && !one.argument(0).starts_with(['/', '@', '*'])
    };
    matches!(block.inner(), [one] if is_refusal(one))
}

const IN_BLOCK: &str = "Galley has no blocks for paths: write rules for the paths of the block";

const BLOCK: &str = "the directives in the block are converted one by one";

const ONE_RULE: &str = "in a rule of its own, and only the first rule for a path applies, where Caddy adds the fields of all: add the fields to the other rules \
     for these paths";

const NO_MATCHER: &str = "its matcher is not one of paths: write a rule for the paths";

const NO_STRIPPING: &str = "Galley forwards paths as they are: have the server behind it take the whole path, and write a rule with `upstream`";

const NO_COUNTERPART: &str = "Galley has no counterpart that the import knows: look for an option in docs/reference/options.md";

const AFTER_BLOCKS: &str =
    "closed, also where Caddy answers in a `handle` or `route` block before it refuses";

const DECIDES: &str = "it decides about access by something other than paths: close the paths with `deny`, or decide in PHP";

/// The status of a redirect; empty: it is none.
fn code(status: &str) -> &str {
    match status {
        "permanent" => "301",
        "temporary" => "302",
        "301" | "302" | "303" | "307" | "308" => status,
        _ => "",
    }
}

/// The maximum depth of nested snippets.
const MAX_SNIPPETS: usize = 8;

/// The maximum number of imports of a site.
pub(super) const MAX_IMPORTS: usize = 100;

/// The value of `upstream`. `None`: there is no server, or one is not known.
fn servers_of(words: &[String]) -> Option<Value> {
    let servers: Option<Vec<String>> = words.iter().map(|word| upstream(word)).collect();
    let servers = servers.filter(|servers| !servers.is_empty());
    servers.map(Value::List)
}
