//! What machines ask for: feeds, the REST interface, sitemaps, XML-RPC, scheduled tasks.

use galley_testkit::client::{Request, Response};
use galley_testkit::wait_for;
use serde_json::Value;

use super::stack::{
    HIT, STORED, Stack, TIMEOUT, assert_no_text, assert_refetched, assert_text, assert_way, run_of,
};

mod fpm_alone {
    #[test]
    fn work_after_the_answer_holds_up_nobody() {
        super::work_after_the_answer_holds_up_nobody(&super::super::stack::FPM);
    }
}

both! {
    feeds_are_kept_with_their_types,
    feeds_answer_conditional_readers,
    rest_reads_of_strangers_are_kept_with_their_totals,
    rest_of_an_editor_passes_and_writes,
    an_invalid_nonce_is_wordpress_business,
    an_application_password_reaches_php,
    the_sitemap_is_kept,
    xmlrpc_passes,
    scheduled_tasks_reach_php,
    a_scheduled_post_goes_live,
}

fn json(answer: &Response) -> Value {
    serde_json::from_slice(&answer.body).unwrap_or_else(|_| panic!("{}", answer.beginning()))
}

fn feeds_are_kept_with_their_types(stack: &Stack) {
    for (path, content_type, wanted) in [
        ("/feed/", "application/rss+xml", "<rss"),
        ("/feed/atom/", "application/atom+xml", "<feed"),
        ("/feed/rdf/", "application/rdf+xml", "<rdf:RDF"),
        ("/comments/feed/", "application/rss+xml", "Comments for"),
        ("/category/harbour/feed/", "application/rss+xml", "Harbour"),
        ("/the-ferry-runs-again/feed/", "application/rss+xml", "<rss"),
    ] {
        let first = stack.get(path).expect_status(200);
        let second = stack.get(path).expect_status(200);
        assert_way(&second, HIT);
        assert_eq!(run_of(&second), run_of(&first), "{path}");
        assert_eq!(second.body, first.body, "{path}");
        let found = second.field("content-type").unwrap();
        assert!(found.starts_with(content_type), "{path}: {found}");
        assert_text(&second, wanted);
    }
}

fn feeds_answer_conditional_readers(stack: &Stack) {
    stack.get("/feed/rss2/");
    let answer = stack.get("/author/tomas/feed/").expect_status(200);
    let (etag, modified) = (
        answer.field("etag").unwrap().to_owned(),
        answer.field("last-modified").unwrap().to_owned(),
    );
    let runs = stack.runs("/author/tomas/feed/");
    for (name, value) in [("If-None-Match", &etag), ("If-Modified-Since", &modified)] {
        let same = stack.send(Request::get("/author/tomas/feed/").field(name, value.as_bytes()));
        assert_eq!(same.status, 304, "{name}: {}", same.beginning());
        assert_way(&same, HIT);
        assert_eq!(same.field("etag"), Some(etag.as_str()));
    }
    let old = Request::get("/author/tomas/feed/")
        .field("If-Modified-Since", "Mon, 01 Jan 2001 00:00:00 GMT");
    let _ = stack.send(old).expect_status(200);
    assert_eq!(stack.runs("/author/tomas/feed/"), runs);
    // A conditional first visit gets the whole feed stored, not its 304.
    let first = Request::get("/author/ines/feed/").field("If-None-Match", "\"something else\"");
    assert_way(&stack.send(first).expect_status(200), STORED);
    let _ = stack.get("/author/ines/feed/").expect_status(200);
}

fn rest_reads_of_strangers_are_kept_with_their_totals(stack: &Stack) {
    for target in [
        "/wp-json/wp/v2/posts?per_page=3",
        "/wp-json/wp/v2/categories?per_page=5",
        "/?rest_route=/wp/v2/pages&per_page=2",
    ] {
        let first = stack.get(target).expect_status(200);
        assert_way(&first, STORED);
        let second = stack.get(target).expect_status(200);
        assert_way(&second, HIT);
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
                second.beginning()
            );
            assert_eq!(second.all(name), first.all(name), "{target}: {name}");
        }
        assert!(json(&second).as_array().is_some_and(|all| all.len() >= 2));
    }
    let _ = stack.get("/wp-json/").expect_status(200);
    assert_way(&stack.get("/wp-json/"), HIT);
    // An application that asks for JSON alone has a copy of its own; here it is the same.
    let activity = Request::get("/wp-json/").field("Accept", "application/json");
    assert_way(&stack.send(activity).expect_status(200), STORED);
    let _ = stack.get("/wp-json/wp/v2/users/me").expect_status(401);
    assert!(!stack.get("/wp-json/wp/v2/users/me").is_hit());
    let _ = stack
        .get("/wp-json/wp/v2/posts/99999999")
        .expect_status(404);
}

fn rest_of_an_editor_passes_and_writes(stack: &Stack) {
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
    assert_eq!(refused.status, 401, "{}", refused.beginning());
    let written = editor
        .send(write.field("X-WP-Nonce", nonce.as_bytes()))
        .unwrap()
        .expect_status(201);
    assert_way(&written, "galley; fwd=method; detail=method");
    let id = json(&written)["id"].as_u64().unwrap();
    let page = stack.get("/over-rest/").expect_status(200);
    assert_text(&page, "By REST.");

    let own = Request::get("/wp-json/wp/v2/users/me?context=edit");
    let me = editor
        .send(own.field("X-WP-Nonce", nonce.as_bytes()))
        .unwrap()
        .expect_status(200);
    assert_way(&me, "galley; fwd=bypass; detail=nonce");
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
        let stranger = stack.get(&target);
        assert_eq!(stranger.status, 401, "{target}: {}", stranger.beginning());
        assert_no_text(&stranger, "editor");
    }
    // The list that was empty is another URL than what was written to: it lives its time, or until it is purged.
    stack.purge(&["--url", &format!("http://wp.test{list}")]);
    assert_eq!(json(&stack.get(list))[0]["id"], id);
}

/// WordPress refuses an invalid nonce also where a stranger sends it; that must not become everybody's answer.
fn an_invalid_nonce_is_wordpress_business(stack: &Stack) {
    let target = "/wp-json/wp/v2/tags?per_page=4";
    let mut editor = stack.editor();
    let refused = editor
        .send(Request::get(target).field("X-WP-Nonce", "0123456789"))
        .unwrap();
    assert_eq!(refused.status, 403, "{}", refused.beginning());
    let stranger = stack.send(Request::get(target).field("X-WP-Nonce", "0123456789"));
    assert_eq!(
        stranger.status,
        200,
        "a nonce without a login is nobody's: {}",
        stranger.beginning()
    );
    let _ = stack.get(target).expect_status(200);
    assert_way(&stack.get(target), HIT);
}

fn an_application_password_reaches_php(stack: &Stack) {
    let said = stack.php(
        "$user = get_user_by('login', 'editor');
         list($password) = WP_Application_Passwords::create_new_application_password($user->ID, ['name' => 'test']);
         echo base64_encode('editor:' . $password);",
    );
    let target = "/wp-json/wp/v2/users/me?context=edit&by=application";
    for _ in 0..2 {
        let own = Request::get(target).field("Authorization", format!("Basic {said}"));
        let answer = stack.send(own).expect_status(200);
        assert_way(&answer, "galley; fwd=bypass; detail=authorization");
        assert_eq!(json(&answer)["email"], "editor@example.org");
        assert_no_text(&stack.get(target).expect_status(401), "editor@example.org");
    }
}

fn the_sitemap_is_kept(stack: &Stack) {
    for (path, wanted) in [
        ("/wp-sitemap.xml", "<sitemapindex"),
        ("/wp-sitemap-posts-post-1.xml", "/the-ferry-runs-again/"),
        ("/wp-sitemap-index.xsl", "<xsl:stylesheet"),
    ] {
        let first = stack.get(path).expect_status(200);
        assert_way(&first, STORED);
        let second = stack.get(path).expect_status(200);
        assert_way(&second, HIT);
        assert_eq!(second.body, first.body);
        let content_type = second.field("content-type").unwrap();
        assert!(content_type.contains("xml"), "{path}: {content_type}");
        assert_text(&second, wanted);
    }
    let redirect = stack.get("/sitemap.xml");
    assert!(
        (300..400).contains(&redirect.status),
        "{}",
        redirect.beginning()
    );
    assert_eq!(
        redirect.field("location"),
        Some("http://wp.test/wp-sitemap.xml")
    );
}

fn xmlrpc_passes(stack: &Stack) {
    let get = stack.get("/xmlrpc.php").expect_status(405);
    assert_way(&get, "galley; fwd=bypass; detail=path");
    assert_text(&get, "POST requests only");
    let discovery = stack.get("/xmlrpc.php?rsd").expect_status(200);
    assert_text(&discovery, "<rsd");
    let call = "<?xml version=\"1.0\"?><methodCall><methodName>demo.addTwoNumbers</methodName><params>\
                <param><value><int>40</int></value></param><param><value><int>2</int></value></param></params></methodCall>";
    for _ in 0..2 {
        let before = stack.runs("/xmlrpc.php");
        let answer = stack
            .send(Request::post("/xmlrpc.php", "text/xml", call))
            .expect_status(200);
        assert_way(&answer, "galley; fwd=method; detail=method");
        assert_text(&answer, "<int>42</int>");
        assert!(run_of(&answer) > before);
    }
}

fn scheduled_tasks_reach_php(stack: &Stack) {
    for target in [
        "/wp-cron.php?doing_wp_cron",
        "/wp-cron.php?doing_wp_cron=1700000000.1234560012817382812500",
        "/wp-cron.php",
    ] {
        for _ in 0..2 {
            let before = stack.runs("/wp-cron.php");
            let answer = stack.get(target).expect_status(200);
            assert_way(&answer, "galley; fwd=bypass; detail=path");
            // It answers before it works, where it can.
            wait_for("the scheduler to run", TIMEOUT, || {
                stack.runs("/wp-cron.php") > before
            });
        }
    }
    // What WordPress appends to a page's address to run tasks aside is no page either.
    let alternate = stack.get("/?doing_wp_cron=1700000000.1");
    assert_way(&alternate, "galley; fwd=bypass; detail=query");
}

fn a_scheduled_post_goes_live(stack: &Stack) {
    stack.php(
        "global $wpdb;
         $id = wp_insert_post(['post_name' => 'due-now', 'post_title' => 'due-now', 'post_content' => 'At last.', 'post_author' => 1,
             'post_status' => 'future', 'post_date' => gmdate('Y-m-d H:i:s', time() + 3600)]);
         $past = gmdate('Y-m-d H:i:s', time() - 60);
         $wpdb->update($wpdb->posts, ['post_date' => $past, 'post_date_gmt' => $past], ['ID' => $id]);",
    );
    let early = stack.get("/due-now/").expect_status(404);
    assert_way(&early, STORED);
    // Due already, but only the scheduler makes a post public. It is called as WordPress calls itself: with its lock. A run
    // of the server's own that began before writes its older list of tasks over this one: then it is asked for again.
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

/// `fastcgi_finish_request()` ends the answer and not the work: the worker of a connection that looks idle may be busy for
/// long, as it is with each run of the scheduler.
fn work_after_the_answer_holds_up_nobody(stack: &Stack) {
    stack.publish(["lingering"]);
    stack.set("linger", "/lingering/", "");
    assert_text(&stack.get("/lingering/"), "Text of lingering.");
    stack.wait_for_note("lingering", "/lingering/");
    let answers: Vec<_> = (0..3)
        .map(|number| {
            let request = Request::get(&format!("/wp-login.php?{number}"));
            let brief = stack.named(request).timeout(TIMEOUT / 4);
            brief.send(stack.addr()).map(|answer| answer.status)
        })
        .collect();
    stack.set("leave", "/lingering/", "");
    for answer in answers {
        assert_eq!(answer.unwrap(), 200);
    }
}
