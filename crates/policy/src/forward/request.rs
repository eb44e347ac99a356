//! The trimmed and the whole form of a request.

use crate::compress::live;
use crate::fields::{connection_tokens, is_hop_by_hop, is_plain_name};
use crate::request_info::{Device, Method, RequestInfo, Scheme};
use crate::site::{MemberPages, Policy};
use http::header::{ACCEPT, ACCEPT_ENCODING, COOKIE, IF_MATCH, IF_NONE_MATCH, USER_AGENT};
use http::{HeaderName, HeaderValue};
use std::net::IpAddr;

/// A request for the upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamRequest {
    /// The client's method; always `GET` in a trimmed request.
    pub method: String,
    /// The scheme by which the client reached Galley or the first proxy.
    pub scheme: Scheme,
    /// The value of `Host`: the canonical host, with the port if it is not the scheme's default.
    pub host: String,
    /// The canonical raw path.
    pub path: Vec<u8>,
    /// The query without its `?`: normalized in trimmed requests, as sent in whole ones.
    pub query: Option<Vec<u8>>,
    /// The fields, without `Host`, `Content-Length` and `Transfer-Encoding`; at most one `Cookie`.
    pub fields: Vec<(HeaderName, HeaderValue)>,
    /// The length of the body.
    pub body_length: BodyLength,
    /// Whether Galley stores the site's pages, so that browsers may load more of them in advance. Only FastCGI is told.
    pub has_stored_pages: bool,
}

/// The length of a request body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyLength {
    /// No body was announced.
    None,
    /// The length in bytes, possibly 0.
    Known(u64),
    /// The length is known only at the end. CGI cannot express that, so only HTTP upstreams get such a request.
    Unknown,
}

/// The client of a request.
#[derive(Clone, Copy, Debug)]
pub struct Client<'a> {
    /// The client's address.
    pub address: IpAddr,
    /// The client's port; 0 if it is unknown.
    pub port: u16,
    /// The request id, for logs and for PHP.
    pub request_id: &'a str,
}

/// Builds the request for a cacheable fetch. It depends only on the parts that [`crate::key::write_key`] writes.
pub fn trimmed(info: &RequestInfo) -> UpstreamRequest {
    let mut request = UpstreamRequest {
        method: "GET".to_owned(),
        scheme: info.scheme(),
        host: info.authority().to_owned(),
        path: info.path().to_vec(),
        query: info.query().map(<[u8]>::to_vec),
        fields: Vec::with_capacity(TRIMMED_FIELDS),
        body_length: BodyLength::None,
        has_stored_pages: false,
    };
    let accept = info.accept().sent();
    let agent = match info.device() {
        Device::Any | Device::Desktop => DESKTOP_AGENT,
        Device::Mobile => MOBILE_AGENT,
    };
    request
        .fields
        .push((ACCEPT, HeaderValue::from_static(accept)));
    request
        .fields
        .push((ACCEPT_ENCODING, HeaderValue::from_static("identity")));
    request
        .fields
        .push((USER_AGENT, HeaderValue::from_static(agent)));
    if !info.vary_cookies().is_empty() {
        push(&mut request, COOKIE, info.vary_cookies());
    }
    push_forwarded(&mut request, info);
    request
        .fields
        .push((GALLEY_REQUEST, HeaderValue::from_static(SHARED)));
    request
}

/// Builds the request for a page that is generated for a member and compared with the public one: the trimmed request with the
/// member's cookies ([`crate::private::session_cookies`]) and `User-Agent`. It depends only on these and on the key.
pub fn member(info: &RequestInfo, cookies: &[u8]) -> UpstreamRequest {
    let mut request = trimmed(info);
    let replaced = [COOKIE, USER_AGENT, GALLEY_REQUEST];
    request.fields.retain(|(name, _)| !replaced.contains(name));
    push(&mut request, COOKIE, cookies);
    push(
        &mut request,
        USER_AGENT,
        info.user_agent().unwrap_or_default(),
    );
    request
        .fields
        .push((GALLEY_REQUEST, HeaderValue::from_static(MEMBER)));
    request
}

/// Announces to the plugin that the site has private fragments, so that the plugin marks them.
pub fn members(request: &mut UpstreamRequest, policy: &Policy) {
    if policy.members == MemberPages::Fragments {
        request
            .fields
            .push((GALLEY_MEMBERS, HeaderValue::from_static("fragments")));
    }
}

/// Tells the plugin to link to the style sheet by which visitors prove their visit. Declared unkeyed, because a page with the link
/// serves everybody as well as one without.
pub fn visit_link(request: &mut UpstreamRequest) {
    request
        .fields
        .push((GALLEY_VISIT, HeaderValue::from_static("link")));
}

/// Builds the request for a response that is not shared: end-to-end fields in their order, then Galley's.
#[expect(
    clippy::needless_pass_by_value,
    reason = "iterators are cheap to clone and read better by value"
)]
pub fn whole<'a>(
    info: &RequestInfo,
    fields: impl Iterator<Item = (&'a str, &'a [u8])> + Clone,
    client: &Client<'_>,
    body: BodyLength,
) -> UpstreamRequest {
    let mut request = UpstreamRequest {
        method: info.method_text().to_owned(),
        scheme: info.scheme(),
        host: info.authority().to_owned(),
        path: info.path().to_vec(),
        query: info.raw_query().map(<[u8]>::to_vec),
        fields: Vec::new(),
        body_length: body,
        has_stored_pages: false,
    };
    let named = |wanted: &'static str| {
        fields
            .clone()
            .filter(move |(name, _)| name.eq_ignore_ascii_case(wanted))
            .map(|(_, value)| value)
    };
    let tokens = connection_tokens(named("connection"));
    for (name, value) in fields.clone() {
        if may_forward(name, info.method())
            && !is_hop_by_hop(name, tokens.clone())
            && let Ok(name) = HeaderName::from_bytes(name.as_bytes())
        {
            let is_condition = name == IF_NONE_MATCH || name == IF_MATCH;
            let plain = is_condition.then(|| live::plain_tags(value)).flatten();
            push(&mut request, name, plain.as_deref().unwrap_or(value));
        }
    }
    if !info.ignores_cookies() {
        // HTTP/2 splits cookies over lines (RFC 9113 section 8.2.3); upstreams expect one line.
        let cookies: Vec<_> = named("cookie").collect();
        if !cookies.is_empty() {
            push(&mut request, COOKIE, &cookies.join(&b"; "[..]));
        }
    }
    push_forwarded(&mut request, info);
    address(&mut request, client);
    request
}

/// Adds the fields that are declared unkeyed: the client's address and the request id. Replaces existing ones.
pub fn address(request: &mut UpstreamRequest, client: &Client<'_>) {
    request
        .fields
        .retain(|(name, _)| ![X_FORWARDED_FOR, X_REAL_IP, X_REQUEST_ID].contains(name));
    let address = address_text(client.address);
    push(request, X_FORWARDED_FOR, address.as_bytes());
    push(request, X_REAL_IP, address.as_bytes());
    push(request, X_REQUEST_ID, client.request_id.as_bytes());
}

/// Adds the capabilities of the site's cache, in the form that plugins look for: that it supports tags (Proxy Cache Purge),
/// and, if the site enables that, that it works like `LiteSpeed`'s cache, or processes ESI tags. They, and whether the site has stored
/// pages, depend only on the site,
/// so that equal keys still give equal requests. The client's own such fields are removed.
pub fn capabilities(request: &mut UpstreamRequest, policy: &Policy) {
    request.has_stored_pages = true;
    request
        .fields
        .retain(|(name, _)| *name != SURROGATE_CAPABILITY);
    let capability = match policy.esi {
        Some(_) => SUPPORTS_TAGS_AND_ESI,
        None => SUPPORTS_TAGS,
    };
    request
        .fields
        .push((SURROGATE_CAPABILITY, HeaderValue::from_static(capability)));
    if policy.flags.litespeed {
        request
            .fields
            .push((X_LSCACHE, HeaderValue::from_static("on")));
    }
}

/// Announces to the plugin that a whole request passes through Galley, so that its response may carry purges, and acknowledges
/// purges ([`set_acknowledged`]).
pub fn for_plugin(request: &mut UpstreamRequest, ids: &str) {
    request
        .fields
        .push((GALLEY_REQUEST, HeaderValue::from_static(WHOLE)));
    set_acknowledged(request, ids);
}

/// Makes the request for a page one for fragments: the plugin renders only these. `definitions` are separated by commas.
pub fn fragment(request: &mut UpstreamRequest, definitions: &str) {
    push(request, GALLEY_FRAGMENT, definitions.as_bytes());
}

/// Acknowledges purges to the plugin: the ids that [`crate::purge::receipts`] returned. Declared unkeyed, because no page
/// depends on them.
pub fn set_acknowledged(request: &mut UpstreamRequest, ids: &str) {
    if !ids.is_empty() {
        push(request, ACKNOWLEDGED, ids.as_bytes());
    }
}

/// The scheduler of WordPress's tasks, as the plugin is informed of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// WordPress itself; no field is sent.
    Own,
    /// Galley runs the tasks, so requests need not start them.
    Kept,
    /// This request is a run of the tasks.
    Run,
}

/// Informs the plugin who runs scheduled tasks. Declared unkeyed, because no page depends on it.
pub fn schedule(request: &mut UpstreamRequest, schedule: Schedule) {
    let word = match schedule {
        Schedule::Own => return,
        Schedule::Kept => "kept",
        Schedule::Run => "run",
    };
    request
        .fields
        .push((GALLEY_CRON, HeaderValue::from_static(word)));
}

/// Adds the host, port and scheme of the client's request, for upstreams that generate URLs from them.
pub(super) fn push_forwarded(request: &mut UpstreamRequest, info: &RequestInfo) {
    let port = info.port().unwrap_or(info.scheme().default_port());
    push(request, X_FORWARDED_HOST, info.authority().as_bytes());
    push(request, X_FORWARDED_PORT, port.to_string().as_bytes());
    push(
        request,
        X_FORWARDED_PROTO,
        info.scheme().as_str().as_bytes(),
    );
}

/// An address as text, an IPv4-mapped one as IPv4. Each forwarded request contains addresses, and a formatter takes twenty times
/// as long for four numbers.
pub(crate) fn address_text(address: IpAddr) -> String {
    let IpAddr::V4(address) = address.to_canonical() else {
        return address.to_string();
    };
    let mut text = String::with_capacity("255.255.255.255".len());
    for octet in address.octets() {
        if !text.is_empty() {
            text.push('.');
        }
        let digit = |number: u8| char::from(b'0' + number % 10);
        if octet >= 100 {
            text.push(digit(octet / 100));
        }
        if octet >= 10 {
            text.push(digit(octet / 10));
        }
        text.push(digit(octet));
    }
    text
}

/// Adds a field; an invalid value is dropped.
pub(super) fn push(request: &mut UpstreamRequest, name: HeaderName, value: &[u8]) {
    if let Ok(value) = HeaderValue::from_bytes(value) {
        request.fields.push((name, value));
    }
}

/// Whether a field of the client may be forwarded.
pub(super) fn may_forward(name: &str, method: Method) -> bool {
    let is_one_of = |list: &[&str]| list.iter().any(|known| name.eq_ignore_ascii_case(known));
    let is_override = is_one_of(METHOD_OVERRIDES);
    // With a safe method, an override would turn a read into a write, or select the page of another method.
    let is_withheld = is_override && method.is_safe();
    let is_forwarding = name
        .get(..11)
        .is_some_and(|start| start.eq_ignore_ascii_case("x-forwarded"));
    // `X-LSCACHE`, `X-LSCACHE-Vary-Value`: messages of the cache in front to LiteSpeed's plugin.
    let is_lscache = name
        .get(..9)
        .is_some_and(|start| start.eq_ignore_ascii_case("x-lscache"));
    // Fields between Galley and its plugin, which only Galley may set.
    let is_galleys = name
        .get(..7)
        .is_some_and(|start| start.eq_ignore_ascii_case("galley-"));
    let is_claim = is_forwarding || is_lscache || is_galleys || is_one_of(CLAIMS);
    is_plain_name(name) && !is_one_of(REPLACED) && !is_claim && !is_withheld
}

/// Fields that this module, or the code that frames the message, sets.
const REPLACED: &[&str] = &[
    "content-length",
    "cookie",
    "expect",
    "host",
    "transfer-encoding",
    "x-real-ip",
    "x-request-id",
];

/// Fields that only a trusted proxy may send: addresses, hosts, schemes and paths other than those of the request; and
/// `Proxy`, which CGI turns into `HTTP_PROXY` (CVE-2016-5385). `X-Forwarded*` is recognized by its prefix.
const CLAIMS: &[&str] = &[
    "cf-connecting-ip",
    "client-ip",
    "fastly-client-ip",
    "forwarded",
    "forwarded-for",
    "front-end-https",
    "proxy",
    "true-client-ip",
    "x-client-ip",
    "x-cluster-client-ip",
    "x-host",
    "x-http-host-override",
    "x-original-forwarded-for",
    "x-original-host",
    "x-original-url",
    "x-originating-ip",
    "x-remote-addr",
    "x-remote-ip",
    "x-rewrite-url",
    "x-scheme",
    "x-url-scheme",
];

const METHOD_OVERRIDES: &[&str] = &[
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
];

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

const X_FORWARDED_PORT: HeaderName = HeaderName::from_static("x-forwarded-port");

const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

const X_LSCACHE: HeaderName = HeaderName::from_static("x-lscache");

const X_REAL_IP: HeaderName = HeaderName::from_static("x-real-ip");

const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

pub(super) const SURROGATE_CAPABILITY: HeaderName = HeaderName::from_static("surrogate-capability");

/// Proxy Cache Purge compares this text as a whole. It announces no ESI, which frameworks look for in this field.
const SUPPORTS_TAGS: &str = "vhp=\"Surrogate/1.0 tags/1\"";

/// The capabilities of sites whose ESI tags Galley processes.
const SUPPORTS_TAGS_AND_ESI: &str = "vhp=\"Surrogate/1.0 tags/1\", galley=\"ESI/1.0\"";

/// Announces to the plugin that the request is from Galley, and whether its response may be shared.
const GALLEY_REQUEST: HeaderName = HeaderName::from_static("galley-request");

/// Announces to the plugin which pages members get.
const GALLEY_MEMBERS: HeaderName = HeaderName::from_static("galley-members");

/// Whether pages link to the style sheet that proves a visit, to the plugin.
const GALLEY_VISIT: HeaderName = HeaderName::from_static("galley-visit");

/// Names the fragment that the plugin renders.
const GALLEY_FRAGMENT: HeaderName = HeaderName::from_static("galley-fragment");
/// Acknowledges purges to the plugin, by their ids.
const ACKNOWLEDGED: HeaderName = HeaderName::from_static("galley-acknowledged");

/// Names the scheduler of WordPress's tasks.
const GALLEY_CRON: HeaderName = HeaderName::from_static("galley-cron");

/// The response may be stored: the plugin collects the tags of the page.
const SHARED: &str = "shared";

/// The response is for one member: the plugin marks private parts, and collects their tags.
const MEMBER: &str = "member";

/// The response is for one client.
const WHOLE: &str = "whole";

/// The `User-Agent` for all visitors of a class. It has the form of a browser's, because themes and security plugins expect that;
/// the last word names Galley.
const DESKTOP_AGENT: &str =
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Galley";

const MOBILE_AGENT: &str =
    "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Mobile Galley";

/// The number of fields: four of the closed list, three forwarding fields, four for the plugin, three of [`address`], and two
/// of [`capabilities`].
const TRIMMED_FIELDS: usize = 16;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn addresses_are_written_as_the_library_writes_them(bits: u32, wide: u128, is_mapped: bool) {
            let v4 = std::net::Ipv4Addr::from_bits(bits);
            prop_assert_eq!(address_text(v4.into()), v4.to_string());
            let v6 = if is_mapped { v4.to_ipv6_mapped() } else { wide.into() };
            let canonical = IpAddr::V6(v6).to_canonical();
            prop_assert_eq!(address_text(v6.into()), canonical.to_string());
        }
    }
}
