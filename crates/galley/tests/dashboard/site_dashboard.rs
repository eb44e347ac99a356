//! The dashboard on a site's address: access control, visible data, and precedence over pages and files of the site.

use std::fs;
use std::path::Path;

use galley_testkit::client::{Request, Response};
use galley_testkit::origin::Origin;
use galley_testkit::{Galley, Scratch};
use serde_json::{Value, json};

use crate::support::{Session, parse_json};

/// `secret`
const PASSWORDS: &str = "jane:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n";

const GET_APIS: &[&str] = &["status", "history", "cache", "not-cached", "purges"];

/// A server with a dashboard at `/galley/` of `a.test` and `localhost`, at `/other/` of `c.test`, and none on `b.test`.
pub struct SiteDashboardServer {
    pub galley: Galley,
    pub scratch: Scratch,
    _origin: Origin,
}

impl SiteDashboardServer {
    pub fn start() -> Self {
        Self::start_with(|text| text)
    }

    /// Starts with a changed configuration.
    fn start_with(change: impl FnOnce(String) -> String) -> Self {
        let page = [
            ("Content-Type", "text/html"),
            ("Cache-Control", "max-age=600"),
        ];
        let origin = Origin::start(move |request, writer| {
            let body = format!("<html>the site's {}</html>", request.path());
            let _ = writer.respond(200, &page, body.as_bytes());
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

    /// Stores a page of the site.
    pub fn store(&self, target: &str) {
        let request = Request::get(target).host("localhost");
        self.send_expecting(request.clone(), 200);
        assert!(self.send_expecting(request, 200).is_hit());
    }

    #[track_caller]
    fn send_expecting(&self, request: Request, status: u16) -> Response {
        self.send(request).expect_status(status)
    }

    fn log_in(&self, host: &str, path: &str, name: &str) -> Response {
        let body = json!({ "name": name, "password": "secret" });
        self.send(post_json(host, &format!("{path}login"), &body))
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

/// Adds the fields of a proxy that terminates TLS.
fn over_tls(request: Request, host: &str) -> Request {
    over_tls_from("203.0.113.7", request, host)
}

/// Adds the fields of a TLS proxy with a client address.
fn over_tls_from(client: &str, request: Request, host: &str) -> Request {
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

/// Returns a `POST` as the page sends it, with JSON and the origin of the page.
fn post_json(host: &str, target: &str, body: &Value) -> Request {
    let request = post(host, target, "application/json", body);
    request.field("Origin", format!("https://{host}"))
}

fn session(response: &Response) -> Session {
    let cookie = response.field("set-cookie").unwrap();
    Session {
        cookie: cookie.split(';').next().unwrap().to_owned(),
        key: parse_json(response)["key"].as_str().unwrap().to_owned(),
    }
}

#[test]
fn requests_without_a_login_get_401() {
    let server = SiteDashboardServer::start();
    let session = server.session();
    let foreign = Session {
        key: "0".repeat(64),
        ..session.clone()
    };
    for name in GET_APIS {
        let request = || get("a.test", &format!("/galley/api/{name}"));
        for unauthorized in [
            request(),
            request().cookie(&session.cookie),
            request().field("X-Galley-Key", &session.key),
            foreign.authorize(request()),
            request().field("Authorization", "Basic amFuZTpzZWNyZXQ="),
        ] {
            let response = server.send_expecting(unauthorized, 401);
            assert!(
                !response.text().contains("a.test"),
                "{}",
                response.excerpt()
            );
        }
        server.send_expecting(session.authorize(request()), 200);
    }
    for name in ["why", "purge", "compare", "logout"] {
        let request = post_json("a.test", &format!("/galley/api/{name}"), &json!({}));
        server.send_expecting(request.clone(), 401);
        server.send_expecting(request.cookie(&session.cookie), 401);
    }
    let page = server.send_expecting(get("a.test", "/galley/"), 200);
    assert!(page.text().contains("data-login=\"password\""));
    for (name, password) in [
        ("jane", "wrong"),
        ("joe", "secret"),
        ("", ""),
        ("jane:secret", ""),
    ] {
        let body = json!({ "name": name, "password": password });
        let response = server.send_expecting(post_json("a.test", "/galley/login", &body), 403);
        assert!(!response.has("set-cookie") && response.cache_status().contains("detail=password"));
    }
    for body in [json!({}), json!({ "token": "x" }), json!([])] {
        server.send_expecting(post_json("a.test", "/galley/login", &body), 403);
    }
}

#[test]
fn the_session_cookie_is_limited_to_the_path_and_tls() {
    let server = SiteDashboardServer::start();
    let response = server
        .log_in("a.test", "/galley/", "jane")
        .expect_status(200);
    let cookie = response.field("set-cookie").unwrap();
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
    let session = session(&response);
    let logout = session.authorize(post_json("a.test", "/galley/api/logout", &json!({})));
    let response = server.send_expecting(logout, 200);
    let expired = response.field("set-cookie").unwrap();
    assert!(
        expired.contains("Max-Age=0") && expired.contains("Path=/galley/"),
        "{expired}"
    );
    server.send_expecting(session.authorize(get("a.test", "/galley/api/status")), 401);
}

#[test]
fn responses_have_security_header_fields_and_are_not_stored() {
    let server = SiteDashboardServer::start();
    let session = server.session();
    for target in [
        "/galley/",
        "/galley/app.js",
        "/galley/api/status",
        "/galley/api/nothing",
        "/galley/nothing",
        "/galley",
    ] {
        for _ in 0..2 {
            let response = server.send(session.authorize(get("a.test", target)));
            let status = response.cache_status();
            assert!(
                !status.contains("hit") && !status.contains("stored"),
                "{target}: {status}"
            );
            assert_eq!(
                response.field("cache-control"),
                Some("no-store"),
                "{target}"
            );
            let policy = response.field("content-security-policy").unwrap();
            assert!(
                policy.starts_with("default-src 'none'; script-src 'self';"),
                "{policy}"
            );
            assert!(
                !response.text().contains("the site's"),
                "{}",
                response.excerpt()
            );
        }
    }
    let head = server.send_expecting(over_tls(Request::head("/galley/app.js"), "a.test"), 200);
    assert!(head.body.is_empty() && head.field("content-length").unwrap() != "0");
    let redirect = server.send_expecting(get("a.test", "/galley"), 308);
    assert_eq!(redirect.field("location"), Some("/galley/"));
    let delete = Request::new("DELETE", "/galley/").field("Content-Type", "application/json");
    let delete = delete.field("Origin", "https://a.test");
    server.send_expecting(over_tls(delete, "a.test"), 405);
    let large = json!({ "name": "x".repeat(70_000), "password": "" });
    server.send_expecting(post_json("a.test", "/galley/login", &large), 413);
}

#[test]
fn plain_http_is_allowed_only_from_localhost() {
    let server = SiteDashboardServer::start();
    let body = json!({ "name": "jane", "password": "secret" });
    let plain = |target: &str, host: &str| Request::get(target).host(host);
    for target in ["/galley/", "/galley/app.js", "/galley/api/status"] {
        for client in ["203.0.113.7", "127.0.0.1"] {
            let request = plain(target, "a.test").field("X-Forwarded-For", client);
            let response = server.send_expecting(request, 403);
            assert!(response.cache_status().contains("detail=needs-tls"));
        }
        server.send_expecting(plain(target, "a.test"), 403);
        let remote = plain(target, "localhost").field("X-Forwarded-For", "203.0.113.7");
        server.send_expecting(remote, 403);
    }
    let login = Request::post("/galley/login", "application/json", body.to_string());
    let login = login.field("Origin", "http://a.test").host("a.test");
    assert!(!server.send_expecting(login, 403).has("set-cookie"));
    // A browser on the same machine, whose traffic does not cross the network.
    let port = server.galley.addr().port();
    let host = format!("localhost:{port}");
    let login = Request::post("/galley/login", "application/json", body.to_string());
    let login = login.field("Origin", format!("http://{host}")).host(&host);
    let session = session(&server.send_expecting(login, 200));
    let status = session.authorize(plain("/galley/api/status", &host));
    server.send_expecting(status, 200);
    // `galley why` predicts the same responses.
    let why = |url: &str| {
        let output = server
            .galley
            .cli(&["why", url, "--from", "203.0.113.7", "--json"])
            .unwrap();
        let value: Value = serde_json::from_slice(&output.stdout).unwrap();
        (value["now"]["what"].clone(), value["now"]["why"].clone())
    };
    let expected = (json!("refused"), json!("needs-tls"));
    assert_eq!(why("http://a.test/galley/"), expected);
    assert_eq!(why("http://a.test/galley2/").0, json!("miss"));
}

#[test]
fn cross_site_requests_are_rejected() {
    let server = SiteDashboardServer::start();
    let session = server.session();
    let all = json!({ "all": true });
    let purge = || {
        session.authorize(post(
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
        server.send_expecting(purge().field("Origin", origin), 403);
    }
    server.send_expecting(purge(), 403);
    for form in ["text/plain", "application/x-www-form-urlencoded"] {
        let request = session.authorize(post("a.test", "/galley/api/purge", form, &all));
        server.send_expecting(request.field("Origin", "https://a.test"), 415);
    }
    for site in ["cross-site", "same-site"] {
        let status = session.authorize(get("a.test", "/galley/api/status"));
        server.send_expecting(status.field("Sec-Fetch-Site", site), 403);
    }
    let login = json!({ "name": "jane", "password": "secret" });
    let cross_site = post("a.test", "/galley/login", "application/json", &login);
    server.send_expecting(cross_site.field("Origin", "https://b.test"), 403);
    server.send_expecting(purge().field("Origin", "https://a.test"), 200);
}

#[test]
fn a_session_gives_access_to_its_site_only() {
    let server = SiteDashboardServer::start();
    let session = server.session();
    for name in GET_APIS {
        let response = server.send_expecting(
            session.authorize(get("a.test", &format!("/galley/api/{name}"))),
            200,
        );
        let text = response.text();
        assert!(
            !text.contains("b.test") && !text.contains("c.test"),
            "{name}: {text}"
        );
        if *name != "status" {
            let other = format!("/galley/api/{name}?site=b.test");
            server.send_expecting(session.authorize(get("a.test", &other)), 403);
        }
    }
    let status_of_post = |name: &str, body: Value| {
        let target = format!("/galley/api/{name}");
        server
            .send(session.authorize(post_json("a.test", &target, &body)))
            .status
    };
    assert_eq!(
        status_of_post("purge", json!({ "site": "b.test", "all": true })),
        403
    );
    assert_eq!(status_of_post("compare", json!({})), 403);
    assert_eq!(status_of_post("reload", json!({})), 404);
    assert_eq!(status_of_post("purge", json!({ "all": true })), 200);
    // A site without a dashboard forwards the path. Another dashboard has separate passwords and sessions.
    let forwarded =
        server.send_expecting(session.authorize(get("b.test", "/galley/api/status")), 200);
    assert!(forwarded.text().contains("the site's /galley/api/status"));
    server.send_expecting(session.authorize(get("c.test", "/other/api/status")), 401);
    assert_eq!(server.log_in("c.test", "/other/", "jane").status, 403);
    assert_eq!(server.log_in("c.test", "/other/", "joe").status, 200);
    let unknown = session.authorize(get("evil.test", "/galley/api/status"));
    server.send_expecting(unknown, 421);
}

#[test]
fn login_attempts_are_rate_limited() {
    let server = SiteDashboardServer::start();
    let attempt = |client: &str, password: &str| {
        let body = json!({ "name": "jane", "password": password }).to_string();
        let request = Request::post("/galley/login", "application/json", body);
        let request = over_tls_from(client, request, "a.test");
        server.send(request.field("Origin", "https://a.test"))
    };
    for number in 0..10 {
        assert_eq!(
            attempt("203.0.113.9", &format!("guess {number}")).status,
            403
        );
    }
    let response = attempt("203.0.113.9", "secret").expect_status(429);
    assert!(response.has("retry-after") && !response.has("set-cookie"));
    assert!(response.cache_status().contains("detail=limited"));
    assert_eq!(attempt("203.0.113.10", "secret").status, 200);
}

#[test]
fn a_changed_password_file_ends_sessions_and_a_reload_does_not() {
    let server = SiteDashboardServer::start();
    let session = server.session();
    let status = || session.authorize(get("a.test", "/galley/api/status"));
    server.reload(|text| text + "bypass_cookies = [\"x\"]\n");
    server.send_expecting(status(), 200);
    let more = format!("{PASSWORDS}jim:{{SHA}}5en6G6MezRroT3XKqkdPOmY/BfQ=\n");
    fs::write(server.scratch.join("passwords"), more).unwrap();
    server.send_expecting(status(), 401);
    assert_eq!(server.log_in("a.test", "/galley/", "jim").status, 200);
    fs::remove_file(server.scratch.join("passwords")).unwrap();
    assert_eq!(server.log_in("a.test", "/galley/", "jane").status, 403);
}

#[test]
fn the_dashboard_takes_precedence_over_stored_pages_and_files() {
    let remove_dashboard = |text: String| {
        let lines = text.lines().filter(|line| !line.starts_with("dashboard"));
        lines.collect::<Vec<&str>>().join("\n") + "\n"
    };
    let server = SiteDashboardServer::start_with(remove_dashboard);
    let page = || get("a.test", "/galley/page/");
    server.send_expecting(page(), 200);
    assert!(server.send_expecting(page(), 200).is_hit());
    let file = server.send_expecting(get("a.test", "/galley/app.js"), 200);
    assert_eq!(file.text(), "the site's file");
    let dir = server.scratch.path().display().to_string();
    server.reload(|text| {
        let dashboard = format!(
            "dashboard = \"/galley/\"\ndashboard_auth = \"{dir}/passwords\"\nremove_headers"
        );
        text.replacen("remove_headers", &dashboard, 1)
    });
    server.send_expecting(page(), 404);
    assert!(
        server
            .send_expecting(get("a.test", "/galley/app.js"), 200)
            .text()
            .contains("dashboard")
    );
    server.reload(remove_dashboard);
    assert!(server.send_expecting(page(), 200).is_hit());
}
