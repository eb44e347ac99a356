//! Parses a request head in one pass.

use super::accept::{self, AcceptLines};
use super::cacheability::{self, CacheabilityFindings};
use super::info::{FieldFindings, RequestInfo, RequestLineInfo, VaryCookie};
use super::kinds::{Cacheability, Device, Method};
use crate::classes::is_name;
use crate::cookie::{self, Class};
use crate::dictionary;
use crate::images::OriginalFormat;
use crate::outcome::PassWhy;
use crate::proxied::Port;
use crate::query::{self, QueryCacheability};
use crate::route;
use crate::site::{Policy, RequestDirectives};
use crate::span::Span;
use crate::spellings::{self, RequestedPaths};
use crate::uri::{self, BadTarget};
use crate::wordpress;

impl RequestInfo {
    /// Parses a head; former results are cleared. Repeated fields are parsed as lists if they are lists, otherwise the first
    /// one counts.
    ///
    /// After an error the result is empty, and bypasses the cache.
    pub fn parse<'a>(
        &mut self,
        line: &RequestLineInfo<'_>,
        fields: impl Iterator<Item = (impl AsRef<[u8]>, &'a [u8])> + Clone,
        policy: &Policy,
    ) -> Result<(), BadTarget> {
        self.parse_at(line, Port::Named, fields, policy)
    }

    /// As [`RequestInfo::parse`], for a request whose port a proxy may have named.
    pub fn parse_at<'a>(
        &mut self,
        line: &RequestLineInfo<'_>,
        port: Port,
        fields: impl Iterator<Item = (impl AsRef<[u8]>, &'a [u8])> + Clone,
        policy: &Policy,
    ) -> Result<(), BadTarget> {
        self.arena.clear();
        self.found = FieldFindings::default();
        self.spelling_rules.clear();
        let read = self.read_head(line, port, fields, policy);
        if read.is_err() {
            self.arena.clear();
            self.found = FieldFindings::default();
            self.spelling_rules.clear();
        }
        self.scratch.work.clear();
        self.scratch.parameters.clear();
        self.scratch.cookies.clear();
        read
    }

    fn read_head<'a>(
        &mut self,
        line: &RequestLineInfo<'_>,
        port: Port,
        fields: impl Iterator<Item = (impl AsRef<[u8]>, &'a [u8])> + Clone,
        policy: &Policy,
    ) -> Result<(), BadTarget> {
        let target = uri::split(line.target)?;
        self.found.method = Method::parse(line.method);
        self.found.method_text = self.keep(line.method.as_bytes());
        self.found.scheme = line.scheme;
        self.read_path(target.path)?;

        let mut pass = FieldPass {
            line,
            policy,
            seen: CacheabilityFindings::default(),
            accept: AcceptLines::default(),
            hint: None,
            port: None,
            has_dictionary: false,
        };
        for (name, value) in fields.clone() {
            pass.field(self, name.as_ref(), value);
        }
        if let Some(authority) = target.authority {
            pass.port = route::named_port(authority, line.host);
        }
        if let Port::Given(port) = port {
            pass.port = port;
        }
        self.finish_fields(&pass);
        if pass.has_dictionary
            && let Some(hash) = dictionary::of_request(line.scheme, fields.clone())
        {
            self.found.dictionary = self.keep(&hash);
        }
        self.join_lists(fields);

        let reading = self.read_query(target.query, policy);
        self.conclude(&pass, reading);
        if policy.guard.may_find() {
            self.read_spellings(&pass);
        }
        Ok(())
    }

    /// Appends to the arena.
    fn keep(&mut self, bytes: &[u8]) -> Span {
        let start = self.arena.len();
        self.arena.extend_from_slice(bytes);
        Span::since(start, &self.arena)
    }

    fn read_path(&mut self, raw: &[u8]) -> Result<(), BadTarget> {
        if raw == b"*" {
            if self.found.method != Method::Options {
                return Err(BadTarget::Form);
            }
            self.found.path = self.keep(raw);
            self.found.decoded_path = self.found.path;
            return Ok(());
        }
        if uri::is_plain(raw) {
            self.found.path = self.keep(raw);
            self.found.decoded_path = self.found.path;
            return Ok(());
        }
        let start = self.arena.len();
        uri::append_canonical(raw, &mut self.arena)?;
        self.found.path = Span::since(start, &self.arena);
        let canonical = self.arena.get(start..).unwrap_or_default();
        let mut work = std::mem::take(&mut self.scratch.work);
        let decoded = uri::decoded_path(canonical, &mut work);
        // Most paths decode to themselves; those are not stored twice.
        self.found.decoded_path = if canonical == work {
            self.found.path
        } else {
            self.keep(&work)
        };
        self.scratch.work = work;
        decoded
    }

    fn read_query(&mut self, raw: Option<&[u8]>, policy: &Policy) -> QueryCacheability {
        let Some(raw) = raw else {
            return QueryCacheability::Cacheable;
        };
        self.found.raw_query = Some(self.keep(raw));
        let scratch = &mut self.scratch;
        let reading = query::scan(raw, policy, &mut scratch.parameters, &mut scratch.work);
        let start = self.arena.len();
        if query::write_kept(
            raw,
            &mut scratch.parameters,
            &scratch.work,
            policy,
            &mut self.arena,
        ) {
            self.found.query = Some(Span::since(start, &self.arena));
        }
        if query::drops_all(raw, &scratch.parameters) {
            self.found.dropped_query = self.found.raw_query;
            return reading;
        }
        let start = self.arena.len();
        if query::write_dropped(raw, &mut scratch.parameters, &mut self.arena) {
            self.found.dropped_query = Some(Span::since(start, &self.arena));
        }
        reading
    }

    fn read_spellings(&mut self, pass: &FieldPass<'_>) {
        let mut buffers = std::mem::take(&mut self.scratch.spelling_buffers);
        let mut spelling_rules = std::mem::take(&mut self.spelling_rules);
        let request = RequestedPaths {
            method: pass.line.method,
            overrides_method: pass.seen.method_override,
            path: self.decoded_path(),
            query: self.raw_query().unwrap_or_default(),
            country: pass.line.country,
        };
        spellings::rules_of(
            &request,
            &pass.policy.guard,
            &pass.policy.rules,
            &mut buffers,
            &mut spelling_rules,
        );
        self.spelling_rules = spelling_rules;
        self.scratch.spelling_buffers = buffers;
    }

    fn finish_fields(&mut self, pass: &FieldPass<'_>) {
        self.found.host = self.keep(pass.line.host.as_bytes());
        self.found.authority = self.found.host;
        self.found.port = pass
            .port
            .filter(|&port| port != pass.line.scheme.default_port());
        if let Some(port) = self.found.port {
            self.arena.push(b':');
            push_decimal(port, &mut self.arena);
            self.found.authority.end = self.arena.len();
        }
        let preferred = pass.accept.preferred();
        self.found.accept = preferred.class;
        self.found.prefers_unsent = preferred.is_unsent;
        if pass.policy.flags.device_variants {
            self.found.device = accept::device(pass.hint, self.user_agent());
        } else {
            self.found.device = Device::Any;
        }
        if pass.policy.requests.directives == RequestDirectives::OnlyIfCached {
            self.found.directives = self.found.directives.without_freshness();
        }
        self.join_vary_cookies();
    }

    /// Sorts the vary cookies by name, equal names in their order (PHP uses the first), and joins them.
    fn join_vary_cookies(&mut self) {
        let (work, arena) = (&self.scratch.work, &mut self.arena);
        self.scratch
            .cookies
            .sort_unstable_by(|a, b| a.name.of(work).cmp(b.name.of(work)).then(a.end.cmp(&b.end)));
        let start = arena.len();
        for cookie in &self.scratch.cookies {
            if arena.len() > start {
                arena.extend_from_slice(b"; ");
            }
            arena.extend_from_slice(
                Span {
                    start: cookie.name.start,
                    end: cookie.end,
                }
                .of(work),
            );
        }
        self.found.vary_cookies = Span::since(start, arena);
    }

    /// Joins the lines of the conditions that are lists (RFC 9110 section 5.3).
    fn join_lists<'a>(
        &mut self,
        fields: impl Iterator<Item = (impl AsRef<[u8]>, &'a [u8])> + Clone,
    ) {
        if self.found.if_none_match.is_some() {
            self.found.if_none_match = Some(self.join(b"if-none-match", fields.clone()));
        }
        if self.found.if_match.is_some() {
            self.found.if_match = Some(self.join(b"if-match", fields));
        }
    }

    fn join<'a>(
        &mut self,
        wanted: &[u8],
        fields: impl Iterator<Item = (impl AsRef<[u8]>, &'a [u8])>,
    ) -> Span {
        let start = self.arena.len();
        for (_, value) in fields.filter(|(name, _)| name.as_ref().eq_ignore_ascii_case(wanted)) {
            if self.arena.len() > start {
                self.arena.extend_from_slice(b", ");
            }
            self.arena.extend_from_slice(value);
        }
        Span::since(start, &self.arena)
    }

    fn conclude(&mut self, pass: &FieldPass<'_>, reading: QueryCacheability) {
        let rule = cacheability::matching_rule(pass.line, self.decoded_path(), pass.policy);
        self.found.rule = rule.index;
        self.found.is_by_country = rule.is_by_country;
        self.found.country = pass.line.country;
        let rule = rule.index.and_then(|index| pass.policy.rules.get(index));
        let cacheability = cacheability::judge(
            pass.line,
            self.decoded_path(),
            reading,
            &pass.seen,
            rule,
            pass.policy,
        );
        let ignores_cookies = rule.is_some_and(|rule| rule.ignore.cookie);
        if ignores_cookies {
            self.found.vary_cookies = Span::default();
        }
        self.found.cacheability = cacheability;
        self.found.is_member = cacheability == Cacheability::Pass(PassWhy::Cookie)
            && cacheability::is_member(
                pass.line,
                self.decoded_path(),
                reading,
                &pass.seen,
                rule,
                pass.policy,
            );
        self.found.ignores_cookies = ignores_cookies;
        let cookies_matter = !ignores_cookies || cacheability != Cacheability::Cacheable;
        self.found.has_authorization = pass.seen.authorization;
        self.found.has_session =
            pass.seen.authorization || (pass.seen.bypass_cookie && cookies_matter);
        self.found.has_login = pass.seen.login_cookie && cookies_matter;
    }
}

/// The state of the pass over the fields, besides [`FieldFindings`].
struct FieldPass<'p> {
    line: &'p RequestLineInfo<'p>,
    policy: &'p Policy,
    seen: CacheabilityFindings,
    accept: AcceptLines,
    /// The value of `Sec-CH-UA-Mobile`, as `?1` or `?0`.
    hint: Option<&'static [u8]>,
    port: Option<u16>,
    /// Whether the client names a dictionary that it has.
    has_dictionary: bool,
}

/// Whether `Sec-Purpose` is `prefetch`, with or without parameters: a browser requests the page in advance.
fn is_prefetch(value: &[u8]) -> bool {
    let purpose = value.split(|letter| *letter == b';').next();
    purpose.is_some_and(|purpose| purpose.trim_ascii() == b"prefetch")
}

impl FieldPass<'_> {
    /// Reads one field. Comparing the length first avoids most comparisons of text.
    fn field(&mut self, info: &mut RequestInfo, name: &[u8], value: &[u8]) {
        match name.len() {
            4 if is_name(name, b"host") => {
                self.port = self
                    .port
                    .or_else(|| route::named_port(value, self.line.host));
            }
            5 if is_name(name, b"range") => first(info, |found| &mut found.range, value),
            6 if is_name(name, b"accept") => {
                self.accept.read(value);
                if let Some(original) = OriginalFormat::of_path(info.decoded_path()) {
                    info.found.images.read(value, original);
                }
            }
            6 if is_name(name, b"cookie") => self.cookies(info, value),
            6 if is_name(name, b"origin") => {
                self.seen.foreign_origin |= is_foreign(value, self.line.host);
            }
            7 if is_name(name, b"referer") => first(info, |found| &mut found.referer, value),
            8 if is_name(name, b"if-match") => info.found.if_match = Some(Span::default()),
            8 if is_name(name, b"if-range") => first(info, |found| &mut found.if_range, value),
            8 if is_name(name, b"cdn-loop") => info.found.has_cdn_loop = true,
            10 if is_name(name, b"user-agent") => {
                first(info, |found| &mut found.user_agent, value);
            }
            11 if is_name(name, b"sec-purpose") => {
                info.found.is_prefetch |= is_prefetch(value);
            }
            10 if is_name(name, b"x-wp-nonce") => self.seen.nonce = true,
            13 if is_name(name, b"if-none-match") => {
                info.found.if_none_match = Some(Span::default());
            }
            13 if is_name(name, b"authorization") => self.seen.authorization = true,
            13 if is_name(name, b"cache-control") => {
                info.found.directives.read(value);
                self.seen.no_store = info.found.directives.no_store;
            }
            15 if is_name(name, b"accept-encoding") => info.found.codings.read(value),
            // Android's web view sends its package name here; only the value that scripts send counts.
            16 if is_name(name, b"x-requested-with") => {
                self.seen.ajax |= value.trim_ascii().eq_ignore_ascii_case(b"xmlhttprequest");
            }
            16 if is_name(name, b"sec-ch-ua-mobile") => {
                self.hint = Some(if value.trim_ascii() == b"?1" {
                    b"?1"
                } else {
                    b"?0"
                });
            }
            17 if is_name(name, b"if-modified-since") => {
                first(info, |found| &mut found.if_modified_since, value);
            }
            19 if is_name(name, b"if-unmodified-since") => {
                first(info, |found| &mut found.if_unmodified_since, value);
            }
            20 if is_name(name, b"available-dictionary") => self.has_dictionary = true,
            22 if is_name(name, b"x-http-method-override") => self.seen.method_override = true,
            _ => {}
        }
    }

    fn cookies(&mut self, info: &mut RequestInfo, line: &[u8]) {
        for pair in cookie::pairs(line) {
            match cookie::classify(pair.name, self.policy) {
                Class::Bypass => {
                    self.seen.bypass_cookie = true;
                    self.seen.login_cookie |= wordpress::is_login_cookie(pair.name);
                    self.seen.other_cookie |= !wordpress::is_member_cookie(pair.name)
                        || cookie::is_named(pair.name, &self.policy.bypass_cookies);
                }
                Class::Vary if is_sendable(pair.name) && is_sendable(pair.value) => {
                    let work = &mut info.scratch.work;
                    let start = work.len();
                    work.extend_from_slice(pair.name);
                    let name = Span::since(start, work);
                    work.push(b'=');
                    work.extend_from_slice(pair.value);
                    info.scratch.cookies.push(VaryCookie {
                        name,
                        end: work.len(),
                    });
                }
                // A value that cannot be sent upstream must not be in the key either.
                Class::Vary | Class::Ignored => {}
            }
        }
    }
}

/// Stores the value of a field unless it already has one.
fn first(
    info: &mut RequestInfo,
    slot: impl Fn(&mut FieldFindings) -> &mut Option<Span>,
    value: &[u8],
) {
    if slot(&mut info.found).is_none() {
        let span = info.keep(value);
        *slot(&mut info.found) = Some(span);
    }
}

/// Whether `Origin` (RFC 6454 section 7) names another host than the request, as `null` does.
fn is_foreign(origin: &[u8], host: &str) -> bool {
    let authority = memchr::memmem::find(origin, b"://").and_then(|at| origin.get(at + 3..));
    !authority.is_some_and(|authority| route::is_same_host(authority, host))
}

fn is_sendable(bytes: &[u8]) -> bool {
    !bytes.iter().any(u8::is_ascii_control)
}

fn push_decimal(number: u16, out: &mut Vec<u8>) {
    let mut divisor = 10_000;
    while divisor > 1 && number / divisor == 0 {
        divisor /= 10;
    }
    while divisor > 0 {
        out.extend(u8::try_from(number / divisor % 10).map(|digit| b'0' + digit));
        divisor /= 10;
    }
}
