//! A server with two sites in front of one scripted upstream, and requests to its admin interface.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use galley_testkit::client::{Request, Response};
use galley_testkit::origin::Origin;
use galley_testkit::{Galley, Scratch};
use serde_json::Value;

pub const SERVER_TOKEN: &str = "server-token-0123456789";
pub const SITE_TOKEN: &str = "site-a-token-0123456789";
/// The host of the HTTP/2 client if a request names none.
pub const HOST: &str = "a.test";
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// A running server. Field order matters: the server stops before its upstream.
pub struct TestServer {
    pub galley: Galley,
    pub origin: Origin,
    scratch: Scratch,
}

impl TestServer {
    /// Starts a server with the sites `a.test` and `any.b.test`. `lines` are added to the first site.
    pub fn start(lines: &str) -> Self {
        let origin = Origin::start(|request, writer| {
            let path = request.path().to_owned();
            let tag = format!("t{}", path.len() % 7);
            let mut fields = vec![
                ("Content-Type", "text/html"),
                ("Cache-Control", "max-age=600"),
                ("Cache-Tag", tag.as_str()),
            ];
            match path.as_str() {
                "/session/" => fields.push(("Set-Cookie", "PHPSESSID=topsecret; path=/")),
                "/private/" => fields[1] = ("Cache-Control", "private, max-age=600"),
                "/brief/" => {
                    fields[1] = ("Cache-Control", "max-age=600, stale-while-revalidate=60");
                }
                "/stale/" => {
                    fields[1] = ("Cache-Control", "max-age=0, stale-while-revalidate=600");
                }
                "/fallback/" => {
                    fields[1] = ("Cache-Control", "max-age=0, stale-if-error=600");
                }
                "/search/" => fields.push(("No-Vary-Search", "params=(\"a\")")),
                // WordPress's `nocache_headers`.
                "/nocache/" => {
                    fields[1] = ("Cache-Control", "no-cache, must-revalidate, max-age=0");
                    fields.push(("Expires", "Wed, 11 Jan 1984 05:00:00 GMT"));
                }
                "/expired/" => fields[1] = ("Expires", "Wed, 11 Jan 1984 05:00:00 GMT"),
                "/teapot/" | "/moved/" => {
                    let status = if path == "/moved/" { 302 } else { 418 };
                    return assert!(writer.respond(status, &fields, b"<html></html>"));
                }
                "/languages/" => fields.push(("Vary", "Accept-Language")),
                "/empty/" => {
                    return assert!(writer.respond(200, &fields, b"<html>oops"));
                }
                _ => {}
            }
            let body = format!("<html>{path}</html>");
            let _ = writer.respond(200, &fields, body.as_bytes());
        })
        .unwrap();
        let scratch = Scratch::new().unwrap();
        scratch.write("root/style.css", "body{}").unwrap();
        scratch.write("root/.env", "SECRET=1").unwrap();
        scratch.dir("root/folder").unwrap();
        let token = |name: &str, text: &str| {
            let path = scratch.join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            path.display().to_string()
        };
        let (server, a) = (
            token("server.token", SERVER_TOKEN),
            token("a.token", SITE_TOKEN),
        );
        let (root, up) = (scratch.join("root"), origin.url());
        let text = format!(
            "[server]\nlisten = [\"127.0.0.1:0\"]\n[admin]\nlisten = \"127.0.0.1:0\"\ntoken_file = \"{server}\"\n\
             [cache]\nmemory = \"64MiB\"\n[log]\naccess = \"off\"\n\
             [[site]]\nhosts = [\"a.test\"]\nroot = \"{}\"\nupstream = [\"{up}\"]\ntoken_file = \"{a}\"\n{lines}\n\
             [[site]]\nhosts = [\"*.b.test\"]\nupstream = [\"{up}\"]\n",
            root.display()
        );
        let binary = Path::new(env!("CARGO_BIN_EXE_galley"));
        let galley = Galley::start_binary(binary, &scratch.join("galley"), &text).unwrap();
        Self {
            galley,
            origin,
            scratch,
        }
    }

    /// Sends a request, to `a.test` unless it names a host.
    pub fn send(&self, request: Request) -> Response {
        let names_host = |(name, _): &(String, Vec<u8>)| name.eq_ignore_ascii_case("host");
        let request = if request.fields.iter().any(names_host) {
            request
        } else {
            request.host("a.test")
        };
        request.send(self.galley.addr()).unwrap()
    }

    pub fn get(&self, target: &str) -> Response {
        self.send(Request::get(target))
    }

    fn admin_url(&self) -> String {
        self.galley.admin().unwrap()
    }

    /// Sends a request to the admin interface.
    pub fn admin(&self, request: Request, token: &str) -> Response {
        let address = self.admin_url();
        let address = address.trim_start_matches("http://").parse().unwrap();
        let request = request.field("Authorization", format!("Bearer {token}"));
        request.send(address).unwrap()
    }

    /// The JSON of a successful admin request.
    #[track_caller]
    pub fn json(&self, path: &str, token: &str) -> Value {
        let response = self.admin(Request::get(path), token);
        assert_eq!(response.status, 200, "{path}: {}", response.text());
        serde_json::from_slice(&response.body).unwrap()
    }

    /// `POST /why` for a `GET`, with the token of the server.
    #[track_caller]
    pub fn why(&self, url: &str, headers: &[(&str, &str)]) -> Value {
        self.why_for_method("GET", url, headers)
    }

    #[track_caller]
    pub fn why_for_method(&self, method: &str, url: &str, headers: &[(&str, &str)]) -> Value {
        let response = self.why_with_token(SERVER_TOKEN, method, url, headers);
        assert_eq!(response.status, 200, "{url}: {}", response.text());
        serde_json::from_slice(&response.body).unwrap()
    }

    pub fn why_with_token(
        &self,
        token: &str,
        method: &str,
        url: &str,
        headers: &[(&str, &str)],
    ) -> Response {
        let body = serde_json::json!({ "url": url, "method": method, "headers": headers });
        let request = Request::post("/why", "application/json", body.to_string());
        self.admin(request, token)
    }

    /// Runs a `galley` command against this server, which must succeed, and returns its output.
    #[track_caller]
    pub fn command(&self, arguments: &[&str]) -> String {
        let output = Command::new(env!("CARGO_BIN_EXE_galley"))
            .args(arguments)
            .arg("--admin")
            .arg(self.admin_url())
            .arg("--token-file")
            .arg(self.token_file())
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(
            output.status.success(),
            "{arguments:?}: {}",
            text(&output.stderr)
        );
        text(&output.stdout)
    }

    fn token_file(&self) -> PathBuf {
        self.scratch.join("server.token")
    }
}

/// The outcome of a request, from its `Cache-Status`.
pub fn outcome(response: &Response) -> &'static str {
    let status = response.field("cache-status").unwrap_or_default();
    let has = |text: &str| status.contains(text);
    if has("; hit") {
        if has("ttl=-") || has("detail=") {
            "stale"
        } else {
            "hit"
        }
    } else if has("fwd=uri-miss") || has("fwd=stale") {
        "miss"
    } else if has("fwd=") {
        "pass"
    } else if has("detail=file") {
        "file"
    } else if has("detail=redirect") {
        "redirect"
    } else if has("detail=purge") {
        "purge"
    } else {
        "refused"
    }
}
