//! Options, transients and tables of plugins of which the Galley plugin knows nothing: a change purges the pages that read them, and no others.

use std::fs;

use super::super::stack::{UpstreamKind, WordPressStack, assert_text};
use super::tags_and_lifetimes::why_report;
use super::{ExpectedPurges, assert_hit, shared_stack, start};

/// The pages that show something of `observed.php`.
const WHATS: [&str; 7] = [
    "option",
    "transient",
    "table",
    "visits",
    "raw",
    "all",
    "role",
];

/// A WordPress with `observed.php` while the test runs.
struct Observed<'s> {
    stack: &'s WordPressStack,
}

impl<'s> Observed<'s> {
    fn open(stack: &'s WordPressStack) -> Self {
        fs::write(Self::file(stack), include_str!("observed.php")).unwrap();
        stack.php(&format!(
            "global $wpdb; $table = observed_table(); \
             $wpdb->query(\"CREATE TABLE IF NOT EXISTS $table (name varchar(20)) ENGINE=InnoDB\"); \
             $wpdb->query(\"CREATE TABLE IF NOT EXISTS {{$table}}_visits (n int)\"); \
             foreach ([$table, \"{{$table}}_visits\"] as $name) {{ $wpdb->query(\"DELETE FROM $name\"); }} \
             $wpdb->insert($table, ['name' => 'first']); $wpdb->insert(\"{{$table}}_visits\", ['n' => 0]); \
             foreach (['observed_option', 'observed_visits', 'observed_separator', 'galley_busy'] as $name) {{ delete_option($name); }} \
             update_option('observed_option', 'A'); delete_transient('observed_list'); \
             $user = get_user_by('login', 'observed'); \
             (new WP_User($user ? $user->ID : wp_create_user('observed', 'x', 'observed@example.test')))->set_role('subscriber'); \
             foreach (explode(' ', '{}') as $what) {{ \
                 get_page_by_path(\"observed-$what\") || wp_insert_post(['post_type' => 'page', 'post_name' => \"observed-$what\", \
                     'post_title' => $what, 'post_content' => \"[observed what='$what']\", 'post_status' => 'publish']); \
             }} \
             do_action('galley_purge_all');",
            WHATS.join(" ")
        ));
        Self { stack }
    }

    fn file(stack: &WordPressStack) -> std::path::PathBuf {
        let content = stack.wordpress.root.join("wp-content");
        content.join("mu-plugins/observed.php")
    }

    /// Checks that the code purges these pages and no other, and that the first of them then shows the text.
    #[track_caller]
    fn assert_purges(&self, whats: &[&str], code: &str, text: &str) {
        let path = |what: &&str| format!("/observed-{what}/");
        let purged: Vec<_> = whats.iter().map(path).collect();
        let others = WHATS.iter().filter(|what| !whats.contains(what));
        let mut unaffected: Vec<_> = others.map(path).collect();
        unaffected.push("/about/".to_owned());
        let expected = ExpectedPurges {
            purged: &purged.iter().map(String::as_str).collect::<Vec<_>>(),
            unaffected: &unaffected.iter().map(String::as_str).collect::<Vec<_>>(),
        };
        let pages = expected.check_after(self.stack, || {
            self.stack.php(code);
        });
        if let Some(first) = pages.first() {
            assert_text(first, text);
        }
    }

    #[track_caller]
    fn lifetime(&self, path: &str) -> u64 {
        assert_hit(self.stack, path);
        let report = why_report(self.stack, path);
        report["entry"]["lifetime_s"].as_u64().unwrap()
    }
}

impl Drop for Observed<'_> {
    fn drop(&mut self) {
        let _ = fs::remove_file(Self::file(self.stack));
        self.stack
            .php("delete_option('observed_separator'); do_action('galley_purge_all');");
    }
}

#[test]
fn an_option_that_no_list_knows_purges_the_pages_that_read_it() {
    let (stack, _lock) = shared_stack();
    let observed = Observed::open(stack);
    let readers = ["option", "raw", "all"];
    observed.assert_purges(&readers, "update_option('observed_option', 'B');", "B.");
    observed.assert_purges(&readers, "delete_option('observed_option');", "none.");
    observed.assert_purges(&readers, "add_option('observed_option', 'C');", "C.");
    // Past WordPress's functions.
    observed.assert_purges(
        &readers,
        "global $wpdb; $wpdb->query(\"UPDATE $wpdb->options SET option_value = 'D' WHERE option_name = 'observed_option'\");",
        "D.",
    );
    // A setting that each page of the theme reads.
    let all = ExpectedPurges {
        purged: &["/about/", "/", "/observed-option/"],
        unaffected: &["/wp-json/wp/v2/categories", "/wp-sitemap.xml"],
    };
    let pages = all.check_after(stack, || {
        stack.php("update_option('observed_separator', '~~');");
    });
    assert_text(&pages[0], "~~");
}

#[test]
fn a_role_purges_the_pages_that_show_it() {
    let (stack, _lock) = shared_stack();
    let observed = Observed::open(stack);
    let user = "get_user_by('login', 'observed')";
    for (code, text) in [
        (format!("{user}->set_role('author');"), "Roles: author."),
        (
            format!("{user}->add_role('editor');"),
            "Roles: author, editor.",
        ),
        (format!("{user}->remove_role('author');"), "Roles: editor."),
    ] {
        observed.assert_purges(&["role"], &code, text);
    }
    let same = format!("{user}->set_role('editor'); {user}->add_role('editor');");
    observed.assert_purges(&[], &same, "");
}

#[test]
fn what_ends_as_it_began_purges_nothing() {
    let (stack, _lock) = shared_stack();
    let observed = Observed::open(stack);
    for code in [
        "update_option('observed_option', 'A');",
        "update_option('observed_option', 'B'); update_option('observed_option', 'A');",
        "delete_option('observed_option'); add_option('observed_option', 'A');",
        "global $wpdb; $wpdb->query('UPDATE ' . observed_table() . \" SET name = 'first'\");",
        "global $wpdb; $wpdb->query('DELETE FROM ' . observed_table() . \" WHERE name = 'nobody'\");",
        "global $wpdb; $wpdb->query('START TRANSACTION'); $wpdb->insert(observed_table(), ['name' => 'undone']); $wpdb->query('ROLLBACK');",
    ] {
        observed.assert_purges(&[], code, "");
    }
    // A page that reads the array of all options.
    observed.assert_purges(
        &["all"],
        "update_option('observed_other', microtime());",
        "A.",
    );
    observed.assert_purges(
        &["table"],
        "global $wpdb; $wpdb->query('START TRANSACTION'); $wpdb->insert(observed_table(), ['name' => 'done']); $wpdb->query('COMMIT');",
        "done, first.",
    );
}

#[test]
fn a_rewritten_transient_purges_the_pages_that_read_it_and_they_end_with_it() {
    let (stack, _lock) = shared_stack();
    let observed = Observed::open(stack);
    let readers = ["transient", "all"];
    let path = "/observed-transient/";
    // The first request that sets it purges the page.
    assert_eq!(observed.lifetime(path), 604_800);
    observed.assert_purges(&readers, "set_transient('observed_list', 'A', 500);", "A.");
    let left = observed.lifetime(path);
    assert!((400..=500).contains(&left), "{left}");
    observed.assert_purges(&[], "set_transient('observed_list', 'A', 900);", "");
    observed.assert_purges(&readers, "set_transient('observed_list', 'B', 900);", "B.");
    observed.assert_purges(&readers, "set_transient('observed_list', 'B', 300);", "B.");
    observed.assert_purges(&readers, "delete_transient('observed_list');", "none.");
}

#[test]
fn tables_of_other_plugins_purge_the_pages_that_read_them() {
    let (stack, _lock) = shared_stack();
    let observed = Observed::open(stack);
    assert_eq!(observed.lifetime("/observed-table/"), 604_800);
    let expected = ExpectedPurges {
        purged: &["/observed-table/"],
        unaffected: &["/observed-option/", "/about/"],
    };
    let mut admin = stack.admin();
    let pages = expected.check_after(stack, || {
        let ajax = "/wp-admin/admin-ajax.php?action=observed";
        let _ = admin.get(ajax).unwrap().expect_status(200);
    });
    assert_text(&pages[0], "by ajax, first.");
    let pages = expected.check_after(stack, || {
        stack.php("wp_schedule_single_event(time() - 1, 'observed_task');");
        let _ = stack.get("/wp-cron.php?doing_wp_cron").expect_status(200);
        galley_testkit::wait_for("the task", super::super::stack::TIMEOUT, || {
            stack
                .php("echo wp_next_scheduled('observed_task') ? 'waits' : 'done';")
                .contains("done")
                && !stack
                    .get("/observed-table/")
                    .text()
                    .contains("Rows: by ajax, first.")
        });
    });
    assert_text(&pages[0], "by a task, by ajax, first.");
    observed.assert_purges(
        &["table"],
        "global $wpdb; $wpdb->query('TRUNCATE ' . observed_table());",
        "Rows: .",
    );
}

/// A counter changes its option and its table with each visit.
#[test]
fn what_visitors_change_all_the_time_does_not_empty_the_cache() {
    let (stack, _lock) = shared_stack();
    let observed = Observed::open(stack);
    assert_eq!(observed.lifetime("/observed-visits/"), 604_800);
    // A client that has visited the site is not refused when others use PHP, too.
    stack.get("/wp-includes/css/dashicons.min.css");
    // The visit that creates the option does not count.
    for visit in 0..=11 {
        let before = stack.get("/observed-visits/").text();
        stack.get(&format!("/about/?counted={visit}"));
        let after = stack.get("/observed-visits/").text();
        assert_ne!(before, after, "visit {visit}");
    }
    assert_eq!(observed.lifetime("/observed-visits/"), 60);
    let report = why_report(stack, "/observed-visits/");
    assert_eq!(report["entry"]["stale_while_revalidate_s"], 0, "{report}");
    let names = report["advice"]["params"]["table"].as_str().unwrap();
    assert!(names.contains("observed_visits"), "{report}");
    let expected = ExpectedPurges {
        purged: &[],
        unaffected: &["/observed-visits/", "/about/"],
    };
    expected.check_after(stack, || {
        for visit in 20..25 {
            stack.get(&format!("/about/?counted={visit}"));
        }
    });
    // Not by a visitor.
    observed.assert_purges(
        &["visits", "all"],
        "update_option('observed_visits', 99);",
        "Visits: 99.",
    );
}

/// Uses a separate stack, because the death of the request purges all pages.
#[test]
fn a_request_that_dies_between_its_change_and_its_purge_loses_no_purge() {
    let stack = start(UpstreamKind::Fpm);
    let observed = Observed::open(&stack);
    for (path, code, text) in [
        (
            "/observed-option/",
            "update_option('observed_option', 'Z');",
            "Z.",
        ),
        (
            "/observed-table/",
            "global $wpdb; $wpdb->insert(observed_table(), ['name' => 'late']);",
            "first, late.",
        ),
    ] {
        assert_hit(&stack, path);
        let killed = format!("{code} posix_kill(getmypid(), SIGKILL);");
        assert!(stack.wordpress.php(&killed).is_err());
        assert!(stack.get(path).is_hit());
        stack.php(
            "global $wpdb; $wpdb->query(\"UPDATE $wpdb->options SET option_value = REPLACE(option_value, '\\\"at\\\":1', '\\\"at\\\":0') \
             WHERE option_name LIKE 'galley\\\\_pending\\\\_%'\");",
        );
        stack.get(&format!("/about/?after{path}"));
        let page = stack.get(path);
        assert!(!page.is_hit(), "{}", page.excerpt());
        assert_text(&page, text);
    }
    drop(observed);
}
