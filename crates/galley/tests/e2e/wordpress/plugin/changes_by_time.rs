//! Pages that time alone makes wrong: their lifetimes end when that happens, and no visitor gets them after it, not even while PHP
//! generates a new one.

use std::fmt::Write as _;
use std::fs;

use super::super::stack::WordPressStack;
use super::tags_and_lifetimes::why_report;
use super::{assert_hit, shared_stack};

/// The must-use plugin with the pages `/?timed=<name>`.
const TIMED: &str = include_str!("timed.php");

/// The lifetime of a page that only edits change, and the time for which it may be served stale.
const WEEK: u64 = 604_800;
const DAY: u64 = 86_400;

/// The lifetime and the stale window of a page, in seconds.
fn lifetime(stack: &WordPressStack, path: &str) -> (u64, u64) {
    assert_hit(stack, path);
    let report = why_report(stack, path);
    let seconds = |name: &str| report["entry"][name].as_u64().unwrap();
    (seconds("lifetime_s"), seconds("stale_while_revalidate_s"))
}

#[test]
fn no_page_is_served_once_time_has_made_it_wrong() {
    let (stack, _lock) = shared_stack();
    let file = stack.wordpress.root.join("wp-content/mu-plugins/timed.php");
    fs::write(&file, TIMED).unwrap();
    stack.php("timed_subjects();");
    let mut wrong = String::new();
    for (name, longest, window) in [
        ("nothing", WEEK, DAY),
        ("sale", 5000, 0),
        ("variation", 5000, 0),
        ("own-lifetime", 5000, 0),
        ("seconds", 3600, 0),
        ("years", WEEK, DAY),
        ("printed", 3600, 0),
        ("written", WEEK, DAY),
        ("community", 3600, 0),
        ("feed", 3600, 0),
        ("closing", 5001, 0),
        ("events", 3600, 0),
    ] {
        let post = stack.publish([format!("written-{name}").as_str()])[0];
        stack.php(&format!(
            "wp_update_post(['ID' => {post}, 'post_content' => 'She learned it 10 years ago.']);"
        ));
        let found = lifetime(stack, &format!("/written-{name}/?timed={name}"));
        // The subjects were created up to a minute ago.
        let is_right =
            found.0 <= longest && found.0 > longest.saturating_sub(120) && found.1 == window;
        if !is_right {
            let _ = writeln!(wrong, "{name}: {found:?} instead of {longest}, {window}");
        }
    }
    fs::remove_file(file).unwrap();
    assert!(wrong.is_empty(), "{wrong}");
}
