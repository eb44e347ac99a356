//! The site dashboard on a TLS listener without a proxy: it works over HTTP/1.1 and HTTP/2, and is refused over plain HTTP.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use galley_testkit::origin::Origin;
use galley_testkit::{Chromium, Galley, Scratch};
use rcgen::{CertifiedKey, PublicKeyData as _, generate_simple_self_signed};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// `secret`
const PASSWORDS: &str = "jane:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n";

/// The option of curl and the beginning of its status line for each protocol.
const PROTOCOLS: [(&str, &str); 2] = [("--http1.1", "HTTP/1.1 "), ("--http2", "HTTP/2 ")];

struct TlsServer {
    galley: Galley,
    scratch: Scratch,
    /// The pin with which a browser accepts the certificate.
    pin: String,
    _origin: Origin,
}

/// A response received by curl.
struct CurlResponse {
    head: String,
    body: String,
}

impl CurlResponse {
    fn status(&self) -> u16 {
        let status = self.head.split(' ').nth(1).unwrap();
        status.trim().parse().unwrap()
    }

    fn field(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (field, value) = line.split_once(": ")?;
            field.eq_ignore_ascii_case(name).then_some(value.trim())
        })
    }

    #[track_caller]
    fn expect_status(self, status: u16) -> Self {
        assert_eq!(self.status(), status, "{}\n{}", self.head, self.body);
        self
    }
}

impl TlsServer {
    fn start() -> Self {
        let page = [
            ("Content-Type", "text/html"),
            ("Cache-Control", "max-age=600"),
        ];
        let origin = Origin::constant(&page, "<html>the site</html>").unwrap();
        let scratch = Scratch::new().unwrap();
        scratch.write("passwords", PASSWORDS).unwrap();
        let pin = write_certificate(scratch.path());
        let (dir, up) = (scratch.path().display(), origin.url());
        let text = format!(
            "[server]\nlisten = [\"127.0.0.1:0\"]\nlisten_tls = [\"127.0.0.1:0\"]\nh2c = true\n\
             [admin]\nlisten = \"unix:{dir}/admin.sock\"\n[cache]\nmemory = \"64MiB\"\n[log]\naccess = \"off\"\n\
             [[site]]\nhosts = [\"a.test\", \"localhost\"]\nupstream = [\"{up}\"]\nhttps_redirect = false\n\
             tls = {{ cert = \"{dir}/site.pem\", key = \"{dir}/site.key\" }}\n\
             dashboard = \"/galley/\"\ndashboard_auth = \"{dir}/passwords\"\n\
             [[site]]\nhosts = [\"neighbor.test\"]\nupstream = [\"{up}\"]\n\
             tls = {{ cert = \"{dir}/site.pem\", key = \"{dir}/site.key\" }}\n"
        );
        let binary = Path::new(env!("CARGO_BIN_EXE_galley"));
        let galley = Galley::start_binary(binary, &scratch.join("galley"), &text).unwrap();
        Self {
            galley,
            scratch,
            pin,
            _origin: origin,
        }
    }

    /// Returns the origin of a host on the listener for a scheme.
    fn origin(&self, scheme: &str, host: &str) -> String {
        let urls = self.galley.urls();
        let begin = format!("{scheme}://");
        let found = urls.iter().find_map(|url| url.strip_prefix(&begin));
        let (_, port) = found
            .unwrap()
            .trim_end_matches('/')
            .rsplit_once(':')
            .unwrap();
        format!("{begin}{host}:{port}")
    }

    fn cookie_jar(&self) -> PathBuf {
        self.scratch.join("cookies")
    }

    /// Sends a request with curl, which handles cookies like browsers: `Secure` cookies are sent only over TLS.
    fn curl(&self, url: &str, arguments: &[&str]) -> CurlResponse {
        let authority = url.split('/').nth(2).unwrap();
        let output = Command::new("curl")
            .args(["-sS", "-i", "--noproxy", "*", "--resolve"])
            .arg(format!("{authority}:127.0.0.1"))
            .arg("--cacert")
            .arg(self.scratch.join("site.pem"))
            .arg("--cookie-jar")
            .arg(self.cookie_jar())
            .arg("--cookie")
            .arg(self.cookie_jar())
            .args(arguments)
            .arg(url)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let parts = text.split_once("\r\n\r\n");
        let (head, body) = parts.unwrap_or_else(|| panic!("{url}: {output:?}"));
        CurlResponse {
            head: head.to_owned(),
            body: body.to_owned(),
        }
    }

    /// Sends a `POST` as the page does, with JSON and an origin.
    fn post(&self, url: &str, origin: &str, body: &Value, more: &[&str]) -> CurlResponse {
        let (origin, body) = (format!("Origin: {origin}"), body.to_string());
        let json = ["-H", "Content-Type: application/json", "-H", &origin];
        self.curl(url, &[&json[..], &["-d", &body], more].concat())
    }

    fn log_in(&self, protocol: &str, (name, password): (&str, &str)) -> CurlResponse {
        let site = self.origin("https", "a.test");
        let body = json!({ "name": name, "password": password });
        self.post(&format!("{site}/galley/login"), &site, &body, &[protocol])
    }

    /// Logs in and returns the `X-Galley-Key` field that belongs to the cookie in the jar.
    fn session_key(&self, protocol: &str) -> String {
        let response = self.log_in(protocol, ("jane", "secret")).expect_status(200);
        let value: Value = serde_json::from_str(&response.body).unwrap();
        format!("X-Galley-Key: {}", value["key"].as_str().unwrap())
    }
}

/// Writes a certificate and its key, and returns the key's pin (RFC 7469 section 2.4).
fn write_certificate(dir: &Path) -> String {
    let hosts = ["a.test", "localhost", "neighbor.test"].map(str::to_owned);
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(hosts).unwrap();
    let key = dir.join("site.key");
    fs::write(dir.join("site.pem"), cert.pem()).unwrap();
    fs::write(&key, signing_key.serialize_pem()).unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    STANDARD.encode(Sha256::digest(signing_key.subject_public_key_info()))
}

#[test]
fn password_login_works_over_http1_and_http2() {
    let server = TlsServer::start();
    let site = server.origin("https", "a.test");
    let status = format!("{site}/galley/api/status");
    for (protocol, word) in PROTOCOLS {
        let _ = fs::remove_file(server.cookie_jar());
        let page = server
            .curl(&format!("{site}/galley/"), &[protocol])
            .expect_status(200);
        assert!(page.head.starts_with(word), "{}", page.head);
        assert!(page.body.contains("data-login=\"password\""));
        assert_eq!(page.field("cache-control"), Some("no-store"));
        server.curl(&status, &[protocol]).expect_status(401);
        for wrong in [("jane", "wrong"), ("joe", "secret"), ("jane", "")] {
            let refused = server.log_in(protocol, wrong).expect_status(403);
            assert_eq!(refused.field("set-cookie"), None, "{wrong:?}");
        }
        let key = server.session_key(protocol);
        let shown = server
            .curl(&status, &[protocol, "-H", &key])
            .expect_status(200);
        assert!(shown.head.starts_with(word) && shown.body.contains("a.test"));
        assert!(
            !shown.body.contains("neighbor.test"),
            "another name of a shared certificate: {}",
            shown.body
        );
        // Neither the cookie nor the key is sufficient alone.
        server.curl(&status, &[protocol]).expect_status(401);
        let key_only = [protocol, "-H", &key, "--cookie", "none=1"];
        let jar = fs::read(server.cookie_jar()).unwrap();
        fs::remove_file(server.cookie_jar()).unwrap();
        server.curl(&status, &key_only).expect_status(401);
        fs::write(server.cookie_jar(), jar).unwrap();
        // The session is also valid over the other protocol.
        for (other, _) in PROTOCOLS {
            server
                .curl(&status, &[other, "-H", &key])
                .expect_status(200);
        }
        let logout = format!("{site}/galley/api/logout");
        let response = server.post(&logout, &site, &json!({}), &[protocol, "-H", &key]);
        assert!(
            response
                .expect_status(200)
                .field("set-cookie")
                .unwrap()
                .contains("Max-Age=0")
        );
        server
            .curl(&status, &[protocol, "-H", &key])
            .expect_status(401);
    }
}

#[test]
fn the_session_cookie_is_limited_to_the_path_and_tls() {
    let server = TlsServer::start();
    for (protocol, _) in PROTOCOLS {
        let response = server
            .log_in(protocol, ("jane", "secret"))
            .expect_status(200);
        let cookie = response.field("set-cookie").unwrap();
        let begin = "__Secure-galley-dashboard=";
        assert!(cookie.starts_with(begin), "{cookie}");
        for part in [
            "; HttpOnly",
            "; SameSite=Strict",
            "; Secure",
            "; Path=/galley/",
        ] {
            assert!(cookie.contains(part), "{cookie}");
        }
        assert!(!cookie.contains("Domain"), "{cookie}");
    }
}

#[test]
fn post_requests_need_the_origin_of_the_page() {
    let server = TlsServer::start();
    let site = server.origin("https", "a.test");
    let purge = format!("{site}/galley/api/purge");
    let all = json!({ "all": true });
    for (protocol, _) in PROTOCOLS {
        let key = server.session_key(protocol);
        let key = ["-H", key.as_str(), protocol];
        for foreign in [
            &server.origin("http", "a.test"),
            &site.replace("https", "http"),
            "https://a.test",
            "https://b.test",
            "null",
        ] {
            server.post(&purge, foreign, &all, &key).expect_status(403);
        }
        server.post(&purge, &site, &all, &key).expect_status(200);
    }
}

#[test]
fn plain_http_requests_get_403() {
    let server = TlsServer::start();
    let plain = server.origin("http", "a.test");
    let key = server.session_key("--http1.1");
    for protocol in ["--http1.1", "--http2-prior-knowledge"] {
        for path in ["/galley/", "/galley/app.js", "/galley/api/status"] {
            for forged in [
                "X-Nothing: 1",
                "X-Forwarded-Proto: https",
                "Forwarded: proto=https",
            ] {
                let url = format!("{plain}{path}");
                let response = server
                    .curl(&url, &[protocol, "-H", forged, "-H", &key])
                    .expect_status(403);
                let status = response.field("cache-status").unwrap();
                assert!(status.contains("detail=needs-tls"), "{path}: {status}");
                assert!(!response.body.contains("data-login"), "{}", response.body);
            }
        }
        let body = json!({ "name": "jane", "password": "secret" });
        let url = format!("{plain}/galley/login");
        let response = server
            .post(&url, &plain, &body, &[protocol])
            .expect_status(403);
        assert_eq!(response.field("set-cookie"), None);
    }
    // Pages of the site are served over plain HTTP.
    server
        .curl(&format!("{plain}/page/"), &[])
        .expect_status(200);
}

#[test]
fn the_dashboard_works_in_chromium_over_http2() {
    let server = TlsServer::start();
    let scratch = Scratch::new().unwrap();
    let mut browser = Chromium::start_trusting(&scratch.join("chromium"), &server.pin).unwrap();
    let mut tab = browser.new_tab().unwrap();
    let site = server.origin("https", "localhost");
    server
        .curl(&format!("{site}/page/"), &[])
        .expect_status(200);
    tab.navigate(&format!("{site}/galley/")).unwrap();
    tab.wait("document.querySelector('#password')").unwrap();
    let protocol = "performance.getEntriesByType('navigation')[0].nextHopProtocol";
    assert_eq!(tab.evaluate(protocol).unwrap(), json!("h2"));
    for (password, until) in [
        (
            "wrong",
            "document.querySelector('#trouble').innerText.includes('wrong')",
        ),
        (
            "secret",
            "Number(document.documentElement.dataset.samples) >= 2",
        ),
    ] {
        tab.evaluate(&format!(
            "document.querySelector('#name').value = 'jane'; document.querySelector('#password').value = '{password}'"
        ))
        .unwrap();
        tab.click("main form button").unwrap();
        tab.wait(until).unwrap();
    }
    assert_eq!(tab.evaluate("document.cookie").unwrap(), json!(""));
    super::browser::open(&mut tab, "pages");
    assert!(super::browser::main_text(&mut tab).contains("/page/"));
    tab.click("#purge-site").unwrap();
    tab.click("#confirm-yes").unwrap();
    tab.wait("document.querySelector('#result').innerText.startsWith('Purged ')")
        .unwrap();
    let page = server
        .curl(&format!("{site}/page/"), &[])
        .expect_status(200);
    let status = page.field("cache-status").unwrap();
    assert!(!status.contains("; hit"), "{status}");
    tab.click("#logout").unwrap();
    tab.wait("document.querySelector('#password')").unwrap();
}
