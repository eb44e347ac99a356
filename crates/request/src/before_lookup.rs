//! The stages of a request before the cache lookup. Requests and `galley why` use the same two functions, so the order of
//! the stages is defined once.
//!
//! There are two, because the body of a request is received between them: [`check_head`] decides with the head alone
//! whether the request is allowed, [`before_lookup`] handles requests that are not for a page.

use galley_policy::access::{self, AccessConditions};
use galley_policy::decide::{self, Decision};
use galley_policy::outcome::RefusedWhy;
use galley_policy::redirect;
use galley_policy::site::Policy;

use super::dashboard;
use super::exchange::Exchange;
use super::forward::is_loop;
use super::purge::PurgeRequest;
use super::site::Services;
use crate::fault::Fault;

/// Whether a request is allowed, and what has to be checked first: rate limits, passwords, its body.
///
/// `policy` is that of its site; `has_tls`: whether its host can be reached over TLS.
pub fn check_head<'r>(
    exchange: &Exchange<'_>,
    policy: &'r Policy,
    has_tls: bool,
) -> Result<AccessConditions<'r>, Fault> {
    if !exchange.serves_method() {
        let note = "no rule for this path names the method";
        return Err(Fault::new(RefusedWhy::UnknownMethod, note));
    }
    let client = exchange.site.access.client(exchange.client.ip());
    let judged = access::judge(policy, &exchange.info, client);
    let is_open = judged.as_ref().is_ok_and(AccessConditions::are_none);
    // Plugins send purges without a password, and these go no further.
    if !is_open && PurgeRequest::is_allowed(exchange) {
        return Ok(AccessConditions::default());
    }
    let mut conditions = judged.map_err(|reason| {
        let why = reason.why();
        Fault {
            own_status: reason.status(policy),
            ..Fault::new(why, format!("by {reason}"))
        }
    })?;
    // No password is requested over plain HTTP if the response redirects to TLS.
    if !conditions.passwords.is_empty() && redirect::of(&exchange.info, policy, has_tls).is_some() {
        conditions.passwords.clear();
    }
    Ok(conditions)
}

/// The kind of a permitted request, if that is decided without a lookup: a purge, a redirect, the dashboard, or denied.
///
/// `policy` and `has_tls` as for [`check_head`].
pub fn before_lookup(
    services: &Services,
    exchange: &Exchange<'_>,
    policy: &Policy,
    has_tls: bool,
) -> Option<Decision> {
    match PurgeRequest::of(exchange) {
        Some(PurgeRequest::Allowed(_)) => return Some(Decision::Purge),
        Some(PurgeRequest::Forbidden) => return Some(Decision::Refuse(RefusedWhy::Method)),
        None => {}
    }
    let decided = match decide::before_lookup(&exchange.info, policy, has_tls) {
        Some(Decision::Dashboard) if !dashboard::is_protected(exchange) => {
            Some(Decision::Refuse(RefusedWhy::NeedsTls))
        }
        decided => decided,
    };
    decided.or_else(|| is_loop(services, exchange).then_some(Decision::Refuse(RefusedWhy::Loop)))
}
