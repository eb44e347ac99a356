//! Caddy: converts what a Caddyfile states about whole sites (addresses, roots, upstreams, certificates), upstreams of paths, and
//! refusals of paths. All other directives are a list to go through.

mod address;

use std::collections::HashMap;
use std::path::Path;

use crate::closed;
use crate::directive::Directive;
use crate::draft::{Draft, ImportedSite, RuleDraft, RulePriority, Section, Value};
use crate::known;
use crate::names::CADDY;
use crate::report::Report;
use crate::requests::flat;
use crate::source::Source;
use crate::tree::{self, Grammar};
use crate::units;
use crate::write::certificate_pair;
pub(crate) use address::SiteAddress;

/// Converts a Caddyfile. A file without braces is one site, whose addresses are its first line.
pub(crate) fn convert(source: &dyn Source, main: &Path, report: &mut Report) -> Draft {
    let blocks = tree::read(source, main, Grammar::Caddy, report);
    let mut draft = Draft::default();
    for (index, one) in blocks.iter().enumerate() {
        if one.name().starts_with('(') {
            let why = "the snippet is converted where it is imported";
            one.entry.not_needed(why);
        } else if one.name() == "{" {
            one.entry.not_needed(BLOCK);
            one.inner().iter().for_each(|one| global(one, &mut draft));
        } else if is_site(one) && is_left_out(one, &blocks) {
            one.not_carried(OTHER_SITE);
        } else if one.block.is_some() {
            add(one, one.inner(), &blocks, &mut draft);
        } else if index == 0 {
            let rest = blocks.get(1..).unwrap_or_default();
            add(one, rest, &blocks, &mut draft);
            break;
        }
    }
    draft.set_listeners();
    draft
}

/// Converts a global option.
fn global(one: &Directive, draft: &mut Draft) {
    match one.name() {
        "email" => of_acme(one, "email", draft),
        "acme_ca" => of_acme(one, "directory", draft),
        _ if CADDY.is_not_needed(one) => one.not_needed("it is about the process of Caddy"),
        _ => one.not_carried(NO_COUNTERPART),
    }
}

fn of_acme(one: &Directive, option: &str, draft: &mut Draft) {
    draft.acme.set(option, one.argument(0), &one.origin);
    one.carried(&format!("acme.{option}"));
}

fn is_site(one: &Directive) -> bool {
    one.block.is_some() && one.name() != "{" && !one.name().starts_with('(')
}

/// Whether another site has a host of this one: the first one with TLS, or otherwise the first one.
fn is_left_out(one: &Directive, all: &[Directive]) -> bool {
    let hosts: Vec<String> = one.words.iter().map(|word| host_of(word).1).collect();
    let is_plain = |site: &Directive| site.words.iter().any(|word| host_of(word).0.is_plain());
    let sites = all.iter().filter(|other| is_site(other));
    let same = sites.filter(|other| {
        let mut others = other.words.iter().map(|word| host_of(word).1);
        others.any(|host| hosts.contains(&host))
    });
    let first = same.min_by_key(|site| is_plain(site));
    first.is_some_and(|first| !std::ptr::eq(first, one))
}

const OTHER_SITE: &str = "another site has this host at another port, and Galley has one site for a host: nothing of this one is served. Give it a host of its own";

/// The address of a word of a site, and the host in `hosts`.
fn host_of(word: &str) -> (SiteAddress<'_>, String) {
    let word = word.trim_end_matches(',');
    let address = SiteAddress::of(word);
    let is_unknown = word.contains(['{', '$']) || !matches!(address.path, "" | "/");
    let host = match address.host {
        // The name is not known, so the site has one that no request has.
        _ if is_unknown => UNKNOWN_HOST,
        "" => "*",
        host => host,
    };
    (address, host.to_ascii_lowercase())
}

const UNKNOWN_HOST: &str = "host.invalid";

fn add(head: &Directive, block: &[Directive], file: &[Directive], draft: &mut Draft) {
    let mut converted = CaddySite {
        file,
        site: ImportedSite::default(),
        matchers: HashMap::new(),
        answers_before: false,
        rewrites: false,
        moves_paths: false,
        imports_left: MAX_IMPORTS,
    };
    let ImportedSite {
        section, listeners, ..
    } = &mut converted.site;
    let (mut is_plain, mut is_lost) = (false, false);
    for word in &head.words {
        let (address, host) = host_of(word);
        if host == UNKNOWN_HOST {
            is_lost = true;
        } else {
            is_plain |= address.is_plain();
            listen(&address, head, &mut draft.server);
            listen(&address, head, listeners);
        }
        section.add("hosts", [host], &head.origin);
    }
    if is_lost {
        let remedy = "set `hosts`: the address depends on the environment, or has a path";
        head.entry.not_carried(remedy);
    } else {
        head.entry.carried("hosts");
    }
    if !is_plain && !is_lost {
        section.set("tls", "auto", &head.origin);
    }
    converted.block(block, 0);
    converted.site.sort_rules();
    draft.sites.push(converted.site);
}

/// Adds the listeners of an address. Caddy obtains the certificate of a site with TLS, and redirects visitors from port 80.
fn listen(address: &SiteAddress<'_>, head: &Directive, server: &mut Section) {
    let origin = address.port.is_some().then_some(&head.origin);
    let place = |default: u16| [format!("0.0.0.0:{}", address.port.unwrap_or(default))];
    if address.is_plain() {
        return server.add("listen", place(80), origin);
    }
    server.add("listen", ["0.0.0.0:80".to_owned()], None);
    server.add("listen_tls", place(443), origin);
}

/// `path` or `pattern`, and its value.
type PathOption = (&'static str, String);

/// The requests that a directive applies to.
#[derive(Clone)]
enum Reach {
    All,
    Paths(Vec<PathOption>),
    Unknown,
}

/// A site, and the state of its conversion.
struct CaddySite<'a> {
    /// All directives of the file: among them the snippets.
    file: &'a [Directive],
    site: ImportedSite,
    /// The options for the paths of named matchers.
    matchers: HashMap<&'a str, Vec<PathOption>>,
    /// Whether directives answer some requests before others refuse them.
    answers_before: bool,
    /// Whether directives change paths.
    rewrites: bool,
    /// Whether they change them for other requests than those of no file.
    moves_paths: bool,
    /// The remaining number of imports: a snippet that imports itself twice would never end.
    imports_left: usize,
}

impl<'a> CaddySite<'a> {
    fn block(&mut self, block: &'a [Directive], level: usize) {
        let answers = |one: &Directive| match one.name() {
            "handle" | "route" => !refuses(one),
            "handle_path" => true,
            "redir" => one.argument(0).starts_with(['/', '@']),
            _ => false,
        };
        self.answers_before |= block.iter().any(answers);
        let rewrites = |one: &Directive| match one.name() {
            "uri" | "method" | "try_files" => true,
            "rewrite" => one.arguments().last().is_none_or(|to| to != "/index.php"),
            _ => false,
        };
        self.rewrites |= block.iter().any(rewrites);
        let moves = |one: &Directive| matches!(one.name(), "uri" | "rewrite") && rewrites(one);
        self.moves_paths |= block.iter().any(moves);
        // A matcher may be defined after its use.
        for one in block.iter().filter(|one| one.name().starts_with('@')) {
            match paths_of(one) {
                Some(paths) => {
                    self.matchers.insert(one.name(), paths);
                    one.carried("the paths of rules");
                }
                None => one.not_carried(NO_MATCHER),
            }
        }
        // The root decides which denials are not needed.
        let others = block.iter().filter(|one| !one.name().starts_with('@'));
        let (roots, others): (Vec<_>, Vec<_>) = others.partition(|one| one.name() == "root");
        for one in roots.into_iter().chain(others) {
            self.directive(one, level);
        }
    }

    fn directive(&mut self, one: &'a Directive, level: usize) {
        let (reach, words) = self.reach(one);
        let is_all = matches!(reach, Reach::All);
        let section = &mut self.site.section;
        match (one.name(), words.as_slice()) {
            ("respond" | "error" | "abort", words) => self.refuse(one, reach, status(one, words)),
            ("rewrite", ["/index.php"]) if !is_all => {
                self.refuse(one, reach, "404");
                one.not_carried(OF_WORDPRESS);
            }
            ("basicauth" | "basic_auth", _) => self.password(one, reach),
            ("handle" | "route", _) if is_all => {
                one.entry.not_needed(BLOCK);
                self.block(one.inner(), level + 1);
            }
            ("handle" | "route", _) if refuses(one) => {
                one.entry.carried("rules for its paths");
                for inner in one.inner() {
                    let words: Vec<_> = inner.arguments().iter().map(String::as_str).collect();
                    self.refuse(inner, reach.clone(), status(inner, &words));
                }
            }
            ("handle" | "route" | "handle_path", _) => {
                one.not_carried(IN_BLOCK);
                for inner in flat(one.inner()) {
                    CADDY.record(inner);
                }
            }
            ("reverse_proxy", servers) => self.proxy(one, reach, servers),
            ("redir", [target, status @ ..]) if is_all => self.redirect(one, target, status),
            ("root", [root]) if is_all && root.starts_with('/') && !root.contains(['{', '$']) => {
                one.sets("root", *root, section);
            }
            ("php_fastcgi", [server]) if is_all && fastcgi(server).is_some() => {
                with_options(one, "php", fastcgi(server).unwrap_or_default(), section);
            }
            // FrankenPHP contains PHP: Galley runs a PHP-FPM in its place.
            ("php_server" | "php", _) if is_all => with_options(one, "php", "managed", section),
            ("tls", _) if one.has("client_auth") => one.undecided(DECIDES),
            ("tls", [cert, key]) => with_options(one, "tls", certificate_pair(cert, key), section),
            ("tls", words) if words.concat().is_empty() || words.concat().contains('@') => {
                with_options(one, "tls", "auto", section);
            }
            ("import", [name]) => self.import(one, name, level),
            ("encode", _) if is_all => {
                one.not_needed("Galley compresses pages when it stores them");
            }
            ("file_server", []) if is_all && one.inner().is_empty() => {
                one.not_needed("Galley sends the files below `root`");
            }
            _ => {
                for inner in flat([one]) {
                    CADDY.record(inner);
                    CADDY.record_as(&one.words.join(" "), inner);
                }
                one.not_carried(NO_COUNTERPART);
            }
        }
    }

    /// The requests that a directive applies to, and its other words.
    fn reach(&self, one: &'a Directive) -> (Reach, Vec<&'a str>) {
        let words: Vec<&str> = one.arguments().iter().map(String::as_str).collect();
        let takes_path = words.len() > 1 || !one.inner().is_empty();
        let takes_path = takes_path && !matches!(one.name(), "rewrite" | "root" | "tls");
        let (reach, taken) = match words.first() {
            Some(&("*" | "/*")) => (Reach::All, 1),
            Some(first) if first.starts_with('@') => match self.matchers.get(first) {
                Some(paths) => (Reach::Paths(paths.clone()), 1),
                None => (Reach::Unknown, 1),
            },
            Some(first) if first.starts_with('/') && takes_path => {
                (Reach::Paths(vec![path_option(first)]), 1)
            }
            _ => (Reach::All, 0),
        };
        (reach, words.get(taken..).unwrap_or_default().to_vec())
    }

    fn proxy(&mut self, one: &Directive, reach: Reach, words: &[&str]) {
        let servers: Option<Vec<_>> = words.iter().map(|word| address::upstream(word)).collect();
        let Some(servers) = servers.filter(|servers| !servers.is_empty()) else {
            return one.not_carried("set `upstream`");
        };
        if self.rewrites {
            one.not_carried(REWRITTEN);
        }
        let servers = Value::List(servers);
        match reach {
            Reach::All => with_options(one, "upstream", servers, &mut self.site.section),
            Reach::Paths(paths) => {
                for mut rule in rules(&paths, one, RulePriority::Pattern) {
                    with_options(one, "upstream", servers.clone(), &mut rule.section);
                    self.site.add_rule(rule);
                }
            }
            Reach::Unknown => one.not_carried(NO_MATCHER),
        }
    }

    /// Converts `redir https://example.com{uri}`, which redirects every request.
    fn redirect(&mut self, one: &Directive, target: &str, status: &[&str]) {
        let status = match status {
            [] | ["temporary"] => "302",
            ["permanent"] => "301",
            [status @ ("301" | "302" | "303" | "307" | "308")] => status,
            _ => "",
        };
        let bare = target.strip_suffix("{uri}").unwrap_or_default();
        if bare.is_empty() || bare.contains('{') || status.is_empty() {
            return CADDY.record(one);
        }
        let mut rule = closed::rule_for("path", "/*".to_owned(), one, RulePriority::Exact);
        let target = format!("{bare}/$1");
        rule.section.redirects(target, status, true, &one.origin);
        rule.length = usize::MAX;
        self.site.add_rule(rule);
        self.site.never_asks_upstream(&one.origin);
        one.entry.carried("redirect");
    }

    /// Closes the paths of a directive. `status`: that of Caddy.
    fn refuse(&mut self, one: &Directive, reach: Reach, status: &str) {
        if !known::is_error_status(status) {
            return one.not_carried("send the response from PHP, or from a file");
        }
        let Reach::Paths(paths) = reach else {
            return one.undecided(DECIDES);
        };
        // Caddy decides about refusals before it proxies.
        for rule in rules(&paths, one, RulePriority::Exact) {
            one.record(&closed::close(one, rule, status, &mut self.site));
        }
        if self.answers_before {
            one.not_carried(AFTER_BLOCKS);
        }
        if self.moves_paths {
            one.undecided(AFTER_REWRITE);
        }
    }

    /// Users are in a file at Galley: until it is named, nobody gets in.
    fn password(&mut self, one: &Directive, reach: Reach) {
        if let Reach::Paths(paths) = reach {
            for rule in rules(&paths, one, RulePriority::Exact) {
                closed::close(one, rule, "403", &mut self.site);
            }
        } else {
            self.site.section.deny_all(&one.origin);
        }
        one.not_carried("denied for all: write the users into a file with `htpasswd`, and set `basic_auth` in place of `deny`");
    }

    fn import(&mut self, one: &Directive, name: &str, level: usize) {
        let is_meant = |other: &&Directive| other.name() == format!("({name})");
        let snippet = self.file.iter().find(is_meant);
        let Some(snippet) = snippet.filter(|_| level < MAX_SNIPPETS && self.imports_left > 0)
        else {
            return CADDY.record(one);
        };
        self.imports_left -= 1;
        one.entry.not_needed("the snippet is converted here");
        self.block(snippet.inner(), level + 1);
    }
}

/// Sets an option to the value of a directive, whose block has further options.
fn with_options(one: &Directive, option: &str, value: impl Into<Value>, section: &mut Section) {
    one.not_carried_inside(&format!("set the options of `{option}`"));
    one.sets(option, value, section);
}

/// A value of `php`.
fn fastcgi(server: &str) -> Option<String> {
    units::fastcgi(&server.replacen("unix//", "unix:/", 1))
}

/// A rule without other options for each path.
fn rules(paths: &[PathOption], one: &Directive, priority: RulePriority) -> Vec<RuleDraft> {
    let rule = |(option, value): &PathOption| RuleDraft {
        length: value.len(),
        ..closed::rule_for(option, value.clone(), one, priority)
    };
    paths.iter().map(rule).collect()
}

/// The option for a path of a matcher, with `*` anywhere. Caddy compares paths without regard to case.
fn path_option(path: &str) -> PathOption {
    match path.strip_prefix('*') {
        Some(end) => ("pattern", format!("(?i){}$", known::glob(end))),
        None => ("pattern", format!("(?i)^{}$", known::glob(path))),
    }
}

/// The paths of `@name path /a/* /b` or `@name { path ... }`. `None`: it compares something else, too.
fn paths_of(one: &Directive) -> Option<Vec<PathOption>> {
    let inner = one.inner().iter().map(|one| one.words.as_slice());
    let line = std::iter::once(one.arguments()).filter(|words| !words.is_empty());
    let lines: Vec<&[String]> = inner.chain(line).collect();
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

/// Whether a block does nothing but refuse requests.
fn refuses(block: &Directive) -> bool {
    let is_refusal = |one: &Directive| {
        matches!(one.name(), "respond" | "error" | "abort")
            && !one.argument(0).starts_with(['/', '@', '*'])
    };
    matches!(block.inner(), [one] if is_refusal(one))
}

/// The status of `respond`, `error` or `abort` with these words.
fn status<'w>(one: &Directive, words: &[&'w str]) -> &'w str {
    let status = words.iter().find(|word| word.parse::<u16>().is_ok());
    match (one.name(), status) {
        ("abort", _) => "444",
        ("error", None) => "500",
        (_, status) => status.copied().unwrap_or("200"),
    }
}

const IN_BLOCK: &str = "Galley has no blocks for paths, and forwards paths as they are: write rules for the paths of the block";

const BLOCK: &str = "the directives in the block are converted one by one";

const REWRITTEN: &str = "a directive before it changes paths, and Galley forwards them as they are: compare which ones the server gets";

const AFTER_REWRITE: &str = "a rule closes the paths as visitors send them, and Caddy compares what a directive before it makes of them: close the paths of \
     visitors";

const NO_MATCHER: &str = "Galley's rules match paths: write a rule with `path` or `pattern`";

const NO_COUNTERPART: &str =
    "the import does not convert it: look for an option in docs/reference/options.md";

const OF_WORDPRESS: &str =
    "closed with 404 and Galley's own page, where Caddy asks WordPress for its page";

const AFTER_BLOCKS: &str = "closed, also where Caddy redirects, or answers in a `handle` or `route` block, before it refuses";

const DECIDES: &str = "it decides about access by something other than paths: close the paths with `deny`, or decide in PHP";

/// The maximum depth of nested snippets and blocks.
const MAX_SNIPPETS: usize = 8;

/// The maximum number of imports of a site.
const MAX_IMPORTS: usize = 100;
