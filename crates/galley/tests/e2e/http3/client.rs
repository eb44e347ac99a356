//! Runs `client.py`, an HTTP/3 client on aioquic, which `scripts/setup` installs.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};

use galley_testkit::wait_for;
use serde_json::{Value, json};

use crate::support::{HOST, SiteBuilder, TIMEOUT, TestSite};
use crate::tls_support::{Authority, curl, over_tls, tls_addr};

/// A started client. It is killed when this is dropped, also by a test that fails.
pub struct RunningClient {
    child: Child,
    /// What it writes to its standard error: a pipe that nobody reads would stop it.
    errors: Option<JoinHandle<String>>,
}

/// A site with a listener for HTTP/3.
pub fn start(builder: SiteBuilder) -> TestSite {
    let builder = builder.server("listen_quic = [\"127.0.0.1:0\"]");
    over_tls(builder, &Authority::new()).start()
}

/// A request.
pub fn fields(method: &str, path: &str) -> Vec<(String, String)> {
    let line = [
        (":method", method),
        (":scheme", "https"),
        (":authority", HOST),
        (":path", path),
    ];
    line.map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec()
}

/// A stream with a request without a body.
pub fn get(path: &str) -> Value {
    json!({ "fields": fields("GET", path) })
}

/// The port that `Alt-Svc` advertises.
pub fn quic_port(site: &TestSite) -> u16 {
    let url = format!("https://{HOST}:{}/", tls_addr(site).port());
    let mut port = None;
    wait_for("an Alt-Svc field", TIMEOUT, || {
        let head = curl(site, HOST, &["--head", &url]);
        let rest = head.split("h3=\":").nth(1);
        let digits = rest.and_then(|rest| rest.split('"').next());
        port = digits.and_then(|digits| digits.parse().ok());
        port.is_some()
    });
    port.unwrap()
}

/// Starts a client with a scenario as `client.py` describes it, except for the port, the host and the authority.
pub fn run(site: &TestSite, scenario: Value) -> RunningClient {
    run_at(quic_port(site), site, scenario)
}

/// As [`run`], without a request that asks for the port.
pub fn run_at(port: u16, site: &TestSite, scenario: Value) -> RunningClient {
    run_trusting(&site.scratch.join("ca.pem"), port, scenario)
}

/// As [`run_at`], with the file of the authority.
pub fn run_trusting(authority: &Path, port: u16, mut scenario: Value) -> RunningClient {
    scenario["port"] = port.into();
    scenario["host"] = HOST.into();
    scenario["ca"] = authority.to_str().into();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/http3/client.py");
    let mut child = Command::new(python())
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(scenario.to_string().as_bytes()).unwrap();
    let mut stderr = child.stderr.take().unwrap();
    let errors = thread::spawn(move || {
        let mut text = Vec::new();
        stderr.read_to_end(&mut text).unwrap();
        String::from_utf8_lossy(&text).into_owned()
    });
    RunningClient {
        child,
        errors: Some(errors),
    }
}

impl RunningClient {
    /// Ends it without a word to the server.
    pub fn vanish(self) {
        drop(self);
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// What happened.
    pub fn result(mut self) -> Value {
        let mut output = Vec::new();
        let mut stdout = self.child.stdout.take().unwrap();
        stdout.read_to_end(&mut output).unwrap();
        let status = self.child.wait().unwrap();
        let errors = self.errors.take().unwrap().join().unwrap();
        let text = String::from_utf8_lossy(&output);
        assert!(status.success(), "{text}{errors}");
        serde_json::from_slice(&output).unwrap()
    }
}

impl Drop for RunningClient {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What happens on streams that are opened one after the other, without waiting for responses.
pub fn streams(site: &TestSite, streams: &[Value]) -> Vec<Value> {
    let mut result = run(site, json!({ "streams": streams })).result();
    serde_json::from_value(result["streams"].take()).unwrap()
}

/// The Python of the environment that has aioquic.
fn python() -> PathBuf {
    installed("GALLEY_AIOQUIC", "aioquic-1.7.2", "bin/python")
}

/// A program that `scripts/setup` has put into a folder of the cache, or into the one that a variable names.
pub fn installed(variable: &str, folder: &str, program: &str) -> PathBuf {
    let configured = std::env::var_os(variable).map(PathBuf::from);
    let cache = || {
        let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        cache
            .unwrap_or_else(|| PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cache"))
            .join("galley")
            .join(folder)
    };
    let path = configured.unwrap_or_else(cache).join(program);
    assert!(
        path.is_file(),
        "{} is missing: run `scripts/setup test`",
        path.display()
    );
    path
}
