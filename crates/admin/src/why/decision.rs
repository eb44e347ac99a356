//! The decision about a request, in words.
//!
//! The decision itself is that of [`galley_policy::decide`], with the same lookup as for clients.

use galley_policy::decide::Decision;
use galley_policy::outcome::{ASSEMBLED, PATCHED, PassWhy, RefusedWhy, StaleWhy};

use super::Explanation;
use super::advice::Advice;
use super::below::PathExplanation;
use super::reasons;
use galley_request::fault;
use galley_request::{TRUSTED, backend, before_lookup, check_head};

/// The decision on a request after the lookup. Passwords are not compared, and no rate limit is counted.
pub(super) fn decision(explanation: &Explanation<'_, '_>) -> Decision {
    let exchange = &explanation.exchange;
    let services = &explanation.state.services;
    let (info, policy) = (&exchange.info, explanation.policy());
    let has_tls = services.has_tls(&exchange.site, info.host());
    match check_head(exchange, &policy, has_tls) {
        Err(fault) => return Decision::Refuse(fault.why),
        Ok(conditions) if !conditions.passwords.is_empty() && !info.has_authorization() => {
            return Decision::Refuse(RefusedWhy::Password);
        }
        Ok(_) => {}
    }
    if let Some(decision) = before_lookup(services, exchange, &policy, has_tls) {
        return decision;
    }
    explanation
        .found
        .decide(info, &exchange.site.core.policy)
        .below_root(info, explanation.below.kind(), backend(exchange))
}

/// The words in log and `Cache-Status`.
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

/// The status, if the decision determines it.
pub(super) fn status(decision: &Decision) -> Option<u16> {
    match decision {
        Decision::Refuse(why) => Some(fault::status(*why)),
        Decision::Slash => Some(301),
        Decision::Redirect(found) => Some(found.status),
        Decision::Methods => Some(204),
        _ => None,
    }
}

/// The sentence for people; `None`: an error response, whose text is the sentence.
pub(super) fn sentence(decision: &Decision, explanation: &Explanation<'_, '_>) -> Option<Advice> {
    if let Some(why) = unreachable(decision, explanation) {
        return Some(reasons::REFUSED_DOWN.plain().noting(&why));
    }
    let fixed = match decision {
        Decision::Hit | Decision::HitAndRefresh => {
            let stored = explanation.found.stored();
            let left = stored.map(|stored| stored.lifetime.fresh.saturating_sub(stored.age));
            let left = left.unwrap_or_default().as_secs();
            return Some(reasons::NOW_HIT.with(&[("seconds", &left)]));
        }
        Decision::Refuse(_) => return None,
        Decision::Redirect(found) => {
            let location = String::from_utf8_lossy(&found.location);
            return Some(reasons::NOW_REDIRECT.with(&[("location", &location)]));
        }
        Decision::Dashboard => reasons::NOW_DASHBOARD,
        Decision::Methods => reasons::NOW_METHODS,
        Decision::Patch => reasons::NOW_PATCH,
        Decision::Assemble => reasons::NOW_ASSEMBLE,
        Decision::Compare => reasons::NOW_COMPARE,
        Decision::Purge => reasons::NOW_PURGE,
        Decision::StaleWhileRevalidate => reasons::NOW_REVALIDATE,
        Decision::StaleAccepted => reasons::NOW_STALE,
        Decision::Fetch {
            stale_on_error: true,
            ..
        } => reasons::NOW_FETCH_OR_STALE,
        Decision::Fetch { .. } => reasons::NOW_FETCH,
        Decision::Pass(_) => reasons::NOW_PASS,
        Decision::File => match explanation.below {
            PathExplanation::File {
                checked: Some(age), ..
            } if age < TRUSTED => reasons::NOW_FILE_TRUSTED,
            PathExplanation::File {
                checked: Some(_), ..
            } => reasons::NOW_FILE_CHECKED,
            _ => reasons::NOW_FILE,
        },
        Decision::Slash => reasons::NOW_SLASH,
    };
    Some(fixed.plain())
}

/// Why no server of the upstream that would get the request can be connected to; `None` if one can, or a stale page would be sent.
fn unreachable(decision: &Decision, explanation: &Explanation<'_, '_>) -> Option<String> {
    let needs_upstream = match decision {
        Decision::Patch | Decision::Compare | Decision::Pass(_) => true,
        Decision::Fetch { stale_on_error, .. } => !stale_on_error,
        Decision::Hit
        | Decision::HitAndRefresh
        | Decision::Assemble
        | Decision::StaleWhileRevalidate
        | Decision::StaleAccepted
        | Decision::File
        | Decision::Slash
        | Decision::Redirect(_)
        | Decision::Methods
        | Decision::Dashboard
        | Decision::Purge
        | Decision::Refuse(_) => false,
    };
    let stats = explanation.exchange.upstream().upstream_stats();
    let stats = stats.filter(|_| needs_upstream)?;
    let failures = stats.connect_failures();
    let failures: Vec<String> = failures
        .map(|(address, failure)| format!("{address}: {failure}"))
        .collect();
    (failures.len() == stats.servers().len()).then(|| failures.join(", "))
}
