//! Reads requests from an access log in the combined format of nginx, Apache and Galley.
//!
//! Any text is accepted: lines that are not a GET or HEAD request with a path are counted and skipped.

use std::time::Duration;

use jiff::fmt::strtime;

use super::pages::{PageMethod, VisitedPage};

/// The requests of a log.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct LoggedRequests {
    /// The requests in the order of the log, each with the time since the first one.
    pub pages: Vec<VisitedPage>,
    /// The number of skipped lines.
    pub skipped: u64,
}

/// Reads a log. Its times have a resolution of a second: requests of one second are distributed over it.
pub fn access_log(text: &str) -> LoggedRequests {
    let mut found = LoggedRequests::default();
    let mut seconds: Vec<i64> = Vec::new();
    for line in text.lines() {
        match request(line).filter(|_| seconds.len() < MAX_LINES) {
            Some(request) => {
                // A log is ordered by the ends of requests, so its times may go back a little.
                let second = seconds
                    .last()
                    .map_or(request.second, |last| request.second.max(*last));
                seconds.push(second);
                found.pages.push(request.page);
            }
            None => found.skipped += 1,
        }
    }
    spread(&mut found.pages, &seconds);
    found
}

/// Sets the intended starts of pages; `seconds` is sorted.
fn spread(pages: &mut [VisitedPage], seconds: &[i64]) {
    let first = seconds.first().copied().unwrap_or_default();
    let mut pages = pages.iter_mut();
    for second in seconds.chunk_by(|one, other| one == other) {
        let count = u32::try_from(second.len()).unwrap_or(u32::MAX);
        let from = Duration::from_secs(second[0].abs_diff(first));
        for (number, page) in (0..count).zip(pages.by_ref().take(second.len())) {
            page.due = from + Duration::from_secs(1) / count * number;
        }
    }
}

struct LoggedRequest {
    page: VisitedPage,
    /// The Unix time in seconds.
    second: i64,
}

/// Parses `ADDRESS - USER [10/Oct/2000:13:55:36 -0700] "GET /path HTTP/1.1" ...`, also after the name of a host.
fn request(line: &str) -> Option<LoggedRequest> {
    let (_, rest) = line.split_once('[')?;
    let (time, rest) = rest.split_once(']')?;
    let (_, rest) = rest.split_once('"')?;
    let (request, _) = rest.split_once('"')?;
    let mut words = request.split(' ');
    let method = match words.next()? {
        "GET" => PageMethod::Get,
        "HEAD" => PageMethod::Head,
        _ => return None,
    };
    let target = words.next()?;
    let page = VisitedPage::new(method, target)?;
    let time = strtime::parse("%d/%b/%Y:%H:%M:%S %z", time).ok()?;
    let second = time.to_timestamp().ok()?.as_second();
    Some(LoggedRequest { page, second })
}

/// The maximum number of requests from one log: a day of a large site.
const MAX_LINES: usize = 2_000_000;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn line(second: u32, request: &str) -> String {
        format!(
            "192.0.2.1 - - [10/Oct/2026:13:55:{second:02} +0200] \"{request}\" 200 5 \"-\" \"x\"\n"
        )
    }

    #[test]
    fn requests_keep_their_order_and_intervals() {
        let text = line(30, "GET /a?b=c HTTP/1.1")
            + &line(30, "HEAD /b HTTP/2.0")
            + &line(29, "GET /c HTTP/1.1")
            + &line(30, "POST /wp-login.php HTTP/1.1")
            + &line(33, "GET /d HTTP/1.1")
            + "no line of a log\n"
            + &line(34, "GET http://other/ HTTP/1.1");
        let found = access_log(&text);
        assert_eq!(found.skipped, 3);
        let short: Vec<_> = found
            .pages
            .iter()
            .map(|page| (page.method, &*page.target, page.due.as_millis()))
            .collect();
        let get = PageMethod::Get;
        let wanted = [
            (get, "/a?b=c", 0),
            (PageMethod::Head, "/b", 333),
            (get, "/c", 666),
            (get, "/d", 3000),
        ];
        assert_eq!(short, wanted);
        let with_host = format!("example.com:80 {}", line(1, "GET / HTTP/1.1"));
        assert_eq!(access_log(&with_host).pages.len(), 1);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "([0-9a-z \\[\\]\"/:+\n-]|GET|10/Oct/2026:13:55:36 \\+0200){0,60}") {
            access_log(&text);
        }
    }
}
