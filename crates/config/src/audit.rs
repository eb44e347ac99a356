//! Whether a site's stored pages are audited.

use galley_policy::site::Preset;

use crate::diagnostic::Diagnostics;
use crate::tree::SectionTable;
use crate::upstream::UpstreamConfig;

/// Whether stored pages are audited: by default if possible. Reports the option if it is not possible.
pub(super) fn audit(
    options: &SectionTable,
    upstream: &UpstreamConfig,
    preset: Preset,
    diagnostics: &mut Diagnostics,
) -> bool {
    let configured = options.get::<bool>("audit");
    let obstacle = match (preset, upstream) {
        (Preset::None, _) => "audits need the WordPress preset",
        (Preset::WordPress, UpstreamConfig::Files) => {
            "there is neither `php` nor `upstream` to generate pages"
        }
        (Preset::WordPress, _) => return configured.unwrap_or(true),
    };
    if configured == Some(true) {
        let why = format!("is given, but {obstacle}");
        options.report("audit", why, "remove it, or correct that", diagnostics);
    }
    false
}
