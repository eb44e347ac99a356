//! The address that a visitor sees: its port, its slash, its spelling. WordPress redirects for ever if it gets another.

use galley_testkit::client::{Browser, Request};

use super::stack::{HIT, HOST, Stack, assert_no_text, assert_refetched, assert_text, assert_way};

both! {
    a_port_stays_in_all_links,
    spellings_lead_to_one_page,
    no_redirect_leads_back,
}

fn a_port_stays_in_all_links(stack: &Stack) {
    stack.publish(["with-port"]);
    let port = stack.addr().port();
    let authority = format!("{HOST}:{port}");
    let own = format!("http://{authority}/");
    for path in ["/", "/with-port/"] {
        let bare = stack.get(path).expect_status(200);
        let mut visitor = Browser::new(stack.addr(), &authority);
        for _ in 0..2 {
            let page = visitor.get(path).unwrap().expect_status(200);
            assert_text(&page, &own);
            assert_no_text(&page, "http://wp.test/");
        }
        assert_way(&visitor.get(path).unwrap(), HIT);
        assert_no_text(&bare, &own);
        assert_no_text(&stack.get(path), &own);
    }
    let mut visitor = Browser::new(stack.addr(), &authority);
    let moved = visitor.get("/with-port").unwrap().expect_status(301);
    assert_eq!(
        moved.field("location"),
        Some(format!("{own}with-port/").as_str())
    );
    let login = visitor.get("/wp-admin/").unwrap().expect_status(302);
    assert!(
        login
            .field("location")
            .is_some_and(|to| to.starts_with(&format!("{own}wp-login.php?"))),
        "{}",
        login.beginning()
    );
    // One order for an address is for all of its ports.
    stack.purge(&["--url", "http://wp.test/with-port/"]);
    assert_refetched(&visitor.get("/with-port/").unwrap());
    assert_refetched(&stack.get("/with-port/"));
}

fn spellings_lead_to_one_page(stack: &Stack) {
    stack.publish(["spelled"]);
    stack.get("/spelled/");
    for target in [
        "/%73pelled/",
        "/./spelled/",
        "/x/../spelled/",
        "/spelled/?",
        "http://wp.test/spelled/",
    ] {
        assert_way(&stack.get(target).expect_status(200), HIT);
    }
    for host in ["WP.test", "wp.test.", "wp.test:80"] {
        assert_way(&stack.send(Request::get("/spelled/").host(host)), HIT);
    }
    assert_eq!(stack.runs("/spelled/"), 1);
}

fn no_redirect_leads_back(stack: &Stack) {
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
        let mut way = Vec::new();
        loop {
            let answer = visitor.get(&target).unwrap();
            way.push(format!("{target} -> {}", answer.status));
            if !(300..400).contains(&answer.status) {
                assert!(answer.status < 500, "{way:?}");
                break;
            }
            assert!(way.len() < 6, "round in circles: {way:#?}");
            let location = answer.field("location").unwrap();
            location
                .strip_prefix("http://wp.test")
                .unwrap_or(location)
                .clone_into(&mut target);
            assert!(target.starts_with('/'), "to another site: {location}");
        }
    }
}
