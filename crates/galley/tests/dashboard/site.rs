//! The dashboard of a site on the site's own address: who gets in, what is shown, and what is never in its way.

use std::fs;
use std::path::Path;

use galley_testkit::client::{Request, Response};
use galley_testkit::origin::Origin;
use galley_testkit::{Galley, Scratch};
use serde_json::{Value, json};

use crate::stage::{Session, parsed};

/// `secret`
const PASSWORDS: &str = "jane:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n";

const READS: &[&str] = &["status", "history", "cache", "not-cached", "purges"];

/// The dashboard is at `/galley/` of `a.test` and `localhost`, at `/other/` of `c.test`, and nowhere of `b.test`.
pub struct SiteStage {
    pub galley: Galley,
    pub scratch: Scratch,
    _origin: Origin,
}

impl SiteStage {
    pub fn start() -> Self {
        Self::with(|text| text)
    }

    /// With a changed configuration.
    fn with(change: impl FnOnce(String) -> String) -> Self {
        let page = [
            ("Content-Type", "text/html"),
            ("Cache-Control", "max-age=600"),
        ];
        let origin = Origin::start(move |seen, writer| {
            let body = format!("<html>the site's {}</html>", seen.path());
            let _ = writer.answer(200, &page, body.as_bytes());
        })
        .unwrap();
        let scratch = Scratch::new().unwrap();
        scratch.write("passwords", PASSWORDS).unwrap();
        scratch
            .write("others", "joe:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n")
            .unwrap();
        for name in ["index.html", "app.js"] {
            let file = format!("root/galley/{name}");
            fs::create_dir_all(scratch.join("root/galley")).unwrap();
            fs::write(scratch.join(&file), "the site's file").unwrap();
        }
        let text = change(config(&scratch, &origin));
        let binary = Path::new(env!("CARGO_BIN_EXE_galley"));
        let galley = Galley::start_binary(binary, &scratch.join("galley"), &text).unwrap();
        Self {
            galley,
            scratch,
            _origin: origin,
        }
    }

    #[expect(
        clippy::needless_pass_by_value,
        reason = "requests are built where they are sent"
    )]
    pub fn send(&self, request: Request) -> Response {
        request.send(self.galley.addr()).unwrap()
    }

    /// Has a page of the site stored.
    pub fn store(&self, target: &str) {
        let request = Request::get(target).host("localhost");
        self.gets(request.clone(), 200);
        assert!(self.gets(request, 200).is_hit());
    }

    #[track_caller]
    fn gets(&self, request: Request, status: u16) -> Response {
        self.send(request).expect_status(status)
    }

    fn log_in(&self, host: &str, path: &str, name: &str) -> Response {
        let body = json!({ "name": name, "password": "secret" });
        self.send(order(host, &format!("{path}login"), &body))
    }

    fn session(&self) -> Session {
        session(&self.log_in("a.test", "/galley/", "jane").expect_status(200))
    }

    fn reload(&self, change: impl FnOnce(String) -> String) {
        let text = fs::read_to_string(self.galley.config()).unwrap();
        fs::write(self.galley.config(), change(text)).unwrap();
        let output = self.galley.cli(&["reload"]).unwrap();
        assert!(output.status.success(), "{output:?}");
    }
}

fn config(scratch: &Scratch, origin: &Origin) -> String {
    let (dir, up) = (scratch.path().display(), origin.url());
    format!(
        "[server]\nlisten = [\"127.0.0.1:0\"]\ntrusted_proxies = [\"127.0.0.1\"]\n\
         [admin]\nlisten = \"unix:{dir}/admin.sock\"\n\
         [cache]\nmemory = \"64MiB\"\n[log]\naccess = \"off\"\n\
         [[site]]\nhosts = [\"a.test\", \"localhost\"]\nroot = \"{dir}/root\"\nupstream = [\"{up}\"]\n\
         remove_headers = [\"content-security-policy\", \"cache-control\"]\n\
         dashboard = \"/galley/\"\ndashboard_auth = \"{dir}/passwords\"\n\
         [[site]]\nhosts = [\"b.test\"]\nupstream = [\"{up}\"]\n\
         [[site]]\nhosts = [\"c.test\"]\nupstream = [\"{up}\"]\ndashboard = \"/other/\"\ndashboard_auth = \"{dir}/others\"\n"
    )
}

/// As a proxy forwards it that speaks TLS.
fn over_tls(request: Request, host: &str) -> Request {
    from("203.0.113.7", request, host)
}

fn from(client: &str, request: Request, host: &str) -> Request {
    request
        .host(host)
        .field("X-Forwarded-Proto", "https")
        .field("X-Forwarded-For", client)
}

fn get(host: &str, target: &str) -> Request {
    over_tls(Request::get(target), host)
}

fn post(host: &str, target: &str, content_type: &str, body: &Value) -> Request {
    let request = Request::post(target, content_type, body.to_string());
    over_tls(request, host)
}

/// As the page sends it.
fn order(host: &str, target: &str, body: &Value) -> Request {
    let request = post(host, target, "application/json", body);
    request.field("Origin", format!("https://{host}"))
}

fn session(answer: &Response) -> Session {
    let cookie = answer.field("set-cookie").unwrap();
    Session {
        cookie: cookie.split(';').next().unwrap().to_owned(),
        key: parsed(answer)["key"].as_str().unwrap().to_owned(),
    }
}

#[test]
fn nothing_is_shown_without_the_password() {
    let stage = SiteStage::start();
    let session = stage.session();
    let foreign = Session {
        key: "0".repeat(64),
        ..session.clone()
    };
    for name in READS {
        let request = || get("a.test", &format!("/galley/api/{name}"));
        for refused in [
            request(),
            request().cookie(&session.cookie),
            request().field("X-Galley-Key", &session.key),
            foreign.on(request()),
            request().field("Authorization", "Basic amFuZTpzZWNyZXQ="),
        ] {
            let answer = stage.gets(refused, 401);
            assert!(!answer.text().contains("a.test"), "{}", answer.beginning());
        }
        stage.gets(session.on(request()), 200);
    }
    for name in ["why", "purge", "compare", "logout"] {
        let request = order("a.test", &format!("/galley/api/{name}"), &json!({}));
        stage.gets(request.clone(), 401);
        stage.gets(request.cookie(&session.cookie), 401);
    }
    let page = stage.gets(get("a.test", "/galley/"), 200);
    assert!(page.text().contains("data-login=\"password\""));
    for (name, password) in [
        ("jane", "wrong"),
        ("joe", "secret"),
        ("", ""),
        ("jane:secret", ""),
    ] {
        let body = json!({ "name": name, "password": password });
        let answer = stage.gets(order("a.test", "/galley/login", &body), 403);
        assert!(!answer.has("set-cookie") && answer.cache_status().contains("detail=password"));
    }
    for body in [json!({}), json!({ "token": "x" }), json!([])] {
        stage.gets(order("a.test", "/galley/login", &body), 403);
    }
}

#[test]
fn the_cookie_is_for_this_path_and_tls() {
    let stage = SiteStage::start();
    let answer = stage
        .log_in("a.test", "/galley/", "jane")
        .expect_status(200);
    let cookie = answer.field("set-cookie").unwrap();
    assert!(cookie.starts_with("__Secure-galley-dashboard="), "{cookie}");
    for part in [
        "; HttpOnly",
        "; SameSite=Strict",
        "; Secure",
        "; Path=/galley/",
        "; Max-Age=",
    ] {
        assert!(cookie.contains(part), "{cookie}");
    }
    let session = session(&answer);
    let logout = session.on(order("a.test", "/galley/api/logout", &json!({})));
    let answer = stage.gets(logout, 200);
    let gone = answer.field("set-cookie").unwrap();
    assert!(
        gone.contains("Max-Age=0") && gone.contains("Path=/galley/"),
        "{gone}"
    );
    stage.gets(session.on(get("a.test", "/galley/api/status")), 401);
}

#[test]
fn every_answer_is_protected_and_never_stored() {
    let stage = SiteStage::start();
    let session = stage.session();
    for target in [
        "/galley/",
        "/galley/app.js",
        "/galley/api/status",
        "/galley/api/nothing",
        "/galley/nothing",
        "/galley",
    ] {
        for _ in 0..2 {
            let answer = stage.send(session.on(get("a.test", target)));
            let status = answer.cache_status();
            assert!(
                !status.contains("hit") && !status.contains("stored"),
                "{target}: {status}"
            );
            assert_eq!(answer.field("cache-control"), Some("no-store"), "{target}");
            let policy = answer.field("content-security-policy").unwrap();
            assert!(
                policy.starts_with("default-src 'none'; script-src 'self';"),
                "{policy}"
            );
            assert!(
                !answer.text().contains("the site's"),
                "{}",
                answer.beginning()
            );
        }
    }
    let head = stage.gets(over_tls(Request::head("/galley/app.js"), "a.test"), 200);
    assert!(head.body.is_empty() && head.field("content-length").unwrap() != "0");
    let moved = stage.gets(get("a.test", "/galley"), 308);
    assert_eq!(moved.field("location"), Some("/galley/"));
    let delete = Request::new("DELETE", "/galley/").field("Content-Type", "application/json");
    let delete = delete.field("Origin", "https://a.test");
    stage.gets(over_tls(delete, "a.test"), 405);
    let large = json!({ "name": "x".repeat(70_000), "password": "" });
    stage.gets(order("a.test", "/galley/login", &large), 413);
}

#[test]
fn it_is_sent_over_tls_or_to_this_machine() {
    let stage = SiteStage::start();
    let body = json!({ "name": "jane", "password": "secret" });
    let plain = |target: &str, host: &str| Request::get(target).host(host);
    for target in ["/galley/", "/galley/app.js", "/galley/api/status"] {
        for client in ["203.0.113.7", "127.0.0.1"] {
            let request = plain(target, "a.test").field("X-Forwarded-For", client);
            let answer = stage.gets(request, 403);
            assert!(answer.cache_status().contains("detail=needs-tls"));
        }
        stage.gets(plain(target, "a.test"), 403);
        let remote = plain(target, "localhost").field("X-Forwarded-For", "203.0.113.7");
        stage.gets(remote, 403);
    }
    let login = Request::post("/galley/login", "application/json", body.to_string());
    let login = login.field("Origin", "http://a.test").host("a.test");
    assert!(!stage.gets(login, 403).has("set-cookie"));
    // A browser on this machine, which nobody listens to.
    let port = stage.galley.addr().port();
    let host = format!("localhost:{port}");
    let login = Request::post("/galley/login", "application/json", body.to_string());
    let login = login.field("Origin", format!("http://{host}")).host(&host);
    let session = session(&stage.gets(login, 200));
    let status = session.on(plain("/galley/api/status", &host));
    stage.gets(status, 200);
    // The answer of `galley why` is the same.
    let why = |url: &str| {
        let output = stage
            .galley
            .cli(&["why", url, "--from", "203.0.113.7", "--json"])
            .unwrap();
        let value: Value = serde_json::from_slice(&output.stdout).unwrap();
        (value["now"]["what"].clone(), value["now"]["why"].clone())
    };
    let refused = (json!("refused"), json!("needs-tls"));
    assert_eq!(why("http://a.test/galley/"), refused);
    assert_eq!(why("http://a.test/galley2/").0, json!("miss"));
}

#[test]
fn requests_of_other_pages_are_refused() {
    let stage = SiteStage::start();
    let session = stage.session();
    let all = json!({ "all": true });
    let purge = || {
        session.on(post(
            "a.test",
            "/galley/api/purge",
            "application/json",
            &all,
        ))
    };
    for origin in [
        "https://b.test",
        "http://a.test",
        "https://a.test:444",
        "null",
        "",
    ] {
        stage.gets(purge().field("Origin", origin), 403);
    }
    stage.gets(purge(), 403);
    for form in ["text/plain", "application/x-www-form-urlencoded"] {
        let request = session.on(post("a.test", "/galley/api/purge", form, &all));
        stage.gets(request.field("Origin", "https://a.test"), 415);
    }
    for site in ["cross-site", "same-site"] {
        let status = session.on(get("a.test", "/galley/api/status"));
        stage.gets(status.field("Sec-Fetch-Site", site), 403);
    }
    let login = json!({ "name": "jane", "password": "secret" });
    let foreign = post("a.test", "/galley/login", "application/json", &login);
    stage.gets(foreign.field("Origin", "https://b.test"), 403);
    stage.gets(purge().field("Origin", "https://a.test"), 200);
}

#[test]
fn a_session_reaches_its_own_site_only() {
    let stage = SiteStage::start();
    let session = stage.session();
    for name in READS {
        let answer = stage.gets(
            session.on(get("a.test", &format!("/galley/api/{name}"))),
            200,
        );
        let text = answer.text();
        assert!(
            !text.contains("b.test") && !text.contains("c.test"),
            "{name}: {text}"
        );
        if *name != "status" {
            let other = format!("/galley/api/{name}?site=b.test");
            stage.gets(session.on(get("a.test", &other)), 403);
        }
    }
    let ask = |name: &str, body: Value| {
        let target = format!("/galley/api/{name}");
        stage
            .send(session.on(order("a.test", &target, &body)))
            .status
    };
    assert_eq!(ask("purge", json!({ "site": "b.test", "all": true })), 403);
    assert_eq!(ask("compare", json!({})), 403);
    assert_eq!(ask("reload", json!({})), 404);
    assert_eq!(ask("purge", json!({ "all": true })), 200);
    // Another site has nothing there, another dashboard has other passwords and other sessions.
    let elsewhere = stage.gets(session.on(get("b.test", "/galley/api/status")), 200);
    assert!(elsewhere.text().contains("the site's /galley/api/status"));
    stage.gets(session.on(get("c.test", "/other/api/status")), 401);
    assert_eq!(stage.log_in("c.test", "/other/", "jane").status, 403);
    assert_eq!(stage.log_in("c.test", "/other/", "joe").status, 200);
    let unknown = session.on(get("evil.test", "/galley/api/status"));
    stage.gets(unknown, 421);
}

#[test]
fn a_client_has_few_attempts() {
    let stage = SiteStage::start();
    let attempt = |client: &str, password: &str| {
        let body = json!({ "name": "jane", "password": password }).to_string();
        let request = Request::post("/galley/login", "application/json", body);
        let request = from(client, request, "a.test");
        stage.send(request.field("Origin", "https://a.test"))
    };
    for number in 0..10 {
        assert_eq!(
            attempt("203.0.113.9", &format!("guess {number}")).status,
            403
        );
    }
    let answer = attempt("203.0.113.9", "secret").expect_status(429);
    assert!(answer.has("retry-after") && !answer.has("set-cookie"));
    assert!(answer.cache_status().contains("detail=limited"));
    assert_eq!(attempt("203.0.113.10", "secret").status, 200);
}

#[test]
fn another_password_file_ends_sessions_and_a_reload_does_not() {
    let stage = SiteStage::start();
    let session = stage.session();
    let status = || session.on(get("a.test", "/galley/api/status"));
    stage.reload(|text| text + "bypass_cookies = [\"x\"]\n");
    stage.gets(status(), 200);
    let more = format!("{PASSWORDS}jim:{{SHA}}5en6G6MezRroT3XKqkdPOmY/BfQ=\n");
    fs::write(stage.scratch.join("passwords"), more).unwrap();
    stage.gets(status(), 401);
    assert_eq!(stage.log_in("a.test", "/galley/", "jim").status, 200);
    fs::remove_file(stage.scratch.join("passwords")).unwrap();
    assert_eq!(stage.log_in("a.test", "/galley/", "jane").status, 403);
}

#[test]
fn what_was_stored_there_is_not_in_its_way() {
    let without = |text: String| {
        let lines = text.lines().filter(|line| !line.starts_with("dashboard"));
        lines.collect::<Vec<&str>>().join("\n") + "\n"
    };
    let stage = SiteStage::with(without);
    let page = || get("a.test", "/galley/page/");
    stage.gets(page(), 200);
    assert!(stage.gets(page(), 200).is_hit());
    let file = stage.gets(get("a.test", "/galley/app.js"), 200);
    assert_eq!(file.text(), "the site's file");
    let dir = stage.scratch.path().display().to_string();
    stage.reload(|text| {
        let own = format!(
            "dashboard = \"/galley/\"\ndashboard_auth = \"{dir}/passwords\"\nremove_headers"
        );
        text.replacen("remove_headers", &own, 1)
    });
    stage.gets(page(), 404);
    assert!(
        stage
            .gets(get("a.test", "/galley/app.js"), 200)
            .text()
            .contains("dashboard")
    );
    stage.reload(without);
    assert!(stage.gets(page(), 200).is_hit());
}
