//! More requests than PHP can serve: which are admitted, queued and rejected. The tests check orders and counts, not times.

use std::fs;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use galley_testkit::client::{Connection, Request, Response};
use galley_testkit::wait_for;

use crate::support::{
    AssertStatus, SiteBuilder, TEST_PAGE, TIMEOUT, TestSite, json_number, with_host,
};

const CRAWLER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const EDITOR: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);
const READER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 4);

/// Longer than a rejection takes.
const REJECTION_TIME: Duration = Duration::from_millis(300);

const LOGIN: &str = "wordpress_logged_in_0123=nobody|1|x";

/// Starts a site whose only PHP worker waits in `/first` until the test releases it. The note `order` lists the generated pages in this
/// order. All time-outs are longer than any test.
fn site_with_one_worker(lines: &str) -> TestSite {
    let note = "<?php file_put_contents(__DIR__ . '/../notes/order', $_SERVER['REQUEST_URI'] . \"\\n\", FILE_APPEND); ?>";
    let site = SiteBuilder::php()
        .file("index.php", format!("{note}{TEST_PAGE}"))
        .workers(1)
        .site(&format!(
            "in_flight = 1\nqueue_timeout = \"30m\"\nlock_age = \"30m\"\n{lines}"
        ))
        .start();
    site.hold("/first");
    site
}

fn start_request(site: &TestSite, from: Ipv4Addr, request: Request) -> Connection {
    let mut connection = site.connect_from(from);
    connection.send(&with_host(request)).unwrap();
    connection
}

fn wait_for_queue(site: &TestSite, waiting: u64) {
    wait_for(&format!("{waiting} requests in the queue"), TIMEOUT, || {
        site.status_number("waiting") == waiting
    });
}

/// Releases `/first` and receives all responses.
fn release(site: &TestSite, waiting: Vec<Connection>) -> Vec<Response> {
    site.release("/first");
    waiting
        .into_iter()
        .map(|mut connection| connection.receive("GET").unwrap())
        .collect()
}

/// The pages that were generated after `/first`, in order.
fn generated_after_first(site: &TestSite) -> Vec<String> {
    let text = fs::read_to_string(site.notes().join("order")).unwrap();
    let mut order: Vec<String> = text.lines().map(str::to_owned).collect();
    assert_eq!(order.remove(0), "/first");
    order
}

fn position(order: &[String], path: &str) -> usize {
    let position = order.iter().position(|one| one == path);
    position.unwrap_or_else(|| panic!("`{path}` was not generated: {order:?}"))
}

fn class_number(site: &TestSite, class: &str, name: &str) -> u64 {
    let status = site.status();
    let classes = status.split("\"classes\":").nth(1).unwrap_or_default();
    let class = classes.split(&format!("\"{class}\":")).nth(1);
    json_number(class.unwrap_or_default(), name)
}

#[test]
fn a_prefetch_request_does_not_take_the_last_slot() {
    let site = site_with_one_worker("");
    let first = start_request(&site, EDITOR, Request::get("/first"));
    site.wait_until_held("/first");
    let prefetch =
        |path: &str| with_host(Request::get(path)).field("Sec-Purpose", "prefetch;prerender");
    let rejected = prefetch("/ahead").send(site.addr()).unwrap();
    assert_eq!(rejected.status, 503, "{}", rejected.excerpt());
    assert!(rejected.has("Retry-After"));
    // A prefetch request joins the fetch of a page for which a visitor waits.
    let waiting = start_request(&site, READER, Request::get("/wanted"));
    wait_for_queue(&site, 1);
    let mut joined = site.connect_from(READER);
    joined.send(&prefetch("/wanted")).unwrap();
    // A rejection would arrive within this time.
    std::thread::sleep(REJECTION_TIME);
    for response in release(&site, vec![first, waiting, joined]) {
        assert_eq!(response.status, 200, "{}", response.excerpt());
    }
    // With a free slot, and as a hit.
    for path in ["/ahead", "/ahead"] {
        let response = prefetch(path).send(site.addr()).unwrap();
        assert_eq!(response.status, 200, "{}", response.excerpt());
    }
    assert_eq!(generated_after_first(&site), ["/wanted", "/ahead"]);
}

#[test]
fn a_crawl_delays_neither_an_editors_save_nor_a_readers_page() {
    let site = site_with_one_worker("");
    let mut waiting = vec![start_request(&site, CRAWLER, Request::get("/first"))];
    site.wait_until_held("/first");
    for number in 0..120 {
        let path = format!("/crawl/{number}");
        waiting.push(start_request(&site, CRAWLER, Request::get(&path)));
    }
    wait_for_queue(&site, 120);
    let save = Request::form("/save", &[("title", "x")]).cookie(LOGIN);
    waiting.push(start_request(&site, EDITOR, save));
    wait_for_queue(&site, 121);
    waiting.push(start_request(&site, READER, Request::get("/read")));
    wait_for_queue(&site, 122);
    for response in release(&site, waiting) {
        response.assert_status(200);
    }
    let order = generated_after_first(&site);
    assert_eq!(order.len(), 122);
    // Editors and visitors have separate queues, and the crawl takes turns with the reader in that of the visitors.
    assert!(position(&order, "/save") <= 2, "{order:?}");
    assert!(position(&order, "/read") <= 3, "{order:?}");
    assert_eq!(class_number(&site, "editor", "admitted"), 1);
    assert_eq!(class_number(&site, "visitor", "admitted"), 122);
}

#[test]
fn forged_login_cookies_get_only_the_share_of_editors() {
    let site = site_with_one_worker("");
    let mut waiting = vec![start_request(&site, CRAWLER, Request::get("/first"))];
    site.wait_until_held("/first");
    for number in 0_u8..100 {
        // From many addresses, so that turns between clients do not help.
        let from = Ipv4Addr::new(127, 0, 1, number);
        let forged = Request::get(&format!("/forged/{number}")).cookie(LOGIN);
        waiting.push(start_request(&site, from, forged));
    }
    for number in 0..5 {
        let path = format!("/read/{number}");
        waiting.push(start_request(&site, READER, Request::get(&path)));
    }
    let robot = Request::get("/robot").field("User-Agent", "Examplebot/1.0");
    waiting.push(start_request(&site, CRAWLER, robot));
    wait_for_queue(&site, 106);
    for response in release(&site, waiting) {
        response.assert_status(200);
    }
    let order = generated_after_first(&site);
    // The readers get every second slot, except for the one of the crawler, until all of them are served.
    let reads = (0..5).map(|number| position(&order, &format!("/read/{number}")));
    assert!(reads.max() <= Some(11), "{order:?}");
    assert!(position(&order, "/robot") <= 5, "{order:?}");
}

#[test]
fn a_full_queue_rejects_the_client_with_the_most_requests() {
    let site = site_with_one_worker("queue = 10");
    let first = start_request(&site, CRAWLER, Request::get("/first"));
    site.wait_until_held("/first");
    let mut crawl: Vec<Connection> = (0..10)
        .map(|number| start_request(&site, CRAWLER, Request::get(&format!("/crawl/{number}"))))
        .collect();
    wait_for_queue(&site, 10);
    let mut rejected = start_request(&site, CRAWLER, Request::get("/crawl/more"));
    let response = rejected.receive("GET").unwrap().expect_status(503);
    assert_eq!(response.cache_status(), "galley; detail=overload");
    let wait: u32 = response.field("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&wait), "{wait}");
    let mut others: Vec<Connection> = (0..4)
        .map(|number| {
            let from = Ipv4Addr::new(127, 0, 2, number);
            start_request(
                &site,
                from,
                Request::get("/read?n")
                    .field("X-N", "1")
                    .cookie(&format!("woocs_x={number}")),
            )
        })
        .collect();
    wait_for("four requests of the crawl to be rejected", TIMEOUT, || {
        class_number(&site, "visitor", "rejected") == 5
    });
    wait_for_queue(&site, 10);
    site.release("/first");
    others.push(first);
    for other in &mut others {
        other.receive("GET").unwrap().assert_status(200);
    }
    let rejected = crawl
        .iter_mut()
        .map(|connection| connection.receive("GET").unwrap())
        .filter(|response| response.status == 503)
        .count();
    assert_eq!(rejected, 4);
}

#[test]
fn a_disconnected_client_is_removed_from_the_queue() {
    let site = site_with_one_worker("");
    let first = start_request(&site, CRAWLER, Request::get("/first"));
    site.wait_until_held("/first");
    let crawl: Vec<Connection> = (0..20)
        .map(|number| start_request(&site, CRAWLER, Request::get(&format!("/page/{number}"))))
        .collect();
    let passed = Request::get("/passing").cookie(LOGIN);
    let passed = start_request(&site, EDITOR, passed);
    // Two clients request one page and one of them stays connected. An unsafe request is sent to PHP without its client.
    let disconnected = start_request(&site, EDITOR, Request::get("/wanted"));
    wait_for_queue(&site, 22);
    let mut connected = start_request(&site, READER, Request::get("/wanted"));
    let save = start_request(&site, EDITOR, Request::form("/save", &[("a", "b")]));
    wait_for_queue(&site, 23);
    drop((crawl, passed, disconnected, save));
    wait_for_queue(&site, 2);
    release(&site, vec![first]);
    connected.receive("GET").unwrap().assert_status(200);
    wait_for("PHP to run the save", TIMEOUT, || site.runs("/save") == 1);
    wait_for("all requests to end", TIMEOUT, || {
        site.status_number("in_flight") == 0 && site.status_number("waiting") == 0
    });
    let mut order = generated_after_first(&site);
    order.sort();
    assert_eq!(order, ["/save", "/wanted"]);
    // The removal does not count as a failure of the page: the next request generates it.
    site.get("/page/0").assert_status(200);
}

#[test]
fn a_visitors_request_promotes_a_page_that_a_crawl_has_queued() {
    let site = site_with_one_worker("");
    let mut waiting = vec![start_request(&site, CRAWLER, Request::get("/first"))];
    site.wait_until_held("/first");
    for number in 0..50 {
        let path = format!("/crawl/{number}");
        waiting.push(start_request(&site, CRAWLER, Request::get(&path)));
    }
    wait_for_queue(&site, 50);
    // Another client requests a page of the crawl, which is still fetched once.
    waiting.push(start_request(&site, READER, Request::get("/crawl/49")));
    wait_for("the page to be promoted", TIMEOUT, || {
        site.status_number("promoted") == 1
    });
    assert_eq!(site.status_number("waiting"), 50);
    for response in release(&site, waiting) {
        response.assert_status(200);
    }
    let order = generated_after_first(&site);
    assert!(position(&order, "/crawl/49") <= 2, "{order:?}");
    assert_eq!(order.len(), 50);
    assert_eq!(site.runs("/crawl/49"), 1);
}

/// Sends requests from forty clients without a pause until `is_done` is true or after a thousand responses; returns whether it became
/// true.
fn load_until(site: &TestSite, is_done: impl Fn() -> bool) -> bool {
    let responses = AtomicUsize::new(0);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // From forty addresses: a single client gets only a part of the slots while the processors are busy.
        for number in 1..=40 {
            let client = Ipv4Addr::new(127, 0, 1, number);
            let (responses, is_over) = (&responses, &is_over);
            scope.spawn(move || {
                let mut connection = site.connect_from(client);
                while !is_over.load(Ordering::Relaxed)
                    && responses.fetch_add(1, Ordering::Relaxed) < 1000
                {
                    let response = connection.exchange(&with_host(Request::get("/slow.php")));
                    assert_eq!(response.unwrap().status, 200);
                }
            });
        }
        wait_for("the end of the load", 8 * TIMEOUT, || {
            is_over.store(is_done(), Ordering::Relaxed);
            is_over.load(Ordering::Relaxed) || responses.load(Ordering::Relaxed) >= 1000
        });
    });
    is_over.load(Ordering::Relaxed)
}

#[test]
fn excess_slots_are_reduced_without_rejections() {
    let site = SiteBuilder::php()
        .file("slow.php", "<?php usleep(15000); echo 'slow';")
        .workers(2)
        .site("in_flight = 20\nqueue = 1000\nqueue_timeout = \"30m\"")
        .start();
    let slots = || site.status_number("slots");
    // A complete window of response times without load.
    for _ in 0..60 {
        assert_eq!(site.get("/slow.php").status, 200);
    }
    assert_eq!(slots(), 20);
    // If other programs use the machine for moments, more slots may seem to increase throughput. After a time without load Galley
    // measures again.
    let is_reduced = (0..20).any(|_| {
        let is_reduced = load_until(&site, || slots() <= 10);
        if !is_reduced {
            for _ in 0..300 {
                site.get("/slow.php").assert_status(200);
            }
        }
        is_reduced
    });
    assert!(is_reduced, "{} slots", slots());
    assert!(slots() >= 2);
    let text = site.galley.cli(&["status"]).unwrap();
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains(" of 20 slots, because more do not"), "{text}");
}
