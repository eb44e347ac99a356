//! What a request head says, read once.
//!
//! [`RequestInfo::gather`] is the only reader of request heads: key, gate, conditions and forwarding all work from its result,
//! so there is one opinion about a request whichever protocol and path brought it. All bytes lie in one buffer that is
//! used again for the next request: nothing is allocated once it is warm.
//! Decides whether the cache may be asked at all ([`Cacheability`]); what the cache then does is not decided here.

mod accept;
mod directives;
mod gate;
mod gather;

pub use directives::Directives;

use crate::encoding::AcceptedCodings;
use crate::key;
use crate::outcome::PassWhy;
use crate::proxied::Port;
use crate::query::Parameter;
use crate::site::SiteRules;
use crate::spellings;
use crate::uri::BadTarget;

/// Request methods that are told apart. Names are case-sensitive (RFC 9110 section 9.1): `get` is `Other`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the methods' own names")]
pub enum Method {
    Get,
    Head,
    Post,
    Put,
    Delete,
    Patch,
    Options,
    Purge,
    Ban,
    Trace,
    Connect,
    #[default]
    Other,
}

impl Method {
    /// The method of this name.
    pub fn parse(text: &str) -> Self {
        match text {
            "GET" => Self::Get,
            "HEAD" => Self::Head,
            "POST" => Self::Post,
            "PUT" => Self::Put,
            "DELETE" => Self::Delete,
            "PATCH" => Self::Patch,
            "OPTIONS" => Self::Options,
            "PURGE" => Self::Purge,
            "BAN" => Self::Ban,
            "TRACE" => Self::Trace,
            "CONNECT" => Self::Connect,
            _ => Self::Other,
        }
    }

    /// Whether it only reads (RFC 9110 section 9.2.1). Unknown methods are not safe.
    pub fn is_safe(self) -> bool {
        matches!(self, Self::Get | Self::Head | Self::Options | Self::Trace)
    }
}

/// How the client reached us.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// In the clear.
    #[default]
    Http,
    /// Over TLS.
    Https,
}

impl Scheme {
    /// `http` or `https`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    /// 80 or 443.
    pub const fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// The class of device that a page is composed for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Device {
    /// The site has one page for all.
    #[default]
    Any,
    /// Not a phone.
    Desktop,
    /// What WordPress takes for a phone or tablet.
    Mobile,
}

/// The class of `Accept`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AcceptClass {
    /// Anything else, and no `Accept`.
    #[default]
    Page,
    /// Every media range is `*/json` or `*+json`: an application asks, as the servers of `ActivityPub` do.
    Json,
}

/// Whether the cache may be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cacheability {
    /// May be looked up and stored.
    Open,
    /// Travels whole, past the cache in both directions.
    Pass(PassWhy),
}

impl Default for Cacheability {
    /// Closed: facts that were never gathered share nothing.
    fn default() -> Self {
        Self::Pass(PassWhy::Method)
    }
}

/// What is known of a request besides its fields.
#[derive(Clone, Copy, Debug)]
pub struct RequestLineInfo<'a> {
    /// As sent.
    pub method: &'a str,
    /// As sent: origin-form, absolute-form or `*`.
    pub target: &'a [u8],
    /// Of the connection.
    pub scheme: Scheme,
    /// Canonical ([`crate::route::canonical_host`]), from the absolute-form target if there is one, else from `Host`.
    pub host: &'a str,
    /// Whether the framing announces a body of more than no bytes.
    pub has_body: bool,
    /// Whether the client asks for another protocol on this connection.
    pub upgrade: bool,
}

/// Everything that decisions need to know about a request.
///
/// Reusable: each `gather` overwrites all. `Clone` for exchanges that leave their core; `clone_from` uses the room that is there.
#[derive(Default)]
pub struct RequestInfo {
    /// All bytes that spans point into.
    arena: Vec<u8>,
    found: FieldFindings,
    /// Rules that apply to other spellings of the address.
    alike: Vec<Option<usize>>,
    scratch: Scratch,
}

/// A range of the arena.
type ArenaSpan = (usize, usize);

/// What was found; reset as a whole.
#[derive(Clone, Copy, Default)]
struct FieldFindings {
    method: Method,
    method_text: ArenaSpan,
    scheme: Scheme,
    /// `host` or `host:port`, the port only if it is not the scheme's own.
    authority: ArenaSpan,
    host: ArenaSpan,
    port: Option<u16>,
    path: ArenaSpan,
    decoded_path: ArenaSpan,
    query: Option<ArenaSpan>,
    raw_query: Option<ArenaSpan>,
    dropped_query: Option<ArenaSpan>,
    gate: Cacheability,
    rule: Option<usize>,
    codings: AcceptedCodings,
    accept: AcceptClass,
    device: Device,
    if_none_match: Option<ArenaSpan>,
    if_match: Option<ArenaSpan>,
    if_modified_since: Option<ArenaSpan>,
    if_unmodified_since: Option<ArenaSpan>,
    if_range: Option<ArenaSpan>,
    range: Option<ArenaSpan>,
    referer: Option<ArenaSpan>,
    user_agent: Option<ArenaSpan>,
    directives: Directives,
    vary_cookies: ArenaSpan,
    has_session: bool,
    has_login: bool,
    has_authorization: bool,
    has_cdn_loop: bool,
    ignores_cookies: bool,
}

/// Buffers that only `gather` uses; empty between two of them, so that clones carry nothing.
#[derive(Default)]
struct Scratch {
    work: Vec<u8>,
    parameters: Vec<Parameter>,
    cookies: Vec<gather::VaryCookie>,
    spelled: spellings::SpellingBuffers,
}

impl Clone for RequestInfo {
    fn clone(&self) -> Self {
        Self {
            arena: self.arena.clone(),
            found: self.found,
            alike: self.alike.clone(),
            scratch: Scratch::default(),
        }
    }

    fn clone_from(&mut self, source: &Self) {
        self.arena.clone_from(&source.arena);
        self.found = source.found;
        self.alike.clone_from(&source.alike);
    }
}

impl RequestInfo {
    /// Reads a head; what was known before is gone. Repeated fields are read as lists where they are lists, else the
    /// first one counts.
    ///
    /// After an error the facts are those of no request, with the gate closed.
    pub fn gather<'a>(
        &mut self,
        line: &RequestLineInfo<'_>,
        fields: impl Iterator<Item = (impl AsRef<[u8]>, &'a [u8])> + Clone,
        site: &SiteRules,
    ) -> Result<(), BadTarget> {
        self.gather_at(line, Port::Named, fields, site)
    }

    /// As [`RequestInfo::gather`], for a request whose port a proxy may have told.
    pub fn gather_at<'a>(
        &mut self,
        line: &RequestLineInfo<'_>,
        port: Port,
        fields: impl Iterator<Item = (impl AsRef<[u8]>, &'a [u8])> + Clone,
        site: &SiteRules,
    ) -> Result<(), BadTarget> {
        self.arena.clear();
        self.found = FieldFindings::default();
        self.alike.clear();
        let read = self.read(line, port, fields, site);
        if read.is_err() {
            self.arena.clear();
            self.found = FieldFindings::default();
            self.alike.clear();
        }
        self.scratch.work.clear();
        self.scratch.parameters.clear();
        self.scratch.cookies.clear();
        read
    }

    fn bytes(&self, (start, end): ArenaSpan) -> &[u8] {
        self.arena.get(start..end).unwrap_or_default()
    }

    fn text(&self, span: ArenaSpan) -> &str {
        std::str::from_utf8(self.bytes(span)).unwrap_or_default()
    }

    fn optional(&self, span: Option<ArenaSpan>) -> Option<&[u8]> {
        span.map(|span| self.bytes(span))
    }

    /// Bytes that they take beside what they always take.
    pub fn size(&self) -> usize {
        self.arena.len() + self.alike.len() * size_of::<Option<usize>>()
    }

    /// The method.
    pub fn method(&self) -> Method {
        self.found.method
    }

    /// The method as sent.
    pub fn method_text(&self) -> &str {
        self.text(self.found.method_text)
    }

    /// How the client reached us.
    pub fn scheme(&self) -> Scheme {
        self.found.scheme
    }

    /// The canonical host, without port.
    pub fn host(&self) -> &str {
        self.text(self.found.host)
    }

    /// The port that the client named with the host, where it is not the scheme's own.
    pub fn port(&self) -> Option<u16> {
        self.found.port
    }

    /// `host`, or `host:port` where [`Self::port`] is some: what the upstream gets as `Host`. WordPress compares it
    /// with its own address and redirects for ever if a port is missing there.
    pub fn authority(&self) -> &str {
        self.text(self.found.authority)
    }

    /// [`Self::authority`] without a look at what it is made of.
    pub(crate) fn authority_bytes(&self) -> &[u8] {
        self.bytes(self.found.authority)
    }

    /// The canonical raw path ([`crate::uri::canonical_path`]), or `*`.
    pub fn path(&self) -> &[u8] {
        self.bytes(self.found.path)
    }

    /// The decoded path ([`crate::uri::decoded_path`]), or `*`.
    pub fn decoded_path(&self) -> &[u8] {
        self.bytes(self.found.decoded_path)
    }

    /// The normalised query without ignored parameters; never empty.
    pub fn query(&self) -> Option<&[u8]> {
        self.optional(self.found.query)
    }

    /// The query as sent; empty after a bare `?`.
    pub fn raw_query(&self) -> Option<&[u8]> {
        self.optional(self.found.raw_query)
    }

    /// The ignored parameters as sent, joined by `&`, to be put back on redirects; never empty.
    pub fn dropped_query(&self) -> Option<&[u8]> {
        self.optional(self.found.dropped_query)
    }

    /// Whether the cache may be asked.
    pub fn gate(&self) -> Cacheability {
        self.found.gate
    }

    /// Index of the rule that applies, in [`SiteRules::rules`].
    pub fn rule(&self) -> Option<usize> {
        self.found.rule
    }

    /// The rules that close something under this address: that of [`Self::rule`], and those that apply to other spellings
    /// of it ([`crate::spellings`]). `None` stands for the site's own word. The same one may come twice.
    pub fn guarding(&self) -> impl Iterator<Item = Option<usize>> {
        std::iter::once(self.found.rule).chain(self.alike.iter().copied())
    }

    /// Content codings that the client takes.
    pub fn codings(&self) -> AcceptedCodings {
        self.found.codings
    }

    /// The class of `Accept`.
    pub fn accept(&self) -> AcceptClass {
        self.found.accept
    }

    /// The class of device; `Any` where the site does not tell them apart.
    pub fn device(&self) -> Device {
        self.found.device
    }

    /// `If-None-Match`, all lines joined.
    pub fn if_none_match(&self) -> Option<&[u8]> {
        self.optional(self.found.if_none_match)
    }

    /// `If-Match`, all lines joined.
    pub fn if_match(&self) -> Option<&[u8]> {
        self.optional(self.found.if_match)
    }

    /// Whether the client has a copy that may still be good: `If-None-Match` or `If-Modified-Since` was there.
    pub fn is_conditional(&self) -> bool {
        self.found.if_none_match.is_some() || self.found.if_modified_since.is_some()
    }

    /// `If-Modified-Since`.
    pub fn if_modified_since(&self) -> Option<&[u8]> {
        self.optional(self.found.if_modified_since)
    }

    /// `If-Unmodified-Since`.
    pub fn if_unmodified_since(&self) -> Option<&[u8]> {
        self.optional(self.found.if_unmodified_since)
    }

    /// `If-Range`.
    pub fn if_range(&self) -> Option<&[u8]> {
        self.optional(self.found.if_range)
    }

    /// `Range`.
    pub fn range(&self) -> Option<&[u8]> {
        self.optional(self.found.range)
    }

    /// `Referer`.
    pub fn referer(&self) -> Option<&[u8]> {
        self.optional(self.found.referer)
    }

    /// `User-Agent`.
    pub fn user_agent(&self) -> Option<&[u8]> {
        self.optional(self.found.user_agent)
    }

    /// Request `Cache-Control: only-if-cached`.
    pub fn only_if_cached(&self) -> bool {
        self.found.directives.only_if_cached
    }

    /// Request `Cache-Control: no-store`.
    pub fn no_store(&self) -> bool {
        self.found.directives.no_store
    }

    /// All request directives that count for this site. Departs: with the WordPress preset only `no-store` and
    /// `only-if-cached` are reported, so that a reload key is no way to make PHP work (RFC 9111 section 5.2.1 leaves
    /// the others to an agreement between cache and origin, which the preset is).
    pub fn directives(&self) -> Directives {
        self.found.directives
    }

    /// The vary class as `name=value; name=value`, sorted by name; empty if there are none. Keyed and sent upstream.
    pub fn vary_cookies(&self) -> &[u8] {
        self.bytes(self.found.vary_cookies)
    }

    /// Whether a bypass-class cookie or `Authorization` was there: no answer to this request may be shared. Cookies do
    /// not count where a rule ignores them and the gate is open, since then the upstream does not get them.
    pub fn has_session(&self) -> bool {
        self.found.has_session
    }

    /// Whether a cookie by whose name WordPress knows who is logged in was there; true or forged. As [`Self::has_session`]
    /// otherwise.
    pub fn has_login(&self) -> bool {
        self.found.has_login
    }

    /// Whether the request carried `Authorization`.
    pub fn has_authorization(&self) -> bool {
        self.found.has_authorization
    }

    /// Whether it names caches that it has passed (`CDN-Loop`, RFC 8586), of which this may be one.
    pub fn has_cdn_loop(&self) -> bool {
        self.found.has_cdn_loop
    }

    /// Whether a rule says that cookies do not matter and are not sent upstream.
    pub fn ignores_cookies(&self) -> bool {
        self.found.ignores_cookies
    }

    /// [`key::url_id`] of this request.
    pub fn url_id(&self) -> u64 {
        key::url_id(self.host(), self.path(), self.query())
    }

    /// [`key::host_id`] of this request.
    pub fn host_id(&self) -> u64 {
        key::host_id(self.host())
    }

    /// Writes canonical path and normalised query, `/a/b?x`, to `out`, which is cleared first: what prefix and pattern
    /// purges are compared with.
    pub fn path_query(&self, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(self.path());
        if let Some(query) = self.query() {
            out.push(b'?');
            out.extend_from_slice(query);
        }
    }
}

#[cfg(test)]
mod tests;
