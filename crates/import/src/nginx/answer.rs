//! What nginx answers to a request, by the statements of a server. The import compares this with the answer of the draft.
//!
//! It follows the phases of nginx: the statements of the server that rewrite, the choice of a location, the statements of that, access
//! control, and the statement that passes the request on. It never guesses: an answer that depends on files, programs or variables
//! that are unknown here is `None`.

use crate::closed;
use crate::directive::ParsedDirective;
use crate::evidence::{self, SampleRequest};
use crate::expectation::Answer;
use crate::known::{self, Patterns};
use crate::nginx::condition::comparison;
use crate::nginx::location_paths::LocationPaths;
use crate::nginx::variables::Variables;
use crate::units;

/// A server, with the statements of `http` that it inherits.
pub(super) struct NginxServer<'d> {
    inherited: Vec<&'d ParsedDirective>,
    own: Vec<&'d ParsedDirective>,
    patterns: Patterns,
}

/// An answer, and the statements from which it follows.
pub(super) struct NginxAnswer<'d> {
    pub answer: Answer,
    /// The statements that decided, and the location.
    pub by: Vec<&'d ParsedDirective>,
    /// The locations around the request, the innermost last.
    pub chain: Vec<&'d ParsedDirective>,
    /// `proxy_pass` or `fastcgi_pass`. `None`: nginx sends files.
    pub pass: Option<&'d ParsedDirective>,
    /// The statements that add fields to the response.
    pub fields: Vec<&'d ParsedDirective>,
    pub limit: Option<&'d ParsedDirective>,
    /// Whether a request for no file gets the page of `/index.php`.
    pub falls_back: bool,
}

/// The result of the statements that rewrite.
enum Rewritten {
    Nothing,
    Answered(Answer),
    /// The request is one for `/index.php`.
    Front,
    Unknown,
}

/// The result of the search for a location, as in nginx's source.
#[derive(PartialEq, Eq)]
enum Found {
    Final,
    Prefix,
    None,
    /// The path is that of a passing location without the final slash.
    NeedsSlash,
    Unknown,
}

impl<'d> NginxServer<'d> {
    pub fn new(own: Vec<&'d ParsedDirective>, inherited: &[&'d ParsedDirective]) -> Self {
        Self {
            inherited: inherited.to_vec(),
            own,
            patterns: Patterns::default(),
        }
    }

    pub fn own(&self) -> &[&'d ParsedDirective] {
        &self.own
    }

    pub fn inherited(&self) -> &[&'d ParsedDirective] {
        &self.inherited
    }

    /// The answer to a `GET` without cookies. `None`: unknown.
    pub fn answer(&self, sample: &SampleRequest<'_>) -> Option<NginxAnswer<'d>> {
        let mut variables = Variables::of(sample);
        let mut answer = NginxAnswer {
            answer: Answer::Open,
            by: Vec::new(),
            chain: Vec::new(),
            pass: None,
            fields: Vec::new(),
            limit: None,
            falls_back: false,
        };
        answer.fields = self.fields(&[]);
        match self.rewrite(&self.own, &mut variables, &mut answer.by) {
            Rewritten::Nothing => {}
            other => return self.finished(other, sample, answer),
        }
        let mut chain = Vec::new();
        match self.find(&self.own, &mut chain, &mut variables) {
            Found::Unknown => return None,
            Found::NeedsSlash => {
                answer.fields = self.fields(&chain);
                answer.by = chain;
                let query = sample.target.get(sample.path().len()..)?;
                let target = format!("{}/{query}", sample.path());
                answer.answer = Answer::Redirected(301, target);
                return Some(answer);
            }
            Found::Final | Found::Prefix | Found::None => {}
        }
        answer.by.extend(chain.last().copied());
        answer.chain.clone_from(&chain);
        answer.fields = self.fields(&chain);
        let innermost: Vec<_> = chain
            .last()
            .map_or_else(Vec::new, |one| one.inner().iter().collect());
        match self.rewrite(&innermost, &mut variables, &mut answer.by) {
            Rewritten::Nothing => {}
            other => return self.finished(other, sample, answer),
        }
        self.access(&chain, sample, &mut answer)?;
        answer.pass = named(&innermost, |name| {
            matches!(name, "proxy_pass" | "fastcgi_pass")
        })
        .next();
        answer.limit = self
            .effective(&chain, |name| name == "limit_req")
            .first()
            .copied();
        answer.falls_back = named(&innermost, |name| name == "try_files").any(|one| {
            one.arguments()
                .last()
                .is_some_and(|last| last.split('?').next() == Some("/index.php"))
        });
        Some(answer)
    }

    /// The answer of statements that rewrite. `None`: unknown.
    fn finished(
        &self,
        rewritten: Rewritten,
        sample: &SampleRequest<'_>,
        mut answer: NginxAnswer<'d>,
    ) -> Option<NginxAnswer<'d>> {
        match rewritten {
            Rewritten::Nothing | Rewritten::Unknown => None,
            Rewritten::Answered(found) => {
                answer.answer = found;
                Some(answer)
            }
            Rewritten::Front => {
                let mut front = self
                    .answer(&sample.front())
                    .filter(|_| sample.inner.is_none())?;
                front.by.extend(answer.by);
                Some(front)
            }
        }
    }

    fn rewrite(
        &self,
        block: &[&'d ParsedDirective],
        variables: &mut Variables<'_>,
        by: &mut Vec<&'d ParsedDirective>,
    ) -> Rewritten {
        for one in block {
            let result = match one.name() {
                "break" => return Rewritten::Nothing,
                "set" => {
                    variables.set(one.argument(0), one.argument(1));
                    continue;
                }
                "return" => returned(one, variables),
                "rewrite" => self.rewritten(one, variables),
                "if" => match self.holds(one, variables) {
                    Some(false) => continue,
                    Some(true) => {
                        let inner: Vec<_> = one.inner().iter().collect();
                        match self.rewrite(&inner, variables, by) {
                            Rewritten::Nothing
                                if inner
                                    .iter()
                                    .all(|one| matches!(one.name(), "set" | "break")) =>
                            {
                                continue;
                            }
                            Rewritten::Nothing => Rewritten::Unknown,
                            other => other,
                        }
                    }
                    None if one.inner().iter().all(|inner| inner.name() == "set") => {
                        one.inner()
                            .iter()
                            .for_each(|inner| variables.forget(inner.argument(0)));
                        continue;
                    }
                    None => Rewritten::Unknown,
                },
                _ => continue,
            };
            if !matches!(result, Rewritten::Nothing) {
                by.push(one);
                return result;
            }
        }
        Rewritten::Nothing
    }

    /// `rewrite PATTERN TARGET FLAG`: only redirects are known.
    fn rewritten(&self, directive: &ParsedDirective, variables: &mut Variables<'_>) -> Rewritten {
        let target = directive.argument(1);
        if directive.argument(0) == "/wp-admin$" {
            // For the folders of a network, which Galley redirects if they exist.
            return Rewritten::Unknown;
        }
        match self.matches(directive.argument(0), false, variables.path(), variables) {
            None => return Rewritten::Unknown,
            Some(false) => return Rewritten::Nothing,
            Some(true) => {}
        }
        let flag = directive.argument(2);
        let status = match flag {
            "permanent" => 301,
            "redirect" => 302,
            _ if ["http://", "https://", "$scheme"]
                .iter()
                .any(|start| target.starts_with(start)) =>
            {
                302
            }
            "" | "last" if target.split('?').next() == Some("/index.php") => {
                return Rewritten::Front;
            }
            _ => return Rewritten::Unknown,
        };
        let Some(mut location) = variables.expand(target) else {
            return Rewritten::Unknown;
        };
        if location.ends_with('?') {
            location.pop();
        } else if !variables.query().is_empty() {
            location.push(if location.contains('?') { '&' } else { '?' });
            location.push_str(variables.query());
        }
        Rewritten::Answered(Answer::Redirected(status, location))
    }

    /// Whether an `if` is true.
    fn holds(&self, directive: &ParsedDirective, variables: &mut Variables<'_>) -> Option<bool> {
        let compared = comparison(directive);
        if let ("-f" | "-e" | "!-f" | "!-e", "$request_filename") =
            (compared.variable.as_str(), compared.operator.as_str())
        {
            return Some(variables.is_missing() == compared.variable.starts_with('!'));
        }
        let value = compared
            .variable
            .starts_with('$')
            .then(|| variables.expand(&compared.variable))??;
        let is_match = |negated: bool, ignores_case: bool, variables: &mut Variables<'_>| {
            let found = self.matches(&compared.pattern, ignores_case, &value, variables)?;
            Some(found != negated)
        };
        match compared.operator.as_str() {
            "" => Some(!value.is_empty() && value != "0"),
            "=" => Some(value == compared.pattern),
            "!=" => Some(value != compared.pattern),
            "~" => is_match(false, false, variables),
            "~*" => is_match(false, true, variables),
            "!~" => is_match(true, false, variables),
            "!~*" => is_match(true, true, variables),
            _ => None,
        }
    }

    /// Whether a PCRE matches a text, whose groups become variables. `None`: it has look-around.
    fn matches(
        &self,
        pattern: &str,
        ignores_case: bool,
        text: &str,
        variables: &mut Variables<'_>,
    ) -> Option<bool> {
        if closed::is_hidden_only(pattern) {
            return Some(text.match_indices("/.").any(|(at, _)| {
                !text
                    .get(at..)
                    .is_some_and(|rest| rest.starts_with("/.well-known"))
            }));
        }
        let Some(compiled) = self.patterns.of(pattern, ignores_case) else {
            // Without its look-around a pattern matches more.
            let wider = known::pattern(&known::without_look_around(pattern), ignores_case)?;
            let is_possible = self.patterns.of(&wider, false)?.is_match(text);
            return (!is_possible).then_some(false);
        };
        let found = compiled.captures(text);
        if let Some(groups) = &found {
            variables.capture(
                groups
                    .iter()
                    .skip(1)
                    .map(|group| group.map_or("", |one| one.as_str())),
            );
        }
        Some(found.is_some())
    }

    /// Finds the location of a path: exact, the longest prefix with the locations in it, and the first pattern.
    fn find(
        &self,
        block: &[&'d ParsedDirective],
        chain: &mut Vec<&'d ParsedDirective>,
        variables: &mut Variables<'_>,
    ) -> Found {
        let path = variables.path();
        let outside = chain.len();
        let all: Vec<_> = named(block, |name| name == "location")
            .map(|one| (one, LocationPaths::of(one)))
            .collect();
        let exact = |paths: &LocationPaths, text: &str| matches!(paths, LocationPaths::Exact(own) if own == text);
        if let Some((one, _)) = all.iter().find(|(_, paths)| exact(paths, path)) {
            chain.push(one);
            return Found::Final;
        }
        let with_slash = format!("{path}/");
        let needs_slash = all.iter().find(|(one, paths)| {
            !paths.is_pattern()
                && paths.text() == with_slash
                && (one.has("proxy_pass") || one.has("fastcgi_pass"))
        });
        if let Some((one, _)) = needs_slash {
            chain.push(one);
            return Found::NeedsSlash;
        }
        let prefixes = all.iter().filter(|(_, paths)| {
            matches!(paths, LocationPaths::Prefix(own) | LocationPaths::FirstPrefix(own) if path.starts_with(own.as_str()))
        });
        let longest = prefixes.max_by_key(|(_, paths)| paths.text().len());
        if let Some((one, _)) = longest {
            chain.push(one);
            let inner: Vec<_> = one.inner().iter().collect();
            let found = self.find(&inner, chain, variables);
            if matches!(found, Found::Final | Found::NeedsSlash | Found::Unknown) {
                return found;
            }
        }
        if !matches!(longest, Some((_, LocationPaths::FirstPrefix(_)))) {
            for (one, paths) in &all {
                let LocationPaths::Pattern { text, ignores_case } = paths else {
                    continue;
                };
                match self.matches(text, *ignores_case, path, variables) {
                    Some(false) => continue,
                    None => return Found::Unknown,
                    Some(true) => {}
                }
                chain.truncate(outside);
                chain.push(one);
                let inner: Vec<_> = one.inner().iter().collect();
                let found = self.find(&inner, chain, variables);
                let is_known = matches!(found, Found::Final | Found::Prefix | Found::None);
                return if is_known { Found::Final } else { found };
            }
        }
        if longest.is_some() {
            Found::Prefix
        } else {
            Found::None
        }
    }

    /// The statements that add fields to responses.
    fn fields(&self, chain: &[&'d ParsedDirective]) -> Vec<&'d ParsedDirective> {
        let names = ["add_header", "more_set_headers", "expires"].iter();
        names
            .flat_map(|name| self.effective(chain, |one| one == *name))
            .collect()
    }

    /// How long nginx stores a response of a location that states no lifetime: the first statement for its status.
    pub fn lifetime(
        &self,
        chain: &[&'d ParsedDirective],
        status: &str,
    ) -> Option<(String, &'d ParsedDirective)> {
        let level = self.effective(chain, |name| name.ends_with("_cache_valid"));
        let has = |one: &&&ParsedDirective| {
            let (_, statuses) = one.arguments().split_last().unwrap_or((&EMPTY, &[]));
            statuses.is_empty() && status == "200"
                || statuses.iter().any(|own| own == status || own == "any")
        };
        let one = level.iter().find(has)?;
        Some((units::duration(one.arguments().last()?)?, one))
    }

    /// The statements of these names at the innermost level that has any: nginx inherits all of them, or none.
    fn effective(
        &self,
        chain: &[&'d ParsedDirective],
        is_meant: impl Fn(&str) -> bool + Copy,
    ) -> Vec<&'d ParsedDirective> {
        let locations = chain
            .iter()
            .rev()
            .map(|one| one.inner().iter().collect::<Vec<_>>());
        let levels = locations.chain([self.own.clone(), self.inherited.clone()]);
        let mut found = levels.map(|level| named(&level, is_meant).collect::<Vec<_>>());
        found.find(|level| !level.is_empty()).unwrap_or_default()
    }

    /// Access control. `None`: unknown.
    fn access(
        &self,
        chain: &[&'d ParsedDirective],
        sample: &SampleRequest<'_>,
        answer: &mut NginxAnswer<'d>,
    ) -> Option<()> {
        let first = |is_meant: fn(&str) -> bool| self.effective(chain, is_meant).first().copied();
        if first(|name| matches!(name, "satisfy" | "auth_request" | "auth_jwt")).is_some() {
            return None;
        }
        let internal = chain
            .iter()
            .find(|one| one.has("internal") && sample.inner.is_none());
        let lists = self.effective(chain, |name| matches!(name, "allow" | "deny"));
        let decides =
            |one: &&&ParsedDirective| evidence::is_in_network(one.argument(0), sample.client);
        let list = lists
            .iter()
            .find(decides)
            .filter(|one| one.name() == "deny");
        let password = first(|name| name == "auth_basic").filter(|one| one.argument(0) != "off");
        let closed = internal.or(list).copied().or(password);
        if let Some(one) = closed {
            answer.answer = Answer::Closed;
            answer.by.push(one);
        }
        Some(())
    }
}

const EMPTY: String = String::new();

fn named<'d>(
    block: &[&'d ParsedDirective],
    is_meant: impl Fn(&str) -> bool,
) -> impl Iterator<Item = &'d ParsedDirective> {
    block
        .iter()
        .copied()
        .filter(move |one| is_meant(one.name()))
}

/// `return STATUS TARGET`.
fn returned(directive: &ParsedDirective, variables: &Variables<'_>) -> Rewritten {
    let (status, target) = match directive.arguments() {
        [url] if url.contains("://") => (302, url.as_str()),
        [status] => (status.parse().unwrap_or(0), ""),
        [status, target, ..] => (status.parse().unwrap_or(0), target.as_str()),
        [] => (0, ""),
    };
    match status {
        400..=599 => Rewritten::Answered(Answer::Closed),
        301 | 302 | 303 | 307 | 308 => match variables.expand(target) {
            Some(location) => Rewritten::Answered(Answer::Redirected(status, location)),
            None => Rewritten::Unknown,
        },
        _ => Rewritten::Unknown,
    }
}
