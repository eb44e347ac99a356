//! The plugin in a real WordPress: every way of editing changes the right pages for the next visitor, and no others.
//!
//! Each test warms some pages, edits in one way that people or machines use, and looks at the next answers. An edit reaches
//! lists and widgets of the whole site, so the tests of one stack take turns.

mod conditions;
mod cron;
mod delivery;
mod editing;
mod fragments;
mod marks;
mod members;
mod network;
mod network_page;
mod other_plugins;
mod pages;
mod searches;
mod settings;

use std::fs;
use std::path::Path;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use galley_testkit::client::{Browser, Request, Response};
use serde_json::Value;

use super::stack::{HIT, HOUR, Kind, SiteBuilder, Stack, assert_way};

const PLUGIN: &str = "plugin.test";
const TOKEN: &str = "a-token-of-the-plugin-tests-0123456789";

/// A stack with the plugin, and whose turn it is.
pub struct Edited {
    stack: Stack,
    turn: Mutex<()>,
}

static SHARED: LazyLock<Edited> = LazyLock::new(|| Edited {
    stack: start(Kind::Fpm),
    turn: Mutex::new(()),
});

/// The shared stack, for one test at a time. A test that failed does not spoil it for the next.
fn turn() -> (&'static Stack, MutexGuard<'static, ()>) {
    let guard = SHARED.turn.lock().unwrap_or_else(PoisonError::into_inner);
    (&SHARED.stack, guard)
}

/// A WordPress with the plugin active and connected.
fn start(kind: Kind) -> Stack {
    let mut plan = SiteBuilder::new([(PLUGIN, HOUR.to_owned())]);
    plan.token = Some(TOKEN);
    let stack = Stack::start(kind, &plan);
    install(&stack);
    stack
}

/// Puts the plugin into a WordPress, active and connected, everywhere in a network.
fn install(stack: &Stack) {
    let content = stack.wordpress.root.join("wp-content");
    copy(
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
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (from, name) = entry.map(|e| (e.path(), e.file_name())).unwrap();
        if from.is_dir() {
            copy(&from, &to.join(name));
        } else {
            fs::copy(&from, to.join(name)).unwrap();
        }
    }
}

/// Pages around an edit: those that it changes, and those that it must leave.
struct Around<'a> {
    changed: &'a [&'a str],
    kept: &'a [&'a str],
}

impl Around<'_> {
    /// Warms all, edits, and looks at the next responses: what is changed is generated again or patched; what is kept is a hit.
    #[track_caller]
    fn edit(&self, stack: &Stack, edit: impl FnOnce()) -> Vec<Response> {
        for path in self.changed.iter().chain(self.kept) {
            stack.get(path);
            assert!(
                stack.get(path).is_hit(),
                "{path} cannot be warmed: {}",
                stack.get(path).beginning()
            );
        }
        let before: Vec<_> = self
            .changed
            .iter()
            .map(|path| births(stack, path))
            .collect();
        edit();
        for path in self.kept {
            let page = stack.get(path);
            assert_way(&page, HIT);
        }
        let fresh = |(path, before): (&&str, &Vec<u64>)| {
            let page = stack.get(path);
            assert!(
                !page.is_hit() || is_patched(&page) || births(stack, path) != *before,
                "{path} was not purged: {}",
                page.beginning()
            );
            page
        };
        self.changed.iter().zip(&before).map(fresh).collect()
    }
}

/// After which purges a stored page and its fragments were generated: a page that is patched in the background is a hit.
fn births(stack: &Stack, path: &str) -> Vec<u64> {
    let entry = &pages::explained(stack, path)["entry"];
    let fragments = entry["fragments"].as_array().into_iter().flatten();
    let all = std::iter::once(entry).chain(fragments);
    all.filter_map(|part| part["born"].as_u64()).collect()
}

/// Whether a stored page was sent with other bytes in place of purged fragments.
fn is_patched(page: &Response) -> bool {
    page.field("cache-status")
        .is_some_and(|way| way.contains("; hit") && way.contains("detail=patched"))
}

/// A nonce for REST.
fn rest_nonce(browser: &mut Browser) -> String {
    let answer = browser
        .get("/wp-admin/admin-ajax.php?action=rest-nonce")
        .unwrap();
    answer.expect_status(200).text().trim().to_owned()
}

/// A request of the block editor.
#[track_caller]
fn rest(stack: &Stack, method: &str, path: &str, body: &Value) -> Value {
    rest_at(stack, "", method, path, body)
}

/// The same, to a site of a network in a directory.
#[track_caller]
fn rest_at(stack: &Stack, directory: &str, method: &str, path: &str, body: &Value) -> Value {
    let mut admin = stack.admin();
    let nonce = rest_nonce(&mut admin);
    let mut request = Request::post(
        &format!("{directory}/wp-json{path}"),
        "application/json",
        body.to_string(),
    );
    method.clone_into(&mut request.method);
    let answer = admin.send(request.field("X-WP-Nonce", &nonce)).unwrap();
    assert!(
        answer.status < 300,
        "{}\n{}",
        answer.beginning(),
        answer.text()
    );
    assert!(!answer.has("galley-purge"), "{}", answer.beginning());
    serde_json::from_str(&answer.text()).unwrap()
}

/// A nonce that stands in a page of the administration.
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

/// An address of a sample post that is not among the newest.
fn id_of(stack: &Stack, slug: &str) -> u64 {
    let said = stack.php(&format!(
        "$found = get_posts(['name' => '{slug}', 'post_type' => ['post', 'page'], 'post_status' => 'any']); echo $found[0]->ID;"
    ));
    said.trim()
        .parse()
        .unwrap_or_else(|_| panic!("no post `{slug}`: {said}"))
}

#[track_caller]
fn assert_hit(stack: &Stack, path: &str) {
    stack.get(path);
    assert_way(&stack.get(path), HIT);
}
