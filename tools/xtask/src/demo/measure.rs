//! A short measured run: the front page composed by PHP each time against the same page from the cache.
//!
//! First one request after the other for the median latency, then a few connections at once for the rate. Meant to show the
//! order of magnitude on this machine while client and server share it; not a benchmark.

use std::{
    collections::BTreeMap,
    fmt,
    net::SocketAddr,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use galley_testkit::{
    Trouble,
    client::{Browser, Request, Response},
};

/// Both ways side by side.
#[derive(Debug)]
pub(super) struct Measured {
    page_bytes: usize,
    composed: Run,
    cached: Run,
}

#[derive(Debug, Default)]
struct Run {
    median: Duration,
    per_second: f64,
    /// Cache-Status lines and how often each came. The rest of a lifetime is left out: it counts down.
    lines: BTreeMap<String, usize>,
}

/// Asks for the front page of `addr` in both ways. Takes a few seconds at most, less when `stop` becomes true.
pub(super) fn measure(addr: SocketAddr, stop: &AtomicBool) -> Result<Measured, Trouble> {
    let page = Request::get("/").field("User-Agent", "galley-demo");
    // A visitor who seems to be logged in: the page is composed for him alone. The value fits no account.
    let personal = page.clone().cookie("wordpress_logged_in_demo=nobody");
    // The first two fill PHP's and Galley's caches and are not counted.
    for request in [&page, &personal] {
        let answer = request.send(addr)?;
        if answer.status != 200 {
            let target = answer
                .field("location")
                .map(|to| format!(" to {to}"))
                .unwrap_or_default();
            return Err(Trouble::Malformed(format!(
                "the front page answers with status {}{target}",
                answer.status
            )));
        }
    }
    let composed = run(addr, &personal, COMPOSED, stop)?;
    let cached = run(addr, &page, CACHED, stop)?;
    let page_bytes = page.send(addr)?.body.len();
    Ok(Measured {
        page_bytes,
        composed,
        cached,
    })
}

fn run(
    addr: SocketAddr,
    request: &Request,
    counts: Counts,
    stop: &AtomicBool,
) -> Result<Run, Trouble> {
    let mut run = Run::default();
    let mut times = Vec::new();
    let mut visitor = Browser::new(addr, &addr.to_string());
    let began = Instant::now();
    for _ in 0..counts.one_by_one {
        let sent = Instant::now();
        let answer = visitor.send(request.clone())?;
        times.push(sent.elapsed());
        run.note(&answer);
        if began.elapsed() > LONGEST || stop.load(Ordering::Relaxed) {
            break;
        }
    }
    times.sort();
    run.median = times.get(times.len() / 2).copied().unwrap_or_default();
    let began = Instant::now();
    let all = thread::scope(|scope| {
        let workers: Vec<_> = (0..counts.connections)
            .map(|_| scope.spawn(|| worker(addr, request, counts.each, stop)))
            .collect();
        workers
            .into_iter()
            .map(|worker| {
                worker
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
            .collect::<Result<Vec<_>, _>>()
    })?;
    let took = began.elapsed().as_secs_f64().max(f64::EPSILON);
    let mut asked = 0_u32;
    for answer in all.iter().flatten() {
        asked += 1;
        run.note(answer);
    }
    run.per_second = f64::from(asked) / took;
    Ok(run)
}

fn worker(
    addr: SocketAddr,
    request: &Request,
    count: usize,
    stop: &AtomicBool,
) -> Result<Vec<Response>, Trouble> {
    let mut visitor = Browser::new(addr, &addr.to_string());
    let mut answers = Vec::new();
    let began = Instant::now();
    while answers.len() < count && began.elapsed() < LONGEST && !stop.load(Ordering::Relaxed) {
        let mut answer = visitor.send(request.clone())?;
        // Only the head is looked at later.
        answer.body.clear();
        answer.raw.clear();
        answers.push(answer);
    }
    Ok(answers)
}

impl Run {
    fn note(&mut self, answer: &Response) {
        let parts = answer
            .cache_status()
            .split(';')
            .map(str::trim)
            .filter(|part| !part.starts_with("ttl="));
        let line = parts.collect::<Vec<_>>().join("; ");
        let line = if line.is_empty() {
            "(no Cache-Status)".to_owned()
        } else {
            line
        };
        *self
            .lines
            .entry(format!("{} {line}", answer.status))
            .or_default() += 1;
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            out,
            "The front page, {} KB, asked for by this machine itself:",
            self.page_bytes / 1000
        )?;
        writeln!(
            out,
            "  {:<24} {:>12} {:>16}",
            "", "requests/s", "median latency"
        )?;
        for (name, run) in [
            ("composed by PHP", &self.composed),
            ("from Galley's cache", &self.cached),
        ] {
            let milliseconds = run.median.as_secs_f64() * 1000.0;
            writeln!(
                out,
                "  {name:<24} {:>12.0} {milliseconds:>13.2} ms",
                run.per_second
            )?;
        }
        for run in [&self.composed, &self.cached] {
            for (line, count) in &run.lines {
                writeln!(out, "  {count:>6} x {line}")?;
            }
        }
        Ok(())
    }
}

#[derive(Clone, Copy)]
struct Counts {
    one_by_one: usize,
    connections: usize,
    each: usize,
}

const COMPOSED: Counts = Counts {
    one_by_one: 10,
    connections: 4,
    each: 6,
};
const CACHED: Counts = Counts {
    one_by_one: 100,
    connections: 4,
    each: 500,
};
/// Of each of the four parts, on a slow machine.
const LONGEST: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests {
    use galley_testkit::origin::Origin;

    use super::*;

    #[test]
    fn both_ways_are_measured_and_their_lines_counted() {
        let origin = Origin::start(|seen, wire| {
            let status = if seen.field("cookie").is_some() {
                "galley; fwd=bypass; detail=cookie"
            } else {
                "galley; hit; ttl=59"
            };
            wire.answer(200, &[("Cache-Status", status)], &[b'x'; 2000]);
        })
        .unwrap();
        let measured = measure(origin.addr(), &AtomicBool::new(false)).unwrap();
        assert_eq!(measured.page_bytes, 2000);
        assert_eq!(
            measured
                .composed
                .lines
                .get("200 galley; fwd=bypass; detail=cookie"),
            Some(&34)
        );
        assert!(
            measured.cached.lines.contains_key("200 galley; hit"),
            "{measured:?}"
        );
        assert!(measured.cached.per_second > 0.0 && measured.composed.median > Duration::ZERO);
        assert!(measured.to_string().contains("from Galley's cache"));
    }

    #[test]
    fn a_redirect_is_named() {
        let origin = Origin::start(|_, wire| {
            wire.answer(301, &[("Location", "https://elsewhere.test/")], b"");
        })
        .unwrap();
        let trouble = measure(origin.addr(), &AtomicBool::new(false))
            .unwrap_err()
            .to_string();
        assert!(
            trouble.contains("301 to https://elsewhere.test/"),
            "{trouble}"
        );
    }
}
