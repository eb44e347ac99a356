//! A head that was a hit before is not read again, and nothing else about it is old: purges, edits, lifetimes, sites, schemes
//! and each single byte count as they do where nothing is remembered.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use galley_testkit::client::Connection;
use galley_testkit::origin::Origin;
use galley_testkit::wait_for;

use crate::lane::{Both, FIELDS, PATHS, Random, request};
use crate::support::{PATIENCE, Plan, Stage};
use crate::tls_support::{Authority, Tls, over_tls, tls_addr};

/// The second time a head is taken in, the third time it is known.
const TIMES: usize = 4;

fn ask(at: SocketAddr, bytes: &[u8]) -> String {
    let mut connection = Connection::within(at, PATIENCE).unwrap();
    connection.write(bytes).unwrap();
    String::from_utf8_lossy(&connection.read_to_end().unwrap()).into_owned()
}

/// Asks until the head is known; gives the last answer.
fn known(at: SocketAddr, bytes: &[u8]) -> String {
    let answers = [(); TIMES].map(|()| ask(at, bytes));
    let [first, .., last] = &answers;
    assert!(first.starts_with("HTTP/1.1 200 "), "{first}");
    assert!(last.contains("cache-status: galley; hit"), "{last}");
    last.clone()
}

fn closing(path: &str) -> Vec<u8> {
    request("GET", path, &["User-Agent: same", "Connection: close"])
}

/// Pages that tell the version of the moment, under which scheme and as which site they were composed.
fn versions(site: &'static str) -> (Origin, Arc<AtomicUsize>) {
    let version = Arc::new(AtomicUsize::new(0));
    let told = Arc::clone(&version);
    let origin = Origin::start(move |seen, wire| {
        let life = match seen.path() {
            "/short" => "max-age=1",
            _ => "max-age=3600",
        };
        let fields = [("Content-Type", "text/html"), ("Cache-Control", life)];
        let number = told.load(Ordering::SeqCst);
        let scheme = seen.field("x-forwarded-proto").unwrap_or("none");
        let text = format!("<p>{site} {number} {scheme}</p>").repeat(40);
        let page = format!("<html><body>{text}</body></html>");
        wire.answer(200, &fields, page.as_bytes());
    });
    (origin.unwrap(), version)
}

fn behind(origin: &Origin) -> Plan {
    Plan::behind(&format!("upstream = [\"{}\"]", origin.url()))
}

#[test]
fn each_byte_of_a_known_head_counts() {
    let both = Both::start();
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let then = closing("/tagged");
    for _ in 0..25 {
        let field = FIELDS[random.below(FIELDS.len())];
        let path = PATHS[random.below(PATHS.len())];
        let fields = [field, "X-Filler: 0123456789", "Connection: close"];
        let head = request("GET", path, &fields);
        for _ in 0..TIMES {
            both.agree_on(&head);
        }
        for _ in 0..8 {
            let mut other = head.clone();
            let place = random.below(other.len());
            other[place] ^= 1 << random.below(7);
            // Where it ends no more, or announces a body, something has to follow.
            other.extend_from_slice(&then);
            both.agree_on(&other);
        }
        both.agree_on(&head);
    }
}

#[test]
fn neighbours_of_a_known_head_are_told_apart() {
    let both = Both::start();
    let base = [
        "Accept-Encoding: gzip",
        "If-None-Match: \"v1-gzip\"",
        "Cookie: _ga=1",
    ];
    let others = [
        [
            "Accept-Encoding: gzi",
            "If-None-Match: \"v1-gzip\"",
            "Cookie: _ga=1",
        ],
        [
            "Accept-Encoding: gzip",
            "If-None-Match: \"v2-gzip\"",
            "Cookie: _ga=1",
        ],
        [
            "Accept-Encoding: gzip",
            "If-None-Match: \"v1-gzip\"",
            "Cookie: wordpress_logged_in_a=1",
        ],
        ["Accept-Encoding: gzip", "Range: bytes=0-4", "Cookie: _ga=1"],
        [
            "Accept-Encoding: gzip",
            "If-None-Match: \"v1-gzip\"",
            "Authorization: Basic YTpi",
        ],
    ];
    for fields in std::iter::once(&base).chain(&others).chain([&base]) {
        let [one, two, three] = *fields;
        for close in [["Connection: close", "X: 1"], ["Connection: close", "X: 2"]] {
            let head = request("GET", "/tagged", &[one, two, three, close[0], close[1]]);
            for _ in 0..TIMES {
                both.agree_on(&head);
            }
        }
    }
}

#[test]
fn a_known_head_gets_what_is_stored_now() {
    let (origin, version) = versions("site");
    let stage = behind(&origin).start();
    let (page, short) = (closing("/page"), closing("/short"));
    for number in 0..3 {
        version.store(number, Ordering::SeqCst);
        stage.purge(&["--url", "/page"]);
        let first = ask(stage.addr(), &page);
        assert!(first.contains(&format!("site {number} ")), "{first}");
        assert!(first.contains("galley; fwd="), "{first}");
        let again = known(stage.addr(), &page);
        assert!(again.contains(&format!("site {number} ")), "{again}");
    }
    ask(stage.addr(), &short);
    // Its life may end between two of them.
    for _ in 0..TIMES {
        ask(stage.addr(), &short);
    }
    version.store(9, Ordering::SeqCst);
    wait_for("the new version", PATIENCE, || {
        ask(stage.addr(), &short).contains("site 9 ")
    });
}

#[test]
fn a_known_head_leads_to_the_site_of_its_listener() {
    let ((one, _), (two, _)) = (versions("one"), versions("two"));
    let stage = behind(&one)
        .more(&format!(
            "[[site]]\nhosts = [\"example.test\"]\nlisten = [\"127.0.0.2:0\"]\nupstream = [\"{}\"]\n",
            two.url()
        ))
        .start();
    let urls = stage.galley.urls();
    let inner = urls
        .iter()
        .position(|url| url.contains("127.0.0.2"))
        .unwrap();
    for _ in 0..TIMES {
        for (at, site) in [(inner, "<p>two "), (1 - inner, "<p>one ")] {
            let answer = known(stage.addr_of(at), &closing("/page"));
            assert!(answer.contains(site), "{answer}");
        }
    }
}

#[test]
fn a_known_head_is_of_its_scheme() {
    let ((origin, _), authority) = (versions("site"), Authority::new());
    let stage = over_tls(behind(&origin), &authority).start();
    let (client, head) = (authority.client(), closing("/page"));
    for _ in 0..TIMES {
        let answer = known(stage.addr(), &head);
        assert!(answer.contains("site 0 http<"), "{answer}");
        for _ in 0..TIMES {
            let mut tls = Tls::connect(&client, "example.test", tls_addr(&stage)).unwrap();
            let answer = tls.all_of(&head);
            assert!(answer.contains("site 0 https<"), "{answer}");
        }
    }
}

#[test]
fn lines_of_known_heads_are_those_of_others() {
    for format in ["combined", "json"] {
        let (origin, _) = versions("site");
        let stage = behind(&origin)
            .log(&format!("format = \"{format}\""))
            .start();
        let fields = [
            "User-Agent: quoted \" \\ \u{e4}",
            "Referer: https://elsewhere.test/\"x",
            "Connection: close",
        ];
        known(stage.addr(), &request("GET", "/page", &fields));
        let lines = hits(&stage);
        let [first, .., last] = lines.as_slice() else {
            panic!("{lines:?}");
        };
        assert_eq!(lines.len(), TIMES - 1);
        assert_eq!(first, last);
        assert!(
            first.contains("quoted ") && first.contains("elsewhere.test"),
            "{first}"
        );
    }
}

/// The lines of hits without what differs from one to the next: digits, and the letters of ids.
fn hits(stage: &Stage) -> Vec<String> {
    let mut lines = Vec::new();
    wait_for("the lines of the hits", PATIENCE, || {
        let text = stage.access();
        let of_hits = text
            .lines()
            .filter(|line| line.contains("outcome=hit") || line.contains("\"outcome\":\"hit\""));
        lines = of_hits.map(shape).collect();
        lines.len() == TIMES - 1
    });
    lines
}

fn shape(line: &str) -> String {
    let end = line.rfind("id=").or_else(|| line.rfind("\"id\":"));
    let line = line.get(..end.unwrap()).unwrap();
    line.chars().filter(|c| !c.is_ascii_digit()).collect()
}
