//! The dashboard of a site on a listener that speaks TLS itself, without a proxy: over HTTP/1.1 and HTTP/2, and not at all in plain.

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

/// curl's option, and its name for the protocol.
const PROTOCOLS: [(&str, &str); 2] = [("--http1.1", "HTTP/1.1 "), ("--http2", "HTTP/2 ")];

struct TlsStage {
    galley: Galley,
    scratch: Scratch,
    /// What a browser must be told to take the certificate.
    pin: String,
    _origin: Origin,
}

/// What curl got.
struct Answer {
    head: String,
    body: String,
}

impl Answer {
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
    fn is(self, status: u16) -> Self {
        assert_eq!(self.status(), status, "{}\n{}", self.head, self.body);
        self
    }
}

impl TlsStage {
    fn start() -> Self {
        let page = [
            ("Content-Type", "text/html"),
            ("Cache-Control", "max-age=600"),
        ];
        let origin = Origin::constant(&page, "<html>the site</html>").unwrap();
        let scratch = Scratch::new().unwrap();
        scratch.write("passwords", PASSWORDS).unwrap();
        let pin = certify(scratch.path());
        let (dir, up) = (scratch.path().display(), origin.url());
        let text = format!(
            "[server]\nlisten = [\"127.0.0.1:0\"]\nlisten_tls = [\"127.0.0.1:0\"]\nh2c = true\n\
             [admin]\nlisten = \"unix:{dir}/admin.sock\"\n[cache]\nmemory = \"64MiB\"\n[log]\naccess = \"off\"\n\
             [[site]]\nhosts = [\"a.test\", \"localhost\"]\nupstream = [\"{up}\"]\nhttps_redirect = false\n\
             tls = {{ cert = \"{dir}/site.pem\", key = \"{dir}/site.key\" }}\n\
             dashboard = \"/galley/\"\ndashboard_auth = \"{dir}/passwords\"\n"
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

    /// Scheme, host and port of a listener.
    fn at(&self, scheme: &str, host: &str) -> String {
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

    fn jar(&self) -> PathBuf {
        self.scratch.join("cookies")
    }

    /// Asks with curl, which keeps cookies as browsers do: those of TLS are sent over TLS only.
    fn ask(&self, url: &str, arguments: &[&str]) -> Answer {
        let authority = url.split('/').nth(2).unwrap();
        let output = Command::new("curl")
            .args(["-sS", "-i", "--noproxy", "*", "--resolve"])
            .arg(format!("{authority}:127.0.0.1"))
            .arg("--cacert")
            .arg(self.scratch.join("site.pem"))
            .arg("--cookie-jar")
            .arg(self.jar())
            .arg("--cookie")
            .arg(self.jar())
            .args(arguments)
            .arg(url)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let parts = text.split_once("\r\n\r\n");
        let (head, body) = parts.unwrap_or_else(|| panic!("{url}: {output:?}"));
        Answer {
            head: head.to_owned(),
            body: body.to_owned(),
        }
    }

    /// Sends what the page sends: JSON with an origin.
    fn order(&self, url: &str, origin: &str, body: &Value, more: &[&str]) -> Answer {
        let (origin, body) = (format!("Origin: {origin}"), body.to_string());
        let json = ["-H", "Content-Type: application/json", "-H", &origin];
        self.ask(url, &[&json[..], &["-d", &body], more].concat())
    }

    fn log_in(&self, protocol: &str, (name, password): (&str, &str)) -> Answer {
        let site = self.at("https", "a.test");
        let body = json!({ "name": name, "password": password });
        self.order(&format!("{site}/galley/login"), &site, &body, &[protocol])
    }

    /// Signs in; the key that goes with the cookie in the jar.
    fn session(&self, protocol: &str) -> String {
        let answer = self.log_in(protocol, ("jane", "secret")).is(200);
        let value: Value = serde_json::from_str(&answer.body).unwrap();
        format!("X-Galley-Key: {}", value["key"].as_str().unwrap())
    }
}

/// Writes a certificate and its key; gives the key's pin (RFC 7469 section 2.4).
fn certify(dir: &Path) -> String {
    let hosts = ["a.test".to_owned(), "localhost".to_owned()];
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(hosts).unwrap();
    let key = dir.join("site.key");
    fs::write(dir.join("site.pem"), cert.pem()).unwrap();
    fs::write(&key, signing_key.serialize_pem()).unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    STANDARD.encode(Sha256::digest(signing_key.subject_public_key_info()))
}

#[test]
fn a_password_opens_it_over_every_protocol() {
    let stage = TlsStage::start();
    let site = stage.at("https", "a.test");
    let status = format!("{site}/galley/api/status");
    for (protocol, word) in PROTOCOLS {
        let _ = fs::remove_file(stage.jar());
        let page = stage.ask(&format!("{site}/galley/"), &[protocol]).is(200);
        assert!(page.head.starts_with(word), "{}", page.head);
        assert!(page.body.contains("data-login=\"password\""));
        assert_eq!(page.field("cache-control"), Some("no-store"));
        stage.ask(&status, &[protocol]).is(401);
        for wrong in [("jane", "wrong"), ("joe", "secret"), ("jane", "")] {
            let refused = stage.log_in(protocol, wrong).is(403);
            assert_eq!(refused.field("set-cookie"), None, "{wrong:?}");
        }
        let key = stage.session(protocol);
        let shown = stage.ask(&status, &[protocol, "-H", &key]).is(200);
        assert!(shown.head.starts_with(word) && shown.body.contains("a.test"));
        // The cookie alone, or the key alone, is no session.
        stage.ask(&status, &[protocol]).is(401);
        let alone = [protocol, "-H", &key, "--cookie", "none=1"];
        let jar = fs::read(stage.jar()).unwrap();
        fs::remove_file(stage.jar()).unwrap();
        stage.ask(&status, &alone).is(401);
        fs::write(stage.jar(), jar).unwrap();
        // The same session over the other protocol.
        for (other, _) in PROTOCOLS {
            stage.ask(&status, &[other, "-H", &key]).is(200);
        }
        let logout = format!("{site}/galley/api/logout");
        let out = stage.order(&logout, &site, &json!({}), &[protocol, "-H", &key]);
        assert!(
            out.is(200)
                .field("set-cookie")
                .unwrap()
                .contains("Max-Age=0")
        );
        stage.ask(&status, &[protocol, "-H", &key]).is(401);
    }
}

#[test]
fn the_cookie_is_for_tls_and_this_path() {
    let stage = TlsStage::start();
    for (protocol, _) in PROTOCOLS {
        let answer = stage.log_in(protocol, ("jane", "secret")).is(200);
        let cookie = answer.field("set-cookie").unwrap();
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
fn orders_need_the_origin_of_the_page() {
    let stage = TlsStage::start();
    let site = stage.at("https", "a.test");
    let purge = format!("{site}/galley/api/purge");
    let all = json!({ "all": true });
    for (protocol, _) in PROTOCOLS {
        let key = stage.session(protocol);
        let key = ["-H", key.as_str(), protocol];
        for foreign in [
            &stage.at("http", "a.test"),
            &site.replace("https", "http"),
            "https://a.test",
            "https://b.test",
            "null",
        ] {
            stage.order(&purge, foreign, &all, &key).is(403);
        }
        stage.order(&purge, &site, &all, &key).is(200);
    }
}

#[test]
fn nothing_is_shown_without_tls() {
    let stage = TlsStage::start();
    let plain = stage.at("http", "a.test");
    let key = stage.session("--http1.1");
    for protocol in ["--http1.1", "--http2-prior-knowledge"] {
        for path in ["/galley/", "/galley/app.js", "/galley/api/status"] {
            for claim in [
                "X-Nothing: 1",
                "X-Forwarded-Proto: https",
                "Forwarded: proto=https",
            ] {
                let url = format!("{plain}{path}");
                let answer = stage
                    .ask(&url, &[protocol, "-H", claim, "-H", &key])
                    .is(403);
                let status = answer.field("cache-status").unwrap();
                assert!(status.contains("detail=needs-tls"), "{path}: {status}");
                assert!(!answer.body.contains("data-login"), "{}", answer.body);
            }
        }
        let body = json!({ "name": "jane", "password": "secret" });
        let url = format!("{plain}/galley/login");
        let answer = stage.order(&url, &plain, &body, &[protocol]).is(403);
        assert_eq!(answer.field("set-cookie"), None);
    }
    // The site itself is sent in plain.
    stage.ask(&format!("{plain}/page/"), &[]).is(200);
}

#[test]
fn chromium_uses_it_over_http2() {
    let stage = TlsStage::start();
    let scratch = Scratch::new().unwrap();
    let mut browser = Chromium::start_trusting(&scratch.join("chromium"), &stage.pin).unwrap();
    let mut tab = browser.person().unwrap();
    let site = stage.at("https", "localhost");
    stage.ask(&format!("{site}/page/"), &[]).is(200);
    tab.go(&format!("{site}/galley/")).unwrap();
    tab.wait("document.querySelector('#password')").unwrap();
    let protocol = "performance.getEntriesByType('navigation')[0].nextHopProtocol";
    assert_eq!(tab.say(protocol).unwrap(), json!("h2"));
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
        tab.say(&format!(
            "document.querySelector('#name').value = 'jane'; document.querySelector('#password').value = '{password}'"
        ))
        .unwrap();
        tab.click("main form button").unwrap();
        tab.wait(until).unwrap();
    }
    assert_eq!(tab.say("document.cookie").unwrap(), json!(""));
    super::browser::open(&mut tab, "pages");
    assert!(super::browser::seen(&mut tab).contains("/page/"));
    tab.click("#purge-site").unwrap();
    tab.click("#confirm-yes").unwrap();
    tab.wait("document.querySelector('#result').innerText.startsWith('Purged ')")
        .unwrap();
    let page = stage.ask(&format!("{site}/page/"), &[]).is(200);
    let status = page.field("cache-status").unwrap();
    assert!(!status.contains("; hit"), "{status}");
    tab.click("#logout").unwrap();
    tab.wait("document.querySelector('#password')").unwrap();
}
