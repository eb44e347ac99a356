//! Tokens of the admin interface, over TCP and over the Unix socket.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use galley_testkit::client::{Request, Response};
use galley_testkit::{runs_as_root, wait_for};

use crate::support::{
    AssertStatus, SiteBuilder, TIMEOUT, TestSite, binary, output_text, token_file,
};

fn send_purge_request(site: &TestSite, token: Option<&str>, body: &str) -> Response {
    send_to_admin(site, "/purge", token, body)
}

fn send_to_admin(site: &TestSite, path: &str, token: Option<&str>, body: &str) -> Response {
    let admin = site.galley.admin().unwrap();
    let addr = admin.trim_start_matches("http://").parse().unwrap();
    let request = Request::post(path, "application/json", body).host("localhost");
    let request = match token {
        Some(token) => request.field("Authorization", format!("Bearer {token}")),
        None => request,
    };
    request.send(addr).unwrap()
}

#[test]
fn the_admin_interface_needs_a_token_and_limits_it_to_its_site() {
    let builder = SiteBuilder::php();
    let (server_token, site_token) = (
        "a-token-of-the-server-0123456789",
        "a-token-of-the-site-0123456789",
    );
    let server = token_file(&builder, "server.token", server_token);
    let site = token_file(&builder, "site.token", &format!("{site_token}\n"));
    let site = builder
        .admin(&format!("listen = \"127.0.0.1:0\"\ntoken_file = \"{server}\""))
        .more(&format!("[[site]]\nhosts = [\"other.test\"]\nroot = \"{{root}}\"\nphp = \"{{php}}\"\ntoken_file = \"{site}\"\n"))
        .start();
    let site_hits = || site.get("/page").is_hit();
    let other_site_hits = || site.send(Request::get("/page").host("other.test")).is_hit();
    let store_all = || while !(site_hits() && other_site_hits()) {};
    store_all();
    for token in [
        None,
        Some(""),
        Some("wrong"),
        Some(&server_token[1..]),
        Some("a-token-of-the-server-012345678"),
    ] {
        let response = send_purge_request(&site, token, "{\"all\": true}").expect_status(401);
        assert!(!response.text().contains(server_token) && !response.text().contains(site_token));
        assert!(site_hits() && other_site_hits(), "{token:?}");
    }
    send_purge_request(&site, Some(site_token), "{\"all\": true}").assert_status(200);
    assert!(site_hits(), "a site's token reached another site");
    assert!(!other_site_hits());
    store_all();
    send_purge_request(
        &site,
        Some(site_token),
        "{\"site\": \"example.test\", \"all\": true}",
    )
    .assert_status(403);
    send_purge_request(
        &site,
        Some(site_token),
        "{\"urls\": [\"http://example.test/page\"]}",
    );
    assert!(site_hits() && other_site_hits());
    send_purge_request(
        &site,
        Some(server_token),
        "{\"urls\": [\"http://example.test/page\"]}",
    )
    .assert_status(200);
    assert!(!site_hits() && other_site_hits());
    store_all();
    send_purge_request(&site, Some(server_token), "{\"all\": true}").assert_status(200);
    assert!(!site_hits() && !other_site_hits());
    malformed_purges_are_rejected(&site, server_token);
    // A request with several purges is executed completely or not at all.
    store_all();
    let mixed = send_purge_request(
        &site,
        Some(server_token),
        "{\"urls\": [\"/page\"], \"patterns\": [\"(\"]}",
    );
    assert!((400..500).contains(&mixed.status));
    assert!(
        site_hits() && other_site_hits(),
        "a rejected request was executed in part"
    );
    the_command_needs_the_token(&site, &server);
    assert!(!site_hits());
    audits_need_the_token(&site, server_token, site_token);
}

/// A site's token audits its own site, and not again and again.
fn audits_need_the_token(site: &TestSite, server_token: &str, site_token: &str) {
    let own = "{\"site\": \"other.test\"}";
    for (token, body, status) in [
        (None, own, 401),
        (Some("wrong"), own, 401),
        (Some(site_token), "{\"site\": \"example.test\"}", 403),
        (Some(site_token), "{\"sites\": []}", 422),
        (Some(site_token), own, 200),
        (Some(server_token), "{}", 200),
        (Some(server_token), "{\"site\": \"unknown.test\"}", 404),
    ] {
        let response = send_to_admin(site, "/audit", token, body).expect_status(status);
        let text = response.text();
        assert!(status != 200 || text.contains("\"pass\""), "{text}");
        assert!(
            token != Some(site_token) || !text.contains("example.test"),
            "{text}"
        );
    }
    wait_for("the end of the audit", TIMEOUT, || {
        let again = send_to_admin(site, "/audit", Some(site_token), own);
        assert!(matches!(again.status, 200 | 429), "{}", again.text());
        again.status == 429
    });
    send_to_admin(site, "/audit", Some(server_token), own).assert_status(200);
}

fn malformed_purges_are_rejected(site: &TestSite, token: &str) {
    for body in [
        "",
        "{}",
        "[]",
        "{\"al\": true}",
        "{\"urls\": [\"http://example.test/a\", \"::\"]}",
        "{\"patterns\": [\"(\"]}",
        "\u{0}",
    ] {
        let response = send_purge_request(site, Some(token), body);
        assert!(
            (400..500).contains(&response.status),
            "{body}: {}",
            response.excerpt()
        );
    }
}

/// With `--admin` the command also needs `--token-file`.
fn the_command_needs_the_token(site: &TestSite, token_file: &str) {
    let admin = site.galley.admin().unwrap();
    let output = Command::new(binary())
        .args([
            "purge",
            "--admin",
            &admin,
            "--token-file",
            token_file,
            "--all",
        ])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", output_text(&output));
    let output = Command::new(binary())
        .args(["purge", "--admin", &admin, "--all"])
        .output()
        .unwrap();
    assert_eq!(
        output.status.code(),
        Some(1),
        "without a token: {}",
        output_text(&output)
    );
}

#[test]
fn other_users_of_the_admin_socket_need_a_token() {
    let token = "a-token-of-the-site-0123456789";
    let mode = |site: &TestSite| {
        let admin = site.galley.admin().unwrap();
        let socket = admin.strip_prefix("unix:").unwrap().to_owned();
        let found = fs::metadata(&socket).unwrap().permissions().mode();
        (found & 0o777, socket)
    };
    let without = SiteBuilder::php().start();
    assert_eq!(mode(&without).0, 0o600);
    let builder = SiteBuilder::php();
    let file = token_file(&builder, "site.token", token);
    let site = builder.site(&format!("token_file = \"{file}\"")).start();
    let (mode, socket) = mode(&site);
    assert_eq!(mode, 0o666);
    let send = |user: Option<u32>, token: &str| {
        let mut curl = Command::new("curl");
        curl.args([
            "-s",
            "-o",
            "/dev/null",
            "-w",
            "%{http_code}",
            "--unix-socket",
            &socket,
        ]);
        if !token.is_empty() {
            curl.args(["-H", &format!("Authorization: Bearer {token}")]);
        }
        if let Some(user) = user {
            curl.uid(user);
        }
        let output = curl.arg("http://galley/status").output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(send(None, ""), "200", "the user of the server");
    assert_eq!(send(None, token), "200");
    assert_eq!(send(None, "wrong"), "401");
    if runs_as_root() {
        assert_eq!(send(Some(NOBODY), ""), "401");
        assert_eq!(send(Some(NOBODY), "wrong"), "401");
        assert_eq!(send(Some(NOBODY), token), "200");
    }
}

/// A user other than root and the user of the tests.
const NOBODY: u32 = 65_534;
