//! Galley passes WordPress the URL that the visitor requested. With another port, slash or spelling, WordPress would redirect
//! without end.

use galley_testkit::client::{Browser, Request};

use super::stack::{
    HIT, HOST, WordPressStack, assert_cache_status, assert_no_text, assert_refetched, assert_text,
};

test_with_shared_stacks! {
    links_keep_the_port_of_the_request,
    equivalent_urls_share_one_cache_entry,
    canonical_redirects_do_not_loop,
}

fn links_keep_the_port_of_the_request(stack: &WordPressStack) {
    stack.publish(["with-port"]);
    let port = stack.addr().port();
    let authority = format!("{HOST}:{port}");
    let with_port = format!("http://{authority}/");
    for path in ["/", "/with-port/"] {
        let bare = stack.get(path).expect_status(200);
        let mut visitor = Browser::new(stack.addr(), &authority);
        for _ in 0..2 {
            let page = visitor.get(path).unwrap().expect_status(200);
            assert_text(&page, &with_port);
            assert_no_text(&page, "http://wp.test/");
        }
        assert_cache_status(&visitor.get(path).unwrap(), HIT);
        assert_no_text(&bare, &with_port);
        assert_no_text(&stack.get(path), &with_port);
    }
    let mut visitor = Browser::new(stack.addr(), &authority);
    let moved = visitor.get("/with-port").unwrap().expect_status(301);
    assert_eq!(
        moved.field("location"),
        Some(format!("{with_port}with-port/").as_str())
    );
    let login = visitor.get("/wp-admin/").unwrap().expect_status(302);
    assert!(
        login
            .field("location")
            .is_some_and(|to| to.starts_with(&format!("{with_port}wp-login.php?"))),
        "{}",
        login.excerpt()
    );
    // A purge of a URL applies to all ports.
    stack.purge(&["--url", "http://wp.test/with-port/"]);
    assert_refetched(&visitor.get("/with-port/").unwrap());
    assert_refetched(&stack.get("/with-port/"));
}

fn equivalent_urls_share_one_cache_entry(stack: &WordPressStack) {
    stack.publish(["spelled"]);
    stack.get("/spelled/");
    for target in [
        "/%73pelled/",
        "/./spelled/",
        "/x/../spelled/",
        "/spelled/?",
        "http://wp.test/spelled/",
    ] {
        assert_cache_status(&stack.get(target).expect_status(200), HIT);
    }
    for host in ["WP.test", "wp.test.", "wp.test:80"] {
        assert_cache_status(&stack.send(Request::get("/spelled/").host(host)), HIT);
    }
    assert_eq!(stack.php_runs("/spelled/"), 1);
}

fn canonical_redirects_do_not_loop(stack: &WordPressStack) {
    stack.publish(["straight"]);
    let year = stack.php("echo gmdate('Y');");
    for start in [
        "/straight",
        "/index.php/straight/",
        "/?page_id=999999",
        "//straight/",
        "/Straight/",
        "/strai",
        "/straight/?utm_source=x",
        "/straight?replytocom=1",
        "/page/1/",
        "/index.php",
        &format!("/{year}"),
        "/category/harbour",
        "/feed",
        "/?feed=rss2",
        "/wp-admin",
        "/login",
    ] {
        let mut visitor = stack.visitor();
        let mut target = start.to_owned();
        let mut chain = Vec::new();
        loop {
            let response = visitor.get(&target).unwrap();
            chain.push(format!("{target} -> {}", response.status));
            if !(300..400).contains(&response.status) {
                assert!(response.status < 500, "{chain:?}");
                break;
            }
            assert!(chain.len() < 6, "redirect loop: {chain:#?}");
            let location = response.field("location").unwrap();
            location
                .strip_prefix("http://wp.test")
                .unwrap_or(location)
                .clone_into(&mut target);
            assert!(
                target.starts_with('/'),
                "redirect to another site: {location}"
            );
        }
    }
}
