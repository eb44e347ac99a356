//! What nginx answers to a request, by the statements of a server. The import compares this with the answer of the draft.
//!
//! It follows the phases of nginx: the statements of the server that rewrite, the choice of a location, the statements of that, access
//! control, and the statement that passes the request on. It never guesses: an answer that depends on files, programs or variables
//! that are unknown here is `None`.

use crate::closed;
use crate::comparison::{AnsweringServer, ServerAnswer, WantedFields};
use crate::directive::Directive;
use crate::draft::Value;
use crate::evidence::{self, SampleRequest};
use crate::expectation::Answer;
use crate::known::{self, Patterns};
use crate::nginx::condition::comparison;
use crate::nginx::context::Context;
use crate::nginx::fields::{name_of, wanted};
use crate::nginx::location_paths::LocationPaths;
use crate::nginx::variables::Variables;
use crate::requests::flat;
use crate::units;

/// A server, with the statements of `http` that it inherits.
pub(super) struct NginxServer<'c, 'd> {
    context: &'c Context<'c>,
    inherited: Vec<&'d Directive>,
    own: Vec<&'d Directive>,
    patterns: Patterns,
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

impl<'c, 'd> NginxServer<'c, 'd> {
    pub fn new(
        own: Vec<&'d Directive>,
        inherited: &[&'d Directive],
        context: &'c Context<'c>,
    ) -> Self {
        Self {
            context,
            inherited: inherited.to_vec(),
            own,
            patterns: Patterns::default(),
        }
    }

    /// Every statement of the server, at any depth.
    pub fn all(&self) -> Vec<&'d Directive> {
        flat(self.inherited.iter().chain(&self.own).copied())
    }

    /// The answer of statements that rewrite. `None`: unknown.
    fn finished(
        &self,
        rewritten: Rewritten,
        sample: &SampleRequest<'_>,
        mut answer: ServerAnswer<'d>,
    ) -> Option<ServerAnswer<'d>> {
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
        block: &[&'d Directive],
        variables: &mut Variables<'_>,
        by: &mut Vec<&'d Directive>,
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
                    // As if it were false: the report says that it is not carried, and the other statements are compared.
                    None if one.entry.is_lost() => continue,
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
    fn rewritten(&self, directive: &Directive, variables: &mut Variables<'_>) -> Rewritten {
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
    fn holds(&self, directive: &Directive, variables: &mut Variables<'_>) -> Option<bool> {
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
            let is_match = self.matches(&compared.pattern, ignores_case, &value, variables)?;
            Some(is_match != negated)
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
            let wider = known::without_look_around(pattern);
            let is_possible = self.patterns.of(&wider, ignores_case)?.is_match(text);
            return (!is_possible).then_some(false);
        };
        let captures = compiled.captures(text);
        if let Some(groups) = &captures {
            variables.capture(
                groups
                    .iter()
                    .skip(1)
                    .map(|group| group.map_or("", |one| one.as_str())),
            );
        }
        Some(captures.is_some())
    }

    /// Finds the location of a path: exact, the longest prefix with the locations in it, and the first pattern.
    fn find(
        &self,
        block: &[&'d Directive],
        chain: &mut Vec<&'d Directive>,
        variables: &mut Variables<'_>,
    ) -> Found {
        let path = variables.path();
        let outside = chain.len();
        let locations: Vec<_> = named(block, |name| name == "location")
            .map(|one| (one, LocationPaths::of(one)))
            .collect();
        let exact = |paths: &LocationPaths, text: &str| matches!(paths, LocationPaths::Exact(own) if own == text);
        if let Some((one, _)) = locations.iter().find(|(_, paths)| exact(paths, path)) {
            chain.push(one);
            return Found::Final;
        }
        let with_slash = format!("{path}/");
        let needs_slash = locations.iter().find(|(one, paths)| {
            !paths.is_pattern()
                && paths.text() == with_slash
                && (one.has("proxy_pass") || one.has("fastcgi_pass"))
        });
        if let Some((one, _)) = needs_slash {
            chain.push(one);
            return Found::NeedsSlash;
        }
        let prefixes = locations.iter().filter(|(_, paths)| {
            matches!(paths, LocationPaths::Prefix(own) | LocationPaths::FirstPrefix(own) if path.starts_with(own.as_str()))
        });
        let longest = prefixes.max_by_key(|(_, paths)| paths.text().len());
        if let Some((one, _)) = longest {
            chain.push(one);
            let inner: Vec<_> = one.inner().iter().collect();
            let outcome = self.find(&inner, chain, variables);
            if matches!(outcome, Found::Final | Found::NeedsSlash | Found::Unknown) {
                return outcome;
            }
        }
        if !matches!(longest, Some((_, LocationPaths::FirstPrefix(_)))) {
            for (one, paths) in &locations {
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
                let outcome = self.find(&inner, chain, variables);
                let is_known = matches!(outcome, Found::Final | Found::Prefix | Found::None);
                return if is_known { Found::Final } else { outcome };
            }
        }
        if longest.is_some() {
            Found::Prefix
        } else {
            Found::None
        }
    }

    /// The statements that add fields to responses.
    fn fields(&self, chain: &[&'d Directive]) -> WantedFields<'d> {
        let names = ["add_header", "more_set_headers", "expires"].iter();
        let directives: Vec<_> = names
            .flat_map(|name| self.effective(chain, |one| one == *name))
            .collect();
        wanted(&directives)
    }

    /// How long nginx stores a response of a location that states no lifetime: the first statement for its status.
    fn lifetime(
        &self,
        chain: &[&'d Directive],
        status: &'static str,
    ) -> Option<(&'static str, String, &'d Directive)> {
        let level = self.effective(chain, |name| name.ends_with("_cache_valid"));
        let has = |one: &&&Directive| {
            let (_, statuses) = one.arguments().split_last().unwrap_or((&EMPTY, &[]));
            statuses.is_empty() && status == "200"
                || statuses.iter().any(|own| own == status || own == "any")
        };
        let one = level.iter().find(has)?;
        Some((status, units::duration(one.arguments().last()?)?, one))
    }

    /// The statements of these names at the innermost level that has any: nginx inherits all of them, or none.
    fn effective(
        &self,
        chain: &[&'d Directive],
        is_meant: impl Fn(&str) -> bool + Copy,
    ) -> Vec<&'d Directive> {
        let locations = chain
            .iter()
            .rev()
            .map(|one| one.inner().iter().collect::<Vec<_>>());
        let levels = locations.chain([self.own.clone(), self.inherited.clone()]);
        let mut of_levels = levels.map(|level| named(&level, is_meant).collect::<Vec<_>>());
        of_levels
            .find(|level| !level.is_empty())
            .unwrap_or_default()
    }

    /// Access control, as if other programs let everybody in: the report says that Galley does not ask them.
    fn access(
        &self,
        chain: &[&'d Directive],
        sample: &SampleRequest<'_>,
        answer: &mut ServerAnswer<'d>,
    ) {
        let first = |is_meant: fn(&str) -> bool| self.effective(chain, is_meant).first().copied();
        let is_either = first(|name| name == "satisfy").is_some_and(|one| one.argument(0) == "any");
        let internal = chain
            .iter()
            .find(|one| one.has("internal") && sample.inner.is_none());
        let lists = self.effective(chain, |name| matches!(name, "allow" | "deny"));
        let decides = |one: &&&Directive| evidence::is_in_network(one.argument(0), sample.client);
        let decided = lists.iter().find(decides);
        let list = decided.filter(|one| one.name() == "deny");
        let is_let_in = is_either && decided.is_some() && list.is_none();
        let password =
            first(|name| name == "auth_basic").filter(|one| one.argument(0) != "off" && !is_let_in);
        let closed = internal.or(list).copied().or(password);
        if let Some(one) = closed {
            answer.answer = Answer::Closed;
            answer.by.push(one);
        }
    }
}

impl<'d> AnsweringServer<'d> for NginxServer<'_, 'd> {
    const DECIDING: &'static [&'static str] = &[
        "location", "allow", "deny", "auth_", "if", "return", "rewrite", "internal",
    ];
    const HAS_FIELDS_EVERYWHERE: bool = true;

    fn answer(&self, sample: &SampleRequest<'_>) -> Option<ServerAnswer<'d>> {
        let mut variables = Variables::of(sample);
        let mut answer = ServerAnswer::new();
        answer.is_of_host = true;
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
        answer.place = chain.last().copied();
        answer.is_of_host = chain.is_empty();
        answer.by.extend(answer.place);
        answer.fields = self.fields(&chain);
        let block = answer.place.map_or(&[][..], Directive::inner);
        let innermost: Vec<_> = block.iter().collect();
        match self.rewrite(&innermost, &mut variables, &mut answer.by) {
            Rewritten::Nothing => {}
            other => return self.finished(other, sample, answer),
        }
        self.access(&chain, sample, &mut answer);
        let is_pass = |one: &&&Directive| matches!(one.name(), "proxy_pass" | "fastcgi_pass");
        answer.pass = innermost.iter().find(is_pass).copied();
        let limits = self.effective(&chain, |name| name == "limit_req");
        let is_dry = |one: &&Directive| one.argument(0) == "on";
        let is_dry = self
            .effective(&chain, |name| name == "limit_req_dry_run")
            .iter()
            .any(is_dry);
        answer.limit = limits.first().copied().filter(|_| !is_dry);
        answer.falls_back = innermost.iter().any(|one| {
            let last = one.arguments().last();
            let last = last.and_then(|last| last.split('?').next());
            one.name() == "try_files" && last == Some("/index.php")
        });
        let times = ["200", "404"].into_iter();
        answer.lifetimes = times
            .filter_map(|status| self.lifetime(&chain, status))
            .collect();
        Some(answer)
    }

    fn refusal_status(by: &Directive) -> Option<String> {
        match by.name() {
            "return" => Some(by.argument(0).to_owned()),
            "deny" => Some("403".to_owned()),
            _ => None,
        }
    }

    fn field_of(one: &Directive) -> Option<String> {
        name_of(one)
    }

    fn upstream_of(&self, pass: &Directive) -> Option<(&'static str, Value)> {
        let target = pass.argument(0);
        if pass.name() == "fastcgi_pass" {
            return Some(("php", self.context.fastcgi_servers(target)?));
        }
        let servers = self.context.http_servers(target);
        Some(("upstream", Value::List(servers)))
    }

    fn path_of<'a>(&self, answer: &'a ServerAnswer<'_>) -> Option<&'a str> {
        match answer.place?.arguments() {
            [path] => Some(path.trim_start_matches('=')),
            [modifier, path] if !modifier.starts_with('~') => Some(path),
            _ => None,
        }
    }
}

const EMPTY: String = String::new();

fn named<'d>(
    block: &[&'d Directive],
    is_meant: impl Fn(&str) -> bool,
) -> impl Iterator<Item = &'d Directive> {
    block
        .iter()
        .copied()
        .filter(move |one| is_meant(one.name()))
}

/// `return STATUS TARGET`.
fn returned(directive: &Directive, variables: &Variables<'_>) -> Rewritten {
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
