//! What the operator can do about the decision on a request.

use galley_cache::entry::Entry;
use galley_cache::purge_table::Validity;
use galley_policy::decide::Decision;
use galley_policy::outcome::PassWhy;
use galley_policy::private::PageDifference;

use super::explanation::Explanation;
use super::words::{Advice, not_stored, pass, refused};

/// Why the response does not come from the cache; `None` if it does, or if no cache is involved.
pub(super) fn advice(decision: &Decision, explanation: &Explanation<'_, '_>) -> Option<Advice> {
    match decision {
        Decision::Hit
        | Decision::HitAndRefresh
        | Decision::Patch
        | Decision::Assemble
        | Decision::StaleAccepted
        | Decision::File
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

/// A member who gets pages from PHP because theirs differ.
fn differs(explanation: &Explanation<'_, '_>) -> Advice {
    let core = &explanation.exchange.site.core;
    let mut path_query = Vec::new();
    explanation.exchange.info.path_query(&mut path_query);
    let now = explanation.state.services.clock.tick();
    let all = core.private.as_ref().map(|store| store.differences(now));
    let here = all.unwrap_or_default();
    let here = here.iter().find(|known| *known.path_query == *path_query);
    let public = explanation.found.response();
    let public = public.and_then(|entry| core.compressing.unpacked(entry));
    let stored = public.as_ref().and_then(|entry| entry.body());
    match here {
        Some(known) => Advice::new(
            format!(
                "the page that PHP generates for `{}` is another: {}",
                known.class,
                place(&known.difference, stored.map(|body| &body[..]))
            ),
            "have the theme or plugin print that part with `galley_private()`",
        ),
        None => pass(PassWhy::Differs, Some(&explanation.exchange)),
    }
}

/// Where pages differ, with the bytes of the public page there.
fn place(difference: &PageDifference, stored: Option<&[u8]>) -> String {
    match difference {
        PageDifference::Fragments(name) => {
            format!("the private part `{name}` is not in both, or not in the same order")
        }
        PageDifference::Repeated(name) => {
            format!("the name `{name}` stands for several private parts that are not equal")
        }
        PageDifference::Cookie => "it sets a cookie".to_owned(),
        PageDifference::Status(status) => format!("its status is {status}"),
        PageDifference::Content(at) => {
            let public = stored.and_then(|body| body.get(*at..)).unwrap_or_default();
            let text = String::from_utf8_lossy(public.get(..SHOWN).unwrap_or(public));
            format!(
                "from byte {at} on, where visitors get `{}`",
                text.escape_default()
            )
        }
    }
}

/// Bytes of the public page that are shown.
const SHOWN: usize = 60;

fn missed(explanation: &Explanation<'_, '_>) -> Advice {
    let purge = explanation.touching.map(|touching| {
        let word = touching.kind.word();
        format!("purge number {} (by {word})", touching.number)
    });
    if let (Some(reason), Some((_, Validity::Valid))) =
        (&explanation.reason, &explanation.found.entry)
    {
        // Remembered, but for too long: the next response decides again.
        return not_stored(reason.why, Some(reason));
    }
    match (&explanation.found.entry, purge) {
        (Some((_, Validity::Purged)), Some(purge)) => {
            Advice::fine(format!("{purge} removed the stored page"))
        }
        (Some((_, Validity::SoftPurged)), Some(purge)) => {
            Advice::fine(format!("{purge} made the stored page stale"))
        }
        (Some((entry, Validity::Purged)), None) if !entry.fragments().is_empty() => part(entry),
        (Some((entry, _)), _) if explanation.reason.is_none() => Advice::fine(format!(
            "the stored page is older than its lifetime of {} s",
            entry.life.fresh.as_secs()
        )),
        (_, purge) => match (explanation.lately, purge) {
            (Some(lately), _) => not_stored(lately.why, None),
            (None, Some(purge)) => Advice::fine(format!(
                "{purge} removed this page, and it was not stored again since"
            )),
            (None, None) => Advice::new(
                "nothing is stored for this address",
                "load the page once and run the command again; if nothing is stored then, it prints the reason",
            ),
        },
    }
}

/// A page of which only parts were purged, and which cannot be patched.
fn part(entry: &Entry) -> Advice {
    let versions = || entry.fragments().iter().map(|fragment| &fragment.version);
    if let Some(version) = versions().find(|version| version.is_switched_off()) {
        return Advice::new(
            format!(
                "a part of the page was purged, and the page cannot be patched: `{}` changes without a purge",
                version.label
            ),
            "find the plugin or theme that prints something there which changes by itself",
        );
    }
    if let Some(version) = versions().find(|version| version.has_failed()) {
        return Advice::new(
            format!(
                "a part of the page was purged, and the page cannot be patched: `{}` could not be rendered without it",
                version.label
            ),
            "look into the error log of PHP for what fails in a request with `Galley-Fragment`",
        );
    }
    Advice::fine("a part of the page was purged that cannot be rendered without the page")
}
