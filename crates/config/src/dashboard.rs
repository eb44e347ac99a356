//! The dashboard of a site on the site's own address: a path and a password file, which require each other.

use std::path::PathBuf;

use crate::access;
use crate::diagnostic::Diagnostics;
use crate::listen::AdminListen;
use crate::tree::SectionTable;

/// The path of the dashboard, if the site has a valid one.
pub(crate) fn path(options: &SectionTable, diagnostics: &mut Diagnostics) -> Option<String> {
    let file: Option<PathBuf> = options.get("dashboard_auth");
    if let Some(file) = &file {
        access::check_passwords(options, "dashboard_auth", file, diagnostics);
    }
    let Some(path) = options.get::<String>("dashboard") else {
        let why = "is given, but there is no `dashboard`";
        let help = "add `dashboard = \"/galley/\"`, or remove it";
        options.report_each(&["dashboard_auth"], why, help, diagnostics);
        return None;
    };
    if let Some(why) = reason_unfit(&path) {
        let help = "write a path of letters, digits, `-` and `_` with a slash at both ends: `\"/galley/\"`";
        let why = format!("is `{path}`, {why}");
        options.report("dashboard", why, help, diagnostics);
        return None;
    }
    if !options.has("dashboard_auth") {
        let why = "is on the public address of the site, and needs a password";
        let help = "add `dashboard_auth = \"FILE\"`; `htpasswd -B -c FILE NAME` creates one";
        options.report("dashboard", why, help, diagnostics);
    }
    file.map(|_| path)
}

/// Reports a dashboard without the admin interface, whose thread answers its requests.
pub(crate) fn admin(options: &SectionTable, listen: &AdminListen, diagnostics: &mut Diagnostics) {
    if options.has("dashboard") && matches!(listen, AdminListen::Off) {
        let why = "is given, but the admin interface is off";
        let help = "give `listen` of `[admin]` an address, or leave it out";
        options.report("dashboard", why, help, diagnostics);
    }
}

/// Why a path is not suitable for a dashboard.
fn reason_unfit(path: &str) -> Option<&'static str> {
    let inner = path
        .strip_prefix('/')
        .and_then(|rest| rest.strip_suffix('/'));
    let Some(inner) = inner.filter(|inner| !inner.is_empty()) else {
        return Some("which is not a folder of the site");
    };
    if inner.len() > MAX_BYTES {
        return Some("which is too long");
    }
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    if !inner
        .split('/')
        .all(|part| !part.is_empty() && part.bytes().all(is_plain))
    {
        return Some("which has other signs than letters, digits, `-` and `_`");
    }
    let first = inner.split('/').next().unwrap_or_default();
    let is_wordpress = ["wp-admin", "wp-content", "wp-includes", "wp-json"]
        .iter()
        .any(|options| first.eq_ignore_ascii_case(options));
    is_wordpress.then_some("which belongs to WordPress")
}

/// The maximum number of bytes between the slashes.
const MAX_BYTES: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_folders_with_plain_names() {
        for fit in ["/galley/", "/a/b-c_D9/", "/wp/"] {
            assert_eq!(reason_unfit(fit), None, "{fit}");
        }
        for bad in [
            "",
            "/",
            "//",
            "///",
            "galley",
            "/galley",
            "galley/",
            "/a//b/",
            "/../",
            "/a/../b/",
            "/a*/",
            "/a%2f/",
            "/a b/",
            "/a?b/",
            "/wp-admin/",
            "/WP-Content/x/",
            "/wp-json/",
        ] {
            assert!(reason_unfit(bad).is_some(), "{bad}");
        }
        assert!(reason_unfit(&format!("/{}/", "a".repeat(129))).is_some());
    }
}
