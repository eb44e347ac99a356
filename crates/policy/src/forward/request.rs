//! The trimmed and the whole form of a request.

use crate::compress::live;
use crate::fields::{connection_tokens, is_hop_by_hop, is_plain_name};
use crate::request_info::{AcceptClass, Device, Method, RequestInfo, Scheme};
use crate::site::{MemberPages, Policy};
use http::header::{ACCEPT, ACCEPT_ENCODING, COOKIE, IF_MATCH, IF_NONE_MATCH, USER_AGENT};
use http::{HeaderName, HeaderValue};
use std::net::IpAddr;

/// A request as the upstream gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamRequest {
    /// As the client sent it; of a trimmed request always `GET`.
    pub method: String,
    /// How the client reached us.
    pub scheme: Scheme,
    /// For `Host`: the canonical host, with the port if it is not the scheme's default.
    pub host: String,
    /// The canonical raw path.
    pub path: Vec<u8>,
    /// Without its `?`; normalised for trimmed, as sent for whole requests.
    pub query: Option<Vec<u8>>,
    /// Without `Host`, `Content-Length` and `Transfer-Encoding`; one `Cookie` at most.
    pub fields: Vec<(HeaderName, HeaderValue)>,
    /// How long the body is.
    pub body_length: BodyLength,
}

/// The length of a request body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyLength {
    /// There is none, and no field said so.
    None,
    /// This many bytes, maybe none.
    Known(u64),
    /// Its end will tell. CGI cannot say that, so it is for HTTP upstreams only.
    Unknown,
}

/// The client.
#[derive(Clone, Copy, Debug)]
pub struct Client<'a> {
    /// Address of the client.
    pub address: IpAddr,
    /// Its port; 0 if it is unknown.
    pub port: u16,
    /// Our name for this request, in logs and for PHP.
    pub request_id: &'a str,
}

/// The request for a cacheable fetch. A function of what [`crate::key::write_key`] writes.
pub fn trimmed(info: &RequestInfo) -> UpstreamRequest {
    let mut request = UpstreamRequest {
        method: "GET".to_owned(),
        scheme: info.scheme(),
        host: info.authority().to_owned(),
        path: info.path().to_vec(),
        query: info.query().map(<[u8]>::to_vec),
        fields: Vec::with_capacity(TRIMMED_FIELDS),
        body_length: BodyLength::None,
    };
    let accept = match info.accept() {
        AcceptClass::Page => "text/html,application/xhtml+xml,*/*;q=0.8",
        AcceptClass::Json => "application/json",
    };
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

/// The request for a page that is generated for a member and compared with the public one: the trimmed one with the member's own
/// cookies ([`crate::private::session_cookies`]) and browser. A function of these and of the key.
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

/// Tells the plugin that the site has private fragments, so that it marks them.
pub fn members(request: &mut UpstreamRequest, site: &Policy) {
    if site.members == MemberPages::Fragments {
        request
            .fields
            .push((GALLEY_MEMBERS, HeaderValue::from_static("fragments")));
    }
}

/// The request for everything that is not shared: end-to-end fields in their order, then our own.
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
    };
    let named = |wanted: &'static str| {
        fields
            .clone()
            .filter(move |(name, _)| name.eq_ignore_ascii_case(wanted))
            .map(|(_, value)| value)
    };
    let tokens = connection_tokens(named("connection"));
    for (name, value) in fields.clone() {
        if may_travel(name, info.method())
            && !is_hop_by_hop(name, tokens.clone())
            && let Ok(name) = HeaderName::from_bytes(name.as_bytes())
        {
            let is_condition = name == IF_NONE_MATCH || name == IF_MATCH;
            let plain = is_condition.then(|| live::plain_tags(value)).flatten();
            push(&mut request, name, plain.as_deref().unwrap_or(value));
        }
    }
    if !info.ignores_cookies() {
        // HTTP/2 splits cookies over lines (RFC 9113 section 8.2.3); upstreams want one.
        let cookies: Vec<_> = named("cookie").collect();
        if !cookies.is_empty() {
            push(&mut request, COOKIE, &cookies.join(&b"; "[..]));
        }
    }
    push_forwarded(&mut request, info);
    address(&mut request, client);
    request
}

/// Adds the fields that are declared unkeyed: the client's address and the request id. Replaces present ones.
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
/// and, if the site says so, that it is one of `LiteSpeed`'s kind, or processes ESI tags. A function of the site, so that
/// equal keys still give equal requests; the client's own such fields are removed.
pub fn capabilities(request: &mut UpstreamRequest, site: &Policy) {
    request
        .fields
        .retain(|(name, _)| *name != SURROGATE_CAPABILITY);
    let capability = match site.esi {
        Some(_) => KNOWS_TAGS_AND_ESI,
        None => KNOWS_TAGS,
    };
    request
        .fields
        .push((SURROGATE_CAPABILITY, HeaderValue::from_static(capability)));
    if site.litespeed {
        request
            .fields
            .push((X_LSCACHE, HeaderValue::from_static("on")));
    }
}

/// Tells the plugin that a whole request passes through Galley, so that its response may carry purges, and which purges were
/// [`set_acknowledged`].
pub fn for_plugin(request: &mut UpstreamRequest, names: &str) {
    request
        .fields
        .push((GALLEY_REQUEST, HeaderValue::from_static(WHOLE)));
    set_acknowledged(request, names);
}

/// Makes the request for a page one for fragments: the plugin renders only these. Their definitions are separated by commas.
pub fn fragment(request: &mut UpstreamRequest, definitions: &str) {
    push(request, GALLEY_FRAGMENT, definitions.as_bytes());
}

/// Tells the plugin which of its orders have arrived: the names that [`crate::purge::receipts`] read. Declared unkeyed: no
/// page shows them.
pub fn set_acknowledged(request: &mut UpstreamRequest, names: &str) {
    if !names.is_empty() {
        push(request, GALLEY_HEARD, names.as_bytes());
    }
}

/// The message to the plugin about WordPress's scheduled tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// Nothing: WordPress sees to them itself.
    Own,
    /// Galley runs them, so visits need not start them.
    Kept,
    /// This request is such a run.
    Run,
}

/// Tells the plugin who runs scheduled tasks. Declared unkeyed: no page shows it.
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

/// What an upstream that makes addresses of itself must know: how it was reached.
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

/// An address as text, an IPv4-mapped one as IPv4. Each forwarded request has some, and a formatter takes twenty times as long
/// for four numbers.
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

/// Whether a client's field may go upstream at all.
pub(super) fn may_travel(name: &str, method: Method) -> bool {
    let is_one_of = |list: &[&str]| list.iter().any(|known| name.eq_ignore_ascii_case(known));
    let is_override = is_one_of(METHOD_OVERRIDES);
    // On a safe method an override would turn a read into a write, or into a page for another method.
    let is_withheld = is_override && method.is_safe();
    let is_forwarding = name
        .get(..11)
        .is_some_and(|start| start.eq_ignore_ascii_case("x-forwarded"));
    // `X-LSCACHE`, `X-LSCACHE-Vary-Value`: what the cache in front says to LiteSpeed's plugin.
    let is_lscache = name
        .get(..9)
        .is_some_and(|start| start.eq_ignore_ascii_case("x-lscache"));
    // Fields between Galley and its plugin, which nobody else may set.
    let is_ours = name
        .get(..7)
        .is_some_and(|start| start.eq_ignore_ascii_case("galley-"));
    let is_claim = is_forwarding || is_lscache || is_ours || is_one_of(CLAIMS);
    is_plain_name(name) && !is_one_of(REPLACED) && !is_claim && !is_withheld
}

/// Written by this module, or by the code that frames the message.
const REPLACED: &[&str] = &[
    "content-length",
    "cookie",
    "expect",
    "host",
    "transfer-encoding",
    "x-real-ip",
    "x-request-id",
];

/// What only a proxy that we trust could say: addresses, hosts, schemes and paths other than the request's own; and
/// `Proxy`, which CGI turns into `HTTP_PROXY` (CVE-2016-5385). `X-Forwarded*` goes by its beginning.
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

/// Proxy Cache Purge compares it as a text. It claims no ESI, which frameworks look for in this field.
const KNOWS_TAGS: &str = "vhp=\"Surrogate/1.0 tags/1\"";

/// For sites whose ESI tags are carried out.
const KNOWS_TAGS_AND_ESI: &str = "vhp=\"Surrogate/1.0 tags/1\", galley=\"ESI/1.0\"";

/// For the plugin: that the request comes from Galley, and whether its response may be shared.
const GALLEY_REQUEST: HeaderName = HeaderName::from_static("galley-request");

/// For the plugin: what members get.
const GALLEY_MEMBERS: HeaderName = HeaderName::from_static("galley-members");

/// For the plugin: the definition of the fragment to render.
const GALLEY_FRAGMENT: HeaderName = HeaderName::from_static("galley-fragment");
/// For the plugin: names of orders that have arrived.
const GALLEY_HEARD: HeaderName = HeaderName::from_static("galley-heard");

/// For the plugin: who runs scheduled tasks.
const GALLEY_CRON: HeaderName = HeaderName::from_static("galley-cron");

/// The response may be stored: the plugin gathers what the page is made of.
const SHARED: &str = "shared";

/// The response is for one member: the plugin marks private parts, and collects what they depend on.
const MEMBER: &str = "member";

/// The response is for one client.
const WHOLE: &str = "whole";

/// One for all visitors of a class. In the form of a browser's, since themes and security plugins look for that; the last word
/// is Galley's.
const DESKTOP_AGENT: &str =
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Galley";

const MOBILE_AGENT: &str =
    "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Mobile Galley";

/// Four of the closed list, three forwarding fields, four for the plugin, three that [`address`] adds, and two of
/// [`capabilities`].
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
