//! Redirects to the site's canonical address, and those of its rules. [`galley_policy::redirect`] decides their targets.

use bytes::Bytes;
use galley_policy::outcome::{Outcome, RefusedWhy};
use galley_policy::redirect::Redirection;
use http::header::{self, HeaderMap, HeaderValue};

use super::response::{Response, ResponseBody};
use super::site::{Services, Site};
use crate::fault::Fault;

/// A redirect as a response.
pub fn respond(found: &Redirection) -> Result<Response, Fault> {
    let location = HeaderValue::from_bytes(&found.location).map_err(|_| {
        Fault::new(
            RefusedWhy::BadRequest,
            "the address cannot be used in a redirect",
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

/// Whether a host can be reached over TLS: not while the first certificate of a site with `tls = "auto"` is still being issued.
pub fn has_tls(services: &Services, site: &Site, host: &str) -> bool {
    let waits = services.acme.is_some()
        && site.speaks_tls
        && services.certificates.find(Some(host)).is_none();
    !waits
}
