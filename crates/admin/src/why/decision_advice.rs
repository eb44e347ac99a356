//! Advice about the decision on a request.

use std::fmt::Display;

use galley_cache::entry::Entry;
use galley_cache::purge_table::Validity;
use galley_policy::decide::Decision;
use galley_policy::outcome::PassWhy;
use galley_policy::private::PageDifference;

use super::advice::{Advice, ReasonText};
use super::explanation::Explanation;
use super::reasons;
use super::words::{not_stored, pass, refused, short_lived, uncached};

/// The reason why the response does not come from the cache, or why the stored page has a short lifetime; `None` if there is
/// none, or if no cache is involved.
pub(super) fn advice(decision: &Decision, explanation: &Explanation<'_, '_>) -> Option<Advice> {
    match decision {
        Decision::Hit
        | Decision::HitAndRefresh
        | Decision::Patch
        | Decision::Assemble
        | Decision::StaleAccepted => {
            let entry = explanation.found.entry.as_ref();
            entry.and_then(|(entry, _)| short_lived(entry))
        }
        Decision::File
        | Decision::Slash
        | Decision::Redirect(_)
        | Decision::Methods
        | Decision::Dashboard
        | Decision::Purge => None,
        Decision::Refuse(why) => {
            let barred = super::access::advice(&explanation.exchange);
            Some(barred.unwrap_or_else(|| refused(*why)))
        }
        Decision::Pass(PassWhy::Remembered) => Some(match &explanation.reason {
            Some(reason) => not_stored(reason.why, Some(reason)),
            None => pass(PassWhy::Remembered, Some(&explanation.exchange)),
        }),
        Decision::Compare => Some(pass(PassWhy::Compared, Some(&explanation.exchange))),
        Decision::Pass(PassWhy::Differs) => Some(differs(explanation)),
        Decision::Pass(why) => Some(pass(*why, Some(&explanation.exchange))),
        Decision::StaleWhileRevalidate | Decision::Fetch { .. } => Some(missed(explanation)),
    }
}

/// The reason why a member gets a page from PHP: it differs from the public page.
fn differs(explanation: &Explanation<'_, '_>) -> Advice {
    let core = &explanation.exchange.site.core;
    let mut path_query = Vec::new();
    explanation.exchange.info.path_query(&mut path_query);
    let now = explanation.state.services.clock.tick();
    let differences = core.private.as_ref().map(|store| store.differences(now));
    let here = differences.unwrap_or_default();
    let here = here.iter().find(|known| *known.path_query == *path_query);
    let public = explanation.found.response();
    let public = public.and_then(|entry| core.compressing.unpacked(entry));
    let stored = public.as_ref().and_then(|entry| entry.body());
    match here {
        Some(known) => {
            let class = known.class.to_string();
            difference(&class, &known.difference, stored.map(|body| &body[..]))
        }
        None => pass(PassWhy::Differs, Some(&explanation.exchange)),
    }
}

/// Where the pages differ, with the text of the public page there.
fn difference(class: &str, difference: &PageDifference, stored: Option<&[u8]>) -> Advice {
    let class = ("class", &class as &dyn Display);
    match difference {
        PageDifference::Fragments(name) => {
            reasons::DIFFERS_FRAGMENTS.with(&[class, ("part", name)])
        }
        PageDifference::Repeated(name) => reasons::DIFFERS_REPEATED.with(&[class, ("part", name)]),
        PageDifference::Cookie => reasons::DIFFERS_COOKIE.with(&[class]),
        PageDifference::Status(status) => {
            reasons::DIFFERS_STATUS.with(&[class, ("status", status)])
        }
        PageDifference::Content(at) => {
            let public = stored.and_then(|body| body.get(*at..)).unwrap_or_default();
            let text = String::from_utf8_lossy(public.get(..SHOWN).unwrap_or(public));
            let text = text.escape_default();
            reasons::DIFFERS_CONTENT.with(&[class, ("byte", at), ("text", &text)])
        }
    }
}

/// The maximum length of the shown text, in bytes.
const SHOWN: usize = 60;

fn missed(explanation: &Explanation<'_, '_>) -> Advice {
    let by_purge = |reason: &'static ReasonText| {
        let touching = explanation.touching;
        touching.map(|one| reason.with(&[("number", &one.number), ("kind", &one.kind.word())]))
    };
    if let (Some(reason), Some((_, Validity::Valid))) =
        (&explanation.reason, &explanation.found.entry)
    {
        // The hit-for-pass entry has expired: the next response decides again.
        return not_stored(reason.why, Some(reason));
    }
    let entry = explanation.found.entry.as_ref();
    let by_purge_of_entry = match entry {
        Some((_, Validity::Purged)) => by_purge(reasons::MISSED_PURGED),
        Some((_, Validity::SoftPurged)) => by_purge(reasons::MISSED_SOFT_PURGED),
        _ => None,
    };
    match (entry, by_purge_of_entry) {
        (_, Some(advice)) => advice,
        (Some((entry, Validity::Purged)), None) if !entry.fragments().is_empty() => part(entry),
        (Some((entry, _)), None) if explanation.reason.is_none() => {
            let seconds = entry.lifetime.fresh.as_secs();
            short_lived(entry).unwrap_or_else(|| reasons::MISSED_OLD.with(&[("seconds", &seconds)]))
        }
        (_, None) => match explanation.last_not_stored {
            Some(page) => uncached(page),
            None => by_purge(reasons::MISSED_OR_PURGED)
                .unwrap_or_else(|| reasons::MISSED_NOTHING.plain()),
        },
    }
}

/// The reason why a page whose fragments were purged cannot be patched.
fn part(entry: &Entry) -> Advice {
    let versions = || entry.fragments().iter().map(|fragment| &fragment.version);
    if let Some(version) = versions().find(|version| version.is_switched_off()) {
        return reasons::PART_CHANGES.with(&[("part", &version.label)]);
    }
    if let Some(version) = versions().find(|version| version.has_failed()) {
        return reasons::PART_FAILED.with(&[("part", &version.label)]);
    }
    reasons::PART_ALONE.plain()
}
