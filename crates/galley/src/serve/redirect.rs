//! Redirects to the site's one address, and those of its rules. Where they lead is decided in [`galley_rules::redirect`].

use bytes::Bytes;
use galley_rules::outcome::{Outcome, RefusedWhy};
use galley_rules::redirect;
use http::header::{self, HeaderMap, HeaderValue};

use super::answer::{Answer, Body};
use super::exchange::Exchange;
use super::site::{Services, Site};
use crate::fault::Fault;

/// The redirect of a request that is to be asked elsewhere. Comes before anything stored is looked at.
pub fn answer(services: &Services, exchange: &Exchange<'_>) -> Result<Option<Answer>, Fault> {
    let (facts, site) = (&exchange.facts, &exchange.site);
    let has_tls = !waits_for_certificate(services, site, facts.host());
    let Some(found) = redirect::of(facts, &site.core.rules, has_tls) else {
        return Ok(None);
    };
    let location = HeaderValue::from_bytes(&found.location).map_err(|_| {
        Fault::new(
            RefusedWhy::BadRequest,
            "an address that cannot be redirected to",
        )
    })?;
    let mut fields = HeaderMap::new();
    fields.insert(header::LOCATION, location);
    Ok(Some(Answer::new(
        found.status,
        fields,
        Body::Bytes(Bytes::new()),
        Outcome::Redirect,
    )))
}

/// Whether the first certificate of a site that gets its own is still on its way.
fn waits_for_certificate(services: &Services, site: &Site, host: &str) -> bool {
    services.acme.is_some() && site.speaks_tls && services.certificates.find(Some(host)).is_none()
}
