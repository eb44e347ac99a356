//! A server with a disk cache and a scripted upstream, and clients that verify its responses. The server can be killed and
//! restarted on the same disk cache.

use std::{
    fs,
    net::SocketAddr,
    os::unix::fs::{PermissionsExt, chown},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::Duration,
};

use super::{
    report::{FaultReport, Verdict},
    site_content::{SiteContent, path},
    upstream::{UpstreamControl, serve},
};
use crate::{
    Galley, Launch, Scratch, TestkitError,
    client::{Connection, Request, Response},
    error::Context,
    origin::Origin,
    process::run,
    wait::poll_until,
};

/// Options of a [`TestSite`].
#[derive(Debug, Clone)]
pub(super) struct SiteOptions {
    /// The cache directory; by default below the scratch directory.
    pub(super) disk: Option<PathBuf>,
    /// The listen address; port 0 selects a free port at each start.
    pub(super) listen: SocketAddr,
    pub(super) disk_size: &'static str,
    pub(super) memory: &'static str,
    /// Lines of `[server]`.
    pub(super) server_lines: &'static str,
    /// Lines of `[[site]]`.
    pub(super) site_lines: String,
    /// The configuration of another upstream than [`TestSite`]'s.
    pub(super) upstream_lines: Option<String>,
    /// User and group of the server; by default those of the test.
    pub(super) user: Option<(u32, u32)>,
}

impl Default for SiteOptions {
    fn default() -> Self {
        Self {
            disk: None,
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            disk_size: "1GiB",
            memory: "16MiB",
            server_lines: "",
            site_lines: String::new(),
            upstream_lines: None,
            user: None,
        }
    }
}

/// A server with a scripted upstream. When dropped, it stops the server first.
pub(super) struct TestSite {
    galley: Option<Galley>,
    pub(super) content: Arc<SiteContent>,
    pub(super) upstream: Arc<UpstreamControl>,
    binary: PathBuf,
    config: PathBuf,
    disk: PathBuf,
    user: Option<(u32, u32)>,
    _origin: Origin,
    pub(super) scratch: Scratch,
}

impl TestSite {
    /// Starts the upstream, but not the server.
    pub(super) fn new(
        binary: &Path,
        content: SiteContent,
        options: &SiteOptions,
    ) -> Result<Self, TestkitError> {
        let scratch = Scratch::new()?;
        let content = Arc::new(content);
        let upstream = Arc::new(UpstreamControl::default());
        let origin = {
            let (content, upstream) = (Arc::clone(&content), Arc::clone(&upstream));
            Origin::start_unrecorded(move |request, writer| {
                serve(&content, &upstream, request, writer);
            })?
        };
        let disk = options
            .disk
            .clone()
            .unwrap_or_else(|| scratch.join("cache"));
        let token = scratch.write("admin.token", TOKEN)?;
        fs::set_permissions(&token, fs::Permissions::from_mode(0o600))
            .context("set permissions of the token")?;
        let config = configuration(options, &scratch, &disk, &origin.url());
        let config = scratch.write("galley.toml", config)?;
        scratch.dir("run")?;
        if let Some((uid, gid)) = options.user {
            for path in [scratch.path(), &token, &scratch.join("run")] {
                chown(path, Some(uid), Some(gid)).context("change the owner")?;
            }
        }
        Ok(Self {
            galley: None,
            content,
            upstream,
            binary: binary.to_owned(),
            config,
            disk,
            user: options.user,
            _origin: origin,
            scratch,
        })
    }

    /// Starts the server; stops a running one first, with SIGTERM.
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

    /// Sends SIGKILL to the server.
    pub(super) fn kill(&mut self) {
        if let Some(mut galley) = self.galley.take() {
            galley.kill();
        }
    }

    /// Sends SIGTERM to the server and waits until it has exited.
    pub(super) fn stop(&mut self) {
        if let Some(mut galley) = self.galley.take() {
            galley.stop();
        }
    }

    /// The running server.
    ///
    /// # Errors
    /// [`TestkitError::Malformed`] if the server does not run.
    pub(super) fn galley(&self) -> Result<&Galley, TestkitError> {
        self.galley
            .as_ref()
            .ok_or_else(|| TestkitError::Malformed("the server is not running".to_owned()))
    }

    pub(super) fn addr(&self) -> Result<SocketAddr, TestkitError> {
        Ok(self.galley()?.addr())
    }

    pub(super) fn admin(&self) -> Result<SocketAddr, TestkitError> {
        let admin = self.galley()?.admin().unwrap_or_default();
        let authority = admin.strip_prefix("http://").unwrap_or(&admin);
        authority.trim_end_matches('/').parse().map_err(|_| {
            TestkitError::Malformed(format!("invalid address of the admin interface: {admin}"))
        })
    }

    /// The cache directory.
    pub(super) fn disk(&self) -> &Path {
        &self.disk
    }

    /// The path of the purge log.
    pub(super) fn log_file(&self) -> PathBuf {
        self.disk.join("purges/purges.log")
    }

    /// The paths of all entries on the disk, sorted.
    pub(super) fn entries(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        files_below(&self.disk.join("pages/entries"), &mut files);
        files.sort();
        files
    }

    /// Sends `GET` to the admin interface and returns the response body.
    pub(super) fn admin_get(&self, path: &str) -> Result<String, TestkitError> {
        Ok(with_token(Request::get(path)).send(self.admin()?)?.text())
    }

    /// Whether the status reports that pages and purges are written to the disk.
    pub(super) fn is_storing(&self) -> bool {
        let storing = "\"state\":\"storing\"";
        self.stores_purges()
            && self
                .admin_get("/status")
                .is_ok_and(|text| text.contains(storing))
    }

    /// Whether the status reports that purges are written to the disk.
    pub(super) fn stores_purges(&self) -> bool {
        let stored = "\"purges_kept\":true";
        self.admin_get("/status")
            .is_ok_and(|text| text.contains(stored))
    }

    /// Waits until the metrics report no pending disk write, or until the timeout.
    pub(super) fn wait_for_writes(&self) {
        poll_until(TIMEOUT, || {
            self.admin_get("/metrics")
                .is_ok_and(|text| text.lines().any(|line| line == "galley_disk_waiting 0"))
        });
    }

    /// Requests every page once, spread over several clients, and verifies the responses.
    pub(super) fn compare(&self) -> Result<FaultReport, TestkitError> {
        self.compare_with_retry(usize::MAX)
    }

    /// As [`compare`](Self::compare), but retries an aborted response once if the page is longer than `retry_above` bytes.
    pub(super) fn compare_with_retry(
        &self,
        retry_above: usize,
    ) -> Result<FaultReport, TestkitError> {
        let addr = self.addr()?;
        let sum = Mutex::new(FaultReport::default());
        thread::scope(|scope| {
            for first in 0..READERS {
                let sum = &sum;
                scope.spawn(move || {
                    let mut report = FaultReport::default();
                    let mut client = Client::new(addr);
                    for page in (first..self.content.page_count()).step_by(READERS) {
                        client.fetch_and_verify(&self.content, page, retry_above, &mut report);
                    }
                    *sum.lock().unwrap_or_else(PoisonError::into_inner) += report;
                });
            }
        });
        Ok(sum.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A client that reuses its connection as long as the server keeps it open.
pub(super) struct Client {
    addr: SocketAddr,
    connection: Option<Connection>,
}

impl Client {
    pub(super) fn new(addr: SocketAddr) -> Self {
        Self {
            addr,
            connection: None,
        }
    }

    /// Sends a request and reads the response. After an error, the next request uses a new connection.
    pub(super) fn send(&mut self, request: &Request) -> Result<Response, TestkitError> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => Connection::within(self.addr, TIMEOUT)?,
        };
        let response = connection.exchange(request)?;
        let closes = response.all("connection").iter().any(|value| {
            value
                .split(',')
                .any(|word| word.trim().eq_ignore_ascii_case("close"))
        });
        if !closes {
            self.connection = Some(connection);
        }
        Ok(response)
    }

    /// Requests a page and verifies the response. Retries an aborted response once if the page is longer than `retry_above` bytes:
    /// the server reads its file in parts, and may have sent the first parts before it finds a later one damaged.
    pub(super) fn fetch_and_verify(
        &mut self,
        content: &SiteContent,
        page: usize,
        retry_above: usize,
        report: &mut FaultReport,
    ) {
        let minimum = content.minimum_version(page);
        let mut outcome = self.send(&get(page));
        if outcome.is_err() && content.length(page) > retry_above {
            report.retried += 1;
            outcome = self.send(&get(page));
        }
        match outcome {
            Ok(response) => count_response(content, page, minimum, &response, report),
            Err(error) => report.count(Verdict::Failed, || {
                let length = content.length(page);
                format!("{} of {length} bytes: {error}", path(page))
            }),
        }
    }
}

/// Verifies a response; `minimum` is the minimum version when the request was sent.
pub(super) fn count_response(
    content: &SiteContent,
    page: usize,
    minimum: u64,
    response: &Response,
    report: &mut FaultReport,
) {
    report.hits += u64::from(response.is_hit());
    report.count(content.verify(page, minimum, response), || {
        let line = response
            .body
            .get(..40)
            .unwrap_or(&response.body)
            .escape_ascii();
        format!(
            "{}: status {}, {} bytes, `{}`, expected version {minimum} to {}, got `{line}`",
            path(page),
            response.status,
            response.body.len(),
            response.cache_status(),
            content.version(page),
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

/// Collects the regular files below a directory. Files may vanish during the walk.
fn files_below(dir: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => files_below(&entry.path(), files),
            Ok(kind) if kind.is_file() => files.push(entry.path()),
            _ => {}
        }
    }
}

/// Copies the server binary to a path from which any user can run it.
pub(super) fn public_copy(binary: &Path, scratch: &Scratch) -> Result<PathBuf, TestkitError> {
    // A separate process copies it: if this process forked while the copy is open for writing, exec would fail with ETXTBSY.
    let copy = scratch.join("galley-copy");
    let mut command = std::process::Command::new("/usr/bin/install");
    run(
        "install",
        command.args(["-m", "755"]).arg(binary).arg(&copy),
    )?;
    Ok(copy)
}

fn configuration(options: &SiteOptions, scratch: &Scratch, disk: &Path, origin: &str) -> String {
    let SiteOptions {
        memory,
        disk_size,
        server_lines,
        site_lines,
        listen,
        ..
    } = options;
    let (dir, disk) = (scratch.path().display(), disk.display());
    let upstream = options
        .upstream_lines
        .clone()
        .unwrap_or_else(|| format!("upstream = [\"{origin}\"]"));
    format!(
        "[server]\nlisten = [\"{listen}\"]\n{server_lines}\n[admin]\nlisten = \"127.0.0.1:0\"\ntoken_file = \"{dir}/admin.token\"\n\
         [cache]\nmemory = \"{memory}\"\nmax_object = \"64MiB\"\ndisk = \"{disk}\"\ndisk_size = \"{disk_size}\"\n\
         [log]\naccess = \"off\"\nlevel = \"warn\"\n\
         [[site]]\nhosts = [\"{HOST}\"]\npreset = \"none\"\n{upstream}\nin_flight = 64\nqueue = 1000\n{site_lines}\n"
    )
}

pub(super) const HOST: &str = "faults.test";
const TOKEN: &str = "faults-token-0123456789";
/// Enough for a response on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);
const READERS: usize = 4;
