//! More requests than PHP can serve: which are admitted, which wait, which are rejected. Orders and counts, never times.

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

/// Longer than a refusal takes.
const SOON: Duration = Duration::from_millis(300);

const LOGIN: &str = "wordpress_logged_in_0123=nobody|1|x";

/// One worker, held at `/first` until the test lets it go; `order` in the notes lists the generated pages, in this order.
/// Nothing ends by itself, however slow the machine.
fn one_worker(lines: &str) -> TestSite {
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

fn connect(site: &TestSite, from: Ipv4Addr) -> Connection {
    Connection::from_address(from, site.addr(), TIMEOUT).unwrap()
}

fn start_request(site: &TestSite, from: Ipv4Addr, request: Request) -> Connection {
    let mut connection = connect(site, from);
    connection.send(&with_host(request)).unwrap();
    connection
}

fn wait_for_queue(site: &TestSite, waiting: u64) {
    wait_for(&format!("{waiting} in the queue"), TIMEOUT, || {
        site.status_number("waiting") == waiting
    });
}

/// Lets the first be generated, and takes all responses.
fn release(site: &TestSite, waiting: Vec<Connection>) -> Vec<Response> {
    site.release("/first");
    let answers = waiting.into_iter();
    answers
        .map(|mut connection| connection.receive("GET").unwrap())
        .collect()
}

/// The pages that were generated after the first, in this order.
fn order(site: &TestSite) -> Vec<String> {
    let text = fs::read_to_string(site.notes().join("order")).unwrap();
    let mut order: Vec<String> = text.lines().map(str::to_owned).collect();
    assert_eq!(order.remove(0), "/first");
    order
}

fn position(order: &[String], path: &str) -> usize {
    let at = order.iter().position(|one| one == path);
    at.unwrap_or_else(|| panic!("`{path}` was not composed: {order:?}"))
}

fn status_of_class(site: &TestSite, class: &str, name: &str) -> u64 {
    let status = site.status();
    let classes = status.split("\"classes\":").nth(1).unwrap_or_default();
    let own = classes.split(&format!("\"{class}\":")).nth(1);
    json_number(own.unwrap_or_default(), name)
}

#[test]
fn a_page_that_is_requested_in_advance_takes_no_last_slot() {
    let site = one_worker("");
    let first = start_request(&site, EDITOR, Request::get("/first"));
    site.wait_until_held("/first");
    let ahead =
        |path: &str| with_host(Request::get(path)).field("Sec-Purpose", "prefetch;prerender");
    let refused = ahead("/ahead").send(site.addr()).unwrap();
    assert_eq!(refused.status, 503, "{}", refused.beginning());
    assert!(refused.has("Retry-After"));
    // Another visitor waits, and a request in advance for the same page joins.
    let waiting = start_request(&site, READER, Request::get("/wanted"));
    wait_for_queue(&site, 1);
    let mut joined = connect(&site, READER);
    joined.send(&ahead("/wanted")).unwrap();
    // A refusal would come at once.
    std::thread::sleep(SOON);
    for answer in release(&site, vec![first, waiting, joined]) {
        assert_eq!(answer.status, 200, "{}", answer.beginning());
    }
    // A free slot, and a stored page.
    for expected in ["/ahead", "/ahead"] {
        let answer = ahead(expected).send(site.addr()).unwrap();
        assert_eq!(answer.status, 200, "{}", answer.beginning());
    }
    assert_eq!(order(&site), ["/wanted", "/ahead"]);
}

#[test]
fn a_crawl_holds_back_neither_an_editors_save_nor_a_readers_page() {
    let site = one_worker("");
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
    for answer in release(&site, waiting) {
        answer.assert_status(200);
    }
    let order = order(&site);
    assert_eq!(order.len(), 122);
    // One line each: the editor's and the visitors', in which the crawl has its turn, too.
    assert!(position(&order, "/save") <= 2, "{order:?}");
    assert!(position(&order, "/read") <= 3, "{order:?}");
    assert_eq!(status_of_class(&site, "editor", "admitted"), 1);
    assert_eq!(status_of_class(&site, "visitor", "admitted"), 122);
}

#[test]
fn who_forges_logins_gets_the_share_of_editors_and_no_more() {
    let site = one_worker("");
    let mut waiting = vec![start_request(&site, CRAWLER, Request::get("/first"))];
    site.wait_until_held("/first");
    for number in 0_u8..100 {
        // From many addresses, so that taking turns alone would be no help.
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
    for answer in release(&site, waiting) {
        answer.assert_status(200);
    }
    let order = order(&site);
    // Every second place, but for the crawler's, until the readers are served.
    let reads = (0..5).map(|number| position(&order, &format!("/read/{number}")));
    assert!(reads.max() <= Some(11), "{order:?}");
    assert!(position(&order, "/robot") <= 5, "{order:?}");
}

#[test]
fn a_full_queue_turns_away_who_has_most_in_it() {
    let site = one_worker("queue = 10");
    let first = start_request(&site, CRAWLER, Request::get("/first"));
    site.wait_until_held("/first");
    let mut crawl: Vec<Connection> = (0..10)
        .map(|number| start_request(&site, CRAWLER, Request::get(&format!("/crawl/{number}"))))
        .collect();
    wait_for_queue(&site, 10);
    let mut refused = start_request(&site, CRAWLER, Request::get("/crawl/more"));
    let answer = refused.receive("GET").unwrap().expect_status(503);
    assert_eq!(answer.cache_status(), "galley; detail=overload");
    let wait: u32 = answer.field("retry-after").unwrap().parse().unwrap();
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
    wait_for("four of the crawl to give way", TIMEOUT, || {
        status_of_class(&site, "visitor", "rejected") == 5
    });
    wait_for_queue(&site, 10);
    site.release("/first");
    others.push(first);
    for other in &mut others {
        other.receive("GET").unwrap().assert_status(200);
    }
    let answers = crawl.iter_mut().map(|one| one.receive("GET").unwrap());
    let refused = answers.filter(|answer| answer.status == 503).count();
    assert_eq!(refused, 4);
}

#[test]
fn who_leaves_while_waiting_leaves_the_queue() {
    let site = one_worker("");
    let first = start_request(&site, CRAWLER, Request::get("/first"));
    site.wait_until_held("/first");
    let crawl: Vec<Connection> = (0..20)
        .map(|number| start_request(&site, CRAWLER, Request::get(&format!("/page/{number}"))))
        .collect();
    let passing = Request::get("/passing").cookie(LOGIN);
    let passing = start_request(&site, EDITOR, passing);
    // Two who want one page, of whom one stays; and what may change something goes on alone.
    let leaves = start_request(&site, EDITOR, Request::get("/wanted"));
    wait_for_queue(&site, 22);
    let mut stays = start_request(&site, READER, Request::get("/wanted"));
    let save = start_request(&site, EDITOR, Request::form("/save", &[("a", "b")]));
    wait_for_queue(&site, 23);
    drop((crawl, passing, leaves, save));
    wait_for_queue(&site, 2);
    release(&site, vec![first]);
    stays.receive("GET").unwrap().assert_status(200);
    wait_for("the save", TIMEOUT, || site.runs("/save") == 1);
    wait_for("nothing more", TIMEOUT, || {
        site.status_number("in_flight") == 0 && site.status_number("waiting") == 0
    });
    let mut order = order(&site);
    order.sort();
    assert_eq!(order, ["/save", "/wanted"]);
    // It is no failure of the page: the next visitor has it generated.
    site.get("/page/0").assert_status(200);
}

#[test]
fn a_page_that_a_visitor_wants_does_not_wait_in_the_line_of_the_crawl() {
    let site = one_worker("");
    let mut waiting = vec![start_request(&site, CRAWLER, Request::get("/first"))];
    site.wait_until_held("/first");
    for number in 0..50 {
        let path = format!("/crawl/{number}");
        waiting.push(start_request(&site, CRAWLER, Request::get(&path)));
    }
    wait_for_queue(&site, 50);
    // The same page, for another client: still one fetch.
    waiting.push(start_request(&site, READER, Request::get("/crawl/49")));
    wait_for("it to move", TIMEOUT, || {
        site.status_number("promoted") == 1
    });
    assert_eq!(site.status_number("waiting"), 50);
    for answer in release(&site, waiting) {
        answer.assert_status(200);
    }
    let order = order(&site);
    assert!(position(&order, "/crawl/49") <= 2, "{order:?}");
    assert_eq!(order.len(), 50);
    assert_eq!(site.runs("/crawl/49"), 1);
}

/// Forty who ask without a pause until `is_enough`, or for a thousand answers; whether it was enough.
fn crowd(site: &TestSite, is_enough: impl Fn() -> bool) -> bool {
    let answers = AtomicUsize::new(0);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Of as many addresses: one alone is held back while the processors are busy, and leaves slots free.
        for number in 1..=40 {
            let client = Ipv4Addr::new(127, 0, 1, number);
            let (answers, is_over) = (&answers, &is_over);
            scope.spawn(move || {
                let mut connection = connect(site, client);
                while !is_over.load(Ordering::Relaxed)
                    && answers.fetch_add(1, Ordering::Relaxed) < 1000
                {
                    let answer = connection.exchange(&with_host(Request::get("/slow.php")));
                    assert_eq!(answer.unwrap().status, 200);
                }
            });
        }
        wait_for("the crowd's end", 8 * TIMEOUT, || {
            is_over.store(is_enough(), Ordering::Relaxed);
            is_over.load(Ordering::Relaxed) || answers.load(Ordering::Relaxed) >= 1000
        });
    });
    is_over.load(Ordering::Relaxed)
}

#[test]
fn more_slots_than_workers_are_found_out_and_nobody_is_refused() {
    let site = SiteBuilder::php()
        .file("slow.php", "<?php usleep(15000); echo 'slow';")
        .workers(2)
        .site("in_flight = 20\nqueue = 1000\nqueue_timeout = \"30m\"")
        .start();
    let slots = || site.status_number("slots");
    // What it takes when there is little to do: a whole window of it.
    for _ in 0..60 {
        assert_eq!(site.get("/slow.php").status, 200);
    }
    assert_eq!(slots(), 20);
    // Where other programs have the machine for moments, throughput may seem to pay for the slots; after a calm time they are
    // looked at anew.
    let is_found = (0..20).any(|_| {
        let is_found = crowd(&site, || slots() <= 10);
        if !is_found {
            for _ in 0..300 {
                site.get("/slow.php").assert_status(200);
            }
        }
        is_found
    });
    assert!(is_found, "{} slots", slots());
    assert!(slots() >= 2);
    let text = site.galley.cli(&["status"]).unwrap();
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains(" of 20 slots, because more do not"), "{text}");
}
