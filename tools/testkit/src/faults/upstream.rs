//! The scripted upstream of a test site. It generates the pages of [`SiteContent`], counts the pages in progress, and can be slow
//! or down.

use std::{
    fmt::Write as _,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    time::Duration,
};

use super::{
    random::Random,
    site_content::{SiteContent, TAGS, VERSION_FIELD, number},
};
use crate::{
    origin::{ReceivedRequest, ResponseWriter},
    wait::pause,
};

/// The behavior of the upstream.
#[derive(Debug, Default)]
pub(super) struct UpstreamControl {
    is_slow: AtomicBool,
    is_down: AtomicBool,
    in_progress: AtomicUsize,
}

impl UpstreamControl {
    /// Makes every page take 20 to 170 ms; otherwise one page in six takes up to 3 ms.
    pub(super) fn set_slow(&self, is_slow: bool) {
        self.is_slow.store(is_slow, Ordering::SeqCst);
    }

    pub(super) fn is_slow(&self) -> bool {
        self.is_slow.load(Ordering::SeqCst)
    }

    /// Makes every page fail with 503.
    pub(super) fn set_down(&self, is_down: bool) {
        self.is_down.store(is_down, Ordering::SeqCst);
    }

    /// The number of pages that are being generated.
    pub(super) fn in_progress(&self) -> usize {
        self.in_progress.load(Ordering::SeqCst)
    }
}

/// Responds to a request with a page or with `Galley-Purge`.
pub(super) fn serve(
    content: &SiteContent,
    upstream: &UpstreamControl,
    request: &ReceivedRequest,
    writer: &mut ResponseWriter<'_>,
) {
    if let Some(purge) = request.path().strip_prefix(PURGE_HEADER_PATH) {
        writer.body();
        let purge = purge.replacen("url/", "/", 1);
        writer.respond(200, &[("Galley-Purge", &purge)], b"ordered\n");
        return;
    }
    let Some(page) = number(request.path()) else {
        writer.respond(404, &[], b"no page\n");
        return;
    };
    if upstream.is_down.load(Ordering::SeqCst) {
        writer.respond(503, &[], b"down\n");
        return;
    }
    upstream.in_progress.fetch_add(1, Ordering::SeqCst);
    send_page(content, upstream, page, request, writer);
    upstream.in_progress.fetch_sub(1, Ordering::SeqCst);
}

fn send_page(
    content: &SiteContent,
    upstream: &UpstreamControl,
    page: usize,
    request: &ReceivedRequest,
    writer: &mut ResponseWriter<'_>,
) {
    // The version at the start of the fetch: a purge during the fetch makes the response stale.
    let version = content.version(page);
    let body = content.generate(page, version);
    let (version, tag) = (version.to_string(), tag(page % TAGS));
    let mut random = Random::new(u64::try_from(request.number).unwrap_or(0));
    let delay = if upstream.is_slow() {
        MIN_SLOW_DELAY + random.time(SLOW_DELAY_RANGE)
    } else if random.once_in(6) {
        random.time(Duration::from_millis(3))
    } else {
        Duration::ZERO
    };
    let fields = [
        ("Content-Type", "text/plain"),
        ("Cache-Control", "max-age=86400, stale-if-error=864000"),
        ("Cache-Tag", &tag),
        (VERSION_FIELD, &version),
    ];
    let (first, rest) = body.split_at(random.below(body.len()));
    if random.once_in(3) {
        let sent = writer.chunked(200, &fields) && (first.is_empty() || writer.chunk(first));
        if sent {
            wait(delay);
            let _ = (rest.is_empty() || writer.chunk(rest)) && writer.last_chunk();
        }
        return;
    }
    let mut head = String::from("HTTP/1.1 200 OK\r\n");
    for (name, value) in fields {
        let _ = write!(head, "{name}: {value}\r\n");
    }
    let _ = write!(head, "Content-Length: {}\r\n\r\n", body.len());
    if writer.write(&[head.as_bytes(), first].concat()) {
        wait(delay);
        let _ = writer.write(rest);
    }
}

fn wait(delay: Duration) {
    if !delay.is_zero() {
        pause(delay);
    }
}

/// The name of a tag.
pub(super) fn tag(number: usize) -> String {
    format!("t{number}")
}

/// Path prefix of requests for a response with `Galley-Purge`, whose value follows: a tag, `url/...` or `*`.
pub(super) const PURGE_HEADER_PATH: &str = "/order/";
const MIN_SLOW_DELAY: Duration = Duration::from_millis(20);
const SLOW_DELAY_RANGE: Duration = Duration::from_millis(150);
