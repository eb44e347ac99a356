//! A request in progress, and its admission.
//!
//! Admission decides everything that can be decided before a byte of the body is received: the host has a site here, the
//! target is well formed, and the body is not larger than the site accepts.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use galley_cache::entry::Entry;
use galley_cache::private::{PrivateStore, SessionEnd, VisitorId};
use galley_http::framing::{BodyKind, Framing};
use galley_http::head::Head;
use galley_policy::access::BodyCheck;
use galley_policy::key::variant_id;
use galley_policy::outcome::RefusedWhy;
use galley_policy::private::session_cookies;
use galley_policy::proxied::{ConnectionInfo, Port, RequestOrigin};
use galley_policy::request_info::{Method, RequestInfo, RequestLineInfo, Scheme};
use galley_policy::route;
use galley_policy::site::{Policy, Rule};
use http::HeaderValue;

use super::site::{Site, Sites, Upstream};
use crate::fault::Fault;
use galley_fetch::IncludingPage;
use galley_telemetry::trace::RequestTrace;
use galley_upstream::body::RequestBody;
use galley_upstream::interim::{self, Mailbox};
use galley_upstream::switch::AwaitedSwitch;

/// A request, from its head to its response.
pub struct Exchange<'h> {
    /// The head as received; only `RequestInfo` and forwarding read it.
    pub head: &'h Head<'h, 'h>,
    /// The result of parsing the head.
    pub info: RequestInfo,
    /// The site of the request.
    pub site: Arc<Site>,
    /// The body, once it has been received.
    pub body: RequestBody,
    /// The client. Behind a trusted proxy, the client that the proxy names. Port 0 if the port is unknown.
    pub client: SocketAddr,
    /// The local address that received the request.
    pub local: SocketAddr,
    /// The request id for the log, the upstream and error pages.
    pub request_id: String,
    /// The cache key; empty if nothing was looked up.
    pub key: Vec<u8>,
    /// The lookup result of the fast path.
    pub(super) earlier: EarlierLookup,
    /// The verdict of access control.
    pub(super) access: AccessState,
    /// The protocol of a requested upgrade, if the site permits it.
    pub upgrade: Option<HeaderValue>,
    /// Delivers the upstream's connection if the upstream accepts the upgrade.
    pub awaited: Option<AwaitedSwitch>,
    /// The request's span, once it is known that no stored page answers the request.
    pub trace: Option<RequestTrace>,
    /// Whether a trusted proxy sent the request.
    pub(super) is_from_proxy: bool,
    /// Whether that proxy named another client than itself.
    pub(super) is_named_by_proxy: bool,
    mailbox: Option<Mailbox>,
}

impl<'h> Exchange<'h> {
    /// Writes the cache key.
    pub fn write_key(&mut self) {
        self.site.write_key(&self.info, &mut self.key);
    }

    /// A background request to the same site with the same client's address, for which no client waits.
    pub(super) fn of_another<'o>(&self, head: &'o Head<'o, 'o>, info: RequestInfo) -> Exchange<'o> {
        let (site, request_id) = (Arc::clone(&self.site), self.request_id.clone());
        Exchange::by_galley(head, info, site, self.client, self.local, request_id)
    }

    /// The request for an include of a page, made for the client that requested the page.
    pub(super) fn of_include(
        head: &'h Head<'h, 'h>,
        info: RequestInfo,
        site: Arc<Site>,
        client: SocketAddr,
        page: &IncludingPage,
    ) -> Self {
        let address = page.call.server_address;
        let local = address.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        let local = SocketAddr::new(local, page.call.server_port);
        let request_id = page.call.request_id.clone();
        Self::by_galley(head, info, site, client, local, request_id)
    }

    /// A request that Galley itself makes, so access control has nothing to check.
    fn by_galley(
        head: &'h Head<'h, 'h>,
        info: RequestInfo,
        site: Arc<Site>,
        client: SocketAddr,
        local: SocketAddr,
        request_id: String,
    ) -> Self {
        Exchange {
            head,
            info,
            site,
            body: RequestBody::Empty,
            client,
            local,
            request_id,
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
            is_named_by_proxy: false,
            mailbox: None,
        }
    }

    /// The policy of the site.
    pub fn policy(&self) -> &Policy {
        &self.site.core.policy
    }

    /// The rule that applies to the request.
    pub fn rule(&self) -> Option<&Rule> {
        self.site.rule_of(&self.info)
    }

    /// Whether an upstream may know the method. Unknown methods are forwarded if a rule names them, and on a site without a preset
    /// whose upstream is an HTTP server, where Galley is an ordinary proxy.
    pub fn serves_method(&self) -> bool {
        let method = self.info.method_text();
        let is_named = |rule: &Rule| rule.methods.iter().any(|named| named == method);
        self.info.method() != Method::Other
            || self.rule().is_some_and(is_named)
            || (self.policy().requests.is_gateway && matches!(self.upstream(), Upstream::Http(_)))
    }

    /// The maximum size of the request's body, in bytes.
    pub fn request_body(&self) -> u64 {
        self.site.request_body_of(&self.info)
    }

    /// The fields of the head as the upstream may see them: without the password that granted access.
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
    pub(super) fn info_of_get(&self) -> Option<RequestInfo> {
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
        // The port that was determined before: a trusted proxy may have named it.
        let port = Port::Given(self.info.port());
        let policy = &self.site.core.policy;
        let read = info.parse_at(&line, port, self.head.fields(), policy);
        read.ok().map(|()| info)
    }

    /// The session of the request.
    pub(super) fn visitor(&self, store: &PrivateStore) -> Option<VisitorId> {
        let cookies = session_cookies(self.fields(), self.policy());
        let agent = self.info.user_agent().unwrap_or_default();
        Some(store.visitor(variant_id(&self.key)?, &cookies, agent))
    }

    /// What ends the session of the request, if something private may be stored for it.
    pub(super) fn session_end(&self) -> Option<SessionEnd> {
        let store = self.site.core.private.as_ref()?;
        let visitor = self.info.has_session().then(|| self.visitor(store))?;
        Some(SessionEnd::of(store, visitor?))
    }

    /// The client's address in background requests: the local address, or localhost for a request over a unix socket.
    pub(super) fn own_address(&self) -> IpAddr {
        let local = self.local.ip();
        if local.is_unspecified() {
            IpAddr::V4(Ipv4Addr::LOCALHOST)
        } else {
            local
        }
    }

    /// The upstream of this request: that of the rule, or that of the site.
    pub fn upstream(&self) -> &Upstream {
        self.site.upstream_of(&self.info)
    }

    /// The destination of interim responses to this request; `None` if the client accepts none.
    pub fn interim(&self) -> Option<interim::InterimSender> {
        self.mailbox.as_ref().map(Mailbox::open)
    }
}

/// Whether access control has granted a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AccessState {
    /// It has not been checked.
    #[default]
    Unchecked,
    /// It is granted.
    Granted {
        /// What its body has to be checked for.
        body: Option<BodyCheck>,
        /// Whether a password granted it, which PHP must not see.
        hides_password: bool,
        /// Whether its body must not select a page.
        form: bool,
    },
}

impl AccessState {
    /// Whether the request is granted whatever its body contains.
    pub(super) fn is_settled(self) -> bool {
        matches!(
            self,
            Self::Granted {
                body: None,
                form: false,
                ..
            }
        )
    }
}

/// What the fast path found in memory for a request that it does not answer, so that it need not be looked up again.
#[derive(Debug, Default)]
pub enum EarlierLookup {
    /// Nothing was looked up.
    #[default]
    None,
    /// Nothing is stored under the request's key in memory; the disk may hold something.
    NotInMemory,
    /// Nothing is stored under the request's key, neither in memory nor on disk.
    Nothing,
    /// The entry of the request's key.
    Found(Arc<Entry>),
}

/// The mark of the site to which a key belongs.
pub fn site_mark(key: &[u8]) -> Option<u32> {
    key.last_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

/// The connection over which a request was received.
pub struct Admission<'a> {
    /// The sites of the listener.
    pub sites: &'a Sites,
    /// The client's address: the peer, or the client that the PROXY protocol names.
    pub client: SocketAddr,
    /// The local address.
    pub local: SocketAddr,
    /// The scheme of the request.
    pub scheme: Scheme,
    /// The request id for the log, the upstream and error pages.
    pub request_id: String,
    /// Buffers of an earlier exchange, for reuse.
    pub info: RequestInfo,
    /// Receives interim responses; `None` if the client would not understand them.
    pub mailbox: Option<Mailbox>,
}

/// Parses a head, and determines the client from the connection and trusted proxies.
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

/// Admits a head as an exchange, or refuses it.
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
    // HTTP/1.0 without a host belongs to a site that accepts every host.
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
    info.parse_at(&line, origin.port, head.fields(), &site.core.policy)
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
        is_from_proxy: origin.is_from_proxy,
        is_named_by_proxy: origin.client.ip() != client.ip(),
        mailbox,
    })
}

/// What the fast path determined about a request without a body that it cannot answer itself.
pub struct FastPathResult {
    /// The site of the request.
    pub site: Arc<Site>,
    /// The client that trusted proxies name.
    pub client: SocketAddr,
    /// The cache key; empty if it was not written.
    pub key: Vec<u8>,
    /// The lookup result.
    pub earlier: EarlierLookup,
}

/// Makes an exchange of a request that the fast path has parsed, without parsing or looking up anything again.
pub fn resume<'h>(
    admission: Admission<'_>,
    head: &'h Head<'h, 'h>,
    resumed: FastPathResult,
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
        is_named_by_proxy: resumed.client.ip() != admission.client.ip(),
        mailbox: admission.mailbox,
    }
}

/// The requested protocol, if the site permits it: a single one, in a `GET` without a body, because a body could be mistaken
/// for the first bytes of the new protocol.
fn upgrade(site: &Site, head: &Head<'_, '_>, framing: &Framing<'_>) -> Option<HeaderValue> {
    if !framing.upgrade || head.method != "GET" || !framing.body.is_empty() {
        return None;
    }
    let mut upgrades = head.fields();
    let mut upgrades = upgrades
        .by_ref()
        .filter(|(name, _)| name.eq_ignore_ascii_case("upgrade"));
    let (Some((_, protocol)), None) = (upgrades.next(), upgrades.next()) else {
        return None;
    };
    let protocol = protocol.trim_ascii().to_ascii_lowercase();
    let permitted = site
        .config
        .upgrade
        .iter()
        .find(|one| one.as_bytes() == protocol)?;
    HeaderValue::from_str(permitted).ok()
}
