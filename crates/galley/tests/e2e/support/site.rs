//! A running test site: its server, its PHP page, and the commands that act on it.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use galley_testkit::client::{Connection, Request, Response};
use galley_testkit::{Galley, PhpFpm, Scratch, wait_for};

use super::builder::{HOST, binary};
use super::output::{json_number, output_text};
use super::page::note_name;
use super::request::with_host;

/// Deadline for events that may take a while on a busy machine. Shorter than the defaults (30 s and more) of `body_timeout`,
/// `write_timeout`, `idle_timeout` and `first_byte_timeout`, so that a test that sets one of them fails if Galley ignores the option.
pub const TIMEOUT: Duration = Duration::from_secs(28);
/// The same for `head_timeout`, `queue_timeout` and `drain_timeout`, whose defaults are 10 s and more.
pub const SHORT_TIMEOUT: Duration = Duration::from_secs(9);

/// A running site. Galley stops before PHP-FPM, because fields are dropped in order.
pub struct TestSite {
    pub galley: Galley,
    pub fpm: Option<PhpFpm>,
    pub scratch: Scratch,
}

impl TestSite {
    pub fn addr(&self) -> SocketAddr {
        self.galley.addr()
    }

    /// Restarts Galley with the same configuration. Kills the old process if it still runs.
    pub fn restart(&mut self) {
        let config = fs::read_to_string(self.galley.config()).unwrap();
        self.restart_with(&config);
    }

    /// Restarts Galley with another configuration.
    pub fn restart_with(&mut self, config: &str) {
        self.galley.kill();
        let dir = self.scratch.join("galley");
        self.galley = Galley::start_binary(binary(), &dir, config).unwrap();
    }

    /// Waits until `pages` pages are on the disk and none is waiting to be written.
    pub fn wait_for_disk(&self, pages: u64) {
        // A disk that is busy with other work was seen to take fewer than a hundred pages a second.
        wait_for(&format!("{pages} pages on the disk"), 8 * TIMEOUT, || {
            self.status_disk("entries") >= pages && self.status_disk("waiting") == 0
        });
    }

    /// A number of the disk cache in the status.
    pub fn status_disk(&self, name: &str) -> u64 {
        let status = self.status();
        json_number(status.split("\"disk\":").nth(1).unwrap_or_default(), name)
    }

    /// Address of one of several listeners.
    pub fn addr_of(&self, index: usize) -> SocketAddr {
        self.galley.urls()[index]
            .trim_start_matches("http://")
            .parse()
            .unwrap()
    }

    pub fn connect(&self) -> Connection {
        Connection::within(self.addr(), TIMEOUT).unwrap()
    }

    /// Connects from another address of this machine.
    pub fn connect_from(&self, client: Ipv4Addr) -> Connection {
        Connection::from_address(client, self.addr(), TIMEOUT).unwrap()
    }

    /// Sends a request on a new connection, with the host of the site unless the request has one.
    pub fn send(&self, request: Request) -> Response {
        with_host(request).send(self.addr()).unwrap()
    }

    pub fn get(&self, target: &str) -> Response {
        self.send(Request::get(target))
    }

    /// Sends a request on a new connection and does not wait for the response.
    pub fn start_request(&self, target: &str) -> Connection {
        let mut connection = self.connect();
        connection.send(&with_host(Request::get(target))).unwrap();
        connection
    }

    /// Waits until the stored copy is stale, without a fetch.
    pub fn wait_until_stale(&self, target: &str) {
        let only = Request::get(target).field("Cache-Control", "only-if-cached");
        wait_for("the stored copy to be stale", TIMEOUT, || {
            self.send(only.clone()).status == 504
        });
    }

    /// Sends bytes on a new connection and returns everything that the server sends until it closes.
    pub fn send_raw(&self, bytes: &[u8]) -> Vec<u8> {
        let mut connection = self.connect();
        // The server may reject the request and close before it has read all bytes.
        let _ = connection.write(bytes);
        connection.read_to_end().unwrap_or_default()
    }

    /// Sets the response head of a page, one line per field. `Status: 404` sets the status.
    pub fn head(&self, page: &str, lines: &[&str]) {
        self.note(&format!("head{}", note_name(page)), &lines.join("\n"));
    }

    /// Holds the page before it sends its head, until [`TestSite::release`].
    pub fn hold(&self, page: &str) {
        self.note(&format!("hold{}", note_name(page)), "");
    }

    /// Lets later runs of the page pass. Runs that are held stay held.
    pub fn unhold(&self, page: &str) {
        fs::remove_file(self.notes().join(format!("hold{}", note_name(page)))).unwrap();
    }

    pub fn wait_until_held(&self, page: &str) {
        self.wait_for_note(&format!("held{}", note_name(page)));
    }

    pub fn release(&self, page: &str) {
        self.note(&format!("go{}", note_name(page)), "");
    }

    /// Pauses the page after its first bytes, until [`TestSite::resume`].
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

    /// Number of times that PHP has generated the page.
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
        // Atomically, because PHP may read the file at any moment.
        let path = self.notes().join(name);
        let new = self.scratch.join(format!("new-{name}"));
        fs::write(&new, text).unwrap();
        fs::rename(new, path).unwrap();
    }

    pub fn wait_for_note(&self, name: &str) {
        wait_for(name, TIMEOUT, || self.notes().join(name).exists());
    }

    /// Runs `galley purge` against this server, which must succeed.
    pub fn purge(&self, arguments: &[&str]) {
        let output = self.galley.cli(&[&["purge"], arguments].concat()).unwrap();
        assert!(
            output.status.success(),
            "purge {arguments:?}: {}",
            output_text(&output)
        );
    }

    /// Output of `galley status --json`.
    pub fn status(&self) -> String {
        let output = self.galley.cli(&["status", "--json"]).unwrap();
        assert!(output.status.success(), "status: {}", output_text(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    /// The number after the first `"name":` in the status.
    pub fn status_number(&self, name: &str) -> u64 {
        json_number(&self.status(), name)
    }

    /// Output of `galley why --json` for a path of the site.
    pub fn why(&self, target: &str) -> String {
        // With several listeners, the URL has the port of the first.
        let url = match self.galley.urls().as_slice() {
            [_] => format!("http://{HOST}{target}"),
            _ => format!("http://{HOST}:{}{target}", self.addr_of(0).port()),
        };
        let output = self.galley.cli(&["why", "--json", &url]).unwrap();
        assert!(output.status.success(), "why: {}", output_text(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Response of `GET /metrics` on the admin socket.
    pub fn metrics(&self) -> String {
        self.admin("GET /metrics", None, "")
    }

    /// Response of the admin socket to a request such as `POST /reload`, with a token if one is given, and with JSON.
    pub fn admin(&self, request: &str, token: Option<&str>, json: &str) -> String {
        let admin = self.galley.admin().unwrap();
        let mut socket = UnixStream::connect(admin.trim_start_matches("unix:")).unwrap();
        socket.set_read_timeout(Some(TIMEOUT)).unwrap();
        let token = token.map(|token| format!("Authorization: Bearer {token}\r\n"));
        let head = format!(
            "{request} HTTP/1.1\r\nHost: galley\r\n{}Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            token.unwrap_or_default(),
            json.len()
        );
        socket
            .write_all(format!("{head}{json}").as_bytes())
            .unwrap();
        let mut text = String::new();
        socket.read_to_string(&mut text).unwrap();
        text
    }

    /// A number of the small files in memory, from the status.
    pub fn status_small_files(&self, name: &str) -> u64 {
        let status = self.status();
        json_number(
            status.split("\"small_files\":").nth(1).unwrap_or_default(),
            name,
        )
    }

    /// Content of the access log.
    pub fn access(&self) -> String {
        fs::read_to_string(self.scratch.join("access.log")).unwrap_or_default()
    }

    /// Waits for a line of the access log that contains `expected` and returns the first.
    pub fn access_line(&self, expected: &str) -> String {
        let mut found = String::new();
        wait_for(&format!("`{expected}` in the access log"), TIMEOUT, || {
            let log = self.access();
            log.lines()
                .find(|line| line.contains(expected))
                .unwrap_or_default()
                .clone_into(&mut found);
            !found.is_empty()
        });
        found
    }

    /// Peak resident memory of the server, in bytes.
    pub fn peak_memory(&self) -> u64 {
        let text = fs::read_to_string(format!("/proc/{}/status", self.galley.pid())).unwrap();
        let line = text
            .lines()
            .find(|line| line.starts_with("VmHWM:"))
            .unwrap();
        let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        kib * 1024
    }

    /// Growth of the peak since an earlier one, in bytes. Linux 6.2 and later count pages per processor and record the peak
    /// from an approximate sum, so a later peak can be lower.
    pub fn grown_since(&self, peak: u64) -> u64 {
        self.peak_memory().saturating_sub(peak)
    }
}
