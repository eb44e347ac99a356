//! Stored pages for members: each gets their own toolbar and comment form in the page that is stored for everybody.

use std::fs;
use std::process::Command;

use galley_testkit::client::{Browser, Response};
use galley_testkit::wait_for;
use serde_json::json;

use super::super::stack::{
    HOUR, Kind, SiteBuilder, Stack, TIMEOUT, assert_no_text, assert_text, assert_way, between,
};
use super::{PLUGIN, TOKEN, id_of, install, rest};

pub const ASSEMBLED: &str = "galley; hit; detail=assembled";
const COMPARED: &str = "galley; fwd=bypass; detail=compared";
pub const PATH: &str = "/salt-smoke-and-patience/";

/// Counts the pages that PHP generates for each path, and shows nothing. Shared fragments are rendered in the background, sooner or later.
const COUNT: &str = r"<?php
if ( PHP_SAPI !== 'cli' && ! isset( $_SERVER['HTTP_GALLEY_FRAGMENT'] ) ) {
	$path = explode( '?', $_SERVER['REQUEST_URI'] )[0];
	file_put_contents( dirname( ABSPATH ) . '/notes/count' . strtr( $path, '/', '_' ), '.', FILE_APPEND );
	add_filter( 'comment_flood_filter', '__return_false', 99 );
}
";

pub fn start(theme: &str) -> Stack {
    start_with(theme, "<?php")
}

/// With this code in WordPress, too.
fn start_with(theme: &str, code: &str) -> Stack {
    let members = format!("members = \"fragments\"\n{HOUR}");
    let mut plan = SiteBuilder::new([(PLUGIN, members)]);
    plan.token = Some(TOKEN);
    plan.options.mu_plugins = vec![
        ("count.php".to_owned(), COUNT.to_owned()),
        ("own.php".to_owned(), code.to_owned()),
    ];
    let stack = Stack::start(Kind::Fpm, &plan);
    install(&stack);
    let password = &stack.wordpress.password;
    stack.php(&format!(
        "switch_theme('{theme}'); foreach (['ann', 'bob'] as $name) {{ wp_insert_user(['user_login' => $name, 'user_pass' => '{password}', \
         'user_email' => $name . '@example.org', 'display_name' => 'Dear ' . $name, 'role' => 'subscriber']); }}"
    ));
    stack
}

pub fn member(stack: &Stack, name: &str) -> Browser {
    let mut browser = stack.visitor();
    browser.login(name, &stack.wordpress.password).unwrap();
    browser
}

pub fn visit(browser: &mut Browser, path: &str) -> Response {
    browser.get(path).unwrap().expect_status(200)
}

fn runs(stack: &Stack, path: &str) -> usize {
    let note = stack
        .scratch
        .join("notes")
        .join(format!("count{}", path.replace('/', "_")));
    fs::read(note).map_or(0, |text| text.len())
}

/// Has the page stored.
pub fn store(stack: &Stack, path: &str) {
    wait_for("the page to be stored", TIMEOUT, || {
        stack.get(path).is_hit()
    });
}

/// Nobody but its member may store it, or compare it with another.
fn assert_private(page: &Response) {
    assert_eq!(
        page.field("cache-control"),
        Some("private, no-store"),
        "{}",
        page.beginning()
    );
    for name in ["etag", "last-modified", "expires", "age"] {
        assert!(!page.has(name), "{name}: {}", page.beginning());
    }
    for (name, _) in &page.fields {
        assert!(
            !name.to_ascii_lowercase().starts_with("galley-"),
            "{}",
            page.beginning()
        );
    }
}

#[test]
fn members_see_their_own_parts_on_stored_pages() {
    for theme in ["twentytwentyone", "twentytwentythree"] {
        let stack = &start(theme);
        store(stack, PATH);
        store(stack, "/");
        let public = stack.get(PATH);
        assert_no_text(&public, "wpadminbar");
        assert_no_text(&public, "<!--galley-");
        let (mut ann, mut bob) = (member(stack, "ann"), member(stack, "bob"));
        let before = runs(stack, PATH);
        let first = visit(&mut ann, PATH);
        assert_way(&first, COMPARED);
        assert_private(&first);
        let again = visit(&mut ann, PATH);
        assert_way(&again, ASSEMBLED);
        assert_private(&again);
        assert_text(&again, "Dear ann");
        assert_text(&again, "id=\"wpadminbar\"");
        assert_text(&again, "Logged in as Dear ann");
        assert_eq!(again.text(), first.text(), "{theme}");
        assert_eq!(runs(stack, PATH), before + 1, "{theme}");

        // His page is generated once, because the comment form is his; pages without one are not.
        let own = visit(&mut bob, PATH);
        assert_no_text(&own, "Dear ann");
        assert_text(&own, "Dear bob");
        assert_way(&visit(&mut bob, PATH), ASSEMBLED);
        assert_eq!(runs(stack, PATH), before + 2, "{theme}");
        assert_way(&visit(&mut ann, "/"), COMPARED);
        let front = runs(stack, "/");
        let own = visit(&mut bob, "/");
        assert_way(&own, ASSEMBLED);
        assert_text(&own, "Dear bob");
        assert_no_text(&own, "Dear ann");
        assert_private(&own);
        assert_eq!(runs(stack, "/"), front, "{theme}");

        for path in ["/", PATH] {
            let stranger = stack.get(path);
            assert!(stranger.is_hit(), "{}", stranger.beginning());
            assert_no_text(&stranger, "Dear");
            assert_no_text(&stranger, "wpadminbar");
            assert!(stranger.has("etag"), "{}", stranger.beginning());
        }
    }
}

#[test]
fn purges_and_logouts_end_what_is_kept_of_members() {
    let stack = &start("twentytwentyone");
    store(stack, PATH);
    let mut ann = member(stack, "ann");
    visit(&mut ann, PATH);
    assert_way(&visit(&mut ann, PATH), ASSEMBLED);

    // An edit: what she gets next is new, and so is what she gets from then on.
    let id = id_of(stack, "salt-smoke-and-patience");
    let text = "Salted once more";
    rest(
        stack,
        "POST",
        &format!("/wp/v2/posts/{id}"),
        &json!({ "content": text }),
    );
    assert_text(&visit(&mut ann, PATH), text);
    wait_for("the page to be stored for strangers", TIMEOUT, || {
        let page = visit(&mut ann, PATH);
        assert_text(&page, text);
        page.cache_status() == ASSEMBLED
    });

    // Another name of hers.
    stack.php(
        "wp_update_user(['ID' => get_user_by('login', 'ann')->ID, 'display_name' => 'Annabel']);",
    );
    let page = visit(&mut ann, PATH);
    assert_text(&page, "Annabel");
    assert_no_text(&page, "Dear ann");

    // A comment that only she sees until it is approved.
    stack.php("update_option('comment_moderation', '1');");
    store(stack, PATH);
    let (mut bob, id) = (member(stack, "bob"), id.to_string());
    let awaits = "This awaits approval";
    let form = [
        ("comment_post_ID", id.as_str()),
        ("comment", awaits),
        ("comment_parent", "0"),
    ];
    let answer = ann.post("/wp-comments-post.php", &form).unwrap();
    assert_eq!(answer.status, 302, "{}", answer.beginning());
    for _ in 0..3 {
        assert_text(&visit(&mut ann, PATH), awaits);
        assert_no_text(&visit(&mut bob, PATH), awaits);
        assert_no_text(&stack.get(PATH), awaits);
    }
    assert_way(&visit(&mut bob, PATH), ASSEMBLED);

    // Somebody who has her cookies gets nothing of hers once she has logged out.
    let mut thief = stack.visitor();
    thief.jar = ann.jar.clone();
    store(stack, "/");
    wait_for("her front page to be assembled", TIMEOUT, || {
        visit(&mut ann, "/").cache_status() == ASSEMBLED
    });
    let page = visit(&mut ann, "/").text();
    let nonce = between(&page, "action=logout&#038;_wpnonce=", "'");
    let goodbye = ann
        .get(&format!("/wp-login.php?action=logout&_wpnonce={nonce}"))
        .unwrap();
    assert_eq!(goodbye.status, 302, "{}", goodbye.beginning());
    for path in ["/", PATH] {
        let page = visit(&mut thief, path);
        assert_no_text(&page, "Annabel");
        assert_no_text(&page, "wpadminbar");
        assert_no_text(&visit(&mut ann, path), "Annabel");
    }
}

#[test]
fn themes_mark_their_own_parts_and_other_differences_are_found() {
    let mark = r"<?php
function my_greeting() { echo '<p>Hello ' . esc_html( wp_get_current_user()->display_name ) . '</p>'; }
add_action( 'wp_footer', function () { galley_private( 'greeting', 'my_greeting', 'session' ); } );
add_action( 'wp_footer', function () { echo '<p data-nonce=' . wp_create_nonce( 'my-action' ) . '></p>'; } );
";
    let stack = &start_with("twentytwentyone", mark);
    store(stack, PATH);
    let (mut ann, mut editor) = (member(stack, "ann"), stack.editor());
    let own = visit(&mut ann, PATH);
    let assembled = visit(&mut ann, PATH);
    assert_way(&assembled, ASSEMBLED);
    assert_text(&assembled, "<p>Hello Dear ann</p>");
    let nonce = |page: &Response| between(&page.text(), "data-nonce=", ">").to_owned();
    assert_eq!(nonce(&assembled), nonce(&own));
    assert_ne!(nonce(&assembled), nonce(&stack.get(PATH)));

    // Editors see links to edit each post, which the theme does not mark.
    assert_text(&visit(&mut editor, PATH), "action=edit");
    let page = visit(&mut editor, PATH);
    assert_way(&page, "galley; fwd=bypass; detail=differs");
    assert_text(&page, "action=edit");
    let cookie = editor.jar.field(PATH).unwrap();
    let url = format!("http://{PLUGIN}{PATH}");
    let token = stack.scratch.join("admin.token");
    let (admin, token) = (stack.galley.admin().unwrap(), token.to_str().unwrap());
    let header = format!("Cookie: {cookie}");
    let arguments = [
        "why",
        &url,
        "-H",
        &header,
        "--admin",
        &admin,
        "--token-file",
        token,
    ];
    let mut why = Command::new(env!("CARGO_BIN_EXE_galley"));
    let why = why.args(arguments).output().unwrap();
    let text = String::from_utf8_lossy(&why.stdout);
    assert!(
        text.contains("is another: from byte"),
        "{text}{}",
        String::from_utf8_lossy(&why.stderr)
    );
    assert!(!text.contains("action=edit"), "{text}");
    // Members of another class do not mind.
    assert_way(&visit(&mut ann, PATH), ASSEMBLED);
}
