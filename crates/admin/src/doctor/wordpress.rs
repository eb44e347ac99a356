//! Checks WordPress: settings that make each of its pages slow, and overdue tasks.

use serde_json::Value;

use super::{DoctorFinding, Severity, object_cache, size};

/// Returns nothing if the root contains no WordPress.
pub(super) fn findings(value: &Value) -> Vec<DoctorFinding> {
    let wordpress = &value["wordpress"];
    if wordpress.is_null() {
        return Vec::new();
    }
    if wordpress["answers"] != true {
        return vec![DoctorFinding::bad(
            Severity::Wrong,
            "wordpress",
            "it does not start",
            "its database cannot be reached, or it is not installed: visitors get stored pages, otherwise an error page",
            "systemctl status mariadb; then see DB_HOST, DB_USER and DB_PASSWORD in wp-config.php",
        )];
    }
    vec![
        autoload(wordpress),
        cron(wordpress),
        second_cache(wordpress),
        object_cache::finding(wordpress),
        errors(wordpress),
    ]
}

fn autoload(wordpress: &Value) -> DoctorFinding {
    const CHECK: &str = "autoload";
    let Some(bytes) = wordpress["autoload_bytes"].as_u64() else {
        return DoctorFinding::unknown(CHECK, "WordPress does not report it");
    };
    let seen = format!("{} of options are read for each page", size(bytes));
    let level = match bytes {
        // WordPress's Site Health warns from 800,000 on (6.6).
        0..800_000 => return DoctorFinding::fine(CHECK, seen),
        800_000..3_000_000 => Severity::Notice,
        _ => Severity::Wrong,
    };
    let largest: Vec<&str> = wordpress["autoload_largest"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let seen = format!("{seen}; the largest: {}", largest.join(", "));
    let remedy = "find the plugin that they belong to, then: wp option set-autoload NAME no";
    DoctorFinding::bad(level, CHECK, seen, AUTOLOAD_REASON, remedy)
}

const AUTOLOAD_REASON: &str = "WordPress reads and unpacks all of them for each page, including those that no plugin uses any longer";

fn cron(wordpress: &Value) -> DoctorFinding {
    const CHECK: &str = "cron";
    let (Some(count), Some(late)) = (
        wordpress["cron_overdue"].as_u64(),
        wordpress["cron_overdue_s"].as_u64(),
    ) else {
        return DoctorFinding::unknown(CHECK, "WordPress does not report it");
    };
    let level = match late {
        0..900 => return DoctorFinding::fine(CHECK, "no task is overdue"),
        900..7200 => Severity::Notice,
        _ => Severity::Wrong,
    };
    DoctorFinding::bad(
        level,
        CHECK,
        format!(
            "{count} tasks are overdue, the first by {} minutes",
            late / 60
        ),
        "WordPress runs its tasks when a visitor's request reaches PHP; behind a cache that is rare: scheduled posts do not appear",
        "galley status shows whether Galley runs them (`cron` of the site) and the result; otherwise add a line to the crontab of PHP's user: * * * * * php /path/to/wordpress/wp-cron.php",
    )
}

fn second_cache(wordpress: &Value) -> DoctorFinding {
    const CHECK: &str = "page cache";
    if wordpress["second_cache"] != true {
        return DoctorFinding::fine(CHECK, "no second one");
    }
    DoctorFinding::bad(
        Severity::Notice,
        CHECK,
        "wp-content/advanced-cache.php is in use",
        "two caches in a row: a page that one has purged comes back from the other",
        "switch off the page cache of that plugin; its other functions can stay on",
    )
}

fn errors(wordpress: &Value) -> DoctorFinding {
    const CHECK: &str = "errors";
    if wordpress["shows_errors"] != true {
        return DoctorFinding::fine(CHECK, "not shown to visitors");
    }
    DoctorFinding::bad(
        Severity::Notice,
        CHECK,
        "WP_DEBUG shows them to visitors",
        "error error error messages with paths of this machine become part of stored pages",
        "in wp-config.php: define('WP_DEBUG_DISPLAY', false); define('WP_DEBUG_LOG', true);",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn levels(wordpress: &Value) -> Vec<(&'static str, Severity)> {
        let all = findings(&json!({ "wordpress": wordpress }));
        all.into_iter()
            .map(|finding| (finding.check, finding.level))
            .collect()
    }

    #[test]
    fn findings_about_wordpress() {
        let fine = json!({
            "answers": true, "autoload_bytes": 300_000, "cron_overdue": 1, "cron_overdue_s": 70,
            "second_cache": false, "object_cache": false, "shows_errors": false,
        });
        assert!(
            levels(&fine)
                .iter()
                .all(|(_, level)| *level == Severity::Fine)
        );
        let bad = json!({
            "answers": true, "autoload_bytes": 5_000_000, "autoload_largest": ["a", 3], "cron_overdue": 9,
            "cron_overdue_s": 90_000, "second_cache": true, "object_cache": true, "shows_errors": true,
        });
        assert_eq!(
            levels(&bad),
            [
                ("autoload", Severity::Wrong),
                ("cron", Severity::Wrong),
                ("page cache", Severity::Notice),
                ("object cache", Severity::Fine),
                ("errors", Severity::Notice)
            ]
        );
        assert_eq!(
            levels(&json!({ "answers": false })),
            [("wordpress", Severity::Wrong)]
        );
        assert_eq!(levels(&json!(null)), []);
        assert_eq!(
            levels(&json!({ "answers": true }))[0],
            ("autoload", Severity::Unknown)
        );
    }
}
