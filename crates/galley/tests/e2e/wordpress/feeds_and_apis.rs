//! Requests by programs: feeds, the REST API, sitemaps, XML-RPC, and scheduled tasks.

use galley_testkit::client::{Request, Response};
use galley_testkit::wait_for;
use serde_json::Value;

use super::stack::{
    HIT, STORED, TIMEOUT, WordPressStack, assert_cache_status, assert_no_text, assert_refetched,
    assert_text, php_run,
};

mod fpm_only {
    #[test]
    fn work_after_fastcgi_finish_request_does_not_block_other_requests() {
        super::work_after_fastcgi_finish_request_does_not_block_other_requests(
            &super::super::stack::FPM,
        );
    }
}

test_with_shared_stacks! {
    feeds_are_stored_with_their_content_type,
    feeds_support_conditional_requests,
    anonymous_rest_reads_are_stored_with_their_header_fields,
    authenticated_rest_requests_bypass_the_cache,
    an_invalid_rest_nonce_fails_only_for_logged_in_users,
    requests_with_an_application_password_bypass_the_cache,
    sitemaps_are_stored,
    xmlrpc_bypasses_the_cache,
    wp_cron_requests_bypass_the_cache,
    a_scheduled_post_is_shown_after_wp_cron_runs,
}

fn json(response: &Response) -> Value {
    serde_json::from_slice(&response.body).unwrap_or_else(|_| panic!("{}", response.excerpt()))
}

fn feeds_are_stored_with_their_content_type(stack: &WordPressStack) {
    for (path, content_type, expected) in [
        ("/feed/", "application/rss+xml", "<rss"),
        ("/feed/atom/", "application/atom+xml", "<feed"),
        ("/feed/rdf/", "application/rdf+xml", "<rdf:RDF"),
        ("/comments/feed/", "application/rss+xml", "Comments for"),
        ("/category/harbour/feed/", "application/rss+xml", "Harbour"),
        ("/the-ferry-runs-again/feed/", "application/rss+xml", "<rss"),
    ] {
        let first = stack.get(path).expect_status(200);
        let second = stack.get(path).expect_status(200);
        assert_cache_status(&second, HIT);
        assert_eq!(php_run(&second), php_run(&first), "{path}");
        assert_eq!(second.body, first.body, "{path}");
        let received = second.field("content-type").unwrap();
        assert!(received.starts_with(content_type), "{path}: {received}");
        assert_text(&second, expected);
    }
}

fn feeds_support_conditional_requests(stack: &WordPressStack) {
    stack.get("/feed/rss2/");
    let response = stack.get("/author/tomas/feed/").expect_status(200);
    let (etag, modified) = (
        response.field("etag").unwrap().to_owned(),
        response.field("last-modified").unwrap().to_owned(),
    );
    let runs = stack.php_runs("/author/tomas/feed/");
    for (name, value) in [("If-None-Match", &etag), ("If-Modified-Since", &modified)] {
        let same = stack.send(Request::get("/author/tomas/feed/").field(name, value.as_bytes()));
        assert_eq!(same.status, 304, "{name}: {}", same.excerpt());
        assert_cache_status(&same, HIT);
        assert_eq!(same.field("etag"), Some(etag.as_str()));
    }
    let old = Request::get("/author/tomas/feed/")
        .field("If-Modified-Since", "Mon, 01 Jan 2001 00:00:00 GMT");
    let _ = stack.send(old).expect_status(200);
    assert_eq!(stack.php_runs("/author/tomas/feed/"), runs);
    // A conditional first request stores the complete feed, not the 304.
    let first = Request::get("/author/ines/feed/").field("If-None-Match", "\"something else\"");
    assert_cache_status(&stack.send(first).expect_status(200), STORED);
    let _ = stack.get("/author/ines/feed/").expect_status(200);
}

fn anonymous_rest_reads_are_stored_with_their_header_fields(stack: &WordPressStack) {
    for target in [
        "/wp-json/wp/v2/posts?per_page=3",
        "/wp-json/wp/v2/categories?per_page=5",
        "/?rest_route=/wp/v2/pages&per_page=2",
    ] {
        let first = stack.get(target).expect_status(200);
        assert_cache_status(&first, STORED);
        let second = stack.get(target).expect_status(200);
        assert_cache_status(&second, HIT);
        assert_eq!(second.body, first.body, "{target}");
        for name in [
            "x-wp-total",
            "x-wp-totalpages",
            "link",
            "allow",
            "content-type",
        ] {
            assert!(
                second.has(name),
                "{target}: no {name}: {}",
                second.excerpt()
            );
            assert_eq!(second.all(name), first.all(name), "{target}: {name}");
        }
        assert!(json(&second).as_array().is_some_and(|all| all.len() >= 2));
    }
    let _ = stack.get("/wp-json/").expect_status(200);
    assert_cache_status(&stack.get("/wp-json/"), HIT);
    // Requests that accept only JSON have a separate cache entry, even where WordPress sends the same response.
    let json_only = Request::get("/wp-json/").field("Accept", "application/json");
    assert_cache_status(&stack.send(json_only).expect_status(200), STORED);
    let _ = stack.get("/wp-json/wp/v2/users/me").expect_status(401);
    assert!(!stack.get("/wp-json/wp/v2/users/me").is_hit());
    let _ = stack
        .get("/wp-json/wp/v2/posts/99999999")
        .expect_status(404);
}

fn authenticated_rest_requests_bypass_the_cache(stack: &WordPressStack) {
    let mut editor = stack.editor();
    let nonce = editor
        .get("/wp-admin/admin-ajax.php?action=rest-nonce")
        .unwrap()
        .expect_status(200)
        .text();
    let list = "/wp-json/wp/v2/posts?search=written+over+rest";
    assert_eq!(json(&stack.get(list)), serde_json::json!([]));
    let write = Request::post(
        "/wp-json/wp/v2/posts",
        "application/json",
        r#"{"title": "written over rest", "slug": "over-rest", "content": "By REST.", "status": "publish"}"#,
    );
    let refused = stack.send(write.clone());
    assert_eq!(refused.status, 401, "{}", refused.excerpt());
    let written = editor
        .send(write.field("X-WP-Nonce", nonce.as_bytes()))
        .unwrap()
        .expect_status(201);
    assert_cache_status(&written, "galley; fwd=method; detail=method");
    let id = json(&written)["id"].as_u64().unwrap();
    let page = stack.get("/over-rest/").expect_status(200);
    assert_text(&page, "By REST.");

    let request = Request::get("/wp-json/wp/v2/users/me?context=edit");
    let me = editor
        .send(request.field("X-WP-Nonce", nonce.as_bytes()))
        .unwrap()
        .expect_status(200);
    assert_cache_status(&me, "galley; fwd=bypass; detail=nonce");
    assert_eq!(json(&me)["slug"], "editor");
    let raw = Request::get(&format!("/wp-json/wp/v2/posts/{id}?context=edit"));
    let raw = editor
        .send(raw.field("X-WP-Nonce", nonce.as_bytes()))
        .unwrap()
        .expect_status(200);
    assert_eq!(json(&raw)["content"]["raw"], "By REST.");
    for target in [
        "/wp-json/wp/v2/users/me?context=edit".to_owned(),
        format!("/wp-json/wp/v2/posts/{id}?context=edit"),
    ] {
        let anonymous = stack.get(&target);
        assert_eq!(anonymous.status, 401, "{target}: {}", anonymous.excerpt());
        assert_no_text(&anonymous, "editor");
    }
    // Without the plugin, the stored empty list stays fresh until it is purged: the write was to another URL.
    stack.purge(&["--url", &format!("http://wp.test{list}")]);
    assert_eq!(json(&stack.get(list))[0]["id"], id);
}

/// WordPress rejects an invalid nonce even without a login. The error must not become the stored response.
fn an_invalid_rest_nonce_fails_only_for_logged_in_users(stack: &WordPressStack) {
    let target = "/wp-json/wp/v2/tags?per_page=4";
    let mut editor = stack.editor();
    let refused = editor
        .send(Request::get(target).field("X-WP-Nonce", "0123456789"))
        .unwrap();
    assert_eq!(refused.status, 403, "{}", refused.excerpt());
    let anonymous = stack.send(Request::get(target).field("X-WP-Nonce", "0123456789"));
    assert_eq!(
        anonymous.status,
        200,
        "a nonce without a login was not ignored: {}",
        anonymous.excerpt()
    );
    let _ = stack.get(target).expect_status(200);
    assert_cache_status(&stack.get(target), HIT);
}

fn requests_with_an_application_password_bypass_the_cache(stack: &WordPressStack) {
    let credentials = stack.php(
        "$user = get_user_by('login', 'editor');
         list($password) = WP_Application_Passwords::create_new_application_password($user->ID, ['name' => 'test']);
         echo base64_encode('editor:' . $password);",
    );
    let target = "/wp-json/wp/v2/users/me?context=edit&by=application";
    for _ in 0..2 {
        let request = Request::get(target).field("Authorization", format!("Basic {credentials}"));
        let response = stack.send(request).expect_status(200);
        assert_cache_status(&response, "galley; fwd=bypass; detail=authorization");
        assert_eq!(json(&response)["email"], "editor@example.org");
        assert_no_text(&stack.get(target).expect_status(401), "editor@example.org");
    }
}

fn sitemaps_are_stored(stack: &WordPressStack) {
    for (path, expected) in [
        ("/wp-sitemap.xml", "<sitemapindex"),
        ("/wp-sitemap-posts-post-1.xml", "/the-ferry-runs-again/"),
        ("/wp-sitemap-index.xsl", "<xsl:stylesheet"),
    ] {
        let first = stack.get(path).expect_status(200);
        assert_cache_status(&first, STORED);
        let second = stack.get(path).expect_status(200);
        assert_cache_status(&second, HIT);
        assert_eq!(second.body, first.body);
        let content_type = second.field("content-type").unwrap();
        assert!(content_type.contains("xml"), "{path}: {content_type}");
        assert_text(&second, expected);
    }
    let redirect = stack.get("/sitemap.xml");
    assert!(
        (300..400).contains(&redirect.status),
        "{}",
        redirect.excerpt()
    );
    assert_eq!(
        redirect.field("location"),
        Some("http://wp.test/wp-sitemap.xml")
    );
}

fn xmlrpc_bypasses_the_cache(stack: &WordPressStack) {
    let get = stack.get("/xmlrpc.php").expect_status(405);
    assert_cache_status(&get, "galley; fwd=bypass; detail=path");
    assert_text(&get, "POST requests only");
    let discovery = stack.get("/xmlrpc.php?rsd").expect_status(200);
    assert_text(&discovery, "<rsd");
    let call = "<?xml version=\"1.0\"?><methodCall><methodName>demo.addTwoNumbers</methodName><params>\
                <param><value><int>40</int></value></param><param><value><int>2</int></value></param></params></methodCall>";
    for _ in 0..2 {
        let before = stack.php_runs("/xmlrpc.php");
        let response = stack
            .send(Request::post("/xmlrpc.php", "text/xml", call))
            .expect_status(200);
        assert_cache_status(&response, "galley; fwd=method; detail=method");
        assert_text(&response, "<int>42</int>");
        assert!(php_run(&response) > before);
    }
}

fn wp_cron_requests_bypass_the_cache(stack: &WordPressStack) {
    for target in [
        "/wp-cron.php?doing_wp_cron",
        "/wp-cron.php?doing_wp_cron=1700000000.1234560012817382812500",
        "/wp-cron.php",
    ] {
        for _ in 0..2 {
            let before = stack.php_runs("/wp-cron.php");
            let response = stack.get(target).expect_status(200);
            assert_cache_status(&response, "galley; fwd=bypass; detail=path");
            // wp-cron.php sends its response before it runs the tasks, if PHP supports that.
            wait_for("the scheduler to run", TIMEOUT, || {
                stack.php_runs("/wp-cron.php") > before
            });
        }
    }
    // With `ALTERNATE_WP_CRON`, WordPress adds this parameter to page URLs. Such responses are not stored either.
    let alternate = stack.get("/?doing_wp_cron=1700000000.1");
    assert_cache_status(&alternate, "galley; fwd=bypass; detail=query");
}

fn a_scheduled_post_is_shown_after_wp_cron_runs(stack: &WordPressStack) {
    stack.php(
        "global $wpdb;
         $id = wp_insert_post(['post_name' => 'due-now', 'post_title' => 'due-now', 'post_content' => 'At last.', 'post_author' => 1,
             'post_status' => 'future', 'post_date' => gmdate('Y-m-d H:i:s', time() + 3600)]);
         $past = gmdate('Y-m-d H:i:s', time() - 60);
         $wpdb->update($wpdb->posts, ['post_date' => $past, 'post_date_gmt' => $past], ['ID' => $id]);",
    );
    let early = stack.get("/due-now/").expect_status(404);
    assert_cache_status(&early, STORED);
    // The post is due, but only wp-cron.php publishes it. The request is the same as the one WordPress sends to itself, with its
    // lock. A concurrent run that Galley started may overwrite the list of tasks with an older one, so the request is repeated.
    wait_for("the post to be published", TIMEOUT, || {
        let status = stack.php(
            "$post = get_page_by_path('due-now', OBJECT, 'post'); echo $post->post_status;
             if ($post->post_status === 'future') {
                 _set_cron_array([]);
                 wp_schedule_single_event(time() - 60, 'publish_future_post', [$post->ID]);
                 set_transient('doing_cron', '1700000000.5');
             }",
        );
        status == "publish" || {
            let _ = stack
                .get("/wp-cron.php?doing_wp_cron=1700000000.5")
                .expect_status(200);
            false
        }
    });
    stack.purge(&["--url", "http://wp.test/due-now/"]);
    let live = stack.get("/due-now/").expect_status(200);
    assert_refetched(&live);
    assert_text(&live, "At last.");
}

/// `fastcgi_finish_request()` completes the response while PHP continues to run. The worker of a connection that looks idle may
/// therefore be busy for a long time, as in each run of wp-cron.php.
fn work_after_fastcgi_finish_request_does_not_block_other_requests(stack: &WordPressStack) {
    stack.publish(["lingering"]);
    stack.set_note("linger", "/lingering/", "");
    assert_text(&stack.get("/lingering/"), "Text of lingering.");
    stack.wait_for_note("lingering", "/lingering/");
    let responses: Vec<_> = (0..3)
        .map(|number| {
            let request = Request::get(&format!("/wp-login.php?{number}"));
            let request = stack.with_default_host(request).timeout(TIMEOUT / 4);
            request.send(stack.addr()).map(|response| response.status)
        })
        .collect();
    stack.set_note("leave", "/lingering/", "");
    for response in responses {
        assert_eq!(response.unwrap(), 200);
    }
}
