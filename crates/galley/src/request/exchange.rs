//! One request in progress, and its admission.
//!
//! Admission is everything that is decided before a byte of the body is received: the host is served here, the target is
//! well formed, the body is not larger than the site accepts.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use galley_http::framing::{BodyKind, Framing};
use galley_http::head::Head;
use galley_policy::outcome::RefusedWhy;
use galley_policy::proxied::{ConnectionInfo, Port, RequestOrigin};
use galley_policy::request_info::{Method, RequestInfo, RequestLineInfo, Scheme};
use galley_policy::route;
use galley_policy::site::{Policy, Rule};
use http::HeaderValue;

use super::progress::{AccessState, EarlierLookup};
use super::site::{Site, Sites, Upstream};
use crate::body::RequestBody;
use crate::fault::Fault;
use crate::fetch::IncludingPage;
use crate::telemetry::trace::RequestTrace;
use crate::upstream::interim::{self, Mailbox};
use crate::upstream::switch::AwaitedSwitch;

/// One request, from its head to its answer.
pub struct Exchange<'h> {
    /// The head as it came; only `RequestInfo` and forwarding read it.
    pub head: &'h Head<'h, 'h>,
    /// What one pass over it found.
    pub info: RequestInfo,
    /// Whose request it is.
    pub site: Arc<Site>,
    /// The body, once it has arrived.
    pub body: RequestBody,
    /// The client: behind trusted proxies, the one that they name. Port 0 if it is unknown.
    pub client: SocketAddr,
    /// The URL of the request.
    pub local: SocketAddr,
    /// For log, upstream and error page.
    pub request_id: String,
    /// The entry's key, if one was looked up.
    pub key: Vec<u8>,
    /// What the fast path found under it.
    pub(super) earlier: EarlierLookup,
    /// Whether access control has granted it.
    pub(super) access: AccessState,
    /// The protocol that the client requests in place of HTTP, if the site permits it.
    pub upgrade: Option<HeaderValue>,
    /// Where the connection will come from if the upstream agrees to it.
    pub awaited: Option<AwaitedSwitch>,
    /// Its part of a trace, once it is known that no stored page answers it.
    pub trace: Option<RequestTrace>,
    /// Whether a trusted proxy has sent it.
    pub(super) is_from_proxy: bool,
    mailbox: Option<Mailbox>,
}

impl<'h> Exchange<'h> {
    /// Writes the entry's key.
    pub fn write_key(&mut self) {
        self.site.write_key(&self.info, &mut self.key);
    }

    /// Another request of the same visitor to the same site, which nobody waits for.
    pub(super) fn of_another<'o>(&self, head: &'o Head<'o, 'o>, info: RequestInfo) -> Exchange<'o> {
        Exchange {
            head,
            info,
            site: Arc::clone(&self.site),
            body: RequestBody::Empty,
            client: self.client,
            local: self.local,
            request_id: self.request_id.clone(),
            key: Vec::new(),
            earlier: EarlierLookup::None,
            // It is Galley's own.
            access: AccessState::Granted {
                body: None,
                form: false,
                hides_password: true,
            },
            upgrade: None,
            awaited: None,
            trace: None,
            is_from_proxy: false,
            mailbox: None,
        }
    }

    /// The request for an include of a page, for the client that requested the page.
    pub(super) fn of_include(
        head: &'h Head<'h, 'h>,
        info: RequestInfo,
        site: Arc<Site>,
        client: SocketAddr,
        page: &IncludingPage,
    ) -> Self {
        let address = page.call.server_address;
        let local = address.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        Exchange {
            head,
            info,
            site,
            body: RequestBody::Empty,
            client,
            local: SocketAddr::new(local, page.call.server_port),
            request_id: page.call.request_id.clone(),
            key: Vec::new(),
            earlier: EarlierLookup::None,
            access: AccessState::Granted {
                body: None,
                form: false,
                hides_password: true,
            },
            upgrade: None,
            awaited: None,
            trace: None,
            is_from_proxy: false,
            mailbox: None,
        }
    }

    /// The policy of its site.
    pub fn policy(&self) -> &Policy {
        &self.site.core.rules
    }

    /// The rule that applies to it.
    pub fn rule(&self) -> Option<&Rule> {
        self.site.rule_of(&self.info)
    }

    /// Whether some upstream may know the method. Unknown ones are forwarded if a rule names them, and without a preset to an
    /// HTTP server, for which Galley is a proxy like any other.
    pub fn serves_method(&self) -> bool {
        let method = self.info.method_text();
        let is_named = |rule: &Rule| rule.methods.iter().any(|named| named == method);
        self.info.method() != Method::Other
            || self.rule().is_some_and(is_named)
            || (self.policy().requests.is_gateway && matches!(self.upstream(), Upstream::Http(_)))
    }

    /// The largest body that it may have, in bytes.
    pub fn request_body(&self) -> u64 {
        self.site.request_body_of(&self.info)
    }

    /// The fields of the head as the upstream may see them: without the password that the request was let in with.
    pub(super) fn fields(&self) -> impl Iterator<Item = (&'h str, &'h [u8])> + Clone {
        let hides = matches!(
            self.access,
            AccessState::Granted {
                hides_password: true,
                ..
            }
        );
        self.head
            .fields()
            .filter(move |(name, _)| !(hides && name.eq_ignore_ascii_case("authorization")))
    }

    /// The `RequestInfo` of a `GET` of the same address with the same fields.
    pub(super) fn facts_of_get(&self) -> Option<RequestInfo> {
        let line = RequestLineInfo {
            method: "GET",
            target: self.head.target,
            scheme: self.info.scheme(),
            host: self.info.host(),
            has_body: false,
            upgrade: false,
            country: self.info.country(),
        };
        let mut info = RequestInfo::default();
        // The port as it was found: a proxy may have told it.
        let port = Port::Told(self.info.port());
        let rules = &self.site.core.rules;
        let read = info.parse_at(&line, port, self.head.fields(), rules);
        read.ok().map(|()| info)
    }

    /// An address of Galley's own for background requests; this machine's if the request came over a socket.
    pub(super) fn own_address(&self) -> IpAddr {
        let local = self.local.ip();
        if local.is_unspecified() {
            IpAddr::V4(Ipv4Addr::LOCALHOST)
        } else {
            local
        }
    }

    /// The upstream of this request: the rule's or the site's.
    pub fn upstream(&self) -> &Upstream {
        self.site.upstream_of(&self.info)
    }

    /// Where interim responses to this client's own request go; `None` if it accepts none.
    pub fn interim(&self) -> Option<interim::InterimSender> {
        self.mailbox.as_ref().map(Mailbox::open)
    }
}

/// The mark of the site that a key belongs to.
pub fn site_mark(key: &[u8]) -> Option<u32> {
    key.last_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

/// Where a request came in.
pub struct Admission<'a> {
    /// The hosts of the listener.
    pub sites: &'a Sites,
    /// The other end of the connection, or the client that the PROXY protocol named.
    pub client: SocketAddr,
    /// The URL of the request.
    pub local: SocketAddr,
    /// The scheme of the request.
    pub scheme: Scheme,
    /// For log, upstream and error page.
    pub request_id: String,
    /// Buffers of an earlier exchange, to be used again.
    pub info: RequestInfo,
    /// Where the front looks for interim responses; `None` where the client would not understand them.
    pub mailbox: Option<Mailbox>,
}

/// What a head requests, and from which client, by the connection and by trusted proxies.
pub fn origin<'h>(
    sites: &Sites,
    peer: SocketAddr,
    scheme: Scheme,
    head: &Head<'h, '_>,
    framing: &Framing<'h>,
) -> RequestOrigin<'h> {
    let connection = ConnectionInfo {
        peer,
        scheme,
        host: framing.host.text().unwrap_or_default().as_bytes(),
    };
    sites.proxies().origin(&connection, &head.fields())
}

/// Refuses a head, or makes an exchange of it.
pub fn admit<'h>(
    admission: Admission<'_>,
    head: &'h Head<'h, 'h>,
    framing: &Framing<'h>,
) -> Result<Exchange<'h>, (Fault, String)> {
    let Admission {
        sites,
        client,
        local,
        scheme,
        request_id,
        mut info,
        mailbox,
    } = admission;
    let refuse = |why, note: String| (Fault::new(why, note), request_id.clone());
    let origin = origin(sites, client, scheme, head, framing);
    // HTTP/1.0 without a host: a site that takes every host takes that as well.
    let host = match origin.host {
        b"" => Ok(String::new()),
        text => route::canonical_host(text),
    };
    let host = host.map_err(|e| refuse(RefusedWhy::UnknownHost, e.to_string()))?;
    let site = sites.find(&host).ok_or_else(|| {
        let why = if sites.is_misdirected(&host) {
            RefusedWhy::Misdirected
        } else {
            RefusedWhy::UnknownHost
        };
        refuse(why, String::new())
    })?;
    let has_body = !framing.body.is_empty();
    let line = RequestLineInfo {
        method: head.method,
        target: head.target,
        scheme: origin.scheme,
        host: &host,
        has_body,
        upgrade: framing.upgrade,
        country: site.access.rule_country(origin.client.ip()),
    };
    info.parse_at(&line, origin.port, head.fields(), &site.core.rules)
        .map_err(|e| refuse(RefusedWhy::BadRequest, e.to_string()))?;
    if let BodyKind::Length(length) = framing.body
        && length > site.request_body_of(&info)
    {
        let note = format!("the announced length is {length} bytes");
        let (mut fault, request_id) = refuse(RefusedWhy::BodyTooLarge, note);
        fault.page = site.error_pages.render(&fault, &request_id);
        return Err((fault, request_id));
    }
    let upgrade = upgrade(&site, head, framing);
    Ok(Exchange {
        head,
        info,
        site,
        body: RequestBody::Empty,
        client: origin.client,
        local,
        request_id,
        key: Vec::new(),
        earlier: EarlierLookup::None,
        access: AccessState::Unchecked,
        upgrade,
        awaited: None,
        trace: None,
        is_from_proxy: sites.proxies().trusts(client),
        mailbox,
    })
}

/// What the fast path found out about a request without a body that it does not answer.
pub struct Resumed {
    /// Whose request it is.
    pub site: Arc<Site>,
    /// The client that trusted proxies name.
    pub client: SocketAddr,
    /// The entry's key; empty if it was not written.
    pub key: Vec<u8>,
    /// The entry under it.
    pub earlier: EarlierLookup,
}

/// Makes an exchange of a request that the fast path has parsed: nothing is read or looked up again. `admission.info` are its own.
pub fn resume<'h>(
    admission: Admission<'_>,
    head: &'h Head<'h, 'h>,
    resumed: Resumed,
) -> Exchange<'h> {
    Exchange {
        head,
        info: admission.info,
        site: resumed.site,
        body: RequestBody::Empty,
        client: resumed.client,
        local: admission.local,
        request_id: admission.request_id,
        key: resumed.key,
        earlier: resumed.earlier,
        access: AccessState::Unchecked,
        upgrade: None,
        awaited: None,
        trace: None,
        is_from_proxy: admission.sites.proxies().trusts(admission.client),
        mailbox: admission.mailbox,
    }
}

/// The requested protocol, if the site permits it and nothing prevents it: a single one, with a `GET`, which has no body that
/// could be mistaken for its first bytes.
fn upgrade(site: &Site, head: &Head<'_, '_>, framing: &Framing<'_>) -> Option<HeaderValue> {
    if !framing.upgrade || head.method != "GET" || !framing.body.is_empty() {
        return None;
    }
    let mut named = head.fields();
    let mut named = named
        .by_ref()
        .filter(|(name, _)| name.eq_ignore_ascii_case("upgrade"));
    let (Some((_, protocol)), None) = (named.next(), named.next()) else {
        return None;
    };
    let protocol = protocol.trim_ascii().to_ascii_lowercase();
    let known = site.upgrade.iter().find(|one| one.as_bytes() == protocol)?;
    HeaderValue::from_str(known).ok()
}
