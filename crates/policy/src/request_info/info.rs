//! The parsed request head; all bytes are in one buffer.

use super::Directives;
use super::kinds::{AcceptClass, Cacheability, Device, Method, Scheme};
use crate::access::CountryCode;
use crate::encoding::AcceptedCodings;
use crate::images::AcceptedImages;
use crate::query::Parameter;
use crate::span::Span;
use crate::spellings;
use crate::vary::Vary;

/// The parts of a request other than its fields.
#[derive(Clone, Copy, Debug)]
pub struct RequestLineInfo<'a> {
    /// The method as sent.
    pub method: &'a str,
    /// The target as sent: origin-form, absolute-form or `*`.
    pub target: &'a [u8],
    /// The scheme by which the client reached Galley or the first proxy.
    pub scheme: Scheme,
    /// The canonical host ([`crate::route::canonical_host`]), from an absolute-form target, otherwise from `Host`.
    pub host: &'a str,
    /// Whether the framing announces a body that is not empty.
    pub has_body: bool,
    /// Whether the client requests another protocol on this connection.
    pub upgrade: bool,
    /// The country of the client; `None`: unknown, or no rule depends on it.
    pub country: Option<CountryCode>,
}

/// A parsed request head, as decisions use it.
///
/// Reusable: each `parse` overwrites everything. `Clone` is for exchanges that move to another core; `clone_from` reuses the
/// buffers.
#[derive(Default)]
pub struct RequestInfo {
    /// All bytes that spans refer to.
    pub(super) arena: Vec<u8>,
    pub(super) found: FieldFindings,
    /// The rules for other spellings of the URL.
    pub(super) spelling_rules: Vec<Option<usize>>,
    pub(super) scratch: ParseBuffers,
}

/// The results of parsing; reset as a whole.
#[derive(Clone, Copy, Default)]
pub(super) struct FieldFindings {
    pub(super) method: Method,
    pub(super) method_text: Span,
    pub(super) scheme: Scheme,
    /// `host` or `host:port`, the port only if it is not the scheme's default.
    pub(super) authority: Span,
    pub(super) host: Span,
    pub(super) port: Option<u16>,
    pub(super) path: Span,
    pub(super) decoded_path: Span,
    pub(super) query: Option<Span>,
    pub(super) raw_query: Option<Span>,
    pub(super) dropped_query: Option<Span>,
    pub(super) cacheability: Cacheability,
    pub(super) rule: Option<usize>,
    pub(super) country: Option<CountryCode>,
    /// Whether another rule may apply to clients of other countries.
    pub(super) is_by_country: bool,
    pub(super) codings: AcceptedCodings,
    pub(super) accept: AcceptClass,
    /// Whether the client prefers a media type that upstreams are not asked for.
    pub(super) prefers_unsent: bool,
    pub(super) images: AcceptedImages,
    pub(super) device: Device,
    pub(super) if_none_match: Option<Span>,
    pub(super) if_match: Option<Span>,
    pub(super) if_modified_since: Option<Span>,
    pub(super) if_unmodified_since: Option<Span>,
    pub(super) if_range: Option<Span>,
    pub(super) range: Option<Span>,
    pub(super) referer: Option<Span>,
    pub(super) user_agent: Option<Span>,
    pub(super) directives: Directives,
    pub(super) vary_cookies: Span,
    /// The hash of the dictionary by which a page may be sent; empty if there is none.
    pub(super) dictionary: Span,
    pub(super) has_session: bool,
    pub(super) has_login: bool,
    pub(super) has_authorization: bool,
    pub(super) is_member: bool,
    pub(super) has_cdn_loop: bool,
    pub(super) is_prefetch: bool,
    pub(super) ignores_cookies: bool,
}

/// Buffers that only `parse` uses. They are empty between two calls, so that clones do not copy them.
#[derive(Default)]
pub(super) struct ParseBuffers {
    pub(super) work: Vec<u8>,
    pub(super) parameters: Vec<Parameter>,
    pub(super) cookies: Vec<VaryCookie>,
    pub(super) spelling_buffers: spellings::SpellingBuffers,
}

/// A cookie of the vary class, as `name=value` in the work buffer.
#[derive(Clone, Copy)]
pub(super) struct VaryCookie {
    pub(super) name: Span,
    pub(super) end: usize,
}

impl Clone for RequestInfo {
    fn clone(&self) -> Self {
        Self {
            arena: self.arena.clone(),
            found: self.found,
            spelling_rules: self.spelling_rules.clone(),
            scratch: ParseBuffers::default(),
        }
    }

    fn clone_from(&mut self, source: &Self) {
        self.arena.clone_from(&source.arena);
        self.found = source.found;
        self.spelling_rules.clone_from(&source.spelling_rules);
    }
}

impl RequestInfo {
    fn bytes(&self, span: Span) -> &[u8] {
        span.of(&self.arena)
    }

    fn text(&self, span: Span) -> &str {
        std::str::from_utf8(self.bytes(span)).unwrap_or_default()
    }

    fn optional(&self, span: Option<Span>) -> Option<&[u8]> {
        span.map(|span| self.bytes(span))
    }

    /// The method.
    pub fn method(&self) -> Method {
        self.found.method
    }

    /// The method as sent.
    pub fn method_text(&self) -> &str {
        self.text(self.found.method_text)
    }

    /// The scheme by which the client reached Galley or the first proxy.
    pub fn scheme(&self) -> Scheme {
        self.found.scheme
    }

    /// The canonical host, without port.
    pub fn host(&self) -> &str {
        self.text(self.found.host)
    }

    /// The port of the host, as the client or a proxy named it, if it is not the scheme's default.
    pub fn port(&self) -> Option<u16> {
        self.found.port
    }

    /// `host`, or `host:port` if [`Self::port`] is some; sent to the upstream as `Host`. WordPress compares it with its own
    /// address and would redirect forever if the port were missing.
    pub fn authority(&self) -> &str {
        self.text(self.found.authority)
    }

    /// [`Self::authority`] as bytes.
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

    /// The normalized query without ignored parameters; never empty.
    pub fn query(&self) -> Option<&[u8]> {
        self.optional(self.found.query)
    }

    /// The query as sent; empty after a bare `?`.
    pub fn raw_query(&self) -> Option<&[u8]> {
        self.optional(self.found.raw_query)
    }

    /// The ignored parameters as sent, joined by `&`, to be restored in redirects; never empty.
    pub fn dropped_query(&self) -> Option<&[u8]> {
        self.optional(self.found.dropped_query)
    }

    /// Whether the request may use the cache.
    pub fn cacheability(&self) -> Cacheability {
        self.found.cacheability
    }

    /// The index of the rule that applies, in [`crate::site::Policy::rules`].
    pub fn rule(&self) -> Option<usize> {
        self.found.rule
    }

    /// The country of the client, if a rule depends on it.
    pub fn country(&self) -> Option<CountryCode> {
        self.found.country
    }

    /// The rule that applies, for the key, if another one may apply to clients of other countries: its number from 1, or 0 for
    /// none. `None`: the rule does not depend on the country.
    pub(crate) fn rule_by_country(&self) -> Option<usize> {
        let number = self.found.rule.map_or(0, |index| index + 1);
        self.found.is_by_country.then_some(number)
    }

    /// The rules that restrict access to this URL: that of [`Self::rule`], and those for other spellings of the URL
    /// ([`crate::spellings`]). `None` is the site's own setting. A rule may occur twice.
    pub fn guarding(&self) -> impl Iterator<Item = Option<usize>> {
        std::iter::once(self.found.rule).chain(self.spelling_rules.iter().copied())
    }

    /// Content codings that the client accepts.
    pub fn codings(&self) -> AcceptedCodings {
        self.found.codings
    }

    /// The hash of the dictionary by which a page may be sent as `dcz` ([`crate::dictionary`]).
    pub fn dictionary(&self) -> Option<&[u8]> {
        let span = self.found.dictionary;
        (span.start < span.end).then(|| self.bytes(span))
    }

    /// Image formats that the client accepts in place of the requested one.
    pub fn images(&self) -> AcceptedImages {
        self.found.images
    }

    /// The class of `Accept`.
    pub fn accept(&self) -> AcceptClass {
        self.found.accept
    }

    /// Whether a response is another one for this client than for others of its class of `Accept`: it prefers a media type of which
    /// upstreams are told nothing in a request that is shared, and the response names `Accept` in `Vary`.
    pub fn differs_by_accept(&self, fields: &http::HeaderMap) -> bool {
        self.found.prefers_unsent
            && matches!(Vary::of(fields), Vary::Fields(names) if names.contains(&http::header::ACCEPT))
    }

    /// The class of device; `Any` if the site does not distinguish devices.
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

    /// Whether the client may have a valid copy: it sent `If-None-Match` or `If-Modified-Since`.
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

    /// The request directives that count for this site. Departs: with the WordPress preset only `no-store` and
    /// `only-if-cached` are reported, so that a reload does not make PHP generate the page (RFC 9111 section 5.2.1 leaves the
    /// others to an agreement between cache and origin; the preset is such an agreement).
    pub fn directives(&self) -> Directives {
        self.found.directives
    }

    /// The vary cookies as `name=value; name=value`, sorted by name; empty if there are none. Part of the key, and sent upstream.
    pub fn vary_cookies(&self) -> &[u8] {
        self.bytes(self.found.vary_cookies)
    }

    /// Whether the request carried a bypass cookie or `Authorization`, so that its response may not be shared. Cookies do not
    /// count if a rule ignores them and the request may use the cache, since then the upstream does not get them.
    pub fn has_session(&self) -> bool {
        self.found.has_session
    }

    /// Whether the request carried a cookie with a name that WordPress uses for logged-in users, real or forged. Cookies count
    /// as for [`Self::has_session`].
    pub fn has_login(&self) -> bool {
        self.found.has_login
    }

    /// Whether only the cookies of a member or a cart keep this `GET` from the cache, on a site with private fragments.
    pub fn is_member(&self) -> bool {
        self.found.is_member
    }

    /// The same request from an anonymous client. Its response is public, because its [`crate::forward::trimmed`] form contains
    /// nothing of a session. `None` if [`Self::is_member`] is false.
    #[must_use]
    pub fn without_member(&self) -> Option<Self> {
        let mut info = self.is_member().then(|| self.clone())?;
        info.found.is_member = false;
        info.found.has_session = false;
        info.found.has_login = false;
        info.found.cacheability = Cacheability::Cacheable;
        Some(info)
    }

    /// Whether the request carried `Authorization`.
    pub fn has_authorization(&self) -> bool {
        self.found.has_authorization
    }

    /// Whether a browser requests the page in advance (`Sec-Purpose: prefetch`), so that no user is waiting. False for unsafe
    /// methods.
    pub fn is_prefetch(&self) -> bool {
        self.found.is_prefetch && self.method().is_safe()
    }

    /// Whether the request names the caches that it has passed (`CDN-Loop`, RFC 8586), which may include this one.
    pub fn has_cdn_loop(&self) -> bool {
        self.found.has_cdn_loop
    }

    /// Whether a rule declares that cookies do not matter and are not sent upstream.
    pub fn ignores_cookies(&self) -> bool {
        self.found.ignores_cookies
    }

    /// Writes canonical path and normalized query, `/a/b?x`, to `out`, which is cleared first. Prefix and pattern purges are
    /// compared with this form.
    pub fn path_query(&self, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(self.path());
        if let Some(query) = self.query() {
            out.push(b'?');
            out.extend_from_slice(query);
        }
    }
}
