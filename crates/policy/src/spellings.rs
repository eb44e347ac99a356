//! The URLs for which WordPress responds with the same page, compared with the rules that restrict access.
//!
//! WordPress ignores letter case, characters that no slug has, and doubled slashes; it accepts a path after `index.php`,
//! and reads the page's name or number from the query. A rule that restricts `/internal/*` must apply to all of these.
//! [`SpellingGuard`] contains a site's rules in a folded form, and `rules_of` lists the rules that apply to a request in addition to the
//! one that matches its path: each of them must allow the request. Too many rules may apply, but not too few: if a spelling
//! does not reveal the page (`?p=12`), every rule that may restrict a page applies.
//!
//! Rules that do not restrict access, or say `spellings = false`, are compared exactly ([`crate::request_info::RequestInfo::rule`]). Custom rewrite rules and
//! bases of archives are not known here (`docs/how-to/access.md` describes what to do about them).

mod folded_rule;
mod form;
mod slug;
mod variables;

pub use self::form::FormScanner;

use self::folded_rule::{BASES, FoldedRule, MatchKind, REST};
use self::variables::{VariableMeaning, meaning};
use crate::access::CountryCode;
use crate::query::{self, FormDecoded, MAX_PARAMETERS, split_pair};
use crate::site::{EqualSpellings, Rule};

/// The rules of a site in folded form. Empty if no rule has an access setting.
#[derive(Clone, Debug, Default)]
pub struct SpellingGuard {
    folded: Vec<FoldedRule>,
    /// Variables that must not select a page from the body of a `POST` request.
    form: Vec<&'static [u8]>,
    /// Whether a rule restricts access.
    closes: bool,
}

impl SpellingGuard {
    /// The guard of a site with these rules. `site_restricts`: whether the site itself restricts access, to which a rule
    /// may make an exception. Empty without the WordPress preset.
    pub fn of(spellings: EqualSpellings, rules: &[Rule], site_restricts: bool) -> Self {
        let has_spellings = |rule: &Rule| !rule.access.is_silent() && !rule.exact_access;
        let is_needed = rules.iter().any(has_spellings);
        let closes = rules.iter().any(|rule| rule.access.closes());
        if spellings == EqualSpellings::Exact || !is_needed {
            return Self {
                closes,
                ..Self::default()
            };
        }
        let folded: Vec<FoldedRule> = rules.iter().map(FoldedRule::of).collect();
        let mut guard = Self {
            folded,
            form: Vec::new(),
            closes,
        };
        let applies = |meaning| {
            site_restricts
                || match meaning {
                    VariableMeaning::AnyPage | VariableMeaning::Page => {
                        guard.any(FoldedRule::may_restrict_a_page)
                    }
                    VariableMeaning::Rest => guard.any(|rule| rule.may_restrict_below(REST, None)),
                    VariableMeaning::Below(base) => {
                        guard.any(|rule| rule.may_restrict_below(base, None))
                    }
                    VariableMeaning::Date => guard.any(FoldedRule::may_restrict_a_date),
                    VariableMeaning::Feed
                    | VariableMeaning::Type
                    | VariableMeaning::Taxonomy
                    | VariableMeaning::Nothing => false,
                }
        };
        let names = variables::ALL.iter();
        guard.form = names
            .filter(|(_, meaning)| applies(*meaning))
            .map(|(name, _)| *name)
            .collect();
        guard
    }

    /// Whether there are rules to compare.
    pub fn is_needed(&self) -> bool {
        !self.folded.is_empty()
    }

    /// Whether [`rules_of`] may find a rule.
    pub(crate) fn may_find(&self) -> bool {
        self.closes || self.is_needed()
    }

    /// Whether a rule restricts access to a path that may be a page of WordPress, so that other spellings of it matter.
    pub fn may_close_pages(&self) -> bool {
        self.any(FoldedRule::may_restrict_a_page)
    }

    /// Whether the body of a request for this path must not select a page. False for scripts of WordPress that do not read
    /// its query variables, and for the REST API.
    pub(crate) fn checks_form(&self, path: &[u8]) -> bool {
        !self.form.is_empty() && !is_own_script(path) && !is_rest(path)
    }

    /// A scanner for a body of this type.
    pub fn form(&self, content_type: &[u8]) -> FormScanner<'_> {
        FormScanner::new(&self.form, content_type)
    }

    fn any(&self, condition: impl Fn(&FoldedRule) -> bool) -> bool {
        self.folded.iter().any(condition)
    }
}

/// The parts of a request that are compared with rules.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestedPaths<'a> {
    pub(crate) method: &'a str,
    /// Whether a field or a parameter may override the method, which the REST API permits.
    pub(crate) overrides_method: bool,
    /// The decoded path, with `//` merged.
    pub(crate) path: &'a [u8],
    /// The query as sent.
    pub(crate) query: &'a [u8],
    /// The country of the client.
    pub(crate) country: Option<CountryCode>,
}

/// Reusable buffers.
#[derive(Debug, Default)]
pub(crate) struct SpellingBuffers {
    text: Vec<u8>,
    next: Vec<u8>,
    lower: Vec<u8>,
    slug: Vec<u8>,
    name: Vec<u8>,
}

/// Writes the rules that apply to a request in addition to the one that matches its path to `found`, which is cleared first,
/// without duplicates. A rule is an index, or `None` for the site's own setting if no rule matches a spelling.
pub(crate) fn rules_of(
    request: &RequestedPaths<'_>,
    guard: &SpellingGuard,
    rules: &[Rule],
    buffers: &mut SpellingBuffers,
    found: &mut Vec<Option<usize>>,
) {
    found.clear();
    if request.path.first() != Some(&b'/') {
        return;
    }
    let mut finder = RuleFinder {
        request: *request,
        guard,
        rules,
        buffers,
        found,
    };
    finder.script();
    if !guard.is_needed() {
        return;
    }
    finder.path();
    if !is_own_script(request.path) {
        finder.query();
    }
}

/// The effect of a spelling that no rule matches.
#[derive(Clone, Copy, PartialEq, Eq)]
enum UnmatchedEffect {
    /// The setting of the site applies.
    Site,
    /// None: the spelling may not be a URL of a page.
    Nothing,
}

struct RuleFinder<'w> {
    request: RequestedPaths<'w>,
    guard: &'w SpellingGuard,
    rules: &'w [Rule],
    buffers: &'w mut SpellingBuffers,
    found: &'w mut Vec<Option<usize>>,
}

impl RuleFinder<'_> {
    /// Finds the rule of the script that runs for a path which continues after its name (`PATH_INFO`), also if it covers no other spellings: a
    /// script is as closed as its own path.
    fn script(&mut self) {
        let Some(script) = script_of(self.request.path) else {
            return;
        };
        let method = self.request.method;
        let applies = |(index, rule): &(usize, &Rule)| {
            let method = rule.methods.first().map_or(method, String::as_str);
            rule.matches(method, script) && self.applies_to_request(*index)
        };
        let rule = self.rules.iter().enumerate().find(applies);
        if let Some((index, _)) = rule.filter(|(_, rule)| rule.access.closes()) {
            add(self.found, Some(index));
        }
    }

    fn path(&mut self) {
        let path = self.request.path;
        self.set(&[path]);
        self.spelling(UnmatchedEffect::Nothing);
        self.after_scripts(path);
        // WordPress decodes the path of a page again.
        for _ in 0..DECODINGS {
            if !self.decode() {
                break;
            }
            self.spelling(UnmatchedEffect::Site);
        }
    }

    /// Compares the paths after a script that passes the rest of the path to WordPress.
    fn after_scripts(&mut self, path: &[u8]) {
        let mut start = 0;
        for segment in path.split(|&b| b == b'/') {
            let end = start + segment.len();
            if FRONT_SCRIPTS
                .iter()
                .any(|name| segment.eq_ignore_ascii_case(name))
            {
                let tail = path.get(end..).unwrap_or_default();
                let before = path.get(..start).unwrap_or_default();
                for base in [&b""[..], before] {
                    self.set(&[base, tail]);
                    self.spelling(UnmatchedEffect::Site);
                    for _ in 0..DECODINGS {
                        if !self.decode() {
                            break;
                        }
                        self.spelling(UnmatchedEffect::Site);
                    }
                }
            }
            start = end + 1;
        }
    }

    fn query(&mut self) {
        let rest = is_rest(self.request.path);
        let parts = self.request.query.split(|&b| b == b'&');
        for (count, part) in parts.filter(|part| !part.is_empty()).enumerate() {
            if count >= MAX_PARAMETERS {
                return self.add_all(|rule| rule.restricts);
            }
            let (name, value) = split_pair(part);
            let mut variable = std::mem::take(&mut self.buffers.name);
            query::variable(name, &mut variable);
            if !value.is_empty() {
                self.parameter(&variable, value, rest);
            }
            if rest && variable == b"_embed" {
                self.add_below(REST);
            }
            self.buffers.name = variable;
        }
    }

    fn parameter(&mut self, variable: &[u8], value: &[u8], is_rest: bool) {
        let meaning = meaning(variable);
        if is_rest && meaning != Some(VariableMeaning::Rest) {
            return;
        }
        match meaning {
            Some(VariableMeaning::Nothing) => {}
            Some(VariableMeaning::AnyPage) => self.add_all(FoldedRule::may_restrict_a_page),
            Some(VariableMeaning::Page) => self.at_bases(b"/", value),
            Some(VariableMeaning::Rest) => self.at_bases(REST, value),
            Some(VariableMeaning::Below(base)) => self.add_below(base),
            Some(VariableMeaning::Date) => self.add_all(FoldedRule::may_restrict_a_date),
            Some(VariableMeaning::Feed) => {
                let path = self.request.path;
                self.set(&[path, b"/feed/"]);
                self.buffers.text.extend(FormDecoded(value));
                self.spelling(UnmatchedEffect::Nothing);
            }
            Some(VariableMeaning::Type) => {
                if FormDecoded(value).eq(*b"product") {
                    self.add_below(b"/shop/");
                }
                self.set(&[b"/"]);
                self.buffers.text.extend(FormDecoded(value));
                self.spelling(UnmatchedEffect::Nothing);
            }
            Some(VariableMeaning::Taxonomy) => {
                let base: Vec<u8> =
                    [b"/".to_vec(), FormDecoded(value).collect(), b"/".to_vec()].concat();
                self.add_below(&base);
            }
            None => {
                self.set(&[b"/", variable, b"/"]);
                self.buffers.text.extend(FormDecoded(value));
                self.spelling(UnmatchedEffect::Nothing);
            }
        }
    }

    /// Compares a page or route by its own path, in each directory that may contain WordPress.
    fn at_bases(&mut self, below: &[u8], value: &[u8]) {
        let path = self.request.path;
        let slashes = memchr::memchr_iter(b'/', path).take(BASES);
        for at in slashes {
            self.set(&[path.get(..at).unwrap_or_default(), below, b"/"]);
            self.buffers.text.extend(FormDecoded(value));
            self.spelling(UnmatchedEffect::Site);
            for _ in 0..DECODINGS {
                if !self.decode() {
                    break;
                }
                self.spelling(UnmatchedEffect::Site);
            }
        }
    }

    fn set(&mut self, parts: &[&[u8]]) {
        self.buffers.text.clear();
        for part in parts {
            self.buffers.text.extend_from_slice(part);
        }
    }

    /// Decodes the text once more. Returns whether that changed it.
    fn decode(&mut self) -> bool {
        let SpellingBuffers { text, next, .. } = &mut *self.buffers;
        if memchr::memchr2(b'%', b'+', text).is_none() {
            return false;
        }
        next.clear();
        next.extend(FormDecoded(text));
        std::mem::swap(text, next);
        text != next
    }

    /// Compares the text with the rules, and if it is a feed or a further page, also the page to which it belongs.
    fn spelling(&mut self, unmatched: UnmatchedEffect) {
        let SpellingBuffers {
            text, lower, slug, ..
        } = &mut *self.buffers;
        if memchr::memchr(b'<', text).is_some() {
            // WordPress removes tags from a slug.
            self.add_all(FoldedRule::may_restrict_a_page);
            return;
        }
        slug::lower(text, lower);
        slug::slug(text, slug);
        if slug::route(lower).is_some_and(|route| route.starts_with(b"batch/")) {
            self.add_below(REST);
        }
        if self.compare(Some(unmatched)) {
            return;
        }
        while slug::strip(&mut self.buffers.lower) {
            let SpellingBuffers { lower, slug, .. } = &mut *self.buffers;
            slug::slug(lower, slug);
            if self.compare(None) {
                return;
            }
        }
    }

    /// Compares folded text with the rules. `unmatched: None` means the page of a requested feed: there only a rule that restricts
    /// access counts. Returns whether a matching rule has an access setting.
    fn compare(&mut self, unmatched: Option<UnmatchedEffect>) -> bool {
        let SpellingBuffers { lower, slug, .. } = &*self.buffers;
        let mut has_access_setting = false;
        for (index, rule) in self.guard.folded.iter().enumerate() {
            if rule.is_exact || !self.applies_to_request(index) {
                continue;
            }
            match rule.match_kind(lower, slug) {
                Some(MatchKind::Same) => {
                    if unmatched.is_some() || rule.restricts {
                        add(self.found, Some(index));
                    }
                    return rule.decides_access;
                }
                Some(MatchKind::Slug) if rule.restricts => {
                    add(self.found, Some(index));
                    has_access_setting = true;
                }
                Some(MatchKind::Slug) | None => {}
            }
        }
        if unmatched == Some(UnmatchedEffect::Site) {
            add(self.found, None);
        }
        has_access_setting
    }

    /// Adds the rules that may restrict a path below `base`, in each directory that may contain WordPress.
    fn add_below(&mut self, base: &[u8]) {
        let mut path = std::mem::take(&mut self.buffers.next);
        slug::lower(self.request.path, &mut path);
        let folders = || memchr::memchr_iter(b'/', &path).take(BASES);
        self.add_all(|rule| folders().any(|at| rule.may_restrict_below(base, path.get(..at))));
        self.buffers.next = path;
    }

    fn add_all(&mut self, condition: impl Fn(&FoldedRule) -> bool) {
        for (index, rule) in self.guard.folded.iter().enumerate() {
            if condition(rule) && self.applies_to_request(index) {
                add(self.found, Some(index));
            }
        }
        add(self.found, None);
    }

    /// Whether a rule applies to the method and the country of the request.
    fn applies_to_request(&self, index: usize) -> bool {
        let method = self.request.method;
        let is_read = method == "HEAD";
        self.rules.get(index).is_some_and(|rule| {
            // A rule for its own paths only is for its own methods only.
            let is_method = self.request.overrides_method && !rule.exact_access
                || rule.methods.is_empty()
                || rule
                    .methods
                    .iter()
                    .any(|one| one == method || (is_read && one == "GET"));
            is_method && rule.is_for(self.request.country)
        })
    }
}

/// The path of the first script in a path that continues after it.
fn script_of(path: &[u8]) -> Option<&[u8]> {
    let is_end = |at: &usize| {
        let before = path.get(..*at).unwrap_or_default();
        let name = before.len().checked_sub(4).and_then(|at| before.get(at..));
        name.is_some_and(|end| end.eq_ignore_ascii_case(b".php"))
    };
    let end = memchr::memchr_iter(b'/', path).find(is_end)?;
    path.get(..end)
}

fn add(found: &mut Vec<Option<usize>>, rule: Option<usize>) {
    if !found.contains(&rule) {
        found.push(rule);
    }
}

/// Whether a path is that of a script that every WordPress has in its root folder, and that does not read query variables.
pub(crate) fn is_own_script(path: &[u8]) -> bool {
    let path = path.strip_prefix(b"/").unwrap_or(path);
    match path.strip_prefix(b"wp-admin/") {
        Some(name) => variables::ADMIN_SCRIPTS.binary_search(&name).is_ok(),
        None => variables::SCRIPTS.contains(&path),
    }
}

/// Whether a path belongs to the REST API, which has separate parameters.
pub(crate) fn is_rest(path: &[u8]) -> bool {
    path.strip_prefix(b"/index.php")
        .unwrap_or(path)
        .starts_with(b"/wp-json/")
}

/// How often WordPress may decode a path that was decoded once: the path of a page once more. One more for safety.
const DECODINGS: usize = 2;

/// Scripts of WordPress that interpret the path after them as the requested one.
const FRONT_SCRIPTS: [&[u8]; 5] = [
    b"index.php",
    b"wp-blog-header.php",
    b"wp-trackback.php",
    b"wp-signup.php",
    b"wp-activate.php",
];

#[cfg(test)]
mod tests;
