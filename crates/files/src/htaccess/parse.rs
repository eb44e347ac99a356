//! Reads the text of a `.htaccess`.
//!
//! It reads line by line and accepts any bytes. Lines that are unknown or not about access are ignored. Sections nest on an
//! explicit stack. An unclosed section extends to the end of the file.

use super::access::{HtaccessSection, PublicAccess};
use super::pattern::{CaseSensitivity, HtaccessPattern};
use super::rewrite::{ConditionResult, Conditions, Rewrite};
use super::rules::Rules;
use crate::apache_lines::apache_lines;

/// Parses a whole file. One with far more patterns or deeper sections than real files have denies access to its directory.
pub(crate) fn parse(text: &[u8]) -> Rules {
    let text = String::from_utf8_lossy(text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text));
    let mut parser = Parser::default();
    for line in apache_lines(&text) {
        if let [name, arguments @ ..] = line.words.as_slice() {
            parser.line(name, arguments);
        }
    }
    parser.finish()
}

#[derive(Default)]
struct Parser {
    rules: Rules,
    frames: Vec<OpenSection>,
    /// The `Require` lines outside of containers, of the directory and of each section.
    base_requires: Vec<Option<PublicAccess>>,
    requires: Vec<Vec<Option<PublicAccess>>>,
    has_require: bool,
    is_rewriting: Option<bool>,
    conditions: Conditions,
    is_chained: bool,
    patterns: usize,
    exceeds_limit: bool,
}

/// An open section.
struct OpenSection {
    /// The name in lower case, to be compared with that of the end tag.
    name: String,
    kind: SectionKind,
}

enum SectionKind {
    /// The contents apply unconditionally: `<IfModule>`.
    Transparent,
    /// The contents do not concern `GET`.
    Ignored,
    /// An index into `Rules::sections`.
    Section(usize),
    /// `<RequireAll>` and similar sections, with their requirements; `None` if they neither grant nor deny.
    Require(Vec<Option<PublicAccess>>),
}

impl Parser {
    fn line(&mut self, name: &str, arguments: &[String]) {
        if let Some(name) = name.strip_prefix("</") {
            self.close(name);
        } else if let Some(name) = name.strip_prefix('<') {
            self.open(name.to_owned(), arguments);
        } else if !self.is_ignoring() {
            self.directive(name, arguments);
        }
    }

    fn open(&mut self, name: String, arguments: &[String]) {
        if self.frames.len() >= MAX_DEPTH {
            self.exceeds_limit = true;
            return;
        }
        let kind = match name.as_str() {
            _ if self.is_ignoring() => SectionKind::Ignored,
            "ifmodule" | "ifdefine" | "ifversion" | "ifdirective" | "iffile" | "ifsection" => {
                SectionKind::Transparent
            }
            "files" | "filesmatch" => self.open_files(&name, arguments),
            "requireall" | "requireany" | "requirenone" => SectionKind::Require(Vec::new()),
            "limit" if !names_get(arguments) => SectionKind::Ignored,
            "limitexcept" if names_get(arguments) => SectionKind::Ignored,
            "limit" | "limitexcept" => SectionKind::Transparent,
            // `<If>` and other sections that depend on a condition that is unknown here.
            _ => self.open_section(None, true),
        };
        self.frames.push(OpenSection { name, kind });
    }

    fn open_files(&mut self, name: &str, arguments: &[String]) -> SectionKind {
        let pattern = match arguments {
            [tilde, regex, ..] if tilde == "~" => self.regex(regex, CaseSensitivity::Exact),
            [regex, ..] if name == "filesmatch" => self.regex(regex, CaseSensitivity::Exact),
            [glob, ..] => {
                self.count_pattern();
                HtaccessPattern::glob(glob)
            }
            [] => None,
        };
        let is_uncertain = pattern.is_none();
        self.open_section(pattern, is_uncertain)
    }

    fn open_section(
        &mut self,
        pattern: Option<HtaccessPattern>,
        is_uncertain: bool,
    ) -> SectionKind {
        self.count_pattern();
        let around = self
            .section_index()
            .and_then(|index| self.rules.sections.get(index));
        let mut section = HtaccessSection {
            is_uncertain,
            ..HtaccessSection::default()
        };
        if let Some(around) = around {
            section.names.clone_from(&around.names);
            section.is_uncertain |= around.is_uncertain;
        }
        section.names.extend(pattern);
        self.rules.sections.push(section);
        self.requires.push(Vec::new());
        SectionKind::Section(self.rules.sections.len() - 1)
    }

    fn close(&mut self, name: &str) {
        if !self.frames.iter().any(|frame| frame.name == name) {
            return;
        }
        while let Some(frame) = self.frames.pop() {
            if let SectionKind::Require(inside) = frame.kind {
                let access = match frame.name.as_str() {
                    "requireall" => all(&inside),
                    "requireany" => any(&inside),
                    _ => none(&inside),
                };
                self.require(access);
            }
            if frame.name == name {
                return;
            }
        }
    }

    fn directive(&mut self, name: &str, arguments: &[String]) {
        match name {
            "require" => {
                self.has_require = true;
                self.require(access_of_require(arguments));
            }
            "order" | "allow" | "deny" => self.compat(name, arguments),
            "satisfy" => self.section().satisfy_any = Some(first_is(arguments, "any")),
            "authtype" => self.section().has_login = !first_is(arguments, "none"),
            "rewriteengine" => self.is_rewriting = Some(first_is(arguments, "on")),
            "rewritecond" => self.conditions.push(arguments),
            "rewriterule" => self.rewrite(arguments),
            "redirect" => {
                if let [status, path, ..] = arguments
                    && is_refusal(status)
                {
                    self.count_pattern();
                    self.rules.refused.extend(HtaccessPattern::below(path));
                }
            }
            "redirectmatch" => {
                if let [status, regex, ..] = arguments
                    && is_refusal(status)
                {
                    let pattern = self
                        .regex(regex, CaseSensitivity::Exact)
                        .or_else(|| HtaccessPattern::below("/"));
                    self.rules.refused.extend(pattern);
                }
            }
            _ => {}
        }
    }

    /// Reads `Order allow,deny`, `Allow from all`, `Deny from 10.0.0.1`.
    fn compat(&mut self, name: &str, arguments: &[String]) {
        let compat = self.section().compat.get_or_insert_default();
        if name == "order" {
            let order = arguments.concat().to_ascii_lowercase();
            compat.is_allow_deny = order != "deny,allow";
            return;
        }
        let clients = arguments
            .iter()
            .skip(usize::from(first_is(arguments, "from")));
        for word in clients {
            match (name, word.eq_ignore_ascii_case("all")) {
                ("allow", true) => compat.allow_all = true,
                ("allow", false) => compat.allow_some = true,
                (_, true) => compat.deny_all = true,
                (_, false) => {}
            }
        }
    }

    fn rewrite(&mut self, arguments: &[String]) {
        let mut condition = self.conditions.take();
        let depends_on_previous =
            std::mem::replace(&mut self.is_chained, Rewrite::is_chained(arguments));
        if depends_on_previous || self.is_chained || self.section_index().is_some() {
            condition = ConditionResult::Other;
        }
        self.count_pattern();
        if !self.exceeds_limit {
            self.rules
                .rewrites
                .extend(Rewrite::parse(arguments, condition));
        }
    }

    fn require(&mut self, access: Option<PublicAccess>) {
        for frame in self.frames.iter_mut().rev() {
            match &mut frame.kind {
                SectionKind::Require(inside) => return inside.push(access),
                SectionKind::Section(index) => {
                    if let Some(requires) = self.requires.get_mut(*index) {
                        requires.push(access);
                    }
                    return;
                }
                SectionKind::Transparent | SectionKind::Ignored => {}
            }
        }
        self.base_requires.push(access);
    }

    fn section_index(&self) -> Option<usize> {
        self.frames.iter().rev().find_map(|frame| match frame.kind {
            SectionKind::Section(index) => Some(index),
            SectionKind::Transparent | SectionKind::Ignored | SectionKind::Require(_) => None,
        })
    }

    fn section(&mut self) -> &mut HtaccessSection {
        let index = self.section_index();
        match index.and_then(|index| self.rules.sections.get_mut(index)) {
            Some(section) => section,
            None => &mut self.rules.base,
        }
    }

    fn is_ignoring(&self) -> bool {
        self.frames
            .iter()
            .any(|frame| matches!(frame.kind, SectionKind::Ignored))
    }

    fn regex(&mut self, text: &str, case: CaseSensitivity) -> Option<HtaccessPattern> {
        self.count_pattern();
        if self.exceeds_limit {
            return None;
        }
        HtaccessPattern::regex(text, case)
    }

    fn count_pattern(&mut self) {
        self.patterns += 1;
        self.exceeds_limit |= self.patterns > MAX_PATTERNS;
    }

    fn finish(mut self) -> Rules {
        if self.exceeds_limit {
            return Rules::closed();
        }
        while let Some(name) = self.frames.last().map(|frame| frame.name.clone()) {
            self.close(&name);
        }
        let mut rules = self.rules;
        let requires = std::iter::once(&self.base_requires).chain(&self.requires);
        let sections = std::iter::once(&mut rules.base).chain(&mut rules.sections);
        for (section, requires) in sections.zip(requires) {
            if !requires.is_empty() {
                // Only negations, or an empty container: Apache rejects the whole file.
                section.require = any(requires).or(Some(PublicAccess::Denied));
            } else if section.has_login && !self.has_require {
                // Access is defined elsewhere, in the server's configuration.
                section.require = Some(PublicAccess::Unchecked);
            }
        }
        if self.is_rewriting == Some(false) {
            rules.rewrites.clear();
        }
        rules
    }
}

/// The access that one `Require` line grants.
fn access_of_require(arguments: &[String]) -> Option<PublicAccess> {
    let lower: Vec<String> = arguments
        .iter()
        .map(|word| word.to_ascii_lowercase())
        .collect();
    let words: Vec<&str> = lower.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["all", "granted", ..] => Some(PublicAccess::Public),
        ["all", ..] | ["not", "all", "granted", ..] => Some(PublicAccess::Denied),
        // Denies some clients, and grants nothing.
        ["not", ..] => None,
        ["method", methods @ ..] if methods.contains(&"get") => Some(PublicAccess::Public),
        _ => Some(PublicAccess::Unchecked),
    }
}

fn all(inside: &[Option<PublicAccess>]) -> Option<PublicAccess> {
    inside.iter().flatten().min().copied()
}

fn any(inside: &[Option<PublicAccess>]) -> Option<PublicAccess> {
    inside.iter().flatten().max().copied()
}

/// `<RequireNone>`: denies clients that one of its lines would admit. They are unknown unless a line admits every client.
fn none(inside: &[Option<PublicAccess>]) -> Option<PublicAccess> {
    inside
        .contains(&Some(PublicAccess::Public))
        .then_some(PublicAccess::Denied)
}

fn names_get(methods: &[String]) -> bool {
    methods
        .iter()
        .any(|method| method.eq_ignore_ascii_case("GET"))
}

fn first_is(arguments: &[String], word: &str) -> bool {
    arguments
        .first()
        .is_some_and(|first| first.eq_ignore_ascii_case(word))
}

/// Whether the status of a `Redirect` denies access.
fn is_refusal(status: &str) -> bool {
    ["403", "404", "410", "gone"]
        .iter()
        .any(|refusal| status.eq_ignore_ascii_case(refusal))
}

/// The maximum depth of nested sections.
const MAX_DEPTH: usize = 16;

/// The maximum number of patterns in a file: the largest published rule sets have about a hundred.
const MAX_PATTERNS: usize = 512;
