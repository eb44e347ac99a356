//! Upstream outages: the circuit breaker, and the limits for idle connections to the upstream.

use std::fs;

use galley_testkit::client::Request;
use galley_testkit::origin::{Origin, ReceivedRequest, ResponseWriter};
use galley_testkit::{Apache, ApacheOptions, Galley, wait_for};

use crate::support::{
    AssertStatus, HOST, SiteBuilder, TEST_PAGE, TIMEOUT, TestSite, binary, json_number, page_value,
    run_concurrently, with_host,
};

/// Sends requests until the circuit breaker opens.
fn wait_for_open_breaker(site: &TestSite) {
    wait_for("the circuit breaker to open", TIMEOUT, || {
        let response = site.get("/never-seen");
        assert!(
            [502, 503].contains(&response.status),
            "{}",
            response.excerpt()
        );
        response.cache_status() == "galley; detail=upstream-paused"
    });
}

fn count_lines(text: &str, part: &str) -> usize {
    text.lines().filter(|line| line.contains(part)).count()
}

fn metric(site: &TestSite, name: &str) -> String {
    let text = site.metrics();
    let line = text
        .lines()
        .find(|line| line.starts_with(&format!("{name}{{")));
    let value = line.and_then(|line| line.rsplit(' ').next());
    value.unwrap_or_default().to_owned()
}

#[test]
fn the_circuit_breaker_opens_for_dead_php_and_closes_after_a_probe() {
    let mut site = SiteBuilder::php()
        .more("[site.ttl]\ndefault = \"1s\"\nstale_while_revalidate = \"0s\"\nstale_if_error = \"1h\"\n")
        .start();
    let stored = site.get("/stored").expect_status(200);
    site.wait_until_stale("/stored");
    site.fpm.as_mut().unwrap().kill();
    site.get("/never-seen").assert_status(502);
    wait_for_open_breaker(&site);
    // Stored pages are served stale, other requests get `Retry-After`. One of the requests may be the probe.
    let stale = site.get("/stored").expect_status(200);
    assert_eq!(stale.body, stored.body);
    assert!(stale.cache_status().ends_with("; detail=upstream-error"));
    let responses = run_concurrently(50, |n| site.get(&format!("/other/{n}")));
    let rejected = responses.iter().filter(|response| response.status == 503);
    let mut count = 0;
    for response in rejected {
        let wait: u32 = response.field("retry-after").unwrap().parse().unwrap();
        assert!((1..=8).contains(&wait), "{wait}");
        count += 1;
    }
    assert!(count >= 45, "{count} of 50");
    for output in [site.status(), site.why("/never-seen")] {
        assert!(output.contains("\"state\":\"paused\""), "{output}");
    }
    let text = site.galley.cli(&["status"]).unwrap();
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(
        text.starts_with("failing: ") && text.contains("No response from unix:"),
        "{text}"
    );
    assert_eq!(metric(&site, "galley_upstream_paused"), "1");
    assert_eq!(metric(&site, "galley_upstream_pauses_total"), "1");
    let log = site.galley.log();
    assert_eq!(count_lines(&log, "the circuit breaker is open"), 1, "{log}");

    site.fpm.as_mut().unwrap().restart().unwrap();
    wait_for("a response", TIMEOUT, || {
        site.get("/never-seen").status == 200
    });
    // The number of slots starts at two and grows by one with each response.
    assert_eq!(site.status_number("slots"), 2);
    for number in 0..4 {
        site.get(&format!("/again/{number}")).assert_status(200);
    }
    assert_eq!(site.status_number("slots"), 6);
    for number in 4..40 {
        site.get(&format!("/again/{number}")).assert_status(200);
    }
    assert_eq!(site.status_number("slots"), 20);
    assert_eq!(metric(&site, "galley_upstream_paused"), "0");
    let log = site.galley.log();
    assert_eq!(count_lines(&log, "the upstream responds again"), 1, "{log}");
    assert_eq!(count_lines(&log, "the circuit breaker is open"), 1, "{log}");
}

#[test]
fn the_circuit_breaker_opens_for_hung_php() {
    let site = SiteBuilder::php()
        .workers(1)
        .site("first_byte_timeout = \"200ms\"\nlock_age = \"1m\"\nin_flight = 4")
        .start();
    site.hold("/hangs");
    let mut statuses = Vec::new();
    wait_for("the circuit breaker to open", TIMEOUT, || {
        let number = statuses.len();
        let request = Request::form("/hangs", &[("n", &number.to_string())]);
        statuses.push(site.send(request).status);
        statuses.last() == Some(&503)
    });
    let timeouts = statuses.iter().filter(|status| **status == 504).count();
    assert_eq!(timeouts, 5, "{statuses:?}");
    site.release("/hangs");
    site.unhold("/hangs");
    wait_for("a response", TIMEOUT, || site.get("/page").status == 200);
}

#[test]
fn a_dead_server_of_two_is_skipped_without_failures() {
    let origin = Origin::start(
        |request: &ReceivedRequest, writer: &mut ResponseWriter<'_>| {
            writer.respond(200, &[], request.path().as_bytes());
        },
    )
    .unwrap();
    // No process listens on port 1.
    let line = format!(
        "upstream = [\"http://127.0.0.1:1\", \"{}\"]\nidle_share = 0",
        origin.url()
    );
    let site = SiteBuilder::upstream_line(&line).start();
    for number in 0..30 {
        let path = format!("/page/{number}");
        assert_eq!(site.get(&path).expect_status(200).text(), path);
    }
    let status = site.status();
    assert_eq!(
        status.matches("\"state\":\"paused\"").count(),
        1,
        "{status}"
    );
    assert_eq!(status.matches("\"state\":\"up\"").count(), 1, "{status}");
    assert_eq!(
        site.status_number("slots"),
        20,
        "the other server has lost slots"
    );
}

/// Number of established connections to a local port, counted at the client side.
fn established_connections(port: u16) -> usize {
    let table = fs::read_to_string("/proc/net/tcp").unwrap();
    let peer = format!("0100007F:{port:04X}");
    let is_match = |line: &&str| {
        let mut columns = line.split_whitespace().skip(2);
        columns.next() == Some(peer.as_str()) && columns.next() == Some("01")
    };
    table.lines().filter(is_match).count()
}

/// Starts two sites with one Apache as upstream and these lines in each `[[site]]`.
fn sites_with_apache(lines: &str) -> (TestSite, Apache) {
    let builder = SiteBuilder::files();
    builder.scratch.write("web/index.php", TEST_PAGE).unwrap();
    let rewrite =
        "RewriteEngine On\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule . /index.php [L]\n";
    builder.scratch.write("web/.htaccess", rewrite).unwrap();
    let options = ApacheOptions {
        max_request_workers: 8,
        keep_alive_timeout_s: 3600,
        ..ApacheOptions::default()
    };
    let dir = builder.scratch.join("apache");
    let apache = Apache::start(&dir, &builder.scratch.join("web"), &options).unwrap();
    let (scratch, fpm, config) = builder.prepare();
    let url = apache.url();
    let site_config = |host: &str| {
        format!("[[site]]\nhosts = [\"{host}\"]\nupstream = [\"{url}\"]\nin_flight = 8\n{lines}\n")
    };
    let (server, _) = config.split_once("[[site]]").unwrap();
    let config = format!(
        "{server}{}{}",
        site_config(HOST),
        site_config("second.test")
    );
    let galley = Galley::start_binary(binary(), &scratch.join("galley"), &config).unwrap();
    let site = TestSite {
        galley,
        fpm,
        scratch,
    };
    (site, apache)
}

/// Sends four concurrent requests to each of the two sites, which takes all Apache children.
fn use_all_children(site: &TestSite, round: usize) {
    let page = format!("/page{round}");
    site.hold(&page);
    std::thread::scope(|scope| {
        let requests: Vec<_> = (0..8)
            .map(|number| {
                let host = if number % 2 == 0 { HOST } else { "second.test" };
                let form = Request::form(&page, &[("n", &number.to_string())]);
                scope.spawn(move || site.send(form.host(host)).status)
            })
            .collect();
        wait_for("all requests at Apache", TIMEOUT, || {
            let status = site.status();
            let upstream = status.split("\"upstream\":").last().unwrap_or_default();
            json_number(upstream, "in_flight") == 8
        });
        wait_for("all requests in PHP", TIMEOUT, || site.runs(&page) == 8);
        site.release(&page);
        for request in requests {
            assert_eq!(request.join().unwrap(), 200);
        }
    });
}

#[test]
fn idle_connections_do_not_occupy_all_apache_children() {
    let (site, apache) = sites_with_apache("idle_age = \"30m\"");
    for round in 0..3 {
        use_all_children(&site, round);
        // A quarter of eight stays open for both sites together; Apache itself would keep all for an hour.
        wait_for("the other connections to be closed", TIMEOUT, || {
            established_connections(apache.addr().port()) <= 2
        });
    }
    // A client that connects to Apache directly can use the other six children at once.
    site.hold("/direct");
    std::thread::scope(|scope| {
        let requests: Vec<_> = (0..6)
            .map(|_| {
                let direct = with_host(Request::get("/direct"));
                let addr = apache.addr();
                scope.spawn(move || direct.send(addr).unwrap().text())
            })
            .collect();
        wait_for("six concurrent requests in PHP", TIMEOUT, || {
            site.runs("/direct") == 6
        });
        site.release("/direct");
        for request in requests {
            assert_eq!(page_value(&request.join().unwrap(), "path"), "/direct");
        }
    });
    // The next requests reuse the idle connections.
    let idle = established_connections(apache.addr().port());
    for number in 0..10 {
        site.get(&format!("/again/{number}")).assert_status(200);
    }
    assert!(established_connections(apache.addr().port()) <= idle.max(1));
}

#[test]
fn idle_connections_are_closed_after_idle_age() {
    let (site, apache) = sites_with_apache("idle_age = \"100ms\"\nidle_share = 100");
    use_all_children(&site, 0);
    wait_for("all connections to be closed", TIMEOUT, || {
        established_connections(apache.addr().port()) == 0
    });
    assert_eq!(site.status_number("idle_connections"), 0);
    site.get("/page").assert_status(200);
}
