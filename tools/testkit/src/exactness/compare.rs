//! Compares the pages from before and after an event. Pure functions.

use std::time::{Duration, Instant};

use super::{FindingKind, PageFinding, PurgeCounts, diff, fetch_pages::FetchedPage};

/// The pages before and after an event. All lists are in the order of `targets`.
pub(super) struct EventPages<'a> {
    pub(super) targets: &'a [&'a str],
    /// Which pages were hits before the event.
    pub(super) were_hits: &'a [bool],
    /// Pages generated without a cache before the event.
    pub(super) before: &'a [FetchedPage],
    /// The first responses after the event.
    pub(super) first: &'a [FetchedPage],
    /// Pages generated without a cache after the event.
    pub(super) after: &'a [FetchedPage],
    /// When the editor received the response to the edit.
    pub(super) responded_at: Instant,
}

/// Counts the effect of the event. `corrected_after` covers only the first responses; it is `None` if one of them was stale.
pub(super) fn compare(pages: &EventPages<'_>) -> PurgeCounts {
    let mut counts = PurgeCounts {
        corrected_after: Some(Duration::ZERO),
        ..PurgeCounts::default()
    };
    let rows = pages
        .targets
        .iter()
        .zip(pages.were_hits)
        .zip(pages.before)
        .zip(pages.first.iter().zip(pages.after));
    for (((target, was_hit), before), (first, after)) in rows {
        let changed = before.content != after.content;
        counts.changed += usize::from(changed);
        counts.changed_hits += usize::from(changed && *was_hit);
        if first.content != after.content {
            counts.stale += 1;
            counts.corrected_after = None;
            counts.findings.push(PageFinding {
                kind: FindingKind::Stale,
                page: (*target).to_owned(),
                difference: diff::lines(&first.content, &after.content),
            });
        } else if changed {
            let elapsed = first
                .received_at
                .saturating_duration_since(pages.responded_at);
            counts.corrected_after = counts.corrected_after.map(|longest| longest.max(elapsed));
        }
        if *was_hit && !first.is_hit && !first.has_expired() {
            counts.purged += 1;
            if !changed {
                counts.overpurged += 1;
                counts.findings.push(PageFinding {
                    kind: FindingKind::Overpurged,
                    page: (*target).to_owned(),
                    difference: first.cache_status.clone(),
                });
            }
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(is_hit: bool, content: &str, received_at: Instant) -> FetchedPage {
        FetchedPage {
            is_hit,
            cache_status: String::new(),
            content: content.to_owned(),
            received_at,
        }
    }

    #[test]
    fn each_kind_of_page_is_counted_once() {
        let start = Instant::now();
        let later = start + Duration::from_millis(7);
        // Name, hit before, before, first response (hit, text), after; changed, stale, purged, overpurged.
        let rows = [
            ("stored", true, "a", (true, "a"), "a", (0, 0, 0, 0)),
            ("purged", true, "a", (false, "b"), "b", (1, 0, 1, 0)),
            ("stale", true, "a", (true, "a"), "b", (1, 1, 0, 0)),
            ("overpurged", true, "a", (false, "a"), "a", (0, 0, 1, 1)),
            ("never stored", false, "a", (false, "a"), "a", (0, 0, 0, 0)),
            (
                "refreshed before",
                true,
                "a",
                (true, "b"),
                "b",
                (1, 0, 0, 0),
            ),
        ];
        for (name, was_hit, before, (hit, text), after, expected) in rows {
            let counts = compare(&EventPages {
                targets: &[name],
                were_hits: &[was_hit],
                before: &[page(true, before, start)],
                first: &[page(hit, text, later)],
                after: &[page(false, after, later)],
                responded_at: start,
            });
            let actual = (
                counts.changed,
                counts.stale,
                counts.purged,
                counts.overpurged,
            );
            assert_eq!(actual, expected, "{name}");
            let corrected_after = match expected {
                (_, 1, _, _) => None,
                (1, _, _, _) => Some(Duration::from_millis(7)),
                _ => Some(Duration::ZERO),
            };
            assert_eq!(counts.corrected_after, corrected_after, "{name}");
            assert_eq!(counts.findings.len(), expected.1 + expected.3, "{name}");
        }
    }
}
