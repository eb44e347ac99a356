//! The files of the page. They contain no data, so they need no session.

/// One file.
pub(super) struct Asset {
    /// Its path in the address.
    pub(super) path: &'static str,
    pub(super) content_type: &'static str,
    pub(super) bytes: &'static [u8],
}

macro_rules! asset {
    ($path:literal, $file:literal, $type:expr) => {
        Asset {
            path: $path,
            content_type: $type,
            bytes: include_bytes!(concat!("../../../assets/dashboard/", $file)),
        }
    };
}

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const IMAGE: &str = "image/svg+xml";

/// All of them.
pub(super) static ASSETS: &[Asset] = &[
    asset!("/", "index.html", HTML),
    asset!("/style.css", "style.css", CSS),
    asset!("/icon.svg", "icon.svg", IMAGE),
    asset!("/app.js", "app.js", SCRIPT),
    asset!("/api.js", "api.js", SCRIPT),
    asset!("/dom.js", "dom.js", SCRIPT),
    asset!("/chart.js", "chart.js", SCRIPT),
    asset!("/figures.js", "figures.js", SCRIPT),
    asset!("/live.js", "live.js", SCRIPT),
    asset!("/day.js", "day.js", SCRIPT),
    asset!("/pages.js", "pages.js", SCRIPT),
    asset!("/not-cached.js", "not-cached.js", SCRIPT),
    asset!("/purges.js", "purges.js", SCRIPT),
    asset!("/machine.js", "machine.js", SCRIPT),
];
