//! Pages for one person: logged in, with a password, with a session, with a cart. Nothing of them is ever stored or shared.

use galley_testkit::client::{Browser, Request, Response};
use galley_testkit::wait_for;
use serde_json::Value;

use super::stack::{
    HIT, STORED, Stack, TIMEOUT, assert_no_text, assert_text, assert_way, between, run_of, summary,
};

both! {
    logging_in_and_out,
    a_login_in_the_address_of_a_file_stays_private,
    login_pages_are_never_stored,
    the_administration_works,
    a_protected_post_opens_for_who_knows_its_password,
    a_draft_is_previewed_by_its_editor_alone,
    a_session_on_every_page_stays_with_its_visitor,
    a_visitor_with_a_cart_passes,
}

const BYPASS: &str = "galley; fwd=bypass; detail=cookie";

fn visit(browser: &mut Browser, target: &str) -> Response {
    browser.get(target).unwrap()
}

fn logging_in_and_out(stack: &Stack) {
    stack.publish(["login-page", "login-other"]);
    stack.get("/login-page/");
    let mut editor = stack.visitor();
    let form = visit(&mut editor, "/wp-login.php").expect_status(200);
    assert!(
        form.all("set-cookie")
            .iter()
            .any(|line| line.starts_with("wordpress_test_cookie=")),
        "{}",
        form.beginning()
    );
    assert_way(&form, "galley; fwd=bypass; detail=path");
    let fields = [
        ("log", "editor"),
        ("pwd", stack.wordpress.password.as_str()),
        ("testcookie", "1"),
        ("redirect_to", "http://wp.test/login-page/"),
    ];
    let answer = editor
        .post("/wp-login.php", &fields)
        .unwrap()
        .expect_status(302);
    assert_eq!(answer.field("location"), Some("http://wp.test/login-page/"));
    assert!(editor.jar.starting_with("wordpress_logged_in_").is_some());

    let runs = stack.runs("/login-page/");
    for round in 1..=2 {
        let page = visit(&mut editor, "/login-page/").expect_status(200);
        assert_way(&page, BYPASS);
        assert_text(&page, "id=\"wpadminbar\"");
        assert_eq!(run_of(&page), runs + round, "composed for this editor");
    }
    // The login purges softly where it leads to; what is generated then is for strangers again.
    wait_for("the page to be refreshed", TIMEOUT, || {
        let again = stack.get("/login-page/").expect_status(200);
        assert_no_text(&again, "wpadminbar");
        again.cache_status() == HIT
    });
    // A page that only the editor has seen is not in the store.
    visit(&mut editor, "/login-other/");
    let first = stack.get("/login-other/").expect_status(200);
    assert_way(&first, STORED);
    assert_no_text(&first, "wpadminbar");
    assert!(
        visit(&mut editor, "/login-other/")
            .text()
            .contains("wpadminbar")
    );

    let text = visit(&mut editor, "/login-other/").text();
    let nonce = between(&text, "action=logout&#038;_wpnonce=", "'");
    let goodbye = visit(
        &mut editor,
        &format!("/wp-login.php?action=logout&_wpnonce={nonce}"),
    );
    assert_eq!(goodbye.status, 302, "{}", goodbye.beginning());
    assert_eq!(editor.jar.starting_with("wordpress_logged_in_"), None);
    let after = visit(&mut editor, "/login-other/");
    assert_way(&after, HIT);
    assert_no_text(&after, "wpadminbar");
}

/// Web cache deception: an address that ends like a file and shows a person's page.
fn a_login_in_the_address_of_a_file_stays_private(stack: &Stack) {
    let mut editor = stack.editor();
    for target in [
        "/wp-admin/profile.php/x.css",
        "/wp-admin/profile.php?x.css",
        "/wp-admin/profile.php%2Fx.css",
        "/wp-admin%2Fprofile.php",
        "//wp-admin/profile.php",
        "/wp-admin/./profile.php",
        "/x/../wp-admin/profile.php",
        "/wp-admin/profile.php;x.css",
        "/index.php/wp-admin/profile.php",
        "/the-ferry-runs-again/x.css",
        "/the-ferry-runs-again.css",
        "/%77p-admin/profile.php",
    ] {
        let own = visit(&mut editor, target);
        assert!(!own.is_hit(), "{target}: {}", own.beginning());
        let stranger = stack.get(target);
        assert_no_text(&stranger, "editor@example.org");
        assert_no_text(&stranger, "wpadminbar");
    }
}

fn login_pages_are_never_stored(stack: &Stack) {
    for target in [
        "/wp-login.php",
        "/wp-login.php?action=lostpassword",
        "/wp-login.php?redirect_to=x&reauth=1",
    ] {
        let mut last = 0;
        for _ in 0..2 {
            let answer = stack.get(target).expect_status(200);
            assert_way(&answer, "galley; fwd=bypass; detail=path");
            assert!(run_of(&answer) > last, "{target}");
            last = run_of(&answer);
            assert!(
                answer
                    .field("cache-control")
                    .is_some_and(|value| value.contains("no-cache")),
                "{}",
                answer.beginning()
            );
        }
    }
    let wrong = Request::form("/wp-login.php", &[("log", "editor"), ("pwd", "wrong")])
        .cookie("wordpress_test_cookie=WP%20Cookie%20check");
    let answer = stack.send(wrong).expect_status(200);
    assert_text(&answer, "login_error");
}

fn the_administration_works(stack: &Stack) {
    let mut admin = stack.admin();
    for (target, wanted) in [
        ("/wp-admin/", "id=\"wpadminbar\""),
        ("/wp-admin/index.php", "id=\"dashboard-widgets\""),
        ("/wp-admin/edit.php", "wp-list-table"),
        ("/wp-admin/profile.php", "id=\"your-profile\""),
        (
            "/wp-admin/load-styles.php?c=0&dir=ltr&load=dashicons",
            "dashicons",
        ),
    ] {
        let page = visit(&mut admin, target).expect_status(200);
        assert!(page.cache_status().contains("fwd=bypass"), "{target}");
        assert_text(&page, wanted);
    }
    let beat = [
        ("action", "heartbeat"),
        ("interval", "60"),
        ("screen_id", "dashboard"),
        ("_nonce", "x"),
    ];
    let answer = admin.post("/wp-admin/admin-ajax.php", &beat).unwrap();
    assert_way(&answer, "galley; fwd=method; detail=method");
    assert_text(&answer, "nonces_expired");
    // The front end of strangers uses the same interface.
    let stranger = stack.get("/wp-admin/admin-ajax.php?action=nothing");
    assert_eq!((stranger.status, stranger.text().as_str()), (400, "0"));
    assert_way(&stranger, "galley; fwd=bypass; detail=path");
}

fn a_protected_post_opens_for_who_knows_its_password(stack: &Stack) {
    stack.php(
        "foreach (['locked', 'locked-too'] as $slug) { wp_insert_post(['post_name' => $slug, 'post_title' => $slug, \
         'post_content' => 'The secret text.', 'post_status' => 'publish', 'post_author' => 1, 'post_password' => 'sesame']); }",
    );
    let is_closed = |page: &Response| {
        page.text().contains("post-password-form") && !page.text().contains("The secret text.")
    };
    assert!(is_closed(&stack.get("/locked/").expect_status(200)));
    let unlock = |password: &str| {
        let mut visitor = stack.visitor();
        let form = [("post_password", password), ("Submit", "Enter")];
        let request = Request::form("/wp-login.php?action=postpass", &form)
            .field("Referer", "http://wp.test/locked/");
        let answer = visitor.send(request).unwrap().expect_status(302);
        assert_eq!(answer.field("location"), Some("http://wp.test/locked/"));
        assert!(visitor.jar.starting_with("wp-postpass_").is_some());
        visitor
    };
    let mut member = unlock("sesame");
    for path in ["/locked/", "/locked-too/", "/locked/"] {
        let page = visit(&mut member, path).expect_status(200);
        assert_way(&page, BYPASS);
        assert_text(&page, "The secret text.");
        assert!(is_closed(&stack.get(path)), "{path}");
        assert!(is_closed(&stack.get(path)), "{path}, from the store");
    }
    let page = visit(&mut unlock("wrong"), "/locked/");
    assert!(is_closed(&page), "{}", summary(&page));
    for target in [
        "/?s=secret+text",
        "/feed/?x=locked",
        "/wp-json/wp/v2/posts?slug=locked",
    ] {
        assert_no_text(&stack.get(target), "The secret text.");
    }
}

fn a_draft_is_previewed_by_its_editor_alone(stack: &Stack) {
    let id = stack.php(
        "echo wp_insert_post(['post_title' => 'a draft', 'post_content' => 'Not for strangers.', 'post_status' => 'draft', 'post_author' => 1]);",
    );
    let mut editor = stack.editor();
    let target = format!("/?p={id}&preview=true");
    for target in [target.clone(), format!("/?p={id}")] {
        let preview = visit(&mut editor, &target).expect_status(200);
        assert!(preview.cache_status().contains("fwd=bypass"));
        assert_text(&preview, "Not for strangers.");
        for _ in 0..2 {
            let stranger = stack.get(&target).expect_status(404);
            assert_no_text(&stranger, "Not for strangers.");
        }
    }
    assert_way(&stack.get(&target), "galley; fwd=bypass; detail=query");
    // Changes to a public post, as the block editor shows them: an autosave, and an address with its nonce.
    let [public] = stack.publish(["previewed"]);
    stack.get("/previewed/");
    let nonce = visit(&mut editor, "/wp-admin/admin-ajax.php?action=rest-nonce").text();
    let save = Request::post(
        &format!("/wp-json/wp/v2/posts/{public}/autosaves"),
        "application/json",
        r#"{"content": "Changed in a preview."}"#,
    );
    let saved = editor
        .send(save.field("X-WP-Nonce", nonce.as_bytes()))
        .unwrap()
        .expect_status(200);
    let saved: Value = serde_json::from_slice(&saved.body).unwrap();
    let link = saved["preview_link"].as_str().unwrap();
    let target = link.strip_prefix("http://wp.test").unwrap();
    let preview = visit(&mut editor, target).expect_status(200);
    assert_way(&preview, "galley; fwd=bypass; detail=query");
    assert_text(&preview, "Changed in a preview.");
    for target in [target, "/previewed/"] {
        assert_no_text(&stack.get(target), "Changed in a preview.");
    }
    assert_way(&stack.get("/previewed/"), HIT);
}

fn a_session_on_every_page_stays_with_its_visitor(stack: &Stack) {
    stack.publish(["session-one", "session-two"]);
    for path in ["/session-one/", "/session-two/"] {
        stack.set("session", path, "");
    }
    let visits = |page: &Response| {
        between(&page.text(), "\nvisits=", "\n")
            .parse::<u32>()
            .unwrap()
    };
    let (mut ann, mut ben) = (stack.visitor(), stack.visitor());
    for round in 1..=3 {
        for (number, path) in ["/session-one/", "/session-two/"].iter().enumerate() {
            let page = visit(&mut ann, path).expect_status(200);
            let wanted = 2 * (round - 1) + 1 + u32::try_from(number).unwrap();
            assert_eq!(visits(&page), wanted, "{path}: {}", page.beginning());
            assert!(!page.is_hit());
        }
        let page = visit(&mut ben, "/session-one/").expect_status(200);
        assert_eq!(visits(&page), round, "{}", page.beginning());
    }
    let id = |browser: &Browser| browser.jar.starting_with("PHPSESSID").unwrap().to_owned();
    assert_ne!(id(&ann), id(&ben));
    for _ in 0..2 {
        let stranger = stack.get("/session-one/");
        assert_eq!(visits(&stranger), 1, "a session of its own");
        assert!(stranger.has("set-cookie") && !stranger.is_hit());
        assert_no_text(&stranger, &id(&ann));
    }
}

fn a_visitor_with_a_cart_passes(stack: &Stack) {
    stack.publish(["shop"]);
    stack.get("/shop/");
    for cookies in [
        "woocommerce_items_in_cart=1",
        "_ga=x; woocommerce_cart_hash=0123; y=z",
        "wp_woocommerce_session_0123=a%7C%7Cb",
        "edd_items_in_cart=1",
        "comment_author_0123456789abcdef0123456789abcdef=Ann",
        "wordpress_no_cache=1",
    ] {
        let before = stack.runs("/shop/");
        let answer = stack.send(Request::get("/shop/").cookie(cookies));
        assert_way(&answer, BYPASS);
        assert_eq!(run_of(&answer), before + 1, "{cookies}");
        assert_eq!(answer.field("x-lab-cookie"), Some(cookies));
    }
    let stranger = stack.get("/shop/");
    assert_way(&stranger, HIT);
    assert_eq!(run_of(&stranger), 1);
    for target in ["/shop/?add-to-cart=1", "/?wc-ajax=get_refreshed_fragments"] {
        assert_way(&stack.get(target), "galley; fwd=bypass; detail=query");
    }
}
