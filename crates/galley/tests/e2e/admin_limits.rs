//! Clients of the admin interface that have no token: they take neither memory nor descriptors, and delay nobody.

use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use galley_testkit::client::{Connection, Request, Response};
use galley_testkit::{runs_as_root, wait_for};

use crate::support::{AssertStatus, SHORT_TIMEOUT, SiteBuilder, TIMEOUT, TestSite, token_file};

const TOKEN: &str = "a-token-of-the-site-0123456789";

/// Connections of an attack. The limit is 128 for all clients together, and 64 for one.
const CONNECTIONS: usize = 400;

/// A user other than root and the user of the tests.
const NOBODY: u32 = 65_534;

/// Starts a site with a token; `listen` is that of the admin interface.
fn start(listen: Option<&str>) -> TestSite {
    let builder = SiteBuilder::php().cache("memory = \"16MiB\"");
    let file = token_file(&builder, "site.token", TOKEN);
    let server = token_file(&builder, "server.token", "a-token-of-the-server-0123456789");
    let builder = match listen {
        Some(listen) => builder.admin(&format!("listen = \"{listen}\"\ntoken_file = \"{server}\"")),
        None => builder,
    };
    builder.site(&format!("token_file = \"{file}\"")).start()
}

fn descriptors(site: &TestSite) -> usize {
    let open = fs::read_dir(format!("/proc/{}/fd", site.galley.pid()));
    open.unwrap().count()
}

fn admin_address(site: &TestSite) -> SocketAddr {
    let admin = site.galley.admin().unwrap();
    admin.trim_start_matches("http://").parse().unwrap()
}

fn half_a_purge(token: Option<&str>) -> Vec<u8> {
    let token = token.map(|token| format!("Authorization: Bearer {token}\r\n"));
    let body = "{\"urls\": [\"".to_owned() + &"x".repeat(400_000);
    let head = format!(
        "POST /purge HTTP/1.1\r\nHost: galley\r\nContent-Type: application/json\r\n{}Content-Length: 500000\r\n\r\n",
        token.unwrap_or_default()
    );
    (head + &body).into_bytes()
}

fn connect(site: &TestSite) -> Connection {
    Connection::within(admin_address(site), TIMEOUT).unwrap()
}

fn purge_with_token(site: &TestSite) -> Response {
    Request::post("/purge", "application/json", "{\"all\": true}")
        .field("Authorization", format!("Bearer {TOKEN}"))
        .timeout(SHORT_TIMEOUT)
        .send(admin_address(site))
        .unwrap()
}

#[test]
fn a_body_without_a_token_is_not_read() {
    let site = start(Some("127.0.0.1:0"));
    site.get("/page").assert_status(200);
    purge_with_token(&site).assert_status(200);
    let (memory, open) = (site.peak_memory(), descriptors(&site));
    let attack: Vec<Connection> = (0..CONNECTIONS)
        .map(|_| {
            let mut connection = connect(&site);
            // The server may close before it has taken all bytes.
            let _ = connection.write(&half_a_purge(None));
            connection
        })
        .collect();
    assert!(descriptors(&site) < open + 80, "{}", descriptors(&site));
    assert!(
        site.grown_since(memory) < 16 << 20,
        "{}",
        site.grown_since(memory)
    );
    site.get("/page").assert_status(200);
    purge_with_token(&site).assert_status(200);
    drop(attack);
    let mut refused = connect(&site);
    refused
        .send(&Request::post("/purge", "application/json", "{"))
        .unwrap();
    refused.receive("POST").unwrap().assert_status(401);
    assert!(
        refused.is_closed_within(SHORT_TIMEOUT),
        "one request for each connection"
    );
}

#[test]
fn half_sent_requests_with_a_token_give_way_to_whole_ones_and_end() {
    let site = start(Some("127.0.0.1:0"));
    purge_with_token(&site).assert_status(200);
    let open = descriptors(&site);
    let memory = site.peak_memory();
    let mut attack: Vec<Connection> = (0..CONNECTIONS)
        .map(|_| {
            let mut connection = connect(&site);
            let _ = connection.write(&half_a_purge(Some(TOKEN)));
            connection
        })
        .collect();
    purge_with_token(&site).assert_status(200);
    site.get("/page").assert_status(200);
    // 64 bodies of half a megabyte at most.
    assert!(
        site.grown_since(memory) < 64 << 20,
        "{}",
        site.grown_since(memory)
    );
    let last = attack.last_mut().unwrap();
    assert!(last.is_closed_within(TIMEOUT), "a body has a deadline");
    wait_for("all connections to be closed", TIMEOUT, || {
        descriptors(&site) <= open
    });
}

/// A program of another user that opens connections and holds them until its input ends.
fn hold_connections(socket: &str, sent: &str) -> Child {
    let script = "$held = []; for ($i = 0; $i < $argv[2]; $i++) { \
        $s = @stream_socket_client('unix://' . $argv[1], $n, $e, 5); \
        if ($s) { @fwrite($s, $argv[3]); $held[] = $s; } } \
        echo count($held), \"\\n\"; fgets(STDIN);";
    let mut child = Command::new("php")
        .args(["-r", script, "--", socket, &CONNECTIONS.to_string(), sent])
        .uid(NOBODY)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut output = std::io::BufReader::new(child.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut output, &mut line).unwrap();
    assert_eq!(line.trim(), CONNECTIONS.to_string());
    child
}

#[test]
fn connections_of_another_user_leave_the_admin_socket_to_others() {
    if !runs_as_root() {
        return;
    }
    let site = start(None);
    let admin = site.galley.admin().unwrap();
    let socket = admin.strip_prefix("unix:").unwrap();
    let open = descriptors(&site);
    for sent in ["", "GET /status HTTP/1.1\r\nHost: galley\r\n"] {
        let mut attacker = hold_connections(socket, sent);
        assert!(descriptors(&site) < open + 80, "{}", descriptors(&site));
        site.get("/page").assert_status(200);
        site.purge(&["--all"]);
        // The same user, as PHP of another site that shares it.
        let purged = Command::new("curl")
            .args(["-s", "--max-time", "9", "--unix-socket", socket])
            .args(["-H", &format!("Authorization: Bearer {TOKEN}")])
            .args([
                "-H",
                "Content-Type: application/json",
                "-d",
                "{\"all\": true}",
            ])
            .arg("http://galley/purge")
            .uid(NOBODY)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&purged.stdout).into_owned();
        assert!(text.contains("\"ok\":true"), "{text}");
        wait_for("idle connections to be closed", TIMEOUT, || {
            descriptors(&site) <= open
        });
        attacker.stdin.take().unwrap().write_all(b"\n").unwrap();
        attacker.wait().unwrap();
    }
}
