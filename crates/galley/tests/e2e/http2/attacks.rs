//! What attacks an HTTP/2 connection ends it, and nothing else.

use galley_testkit::client::frames::kinds::{
    CONTINUATION, DATA, GOAWAY, HEADERS, PING, PRIORITY, RST_STREAM, SETTINGS, WINDOW_UPDATE,
};
use galley_testkit::client::frames::{
    END_STREAM, Frame, Frames, block, bytes_of, head_frame, settings_frame,
};
use galley_testkit::wait_for;

use super::ask::Client;
use crate::support::{HOST, SiteBuilder, TIMEOUT, TestSite};

/// Error codes (RFC 9113 section 7).
pub const PROTOCOL_ERROR: u32 = 1;
const REFUSED_STREAM: u32 = 7;
pub const CANCEL: u32 = 8;
pub const ENHANCE_YOUR_CALM: u32 = 11;

/// Flag of a frame with padding (RFC 9113 section 6.1).
const PADDED: u8 = 8;

/// A site of files that speaks HTTP/2 without TLS.
pub fn files(server: &str) -> TestSite {
    SiteBuilder::files()
        .server(&format!("h2c = true\n{server}"))
        .file("page.html", "a page ".repeat(1500))
        .start()
}

/// The fields of a request.
pub fn fields<'f>(method: &'f str, path: &'f str) -> Vec<(&'f str, &'f str)> {
    vec![
        (":method", method),
        (":scheme", "http"),
        (":path", path),
        (":authority", HOST),
    ]
}

pub fn get(stream: u32, path: &str) -> Vec<u8> {
    head_frame(stream, END_STREAM, &fields("GET", path))
}

/// A request whose body is to follow.
fn post(stream: u32) -> Vec<u8> {
    head_frame(stream, 0, &fields("POST", "/page.html"))
}

pub fn reset(stream: u32) -> Vec<u8> {
    bytes_of(RST_STREAM, 0, stream, &CANCEL.to_be_bytes())
}

pub fn open(site: &TestSite) -> Frames {
    Frames::open(site.addr(), &[], TIMEOUT).unwrap()
}

/// `GET /metrics`.
pub fn metrics(site: &TestSite) -> String {
    let socket = site.galley.admin().unwrap();
    let output = std::process::Command::new("curl")
        .args(["-s", "--unix-socket", socket.trim_start_matches("unix:")])
        .arg("http://galley/metrics")
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// The farewell among these.
fn farewell(frames: &[Frame]) -> Option<u32> {
    let mut last = frames.iter().filter(|frame| frame.kind == GOAWAY);
    last.next_back()?.code()
}

/// Sends these bytes and holds that the connection is ended for a flood, and that others are served as before.
fn floods(site: &TestSite, what: &str, bytes: &[u8]) {
    let others = Client::open(site.addr());
    assert_eq!(others.get("/page.html").status, 200, "{what}");
    let count = || {
        let metrics = metrics(site);
        let line = metrics
            .lines()
            .find(|line| line.starts_with("galley_http2_ended_total{reason=\"flood\"}"));
        line.and_then(|line| line.split(' ').nth(1)?.parse::<u64>().ok())
            .unwrap()
    };
    let before = count();
    let mut frames = open(site);
    // The end may come before all is written.
    let _ = frames.write(bytes);
    let came = frames.until_closed().unwrap();
    assert_eq!(farewell(&came), Some(ENHANCE_YOUR_CALM), "{what}: {came:?}");
    wait_for("the connection to be counted", TIMEOUT, || {
        count() == before + 1
    });
    assert_eq!(others.get("/page.html").status, 200, "{what}");
}

fn odd(count: u32) -> impl Iterator<Item = u32> {
    (0..count).map(|number| 2 * number + 1)
}

#[test]
fn floods_end_their_connection() {
    let site = files("");
    let rapid = odd(400).flat_map(|stream| [get(stream, "/page.html"), reset(stream)].concat());
    floods(&site, "rapid reset", &rapid.collect::<Vec<u8>>());
    // A window beyond all bounds breaks a rule, and the server has to reset (CVE-2025-8671).
    let too_much = |stream| bytes_of(WINDOW_UPDATE, 0, stream, &0x7fff_ffff_u32.to_be_bytes());
    let made = odd(400).flat_map(|stream| [post(stream), too_much(stream)].concat());
    floods(&site, "made you reset", &made.collect::<Vec<u8>>());
    let head = bytes_of(HEADERS, END_STREAM, 1, &block(&fields("GET", "/")));
    let more = bytes_of(CONTINUATION, 0, 1, &block(&[("a", "b")])).repeat(3000);
    floods(&site, "continuation", &[head, more].concat());
    floods(&site, "ping", &bytes_of(PING, 0, 0, &[0; 8]).repeat(2000));
    floods(
        &site,
        "answers to pings",
        &bytes_of(PING, 1, 0, &[0; 8]).repeat(2000),
    );
    floods(
        &site,
        "settings",
        &settings_frame(&[(4, 70_000)]).repeat(2000),
    );
    floods(
        &site,
        "empty settings",
        &bytes_of(SETTINGS, 0, 0, &[]).repeat(2000),
    );
    floods(
        &site,
        "priority",
        &bytes_of(PRIORITY, 0, 1, &[0, 0, 0, 0, 9]).repeat(2000),
    );
    floods(&site, "unknown", &bytes_of(99, 0, 1, &[1; 40]).repeat(2000));
    let empty = [post(1), bytes_of(DATA, 0, 1, &[]).repeat(2000)].concat();
    floods(&site, "empty data", &empty);
    // Nothing but padding is nothing too.
    let padded = [
        post(1),
        bytes_of(DATA, PADDED, 1, &[3, 0, 0, 0]).repeat(2000),
    ]
    .concat();
    floods(&site, "padding", &padded);
    let window = bytes_of(WINDOW_UPDATE, 0, 0, &1_u32.to_be_bytes());
    floods(&site, "window updates", &window.repeat(2000));
    let long = "v".repeat(10_000);
    let large: Vec<_> = fields("GET", "/")
        .into_iter()
        .chain([("x", long.as_str()); 20])
        .collect();
    let block = block(&large);
    let (first, rest) = block.split_at(16_000);
    let mut bytes = bytes_of(HEADERS, END_STREAM, 1, first);
    for piece in rest.chunks(16_000) {
        bytes.extend(bytes_of(CONTINUATION, 0, 1, piece));
    }
    floods(&site, "a header list without end", &bytes);
    let warnings = site.galley.log();
    let warnings = warnings.matches("an HTTP/2 connection was ended").count();
    assert_eq!(warnings, 1, "clients do not fill the log");
}

/// Resets that come one at a time, each after its request was answered or was sent to PHP.
#[test]
fn resets_that_take_their_time_are_counted_too() {
    let site = files("");
    let mut frames = open(&site);
    let mut sent = 0;
    for stream in odd(1000) {
        let pair = [get(stream, "/page.html"), reset(stream)].concat();
        let ping = bytes_of(PING, 0, 0, &stream.to_be_bytes().repeat(2));
        if frames.write(&[pair, ping].concat()).is_err() {
            break;
        }
        sent = stream;
        let answered = frames.until(|frame| frame.kind == PING || frame.kind == GOAWAY);
        let Ok(answered) = answered else { break };
        if let Some(code) = farewell(&answered) {
            assert_eq!(code, ENHANCE_YOUR_CALM);
            break;
        }
    }
    assert!((300..1900).contains(&sent), "ended at stream {sent}");
}

#[test]
fn a_stream_too_many_is_refused_and_the_others_go_on() {
    let site = files("");
    let mut frames = open(&site);
    for stream in odd(101) {
        frames.write(&post(stream)).unwrap();
    }
    let refused = frames.until(|frame| frame.kind == RST_STREAM).unwrap();
    let refused = refused.last().unwrap();
    assert_eq!(
        (refused.stream, refused.code()),
        (201, Some(REFUSED_STREAM))
    );
    frames.write(&bytes_of(DATA, END_STREAM, 1, b"x")).unwrap();
    let answered = frames
        .until(|frame| frame.stream == 1 && frame.ends_stream())
        .unwrap();
    assert!(farewell(&answered).is_none());
}

/// What cannot have come by HTTP/1 with the same meaning never reaches anybody.
#[test]
fn malformed_requests_are_refused_by_themselves() {
    let site = files("");
    let mut frames = open(&site);
    let cases = malformed_fields()
        .into_iter()
        .chain(malformed_pseudo_fields());
    let mut stream = 1;
    let mut ended = Vec::new();
    for (what, fields) in cases {
        frames
            .write(&head_frame(stream, END_STREAM, &fields))
            .unwrap();
        let ends = |frame: &Frame| {
            let is_last = frame.ends_stream() || frame.kind == RST_STREAM;
            (frame.stream == stream && is_last) || frame.kind == GOAWAY
        };
        let answer = frames.until(ends).unwrap();
        let refused = answer.iter().any(|frame| frame.status() == Some(400))
            || answer
                .iter()
                .any(|frame| frame.code() == Some(PROTOCOL_ERROR));
        assert!(refused, "{what}: {answer:?}");
        stream += 2;
        if farewell(&answer).is_some() {
            // What is no field at all leaves the compression without a known state, and ends the connection.
            ended.push(what);
            (frames, stream) = (open(&site), 1);
        }
    }
    // One is as good as the other for who sent it, but a field that is only unfit must not end what others ask.
    assert!(
        !ended
            .iter()
            .any(|what| what.contains("path") || what.contains("host"))
    );
    frames.write(&get(stream, "/page.html")).unwrap();
    let answer = frames.until(|frame| frame.stream == stream).unwrap();
    assert_eq!(answer.last().unwrap().status(), Some(200));
}

type MalformedHead = (&'static str, Vec<(&'static str, &'static str)>);

fn with(more: &[(&'static str, &'static str)]) -> Vec<(&'static str, &'static str)> {
    let mut all = fields("GET", "/page.html");
    all.extend_from_slice(more);
    all
}

fn malformed_fields() -> Vec<MalformedHead> {
    vec![
        ("line feed in a value", with(&[("x", "a\nb: c")])),
        ("carriage return in a value", with(&[("x", "a\rb")])),
        ("NUL in a value", with(&[("x", "a\0b")])),
        ("space before a value", with(&[("x", " a")])),
        ("upper case", with(&[("Accept", "*/*")])),
        ("no name", with(&[("", "a")])),
        ("space in a name", with(&[("a b", "c")])),
        ("colon in a name", with(&[("a:b", "c")])),
        ("line end in a name", with(&[("a\r\nb", "c")])),
        ("connection", with(&[("connection", "close")])),
        (
            "transfer-encoding",
            with(&[("transfer-encoding", "chunked")]),
        ),
        ("upgrade", with(&[("upgrade", "h2c")])),
        ("keep-alive", with(&[("keep-alive", "5")])),
        ("proxy-connection", with(&[("proxy-connection", "close")])),
        ("te", with(&[("te", "trailers, gzip")])),
        ("another host", with(&[("host", "elsewhere.test")])),
        ("a length and no body", with(&[("content-length", "5")])),
        ("a length that is none", with(&[("content-length", "+0")])),
        (
            "two lengths",
            with(&[("content-length", "0"), ("content-length", "0")]),
        ),
    ]
}

fn malformed_pseudo_fields() -> Vec<MalformedHead> {
    let path = |path: &'static str| fields("GET", path);
    vec![
        ("late pseudo-field", with(&[("x", "a"), (":path", "/")])),
        ("pseudo-field twice", with(&[(":path", "/")])),
        ("unknown pseudo-field", with(&[(":proto", "x")])),
        ("space in the path", path("/page.html HTTP/1.1")),
        ("line end in the path", path("/page.html\r\nX: y")),
        ("no path", path("")),
        ("relative path", path("page.html")),
        ("absolute path", path("http://elsewhere.test/page.html")),
        ("asterisk", path("*")),
        ("letters beyond ASCII", path("/\u{e4}")),
        (
            "no method",
            vec![(":scheme", "http"), (":path", "/"), (":authority", HOST)],
        ),
        (
            "no host",
            vec![(":method", "GET"), (":scheme", "http"), (":path", "/")],
        ),
        (
            "user in the authority",
            vec![
                (":method", "GET"),
                (":scheme", "http"),
                (":path", "/"),
                (":authority", "me@example.test"),
            ],
        ),
        (
            "another scheme",
            vec![
                (":method", "GET"),
                (":scheme", "ftp"),
                (":path", "/"),
                (":authority", HOST),
            ],
        ),
    ]
}
