//! Frames that the HTTP/2 tests send, and error codes that they expect.

use galley_testkit::client::frames::kinds::{GOAWAY, RST_STREAM};
use galley_testkit::client::frames::{END_STREAM, Frame, Frames, bytes_of, head_frame};

use crate::support::{HOST, SiteBuilder, TIMEOUT, TestSite};

/// Error codes (RFC 9113 section 7).
pub const PROTOCOL_ERROR: u32 = 1;
pub const REFUSED_STREAM: u32 = 7;
pub const CANCEL: u32 = 8;
pub const ENHANCE_YOUR_CALM: u32 = 11;

/// A site of static files that accepts HTTP/2 without TLS.
pub fn file_site(server: &str) -> TestSite {
    SiteBuilder::files()
        .server(&format!("h2c = true\n{server}"))
        .file("page.html", "a page ".repeat(1500))
        .start()
}

/// Header fields of a request.
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

pub fn reset(stream: u32) -> Vec<u8> {
    bytes_of(RST_STREAM, 0, stream, &CANCEL.to_be_bytes())
}

pub fn open(site: &TestSite) -> Frames {
    Frames::open(site.addr(), &[], TIMEOUT).unwrap()
}

/// Error code of the last GOAWAY frame.
pub fn goaway_code(frames: &[Frame]) -> Option<u32> {
    let mut goaways = frames.iter().filter(|frame| frame.kind == GOAWAY);
    goaways.next_back()?.code()
}
