//! From what was seen before and after an event to its tally. Pure.

use std::time::Instant;

use super::{Finding, Tally, Wrong, diff, look::Seen};

/// The pages around one event. All lists are in the order of `targets`.
pub(super) struct Around<'a> {
    pub(super) targets: &'a [&'a str],
    /// Which pages were hits before the event.
    pub(super) were_hits: &'a [bool],
    /// Fresh compositions before it.
    pub(super) before: &'a [Seen],
    /// The first answers after it.
    pub(super) first: &'a [Seen],
    /// Fresh compositions after it.
    pub(super) after: &'a [Seen],
    /// When the editor had the answer.
    pub(super) answered: Instant,
}

/// What happened. `right_after` is that of the first answers; `None` when one of them was stale.
pub(super) fn tally(around: &Around<'_>) -> Tally {
    let mut tally = Tally {
        right_after: Some(std::time::Duration::ZERO),
        ..Tally::default()
    };
    let pages = around
        .targets
        .iter()
        .zip(around.were_hits)
        .zip(around.before)
        .zip(around.first.iter().zip(around.after));
    for (((target, was_hit), before), (first, after)) in pages {
        let changed = before.essence != after.essence;
        tally.changed += usize::from(changed);
        if first.essence != after.essence {
            tally.stale += 1;
            tally.right_after = None;
            tally.findings.push(Finding {
                what: Wrong::Stale,
                page: (*target).to_owned(),
                difference: diff::lines(&first.essence, &after.essence),
            });
        } else if changed {
            let took = first.at.saturating_duration_since(around.answered);
            tally.right_after = tally.right_after.map(|longest| longest.max(took));
        }
        if *was_hit && !first.hit {
            tally.purged += 1;
            if !changed {
                tally.over += 1;
                tally.findings.push(Finding {
                    what: Wrong::Over,
                    page: (*target).to_owned(),
                    difference: first.how.clone(),
                });
            }
        }
    }
    tally
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn seen(hit: bool, essence: &str, at: Instant) -> Seen {
        Seen {
            hit,
            how: String::new(),
            essence: essence.to_owned(),
            at,
        }
    }

    #[test]
    fn each_kind_of_page_is_counted_once() {
        let start = Instant::now();
        let late = start + Duration::from_millis(7);
        // Name, hit before, before, first answer (hit, text), after; changed, stale, purged, over.
        let rows = [
            ("kept", true, "a", (true, "a"), "a", (0, 0, 0, 0)),
            ("purged", true, "a", (false, "b"), "b", (1, 0, 1, 0)),
            ("stale", true, "a", (true, "a"), "b", (1, 1, 0, 0)),
            ("over", true, "a", (false, "a"), "a", (0, 0, 1, 1)),
            ("never kept", false, "a", (false, "a"), "a", (0, 0, 0, 0)),
            (
                "refreshed before",
                true,
                "a",
                (true, "b"),
                "b",
                (1, 0, 0, 0),
            ),
        ];
        for (name, was_hit, before, (hit, text), after, wanted) in rows {
            let counted = tally(&Around {
                targets: &[name],
                were_hits: &[was_hit],
                before: &[seen(true, before, start)],
                first: &[seen(hit, text, late)],
                after: &[seen(false, after, late)],
                answered: start,
            });
            let got = (counted.changed, counted.stale, counted.purged, counted.over);
            assert_eq!(got, wanted, "{name}");
            let right = match wanted {
                (_, 1, _, _) => None,
                (1, _, _, _) => Some(Duration::from_millis(7)),
                _ => Some(Duration::ZERO),
            };
            assert_eq!(counted.right_after, right, "{name}");
            assert_eq!(counted.findings.len(), wanted.1 + wanted.3, "{name}");
        }
    }
}
