//! What the tests of the running server share: a site with what stands behind it, a PHP page that does what files beside
//! it say, and a few ways of asking.
//!
//! Everything has a deadline and belongs to one test. The page ([`TEST_PAGE`]) is steered by files in `notes/`, so a test can hold
//! it at any point, and it counts its runs.

use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Barrier;
use std::time::Duration;

use galley_testkit::client::{Connection, Request, Response};
use galley_testkit::origin::Origin;
use galley_testkit::{FpmListen, FpmOptions, Galley, PhpFpm, Scratch, wait_for};

/// The host of the site in these tests.
pub const HOST: &str = "example.test";

/// For everything that must happen but may take a while on a busy machine. Shorter than the 30 s and more after which Galley
/// by default ends a silent body, a client that reads nothing, an idle connection or a request of PHP's: a test that sets
/// one of these notices if it is not heeded.
pub const TIMEOUT: Duration = Duration::from_secs(28);
/// The same for `head_timeout`, `queue_timeout` and `drain_timeout`, 10 s and more by default.
pub const SHORT_TIMEOUT: Duration = Duration::from_secs(9);

/// The server binary under test.
pub fn binary() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_galley"))
}

/// A site to be started.
pub struct SiteBuilder {
    pub scratch: Scratch,
    behind: Behind,
    fpm: FpmOptions,
    server: String,
    admin: String,
    cache: String,
    log: String,
    site: String,
    more: String,
}

enum Behind {
    Nothing,
    Fpm,
    Line(String),
}

impl SiteBuilder {
    fn new(behind: Behind) -> Self {
        let scratch = Scratch::new().unwrap();
        scratch.dir("root").unwrap();
        let notes = scratch.dir("notes").unwrap();
        fs::set_permissions(notes, fs::Permissions::from_mode(0o777)).unwrap();
        Self {
            scratch,
            behind,
            fpm: FpmOptions::default(),
            server: String::new(),
            admin: String::new(),
            cache: "memory = \"64MiB\"\n".to_owned(),
            log: String::new(),
            site: String::new(),
            more: String::new(),
        }
    }

    /// Files and nothing else.
    pub fn files() -> Self {
        Self::new(Behind::Nothing)
    }

    /// A PHP-FPM of its own, with [`TEST_PAGE`] as front controller.
    pub fn php() -> Self {
        Self::new(Behind::Fpm).file("index.php", TEST_PAGE)
    }

    /// Whatever the line says: `php = "..."` or `upstream = [...]`.
    pub fn upstream_line(line: &str) -> Self {
        Self::new(Behind::Line(line.to_owned()))
    }

    /// A scripted origin; `preset` is that of the site.
    pub fn origin(origin: &Origin, preset: &str) -> Self {
        Self::upstream_line(&format!("upstream = [\"{}\"]", origin.url()))
            .site(&format!("preset = \"{preset}\""))
    }

    /// Lines of `[server]`.
    pub fn server(mut self, lines: &str) -> Self {
        let _ = writeln!(self.server, "{lines}");
        self
    }

    /// Lines of `[admin]`, in place of a unix socket.
    pub fn admin(mut self, lines: &str) -> Self {
        let _ = writeln!(self.admin, "{lines}");
        self
    }

    /// Lines of `[cache]`, in place of 64 MiB of memory; `{dir}` stands for a folder of the test's own.
    pub fn cache(mut self, lines: &str) -> Self {
        lines.clone_into(&mut self.cache);
        self
    }

    /// Pages survive a restart.
    pub fn disk(self) -> Self {
        self.cache("memory = \"64MiB\"\ndisk = \"{dir}/cache\"")
    }

    /// Lines of `[log]`, beside the access log that goes to `access.log`.
    pub fn log(mut self, lines: &str) -> Self {
        let _ = writeln!(self.log, "{lines}");
        self
    }

    /// Lines of `[[site]]`.
    pub fn site(mut self, lines: &str) -> Self {
        let _ = writeln!(self.site, "{lines}");
        self
    }

    /// Whatever follows the site: its rules, its lifetimes, further sites. `{php}` stands for the address of PHP-FPM,
    /// `{root}` for the folder of files.
    pub fn more(mut self, lines: &str) -> Self {
        let _ = writeln!(self.more, "{lines}");
        self
    }

    /// A file below the root.
    pub fn file(self, name: &str, content: impl AsRef<[u8]>) -> Self {
        self.scratch
            .write(&format!("root/{name}"), content)
            .unwrap();
        self
    }

    /// Workers of PHP-FPM.
    pub fn workers(mut self, workers: usize) -> Self {
        self.fpm.workers = workers;
        self
    }

    /// PHP-FPM on a TCP port.
    pub fn tcp(mut self) -> Self {
        self.fpm.listen = FpmListen::Tcp;
        self
    }

    /// A setting of PHP.
    pub fn ini(mut self, name: &str, value: &str) -> Self {
        self.fpm.ini.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Starts PHP-FPM where it is wanted; the configuration of the server is returned with it.
    pub fn prepare(self) -> (Scratch, Option<PhpFpm>, String) {
        let fpm = match self.behind {
            Behind::Fpm => Some(PhpFpm::start(&self.scratch.join("fpm"), &self.fpm).unwrap()),
            Behind::Nothing | Behind::Line(_) => None,
        };
        let dir = self.scratch.path().display();
        let address = fpm.as_ref().map(PhpFpm::address).unwrap_or_default();
        let behind = match &self.behind {
            Behind::Nothing => String::new(),
            Behind::Fpm => format!("php = \"{address}\""),
            Behind::Line(line) => line.clone(),
        };
        let admin = match self.admin.as_str() {
            "" => format!("listen = \"unix:{dir}/galley/admin.sock\"\n"),
            lines => lines.to_owned(),
        };
        let Self {
            server,
            cache,
            log,
            site,
            more,
            ..
        } = &self;
        let listen = if server.contains("listen =") {
            ""
        } else {
            "listen = [\"127.0.0.1:0\"]\n"
        };
        let access = if log.contains("access =") {
            String::new()
        } else {
            format!("access = \"{dir}/access.log\"\n")
        };
        let hosts = if site.contains("hosts =") {
            String::new()
        } else {
            format!("hosts = [\"{HOST}\"]\n")
        };
        let text = format!(
            "[server]\n{listen}{server}\n[admin]\n{admin}\n[cache]\n{cache}\n[log]\n{access}{log}\n\
             [[site]]\n{hosts}root = \"{dir}/root\"\n{behind}\n{site}\n{more}"
        );
        let text = text
            .replace("{dir}", &dir.to_string())
            .replace("{php}", &address)
            .replace("{root}", &format!("{dir}/root"));
        (self.scratch, fpm, text)
    }

    /// Starts everything.
    pub fn start(self) -> TestSite {
        let (scratch, fpm, text) = self.prepare();
        let galley = Galley::start_binary(binary(), &scratch.join("galley"), &text).unwrap();
        TestSite {
            galley,
            fpm,
            scratch,
        }
    }
}

/// A running site. The server ends first.
pub struct TestSite {
    pub galley: Galley,
    pub fpm: Option<PhpFpm>,
    pub scratch: Scratch,
}

impl TestSite {
    pub fn addr(&self) -> SocketAddr {
        self.galley.addr()
    }

    /// Starts the server anew with the same configuration; what runs is killed if it was not stopped.
    pub fn restart(&mut self) {
        let config = fs::read_to_string(self.galley.config()).unwrap();
        self.restart_with(&config);
    }

    /// The same with another configuration.
    pub fn restart_with(&mut self, config: &str) {
        self.galley.kill();
        let dir = self.scratch.join("galley");
        self.galley = Galley::start_binary(binary(), &dir, config).unwrap();
    }

    /// Waits until so many pages are on the disk and none is waiting to be.
    pub fn wait_for_disk(&self, pages: u64) {
        // A disk that others keep busy took fewer than a hundred pages a second.
        wait_for(&format!("{pages} pages on the disk"), 8 * TIMEOUT, || {
            self.status_disk("entries") >= pages && self.status_disk("waiting") == 0
        });
    }

    /// The number that follows `"name":` in what the status says of the disk.
    pub fn status_disk(&self, name: &str) -> u64 {
        let status = self.status();
        json_number(status.split("\"disk\":").nth(1).unwrap_or_default(), name)
    }

    /// Address of another listener.
    pub fn addr_of(&self, index: usize) -> SocketAddr {
        self.galley.urls()[index]
            .trim_start_matches("http://")
            .parse()
            .unwrap()
    }

    pub fn connect(&self) -> Connection {
        Connection::within(self.addr(), TIMEOUT).unwrap()
    }

    /// Asks on a connection of its own; the site's host is named unless the request names one.
    pub fn send(&self, request: Request) -> Response {
        with_host(request).send(self.addr()).unwrap()
    }

    pub fn get(&self, target: &str) -> Response {
        self.send(Request::get(target))
    }

    /// Asks on a connection of its own and leaves the answer for later.
    pub fn start_request(&self, target: &str) -> Connection {
        let mut connection = self.connect();
        connection.send(&with_host(Request::get(target))).unwrap();
        connection
    }

    /// Waits until no fresh copy answers any more, without fetching one.
    pub fn wait_until_stale(&self, target: &str) {
        let only = Request::get(target).field("Cache-Control", "only-if-cached");
        wait_for("the copy to be stale", TIMEOUT, || {
            self.send(only.clone()).status == 504
        });
    }

    /// Sends bytes on a connection of its own and returns all that comes until the server closes.
    pub fn send_raw(&self, bytes: &[u8]) -> Vec<u8> {
        let mut connection = self.connect();
        // The server may refuse, and close, before it has taken everything.
        let _ = connection.write(bytes);
        connection.read_to_end().unwrap_or_default()
    }

    /// What a page is to send as its head, a line for each field; `Status: 404` sets the status.
    pub fn head(&self, page: &str, lines: &[&str]) {
        self.note(&format!("head{}", note_name(page)), &lines.join("\n"));
    }

    /// Lets the page wait before its head, until [`TestSite::release`].
    pub fn hold(&self, page: &str) {
        self.note(&format!("hold{}", note_name(page)), "");
    }

    /// Later runs of the page do not wait; those that do go on waiting.
    pub fn unhold(&self, page: &str) {
        fs::remove_file(self.notes().join(format!("hold{}", note_name(page)))).unwrap();
    }

    pub fn wait_until_held(&self, page: &str) {
        self.wait_for_note(&format!("held{}", note_name(page)));
    }

    pub fn release(&self, page: &str) {
        self.note(&format!("go{}", note_name(page)), "");
    }

    /// Lets the page wait after its first bytes, until [`TestSite::resume`].
    pub fn pause(&self, page: &str) {
        self.note(&format!("pause{}", note_name(page)), "");
    }

    pub fn unpause(&self, page: &str) {
        fs::remove_file(self.notes().join(format!("pause{}", note_name(page)))).unwrap();
    }

    pub fn wait_until_paused(&self, page: &str) {
        self.wait_for_note(&format!("paused{}", note_name(page)));
    }

    pub fn resume(&self, page: &str) {
        self.note(&format!("resume{}", note_name(page)), "");
    }

    /// How often the page was generated.
    pub fn runs(&self, page: &str) -> usize {
        let path = self.notes().join(format!("runs{}", note_name(page)));
        fs::read_to_string(path)
            .ok()
            .and_then(|text| text.parse().ok())
            .unwrap_or(0)
    }

    pub fn notes(&self) -> PathBuf {
        self.scratch.join("notes")
    }

    pub fn note(&self, name: &str, text: &str) {
        // In one step: PHP may look at any moment.
        let path = self.notes().join(name);
        let new = self.scratch.join(format!("new-{name}"));
        fs::write(&new, text).unwrap();
        fs::rename(new, path).unwrap();
    }

    pub fn wait_for_note(&self, name: &str) {
        wait_for(name, TIMEOUT, || self.notes().join(name).exists());
    }

    /// Runs `galley purge` against this server; it must succeed.
    pub fn purge(&self, arguments: &[&str]) {
        let output = self.galley.cli(&[&["purge"], arguments].concat()).unwrap();
        assert!(
            output.status.success(),
            "purge {arguments:?}: {}",
            output_text(&output)
        );
    }

    /// `galley status --json`.
    pub fn status(&self) -> String {
        let output = self.galley.cli(&["status", "--json"]).unwrap();
        assert!(output.status.success(), "status: {}", output_text(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    /// The number that follows `"name":` in the status.
    pub fn status_number(&self, name: &str) -> u64 {
        json_number(&self.status(), name)
    }

    /// What `galley why --json` says of a path of the site.
    pub fn why(&self, target: &str) -> String {
        // Of several listeners the first one is meant.
        let url = match self.galley.urls().as_slice() {
            [_] => format!("http://{HOST}{target}"),
            _ => format!("http://{HOST}:{}{target}", self.addr_of(0).port()),
        };
        let output = self.galley.cli(&["why", "--json", &url]).unwrap();
        assert!(output.status.success(), "why: {}", output_text(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    /// The number that follows `"name":` in what the status says of small files.
    pub fn status_small_files(&self, name: &str) -> u64 {
        let status = self.status();
        json_number(
            status.split("\"small_files\":").nth(1).unwrap_or_default(),
            name,
        )
    }

    /// The access log as it is now.
    pub fn access(&self) -> String {
        fs::read_to_string(self.scratch.join("access.log")).unwrap_or_default()
    }

    /// The first access line with these output_text, as soon as there is one.
    pub fn access_line(&self, wanted: &str) -> String {
        let mut found = String::new();
        wait_for(&format!("`{wanted}` in the access log"), TIMEOUT, || {
            let log = self.access();
            log.lines()
                .find(|line| line.contains(wanted))
                .unwrap_or_default()
                .clone_into(&mut found);
            !found.is_empty()
        });
        found
    }

    /// The most memory that the server has had so far, in bytes.
    pub fn peak_memory(&self) -> u64 {
        let text = fs::read_to_string(format!("/proc/{}/status", self.galley.pid())).unwrap();
        let line = text
            .lines()
            .find(|line| line.starts_with("VmHWM:"))
            .unwrap();
        let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        kib * 1024
    }

    /// By how much the peak is above an earlier one, in bytes. Kernels since 6.2 count pages by processor and note a peak
    /// from a sum that may lack some of them: a later peak can be the smaller one.
    pub fn grown_since(&self, peak: u64) -> u64 {
        self.peak_memory().saturating_sub(peak)
    }
}

/// Checks an answer that is not needed any further.
pub trait AssertStatus {
    /// Panics with the answer when it has another status.
    fn assert_status(&self, status: u16);
}

impl AssertStatus for Response {
    #[track_caller]
    fn assert_status(&self, status: u16) {
        assert!(
            self.status == status,
            "wanted status {status}, got:\n{}",
            self.beginning()
        );
    }
}

/// Names the site's host unless another one is named.
pub fn with_host(request: Request) -> Request {
    if request
        .fields
        .iter()
        .any(|(name, _)| name.eq_ignore_ascii_case("host"))
    {
        request
    } else {
        request.host(HOST)
    }
}

/// A page's name in file names.
pub fn note_name(page: &str) -> String {
    page.replace('/', "_")
}

/// The number that follows `"name":`.
pub fn json_number(json: &str, name: &str) -> u64 {
    let rest = json
        .split(&format!("\"{name}\":"))
        .nth(1)
        .unwrap_or_default();
    let digits: String = rest
        .trim_start()
        .chars()
        .take_while(char::is_ascii_digit)
        .collect();
    digits
        .parse()
        .unwrap_or_else(|_| panic!("no number `{name}` in {json}"))
}

/// What a command said.
pub fn output_text(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!(
        "{}\n{}{}",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    )
}

/// Runs `work` on so many threads that begin at the same moment; what they return, in order.
pub fn run_concurrently<T: Send>(count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let barrier = Barrier::new(count);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..count)
            .map(|index| {
                let (barrier, work) = (&barrier, &work);
                scope.spawn(move || {
                    barrier.wait();
                    work(index)
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    })
}

/// The value behind `name=` at the beginning of a line of the lab's page.
pub fn page_value<'a>(body: &'a str, name: &str) -> &'a str {
    let start = format!("{name}=");
    body.lines()
        .find_map(|line| line.strip_prefix(start.as_str()))
        .unwrap_or_else(|| panic!("no `{name}` in {body}"))
}

/// SHA-256 of bytes, by the machine's own program.
pub fn sha256(bytes: &[u8]) -> String {
    use std::io::Write as _;
    use std::process::Stdio;
    let mut child = Command::new("sha256sum")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(bytes).unwrap();
    let output = child.wait_with_output().unwrap();
    String::from_utf8(output.stdout)
        .unwrap()
        .split_whitespace()
        .next()
        .unwrap()
        .to_owned()
}

/// Bytes that repeat nowhere near: a piece out of place is seen.
pub fn random_bytes(length: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut out = Vec::with_capacity(length + 8);
    while out.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        out.extend_from_slice(&state.to_le_bytes());
    }
    out.truncate(length);
    out
}

/// The page. It counts its runs, waits where files say so, sends the head that a file holds, and prints what it was asked.
pub const TEST_PAGE: &str = r#"<?php
$notes = __DIR__ . '/../notes';
$path = explode('?', $_SERVER['REQUEST_URI'])[0];
$name = str_replace('/', '_', $path);
$file = fopen("$notes/runs$name", 'c+');
flock($file, LOCK_EX);
$run = (int) stream_get_contents($file) + 1;
rewind($file);
fwrite($file, (string) $run);
fflush($file);
flock($file, LOCK_UN);
fclose($file);
function await($file) {
    for ($i = 0; $i < 10000; $i++) {
        clearstatcache();
        if (file_exists($file)) {
            return;
        }
        usleep(2000);
    }
    exit("nobody came\n");
}
if (file_exists("$notes/hold$name")) {
    touch("$notes/held$name");
    await("$notes/go$name");
}
foreach (@file("$notes/head$name", FILE_IGNORE_NEW_LINES) ?: [] as $line) {
    if (preg_match('/^Status: (\d+)/', $line, $found)) {
        http_response_code((int) $found[1]);
    } else {
        header(str_replace('{run}', $run, $line), false);
    }
}
echo "<html><body>\nrun=$run\npath=$path\n";
if (file_exists("$notes/pause$name")) {
    while (ob_get_level() > 0) {
        ob_end_flush();
    }
    flush();
    touch("$notes/paused$name");
    await("$notes/resume$name");
}
echo "method=$_SERVER[REQUEST_METHOD]\nuri=$_SERVER[REQUEST_URI]\nquery=$_SERVER[QUERY_STRING]\n";
foreach ($_SERVER as $key => $value) {
    if (strncmp($key, 'HTTP_', 5) === 0) {
        echo "$key=$value\n";
    }
}
echo 'body=', file_get_contents('php://input'), "\n</body></html>\n";
"#;

/// What the doctor finds in one check.
pub(crate) fn doctor_finding(stage: &TestSite, check: &str) -> serde_json::Value {
    let output = stage.galley.cli(&["doctor", "--json"]).unwrap();
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut findings = value["findings"].as_array().unwrap().iter();
    let finding = findings.find(|finding| finding["check"] == check);
    finding
        .unwrap_or_else(|| panic!("no {check} in {value}"))
        .clone()
}
