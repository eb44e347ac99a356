//! More requests than PHP can serve: which are admitted, which wait, which are rejected. Orders and counts, never times.

use std::fs;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use galley_testkit::client::{Connection, Request, Response};
use galley_testkit::wait_for;

use crate::support::{Is, LAB, PATIENCE, Plan, Stage, hosted, number_in};

const CRAWLER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const EDITOR: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);
const READER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 4);

/// Longer than a refusal takes.
const SOON: Duration = Duration::from_millis(300);

const LOGIN: &str = "wordpress_logged_in_0123=nobody|1|x";

/// One worker, held at `/first` until the test lets it go; `order` in the notes lists the generated pages, in this order.
/// Nothing ends by itself, however slow the machine.
fn one_worker(lines: &str) -> Stage {
    let note = "<?php file_put_contents(__DIR__ . '/../notes/order', $_SERVER['REQUEST_URI'] . \"\\n\", FILE_APPEND); ?>";
    let stage = Plan::php()
        .file("index.php", format!("{note}{LAB}"))
        .workers(1)
        .site(&format!(
            "in_flight = 1\nqueue_timeout = \"30m\"\nlock_age = \"30m\"\n{lines}"
        ))
        .start();
    stage.hold("/first");
    stage
}

fn connect(stage: &Stage, from: Ipv4Addr) -> Connection {
    Connection::from_address(from, stage.addr(), PATIENCE).unwrap()
}

fn begin(stage: &Stage, from: Ipv4Addr, request: Request) -> Connection {
    let mut connection = connect(stage, from);
    connection.send(&hosted(request)).unwrap();
    connection
}

fn wait_for_queue(stage: &Stage, waiting: u64) {
    wait_for(&format!("{waiting} in the queue"), PATIENCE, || {
        stage.status_number("waiting") == waiting
    });
}

/// Lets the first be generated, and takes all responses.
fn release(stage: &Stage, waiting: Vec<Connection>) -> Vec<Response> {
    stage.release("/first");
    let answers = waiting.into_iter();
    answers
        .map(|mut connection| connection.receive("GET").unwrap())
        .collect()
}

/// The pages that were generated after the first, in this order.
fn order(stage: &Stage) -> Vec<String> {
    let text = fs::read_to_string(stage.notes().join("order")).unwrap();
    let mut order: Vec<String> = text.lines().map(str::to_owned).collect();
    assert_eq!(order.remove(0), "/first");
    order
}

fn position(order: &[String], path: &str) -> usize {
    let at = order.iter().position(|one| one == path);
    at.unwrap_or_else(|| panic!("`{path}` was not composed: {order:?}"))
}

fn status_of_class(stage: &Stage, class: &str, name: &str) -> u64 {
    let status = stage.status();
    let classes = status.split("\"classes\":").nth(1).unwrap_or_default();
    let own = classes.split(&format!("\"{class}\":")).nth(1);
    number_in(own.unwrap_or_default(), name)
}

#[test]
fn a_page_that_is_requested_in_advance_takes_no_last_slot() {
    let stage = one_worker("");
    let first = begin(&stage, EDITOR, Request::get("/first"));
    stage.wait_until_held("/first");
    let ahead = |path: &str| hosted(Request::get(path)).field("Sec-Purpose", "prefetch;prerender");
    let refused = ahead("/ahead").send(stage.addr()).unwrap();
    assert_eq!(refused.status, 503, "{}", refused.beginning());
    assert!(refused.has("Retry-After"));
    // Another visitor waits, and a request in advance for the same page joins.
    let waiting = begin(&stage, READER, Request::get("/wanted"));
    wait_for_queue(&stage, 1);
    let mut joined = connect(&stage, READER);
    joined.send(&ahead("/wanted")).unwrap();
    // A refusal would come at once.
    std::thread::sleep(SOON);
    for answer in release(&stage, vec![first, waiting, joined]) {
        assert_eq!(answer.status, 200, "{}", answer.beginning());
    }
    // A free slot, and a stored page.
    for expected in ["/ahead", "/ahead"] {
        let answer = ahead(expected).send(stage.addr()).unwrap();
        assert_eq!(answer.status, 200, "{}", answer.beginning());
    }
    assert_eq!(order(&stage), ["/wanted", "/ahead"]);
}

#[test]
fn a_crawl_holds_back_neither_an_editors_save_nor_a_readers_page() {
    let stage = one_worker("");
    let mut waiting = vec![begin(&stage, CRAWLER, Request::get("/first"))];
    stage.wait_until_held("/first");
    for number in 0..120 {
        let path = format!("/crawl/{number}");
        waiting.push(begin(&stage, CRAWLER, Request::get(&path)));
    }
    wait_for_queue(&stage, 120);
    let save = Request::form("/save", &[("title", "x")]).cookie(LOGIN);
    waiting.push(begin(&stage, EDITOR, save));
    wait_for_queue(&stage, 121);
    waiting.push(begin(&stage, READER, Request::get("/read")));
    wait_for_queue(&stage, 122);
    for answer in release(&stage, waiting) {
        answer.is(200);
    }
    let order = order(&stage);
    assert_eq!(order.len(), 122);
    // One line each: the editor's and the visitors', in which the crawl has its turn, too.
    assert!(position(&order, "/save") <= 2, "{order:?}");
    assert!(position(&order, "/read") <= 3, "{order:?}");
    assert_eq!(status_of_class(&stage, "editor", "admitted"), 1);
    assert_eq!(status_of_class(&stage, "visitor", "admitted"), 122);
}

#[test]
fn who_forges_logins_gets_the_share_of_editors_and_no_more() {
    let stage = one_worker("");
    let mut waiting = vec![begin(&stage, CRAWLER, Request::get("/first"))];
    stage.wait_until_held("/first");
    for number in 0_u8..100 {
        // From many addresses, so that taking turns alone would be no help.
        let from = Ipv4Addr::new(127, 0, 1, number);
        let forged = Request::get(&format!("/forged/{number}")).cookie(LOGIN);
        waiting.push(begin(&stage, from, forged));
    }
    for number in 0..5 {
        let path = format!("/read/{number}");
        waiting.push(begin(&stage, READER, Request::get(&path)));
    }
    let robot = Request::get("/robot").field("User-Agent", "Examplebot/1.0");
    waiting.push(begin(&stage, CRAWLER, robot));
    wait_for_queue(&stage, 106);
    for answer in release(&stage, waiting) {
        answer.is(200);
    }
    let order = order(&stage);
    // Every second place, but for the crawler's, until the readers are served.
    let reads = (0..5).map(|number| position(&order, &format!("/read/{number}")));
    assert!(reads.max() <= Some(11), "{order:?}");
    assert!(position(&order, "/robot") <= 5, "{order:?}");
}

#[test]
fn a_full_queue_turns_away_who_has_most_in_it() {
    let stage = one_worker("queue = 10");
    let first = begin(&stage, CRAWLER, Request::get("/first"));
    stage.wait_until_held("/first");
    let mut crawl: Vec<Connection> = (0..10)
        .map(|number| begin(&stage, CRAWLER, Request::get(&format!("/crawl/{number}"))))
        .collect();
    wait_for_queue(&stage, 10);
    let mut refused = begin(&stage, CRAWLER, Request::get("/crawl/more"));
    let answer = refused.receive("GET").unwrap().expect_status(503);
    assert_eq!(answer.cache_status(), "galley; detail=overload");
    let wait: u32 = answer.field("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&wait), "{wait}");
    let mut others: Vec<Connection> = (0..4)
        .map(|number| {
            let from = Ipv4Addr::new(127, 0, 2, number);
            begin(
                &stage,
                from,
                Request::get("/read?n")
                    .field("X-N", "1")
                    .cookie(&format!("woocs_x={number}")),
            )
        })
        .collect();
    wait_for("four of the crawl to give way", PATIENCE, || {
        status_of_class(&stage, "visitor", "rejected") == 5
    });
    wait_for_queue(&stage, 10);
    stage.release("/first");
    others.push(first);
    for other in &mut others {
        other.receive("GET").unwrap().is(200);
    }
    let answers = crawl.iter_mut().map(|one| one.receive("GET").unwrap());
    let refused = answers.filter(|answer| answer.status == 503).count();
    assert_eq!(refused, 4);
}

#[test]
fn who_leaves_while_waiting_leaves_the_queue() {
    let stage = one_worker("");
    let first = begin(&stage, CRAWLER, Request::get("/first"));
    stage.wait_until_held("/first");
    let crawl: Vec<Connection> = (0..20)
        .map(|number| begin(&stage, CRAWLER, Request::get(&format!("/page/{number}"))))
        .collect();
    let passing = Request::get("/passing").cookie(LOGIN);
    let passing = begin(&stage, EDITOR, passing);
    // Two who want one page, of whom one stays; and what may change something goes on alone.
    let leaves = begin(&stage, EDITOR, Request::get("/wanted"));
    wait_for_queue(&stage, 22);
    let mut stays = begin(&stage, READER, Request::get("/wanted"));
    let save = begin(&stage, EDITOR, Request::form("/save", &[("a", "b")]));
    wait_for_queue(&stage, 23);
    drop((crawl, passing, leaves, save));
    wait_for_queue(&stage, 2);
    release(&stage, vec![first]);
    stays.receive("GET").unwrap().is(200);
    wait_for("the save", PATIENCE, || stage.runs("/save") == 1);
    wait_for("nothing more", PATIENCE, || {
        stage.status_number("in_flight") == 0 && stage.status_number("waiting") == 0
    });
    let mut order = order(&stage);
    order.sort();
    assert_eq!(order, ["/save", "/wanted"]);
    // It is no failure of the page: the next visitor has it generated.
    stage.get("/page/0").is(200);
}

#[test]
fn a_page_that_a_visitor_wants_does_not_wait_in_the_line_of_the_crawl() {
    let stage = one_worker("");
    let mut waiting = vec![begin(&stage, CRAWLER, Request::get("/first"))];
    stage.wait_until_held("/first");
    for number in 0..50 {
        let path = format!("/crawl/{number}");
        waiting.push(begin(&stage, CRAWLER, Request::get(&path)));
    }
    wait_for_queue(&stage, 50);
    // The same page, for another client: still one fetch.
    waiting.push(begin(&stage, READER, Request::get("/crawl/49")));
    wait_for("it to move", PATIENCE, || {
        stage.status_number("promoted") == 1
    });
    assert_eq!(stage.status_number("waiting"), 50);
    for answer in release(&stage, waiting) {
        answer.is(200);
    }
    let order = order(&stage);
    assert!(position(&order, "/crawl/49") <= 2, "{order:?}");
    assert_eq!(order.len(), 50);
    assert_eq!(stage.runs("/crawl/49"), 1);
}

/// Forty who ask without a pause until `is_enough`, or for a thousand answers; whether it was enough.
fn crowd(stage: &Stage, is_enough: impl Fn() -> bool) -> bool {
    let answers = AtomicUsize::new(0);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Of as many addresses: one alone is held back while the processors are busy, and leaves slots free.
        for number in 1..=40 {
            let client = Ipv4Addr::new(127, 0, 1, number);
            let (answers, is_over) = (&answers, &is_over);
            scope.spawn(move || {
                let mut connection = connect(stage, client);
                while !is_over.load(Ordering::Relaxed)
                    && answers.fetch_add(1, Ordering::Relaxed) < 1000
                {
                    let answer = connection.exchange(&hosted(Request::get("/slow.php")));
                    assert_eq!(answer.unwrap().status, 200);
                }
            });
        }
        wait_for("the crowd's end", 8 * PATIENCE, || {
            is_over.store(is_enough(), Ordering::Relaxed);
            is_over.load(Ordering::Relaxed) || answers.load(Ordering::Relaxed) >= 1000
        });
    });
    is_over.load(Ordering::Relaxed)
}

#[test]
fn more_slots_than_workers_are_found_out_and_nobody_is_refused() {
    let stage = Plan::php()
        .file("slow.php", "<?php usleep(15000); echo 'slow';")
        .workers(2)
        .site("in_flight = 20\nqueue = 1000\nqueue_timeout = \"30m\"")
        .start();
    let slots = || stage.status_number("slots");
    // What it takes when there is little to do: a whole window of it.
    for _ in 0..60 {
        assert_eq!(stage.get("/slow.php").status, 200);
    }
    assert_eq!(slots(), 20);
    // Where other programs have the machine for moments, throughput may seem to pay for the slots; after a calm time they are
    // looked at anew.
    let is_found = (0..20).any(|_| {
        let is_found = crowd(&stage, || slots() <= 10);
        if !is_found {
            for _ in 0..300 {
                stage.get("/slow.php").is(200);
            }
        }
        is_found
    });
    assert!(is_found, "{} slots", slots());
    assert!(slots() >= 2);
    let text = stage.galley.cli(&["status"]).unwrap();
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains(" of 20 slots, because more do not"), "{text}");
}
