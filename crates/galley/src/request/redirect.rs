//! Redirects to the site's one address, and those of its rules. Where they lead is decided in [`galley_policy::redirect`].

use bytes::Bytes;
use galley_policy::outcome::{Outcome, RefusedWhy};
use galley_policy::redirect::{self, Redirection};
use http::header::{self, HeaderMap, HeaderValue};

use super::exchange::Exchange;
use super::response::{Response, ResponseBody};
use super::site::{Services, Site};
use crate::fault::Fault;

/// A redirect as a response.
pub fn respond(found: &Redirection) -> Result<Response, Fault> {
    let location = HeaderValue::from_bytes(&found.location).map_err(|_| {
        Fault::new(
            RefusedWhy::BadRequest,
            "an address that cannot be redirected to",
        )
    })?;
    let mut fields = HeaderMap::new();
    fields.insert(header::LOCATION, location);
    Ok(Response::new(
        found.status,
        fields,
        ResponseBody::Bytes(Bytes::new()),
        Outcome::Redirect,
    ))
}

/// Whether a request is redirected before anything stored is looked up.
pub fn applies(services: &Services, exchange: &Exchange<'_>) -> bool {
    let (info, site) = (&exchange.info, &exchange.site);
    let has_tls = has_tls(services, site, info.host());
    redirect::of(info, &site.core.rules, has_tls).is_some()
}

/// Whether a host can be reached over TLS: not while the first certificate of a site that gets its own is still on its way.
pub fn has_tls(services: &Services, site: &Site, host: &str) -> bool {
    let waits = services.acme.is_some()
        && site.speaks_tls
        && services.certificates.find(Some(host)).is_none();
    !waits
}
