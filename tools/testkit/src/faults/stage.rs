//! The server with its disk, the upstream behind it, and visitors in front.
//!
//! The disk outlives the server: it is started, killed and started again on the same folder. The upstream is scripted,
//! generates [`Truth`]'s pages, knows how many it is generating, and can be made slow.

use std::{
    fmt::Write as _,
    fs,
    net::SocketAddr,
    os::unix::fs::{PermissionsExt, chown},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use super::{
    dice::Dice,
    tally::{Tally, Verdict},
    truth::{TAGS, Truth, VERSION_FIELD, number, path},
};
use crate::{
    Galley, Launch, Scratch, TestkitError,
    client::{Connection, Request, Response},
    error::Context,
    origin::{Origin, ReceivedRequest, ResponseWriter},
    process::run,
    wait::{pause, poll_until},
};

/// What differs between the stages.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    /// Where the cache lies; by default in the stage's own folder.
    pub(super) disk: Option<PathBuf>,
    /// Where the server listens; port 0: on a free one, another at each start.
    pub(super) listen: SocketAddr,
    pub(super) disk_size: &'static str,
    pub(super) memory: &'static str,
    /// Lines of `[server]`.
    pub(super) server: &'static str,
    /// Lines of the site.
    pub(super) site: String,
    /// The upstream's line, in place of the stage's own upstream.
    pub(super) behind: Option<String>,
    /// User and group of the server, in place of the tester's own.
    pub(super) user: Option<(u32, u32)>,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            disk: None,
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            disk_size: "1GiB",
            memory: "16MiB",
            server: "",
            site: String::new(),
            behind: None,
            user: None,
        }
    }
}

/// How the upstream behaves.
#[derive(Debug, Default)]
pub(super) struct Pace {
    slow: AtomicBool,
    down: AtomicBool,
    composing: AtomicUsize,
}

impl Pace {
    /// Each page takes some ten to hundred milliseconds; otherwise a few take some.
    pub(super) fn slow(&self, slow: bool) {
        self.slow.store(slow, Ordering::SeqCst);
    }

    pub(super) fn is_slow(&self) -> bool {
        self.slow.load(Ordering::SeqCst)
    }

    /// Whether every page fails.
    pub(super) fn down(&self, down: bool) {
        self.down.store(down, Ordering::SeqCst);
    }

    /// Pages that are being generated.
    pub(super) fn composing(&self) -> usize {
        self.composing.load(Ordering::SeqCst)
    }
}

/// See the module. The server ends first.
pub(super) struct Stage {
    galley: Option<Galley>,
    pub(super) truth: Arc<Truth>,
    pub(super) pace: Arc<Pace>,
    binary: PathBuf,
    config: PathBuf,
    disk: PathBuf,
    user: Option<(u32, u32)>,
    _origin: Origin,
    pub(super) scratch: Scratch,
}

impl Stage {
    /// The upstream runs when this returns, the server does not.
    pub(super) fn new(binary: &Path, truth: Truth, plan: &Plan) -> Result<Self, TestkitError> {
        let scratch = Scratch::new()?;
        let truth = Arc::new(truth);
        let pace = Arc::new(Pace::default());
        let origin = {
            let (truth, pace) = (Arc::clone(&truth), Arc::clone(&pace));
            Origin::start_unrecorded(move |seen, writer| serve(&truth, &pace, seen, writer))?
        };
        let disk = plan.disk.clone().unwrap_or_else(|| scratch.join("cache"));
        let token = scratch.write("admin.token", TOKEN)?;
        fs::set_permissions(&token, fs::Permissions::from_mode(0o600))
            .context("close the token")?;
        let config = scratch.write("galley.toml", text(plan, &scratch, &disk, &origin.url()))?;
        scratch.dir("run")?;
        if let Some((uid, gid)) = plan.user {
            for path in [scratch.path(), &token, &scratch.join("run")] {
                chown(path, Some(uid), Some(gid)).context("give away the stage's folder")?;
            }
        }
        Ok(Self {
            galley: None,
            truth,
            pace,
            binary: binary.to_owned(),
            config,
            disk,
            user: plan.user,
            _origin: origin,
            scratch,
        })
    }

    /// Starts the server; one that runs ends first, by SIGTERM.
    pub(super) fn start(&mut self) -> Result<(), TestkitError> {
        self.start_under(Launch::default())
    }

    pub(super) fn start_under(&mut self, mut launch: Launch) -> Result<(), TestkitError> {
        self.galley = None;
        launch.user = self.user;
        let run = self.scratch.join("run");
        let galley = Galley::start_under(&self.binary, &run, &self.config, &launch)?;
        self.galley = Some(galley);
        Ok(())
    }

    /// SIGKILL.
    pub(super) fn kill(&mut self) {
        if let Some(mut galley) = self.galley.take() {
            galley.kill();
        }
    }

    /// SIGTERM, and waits until it has ended.
    pub(super) fn stop(&mut self) {
        if let Some(mut galley) = self.galley.take() {
            galley.stop();
        }
    }

    /// # Errors
    /// [`TestkitError::Malformed`] when it does not run.
    pub(super) fn galley(&self) -> Result<&Galley, TestkitError> {
        self.galley
            .as_ref()
            .ok_or_else(|| TestkitError::Malformed("the server does not run".to_owned()))
    }

    pub(super) fn addr(&self) -> Result<SocketAddr, TestkitError> {
        Ok(self.galley()?.addr())
    }

    pub(super) fn admin(&self) -> Result<SocketAddr, TestkitError> {
        let admin = self.galley()?.admin().unwrap_or_default();
        let authority = admin.strip_prefix("http://").unwrap_or(&admin);
        authority.trim_end_matches('/').parse().map_err(|_| {
            TestkitError::Malformed(format!("no address of the admin interface: {admin}"))
        })
    }

    /// The folder of the cache.
    pub(super) fn disk(&self) -> &Path {
        &self.disk
    }

    /// The purge log.
    pub(super) fn log_file(&self) -> PathBuf {
        self.disk.join("purges/purges.log")
    }

    /// All files of entries, sorted by name.
    pub(super) fn entries(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        files_below(&self.disk.join("pages/entries"), &mut found);
        found.sort();
        found
    }

    /// `GET` of a path at the admin interface, as text.
    pub(super) fn told(&self, path: &str) -> Result<String, TestkitError> {
        Ok(with_token(Request::get(path)).send(self.admin()?)?.text())
    }

    /// Whether the server says that pages and purges reach the disk.
    pub(super) fn stores(&self) -> bool {
        let storing = "\"state\":\"storing\"";
        self.keeps_purges()
            && self
                .told("/status")
                .is_ok_and(|text| text.contains(storing))
    }

    /// Whether the server says that purges reach the disk.
    pub(super) fn keeps_purges(&self) -> bool {
        let kept = "\"purges_kept\":true";
        self.told("/status").is_ok_and(|text| text.contains(kept))
    }

    /// Waits until no page waits to be written, as far as the server says; a while at most.
    pub(super) fn await_writes(&self) {
        poll_until(TIMEOUT, || {
            self.told("/metrics")
                .is_ok_and(|text| text.lines().any(|line| line == "galley_disk_waiting 0"))
        });
    }

    /// Asks for every page once and compares it; the pages are spread over some visitors.
    pub(super) fn compare(&self) -> Result<Tally, TestkitError> {
        self.compare_forgiving(usize::MAX)
    }

    /// The same; a page longer than `once` may break off once.
    pub(super) fn compare_forgiving(&self, once: usize) -> Result<Tally, TestkitError> {
        let addr = self.addr()?;
        let sum = Mutex::new(Tally::default());
        thread::scope(|scope| {
            for first in 0..READERS {
                let sum = &sum;
                scope.spawn(move || {
                    let mut tally = Tally::default();
                    let mut visitor = Visitor::new(addr);
                    for page in (first..self.truth.count()).step_by(READERS) {
                        visitor.look(&self.truth, page, once, &mut tally);
                    }
                    *sum.lock().unwrap_or_else(PoisonError::into_inner) += tally;
                });
            }
        });
        Ok(sum.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A client with a connection that is kept as long as it may be.
pub(super) struct Visitor {
    addr: SocketAddr,
    connection: Option<Connection>,
}

impl Visitor {
    pub(super) fn new(addr: SocketAddr) -> Self {
        Self {
            addr,
            connection: None,
        }
    }

    /// After an error the next request goes over a new connection.
    pub(super) fn ask(&mut self, request: &Request) -> Result<Response, TestkitError> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => Connection::within(self.addr, TIMEOUT)?,
        };
        let answer = connection.exchange(request)?;
        let closes = answer.all("connection").iter().any(|value| {
            value
                .split(',')
                .any(|word| word.trim().eq_ignore_ascii_case("close"))
        });
        if !closes {
            self.connection = Some(connection);
        }
        Ok(answer)
    }

    /// Asks for a page and counts what comes; an answer that does not come has failed. A page longer than `once` may break
    /// off once: its file is read in pieces, and the first may have left when a later one is found to be damaged.
    pub(super) fn look(&mut self, truth: &Truth, page: usize, once: usize, tally: &mut Tally) {
        let floor = truth.floor(page);
        let mut outcome = self.ask(&get(page));
        if outcome.is_err() && truth.length(page) > once {
            tally.broken_off += 1;
            outcome = self.ask(&get(page));
        }
        match outcome {
            Ok(answer) => count(truth, page, floor, &answer, tally),
            Err(trouble) => tally.judge(Verdict::Failed, || {
                let length = truth.length(page);
                format!("{} of {length} bytes: {trouble}", path(page))
            }),
        }
    }
}

/// Judges an answer to a request that began at this floor.
pub(super) fn count(truth: &Truth, page: usize, floor: u64, answer: &Response, tally: &mut Tally) {
    tally.hits += u64::from(answer.is_hit());
    tally.judge(truth.judge(page, floor, answer), || {
        let line = answer.body.get(..40).unwrap_or(&answer.body).escape_ascii();
        format!(
            "{}: status {}, {} bytes, `{}`, wanted version {floor} to {}, got `{line}`",
            path(page),
            answer.status,
            answer.body.len(),
            answer.cache_status(),
            truth.version(page),
        )
    });
}

/// A request for a page.
pub(super) fn get(page: usize) -> Request {
    Request::get(&path(page)).host(HOST)
}

/// A request to the admin interface.
pub(super) fn with_token(request: Request) -> Request {
    request.field("Authorization", format!("Bearer {TOKEN}"))
}

/// Regular files, at any depth; what vanishes meanwhile is left out.
fn files_below(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => files_below(&entry.path(), found),
            Ok(kind) if kind.is_file() => found.push(entry.path()),
            _ => {}
        }
    }
}

/// Copies the server to where any user can run it.
pub(super) fn public_copy(binary: &Path, scratch: &Scratch) -> Result<PathBuf, TestkitError> {
    // Not by this process: a fork while it has the copy open for writing would keep the copy from being run.
    let copy = scratch.join("galley-copy");
    let mut command = std::process::Command::new("/usr/bin/install");
    run(
        "install",
        command.args(["-m", "755"]).arg(binary).arg(&copy),
    )?;
    Ok(copy)
}

fn text(plan: &Plan, scratch: &Scratch, disk: &Path, origin: &str) -> String {
    let Plan {
        memory,
        disk_size,
        server,
        site,
        listen,
        ..
    } = plan;
    let (dir, disk) = (scratch.path().display(), disk.display());
    let behind = plan
        .behind
        .clone()
        .unwrap_or_else(|| format!("upstream = [\"{origin}\"]"));
    format!(
        "[server]\nlisten = [\"{listen}\"]\n{server}\n[admin]\nlisten = \"127.0.0.1:0\"\ntoken_file = \"{dir}/admin.token\"\n\
         [cache]\nmemory = \"{memory}\"\nmax_object = \"64MiB\"\ndisk = \"{disk}\"\ndisk_size = \"{disk_size}\"\n\
         [log]\naccess = \"off\"\nlevel = \"warn\"\n\
         [[site]]\nhosts = [\"{HOST}\"]\npreset = \"none\"\n{behind}\nin_flight = 64\nqueue = 1000\n{site}\n"
    )
}

/// The upstream: pages, and answers that order purges.
fn serve(truth: &Truth, pace: &Pace, seen: &ReceivedRequest, writer: &mut ResponseWriter<'_>) {
    if let Some(order) = seen.path().strip_prefix(ORDER_PATH) {
        writer.body();
        let order = order.replacen("url/", "/", 1);
        writer.answer(200, &[("Galley-Purge", &order)], b"ordered\n");
        return;
    }
    let Some(page) = number(seen.path()) else {
        writer.answer(404, &[], b"no page\n");
        return;
    };
    if pace.down.load(Ordering::SeqCst) {
        writer.answer(503, &[], b"down\n");
        return;
    }
    pace.composing.fetch_add(1, Ordering::SeqCst);
    compose(truth, pace, page, seen, writer);
    pace.composing.fetch_sub(1, Ordering::SeqCst);
}

fn compose(
    truth: &Truth,
    pace: &Pace,
    page: usize,
    seen: &ReceivedRequest,
    writer: &mut ResponseWriter<'_>,
) {
    // The content at the begin of the fetch: a purge that comes meanwhile makes it old.
    let version = truth.version(page);
    let body = truth.compose(page, version);
    let (said, tag) = (version.to_string(), tag(page % TAGS));
    let mut dice = Dice::new(u64::try_from(seen.number).unwrap_or(0));
    let wait = if pace.is_slow() {
        LEAST_SLOW + dice.time(MOST_SLOW)
    } else if dice.once_in(6) {
        dice.time(Duration::from_millis(3))
    } else {
        Duration::ZERO
    };
    let fields = [
        ("Content-Type", "text/plain"),
        ("Cache-Control", "max-age=86400, stale-if-error=864000"),
        ("Cache-Tag", &tag),
        (VERSION_FIELD, &said),
    ];
    let (first, rest) = body.split_at(dice.below(body.len()));
    if dice.once_in(3) {
        let sent = writer.chunked(200, &fields) && (first.is_empty() || writer.chunk(first));
        if sent {
            rest_after(wait);
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
        rest_after(wait);
        let _ = writer.write(rest);
    }
}

fn rest_after(wait: Duration) {
    if !wait.is_zero() {
        pause(wait);
    }
}

/// A tag's name.
pub(super) fn tag(number: usize) -> String {
    format!("t{number}")
}

/// Below it, the rest of the path is what the upstream orders: a tag, `url/...` or `*`.
pub(super) const ORDER_PATH: &str = "/order/";
pub(super) const HOST: &str = "faults.test";
const TOKEN: &str = "faults-token-0123456789";
/// For an answer on a machine that is busy with others.
const TIMEOUT: Duration = Duration::from_secs(60);
const READERS: usize = 4;
const LEAST_SLOW: Duration = Duration::from_millis(20);
const MOST_SLOW: Duration = Duration::from_millis(150);
