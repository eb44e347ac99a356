//! The decision about a request, in words.
//!
//! The decision itself comes from [`galley_policy::decide`], with the lookup that serves clients.

use galley_policy::decide::Decision;
use galley_policy::outcome::{ASSEMBLED, PATCHED, PassWhy, RefusedWhy, StaleWhy};

use super::Explanation;
use super::below::PathExplanation;
use crate::fault;
use crate::request::{TRUSTED, backend, before_lookup, check_head, has_tls};

/// What would happen to a request that has been looked up. Passwords are not compared, and no rate limit is counted.
pub(super) fn decision(explanation: &Explanation<'_, '_>) -> Decision {
    let exchange = &explanation.exchange;
    let services = &explanation.state.services;
    let (info, rules) = (&exchange.info, explanation.rules());
    let has_tls = has_tls(services, &exchange.site, info.host());
    match check_head(exchange, &rules, has_tls) {
        Err(fault) => return Decision::Refuse(fault.why),
        Ok(demands) if !demands.passwords.is_empty() && !info.has_authorization() => {
            return Decision::Refuse(RefusedWhy::Password);
        }
        Ok(_) => {}
    }
    if let Some(decision) = before_lookup(services, exchange, &rules, has_tls) {
        return decision;
    }
    explanation
        .found
        .decide(info, &exchange.site.core.rules)
        .below_root(info, explanation.below.kind(), backend(exchange))
}

/// The words of log and header.
pub(super) fn words(decision: &Decision) -> (&'static str, Option<&'static str>) {
    match decision {
        Decision::Purge => ("purge", None),
        Decision::Hit | Decision::HitAndRefresh => ("hit", None),
        Decision::Patch => ("hit", Some(PATCHED)),
        Decision::Assemble => ("hit", Some(ASSEMBLED)),
        Decision::Compare => ("pass", Some(PassWhy::Compared.word())),
        Decision::StaleWhileRevalidate => ("stale", Some(StaleWhy::Revalidating.word())),
        Decision::StaleAccepted => ("stale", Some(StaleWhy::MaxStale.word())),
        Decision::Fetch { why, .. } => ("miss", Some(why.word())),
        Decision::Pass(why) => ("pass", Some(why.word())),
        Decision::Methods | Decision::File => ("file", None),
        Decision::Dashboard => ("dashboard", None),
        Decision::Slash | Decision::Redirect(_) => ("redirect", None),
        Decision::Refuse(why) => ("refused", Some(why.word())),
    }
}

/// The status, if it is Galley's own.
pub(super) fn status(decision: &Decision) -> Option<u16> {
    match decision {
        Decision::Refuse(why) => Some(fault::status(*why)),
        Decision::Slash => Some(301),
        Decision::Redirect(found) => Some(found.status),
        Decision::Methods => Some(204),
        _ => None,
    }
}

/// One sentence for people.
pub(super) fn sentence(decision: &Decision, explanation: &Explanation<'_, '_>) -> String {
    let fixed = match decision {
        Decision::Hit | Decision::HitAndRefresh => {
            let stored = explanation.found.stored();
            let left = stored.map(|stored| stored.life.fresh.saturating_sub(stored.age));
            let left = left.unwrap_or_default().as_secs();
            return format!("answered from memory, fresh for another {left} s");
        }
        Decision::Refuse(why) => return fault::public_text(fault::status(*why)).to_owned(),
        Decision::Redirect(found) => {
            let location = String::from_utf8_lossy(&found.location);
            return format!("redirected to {location}, before the cache lookup");
        }
        Decision::Dashboard => {
            "the dashboard of the site (`dashboard`), which shows nothing without its password"
        }
        Decision::Methods => "answered with the allowed methods",
        Decision::Patch => {
            "the stored page is sent after its purged fragments have been rendered again and replaced in it"
        }
        Decision::Assemble => "the stored page is sent with this member's own fragments in it",
        Decision::Compare => {
            "the upstream generates the page for this member alone; it is compared with the stored one, and the member's own fragments are kept"
        }
        Decision::Purge => "a purge request: Galley purges the pages that it names",
        Decision::StaleWhileRevalidate => {
            "the stale response is sent at once, and one background request fetches it again"
        }
        Decision::StaleAccepted => {
            "the stale response is sent, because the client accepts it (`max-stale`)"
        }
        Decision::Fetch {
            stale_on_error: true,
            ..
        } => "the upstream generates the page; the stale response is sent if that fails",
        Decision::Fetch { .. } => {
            "the upstream generates the page, once for all who request it meanwhile; it is stored if the response allows it"
        }
        Decision::Pass(_) => "forwarded to the upstream as it is, for this visitor alone",
        Decision::File => match explanation.below {
            PathExplanation::File {
                kept: Some(age), ..
            } if age < TRUSTED => "a file below the root is sent, from memory",
            PathExplanation::File { kept: Some(_), .. } => {
                "a file below the root is sent, from memory once the disk has been checked again"
            }
            _ => "a file below the root is sent",
        },
        Decision::Slash => "redirected to the directory's address, with its slash",
    };
    fixed.to_owned()
}
