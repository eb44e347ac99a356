//! Clients that do not go on: a head, a body, a window that never comes.

use galley_testkit::client::frames::kinds::{
    DATA, GOAWAY, HEADERS, PING, RST_STREAM, WINDOW_UPDATE,
};
use galley_testkit::client::frames::{END_STREAM, Frame, Frames, block, bytes_of, head_frame};
use galley_testkit::wait_for;

use super::attacks::{CANCEL, ENHANCE_YOUR_CALM, fields, files, get, metrics, open};
use crate::support::{SiteBuilder, TIMEOUT};

/// Identifier of the setting of the initial window (RFC 9113 section 6.5.2).
const INITIAL_WINDOW: u16 = 4;

/// The client reads, and keeps every window shut or opens it by a byte now and then.
#[test]
fn windows_that_stay_shut_end_their_connection() {
    let site = SiteBuilder::files()
        .server("h2c = true\nwrite_timeout = \"1s\"\nidle_timeout = \"10m\"")
        .file("page.html", "a page ".repeat(1500))
        .file("large.bin", vec![7; 4_000_000])
        .start();
    for (path, dribbles) in [
        ("/page.html", false),
        ("/large.bin", false),
        ("/large.bin", true),
    ] {
        let closed = [(INITIAL_WINDOW, 0)];
        let mut frames = Frames::open(site.addr(), &closed, TIMEOUT).unwrap();
        frames.write(&get(1, path)).unwrap();
        frames.until(|frame| frame.kind == HEADERS).unwrap();
        let mut left = if dribbles { 200 } else { 0 };
        let byte = bytes_of(WINDOW_UPDATE, 0, 1, &1_u32.to_be_bytes());
        let mut farewell = None;
        while farewell.is_none() {
            if left > 0 {
                frames.write(&byte).unwrap();
                left -= 1;
            }
            let frame = frames.receive().unwrap();
            assert!(frame.payload.len() < 100, "{frame:?}");
            if frame.kind == GOAWAY {
                farewell = frame.code();
            }
        }
        assert_eq!(farewell, Some(ENHANCE_YOUR_CALM), "{path}");
        frames.until_closed().unwrap();
    }
    let slow = "galley_http2_ended_total{reason=\"slow\"} 3";
    wait_for("them to be counted", TIMEOUT, || {
        metrics(&site).contains(slow)
    });
    site.access_line("HTTP/2.0\" 200 0");
}

/// A player that is paused beside downloads that go on.
#[test]
fn a_window_that_stays_shut_beside_others_ends_its_stream_alone() {
    let site = SiteBuilder::files()
        .server("h2c = true\nwrite_timeout = \"500ms\"")
        .file("large.bin", vec![7; 4_000_000])
        .start();
    let mut frames = Frames::open(site.addr(), &[(INITIAL_WINDOW, 0)], TIMEOUT).unwrap();
    frames
        .write(&[get(1, "/large.bin"), get(3, "/large.bin")].concat())
        .unwrap();
    let more = |stream| {
        let stream = bytes_of(WINDOW_UPDATE, 0, stream, &10_000_u32.to_be_bytes());
        [
            stream,
            bytes_of(WINDOW_UPDATE, 0, 0, &10_000_u32.to_be_bytes()),
        ]
        .concat()
    };
    frames.write(&more(3)).unwrap();
    let mut busy = 3;
    loop {
        let frame = frames.receive().unwrap();
        match frame.kind {
            DATA if frame.ends_stream() => {
                busy += 2;
                frames.write(&get(busy, "/large.bin")).unwrap();
                frames.write(&more(busy)).unwrap();
            }
            DATA => frames.write(&more(busy)).unwrap(),
            RST_STREAM => {
                assert_eq!((frame.stream, frame.code()), (1, Some(CANCEL)));
                break;
            }
            kind => assert_ne!(kind, GOAWAY),
        }
    }
    frames.write(&more(busy)).unwrap();
    frames.until(|frame| frame.kind == DATA).unwrap();
}

/// A hundred answers that nobody takes are handles on what is stored, not copies.
#[test]
fn windows_that_never_open_hold_no_memory() {
    let site = SiteBuilder::files()
        .server("h2c = true")
        .file("large.bin", vec![7; 8_000_000])
        .start();
    let before = site.peak_memory();
    let mut connections = Vec::new();
    for _ in 0..5 {
        let mut frames = open(&site);
        for number in 0..100 {
            frames.write(&get(2 * number + 1, "/large.bin")).unwrap();
        }
        // All of them are at work by the time that this is answered.
        frames.write(&bytes_of(PING, 0, 0, &[1; 8])).unwrap();
        frames.until(|frame| frame.kind == PING).unwrap();
        connections.push(frames);
    }
    let grown = site.grown_since(before);
    // Copies would be 4 GB. The helper threads that look for the file have room of their own.
    assert!(
        grown < 200_000_000,
        "{grown} bytes for 500 stalled downloads of 8 MB"
    );
}

#[test]
fn a_head_that_does_not_end_ends_the_connection() {
    let site = files("head_timeout = \"400ms\"");
    let greeted = || {
        let mut frames = open(&site);
        frames.write(&get(1, "/page.html")).unwrap();
        frames.until(Frame::ends_stream).unwrap();
        frames
    };
    let mut begun = greeted();
    let head = bytes_of(HEADERS, END_STREAM, 3, &block(&fields("GET", "/")));
    begun.write(&head).unwrap();
    begun.until_closed().unwrap();
    let mut cut = greeted();
    let head = get(3, "/page.html");
    cut.write(head.get(..head.len() - 3).unwrap()).unwrap();
    cut.until_closed().unwrap();
    let slow = "galley_http2_ended_total{reason=\"slow\"} 2";
    wait_for("both to be counted", TIMEOUT, || {
        metrics(&site).contains(slow)
    });
    greeted();
}

#[test]
fn an_idle_connection_gets_goaway() {
    let site = files("idle_timeout = \"300ms\"");
    let mut frames = open(&site);
    frames.write(&get(1, "/page.html")).unwrap();
    let came = frames.until_closed().unwrap();
    assert!(
        came.iter()
            .any(|frame| frame.stream == 1 && frame.ends_stream())
    );
    let farewell = came.iter().find(|frame| frame.kind == GOAWAY).unwrap();
    assert_eq!(farewell.code(), Some(0));
}

#[test]
fn a_body_that_does_not_come_is_a_408() {
    let site = SiteBuilder::php()
        .server("h2c = true\nbody_timeout = \"300ms\"")
        .start();
    let mut frames = open(&site);
    frames
        .write(&head_frame(1, 0, &fields("POST", "/form")))
        .unwrap();
    frames.write(&bytes_of(DATA, 0, 1, b"half")).unwrap();
    frames
        .until(|frame| frame.stream == 1 && frame.ends_stream())
        .unwrap();
    let line = site.access_line("POST /form");
    assert!(
        line.contains("HTTP/2.0\" 408") && line.contains("refused:timeout"),
        "{line}"
    );
    assert_eq!(site.runs("/form"), 0);
}
