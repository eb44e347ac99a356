//! A Galley server with two sites, and dashboards that connect to it.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;

use galley_testkit::client::{Request, Response};
use galley_testkit::origin::Origin;
use galley_testkit::{Galley, Scratch, wait_for};
use serde_json::{Value, json};

pub const TIMEOUT: Duration = Duration::from_secs(60);
const SERVER_TOKEN: &str = "server-token-0123456789";
const SITE_TOKEN: &str = "site-a-token-0123456789";

/// Markup that must be shown as text, whatever its source.
pub const MARKUP: &str = "<img/src=x/onerror=hacked=1>";

const HOSTILE_COOKIE: &str = "a<img/src=x/onerror=hacked=1>=\"><script>hacked=1</script>";

/// The purges of an edit, as the plugin sends them.
const EDIT: &str =
    "id=k1,label=Edit%20of%20%E2%80%9CThe%20ferry%20runs%20again%E2%80%9D,t1,/hello/";

/// A running server, which stops before its origin.
pub struct TestServer {
    pub galley: Galley,
    pub scratch: Scratch,
    origin: Option<Origin>,
}

impl TestServer {
    /// Starts a server with the sites `a.test`, which has a site token, and `b.test`.
    pub fn start() -> Self {
        let origin = Origin::start(|request, writer| {
            let path = request.path().to_owned();
            let tags = format!("t1,{MARKUP}");
            let mut fields = vec![
                ("Content-Type", "text/html"),
                ("Cache-Control", "max-age=600"),
                ("Cache-Tag", tags.as_str()),
            ];
            if path.starts_with("/set-cookie/") {
                fields.push(("Set-Cookie", HOSTILE_COOKIE));
            }
            if path == "/edit/" {
                fields.extend([("Galley-Plugin", "1"), ("Galley-Purge", EDIT)]);
            }
            if path == "/cart/" {
                fields[1] = ("Cache-Control", "private, no-store");
            }
            let _ = writer.respond(200, &fields, format!("<html>{path}</html>").as_bytes());
        })
        .unwrap();
        let scratch = Scratch::new().unwrap();
        for (name, text) in [("server.token", SERVER_TOKEN), ("site.token", SITE_TOKEN)] {
            fs::write(scratch.join(name), text).unwrap();
            let mode = fs::Permissions::from_mode(0o600);
            fs::set_permissions(scratch.join(name), mode).unwrap();
        }
        let token = |name: &str| scratch.join(name).display().to_string();
        let text = format!(
            "[server]\nlisten = [\"127.0.0.1:0\"]\n[admin]\nlisten = \"127.0.0.1:0\"\ntoken_file = \"{}\"\n\
             [cache]\nmemory = \"64MiB\"\n[log]\naccess = \"off\"\n\
             [[site]]\nhosts = [\"a.test\"]\nupstream = [\"{up}\"]\ntoken_file = \"{}\"\n\
             [[site]]\nhosts = [\"b.test\"]\nupstream = [\"{up}\"]\n",
            token("server.token"),
            token("site.token"),
            up = origin.url(),
        );
        let binary = Path::new(env!("CARGO_BIN_EXE_galley"));
        let galley = Galley::start_binary(binary, &scratch.join("galley"), &text).unwrap();
        Self {
            galley,
            scratch,
            origin: Some(origin),
        }
    }

    /// Stops the origin, so that no request to it is answered.
    pub fn stop_origin(&mut self) {
        drop(self.origin.take());
    }

    /// Reloads with an invalid file, which the server refuses. The file is as before after that.
    pub fn refuse_reload(&mut self) {
        let file = self.galley.config();
        let text = fs::read_to_string(file).unwrap();
        fs::write(file, format!("{text}unknown_option = 1\n")).unwrap();
        self.galley.signal(rustix::process::Signal::HUP);
        self.galley
            .wait_for_log("the old configuration remains in use", TIMEOUT);
        fs::write(file, text).unwrap();
    }

    /// Sends a visitor's request.
    pub fn get(&self, host: &str, target: &str) -> Response {
        let request = Request::get(target).host(host);
        request.send(self.galley.addr()).unwrap()
    }

    /// Requests a page until it is a hit.
    pub fn store(&self, host: &str, target: &str) {
        wait_for("the page in memory", TIMEOUT, || {
            self.get(host, target).is_hit()
        });
    }

    /// Starts a dashboard with the token of the server.
    pub fn dashboard(&self) -> Dashboard {
        Dashboard::start(&self.galley.admin().unwrap(), &self.token_file("server"))
    }

    /// Starts a dashboard with the token of `a.test`.
    pub fn site_dashboard(&self) -> Dashboard {
        Dashboard::start(&self.galley.admin().unwrap(), &self.token_file("site"))
    }

    fn token_file(&self, name: &str) -> PathBuf {
        self.scratch.join(format!("{name}.token"))
    }
}

/// A running `galley dashboard`, stopped when dropped.
pub struct Dashboard {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    pub addr: SocketAddr,
    first_url: Option<String>,
}

/// The secrets of a session, which a browser has after the login.
#[derive(Clone, Debug)]
pub struct Session {
    pub cookie: String,
    pub key: String,
}

impl Dashboard {
    pub fn start(admin: &str, token_file: &Path) -> Self {
        Self::run(&[
            "--admin",
            admin,
            "--token-file",
            token_file.to_str().unwrap(),
        ])
    }

    pub fn run(arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_galley"))
            .args(["dashboard", "--no-open"])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let first_url = read_url(&mut output);
        let host = first_url.strip_prefix("http://").unwrap();
        let addr = host.split_once('/').unwrap().0.parse().unwrap();
        Self {
            child,
            input,
            output,
            addr,
            first_url: Some(first_url),
        }
    }

    /// Stops it with `SIGTERM`.
    pub fn terminate(mut self) -> ExitStatus {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        self.child.wait().unwrap()
    }

    /// Returns a URL with an unused login token.
    pub fn url(&mut self) -> String {
        self.first_url.take().unwrap_or_else(|| {
            self.input.write_all(b"\n").unwrap();
            read_url(&mut self.output)
        })
    }

    pub fn token(&mut self) -> String {
        let url = self.url();
        url.split_once("#login=").unwrap().1.to_owned()
    }

    /// Returns a `POST` as the page sends it, with JSON and the origin of the page.
    pub fn post(&self, target: &str, body: &Value) -> Request {
        Request::post(target, "application/json", body.to_string())
            .field("Origin", format!("http://{}", self.addr))
    }

    #[expect(
        clippy::needless_pass_by_value,
        reason = "requests are built where they are sent"
    )]
    pub fn send(&self, request: Request) -> Response {
        request.send(self.addr).unwrap()
    }

    /// Asserts the status of a response.
    #[track_caller]
    pub fn assert_status(&self, request: Request, status: u16) {
        drop(self.send(request).expect_status(status));
    }

    pub fn try_login(&self, token: &str) -> Response {
        self.send(self.post("/login", &json!({ "token": token })))
    }

    pub fn log_in(&mut self) -> Session {
        let token = self.token();
        let response = self.try_login(&token).expect_status(200);
        let cookie = response.field("set-cookie").unwrap();
        Session {
            cookie: cookie.split(';').next().unwrap().to_owned(),
            key: parse_json(&response)["key"].as_str().unwrap().to_owned(),
        }
    }

    /// Sends a `GET` and returns the JSON of its response.
    #[track_caller]
    pub fn json(&self, session: &Session, target: &str) -> Value {
        parse_json(
            &self
                .send(session.authorize(Request::get(target)))
                .expect_status(200),
        )
    }
}

impl Session {
    /// Adds the cookie and the key to a request.
    pub fn authorize(&self, request: Request) -> Request {
        request
            .cookie(&self.cookie)
            .field("X-Galley-Key", &self.key)
    }
}

impl Drop for Dashboard {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads the next login URL.
fn read_url(output: &mut BufReader<ChildStdout>) -> String {
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert!(line.starts_with("http://127.0.0.1:"), "{line:?}");
    line.trim().to_owned()
}

/// Parses the JSON body of a response.
pub fn parse_json(response: &Response) -> Value {
    serde_json::from_slice(&response.body).unwrap()
}
