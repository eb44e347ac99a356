//! Upstreams that hang, abort, or send truncated, oversized or invalid responses, over HTTP and FastCGI, at random.
//!
//! Each step stores a page, changes its content, breaks the upstream, and sends concurrent requests. After a soft purge or
//! after the lifetime of the copy, every client must receive the complete old copy. After a hard purge, clients may receive a
//! visible error, but never an old response or a truncated one that looks complete.

use std::{
    fmt::Write as _,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread::{self, ScopedJoinHandle},
    time::Duration,
};

use super::{
    FaultSettings, TestLength,
    purges::{Editor, PurgeMethod},
    random::Random,
    report::{FaultReport, Verdict},
    site_content::{Lengths, Scope, SiteContent, VERSION_FIELD, number, path},
    test_site::{Client, HOST, SiteOptions, TestSite, get},
};
use crate::{
    Scratch, TestkitError,
    client::Request,
    origin::{FastCgiOrigin, FastCgiWriter, Origin, ResponseWriter},
    wait::pause,
};

pub(super) fn run(settings: &FaultSettings) -> Result<FaultReport, TestkitError> {
    let steps = match settings.length {
        TestLength::Short => 30,
        TestLength::Long => 500,
    };
    let mut sum = FaultReport::default();
    for protocol in [UpstreamProtocol::Http, UpstreamProtocol::FastCgi] {
        sum += run_with(settings, protocol, steps)?;
    }
    Ok(sum)
}

/// The protocol of the upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UpstreamProtocol {
    Http,
    FastCgi,
}

/// How the upstream breaks a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UpstreamFault {
    None,
    Status,
    Close,
    Reset,
    HalfHead,
    /// Half of a body with `Content-Length`.
    TruncatedBody,
    /// Half of a body in chunks or FastCGI records.
    TruncatedStream,
    ExcessBody,
    Garbage,
    BadHead,
    HangBeforeHead,
    HangInBody,
    /// The complete body, but not the end marker of the protocol.
    NoEndMarker,
}

impl UpstreamFault {
    const ALL: [Self; 13] = [
        Self::None,
        Self::Status,
        Self::Close,
        Self::Reset,
        Self::HalfHead,
        Self::TruncatedBody,
        Self::TruncatedStream,
        Self::ExcessBody,
        Self::Garbage,
        Self::BadHead,
        Self::HangBeforeHead,
        Self::HangInBody,
        Self::NoEndMarker,
    ];
}

/// The upstream's pages, and the fault of each as an index into [`UpstreamFault::ALL`].
struct Script {
    content: SiteContent,
    faults: Vec<AtomicUsize>,
}

impl Script {
    fn set(&self, page: usize, fault: usize) {
        if let Some(index) = self.faults.get(page) {
            index.store(fault, Ordering::SeqCst);
        }
    }

    fn fault(&self, page: usize) -> UpstreamFault {
        let index = self.faults.get(page);
        let fault = index.map_or(0, |index| index.load(Ordering::SeqCst));
        UpstreamFault::ALL
            .get(fault)
            .copied()
            .unwrap_or(UpstreamFault::None)
    }

    fn response(&self, page: usize) -> (String, Vec<u8>) {
        let version = self.content.version(page);
        let lifetime = if is_short_lived(page) { 1 } else { 86_400 };
        let mut head = format!(
            "Content-Type: text/plain\r\n{VERSION_FIELD}: {version}\r\n\
             Cache-Control: max-age={lifetime}, stale-if-error=864000"
        );
        if page % 3 == 2 {
            head.push_str(", stale-while-revalidate=86400");
        }
        head.push_str("\r\n");
        (head, self.content.generate(page, version))
    }
}

/// The scripted upstream.
enum Upstream {
    Http(Origin),
    FastCgi(FastCgiOrigin),
}

impl Upstream {
    /// Stops the upstream; a panic in its script fails the test.
    fn stop(self) {
        match self {
            Self::Http(origin) => drop(origin),
            Self::FastCgi(origin) => drop(origin),
        }
    }
}

fn run_with(
    settings: &FaultSettings,
    protocol: UpstreamProtocol,
    steps: usize,
) -> Result<FaultReport, TestkitError> {
    let lengths = Lengths {
        usual: 300..20_000,
        long_every: 6,
        long: 100_000..600_000,
        last: Vec::new(),
    };
    let script = Arc::new(Script {
        content: SiteContent::new(PAGES, settings.seed, &lengths),
        faults: (0..PAGES).map(|_| AtomicUsize::new(0)).collect(),
    });
    let root = Scratch::new()?;
    root.write("index.php", "")?;
    let (upstream, upstream_lines) = start_upstream(protocol, &script, &root)?;
    let options = SiteOptions {
        site_lines: "first_byte_timeout = \"250ms\"\nread_timeout = \"250ms\"".to_owned(),
        upstream_lines: Some(upstream_lines),
        ..SiteOptions::default()
    };
    let unused = SiteContent::new(0, 0, &lengths);
    let mut site = TestSite::new(&settings.galley, unused, &options)?;
    site.start()?;
    let random = Random::new(settings.seed).fork(steps as u64);
    let sum = Mutex::new(FaultReport::default());
    thread::scope(|scope| {
        for worker in 0..WORKERS {
            let (random, site, script, sum) = (random.fork(worker as u64), &site, &script, &sum);
            scope.spawn(move || {
                let report = work(site, script, worker, steps, random);
                let mut sum = sum.lock().unwrap_or_else(PoisonError::into_inner);
                match report {
                    Ok(report) => *sum += report,
                    Err(error) => sum.broken(&format!("{protocol:?}: {error}")),
                }
            });
        }
    });
    let mut sum = sum.into_inner().unwrap_or_else(PoisonError::into_inner);
    sum.require(
        !site.galley()?.log().contains("panicked"),
        "the server panicked",
    );
    site.stop();
    upstream.stop();
    Ok(sum)
}

/// Starts the upstream; returns it with the configuration that selects it.
fn start_upstream(
    protocol: UpstreamProtocol,
    script: &Arc<Script>,
    root: &Scratch,
) -> Result<(Upstream, String), TestkitError> {
    let script = Arc::clone(script);
    match protocol {
        UpstreamProtocol::Http => {
            let origin = Origin::start_unrecorded(move |request, writer| {
                let page = number(request.path()).unwrap_or(0);
                respond_http(&script, page, writer);
            })?;
            let line = format!("upstream = [\"{}\"]", origin.url());
            Ok((Upstream::Http(origin), line))
        }
        UpstreamProtocol::FastCgi => {
            let origin = FastCgiOrigin::start(move |request, writer| {
                let target = request.param("REQUEST_URI").split('?').next();
                let page = number(target.unwrap_or_default()).unwrap_or(0);
                respond_fastcgi(&script, page, writer);
            })?;
            let line = format!(
                "php = \"{}\"\nroot = \"{}\"",
                origin.address(),
                root.path().display()
            );
            Ok((Upstream::FastCgi(origin), line))
        }
    }
}

/// Runs the steps of one worker, on its own pages.
fn work(
    site: &TestSite,
    script: &Script,
    worker: usize,
    steps: usize,
    mut random: Random,
) -> Result<FaultReport, TestkitError> {
    let mut report = FaultReport::default();
    let mut editor = Editor::new(site)?;
    let mut client = Client::new(site.addr()?);
    for _ in 0..steps {
        let page = random.below(PAGES / WORKERS) * WORKERS + worker;
        script.set(page, 0);
        store(&mut client, script, page, &mut report)?;
        let fault = random.below(UpstreamFault::ALL.len());
        script.set(page, fault);
        let changed = script.content.change(Scope::Url(page));
        let is_soft = !page.is_multiple_of(3);
        if is_short_lived(page) && random.once_in(4) {
            // The page becomes stale by age instead of a purge, so no background refresh runs concurrently with the clients.
            pause(SHORT_LIFETIME_EXPIRED);
        } else if is_soft {
            soft_purge(&mut client, page)?;
        } else {
            editor.purge(Scope::Url(page), PurgeMethod::Request)?;
            script.content.acknowledge(&changed);
        }
        report.purges += 1;
        report.rounds += 1;
        send_concurrently(site, script, page, is_soft, &mut report)?;
    }
    Ok(report)
}

/// Requests a page until its newest version is a hit.
fn store(
    client: &mut Client,
    script: &Script,
    page: usize,
    report: &mut FaultReport,
) -> Result<(), TestkitError> {
    // A purge in a response that is still in progress may remove the copy again.
    let mut statuses = Vec::new();
    for _ in 0..20 {
        let minimum = script.content.minimum_version(page);
        let response = client.send(&get(page))?;
        let verdict = script.content.verify(page, minimum, &response);
        report.count(verdict, || {
            format!(
                "{} while the upstream was healthy: {}",
                path(page),
                response.excerpt()
            )
        });
        let is_newest =
            script.content.version_of(page, &response) == Some(script.content.version(page));
        if response.is_hit() && is_newest {
            return Ok(());
        }
        statuses.push(response.cache_status().to_owned());
        if response.is_hit() {
            // The old copy, during or after a failed refresh: a hard purge forces a fetch.
            let request = Request::new("PURGE", &path(page)).host(HOST);
            client.send(&request)?;
        }
    }
    statuses.dedup();
    let statuses = statuses.join(" / ");
    report.broken(&format!("{} was not stored: {statuses}", path(page)));
    Ok(())
}

/// Whether a page has a lifetime of one second.
fn is_short_lived(page: usize) -> bool {
    page % 3 == 1
}

fn soft_purge(client: &mut Client, page: usize) -> Result<(), TestkitError> {
    let request = Request::new("PURGE", &path(page))
        .host(HOST)
        .field("X-Purge-Soft", "1");
    let response = client.send(&request)?;
    if response.status == 200 {
        Ok(())
    } else {
        Err(TestkitError::Malformed(format!(
            "a soft purge was rejected: {}",
            response.excerpt()
        )))
    }
}

/// Sends concurrent requests. With an old copy, every client must receive a complete page; without one, an error is accepted.
fn send_concurrently(
    site: &TestSite,
    script: &Script,
    page: usize,
    has_copy: bool,
    report: &mut FaultReport,
) -> Result<(), TestkitError> {
    let addr = site.addr()?;
    let minimum = script.content.minimum_version(page);
    let responses: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..CONCURRENT_REQUESTS)
            .map(|_| scope.spawn(move || Client::new(addr).send(&get(page))))
            .collect();
        threads.into_iter().map(ScopedJoinHandle::join).collect()
    });
    for response in responses.into_iter().flatten() {
        let description = || format!("{} with {:?}", path(page), script.fault(page));
        match response {
            Ok(response) if response.status == 200 => {
                report.hits += u64::from(response.is_hit());
                report.count(script.content.verify(page, minimum, &response), || {
                    let length = response.body.len();
                    let status = response.cache_status().to_owned();
                    format!("{}: {length} bytes, `{status}`", description())
                });
            }
            Ok(response) if has_copy => {
                report.count(Verdict::Failed, || {
                    format!(
                        "{}: status {} although a copy was stored",
                        description(),
                        response.status
                    )
                });
            }
            Err(error) if has_copy => {
                report.count(Verdict::Failed, || {
                    format!("{}: {error} although a copy was stored", description())
                });
            }
            Ok(_) | Err(_) => report.pages += 1,
        }
    }
    Ok(())
}

fn respond_http(script: &Script, page: usize, writer: &mut ResponseWriter<'_>) {
    let (fields, body) = script.response(page);
    let head = |more: &str| format!("HTTP/1.1 200 OK\r\n{fields}{more}\r\n").into_bytes();
    let complete = head(&format!("Content-Length: {}\r\n", body.len()));
    let half = body.get(..body.len() / 2).unwrap_or_default();
    let send = |writer: &mut ResponseWriter<'_>, parts: &[&[u8]]| {
        let _ = writer.write(&parts.concat());
    };
    match script.fault(page) {
        UpstreamFault::None => return send(writer, &[&complete, &body]),
        UpstreamFault::Status => {
            let _ = writer.respond(500, &[], b"database error");
            return;
        }
        UpstreamFault::ExcessBody => send(
            writer,
            &[&complete, &body, b"HTTP/1.1 200 OK\r\n\r\nmore of it"],
        ),
        UpstreamFault::Close => {}
        UpstreamFault::Reset => return writer.reset(),
        UpstreamFault::HalfHead => send(writer, &[&complete[..complete.len() / 2]]),
        UpstreamFault::TruncatedBody => send(writer, &[&complete, half]),
        UpstreamFault::TruncatedStream => {
            let mut size = String::new();
            let _ = write!(size, "{:x}\r\n", half.len());
            let chunked = head("Transfer-Encoding: chunked\r\n");
            send(writer, &[&chunked, size.as_bytes(), half, b"\r\n"]);
        }
        UpstreamFault::Garbage => send(writer, &[b"\x00\x01\x02 what is this\r\n\r\n", half]),
        UpstreamFault::BadHead => send(
            writer,
            &[&head("Content-Length: 5\r\nContent-Length: 6\r\n"), &body],
        ),
        UpstreamFault::HangBeforeHead => writer.wait_for_close(),
        UpstreamFault::HangInBody => {
            send(writer, &[&complete, half]);
            writer.wait_for_close();
        }
        UpstreamFault::NoEndMarker => {
            let mut size = String::new();
            let _ = write!(size, "{:x}\r\n", body.len());
            let chunked = head("Transfer-Encoding: chunked\r\n");
            send(writer, &[&chunked, size.as_bytes(), &body, b"\r\n"]);
        }
    }
    writer.close();
}

fn respond_fastcgi(script: &Script, page: usize, writer: &mut FastCgiWriter<'_>) {
    let (fields, body) = script.response(page);
    let sized = format!("{fields}Content-Length: {}", body.len());
    let half = body.get(..body.len() / 2).unwrap_or_default();
    let sent = match script.fault(page) {
        UpstreamFault::None => {
            writer.stderr(b"a word\n");
            writer.respond(&fields, &body);
            return;
        }
        UpstreamFault::Status => {
            writer.respond(
                "Status: 500 Database Error\r\nContent-Type: text/plain",
                b"oops",
            );
            return;
        }
        UpstreamFault::ExcessBody => writer.respond(&sized, &[&body[..], b"more of it"].concat()),
        UpstreamFault::Close => true,
        UpstreamFault::Reset => return writer.reset(),
        UpstreamFault::HalfHead => writer.stdout(fields.get(..20).unwrap_or_default().as_bytes()),
        UpstreamFault::TruncatedBody => {
            // A regular end of the request, but the body is too short.
            writer.respond(&sized, half);
            return;
        }
        UpstreamFault::TruncatedStream => writer.respond(&fields, half),
        UpstreamFault::Garbage => writer.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"),
        UpstreamFault::BadHead => {
            writer.respond("Content-Type: text/plain\r\nno colon here", &body);
            return;
        }
        UpstreamFault::HangBeforeHead => {
            writer.wait_for_abort();
            true
        }
        UpstreamFault::HangInBody => {
            writer.respond(&fields, half);
            writer.wait_for_abort();
            true
        }
        UpstreamFault::NoEndMarker => writer.respond(&fields, &body),
    };
    let _ = sent;
    writer.close();
}

const PAGES: usize = 48;
const WORKERS: usize = 4;
const CONCURRENT_REQUESTS: usize = 3;
/// Slightly longer than the lifetime of a short-lived page.
const SHORT_LIFETIME_EXPIRED: Duration = Duration::from_millis(1_100);
