//! Whether the pages of WordPress come with Galley's plugin. Without it edits purge nothing, and nobody notices.
//!
//! The plugin adds a header to each page that Galley may store. A page of WordPress without one, which names WordPress's API in
//! its `Link`, is silent. Pages of other programs on the same site say nothing and are not counted.

use std::sync::atomic::{AtomicU64, Ordering};

use galley_policy::time::Tick;
use http::HeaderMap;
use http::header::LINK;

/// What the pages of one site said. Any fetch thread writes it, once per response of the upstream; the admin thread reads it.
#[derive(Debug, Default)]
pub struct PluginContact {
    /// The time of the last response with a header of the plugin, plus one; 0: none since the start.
    heard: AtomicU64,
    /// The silent pages since then.
    silent: AtomicU64,
    /// The time of the first of them.
    silent_since: AtomicU64,
}

/// WordPress without the plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SilentPlugin {
    /// Whether the plugin was there since the start of the server.
    pub was_heard: bool,
    /// The time of the first page without it.
    pub since: Tick,
}

impl PluginContact {
    /// Notes a response; `is_page`: one that Galley may store.
    pub(super) fn note(&self, fields: &HeaderMap, is_page: bool, now: Tick) {
        if HEADERS.iter().any(|name| fields.contains_key(*name)) {
            self.heard.store(now.0.saturating_add(1), Ordering::Relaxed);
            self.silent.store(0, Ordering::Relaxed);
        } else if is_page
            && is_of_wordpress(fields)
            && self.silent.fetch_add(1, Ordering::Relaxed) == 0
        {
            self.silent_since.store(now.0, Ordering::Relaxed);
        }
    }

    /// The state if the last pages of WordPress came without the plugin.
    pub fn silent(&self) -> Option<SilentPlugin> {
        (self.silent.load(Ordering::Relaxed) >= MIN_SILENT).then(|| SilentPlugin {
            was_heard: self.heard.load(Ordering::Relaxed) > 0,
            since: Tick(self.silent_since.load(Ordering::Relaxed)),
        })
    }
}

/// WordPress names its API in each page: `Link: <https://example.com/wp-json/>; rel="https://api.w.org/"`.
fn is_of_wordpress(fields: &HeaderMap) -> bool {
    let mut links = fields.get_all(LINK).into_iter();
    links.any(|link| {
        link.to_str()
            .is_ok_and(|text| text.contains("https://api.w.org/"))
    })
}

/// The headers of the plugin, at least one of which is in each page and each response that purges.
const HEADERS: [&str; 5] = [
    "galley-tags",
    "galley-cache-control",
    "galley-purge",
    "galley-plugin",
    "galley-member",
];

/// Fewer pages in a row than this may be those of another WordPress in a subfolder.
const MIN_SILENT: u64 = 10;

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn fields(rows: &[(&'static str, &'static str)]) -> HeaderMap {
        let rows = rows.iter();
        rows.map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn wordpress_without_the_plugin_is_noticed_after_some_pages() {
        let link = (
            "link",
            "<http://a.test/wp-json/>; rel=\"https://api.w.org/\"",
        );
        let (silent, marked) = (fields(&[link]), fields(&[link, ("galley-tags", "p1")]));
        let contact = PluginContact::default();
        let note = |fields: &HeaderMap, is_page: bool, times: u64, from: u64| {
            for n in 0..times {
                contact.note(fields, is_page, Tick(from + n));
            }
        };
        note(&fields(&[]), true, 100, 0);
        note(&silent, false, 100, 100);
        note(&silent, true, MIN_SILENT - 1, 200);
        assert_eq!(contact.silent(), None);
        note(&silent, true, 1, 300);
        let found = contact.silent().unwrap();
        assert_eq!((found.was_heard, found.since), (false, Tick(200)));
        note(&marked, true, 1, 400);
        assert_eq!(contact.silent(), None);
        note(&silent, true, MIN_SILENT, 500);
        let found = contact.silent().unwrap();
        assert_eq!((found.was_heard, found.since), (true, Tick(500)));
        // A response to an edit is enough.
        note(&fields(&[("galley-plugin", "0.3.0")]), false, 1, 600);
        assert_eq!(contact.silent(), None);
    }
}
