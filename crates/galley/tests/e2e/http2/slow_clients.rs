//! Clients that stop in the middle of a head or a body, or never open their flow-control window.

use std::time::Duration;

use galley_testkit::client::frames::kinds::{
    DATA, GOAWAY, HEADERS, PING, RST_STREAM, WINDOW_UPDATE,
};
use galley_testkit::client::frames::{END_STREAM, Frame, Frames, block, bytes_of, head_frame};
use galley_testkit::wait_for;
use rustix::net::sockopt::set_socket_recv_buffer_size;

use super::frames::{CANCEL, ENHANCE_YOUR_CALM, fields, file_site, get, open};
use crate::support::{SiteBuilder, TIMEOUT};

/// Identifier of `SETTINGS_INITIAL_WINDOW_SIZE` (RFC 9113 section 6.5.2).
const INITIAL_WINDOW: u16 = 4;

/// The client reads, but keeps every window closed or opens it by single bytes.
#[test]
fn a_client_that_keeps_its_windows_closed_is_disconnected() {
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
        let mut updates_left = if dribbles { 200 } else { 0 };
        let byte = bytes_of(WINDOW_UPDATE, 0, 1, &1_u32.to_be_bytes());
        let mut goaway_code = None;
        while goaway_code.is_none() {
            if updates_left > 0 {
                frames.write(&byte).unwrap();
                updates_left -= 1;
            }
            let frame = frames.receive().unwrap();
            assert!(frame.payload.len() < 100, "{frame:?}");
            if frame.kind == GOAWAY {
                goaway_code = frame.code();
            }
        }
        assert_eq!(goaway_code, Some(ENHANCE_YOUR_CALM), "{path}");
        frames.until_closed().unwrap();
    }
    let slow = "galley_http2_ended_total{reason=\"slow\"} 3";
    wait_for("the connections to be counted", TIMEOUT, || {
        site.metrics().contains(slow)
    });
    site.access_line("HTTP/2.0\" 200 0");
}

/// An example is a paused video player during other downloads.
#[test]
fn one_stream_with_a_closed_window_is_reset_alone() {
    let site = SiteBuilder::files()
        .server("h2c = true\nwrite_timeout = \"500ms\"")
        .file("large.bin", vec![7; 4_000_000])
        .start();
    let mut frames = Frames::open(site.addr(), &[(INITIAL_WINDOW, 0)], TIMEOUT).unwrap();
    frames
        .write(&[get(1, "/large.bin"), get(3, "/large.bin")].concat())
        .unwrap();
    let window_updates = |stream| {
        let stream = bytes_of(WINDOW_UPDATE, 0, stream, &10_000_u32.to_be_bytes());
        [
            stream,
            bytes_of(WINDOW_UPDATE, 0, 0, &10_000_u32.to_be_bytes()),
        ]
        .concat()
    };
    frames.write(&window_updates(3)).unwrap();
    let mut active_stream = 3;
    loop {
        let frame = frames.receive().unwrap();
        match frame.kind {
            DATA if frame.ends_stream() => {
                active_stream += 2;
                frames.write(&get(active_stream, "/large.bin")).unwrap();
                frames.write(&window_updates(active_stream)).unwrap();
            }
            DATA => frames.write(&window_updates(active_stream)).unwrap(),
            RST_STREAM => {
                assert_eq!((frame.stream, frame.code()), (1, Some(CANCEL)));
                break;
            }
            kind => assert_ne!(kind, GOAWAY),
        }
    }
    frames.write(&window_updates(active_stream)).unwrap();
    frames.until(|frame| frame.kind == DATA).unwrap();
}

/// A page with many stored resources over a slow link: the first responses fill the socket, and nothing else arrives from the client
/// when there is room again.
#[test]
fn requests_behind_a_full_socket_are_answered_when_it_has_room() {
    let site = SiteBuilder::files()
        .server("h2c = true")
        .file("resource.bin", vec![7; 60_000])
        .start();
    let settings = [(INITIAL_WINDOW, 1 << 20)];
    for _ in 0..3 {
        let mut frames = Frames::open(site.addr(), &settings, TIMEOUT).unwrap();
        set_socket_recv_buffer_size(frames.stream(), 32 * 1024).unwrap();
        frames.write(&get(1, "/resource.bin")).unwrap();
        frames.until(Frame::ends_stream).unwrap();
        // More than a socket takes.
        let wider = bytes_of(WINDOW_UPDATE, 0, 0, &(1_u32 << 25).to_be_bytes());
        let requests = (1..100).map(|number| get(2 * number + 1, "/resource.bin"));
        let all: Vec<Vec<u8>> = std::iter::once(wider).chain(requests).collect();
        frames.write(&all.concat()).unwrap();
        // By then the socket is full.
        std::thread::sleep(Duration::from_millis(200));
        for _ in 1..100 {
            frames.until(Frame::ends_stream).unwrap();
        }
    }
}

/// Responses that a client does not read share the stored body instead of copying it.
#[test]
fn responses_behind_closed_windows_use_no_memory() {
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
        // When this is acknowledged, Galley works on all of them.
        frames.write(&bytes_of(PING, 0, 0, &[1; 8])).unwrap();
        frames.until(|frame| frame.kind == PING).unwrap();
        connections.push(frames);
    }
    let grown = site.grown_since(before);
    // Copies would be 4 GB. The helper threads that open the file use some memory.
    assert!(
        grown < 200_000_000,
        "{grown} bytes for 500 stalled downloads of 8 MB"
    );
}

#[test]
fn an_incomplete_head_ends_the_connection_after_head_timeout() {
    let site = file_site("head_timeout = \"400ms\"");
    let connection_with_response = || {
        let mut frames = open(&site);
        frames.write(&get(1, "/page.html")).unwrap();
        frames.until(Frame::ends_stream).unwrap();
        frames
    };
    let mut without_end = connection_with_response();
    let head = bytes_of(HEADERS, END_STREAM, 3, &block(&fields("GET", "/")));
    without_end.write(&head).unwrap();
    without_end.until_closed().unwrap();
    let mut truncated = connection_with_response();
    let head = get(3, "/page.html");
    truncated
        .write(head.get(..head.len() - 3).unwrap())
        .unwrap();
    truncated.until_closed().unwrap();
    let slow = "galley_http2_ended_total{reason=\"slow\"} 2";
    wait_for("both to be counted", TIMEOUT, || {
        site.metrics().contains(slow)
    });
    connection_with_response();
}

#[test]
fn an_idle_connection_gets_goaway() {
    let site = file_site("idle_timeout = \"300ms\"");
    let mut frames = open(&site);
    frames.write(&get(1, "/page.html")).unwrap();
    let received = frames.until_closed().unwrap();
    assert!(
        received
            .iter()
            .any(|frame| frame.stream == 1 && frame.ends_stream())
    );
    let goaway_code = received.iter().find(|frame| frame.kind == GOAWAY).unwrap();
    assert_eq!(goaway_code.code(), Some(0));
}

#[test]
fn a_request_body_that_stalls_gets_a_408() {
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
