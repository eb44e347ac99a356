//! The files of the dashboard page. They contain no data, so they require no session.

/// A file of the page.
pub struct DashboardAsset {
    /// The path below that of the dashboard.
    pub path: &'static str,
    /// The value of `Content-Type`.
    pub content_type: &'static str,
    /// The content.
    pub bytes: &'static [u8],
}

/// The file at a path below that of the dashboard.
pub fn find_asset(path: &str) -> Option<&'static DashboardAsset> {
    ASSETS.iter().find(|asset| asset.path == path)
}

macro_rules! asset {
    ($path:literal, $file:literal, $type:expr) => {
        DashboardAsset {
            path: $path,
            content_type: $type,
            bytes: include_bytes!(concat!("../assets/dashboard/", $file)),
        }
    };
}

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const IMAGE: &str = "image/svg+xml";

static ASSETS: &[DashboardAsset] = &[
    asset!("", "index.html", HTML),
    asset!("style.css", "style.css", CSS),
    asset!("icon.svg", "icon.svg", IMAGE),
    asset!("app.js", "app.js", SCRIPT),
    asset!("api.js", "api.js", SCRIPT),
    asset!("dom.js", "dom.js", SCRIPT),
    asset!("chart.js", "chart.js", SCRIPT),
    asset!("figures.js", "figures.js", SCRIPT),
    asset!("login.js", "login.js", SCRIPT),
    asset!("overview.js", "overview.js", SCRIPT),
    asset!("verdict.js", "verdict.js", SCRIPT),
    asset!("day.js", "day.js", SCRIPT),
    asset!("pages.js", "pages.js", SCRIPT),
    asset!("not-cached.js", "not-cached.js", SCRIPT),
    asset!("purges.js", "purges.js", SCRIPT),
    asset!("machine.js", "machine.js", SCRIPT),
];
