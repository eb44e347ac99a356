//! Who gets in: logins, sessions, hosts, origins, and what a page of somebody else cannot do.

use std::path::Path;

use galley_testkit::client::Request;
use galley_testkit::{Galley, Scratch};
use serde_json::json;

use crate::stage::{Dashboard, Session, Stage};

const QUESTIONS: &[&str] = &[
    "/api/status",
    "/api/history",
    "/api/cache",
    "/api/config",
    "/api/not-cached",
    "/api/purges",
    "/api/live",
    "/api/nothing",
];
const ORDERS: &[&str] = &["/api/why", "/api/purge", "/api/compare", "/api/logout"];

#[test]
fn a_login_works_once() {
    let stage = Stage::start();
    let mut dashboard = stage.dashboard();
    let token = dashboard.token();
    let answer = dashboard.try_login(&token).expect_status(200);
    let cookie = answer.field("set-cookie").unwrap();
    for part in ["HttpOnly", "SameSite=Strict", "Path=/", "Max-Age="] {
        assert!(cookie.contains(part), "{cookie}");
    }
    for used in [token.as_str(), "", "x"] {
        let answer = dashboard.try_login(used).expect_status(403);
        assert!(!answer.has("set-cookie"), "{}", answer.beginning());
    }
    // Enter where it runs prints another.
    let session = dashboard.log_in();
    dashboard.json(&session, "/api/status");
}

#[test]
fn nothing_is_shown_without_a_session() {
    let stage = Stage::start();
    let mut dashboard = stage.dashboard();
    let session = dashboard.log_in();
    let foreign = Session {
        cookie: session.cookie.clone(),
        key: "0".repeat(64),
    };
    for target in QUESTIONS {
        dashboard.gets(Request::get(target), 401);
        // The cookie alone, as a page of another port could send it.
        let cookie = Request::get(target).cookie(&session.cookie);
        dashboard.gets(cookie, 401);
        let key = Request::get(target).field("X-Galley-Key", &session.key);
        dashboard.gets(key, 401);
        dashboard.gets(foreign.on(Request::get(target)), 401);
    }
    for target in ORDERS {
        let order = dashboard.order(target, &json!({}));
        dashboard.gets(order.clone(), 401);
        // No field against forged requests.
        dashboard.gets(order.cookie(&session.cookie), 401);
    }
    let page = dashboard.send(Request::get("/")).expect_status(200);
    assert!(!page.text().contains("a.test"));
    dashboard.gets(Request::get("/../Cargo.toml"), 404);
}

#[test]
fn a_session_ends_with_the_sign_out() {
    let stage = Stage::start();
    let mut dashboard = stage.dashboard();
    let (one, two) = (dashboard.log_in(), dashboard.log_in());
    let order = one.on(dashboard.order("/api/logout", &json!({})));
    let answer = dashboard.send(order).expect_status(200);
    assert!(answer.field("set-cookie").unwrap().contains("Max-Age=0"));
    let status = Request::get("/api/status");
    dashboard.gets(one.on(status.clone()), 401);
    dashboard.gets(two.on(status), 200);
}

#[test]
fn other_hosts_are_refused() {
    let stage = Stage::start();
    let mut dashboard = stage.dashboard();
    let session = dashboard.log_in();
    let port = dashboard.addr.port();
    for host in [
        "evil.test".to_owned(),
        format!("evil.test:{port}"),
        "127.0.0.1:1".to_owned(),
        format!("127.0.0.1:{port}.evil.test"),
    ] {
        for target in ["/", "/api/status", "/app.js"] {
            let request = session.on(Request::get(target)).host(&host);
            dashboard.gets(request, 421);
        }
    }
    let local = format!("localhost:{port}");
    let request = session.on(Request::get("/api/status")).host(&local);
    dashboard.gets(request, 200);
}

#[test]
fn requests_of_other_pages_are_refused() {
    let stage = Stage::start();
    let mut dashboard = stage.dashboard();
    let session = dashboard.log_in();
    stage.store("a.test", "/kept/");
    let order = json!({ "all": true }).to_string();
    let post = |content_type: &str| {
        session.on(Request::post("/api/purge", content_type, order.as_bytes()))
    };
    let own = format!("http://{}", dashboard.addr);
    for origin in ["http://evil.test", "null", "https://127.0.0.1", ""] {
        let request = post("application/json").field("Origin", origin);
        dashboard.gets(request, 403);
    }
    dashboard.gets(post("application/json"), 403);
    for form in ["text/plain", "application/x-www-form-urlencoded"] {
        let request = post(form).field("Origin", &own);
        dashboard.gets(request, 415);
    }
    for site in ["cross-site", "same-site"] {
        let status = session.on(Request::get("/api/status"));
        let request = status.field("Sec-Fetch-Site", site);
        dashboard.gets(request, 403);
    }
    assert!(stage.get("a.test", "/kept/").is_hit());
    let request = post("application/json").field("Origin", &own);
    dashboard.gets(request, 200);
    assert!(!stage.get("a.test", "/kept/").is_hit());
}

#[test]
fn a_token_of_a_site_reaches_this_site_only() {
    let stage = Stage::start();
    stage.store("a.test", "/own/");
    stage.store("b.test", "/foreign/");
    let mut dashboard = stage.site_dashboard();
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
        let request = session.on(Request::get(target));
        dashboard.gets(request, 403);
    }
    dashboard.gets(session.on(Request::get("/api/config")), 403);
    let order = |body| session.on(dashboard.order("/api/purge", body));
    let foreign = json!({ "site": "b.test", "all": true });
    dashboard.gets(order(&foreign), 403);
    dashboard.gets(order(&json!({ "all": true })), 200);
    assert!(stage.get("b.test", "/foreign/").is_hit());
    assert!(!stage.get("a.test", "/own/").is_hit());
    let compare = session.on(dashboard.order("/api/compare", &json!({})));
    dashboard.gets(compare, 403);
    let status = dashboard.json(&session, "/api/status");
    assert!(status["memory"].is_null() && status["listeners"].is_null());
}

#[test]
fn every_response_is_protected() {
    let stage = Stage::start();
    let mut dashboard = stage.dashboard();
    let session = dashboard.log_in();
    let answers = [
        Request::get("/"),
        Request::get("/app.js"),
        Request::get("/nothing"),
        Request::get("/api/status"),
        session.on(Request::get("/api/status")),
        Request::get("/").host("evil.test"),
    ];
    for request in answers {
        let answer = dashboard.send(request);
        let policy = answer.field("content-security-policy").unwrap();
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
        assert_eq!(answer.field("cache-control"), Some("no-store"));
        assert_eq!(answer.field("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.field("x-frame-options"), Some("DENY"));
    }
}

#[test]
fn public_listeners_know_nothing_of_it() {
    let stage = Stage::start();
    let mut dashboard = stage.dashboard();
    let session = dashboard.log_in();
    for target in ["/api/status", "/login", "/app.js"] {
        let request = session.on(Request::get(target)).host("a.test");
        let answer = request.send(stage.galley.addr()).unwrap();
        // The upstream's own page for this path.
        assert_eq!(answer.text(), format!("<html>{target}</html>"));
    }
    // The admin interface takes tokens, not sessions.
    let admin = stage.galley.admin().unwrap();
    let admin = admin.trim_start_matches("http://").parse().unwrap();
    let answer = session.on(Request::get("/status")).send(admin).unwrap();
    assert_eq!(answer.status, 401);
}

#[test]
fn a_wrong_token_is_reported_at_start() {
    let stage = Stage::start();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_galley"))
        .args(["dashboard", "--no-open", "--admin"])
        .arg(stage.galley.admin().unwrap())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("a token is required"));
}

#[test]
fn the_operator_needs_no_token_on_the_socket() {
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
    assert_eq!(dashboard.end().code(), Some(0));
}
