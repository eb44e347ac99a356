//! A virtual host in the parts that Apache merges for a request: the host itself, folders and their `.htaccess`, names of files, then
//! locations. The comparison and the conversion read the same parts.

use crate::words::WordList;
use regex::Regex;

use crate::closed;
use crate::directive::Directive;
use crate::draft::{RuleDraft, RulePriority};
use crate::known::{self, NO_LOOK_AROUND, Patterns};
use crate::names::APACHE;

use super::access::is_access;
use super::rewrite::has_engine;

/// The order in which Apache merges parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PartKind {
    Host,
    Folder,
    Htaccess,
    Files,
    Location,
}

/// The paths of a part.
#[derive(Clone, Debug)]
pub(super) enum PartPaths {
    All,
    /// A path, and everything below: without a slash at its end.
    Below(String),
    /// Everything that begins so, with a slash at its end.
    Prefix(String),
    /// The last name of a path; and the pattern of a rule for it.
    Name(Regex, String),
    Pattern(Regex),
}

/// Directives with the same paths.
pub(super) struct Part<'d> {
    pub kind: PartKind,
    pub paths: PartPaths,
    /// `None`: the host, or a `.htaccess`.
    pub section: Option<&'d Directive>,
    /// The directives, without those around them that only ask for a module.
    pub block: Vec<&'d Directive>,
    /// The length of the path of a folder that contains the whole site: the longer path is merged later.
    depth: usize,
}

/// A virtual host, a server without any, or the `.htaccess` of a site.
pub(super) struct ApacheHost<'d> {
    pub root: Option<String>,
    /// In the order in which they are merged.
    pub parts: Vec<Part<'d>>,
    pub patterns: Patterns,
    /// Whether HTTP servers get the host of the visitor.
    pub preserves_host: bool,
}

impl<'d> ApacheHost<'d> {
    pub fn new(own: &[&'d Directive], root: Option<String>) -> Self {
        let named = own.iter().rev().find(|one| one.name() == "documentroot");
        let document_root = named.map(|one| one.argument(0).trim_end_matches('/').to_owned());
        Self {
            root: root
                .or(document_root)
                .filter(|root| !root.contains(['$', '%'])),
            parts: Vec::new(),
            patterns: Patterns::default(),
            preserves_host: false,
        }
    }

    /// Adds directives, and the sections among them.
    pub fn add(&mut self, kind: PartKind, all: &[&'d Directive]) {
        self.add_part(kind, 0, all);
    }

    /// `depth`: the length of the folder's path in a section.
    fn add_part(&mut self, kind: PartKind, depth: usize, all: &[&'d Directive]) {
        let mut directives = Vec::new();
        let of_htaccess = all.iter().filter(|_| kind == PartKind::Htaccess);
        for one in of_htaccess.filter(|one| module_is_there(one) == Some(false)) {
            for inner in one.inner().iter().filter(|inner| is_access(inner)) {
                inner.not_carried(ANY_MODULE);
            }
        }
        for one in flatten(all.iter().copied()) {
            if one.name().starts_with('<') && !is_access(one) {
                self.add_section(one);
            } else {
                directives.push(one);
            }
        }
        self.parts.push(Part {
            kind,
            paths: PartPaths::All,
            section: None,
            block: directives,
            depth,
        });
        // Of two folders the longer path is merged later, and a `.htaccess` after its folder.
        self.parts.sort_by_key(|part| match &part.paths {
            PartPaths::Below(path) if part.kind == PartKind::Folder => {
                (PartKind::Htaccess, path.len())
            }
            _ => (part.kind, part.depth),
        });
    }

    fn add_section(&mut self, section: &'d Directive) {
        let kind = match section.name() {
            "<files" | "<filesmatch" => PartKind::Files,
            "<location" | "<locationmatch" => PartKind::Location,
            "<directory" => PartKind::Folder,
            _ => return unknown(section, CONDITION),
        };
        match self.paths_of(section) {
            Ok(PartPaths::All) => {
                let why = "the section is the site's root: its directives are those of the site";
                section.entry.not_needed(why);
                let inner: Vec<_> = section.inner().iter().collect();
                let depth = section.argument(0).trim_end_matches('/').len();
                self.add_part(kind, depth, &inner);
            }
            Ok(paths) => {
                let block = flatten(section.inner().iter());
                let (sections, block): (Vec<_>, _) = block
                    .into_iter()
                    .partition(|one| one.name().starts_with('<') && !is_access(one));
                for inner in sections {
                    unknown(inner, CONDITION);
                }
                self.parts.push(Part {
                    kind,
                    paths,
                    section: Some(section),
                    block,
                    depth: 0,
                });
            }
            Err(remedy) => unknown(section, remedy),
        }
    }

    /// The paths of a section, or why no rule has them.
    fn paths_of(&self, section: &Directive) -> Result<PartPaths, &'static str> {
        let (is_pattern, path) = match section.arguments() {
            [tilde, path, ..] if tilde == "~" => (true, path.as_str()),
            [path, ..] => (section.name().ends_with("match"), path.as_str()),
            [] => (false, ""),
        };
        let name = section.name();
        if name.starts_with("<files") {
            return file_names(is_pattern, path).ok_or(NO_LOOK_AROUND);
        }
        let is_folder = name == "<directory";
        if is_pattern && !is_folder {
            let pattern = known::pattern(path, false).and_then(|text| Regex::new(&text).ok());
            return pattern.map(PartPaths::Pattern).ok_or(NO_LOOK_AROUND);
        }
        let bare = path.trim_end_matches('/');
        let root = self.root.as_deref().unwrap_or_default();
        let below = match bare.strip_prefix(root) {
            Some(below) if is_folder && !root.is_empty() => below,
            _ if is_folder && (root == bare || root.starts_with(&format!("{bare}/"))) => "",
            _ if is_folder => return Err(OTHER_FOLDER),
            _ => bare,
        };
        if below.is_empty() {
            return Ok(PartPaths::All);
        }
        if is_pattern || !below.starts_with('/') || below.contains(['*', '?', '[']) {
            return Err("write a rule with `path` or `pattern`");
        }
        Ok(if is_folder || !path.ends_with('/') {
            PartPaths::Below(below.to_owned())
        } else {
            PartPaths::Prefix(format!("{below}/"))
        })
    }

    /// The parts that apply to a path. `is_file`: whether the path is one of files, and not passed to another server.
    pub fn matching(&self, path: &str, is_file: bool) -> impl Iterator<Item = &Part<'d>> {
        let parts = self.parts.iter();
        parts.filter(move |part| {
            let is_of_files = !matches!(part.kind, PartKind::Host | PartKind::Location);
            (is_file || !is_of_files) && part.paths.matches(path)
        })
    }

    /// The directives of the host itself: those that apply before a file is looked for.
    pub fn own(&self) -> &[&'d Directive] {
        let mut hosts = self.parts.iter().filter(|part| part.kind == PartKind::Host);
        hosts.next().map_or(&[], |part| &part.block)
    }

    /// The rewrite rules of the root: those of the last folder that has any replace all others.
    pub fn rewriting(&self) -> &[&'d Directive] {
        let mut whole_host = self.parts.iter().rev().filter(|part| {
            matches!(part.paths, PartPaths::All)
                && matches!(part.kind, PartKind::Folder | PartKind::Htaccess)
        });
        whole_host
            .find(|part| has_engine(&part.block))
            .map_or(&[], |part| &part.block)
    }
}

impl Part<'_> {
    /// Whether the part is the root of the site, or its `.htaccess`.
    pub fn is_of_root(&self) -> bool {
        matches!(self.kind, PartKind::Folder | PartKind::Htaccess)
            && matches!(self.paths, PartPaths::All)
    }
}

impl PartPaths {
    pub fn matches(&self, path: &str) -> bool {
        match self {
            Self::All => true,
            Self::Below(own) => path
                .strip_prefix(own.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/')),
            Self::Prefix(own) => path.starts_with(own.as_str()),
            Self::Name(regex, _) => regex.is_match(path.rsplit('/').next().unwrap_or_default()),
            Self::Pattern(regex) => regex.is_match(path),
        }
    }

    /// A rule for these paths without other options.
    pub fn rule(&self, section: &Directive, kind: PartKind, order: usize) -> RuleDraft {
        let (option, value) = match self {
            Self::All => ("path", "/*".to_owned()),
            Self::Below(path) => ("pattern", format!("^{}(/.*)?$", known::glob(path))),
            Self::Prefix(path) => ("path", format!("{path}*")),
            Self::Name(_, pattern) => ("pattern", pattern.clone()),
            Self::Pattern(regex) => match closed::plain_prefix(regex.as_str()) {
                Some(prefix) => ("path", format!("{prefix}*")),
                None => ("pattern", regex.as_str().to_owned()),
            },
        };
        // What Apache merges last comes first: one rule applies to a request.
        let priority = match kind {
            PartKind::Location => RulePriority::FirstPrefix,
            PartKind::Files => RulePriority::Pattern,
            PartKind::Host | PartKind::Folder | PartKind::Htaccess => RulePriority::Prefix,
        };
        RuleDraft {
            length: order,
            ..closed::rule_for(option, value, section, priority)
        }
    }
}

/// Directives without the sections that only ask for a module or a version.
pub(super) fn flatten<'d>(all: impl Iterator<Item = &'d Directive>) -> Vec<&'d Directive> {
    let mut flat = Vec::new();
    for one in all {
        match (one.name(), module_is_there(one)) {
            ("<ifmodule" | "<ifversion", Some(true)) => {
                let why = "the module is there: its directives are converted one by one";
                one.entry.not_needed(why);
                flat.extend(flatten(one.inner().iter()));
            }
            ("<ifmodule" | "<ifversion", Some(false)) => {
                one.not_needed("it is for a server without this module, or an older one");
            }
            _ => flat.push(one),
        }
    }
    flat
}

/// Whether a section for modules or versions applies to a current Apache. `None`: it is not known.
pub(super) fn module_is_there(directive: &Directive) -> Option<bool> {
    let condition = directive.arguments().join(" ");
    if !matches!(directive.name(), "<ifmodule" | "<ifversion") {
        return None;
    }
    if directive.name() == "<ifversion" {
        let (operator, version) = condition.split_once(' ')?;
        let is_old = ["2.0", "2.1", "2.2", "2.3"].iter().any(|old| {
            let rest = version.strip_prefix(old);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        });
        // Every Apache that is supported has at least 2.4.1, and nobody knows which.
        let is_first = matches!(version, "2.4" | "2.4.0");
        return match operator {
            ">=" if is_old || is_first => Some(true),
            ">" if is_old => Some(true),
            "<" if is_old || is_first => Some(false),
            "<=" if is_old => Some(false),
            _ => None,
        };
    }
    // `authz_core` of `mod_authz_core.c` or `authz_core_module`.
    let name = condition.trim_start_matches('!');
    let name = name.strip_prefix("mod_").unwrap_or(name);
    let name = name.trim_end_matches(".c").trim_end_matches("_module");
    if condition.starts_with('!') {
        STANDARD_MODULES.contains(name).then_some(false)
    } else {
        Some(true)
    }
}

/// Modules that every Apache 2.4 for WordPress has.
const STANDARD_MODULES: WordList = WordList("authz_core authz_host dir mime rewrite log_config");

/// Reports a section whose condition the import does not evaluate, or whose paths no rule has.
pub(super) fn unknown(section: &Directive, remedy: &str) {
    section.entry.not_carried(remedy);
    for inner in section.inner() {
        if is_access(inner) {
            inner.undecided(remedy);
        } else {
            unknown(inner, remedy);
            APACHE.record(inner);
        }
    }
}

/// The names of `<Files>` and `<FilesMatch>`.
fn file_names(is_pattern: bool, text: &str) -> Option<PartPaths> {
    if !is_pattern {
        let name = known::glob(text).replace(".*", "[^/]*");
        let regex = Regex::new(&format!("^{name}$")).ok()?;
        return (!text.contains(['?', '['])).then(|| PartPaths::Name(regex, format!("/{name}$")));
    }
    let text = known::pattern(text, false)?;
    let regex = Regex::new(&text).ok()?;
    let flag = if text.starts_with("(?i)") { "(?i)" } else { "" };
    let inner = within_name(text.strip_prefix("(?i)").unwrap_or(&text))?;
    let (start, inner) = match inner.strip_prefix('^') {
        Some(inner) => ("/", inner),
        None => ("", inner.as_str()),
    };
    let (inner, end) = match inner.strip_suffix('$') {
        Some(inner) => (inner, "$"),
        None => (inner, "[^/]*$"),
    };
    let has_choice = known::alternatives(&format!("{inner}x")).len() > 1;
    if has_choice && (!start.is_empty() || end == "$")
        || inner.replace("[^", "").contains(['^', '$'])
    {
        return None;
    }
    let inner = if has_choice {
        format!("(?:{inner})")
    } else {
        inner.to_owned()
    };
    Some(PartPaths::Name(regex, format!("{flag}{start}{inner}{end}")))
}

/// A pattern of names that matches no slash. `None` if it has classes that contain one.
fn within_name(text: &str) -> Option<String> {
    let mut whole = String::new();
    let (mut is_escaped, mut is_class) = (false, false);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            'W' | 'D' | 'S' if is_escaped => return None,
            '/' => return None,
            '.' if !is_escaped && !is_class => whole.push_str("[^/]"),
            '[' if !is_escaped && !is_class => {
                is_class = true;
                whole.push('[');
                if chars.next_if_eq(&'^').is_some() {
                    whole.push_str("^/");
                }
            }
            c => {
                is_class &= c != ']' || is_escaped;
                whole.push(c);
            }
        }
        is_escaped = c == '\\' && !is_escaped;
    }
    Some(whole)
}

/// Records the result for a directive and those in it by their names alone.
pub(super) fn record_outcome(directive: &Directive) {
    let words = directive
        .arguments()
        .iter()
        .map(|word| word.to_ascii_lowercase());
    let mut words = words.filter(|word| !word.starts_with('-'));
    let is_harmless = |word: String| HARMLESS_OPTIONS.contains(&word.trim_start_matches('+'));
    if directive.name() == "options" && words.all(is_harmless) {
        let why = "Galley lists no folders, and follows links as `link_targets` says";
        directive.entry.not_needed(why);
    } else if directive.name() == "sslprotocol" && known::is_tls_13_only(directive.arguments()) {
        APACHE.record_as("sslprotocol tlsv1.3", directive);
    } else {
        APACHE.record(directive);
    }
    directive.inner().iter().for_each(record_outcome);
}

const HARMLESS_OPTIONS: &[&str] = &["followsymlinks", "symlinksifownermatch", "none"];

const CONDITION: &str = "its condition is one that the import does not evaluate: write a rule for the paths, or decide in PHP";

const ANY_MODULE: &str =
    "Galley applies the access control in a `.htaccess` whatever modules it asks for: remove this";

const OTHER_FOLDER: &str =
    "the folder is not below `root`: link it into the site, or make it a site of its own";
