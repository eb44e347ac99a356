//! Applies access control as `galley_policy::access` decides.
//!
//! [`authorize`] checks the head alone, before the body is received and before the cache, a file or PHP is used. The front
//! thread calls it early; [`super::handle`] calls it for requests that have not been checked. [`check_body`] checks the
//! body. [`is_open`] is for hits of the fast path, and returns false whenever more than an address has to be checked.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use galley_policy::access::{
    self, BodyCheck, Bucket, By, RateLimit, is_visitors_form, passwords, xmlrpc,
};
use galley_policy::outcome::{Outcome, RefusedWhy};
use galley_policy::request_info::RequestInfo;
use galley_policy::spellings::FormScanner;
use http::header::{self, HeaderMap, HeaderValue};

use super::before_lookup::check_head;
use super::exchange::{AccessState, Exchange};
use super::response::{Response, ResponseBody};
use super::site::{Services, Site};
use crate::fault::Fault;
use galley_access::{LimitedSite, PasswordCheck};
use galley_upstream::body::{RequestBody, RequestBodyReader};

/// Whether a hit may be sent without further checks.
pub fn is_open(site: &Site, info: &RequestInfo, client: IpAddr) -> bool {
    site.access.is_open_to_all
        || access::judge(&site.core.policy, info, site.access.client(client))
            .is_ok_and(|conditions| conditions.are_none())
}

/// Grants or denies a request access. A request that was granted access is not checked again.
pub async fn authorize(services: &Services, exchange: &mut Exchange<'_>) -> Result<(), Fault> {
    if exchange.access != AccessState::Unchecked {
        return Ok(());
    }
    let site = Arc::clone(&exchange.site);
    let policy = &site.core.policy;
    let has_tls = services.has_tls(&site, exchange.info.host());
    let conditions = check_head(exchange, policy, has_tls)?;
    for (bucket, limit) in conditions.limits {
        take(services, exchange, bucket, limit)?;
    }
    for by in &conditions.passwords {
        verify(services, exchange, *by).await?;
    }
    exchange.access = AccessState::Granted {
        body: conditions.body,
        hides_password: !conditions.passwords.is_empty() && !policy.flags.basic_auth_forward,
        form: conditions.form,
    };
    Ok(())
}

fn take(
    services: &Services,
    exchange: &Exchange<'_>,
    bucket: Bucket,
    limit: &RateLimit,
) -> Result<(), Fault> {
    let (site, client) = (limited_site(&exchange.site), exchange.client.ip());
    let now = services.clock.tick();
    services
        .clients
        .take(site, bucket, limit, client, now)
        .map_err(|wait| limited(wait, format!("the limit {} of {bucket}", limit.rate())))
}

/// The site's identity in the rate limits of clients.
pub fn limited_site(site: &Site) -> LimitedSite<'_> {
    LimitedSite {
        mark: site.mark,
        name: site.core.purges.site(),
    }
}

fn limited(wait: Duration, note: String) -> Fault {
    let seconds = wait.as_millis().div_ceil(1_000).max(1);
    Fault {
        retry_after_s: Some(u32::try_from(seconds).unwrap_or(u32::MAX)),
        ..Fault::new(RefusedWhy::Limited, note)
    }
}

async fn verify(services: &Services, exchange: &Exchange<'_>, by: By) -> Result<(), Fault> {
    let refuse = |note: &'static str| Err(Fault::new(RefusedWhy::Password, note));
    let mut of_rules = exchange.site.access.passwords.iter();
    let of_rule = of_rules.find(|(one, _)| *one == by);
    let fields = || exchange.head.fields();
    let mut lines = fields().filter(|(name, _)| name.eq_ignore_ascii_case("authorization"));
    let (Some((_, passwords)), Some((_, line))) = (of_rule, lines.next()) else {
        return refuse("no password was sent");
    };
    // PHP might use the other one of two.
    let Some(credentials) = passwords::offered(line).filter(|_| lines.next().is_none()) else {
        return refuse("`Authorization` does not contain a name and a password");
    };
    let (client, now) = (exchange.client.ip(), services.clock.tick());
    let site = limited_site(&exchange.site);
    let clients = &services.clients;
    let may_compare = || match RateLimit::new(TRIES.0, 60, TRIES.1) {
        Some(limit) => clients.take(site, Bucket::Password, &limit, client, now),
        None => Ok(()),
    };
    let verified = clients.verify(passwords, client, credentials, now, may_compare);
    match verified.await {
        PasswordCheck::Right => Ok(()),
        PasswordCheck::Wrong => refuse("a wrong name or password"),
        PasswordCheck::TooMany(wait) => Err(limited(wait, "passwords to compare".to_owned())),
    }
}

/// Checks the body of a permitted request. Returns a response to send in place of the upstream's, or a denial.
pub(super) async fn check_body(exchange: &Exchange<'_>) -> Result<Option<Response>, Fault> {
    let AccessState::Granted { body, form, .. } = exchange.access else {
        return Ok(None);
    };
    let content_type = field(exchange, "content-type");
    if form {
        refuse_pages(exchange, content_type).await?;
    }
    let Some(check) = body else {
        return Ok(None);
    };
    match check {
        BodyCheck::XmlRpc => call(&exchange.body).await,
        BodyCheck::VisitorsForm => match &exchange.body {
            RequestBody::Memory(body) if is_visitors_form(content_type, body) => Ok(None),
            RequestBody::Empty => Ok(None),
            RequestBody::Memory(_) | RequestBody::File(_) | RequestBody::Streamed(_) => {
                let note = "the body is not that of the form of a protected post";
                Err(Fault::new(RefusedWhy::Admin, note))
            }
        },
        BodyCheck::Authors => {
            if has_variable(exchange, access::form(content_type)).await? {
                let note = "the body requests an author";
                return Err(Fault::new(RefusedWhy::Authors, note));
            }
            Ok(None)
        }
    }
}

/// Denies a body that would select another page than the address does, because access to that page may be restricted.
async fn refuse_pages(exchange: &Exchange<'_>, content_type: &[u8]) -> Result<(), Fault> {
    let form = exchange.site.core.policy.guard.form(content_type);
    if has_variable(exchange, form).await? {
        let note =
            "the body selects a page by WordPress's variables, which no rule can be compared with";
        return Err(Fault::new(RefusedWhy::Network, note));
    }
    Ok(())
}

/// Whether a body contains a variable that its scanner looks for.
async fn has_variable(exchange: &Exchange<'_>, mut form: FormScanner<'_>) -> Result<bool, Fault> {
    let lines = exchange.head.fields();
    let types = lines.filter(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    if types.count() > 1 {
        // PHP might use either.
        return Ok(true);
    }
    let mut reader = exchange.body.reader();
    while let Some(piece) = next(&mut reader).await? {
        if !form.push(&piece) {
            break;
        }
    }
    Ok(form.finish())
}

/// The value of a field that occurs exactly once.
fn field<'e>(exchange: &'e Exchange<'_>, wanted: &str) -> &'e [u8] {
    let mut lines = exchange
        .head
        .fields()
        .filter(|(name, _)| name.eq_ignore_ascii_case(wanted));
    match (lines.next(), lines.next()) {
        (Some((_, value)), None) => value,
        _ => b"",
    }
}

/// Finds the called XML-RPC method. A call of a disabled method gets the fault that the method does not exist.
async fn call(body: &RequestBody) -> Result<Option<Response>, Fault> {
    let mut scanner = xmlrpc::XmlRpcScanner::default();
    let mut reader = body.reader();
    while let Some(piece) = next(&mut reader).await? {
        scanner.push(&piece);
    }
    match scanner.finish() {
        xmlrpc::Call::Fine => Ok(None),
        xmlrpc::Call::Forbidden | xmlrpc::Call::Unreadable => {
            let mut fields = HeaderMap::new();
            let xml = HeaderValue::from_static("text/xml; charset=UTF-8");
            fields.insert(header::CONTENT_TYPE, xml);
            let no_store = HeaderValue::from_static("no-store");
            fields.insert(header::CACHE_CONTROL, no_store);
            let body = ResponseBody::Bytes(Bytes::from_static(xmlrpc::FAULT.as_bytes()));
            let outcome = Outcome::Refused(RefusedWhy::XmlRpc);
            Ok(Some(Response::new(200, fields, body, outcome)))
        }
    }
}

async fn next(reader: &mut RequestBodyReader) -> Result<Option<Bytes>, Fault> {
    let chunk = std::future::poll_fn(|cx| reader.poll_chunk(cx)).await;
    chunk.map_err(|error| Fault::new(RefusedWhy::Internal, format!("reading a body: {error}")))
}

/// Password comparisons per client: per minute, and as a burst. A browser requests all assets of a page before it knows that the
/// first password was right.
const TRIES: (u64, u64) = (10, 30);
