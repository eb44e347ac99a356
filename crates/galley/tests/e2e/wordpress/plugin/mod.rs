//! The plugin in a real WordPress: every kind of edit purges the right pages before the next request, and no others.
//!
//! Each test stores some pages, makes one kind of edit, and checks the next responses. An edit affects lists and widgets of the
//! whole site, so tests on the same stack run one at a time.

mod audit;
mod changes_by_time;
mod cron;
mod editing;
mod forged_markers;
mod fragments;
mod kept_html;
mod members;
mod multisite;
mod multisite_page;
mod object_cache;
mod object_cache_upgrade;
mod observed_changes;
mod observed_tables;
mod other_plugins;
mod purge_delivery;
mod query_conditions;
mod searches;
mod sessions;
mod settings;
mod tags_and_lifetimes;
mod viewed;

use std::fs;
use std::path::Path;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use galley_testkit::client::{Browser, Request, Response};
use galley_testkit::wait_for;
use serde_json::Value;

use super::stack::{
    HIT, HOUR, StackOptions, TIMEOUT, UpstreamKind, WordPressStack, assert_cache_status,
};

const PLUGIN: &str = "plugin.test";
const TOKEN: &str = "a-token-of-the-plugin-tests-0123456789";

/// A stack with the plugin, and the lock that serializes its tests.
pub struct SharedStack {
    stack: WordPressStack,
    lock: Mutex<()>,
}

static SHARED: LazyLock<SharedStack> = LazyLock::new(|| SharedStack {
    stack: start(UpstreamKind::Fpm),
    lock: Mutex::new(()),
});

/// Locks the shared stack for one test. A failed test does not poison the lock.
fn shared_stack() -> (&'static WordPressStack, MutexGuard<'static, ()>) {
    let guard = SHARED.lock.lock().unwrap_or_else(PoisonError::into_inner);
    (&SHARED.stack, guard)
}

/// Starts a WordPress with the plugin active and connected.
fn start(kind: UpstreamKind) -> WordPressStack {
    let mut options = StackOptions::new([(PLUGIN, HOUR.to_owned())]);
    options.admin_token = Some(TOKEN);
    let stack = WordPressStack::start(kind, &options);
    install(&stack);
    stack
}

/// Installs, connects and activates the plugin, network-wide in a multisite.
fn install(stack: &WordPressStack) {
    let content = stack.wordpress.root.join("wp-content");
    copy_directory(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wordpress-plugin/galley"),
        &content.join("plugins/galley"),
    );
    let address = stack.galley.admin().unwrap();
    fs::write(
        content.join("galley-connection.php"),
        format!("<?php return array( 'address' => '{address}', 'token' => '{TOKEN}' );"),
    )
    .unwrap();
    stack.php(
        "require_once ABSPATH . 'wp-admin/includes/plugin.php'; $failed = activate_plugin('galley/galley.php', '', is_multisite()); \
         if (is_wp_error($failed)) { throw new \\Exception($failed->get_error_message()); }",
    );
    wait_until_acknowledged(stack);
}

/// Waits until no purge of the command line is sent again. On a busy machine the server may not acknowledge one in time; a later request
/// of PHP repeats it then, which would count as a purge of the test.
fn wait_until_acknowledged(stack: &WordPressStack) {
    wait_for("purges to be acknowledged", TIMEOUT, || {
        let left = stack.php(
            "echo $wpdb->get_var(\"SELECT COUNT(*) FROM $wpdb->options WHERE option_name LIKE 'galley\\\\_pending\\\\_%'\");",
        );
        if left.trim() != "0" {
            stack.get("/?s=sends-them-again");
        }
        left.trim() == "0"
    });
}

fn copy_directory(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (from, name) = entry.map(|e| (e.path(), e.file_name())).unwrap();
        if from.is_dir() {
            copy_directory(&from, &to.join(name));
        } else {
            fs::copy(&from, to.join(name)).unwrap();
        }
    }
}

/// The pages that an edit purges, and pages that it must not purge.
struct ExpectedPurges<'a> {
    purged: &'a [&'a str],
    unaffected: &'a [&'a str],
}

impl ExpectedPurges<'_> {
    /// Stores all pages, makes the edit, and checks the next responses: purged pages are generated again or patched, the others are
    /// hits. Returns the responses of the purged pages.
    #[track_caller]
    fn check_after(&self, stack: &WordPressStack, edit: impl FnOnce()) -> Vec<Response> {
        for path in self.purged.iter().chain(self.unaffected) {
            stack.get(path);
            assert!(
                stack.get(path).is_hit(),
                "{path} is not stored: {}",
                stack.get(path).excerpt()
            );
        }
        let before: Vec<_> = self
            .purged
            .iter()
            .map(|path| generations(stack, path))
            .collect();
        edit();
        for path in self.unaffected {
            let page = stack.get(path);
            assert_eq!(
                page.cache_status(),
                HIT,
                "{path}: {}\n{}",
                tags_and_lifetimes::why_report(stack, path),
                page.excerpt()
            );
        }
        let check = |(path, before): (&&str, &Vec<u64>)| {
            let page = stack.get(path);
            assert!(
                !page.is_hit() || is_patched(&page) || generations(stack, path) != *before,
                "{path} was not purged: {}",
                page.excerpt()
            );
            page
        };
        self.purged.iter().zip(&before).map(check).collect()
    }
}

/// Returns the purge sequence numbers at which a stored page and its fragments were generated. They reveal a page that was patched in
/// the background, which is a hit.
fn generations(stack: &WordPressStack, path: &str) -> Vec<u64> {
    let entry = &tags_and_lifetimes::why_report(stack, path)["entry"];
    let fragments = entry["fragments"].as_array().into_iter().flatten();
    let all = std::iter::once(entry).chain(fragments);
    all.filter_map(|part| part["born"].as_u64()).collect()
}

/// Returns whether purged fragments were replaced in a stored page when it was sent.
fn is_patched(page: &Response) -> bool {
    page.field("cache-status")
        .is_some_and(|value| value.contains("; hit") && value.contains("detail=patched"))
}

/// Returns a nonce for the REST API.
fn rest_nonce(browser: &mut Browser) -> String {
    let response = browser
        .get("/wp-admin/admin-ajax.php?action=rest-nonce")
        .unwrap();
    response.expect_status(200).text().trim().to_owned()
}

/// Sends a REST request as the block editor does, as the administrator.
#[track_caller]
fn rest_api(stack: &WordPressStack, method: &str, path: &str, body: &Value) -> Value {
    rest_api_at(stack, "", method, path, body)
}

/// Sends a REST request to a multisite site in a subdirectory.
#[track_caller]
fn rest_api_at(
    stack: &WordPressStack,
    directory: &str,
    method: &str,
    path: &str,
    body: &Value,
) -> Value {
    let mut admin = stack.admin();
    let nonce = rest_nonce(&mut admin);
    let mut request = Request::post(
        &format!("{directory}/wp-json{path}"),
        "application/json",
        body.to_string(),
    );
    method.clone_into(&mut request.method);
    let response = admin.send(request.field("X-WP-Nonce", &nonce)).unwrap();
    assert!(
        response.status < 300,
        "{}\n{}",
        response.excerpt(),
        response.text()
    );
    assert!(!response.has("galley-purge"), "{}", response.excerpt());
    serde_json::from_str(&response.text()).unwrap()
}

/// Returns the nonce that follows `before` in an admin page.
#[track_caller]
fn nonce_in(browser: &mut Browser, page: &str, before: &str) -> String {
    let text = browser.get(page).unwrap().expect_status(200).text();
    let (_, rest) = text
        .split_once(before)
        .unwrap_or_else(|| panic!("no `{before}` in {page}"));
    rest.chars()
        .take_while(char::is_ascii_alphanumeric)
        .collect()
}

/// Returns the ID of the post or page with a slug.
fn post_id(stack: &WordPressStack, slug: &str) -> u64 {
    let output = stack.php(&format!(
        "$found = get_posts(['name' => '{slug}', 'post_type' => ['post', 'page'], 'post_status' => 'any']); echo $found[0]->ID;"
    ));
    output
        .trim()
        .parse()
        .unwrap_or_else(|_| panic!("no post `{slug}`: {output}"))
}

/// Requests a page twice and asserts that the second response is a hit.
#[track_caller]
fn assert_hit(stack: &WordPressStack, path: &str) {
    stack.get(path);
    assert_cache_status(&stack.get(path), HIT);
}
