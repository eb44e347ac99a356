//! Pages for one visitor, who is logged in or has a post password, a session or a cart. They are neither stored nor shared.

use galley_testkit::client::{Browser, Request, Response};
use galley_testkit::wait_for;
use serde_json::Value;

use super::stack::{
    HIT, STORED, TIMEOUT, WordPressStack, assert_cache_status, assert_no_text, assert_text,
    php_run, summary, text_between,
};

test_with_shared_stacks! {
    logged_in_pages_bypass_the_cache_until_logout,
    private_pages_under_file_like_urls_are_not_stored,
    login_pages_are_never_stored,
    wp_admin_bypasses_the_cache,
    a_password_protected_post_is_shown_only_with_the_password,
    previews_are_shown_only_to_logged_in_editors,
    php_sessions_are_not_shared_between_visitors,
    cart_and_session_cookies_bypass_the_cache,
}

const BYPASS: &str = "galley; fwd=bypass; detail=cookie";

fn get(browser: &mut Browser, target: &str) -> Response {
    browser.get(target).unwrap()
}

fn logged_in_pages_bypass_the_cache_until_logout(stack: &WordPressStack) {
    stack.publish(["login-page", "login-other"]);
    stack.get("/login-page/");
    let mut editor = stack.visitor();
    let form = get(&mut editor, "/wp-login.php").expect_status(200);
    assert!(
        form.all("set-cookie")
            .iter()
            .any(|line| line.starts_with("wordpress_test_cookie=")),
        "{}",
        form.excerpt()
    );
    assert_cache_status(&form, "galley; fwd=bypass; detail=path");
    let fields = [
        ("log", "editor"),
        ("pwd", stack.wordpress.password.as_str()),
        ("testcookie", "1"),
        ("redirect_to", "http://wp.test/login-page/"),
    ];
    let response = editor
        .post("/wp-login.php", &fields)
        .unwrap()
        .expect_status(302);
    assert_eq!(
        response.field("location"),
        Some("http://wp.test/login-page/")
    );
    assert!(editor.jar.starting_with("wordpress_logged_in_").is_some());

    let runs = stack.php_runs("/login-page/");
    for round in 1..=2 {
        let page = get(&mut editor, "/login-page/").expect_status(200);
        assert_cache_status(&page, BYPASS);
        assert_text(&page, "id=\"wpadminbar\"");
        assert_eq!(
            php_run(&page),
            runs + round,
            "the page was not generated for this request"
        );
    }
    // The login form soft-purges the page that it redirects to. The refreshed page is generated without cookies.
    wait_for("the page to be refreshed", TIMEOUT, || {
        let again = stack.get("/login-page/").expect_status(200);
        assert_no_text(&again, "wpadminbar");
        again.cache_status() == HIT
    });
    // A page that only the editor has requested is not stored.
    get(&mut editor, "/login-other/");
    let first = stack.get("/login-other/").expect_status(200);
    assert_cache_status(&first, STORED);
    assert_no_text(&first, "wpadminbar");
    assert!(
        get(&mut editor, "/login-other/")
            .text()
            .contains("wpadminbar")
    );

    let text = get(&mut editor, "/login-other/").text();
    let nonce = text_between(&text, "action=logout&#038;_wpnonce=", "'");
    let logout = get(
        &mut editor,
        &format!("/wp-login.php?action=logout&_wpnonce={nonce}"),
    );
    assert_eq!(logout.status, 302, "{}", logout.excerpt());
    assert_eq!(editor.jar.starting_with("wordpress_logged_in_"), None);
    let after = get(&mut editor, "/login-other/");
    assert_cache_status(&after, HIT);
    assert_no_text(&after, "wpadminbar");
}

/// Web cache deception: a URL that ends like a file name and shows a private page.
fn private_pages_under_file_like_urls_are_not_stored(stack: &WordPressStack) {
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
        let page = get(&mut editor, target);
        assert!(!page.is_hit(), "{target}: {}", page.excerpt());
        let anonymous = stack.get(target);
        assert_no_text(&anonymous, "editor@example.org");
        assert_no_text(&anonymous, "wpadminbar");
    }
}

fn login_pages_are_never_stored(stack: &WordPressStack) {
    for target in [
        "/wp-login.php",
        "/wp-login.php?action=lostpassword",
        "/wp-login.php?redirect_to=x&reauth=1",
    ] {
        let mut last = 0;
        for _ in 0..2 {
            let response = stack.get(target).expect_status(200);
            assert_cache_status(&response, "galley; fwd=bypass; detail=path");
            assert!(php_run(&response) > last, "{target}");
            last = php_run(&response);
            assert!(
                response
                    .field("cache-control")
                    .is_some_and(|value| value.contains("no-cache")),
                "{}",
                response.excerpt()
            );
        }
    }
    let wrong = Request::form("/wp-login.php", &[("log", "editor"), ("pwd", "wrong")])
        .cookie("wordpress_test_cookie=WP%20Cookie%20check");
    let response = stack.send(wrong).expect_status(200);
    assert_text(&response, "login_error");
}

fn wp_admin_bypasses_the_cache(stack: &WordPressStack) {
    let mut admin = stack.admin();
    for (target, expected) in [
        ("/wp-admin/", "id=\"wpadminbar\""),
        ("/wp-admin/index.php", "id=\"dashboard-widgets\""),
        ("/wp-admin/edit.php", "wp-list-table"),
        ("/wp-admin/profile.php", "id=\"your-profile\""),
        (
            "/wp-admin/load-styles.php?c=0&dir=ltr&load=dashicons",
            "dashicons",
        ),
    ] {
        let page = get(&mut admin, target).expect_status(200);
        assert!(page.cache_status().contains("fwd=bypass"), "{target}");
        assert_text(&page, expected);
    }
    let heartbeat = [
        ("action", "heartbeat"),
        ("interval", "60"),
        ("screen_id", "dashboard"),
        ("_nonce", "x"),
    ];
    let response = admin.post("/wp-admin/admin-ajax.php", &heartbeat).unwrap();
    assert_cache_status(&response, "galley; fwd=method; detail=method");
    assert_text(&response, "nonces_expired");
    // Anonymous pages use the same endpoint.
    let anonymous = stack.get("/wp-admin/admin-ajax.php?action=nothing");
    assert_eq!((anonymous.status, anonymous.text().as_str()), (400, "0"));
    assert_cache_status(&anonymous, "galley; fwd=bypass; detail=path");
}

fn a_password_protected_post_is_shown_only_with_the_password(stack: &WordPressStack) {
    stack.php(
        "foreach (['locked', 'locked-too'] as $slug) { wp_insert_post(['post_name' => $slug, 'post_title' => $slug, \
         'post_content' => 'The secret text.', 'post_status' => 'publish', 'post_author' => 1, 'post_password' => 'sesame']); }",
    );
    let is_locked = |page: &Response| {
        page.text().contains("post-password-form") && !page.text().contains("The secret text.")
    };
    assert!(is_locked(&stack.get("/locked/").expect_status(200)));
    let unlock = |password: &str| {
        let mut visitor = stack.visitor();
        let form = [("post_password", password), ("Submit", "Enter")];
        let request = Request::form("/wp-login.php?action=postpass", &form)
            .field("Referer", "http://wp.test/locked/");
        let response = visitor.send(request).unwrap().expect_status(302);
        assert_eq!(response.field("location"), Some("http://wp.test/locked/"));
        assert!(visitor.jar.starting_with("wp-postpass_").is_some());
        visitor
    };
    let mut member = unlock("sesame");
    for path in ["/locked/", "/locked-too/", "/locked/"] {
        let page = get(&mut member, path).expect_status(200);
        assert_cache_status(&page, BYPASS);
        assert_text(&page, "The secret text.");
        assert!(is_locked(&stack.get(path)), "{path}");
        assert!(is_locked(&stack.get(path)), "{path}, second request");
    }
    let page = get(&mut unlock("wrong"), "/locked/");
    assert!(is_locked(&page), "{}", summary(&page));
    for target in [
        "/?s=secret+text",
        "/feed/?x=locked",
        "/wp-json/wp/v2/posts?slug=locked",
    ] {
        assert_no_text(&stack.get(target), "The secret text.");
    }
}

fn previews_are_shown_only_to_logged_in_editors(stack: &WordPressStack) {
    let id = stack.php(
        "echo wp_insert_post(['post_title' => 'a draft', 'post_content' => 'Not for strangers.', 'post_status' => 'draft', 'post_author' => 1]);",
    );
    let mut editor = stack.editor();
    let target = format!("/?p={id}&preview=true");
    for target in [target.clone(), format!("/?p={id}")] {
        let preview = get(&mut editor, &target).expect_status(200);
        assert!(preview.cache_status().contains("fwd=bypass"));
        assert_text(&preview, "Not for strangers.");
        for _ in 0..2 {
            let anonymous = stack.get(&target).expect_status(404);
            assert_no_text(&anonymous, "Not for strangers.");
        }
    }
    assert_cache_status(&stack.get(&target), "galley; fwd=bypass; detail=query");
    // The block editor previews changes of a public post with an autosave and a URL with a nonce.
    let [public] = stack.publish(["previewed"]);
    stack.get("/previewed/");
    let nonce = get(&mut editor, "/wp-admin/admin-ajax.php?action=rest-nonce").text();
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
    let preview = get(&mut editor, target).expect_status(200);
    assert_cache_status(&preview, "galley; fwd=bypass; detail=query");
    assert_text(&preview, "Changed in a preview.");
    for target in [target, "/previewed/"] {
        assert_no_text(&stack.get(target), "Changed in a preview.");
    }
    assert_cache_status(&stack.get("/previewed/"), HIT);
}

fn php_sessions_are_not_shared_between_visitors(stack: &WordPressStack) {
    stack.publish(["session-one", "session-two"]);
    for path in ["/session-one/", "/session-two/"] {
        stack.set_note("session", path, "");
    }
    let visits = |page: &Response| {
        text_between(&page.text(), "\nvisits=", "\n")
            .parse::<u32>()
            .unwrap()
    };
    let (mut ann, mut ben) = (stack.visitor(), stack.visitor());
    for round in 1..=3 {
        for (number, path) in ["/session-one/", "/session-two/"].iter().enumerate() {
            let page = get(&mut ann, path).expect_status(200);
            let expected = 2 * (round - 1) + 1 + u32::try_from(number).unwrap();
            assert_eq!(visits(&page), expected, "{path}: {}", page.excerpt());
            assert!(!page.is_hit());
        }
        let page = get(&mut ben, "/session-one/").expect_status(200);
        assert_eq!(visits(&page), round, "{}", page.excerpt());
    }
    let id = |browser: &Browser| browser.jar.starting_with("PHPSESSID").unwrap().to_owned();
    assert_ne!(id(&ann), id(&ben));
    for _ in 0..2 {
        let anonymous = stack.get("/session-one/");
        assert_eq!(visits(&anonymous), 1, "the session is not new");
        assert!(anonymous.has("set-cookie") && !anonymous.is_hit());
        assert_no_text(&anonymous, &id(&ann));
    }
}

fn cart_and_session_cookies_bypass_the_cache(stack: &WordPressStack) {
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
        let before = stack.php_runs("/shop/");
        let response = stack.send(Request::get("/shop/").cookie(cookies));
        assert_cache_status(&response, BYPASS);
        assert_eq!(php_run(&response), before + 1, "{cookies}");
        assert_eq!(response.field("x-lab-cookie"), Some(cookies));
    }
    let anonymous = stack.get("/shop/");
    assert_cache_status(&anonymous, HIT);
    assert_eq!(php_run(&anonymous), 1);
    for target in ["/shop/?add-to-cart=1", "/?wc-ajax=get_refreshed_fragments"] {
        assert_cache_status(&stack.get(target), "galley; fwd=bypass; detail=query");
    }
}
