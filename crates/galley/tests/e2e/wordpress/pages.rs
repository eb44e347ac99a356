//! Pages for everybody: generated once, then the same bytes for all; and what of a visitor's request may not be seen in them.

use galley_testkit::client::{Request, Response};

use galley_testkit::wait_for;

use super::stack::{
    HIT, HOST, STORED, Stack, TIMEOUT, assert_no_text, assert_text, assert_way, run_of,
};

both! {
    a_first_visit_is_a_miss_and_a_second_is_a_hit,
    the_whole_sample_site_is_generated_once,
    head_is_get_without_the_body,
    conditional_visits_cost_a_304,
    a_missing_page_is_kept_as_one,
    posts_of_forms_are_never_stored,
    searches_are_kept_by_their_words,
    tracking_parameters_make_no_difference_and_never_reach_php,
    parameters_that_only_look_like_tracking_are_not_dropped,
    redirects_get_their_tracking_parameters_back,
    cookies_that_mean_nobody_do_not_matter,
    what_a_stranger_claims_is_in_no_page,
    scripts_ask_whole,
    a_page_that_sets_a_cookie_is_nobody_elses,
    a_page_that_forbids_it_is_not_stored,
}

/// What may differ between two answers with the same content.
fn lasting(answer: &Response) -> Vec<(String, String)> {
    let passing = [
        "age",
        "cache-status",
        "content-length",
        "etag",
        "transfer-encoding",
    ];
    let mut lasting: Vec<_> = answer
        .fields
        .iter()
        .map(|(name, value)| {
            (
                name.to_ascii_lowercase(),
                String::from_utf8_lossy(value).into_owned(),
            )
        })
        .filter(|(name, _)| !passing.contains(&name.as_str()))
        .collect();
    // Only the order of lines with the same name means something (RFC 9110 section 5.3).
    lasting.sort_by(|a, b| a.0.cmp(&b.0));
    lasting
}

fn a_first_visit_is_a_miss_and_a_second_is_a_hit(stack: &Stack) {
    stack.publish(["first-visit"]);
    let first = stack.get("/first-visit/").expect_status(200);
    assert_way(&first, STORED);
    assert_text(&first, "Text of first-visit.");
    let second = stack.get("/first-visit/").expect_status(200);
    assert_way(&second, HIT);
    assert_eq!(second.body, first.body);
    assert_eq!(lasting(&second), lasting(&first));
    assert!(second.age().is_some() && second.has("etag"));
    assert_eq!(second.field("cache-control"), Some("no-cache"));
    assert_eq!(stack.runs("/first-visit/"), 1);
}

fn the_whole_sample_site_is_generated_once(stack: &Stack) {
    let rows = [
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
    for (path, status, wanted) in rows {
        let first = stack.get(path).expect_status(status);
        let again = stack.get(path).expect_status(status);
        assert_way(&again, HIT);
        assert_eq!(run_of(&again), run_of(&first), "{path}");
        assert_text(&again, wanted);
        assert_eq!(again.body, first.body, "{path}");
        assert_no_text(&again, "A note to ourselves");
    }
}

fn head_is_get_without_the_body(stack: &Stack) {
    stack.publish(["head-first"]);
    let head = stack.send(Request::head("/head-first/")).expect_status(200);
    assert_way(&head, STORED);
    // The head has left before the page is whole; who comes meanwhile shares it.
    assert_text(&stack.get("/head-first/"), "Text of head-first.");
    let get = stack.get("/head-first/").expect_status(200);
    assert_way(&get, HIT);
    assert_text(&get, "method=GET");
    let again = stack.send(Request::head("/head-first/")).expect_status(200);
    assert_way(&again, HIT);
    assert_eq!(again.field("content-length"), get.field("content-length"));
    assert_eq!(again.field("etag"), get.field("etag"));
    assert_eq!(lasting(&again), lasting(&get));
    assert_eq!(lasting(&head), lasting(&get));
    assert_eq!(stack.runs("/head-first/"), 1);
}

fn conditional_visits_cost_a_304(stack: &Stack) {
    stack.publish(["conditional"]);
    stack.get("/conditional/");
    let etag = stack.get("/conditional/").field("etag").unwrap().to_owned();
    assert!(etag.starts_with('"'), "strong: {etag}");
    let send = |etag: &str| {
        stack.send(Request::get("/conditional/").field("If-None-Match", etag.as_bytes()))
    };
    let same = send(&etag).expect_status(304);
    assert_way(&same, HIT);
    assert_eq!(same.field("etag"), Some(etag.as_str()));
    let _ = send(&format!("\"other\", W/{etag}")).expect_status(304);
    assert_way(&send("\"other\"").expect_status(200), HIT);
    assert_eq!(stack.runs("/conditional/"), 1);
}

fn a_missing_page_is_kept_as_one(stack: &Stack) {
    let first = stack.get("/nothing-at-all/").expect_status(404);
    assert_way(&first, STORED);
    assert_text(&first, "nothing was found at this location");
    let second = stack.get("/nothing-at-all/").expect_status(404);
    assert_way(&second, HIT);
    assert_eq!(second.body, first.body);
    assert_eq!(stack.runs("/nothing-at-all/"), 1);
    // What looks like a file and is none is a missing page too.
    let _ = stack.get("/wp-content/uploads/none.png").expect_status(404);
}

fn posts_of_forms_are_never_stored(stack: &Stack) {
    stack.publish(["posted"]);
    stack.get("/posted/");
    for round in 0..2 {
        let form = Request::form("/posted/", &[("message", "CANARY")]);
        let answer = stack.send(form).expect_status(200);
        assert_way(&answer, "galley; fwd=method; detail=method");
        assert_eq!(run_of(&answer), 2 + 2 * round, "PHP is asked each time");
        assert_text(&answer, "method=POST");
        // What was posted may have changed the page. Anybody can post, so the stored page answers until it is refreshed.
        wait_for("the page to be refreshed", TIMEOUT, || {
            run_of(&stack.get("/posted/")) == 3 + 2 * round
        });
        assert_text(&stack.get("/posted/"), "method=GET");
    }
}

fn searches_are_kept_by_their_words(stack: &Stack) {
    stack.publish(["quokka-diary", "numbat-diary"]);
    for (word, other) in [("quokka", "numbat"), ("numbat", "quokka")] {
        let target = format!("/?s={word}");
        let first = stack.get(&target).expect_status(200);
        assert_way(&first, STORED);
        let second = stack.get(&target).expect_status(200);
        assert_way(&second, HIT);
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
    // The order of parameters makes no other page.
    stack.get("/?s=quokka&paged=1&post_type=post");
    assert_way(&stack.get("/?post_type=post&paged=1&s=quokka"), HIT);
}

fn tracking_parameters_make_no_difference_and_never_reach_php(stack: &Stack) {
    stack.publish(["tracked"]);
    let first = stack
        .get("/tracked/?utm_source=CANARY&fbclid=CANARY")
        .expect_status(200);
    assert_way(&first, STORED);
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
        let answer = stack.get(&format!("/tracked/{query}")).expect_status(200);
        assert_way(&answer, HIT);
        assert_eq!(answer.body, first.body, "{query}");
    }
    let seen = String::from_utf8_lossy(&first.raw).into_owned();
    assert!(!seen.contains("CANARY"), "{seen}");
    assert_eq!(first.field("x-lab-query"), Some(""));
    assert_eq!(stack.runs("/tracked/"), 1);
    // Beside a parameter that counts, the others still do not.
    let search = stack.get("/?s=tracked&utm_source=CANARY");
    assert!(!String::from_utf8_lossy(&search.raw).contains("CANARY"));
    assert_way(&stack.get("/?fbclid=CANARY&s=tracked"), HIT);
}

fn parameters_that_only_look_like_tracking_are_not_dropped(stack: &Stack) {
    stack.publish(["looks-tracked"]);
    for query in [
        "UTM_SOURCE=CANARY",
        "utm=CANARY",
        "xutm_source=CANARY",
        "ref=CANARY",
        "fbclid2=CANARY",
        "s%00utm_source=CANARY",
    ] {
        let answer = stack.get(&format!("/looks-tracked/?{query}"));
        assert!(
            answer
                .field("x-lab-query")
                .is_some_and(|seen| seen.contains("CANARY")),
            "{query}: {}",
            answer.beginning()
        );
        assert!(!answer.is_hit(), "{query}");
    }
    let plain = stack.get("/looks-tracked/").expect_status(200);
    assert_way(&plain, STORED);
    assert_no_text(&plain, "CANARY");
}

fn redirects_get_their_tracking_parameters_back(stack: &Stack) {
    let [id] = stack.publish(["moved-here"]);
    let send = |target: &str| stack.get(target).expect_status(301);
    let location = |answer: &Response| answer.field("location").unwrap().to_owned();
    let first = send("/moved-here?utm_source=one&fbclid=two");
    assert_way(&first, STORED);
    assert_eq!(
        location(&first),
        "http://wp.test/moved-here/?utm_source=one&fbclid=two"
    );
    let other = send("/moved-here?gclid=three");
    assert_way(&other, HIT);
    assert_eq!(location(&other), "http://wp.test/moved-here/?gclid=three");
    assert_eq!(location(&send("/moved-here")), "http://wp.test/moved-here/");
    assert_eq!(stack.runs("/moved-here"), 1);

    let short = send(&format!("/?utm_medium=mail&p={id}"));
    assert_eq!(
        location(&short),
        "http://wp.test/moved-here/?utm_medium=mail"
    );
    let short = send(&format!("/?p={id}&fbclid=x"));
    assert_way(&short, HIT);
    assert_eq!(location(&short), "http://wp.test/moved-here/?fbclid=x");
    // One that counts stays where WordPress puts it.
    let mixed = send("/moved-here?a=1&utm_source=one");
    assert_eq!(
        location(&mixed),
        "http://wp.test/moved-here/?a=1&utm_source=one"
    );
}

fn cookies_that_mean_nobody_do_not_matter(stack: &Stack) {
    stack.publish(["cookies"]);
    let harmless = [
        "wordpress_test_cookie=WP%20Cookie%20check",
        "_ga=GA1.2.CANARY; _gid=CANARY; _fbp=CANARY",
        "cookieyes-consent=CANARY; cmplz_banner-status=CANARY; borlabs-cookie=CANARY",
        "wp-settings-1=CANARY; wp-settings-time-1=CANARY",
        "woocommerce_recently_viewed=CANARY; tk_ai=CANARY; sbjs_first=CANARY",
        "wordpress_gdpr_cookies=CANARY; pll_language=CANARY",
        "PHPSESSID=CANARY",
        "a=1, wordpress_logged_in_x",
    ];
    for (number, cookies) in harmless.iter().enumerate() {
        let answer = stack.send(Request::get("/cookies/").cookie(cookies));
        assert_way(&answer, if number == 0 { STORED } else { HIT });
        let seen = String::from_utf8_lossy(&answer.raw).into_owned();
        assert!(!seen.contains("CANARY"), "{cookies}: {seen}");
        assert_eq!(answer.field("x-lab-cookie"), Some(""), "{cookies}");
    }
    assert_eq!(stack.runs("/cookies/"), 1);
}

fn what_a_stranger_claims_is_in_no_page(stack: &Stack) {
    stack.publish(["claims"]);
    let claims = [
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
    let request = claims
        .iter()
        .fold(Request::get("/claims/"), |request, (name, value)| {
            request.field(name, value)
        });
    stack.send(request);
    let page = stack.get("/claims/").expect_status(200);
    assert_way(&page, HIT);
    let seen = String::from_utf8_lossy(&page.raw).to_lowercase();
    for trace in ["canary", "198.51.100.77", "https://wp.test", "4443"] {
        assert!(!seen.contains(trace), "{trace} in {seen}");
    }
    assert!(seen.contains("</html>"), "whole, not a range");
    assert_eq!(stack.runs("/claims/"), 1);
    // Nor may a claim send anybody round in circles.
    for (name, value) in claims {
        let front = stack.send(Request::get("/claims/").field(name, value).host(HOST));
        assert!([200, 206].contains(&front.status), "{name}: {value}");
    }
}

fn scripts_ask_whole(stack: &Stack) {
    stack.publish(["scripted"]);
    stack.get("/scripted/");
    let script = stack.send(Request::get("/scripted/").field("X-Requested-With", "XMLHttpRequest"));
    assert_way(&script, "galley; fwd=bypass; detail=ajax");
    let foreign = stack.send(Request::get("/scripted/").field("Origin", "https://other.example"));
    assert_way(&foreign, "galley; fwd=bypass; detail=origin");
    let own = stack.send(Request::get("/scripted/").field("Origin", "http://wp.test"));
    assert_way(&own, HIT);
    assert_eq!(run_of(&own), 1);
}

fn a_page_that_sets_a_cookie_is_nobody_elses(stack: &Stack) {
    stack.publish(["sets-cookie"]);
    stack.set("head", "/sets-cookie/", "Set-Cookie: seen=1; path=/");
    let ways = ["galley; fwd=uri-miss; detail=set-cookie", REMEMBERED];
    for way in ways {
        let before = stack.runs("/sets-cookie/");
        let request = Request::get("/sets-cookie/?utm_source=CANARY").cookie("_ga=CANARY");
        let answer = stack.send(request).expect_status(200);
        assert_way(&answer, way);
        assert_eq!(answer.field("set-cookie"), Some("seen=1; path=/"));
        assert!(run_of(&answer) > before);
        // Generated for this visitor alone, so it may see all that the visitor sent.
        assert_eq!(answer.field("x-lab-query"), Some("utm_source=CANARY"));
        assert_eq!(answer.field("x-lab-cookie"), Some("_ga=CANARY"));
    }
    let other = stack.get("/sets-cookie/");
    assert!(
        !String::from_utf8_lossy(&other.raw).contains("CANARY"),
        "{}",
        other.beginning()
    );
}

fn a_page_that_forbids_it_is_not_stored(stack: &Stack) {
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
        stack.set("head", &path, line);
        let first = stack.get(&path).expect_status(200);
        assert_way(&first, &format!("galley; fwd=uri-miss; detail={why}"));
        let second = stack.get(&path).expect_status(200);
        assert_way(&second, REMEMBERED);
        assert!(run_of(&second) > run_of(&first), "{line}");
        // A purge of the address lets it be tried again.
        stack.unset("head", &path);
        stack.purge(&["--url", &format!("http://wp.test{path}")]);
        assert_way(&stack.get(&path), STORED);
    }
}

const REMEMBERED: &str = "galley; fwd=bypass; detail=remembered";
