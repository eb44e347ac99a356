//! An attack on an HTTP/2 connection ends that connection, and other clients are served.

use galley_testkit::client::frames::kinds::{
    CONTINUATION, DATA, GOAWAY, HEADERS, PING, PRIORITY, RST_STREAM, SETTINGS, WINDOW_UPDATE,
};
use galley_testkit::client::frames::{
    END_STREAM, Frame, block, bytes_of, head_frame, settings_frame,
};
use galley_testkit::wait_for;

use super::client::Client;
use super::frames::{
    ENHANCE_YOUR_CALM, PROTOCOL_ERROR, REFUSED_STREAM, fields, file_site, get, goaway_code, open,
    reset,
};
use crate::support::{HOST, TIMEOUT, TestSite};

/// Flag of a frame with padding (RFC 9113 section 6.1).
const PADDED: u8 = 8;

/// A request whose body has not been sent.
fn post(stream: u32) -> Vec<u8> {
    head_frame(stream, 0, &fields("POST", "/page.html"))
}

/// Sends these bytes, and checks that Galley ends the connection as a flood and still serves other clients.
fn assert_flood(site: &TestSite, name: &str, bytes: &[u8]) {
    let other_client = Client::open(site.addr());
    assert_eq!(other_client.get("/page.html").status, 200, "{name}");
    let count = || {
        let metrics = site.metrics();
        let line = metrics
            .lines()
            .find(|line| line.starts_with("galley_http2_ended_total{reason=\"flood\"}"));
        line.and_then(|line| line.split(' ').nth(1)?.parse::<u64>().ok())
            .unwrap()
    };
    let before = count();
    let mut frames = open(site);
    // Galley may end the connection before all bytes are written.
    let _ = frames.write(bytes);
    let received = frames.until_closed().unwrap();
    assert_eq!(
        goaway_code(&received),
        Some(ENHANCE_YOUR_CALM),
        "{name}: {received:?}"
    );
    wait_for("the connection to be counted", TIMEOUT, || {
        count() == before + 1
    });
    assert_eq!(other_client.get("/page.html").status, 200, "{name}");
}

fn client_streams(count: u32) -> impl Iterator<Item = u32> {
    (0..count).map(|number| 2 * number + 1)
}

#[test]
fn a_flood_of_frames_ends_its_connection() {
    let site = file_site("");
    let rapid =
        client_streams(400).flat_map(|stream| [get(stream, "/page.html"), reset(stream)].concat());
    assert_flood(&site, "rapid reset", &rapid.collect::<Vec<u8>>());
    // A window above the maximum is an error for which the server has to reset the stream (CVE-2025-8671).
    let overflow = |stream| bytes_of(WINDOW_UPDATE, 0, stream, &0x7fff_ffff_u32.to_be_bytes());
    let made = client_streams(400).flat_map(|stream| [post(stream), overflow(stream)].concat());
    assert_flood(&site, "made you reset", &made.collect::<Vec<u8>>());
    let head = bytes_of(HEADERS, END_STREAM, 1, &block(&fields("GET", "/")));
    let more = bytes_of(CONTINUATION, 0, 1, &block(&[("a", "b")])).repeat(3000);
    assert_flood(&site, "continuation", &[head, more].concat());
    // Frames without a field do not use up the size of the head (CVE-2026-33871).
    let open_head = bytes_of(HEADERS, END_STREAM, 1, &block(&fields("GET", "/")));
    let empty = bytes_of(CONTINUATION, 0, 1, &[]).repeat(3000);
    assert_flood(&site, "empty continuation", &[open_head, empty].concat());
    assert_flood(&site, "ping", &bytes_of(PING, 0, 0, &[0; 8]).repeat(2000));
    assert_flood(
        &site,
        "ping acknowledgements",
        &bytes_of(PING, 1, 0, &[0; 8]).repeat(2000),
    );
    assert_flood(
        &site,
        "settings",
        &settings_frame(&[(4, 70_000)]).repeat(2000),
    );
    assert_flood(
        &site,
        "empty settings",
        &bytes_of(SETTINGS, 0, 0, &[]).repeat(2000),
    );
    assert_flood(
        &site,
        "priority",
        &bytes_of(PRIORITY, 0, 1, &[0, 0, 0, 0, 9]).repeat(2000),
    );
    assert_flood(&site, "unknown", &bytes_of(99, 0, 1, &[1; 40]).repeat(2000));
    let empty = [post(1), bytes_of(DATA, 0, 1, &[]).repeat(2000)].concat();
    assert_flood(&site, "empty data", &empty);
    // A frame of padding alone has no data either.
    let padded = [
        post(1),
        bytes_of(DATA, PADDED, 1, &[3, 0, 0, 0]).repeat(2000),
    ]
    .concat();
    assert_flood(&site, "padding", &padded);
    let window = bytes_of(WINDOW_UPDATE, 0, 0, &1_u32.to_be_bytes());
    assert_flood(&site, "window updates", &window.repeat(2000));
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
    assert_flood(&site, "a header list without end", &bytes);
    let warnings = site.galley.log();
    let warnings = warnings.matches("an HTTP/2 connection was ended").count();
    assert_eq!(warnings, 1, "clients can fill the log");
}

/// The client waits for a PING acknowledgement after each reset, so the resets do not arrive in a burst.
#[test]
fn slow_stream_resets_are_counted_as_a_flood() {
    let site = file_site("");
    let mut frames = open(&site);
    let mut sent = 0;
    for stream in client_streams(1000) {
        let pair = [get(stream, "/page.html"), reset(stream)].concat();
        let ping = bytes_of(PING, 0, 0, &stream.to_be_bytes().repeat(2));
        if frames.write(&[pair, ping].concat()).is_err() {
            break;
        }
        sent = stream;
        let received = frames.until(|frame| frame.kind == PING || frame.kind == GOAWAY);
        let Ok(received) = received else { break };
        if let Some(code) = goaway_code(&received) {
            assert_eq!(code, ENHANCE_YOUR_CALM);
            break;
        }
    }
    assert!(
        (300..1900).contains(&sent),
        "connection ended at stream {sent}"
    );
}

#[test]
fn a_stream_beyond_the_limit_is_refused_and_the_others_continue() {
    let site = file_site("");
    let mut frames = open(&site);
    for stream in client_streams(101) {
        frames.write(&post(stream)).unwrap();
    }
    let refused = frames.until(|frame| frame.kind == RST_STREAM).unwrap();
    let refused = refused.last().unwrap();
    assert_eq!(
        (refused.stream, refused.code()),
        (201, Some(REFUSED_STREAM))
    );
    frames.write(&bytes_of(DATA, END_STREAM, 1, b"x")).unwrap();
    let received = frames
        .until(|frame| frame.stream == 1 && frame.ends_stream())
        .unwrap();
    assert!(goaway_code(&received).is_none());
}

/// A request that HTTP/1 cannot express with the same meaning never reaches a site.
#[test]
fn a_malformed_request_ends_only_its_stream() {
    let site = file_site("");
    let mut frames = open(&site);
    let cases = malformed_fields()
        .into_iter()
        .chain(malformed_pseudo_fields());
    let mut stream = 1;
    let mut ended = Vec::new();
    for (name, fields) in cases {
        frames
            .write(&head_frame(stream, END_STREAM, &fields))
            .unwrap();
        let ends = |frame: &Frame| {
            let is_last = frame.ends_stream() || frame.kind == RST_STREAM;
            (frame.stream == stream && is_last) || frame.kind == GOAWAY
        };
        let response = frames.until(ends).unwrap();
        let refused = response.iter().any(|frame| frame.status() == Some(400))
            || response
                .iter()
                .any(|frame| frame.code() == Some(PROTOCOL_ERROR));
        assert!(refused, "{name}: {response:?}");
        stream += 2;
        if goaway_code(&response).is_some() {
            // An invalid field encoding leaves the HPACK state undefined, which ends the connection.
            ended.push(name);
            (frames, stream) = (open(&site), 1);
        }
    }
    // A field with an invalid value must end only its stream, not the other requests of the connection.
    assert!(
        !ended
            .iter()
            .any(|name| name.contains("path") || name.contains("host"))
    );
    frames.write(&get(stream, "/page.html")).unwrap();
    let response = frames.until(|frame| frame.stream == stream).unwrap();
    assert_eq!(response.last().unwrap().status(), Some(200));
}

type MalformedHead = (&'static str, Vec<(&'static str, &'static str)>);

fn page_with(more: &[(&'static str, &'static str)]) -> Vec<(&'static str, &'static str)> {
    let mut all = fields("GET", "/page.html");
    all.extend_from_slice(more);
    all
}

fn malformed_fields() -> Vec<MalformedHead> {
    vec![
        ("line feed in a value", page_with(&[("x", "a\nb: c")])),
        ("carriage return in a value", page_with(&[("x", "a\rb")])),
        ("NUL in a value", page_with(&[("x", "a\0b")])),
        ("space before a value", page_with(&[("x", " a")])),
        ("upper case", page_with(&[("Accept", "*/*")])),
        ("no name", page_with(&[("", "a")])),
        ("space in a name", page_with(&[("a b", "c")])),
        ("colon in a name", page_with(&[("a:b", "c")])),
        ("line end in a name", page_with(&[("a\r\nb", "c")])),
        ("connection", page_with(&[("connection", "close")])),
        (
            "transfer-encoding",
            page_with(&[("transfer-encoding", "chunked")]),
        ),
        ("upgrade", page_with(&[("upgrade", "h2c")])),
        ("keep-alive", page_with(&[("keep-alive", "5")])),
        (
            "proxy-connection",
            page_with(&[("proxy-connection", "close")]),
        ),
        ("te", page_with(&[("te", "trailers, gzip")])),
        ("another host", page_with(&[("host", "elsewhere.test")])),
        (
            "content-length without a body",
            page_with(&[("content-length", "5")]),
        ),
        (
            "invalid content-length",
            page_with(&[("content-length", "+0")]),
        ),
        (
            "two content-length fields",
            page_with(&[("content-length", "0"), ("content-length", "0")]),
        ),
    ]
}

fn malformed_pseudo_fields() -> Vec<MalformedHead> {
    let path = |path: &'static str| fields("GET", path);
    vec![
        (
            "late pseudo-field",
            page_with(&[("x", "a"), (":path", "/")]),
        ),
        ("pseudo-field twice", page_with(&[(":path", "/")])),
        ("unknown pseudo-field", page_with(&[(":proto", "x")])),
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
