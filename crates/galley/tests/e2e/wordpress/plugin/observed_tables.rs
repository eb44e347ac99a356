//! What the plugin cannot describe: tables of other plugins whose changes it cannot see, such as views that depend on the time, which limit the lifetime of pages, and
//! REST routes of other plugins, which are not stored.

use std::fs;

use serde_json::Value;

use super::super::stack::{HIT, WordPressStack, assert_cache_status, assert_text};
use super::shared_stack;
use super::tags_and_lifetimes::why_report;

/// A WordPress with `club.php` while the test runs.
struct Club<'s> {
    stack: &'s WordPressStack,
    table: String,
}

impl<'s> Club<'s> {
    fn open(stack: &'s WordPressStack) -> Self {
        fs::write(Self::file(stack), include_str!("club.php")).unwrap();
        let table = stack.php(
            "global $wpdb; $table = $wpdb->prefix . 'club'; \
             $wpdb->query(\"CREATE TABLE IF NOT EXISTS {$table}_rows (name varchar(20), is_public int)\"); $wpdb->query(\"DELETE FROM {$table}_rows\"); \
             $wpdb->query(\"CREATE OR REPLACE VIEW $table AS SELECT * FROM {$table}_rows WHERE CURRENT_DATE > '2000-01-01'\"); \
             $wpdb->insert($table, ['name' => 'Ilse', 'is_public' => 1]); \
             foreach (['club' => '[club]', 'club-described' => '[club]', 'club-preload' => '[club-preload]', 'club-none' => 'No club.'] as $slug => $text) { \
                 get_page_by_path($slug) || wp_insert_post(['post_type' => 'page', 'post_name' => $slug, 'post_title' => $slug, 'post_content' => $text, 'post_status' => 'publish']); \
             } \
             do_action('galley_purge_all'); echo $table;",
        );
        Self {
            stack,
            table: table.trim().to_owned(),
        }
    }

    fn file(stack: &WordPressStack) -> std::path::PathBuf {
        let content = stack.wordpress.root.join("wp-content");
        content.join("mu-plugins/club.php")
    }

    /// The stored page, with its lifetimes and the advice about it.
    #[track_caller]
    fn explained(&self, path: &str) -> Value {
        let _ = self.stack.get(path).expect_status(200);
        assert_cache_status(&self.stack.get(path), HIT);
        why_report(self.stack, path)
    }

    #[track_caller]
    fn assert_lives_a_minute(&self, path: &str) {
        let report = self.explained(path);
        let (entry, advice) = (&report["entry"], &report["advice"]);
        assert_eq!(entry["lifetime_s"], 60, "{path}: {report}");
        assert_eq!(entry["stale_while_revalidate_s"], 0, "{path}: {report}");
        assert_eq!(advice["id"], "short-lived-table", "{path}: {report}");
        assert_eq!(advice["params"]["table"], self.table, "{path}: {report}");
    }

    #[track_caller]
    fn assert_lives_a_week(&self, path: &str) {
        let report = self.explained(path);
        assert_eq!(report["entry"]["lifetime_s"], 604_800, "{path}: {report}");
        assert!(report["advice"].is_null(), "{path}: {report}");
    }
}

impl Drop for Club<'_> {
    fn drop(&mut self) {
        let _ = fs::remove_file(Self::file(self.stack));
        self.stack.php("do_action('galley_purge_all');");
    }
}

#[test]
fn a_page_that_reads_a_view_that_depends_on_the_time_lives_for_a_minute() {
    let (stack, _lock) = shared_stack();
    let club = Club::open(stack);
    club.assert_lives_a_minute("/club/");
    club.assert_lives_a_week("/club-none/");
    assert_text(&stack.get("/club/"), "Members: Ilse.");
    // The plugin's own page gives the reason, too.
    let page = "/wp-admin/options-general.php?page=galley&galley_url=/club/";
    let page = stack.admin().get(page).unwrap().expect_status(200);
    assert_text(&page, &format!("`{}`", club.table));
}

#[test]
fn an_author_can_exempt_a_table_from_the_minute() {
    let (stack, _lock) = shared_stack();
    Club::open(stack).assert_lives_a_week("/club-described/");
}

#[test]
fn a_filter_that_makes_lifetimes_longer_does_not_reach_such_a_page() {
    let (stack, _lock) = shared_stack();
    let club = Club::open(stack);
    let code = "<?php foreach (['galley_lifetime', 'galley_stale'] as $filter) { add_filter($filter, fn() => 604800, 99); }";
    let file = Club::file(stack).with_file_name("longer.php");
    fs::write(&file, code).unwrap();
    club.assert_lives_a_minute("/club/");
    fs::remove_file(&file).unwrap();
}

#[test]
fn rest_and_ajax_responses_that_read_such_a_table_live_for_a_minute_or_are_not_stored() {
    let (stack, _lock) = shared_stack();
    let club = Club::open(stack);
    club.assert_lives_a_minute("/wp-json/wp/v2/pages?slug=club");
    club.assert_lives_a_week("/wp-json/wp/v2/pages?slug=club-none");
    for _ in 0..2 {
        let page = stack.get("/wp-admin/admin-ajax.php?action=club");
        assert!(!page.expect_status(200).is_hit());
    }
}

#[test]
fn a_widget_that_reads_such_a_table_limits_its_page_and_is_no_fragment() {
    let (stack, _lock) = shared_stack();
    let club = Club::open(stack);
    stack.php("$all = get_option('sidebars_widgets'); $all['sidebar-1'][] = 'club-1'; update_option('sidebars_widgets', $all);");
    club.assert_lives_a_minute("/salt-smoke-and-patience/");
    let report = why_report(stack, "/salt-smoke-and-patience/");
    let fragments = report["entry"]["fragments"].as_array().unwrap();
    assert!(
        fragments
            .iter()
            .all(|part| part["label"] != "widget/club-1"),
        "{report}"
    );
    assert!(
        fragments
            .iter()
            .any(|part| part["label"] == "widget/search-2"),
        "{report}"
    );
    stack.php("$all = get_option('sidebars_widgets'); $all['sidebar-1'] = array_diff($all['sidebar-1'], ['club-1']); update_option('sidebars_widgets', $all);");
}

#[test]
fn rest_routes_of_other_plugins_are_stored_only_with_a_lifetime_or_tags() {
    let (stack, _lock) = shared_stack();
    let club = Club::open(stack);
    for path in [
        "/wp-json/club/v1/refill",
        "/wp-json/wp/v2/club/refill",
        "/wp-json/club/early",
    ] {
        let first = stack.get(path).expect_status(200);
        let second = stack.get(path).expect_status(200);
        assert!(!second.is_hit(), "{path}: {}", second.excerpt());
        assert_ne!(first.body, second.body, "{path}");
        assert!(!second.has("galley-cache-control"), "{}", second.excerpt());
        let report = why_report(stack, path);
        assert_eq!(report["advice"]["id"], "not-stored-rest-route", "{report}");
    }
    for path in [
        "/wp-json/club/v1/lifetime",
        "/wp-json/club/v1/tagged",
        "/wp-json/wp/v2/categories",
        "/wp-json/club/v1",
        "/club-preload/",
    ] {
        let report = club.explained(path);
        let seconds = if path.ends_with("lifetime") {
            300
        } else {
            604_800
        };
        assert_eq!(report["entry"]["lifetime_s"], seconds, "{path}: {report}");
    }
    let path = "/wp-json/club/v1/tagged";
    let first = stack.get(path);
    stack.php("do_action('galley_purge_tags', ['club:list']);");
    assert_ne!(stack.get(path).expect_status(200).body, first.body);
    let missing = "/wp-json/club/v1/missing";
    let _ = stack.get(missing).expect_status(404);
    assert_cache_status(&stack.get(missing), HIT);
}
