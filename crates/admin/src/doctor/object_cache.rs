//! Checks the object cache of WordPress: whether one is in use, and whether a Redis or Valkey on this machine could hold it.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde_json::Value;

use super::machine::ProcFs;
use super::{DoctorFinding, Severity};

/// A Redis or Valkey server on this machine that responds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectEngine {
    /// At the socket with this path.
    Socket(&'static str),
    /// At the default port on 127.0.0.1.
    Port,
}

/// Finds the first server that responds, sockets before the port. Waits for tenths of a second at most.
pub fn object_engine(machine: &ProcFs) -> Option<ObjectEngine> {
    let socket = SOCKETS.iter().find(|path| {
        let stream = UnixStream::connect(machine.path(path));
        stream.is_ok_and(|stream| {
            let limited = stream.set_read_timeout(Some(TIMEOUT));
            limited.is_ok() && responds(stream)
        })
    });
    if let Some(path) = socket {
        return Some(ObjectEngine::Socket(path));
    }
    let stream = listens(machine).then(|| TcpStream::connect((Ipv4Addr::LOCALHOST, PORT)));
    let stream = stream?.ok()?;
    stream.set_read_timeout(Some(TIMEOUT)).ok()?;
    responds(stream).then_some(ObjectEngine::Port)
}

/// Whether a process listens on the default port, on 127.0.0.1 or on all addresses (proc(5), `/proc/net/tcp`).
fn listens(machine: &ProcFs) -> bool {
    let text = machine.text("/proc/net/tcp").unwrap_or_default();
    let own = ["0100007F", "00000000"].map(|address| format!("{address}:{PORT:04X}"));
    text.lines().any(|line| {
        let mut words = line.split_whitespace().skip(1);
        let (local, state) = (words.next(), words.nth(1));
        state == Some("0A") && own.iter().any(|own| local == Some(own))
    })
}

fn responds(mut stream: impl Read + Write) -> bool {
    let mut reply = [0; 16];
    let read = stream
        .write_all(b"PING\r\n")
        .and_then(|()| stream.read(&mut reply));
    let reply = read.ok().and_then(|count| reply.get(..count));
    // A server with a password responds that authentication is required.
    reply.is_some_and(|reply| reply.starts_with(b"+PONG") || reply.starts_with(b"-NOAUTH"))
}

/// `wordpress`: the report of WordPress.
pub(super) fn finding(wordpress: &Value, engine: Option<&ObjectEngine>) -> DoctorFinding {
    const CHECK: &str = "object cache";
    let Some(is_used) = wordpress["object_cache"].as_bool() else {
        return DoctorFinding::unknown(CHECK, "WordPress does not report it");
    };
    if is_used {
        return DoctorFinding::fine(CHECK, "wp-content/object-cache.php is in use");
    }
    let Some(engine) = engine else {
        let seen = "none, and no Redis or Valkey of this machine answers";
        return DoctorFinding::fine(CHECK, seen);
    };
    let (place, settings) = match engine {
        ObjectEngine::Socket(path) => (
            (*path).to_owned(),
            format!("define('WP_REDIS_SCHEME', 'unix'); define('WP_REDIS_PATH', '{path}');"),
        ),
        ObjectEngine::Port => (
            format!("127.0.0.1:{PORT}"),
            format!("define('WP_REDIS_HOST', '127.0.0.1'); define('WP_REDIS_PORT', {PORT});"),
        ),
    };
    DoctorFinding::bad(
        Severity::Notice,
        CHECK,
        format!("none, and a Redis or Valkey answers at {place}"),
        "for each page that is not stored, PHP reads the same options, posts and users from the database again",
        format!(
            "in wp-config.php: {settings} then: wp plugin install redis-cache --activate && wp redis enable; PHP's user needs access to a socket"
        ),
    )
}

/// What works against Galley's own object cache, and how well it works; for each site that uses it. `status`: that of the running server.
pub fn object_findings(status: &Result<Value, String>) -> Vec<DoctorFinding> {
    const CHECK: &str = "object cache";
    let sites = status.as_ref().ok().and_then(|all| all["sites"].as_array());
    let used = sites.into_iter().flatten().filter(|site| {
        let requests = site["object_cache"]["requests"].as_u64();
        requests.is_some_and(|requests| requests > 0)
    });
    let findings = used.flat_map(|site| {
        let (of, name) = (&site["object_cache"], site["name"].as_str().unwrap_or_default());
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let problems = of["problems"].as_array().into_iter().flatten();
        let mut findings: Vec<_> = problems
            .map(|one| {
                let seen = format!("{name}: {}", text(&one["problem"]));
                let why = "for pages that are not stored, PHP reads from the database what it has read before";
                DoctorFinding::bad(Severity::Notice, CHECK, seen, why, text(&one["remedy"]))
            })
            .collect();
        if findings.is_empty() {
            let percent = of["hit_ratio"].as_f64().unwrap_or_default() * 100.0;
            let seen = format!("{name}: {percent:.0} % of the values that PHP reads are there");
            findings.push(DoctorFinding::fine(CHECK, seen));
        }
        findings
    });
    findings.collect()
}

/// The socket paths in packages of Debian, Fedora and hosting panels.
const SOCKETS: [&str; 6] = [
    "/run/redis/redis-server.sock",
    "/run/redis/redis.sock",
    "/run/redis.sock",
    "/run/valkey/valkey-server.sock",
    "/run/valkey/valkey.sock",
    "/run/valkey.sock",
];

const PORT: u16 = 6379;

const TIMEOUT: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::net::UnixListener;
    use std::thread;

    use serde_json::json;

    use super::*;

    #[test]
    fn an_engine_is_recognized_by_its_response() {
        for (reply, wanted) in [
            ("+PONG\r\n", true),
            ("-NOAUTH Authentication required.\r\n", true),
            ("HTTP/1.1 400 Bad Request\r\n", false),
            ("", false),
        ] {
            let root = tempfile::tempdir().unwrap();
            let machine = ProcFs::at(root.path());
            assert_eq!(object_engine(&machine), None);
            fs::create_dir_all(root.path().join("run/valkey")).unwrap();
            let listener = UnixListener::bind(root.path().join("run/valkey/valkey.sock")).unwrap();
            let server = thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let mut request = [0; 6];
                stream.read_exact(&mut request).unwrap();
                stream.write_all(reply.as_bytes()).unwrap();
                request
            });
            let found = object_engine(&machine);
            let socket = ObjectEngine::Socket("/run/valkey/valkey.sock");
            assert_eq!(found, wanted.then_some(socket), "{reply}");
            assert_eq!(&server.join().unwrap(), b"PING\r\n");
        }
    }

    #[test]
    fn what_works_against_the_own_object_cache_is_a_notice() {
        let site = |of: Value| json!({ "name": "a.test", "object_cache": of });
        let problem = json!({ "problem": "emptied", "remedy": "stop it" });
        let status = json!({ "sites": [
            site(json!({ "requests": 7, "hit_ratio": 0.987, "problems": [] })),
            site(json!({ "requests": 7, "problems": [problem] })),
            site(json!({ "requests": 0, "problems": [] })), site(Value::Null),
        ]});
        let found = object_findings(&Ok(status));
        let seen = found
            .iter()
            .map(|one| (one.level, &*one.seen, &*one.remedy));
        let expected = [
            (
                Severity::Fine,
                "a.test: 99 % of the values that PHP reads are there",
                "",
            ),
            (Severity::Notice, "a.test: emptied", "stop it"),
        ];
        assert!(seen.eq(expected), "{found:?}");
        assert!(object_findings(&Err("no server".to_owned())).is_empty());
    }

    #[test]
    fn only_a_listening_port_is_found() {
        let root = tempfile::tempdir().unwrap();
        let machine = ProcFs::at(root.path());
        fs::create_dir_all(root.path().join("proc/net")).unwrap();
        let head = "  sl  local_address rem_address   st tx_queue rx_queue\n";
        for (line, wanted) in [
            (
                "   0: 0100007F:18EB 00000000:0000 0A 00000000:00000000",
                true,
            ),
            (
                "   0: 00000000:18EB 00000000:0000 0A 00000000:00000000",
                true,
            ),
            (
                "   0: 0100007F:18EB 0100007F:9999 01 00000000:00000000",
                false,
            ),
            (
                "   0: 0100007F:18EC 00000000:0000 0A 00000000:00000000",
                false,
            ),
            (
                "   0: 0100007F:9999 0100007F:18EB 01 00000000:00000000",
                false,
            ),
            ("", false),
        ] {
            fs::write(root.path().join("proc/net/tcp"), format!("{head}{line}\n")).unwrap();
            assert_eq!(listens(&machine), wanted, "{line}");
        }
    }

    #[test]
    fn an_object_cache_is_recommended_if_an_engine_responds() {
        let engine = ObjectEngine::Socket("/run/redis/redis-server.sock");
        let level = |is_used: Value, engine| {
            let found = finding(&json!({ "object_cache": is_used }), engine);
            (found.level, found.remedy)
        };
        assert_eq!(level(json!(true), Some(&engine)).0, Severity::Fine);
        assert_eq!(level(json!(false), None).0, Severity::Fine);
        assert_eq!(level(json!(null), Some(&engine)).0, Severity::Unknown);
        let (severity, remedy) = level(json!(false), Some(&engine));
        assert_eq!(severity, Severity::Notice);
        assert!(
            remedy.contains("'WP_REDIS_PATH', '/run/redis/redis-server.sock'"),
            "{remedy}"
        );
        let (_, remedy) = level(json!(false), Some(&ObjectEngine::Port));
        assert!(remedy.contains("'WP_REDIS_PORT', 6379"), "{remedy}");
    }
}
