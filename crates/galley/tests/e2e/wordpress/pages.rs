//! Anonymous pages: PHP generates them once, all clients get the same bytes, and request data of one client does not appear in
//! them.

use galley_testkit::client::{Request, Response};
use galley_testkit::wait_for;

use super::stack::{
    HIT, HOST, STORED, TIMEOUT, WordPressStack, assert_cache_status, assert_no_text, assert_text,
    php_run,
};

test_with_shared_stacks! {
    the_first_request_is_a_miss_and_the_second_a_hit,
    each_page_of_the_sample_site_is_generated_once,
    head_responses_have_the_header_fields_of_get,
    if_none_match_gets_304_from_the_cache,
    not_found_pages_are_stored_with_status_404,
    post_responses_are_not_stored_and_soft_purge_the_page,
    search_results_are_stored_per_query,
    tracking_parameters_are_ignored_and_not_forwarded,
    similar_parameter_names_are_not_treated_as_tracking,
    redirects_keep_the_tracking_parameters_of_the_request,
    anonymous_cookies_are_ignored_and_not_forwarded,
    forged_request_fields_do_not_appear_in_stored_pages,
    ajax_and_cross_origin_requests_bypass_the_cache,
    a_page_with_set_cookie_is_not_shared,
    cache_control_and_vary_prevent_storing,
}

/// Returns the header fields that must be equal in two responses with the same content.
fn stable_fields(response: &Response) -> Vec<(String, String)> {
    let variable = [
        "age",
        "cache-status",
        "content-length",
        "etag",
        "transfer-encoding",
    ];
    let mut fields: Vec<_> = response
        .fields
        .iter()
        .map(|(name, value)| {
            (
                name.to_ascii_lowercase(),
                String::from_utf8_lossy(value).into_owned(),
            )
        })
        .filter(|(name, _)| !variable.contains(&name.as_str()))
        .collect();
    // Only the order of field lines with the same name is significant (RFC 9110 section 5.3).
    fields.sort_by(|a, b| a.0.cmp(&b.0));
    fields
}

fn the_first_request_is_a_miss_and_the_second_a_hit(stack: &WordPressStack) {
    stack.publish(["first-visit"]);
    let first = stack.get("/first-visit/").expect_status(200);
    assert_cache_status(&first, STORED);
    assert_text(&first, "Text of first-visit.");
    let second = stack.get("/first-visit/").expect_status(200);
    assert_cache_status(&second, HIT);
    assert_eq!(second.body, first.body);
    assert_eq!(stable_fields(&second), stable_fields(&first));
    assert!(second.age().is_some() && second.has("etag"));
    assert_eq!(second.field("cache-control"), Some("no-cache"));
    assert_eq!(stack.php_runs("/first-visit/"), 1);
}

fn each_page_of_the_sample_site_is_generated_once(stack: &WordPressStack) {
    let pages = [
        ("/", 200, "The Tide Table"),
        ("/page/2/", 200, "The Tide Table"),
        ("/the-ferry-runs-again/", 200, "The ferry runs again"),
        ("/about/our-crew/join-us/", 200, "Join us"),
        ("/category/harbour/boats/", 200, "Boats"),
        ("/author/mara/", 200, "Mara Lindqvist"),
        ("/sticky-notice/", 200, "Winter opening hours"),
        ("/private-note/", 404, ""),
        ("/next-week/", 404, ""),
        ("/robots.txt", 200, "Sitemap: http://wp.test/wp-sitemap.xml"),
    ];
    for (path, status, expected) in pages {
        let first = stack.get(path).expect_status(status);
        let again = stack.get(path).expect_status(status);
        assert_cache_status(&again, HIT);
        assert_eq!(php_run(&again), php_run(&first), "{path}");
        assert_text(&again, expected);
        assert_eq!(again.body, first.body, "{path}");
        assert_no_text(&again, "A note to ourselves");
    }
}

fn head_responses_have_the_header_fields_of_get(stack: &WordPressStack) {
    stack.publish(["head-first"]);
    let head = stack.send(Request::head("/head-first/")).expect_status(200);
    assert_cache_status(&head, STORED);
    // The response head may be sent before the page is complete. Requests in between share the fetch.
    assert_text(&stack.get("/head-first/"), "Text of head-first.");
    let get = stack.get("/head-first/").expect_status(200);
    assert_cache_status(&get, HIT);
    assert_text(&get, "method=GET");
    let again = stack.send(Request::head("/head-first/")).expect_status(200);
    assert_cache_status(&again, HIT);
    assert_eq!(again.field("content-length"), get.field("content-length"));
    assert_eq!(again.field("etag"), get.field("etag"));
    assert_eq!(stable_fields(&again), stable_fields(&get));
    assert_eq!(stable_fields(&head), stable_fields(&get));
    assert_eq!(stack.php_runs("/head-first/"), 1);
}

fn if_none_match_gets_304_from_the_cache(stack: &WordPressStack) {
    stack.publish(["conditional"]);
    stack.get("/conditional/");
    let etag = stack.get("/conditional/").field("etag").unwrap().to_owned();
    assert!(etag.starts_with('"'), "not a strong ETag: {etag}");
    let send = |etag: &str| {
        stack.send(Request::get("/conditional/").field("If-None-Match", etag.as_bytes()))
    };
    let same = send(&etag).expect_status(304);
    assert_cache_status(&same, HIT);
    assert_eq!(same.field("etag"), Some(etag.as_str()));
    let _ = send(&format!("\"other\", W/{etag}")).expect_status(304);
    assert_cache_status(&send("\"other\"").expect_status(200), HIT);
    assert_eq!(stack.php_runs("/conditional/"), 1);
}

fn not_found_pages_are_stored_with_status_404(stack: &WordPressStack) {
    let first = stack.get("/nothing-at-all/").expect_status(404);
    assert_cache_status(&first, STORED);
    assert_text(&first, "nothing was found at this location");
    let second = stack.get("/nothing-at-all/").expect_status(404);
    assert_cache_status(&second, HIT);
    assert_eq!(second.body, first.body);
    assert_eq!(stack.php_runs("/nothing-at-all/"), 1);
    // WordPress also handles missing files.
    let _ = stack.get("/wp-content/uploads/none.png").expect_status(404);
}

fn post_responses_are_not_stored_and_soft_purge_the_page(stack: &WordPressStack) {
    stack.publish(["posted"]);
    stack.get("/posted/");
    for round in 0..2 {
        let form = Request::form("/posted/", &[("message", "CANARY")]);
        let response = stack.send(form).expect_status(200);
        assert_cache_status(&response, "galley; fwd=method; detail=method");
        assert_eq!(php_run(&response), 2 + 2 * round, "PHP did not run");
        assert_text(&response, "method=POST");
        // The form may have changed the page. Anyone can submit forms, so the purge is soft and the stale page is served until it is
        // refreshed.
        wait_for("the page to be refreshed", TIMEOUT, || {
            php_run(&stack.get("/posted/")) == 3 + 2 * round
        });
        assert_text(&stack.get("/posted/"), "method=GET");
    }
}

fn search_results_are_stored_per_query(stack: &WordPressStack) {
    stack.publish(["quokka-diary", "numbat-diary"]);
    for (word, other) in [("quokka", "numbat"), ("numbat", "quokka")] {
        let target = format!("/?s={word}");
        let first = stack.get(&target).expect_status(200);
        assert_cache_status(&first, STORED);
        let second = stack.get(&target).expect_status(200);
        assert_cache_status(&second, HIT);
        assert_eq!(first.body, second.body);
        assert_text(
            &second,
            &format!(
                "<h2 class=\"entry-title default-max-width\"><a href=\"http://wp.test/{word}-diary/\">"
            ),
        );
        assert_no_text(
            &second,
            &format!(
                "<h2 class=\"entry-title default-max-width\"><a href=\"http://wp.test/{other}-diary/\">"
            ),
        );
        assert_text(&second, &format!("value=\"{word}\""));
    }
    let nothing = stack.get("/?s=nobody-wrote-this").expect_status(200);
    assert_text(&nothing, "nothing matched your search terms");
    // The order of parameters does not affect the cache key.
    stack.get("/?s=quokka&paged=1&post_type=post");
    assert_cache_status(&stack.get("/?post_type=post&paged=1&s=quokka"), HIT);
}

fn tracking_parameters_are_ignored_and_not_forwarded(stack: &WordPressStack) {
    stack.publish(["tracked"]);
    let first = stack
        .get("/tracked/?utm_source=CANARY&fbclid=CANARY")
        .expect_status(200);
    assert_cache_status(&first, STORED);
    for query in [
        "",
        "?",
        "?utm_source=CANARY",
        "?utm_anything_new=CANARY",
        "?gclid=CANARY&utm_medium=CANARY",
        "?fbclid=CANARY%22%3E%3Cscript%3E",
        "?utm%5Fsource=CANARY",
        "?utm%5fcampaign=CANARY",
        "?%75tm_source=CANARY",
        "?%66%62clid=CANARY",
        "?_ga=CANARY&_gl=CANARY&mc_eid=CANARY",
        "?msclkid=CANARY&ttclid=CANARY&srsltid=CANARY&gbraid=CANARY",
        "?&utm_source=CANARY&&",
        "?utm_source",
    ] {
        let response = stack.get(&format!("/tracked/{query}")).expect_status(200);
        assert_cache_status(&response, HIT);
        assert_eq!(response.body, first.body, "{query}");
    }
    let raw = String::from_utf8_lossy(&first.raw).into_owned();
    assert!(!raw.contains("CANARY"), "{raw}");
    assert_eq!(first.field("x-lab-query"), Some(""));
    assert_eq!(stack.php_runs("/tracked/"), 1);
    // Tracking parameters are also removed next to other parameters.
    let search = stack.get("/?s=tracked&utm_source=CANARY");
    assert!(!String::from_utf8_lossy(&search.raw).contains("CANARY"));
    assert_cache_status(&stack.get("/?fbclid=CANARY&s=tracked"), HIT);
}

fn similar_parameter_names_are_not_treated_as_tracking(stack: &WordPressStack) {
    stack.publish(["looks-tracked"]);
    for query in [
        "UTM_SOURCE=CANARY",
        "utm=CANARY",
        "xutm_source=CANARY",
        "ref=CANARY",
        "fbclid2=CANARY",
        "s%00utm_source=CANARY",
    ] {
        let response = stack.get(&format!("/looks-tracked/?{query}"));
        assert!(
            response
                .field("x-lab-query")
                .is_some_and(|query| query.contains("CANARY")),
            "{query}: {}",
            response.excerpt()
        );
        assert!(!response.is_hit(), "{query}");
    }
    let plain = stack.get("/looks-tracked/").expect_status(200);
    assert_cache_status(&plain, STORED);
    assert_no_text(&plain, "CANARY");
}

fn redirects_keep_the_tracking_parameters_of_the_request(stack: &WordPressStack) {
    let [id] = stack.publish(["moved-here"]);
    let send = |target: &str| stack.get(target).expect_status(301);
    let location = |response: &Response| response.field("location").unwrap().to_owned();
    let first = send("/moved-here?utm_source=one&fbclid=two");
    assert_cache_status(&first, STORED);
    assert_eq!(
        location(&first),
        "http://wp.test/moved-here/?utm_source=one&fbclid=two"
    );
    let other = send("/moved-here?gclid=three");
    assert_cache_status(&other, HIT);
    assert_eq!(location(&other), "http://wp.test/moved-here/?gclid=three");
    assert_eq!(location(&send("/moved-here")), "http://wp.test/moved-here/");
    assert_eq!(stack.php_runs("/moved-here"), 1);

    let short = send(&format!("/?utm_medium=mail&p={id}"));
    assert_eq!(
        location(&short),
        "http://wp.test/moved-here/?utm_medium=mail"
    );
    let short = send(&format!("/?p={id}&fbclid=x"));
    assert_cache_status(&short, HIT);
    assert_eq!(location(&short), "http://wp.test/moved-here/?fbclid=x");
    // Other parameters stay where WordPress puts them.
    let mixed = send("/moved-here?a=1&utm_source=one");
    assert_eq!(
        location(&mixed),
        "http://wp.test/moved-here/?a=1&utm_source=one"
    );
}

fn anonymous_cookies_are_ignored_and_not_forwarded(stack: &WordPressStack) {
    stack.publish(["cookies"]);
    let anonymous = [
        "wordpress_test_cookie=WP%20Cookie%20check",
        "_ga=GA1.2.CANARY; _gid=CANARY; _fbp=CANARY",
        "cookieyes-consent=CANARY; cmplz_banner-status=CANARY; borlabs-cookie=CANARY",
        "wp-settings-1=CANARY; wp-settings-time-1=CANARY",
        "woocommerce_recently_viewed=CANARY; tk_ai=CANARY; sbjs_first=CANARY",
        "wordpress_gdpr_cookies=CANARY; pll_language=CANARY",
        "PHPSESSID=CANARY",
        "a=1, wordpress_logged_in_x",
    ];
    for (number, cookies) in anonymous.iter().enumerate() {
        let response = stack.send(Request::get("/cookies/").cookie(cookies));
        assert_cache_status(&response, if number == 0 { STORED } else { HIT });
        let raw = String::from_utf8_lossy(&response.raw).into_owned();
        assert!(!raw.contains("CANARY"), "{cookies}: {raw}");
        assert_eq!(response.field("x-lab-cookie"), Some(""), "{cookies}");
    }
    assert_eq!(stack.php_runs("/cookies/"), 1);
}

fn forged_request_fields_do_not_appear_in_stored_pages(stack: &WordPressStack) {
    stack.publish(["claims"]);
    let forged = [
        ("X-Forwarded-Host", "canary.example"),
        ("X-Forwarded-Proto", "https"),
        ("X-Forwarded-Port", "4443"),
        ("X-Forwarded-For", "198.51.100.77"),
        ("X-Host", "canary.example"),
        ("Forwarded", "host=canary.example;proto=https"),
        ("X-Original-URL", "/canary/"),
        ("X-Rewrite-URL", "/canary/"),
        ("X-HTTP-Method-Override", "POST"),
        ("Client-IP", "198.51.100.77"),
        ("X_Forwarded_Host", "canary.example"),
        ("Referer", "http://canary.example/"),
        ("Accept-Language", "canary"),
        ("User-Agent", "Canary/1.0"),
        ("Proxy", "http://canary.example/"),
        ("X-Anything", "canary"),
        ("If-None-Match", "\"canary\""),
        ("Range", "bytes=0-9"),
    ];
    let request = forged
        .iter()
        .fold(Request::get("/claims/"), |request, (name, value)| {
            request.field(name, value)
        });
    stack.send(request);
    let page = stack.get("/claims/").expect_status(200);
    assert_cache_status(&page, HIT);
    let raw = String::from_utf8_lossy(&page.raw).to_lowercase();
    // The port with its colon: an ETag is a digest, whose digits can be any.
    for trace in ["canary", "198.51.100.77", "https://wp.test", ":4443"] {
        assert!(!raw.contains(trace), "{trace} in {raw}");
    }
    assert!(raw.contains("</html>"), "the page is not complete");
    assert_eq!(stack.php_runs("/claims/"), 1);
    // Forged fields must not cause redirects.
    for (name, value) in forged {
        let page = stack.send(Request::get("/claims/").field(name, value).host(HOST));
        assert!([200, 206].contains(&page.status), "{name}: {value}");
    }
}

fn ajax_and_cross_origin_requests_bypass_the_cache(stack: &WordPressStack) {
    stack.publish(["scripted"]);
    stack.get("/scripted/");
    let script = stack.send(Request::get("/scripted/").field("X-Requested-With", "XMLHttpRequest"));
    assert_cache_status(&script, "galley; fwd=bypass; detail=ajax");
    let cross_origin =
        stack.send(Request::get("/scripted/").field("Origin", "https://other.example"));
    assert_cache_status(&cross_origin, "galley; fwd=bypass; detail=origin");
    let same_origin = stack.send(Request::get("/scripted/").field("Origin", "http://wp.test"));
    assert_cache_status(&same_origin, HIT);
    assert_eq!(php_run(&same_origin), 1);
}

fn a_page_with_set_cookie_is_not_shared(stack: &WordPressStack) {
    stack.publish(["sets-cookie"]);
    stack.set_note("head", "/sets-cookie/", "Set-Cookie: seen=1; path=/");
    for cache_status in ["galley; fwd=uri-miss; detail=set-cookie", HIT_FOR_PASS] {
        let before = stack.php_runs("/sets-cookie/");
        let request = Request::get("/sets-cookie/?utm_source=CANARY").cookie("_ga=CANARY");
        let response = stack.send(request).expect_status(200);
        assert_cache_status(&response, cache_status);
        assert_eq!(response.field("set-cookie"), Some("seen=1; path=/"));
        assert!(php_run(&response) > before);
        // The response is for this client only, so PHP gets the complete request.
        assert_eq!(response.field("x-lab-query"), Some("utm_source=CANARY"));
        assert_eq!(response.field("x-lab-cookie"), Some("_ga=CANARY"));
    }
    let other = stack.get("/sets-cookie/");
    assert!(
        !String::from_utf8_lossy(&other.raw).contains("CANARY"),
        "{}",
        other.excerpt()
    );
}

fn cache_control_and_vary_prevent_storing(stack: &WordPressStack) {
    for (slug, line, why) in [
        (
            "forbids-one",
            "Cache-Control: no-cache, must-revalidate, max-age=0",
            "no-cache",
        ),
        ("forbids-two", "Cache-Control: private", "private"),
        ("forbids-three", "Vary: X-Something", "vary"),
        ("forbids-four", "Galley-Cache-Control: no-store", "no-store"),
        (
            "forbids-five",
            "X-LiteSpeed-Cache-Control: no-cache",
            "no-cache",
        ),
    ] {
        stack.publish([slug]);
        let path = format!("/{slug}/");
        stack.set_note("head", &path, line);
        let first = stack.get(&path).expect_status(200);
        assert_cache_status(&first, &format!("galley; fwd=uri-miss; detail={why}"));
        let second = stack.get(&path).expect_status(200);
        assert_cache_status(&second, HIT_FOR_PASS);
        assert!(php_run(&second) > php_run(&first), "{line}");
        // A purge of the URL removes the hit-for-pass entry.
        stack.remove_note("head", &path);
        stack.purge(&["--url", &format!("http://wp.test{path}")]);
        assert_cache_status(&stack.get(&path), STORED);
    }
}

const HIT_FOR_PASS: &str = "galley; fwd=bypass; detail=remembered";
