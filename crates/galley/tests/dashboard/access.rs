//! Access to the dashboard: login tokens, sessions, hosts, origins, and cross-site requests.

use std::path::Path;

use galley_testkit::client::Request;
use galley_testkit::{Galley, Scratch};
use serde_json::json;

use crate::support::{Dashboard, Session, TestServer};

const GET_TARGETS: &[&str] = &[
    "/api/status",
    "/api/history",
    "/api/cache",
    "/api/config",
    "/api/not-cached",
    "/api/purges",
    "/api/live",
    "/api/nothing",
];
const POST_TARGETS: &[&str] = &["/api/why", "/api/purge", "/api/compare", "/api/logout"];

#[test]
fn a_login_token_works_once() {
    let server = TestServer::start();
    let mut dashboard = server.dashboard();
    let token = dashboard.token();
    let response = dashboard.try_login(&token).expect_status(200);
    let cookie = response.field("set-cookie").unwrap();
    for part in ["HttpOnly", "SameSite=Strict", "Path=/", "Max-Age="] {
        assert!(cookie.contains(part), "{cookie}");
    }
    for used in [token.as_str(), "", "x"] {
        let response = dashboard.try_login(used).expect_status(403);
        assert!(!response.has("set-cookie"), "{}", response.excerpt());
    }
    // The Enter key prints another login URL.
    let session = dashboard.log_in();
    dashboard.json(&session, "/api/status");
}

#[test]
fn requests_without_a_session_get_401() {
    let server = TestServer::start();
    let mut dashboard = server.dashboard();
    let session = dashboard.log_in();
    let foreign = Session {
        cookie: session.cookie.clone(),
        key: "0".repeat(64),
    };
    for target in GET_TARGETS {
        dashboard.assert_status(Request::get(target), 401);
        // The cookie without the key, as a page on another port could send it.
        let cookie = Request::get(target).cookie(&session.cookie);
        dashboard.assert_status(cookie, 401);
        let key = Request::get(target).field("X-Galley-Key", &session.key);
        dashboard.assert_status(key, 401);
        dashboard.assert_status(foreign.authorize(Request::get(target)), 401);
    }
    for target in POST_TARGETS {
        let request = dashboard.post(target, &json!({}));
        dashboard.assert_status(request.clone(), 401);
        // The cookie without the key.
        dashboard.assert_status(request.cookie(&session.cookie), 401);
    }
    let page = dashboard.send(Request::get("/")).expect_status(200);
    assert!(!page.text().contains("a.test"));
    dashboard.assert_status(Request::get("/../Cargo.toml"), 404);
}

#[test]
fn logout_ends_the_session() {
    let server = TestServer::start();
    let mut dashboard = server.dashboard();
    let (first, second) = (dashboard.log_in(), dashboard.log_in());
    let logout = first.authorize(dashboard.post("/api/logout", &json!({})));
    let response = dashboard.send(logout).expect_status(200);
    assert!(response.field("set-cookie").unwrap().contains("Max-Age=0"));
    let status = Request::get("/api/status");
    dashboard.assert_status(first.authorize(status.clone()), 401);
    dashboard.assert_status(second.authorize(status), 200);
}

#[test]
fn requests_for_other_hosts_get_421() {
    let server = TestServer::start();
    let mut dashboard = server.dashboard();
    let session = dashboard.log_in();
    let port = dashboard.addr.port();
    for host in [
        "evil.test".to_owned(),
        format!("evil.test:{port}"),
        "127.0.0.1:1".to_owned(),
        format!("127.0.0.1:{port}.evil.test"),
    ] {
        for target in ["/", "/api/status", "/app.js"] {
            let request = session.authorize(Request::get(target)).host(&host);
            dashboard.assert_status(request, 421);
        }
    }
    let local = format!("localhost:{port}");
    let request = session.authorize(Request::get("/api/status")).host(&local);
    dashboard.assert_status(request, 200);
}

#[test]
fn cross_site_requests_are_rejected() {
    let server = TestServer::start();
    let mut dashboard = server.dashboard();
    let session = dashboard.log_in();
    server.store("a.test", "/kept/");
    let body = json!({ "all": true }).to_string();
    let post = |content_type: &str| {
        session.authorize(Request::post("/api/purge", content_type, body.as_bytes()))
    };
    let page_origin = format!("http://{}", dashboard.addr);
    for origin in ["http://evil.test", "null", "https://127.0.0.1", ""] {
        let request = post("application/json").field("Origin", origin);
        dashboard.assert_status(request, 403);
    }
    dashboard.assert_status(post("application/json"), 403);
    for form in ["text/plain", "application/x-www-form-urlencoded"] {
        let request = post(form).field("Origin", &page_origin);
        dashboard.assert_status(request, 415);
    }
    for site in ["cross-site", "same-site"] {
        let status = session.authorize(Request::get("/api/status"));
        let request = status.field("Sec-Fetch-Site", site);
        dashboard.assert_status(request, 403);
    }
    assert!(server.get("a.test", "/kept/").is_hit());
    let request = post("application/json").field("Origin", &page_origin);
    dashboard.assert_status(request, 200);
    assert!(!server.get("a.test", "/kept/").is_hit());
}

#[test]
fn a_site_token_gives_access_to_its_site_only() {
    let server = TestServer::start();
    server.store("a.test", "/own/");
    server.store("b.test", "/foreign/");
    let mut dashboard = server.site_dashboard();
    let session = dashboard.log_in();
    for target in [
        "/api/status",
        "/api/history",
        "/api/cache",
        "/api/not-cached",
        "/api/purges",
    ] {
        let text = dashboard.json(&session, target).to_string();
        assert!(!text.contains("b.test"), "{target}: {text}");
        assert!(text.contains("a.test"), "{target}: {text}");
    }
    for target in [
        "/api/cache?site=b.test",
        "/api/history?site=b.test",
        "/api/not-cached?site=b.test",
        "/api/purges?site=b.test",
    ] {
        let request = session.authorize(Request::get(target));
        dashboard.assert_status(request, 403);
    }
    dashboard.assert_status(session.authorize(Request::get("/api/config")), 403);
    let purge = |body| session.authorize(dashboard.post("/api/purge", body));
    let foreign = json!({ "site": "b.test", "all": true });
    dashboard.assert_status(purge(&foreign), 403);
    dashboard.assert_status(purge(&json!({ "all": true })), 200);
    assert!(server.get("b.test", "/foreign/").is_hit());
    assert!(!server.get("a.test", "/own/").is_hit());
    let compare = session.authorize(dashboard.post("/api/compare", &json!({})));
    dashboard.assert_status(compare, 403);
    let status = dashboard.json(&session, "/api/status");
    assert!(status["memory"].is_null() && status["listeners"].is_null());
}

#[test]
fn every_response_has_security_header_fields() {
    let server = TestServer::start();
    let mut dashboard = server.dashboard();
    let session = dashboard.log_in();
    let responses = [
        Request::get("/"),
        Request::get("/app.js"),
        Request::get("/nothing"),
        Request::get("/api/status"),
        session.authorize(Request::get("/api/status")),
        Request::get("/").host("evil.test"),
    ];
    for request in responses {
        let response = dashboard.send(request);
        let policy = response.field("content-security-policy").unwrap();
        for part in [
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
        ] {
            assert!(policy.contains(part), "{policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(response.field("cache-control"), Some("no-store"));
        assert_eq!(response.field("x-content-type-options"), Some("nosniff"));
        assert_eq!(response.field("x-frame-options"), Some("DENY"));
    }
}

#[test]
fn public_listeners_do_not_serve_the_dashboard() {
    let server = TestServer::start();
    let mut dashboard = server.dashboard();
    let session = dashboard.log_in();
    for target in ["/api/status", "/login", "/app.js"] {
        let request = session.authorize(Request::get(target)).host("a.test");
        let response = request.send(server.galley.addr()).unwrap();
        // The response comes from the upstream.
        assert_eq!(response.text(), format!("<html>{target}</html>"));
    }
    // The admin interface accepts tokens, not sessions.
    let admin = server.galley.admin().unwrap();
    let admin = admin.trim_start_matches("http://").parse().unwrap();
    let response = session
        .authorize(Request::get("/status"))
        .send(admin)
        .unwrap();
    assert_eq!(response.status, 401);
}

#[test]
fn a_missing_token_is_reported_at_start() {
    let server = TestServer::start();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_galley"))
        .args(["dashboard", "--no-open", "--admin"])
        .arg(server.galley.admin().unwrap())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("a token is required"));
}

#[test]
fn the_admin_socket_needs_no_token() {
    let scratch = Scratch::new().unwrap();
    let socket = format!("unix:{}", scratch.join("admin/admin.sock").display());
    let text = format!(
        "[server]\nlisten = [\"127.0.0.1:0\"]\n[admin]\nlisten = \"{socket}\"\n[log]\naccess = \"off\"\n\
         [[site]]\nhosts = [\"a.test\"]\nroot = \"{}\"\n",
        scratch.dir("root").unwrap().display()
    );
    let binary = Path::new(env!("CARGO_BIN_EXE_galley"));
    let _galley = Galley::start_binary(binary, &scratch.join("galley"), &text).unwrap();
    let mut dashboard = Dashboard::run(&["--admin", &socket]);
    let session = dashboard.log_in();
    let status = dashboard.json(&session, "/api/status");
    assert_eq!(status["sites"][0]["name"], "a.test");
    assert!(status["memory"].is_object(), "{status}");
    assert_eq!(dashboard.terminate().code(), Some(0));
}
