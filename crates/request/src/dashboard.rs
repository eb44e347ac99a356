//! Requests for the dashboard of a site, on the site's own address. The thread of the admin interface answers them; this
//! module passes them on, and decides which clients may use it at all: those connected over TLS, or from this machine.

use bytes::Bytes;
use galley_policy::outcome::{Outcome, RefusedWhy};
use galley_policy::request_info::{Method, Scheme};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::dashboard_gateway::DashboardRequest;
use super::exchange::Exchange;
use super::response::{Response, ResponseBody};
use super::site::Services;
use crate::fault::Fault;
use galley_dashboard::MAX_BODY;
use galley_upstream::body::RequestBody;

/// Whether a request for the dashboard may continue: nobody can intercept it.
pub(super) fn is_protected(exchange: &Exchange<'_>) -> bool {
    exchange.info.scheme() == Scheme::Https || is_local(exchange)
}

/// Whether both ends are on this machine, and the browser knows that. A proxy on this machine forwards the site's own host.
fn is_local(exchange: &Exchange<'_>) -> bool {
    let is_loopback = exchange.client.ip().to_canonical().is_loopback();
    is_loopback && matches!(exchange.info.host(), "localhost" | "127.0.0.1" | "[::1]")
}

/// Answers a request for the dashboard.
pub(super) async fn respond(
    services: &Services,
    exchange: &Exchange<'_>,
) -> Result<Response, Fault> {
    let request = request(exchange)?;
    let response = services.dashboards.respond(request).await;
    let response = response.ok_or_else(|| {
        let note = "the admin interface does not answer for the dashboard";
        Fault::new(RefusedWhy::Internal, note)
    })?;
    let body = if exchange.info.method() == Method::Head {
        ResponseBody::Unsent(u64::try_from(response.body.len()).ok())
    } else {
        ResponseBody::Bytes(response.body)
    };
    let outcome = response
        .refused
        .map_or(Outcome::Dashboard, Outcome::Refused);
    Ok(Response::new(
        response.status,
        response.fields,
        body,
        outcome,
    ))
}

fn request(exchange: &Exchange<'_>) -> Result<DashboardRequest, Fault> {
    let too_large = || {
        let note = "no request of the dashboard is as large as this";
        Fault::new(RefusedWhy::BodyTooLarge, note)
    };
    let body = match &exchange.body {
        RequestBody::Empty => Bytes::new(),
        RequestBody::Memory(body) if body.len() <= MAX_BODY => body.clone(),
        RequestBody::Memory(_) | RequestBody::File(_) | RequestBody::Streamed(_) => {
            return Err(too_large());
        }
    };
    let info = &exchange.info;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let scheme = match info.scheme() {
        Scheme::Https => "https",
        Scheme::Http => "http",
    };
    Ok(DashboardRequest {
        row: exchange.site.row,
        method: info.method_text().to_owned(),
        path: text(info.decoded_path()),
        query: info.raw_query().map(text),
        fields: fields(exchange),
        body,
        client: exchange.client.ip(),
        origin: format!("{scheme}://{}", info.authority()),
    })
}

/// The fields that the dashboard reads.
fn fields(exchange: &Exchange<'_>) -> HeaderMap {
    let mut fields = HeaderMap::new();
    for (name, value) in exchange.head.fields() {
        let name = HeaderName::from_bytes(name.as_bytes());
        let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(value)) else {
            continue;
        };
        if READ.contains(&name.as_str()) {
            fields.append(name, value);
        }
    }
    fields
}

const READ: &[&str] = &[
    "content-type",
    "cookie",
    "origin",
    "sec-fetch-site",
    "x-galley-key",
];
