//! Tests with the real PHP-FPM of the package `php-fpm`.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::borrow::Cow;
use std::future::Future;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use galley_fastcgi::response::Splitter;
use galley_fastcgi::{BodySource, FastCgiConnection, FastCgiEvent, FastCgiRequest, NoBody};
use tempfile::TempDir;
use tokio::net::UnixStream;

const TIMEOUT: Duration = Duration::from_secs(60);

/// A PHP-FPM with two workers and a temporary directory.
struct Fpm {
    directory: TempDir,
    master: Child,
}

impl Fpm {
    fn start() -> Fpm {
        let directory = tempfile::Builder::new()
            .prefix("galley-fpm-")
            .tempdir()
            .unwrap();
        let path = directory.path();
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
        let is_root = std::fs::metadata("/proc/self")
            .is_ok_and(|m| std::os::unix::fs::MetadataExt::uid(&m) == 0);
        let user = if is_root {
            "user = www-data\ngroup = www-data\n"
        } else {
            ""
        };
        let config = format!(
            "[global]\nerror_log = /proc/self/fd/2\n[pool]\n{user}listen = {}\npm = static\npm.max_children = 2\n\
             php_admin_value[post_max_size] = 200M\nphp_admin_value[memory_limit] = 64M\nphp_admin_value[error_log] =\n",
            path.join("fpm.sock").display()
        );
        std::fs::write(path.join("fpm.conf"), config).unwrap();
        let mut master = Command::new(fpm_binary())
            .args(["--nodaemonize", "--fpm-config"])
            .arg(path.join("fpm.conf"))
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (ready, is_ready) = mpsc::channel();
        let lines = BufReader::new(master.stderr.take().unwrap()).lines();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if line.contains("ready to handle connections") {
                    let _ = ready.send(());
                }
                eprintln!("php-fpm: {line}");
            }
        });
        let fpm = Fpm { directory, master };
        is_ready
            .recv_timeout(TIMEOUT)
            .expect("PHP-FPM did not become ready");
        fpm
    }

    fn script(&self, name: &str, code: &str) -> PathBuf {
        let path = self.directory.path().join(name);
        std::fs::write(&path, format!("<?php {code}")).unwrap();
        path
    }

    async fn connect(&self) -> FastCgiConnection<UnixStream> {
        FastCgiConnection::new(
            UnixStream::connect(self.directory.path().join("fpm.sock"))
                .await
                .unwrap(),
        )
    }
}

impl Drop for Fpm {
    fn drop(&mut self) {
        // SIGTERM, not SIGKILL: the workers must end with their master.
        let _ = Command::new("kill")
            .arg(self.master.id().to_string())
            .status();
        let _ = self.master.wait();
    }
}

/// The newest PHP-FPM by name: `php-fpm8.4` after `php-fpm8.2`.
fn fpm_binary() -> PathBuf {
    let found = ["/usr/sbin", "/usr/local/sbin"]
        .iter()
        .flat_map(|place| std::fs::read_dir(place).into_iter().flatten());
    found
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| {
            path.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("php-fpm"))
        })
        .max()
        .expect("these tests need PHP-FPM: install the package php-fpm")
}

type Variable = (Cow<'static, [u8]>, Cow<'static, [u8]>);

fn variables(method: &str, script: &Path, body_length: u64) -> Vec<Variable> {
    [
        ("GATEWAY_INTERFACE", "CGI/1.1".to_owned()),
        ("SERVER_PROTOCOL", "HTTP/1.1".to_owned()),
        ("REQUEST_METHOD", method.to_owned()),
        ("SCRIPT_FILENAME", script.display().to_string()),
        ("SCRIPT_NAME", "/script.php".to_owned()),
        ("CONTENT_TYPE", "application/octet-stream".to_owned()),
        ("CONTENT_LENGTH", body_length.to_string()),
    ]
    .into_iter()
    .map(|(name, value)| (name.as_bytes().into(), value.into_bytes().into()))
    .collect()
}

/// A body of increasing numbers, so that lost or repeated pieces are detected.
struct CountingBody {
    left: u64,
    next: u64,
}

const CHUNK: u64 = 64 * 1024;

impl CountingBody {
    fn new(length: u64) -> CountingBody {
        CountingBody {
            left: length,
            next: 0,
        }
    }

    fn chunk(&mut self) -> Option<Bytes> {
        let length = self.left.min(CHUNK);
        self.left -= length;
        let words = (self.next..).take(usize::try_from(length / 8).unwrap());
        let chunk: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        self.next += length / 8;
        (!chunk.is_empty()).then(|| chunk.into())
    }
}

impl BodySource for CountingBody {
    fn poll_chunk(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        Poll::Ready(Ok(self.chunk()))
    }
}

/// Sends a request and returns head and body of the response.
async fn send(
    connection: &mut FastCgiConnection<UnixStream>,
    script: &Path,
    body_length: u64,
    body: &mut impl BodySource,
) -> (String, Vec<u8>) {
    let method = if body_length > 0 { "POST" } else { "GET" };
    send_with_method(method, connection, script, body_length, body).await
}

/// Sends a request with a body of counted words.
async fn send_counted(
    connection: &mut FastCgiConnection<UnixStream>,
    script: &Path,
    length: u64,
) -> (String, Vec<u8>) {
    send(connection, script, length, &mut CountingBody::new(length)).await
}

async fn send_with_method(
    method: &str,
    connection: &mut FastCgiConnection<UnixStream>,
    script: &Path,
    body_length: u64,
    body: &mut impl BodySource,
) -> (String, Vec<u8>) {
    let variables = variables(method, script, body_length);
    with_timeout(connection.send(&FastCgiRequest {
        variables: &variables,
        body_length,
    }))
    .await
    .unwrap();
    let (mut splitter, mut head, mut response_body) = (Splitter::new(), None, Vec::new());
    loop {
        match with_timeout(connection.event(body)).await.unwrap() {
            FastCgiEvent::Stdout(bytes) => {
                let split = splitter.push(bytes).unwrap();
                head = head.or(split.head);
                response_body.extend_from_slice(&split.body);
            }
            FastCgiEvent::Stderr(bytes) => eprintln!("stderr: {}", String::from_utf8_lossy(&bytes)),
            FastCgiEvent::End(status) => {
                assert_eq!(status.app_status, 0);
                return (
                    String::from_utf8(head.unwrap().to_vec()).unwrap(),
                    response_body,
                );
            }
        }
    }
}

async fn with_timeout<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(TIMEOUT, future)
        .await
        .expect("timeout, perhaps a deadlock")
}

/// User and system time of this process in milliseconds, from /proc (ticks of 10 ms).
fn cpu_ms() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let after_name = stat.rsplit(')').next().unwrap();
    after_name
        .split_whitespace()
        .skip(11)
        .take(2)
        .map(|ticks| ticks.parse::<u64>().unwrap() * 10)
        .sum()
}

fn sha256(mut chunks: CountingBody) -> String {
    let mut hash = Command::new("sha256sum")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("sha256sum of coreutils");
    let mut stdin = hash.stdin.take().unwrap();
    while let Some(chunk) = chunks.chunk() {
        stdin.write_all(&chunk).unwrap();
    }
    drop(stdin);
    String::from_utf8(hash.wait_with_output().unwrap().stdout).unwrap()[..64].to_owned()
}

#[tokio::test]
async fn a_connection_serves_a_thousand_requests() {
    let fpm = Fpm::start();
    let script = fpm.script(
        "hello.php",
        "header('X-Seen: ' . strlen(file_get_contents('php://input'))); echo 'hello ', getmypid();",
    );
    let mut connection = fpm.connect().await;
    let mut first = None;
    let started = Instant::now();
    for round in 0..1000_u64 {
        // Every third request has a body, which checks that the next request starts at the right byte.
        let length = if round % 3 == 0 { 8 * (round + 1) } else { 0 };
        let (head, body) = send_counted(&mut connection, &script, length).await;
        assert!(head.contains(&format!("X-Seen: {length}\r\n")), "{head}");
        assert!(body.starts_with(b"hello "));
        // The same worker shows that it is the same connection.
        assert_eq!(*first.get_or_insert_with(|| body.clone()), body);
        assert!(connection.is_reusable(), "round {round}");
    }
    println!("1,000 requests in {:?}", started.elapsed());
}

#[tokio::test]
async fn a_large_upload_arrives_completely() {
    const LENGTH: u64 = 100 << 20;
    let fpm = Fpm::start();
    let script = fpm.script("hash.php", "echo hash_file('sha256', 'php://input');");
    let sink = fpm.script(
        "sink.php",
        "$f = fopen('php://input', 'r'); while (!feof($f)) fread($f, 65536);",
    );
    let mut connection = fpm.connect().await;
    let (_, body) = send_counted(&mut connection, &script, LENGTH).await;
    assert_eq!(
        String::from_utf8(body).unwrap(),
        sha256(CountingBody::new(LENGTH))
    );
    assert!(connection.is_reusable());
    let (started, cpu) = (Instant::now(), cpu_ms());
    let mut repeated = RepeatedBody {
        chunk: Bytes::from(vec![b'u'; 64 * 1024]),
        left: LENGTH / CHUNK,
    };
    send(&mut connection, &sink, LENGTH, &mut repeated).await;
    println!(
        "100 MiB up in {:?}, {} ms of CPU",
        started.elapsed(),
        cpu_ms() - cpu
    );
    assert!(connection.is_reusable());
}

/// A body that repeats one chunk, to measure the codec and not the source.
struct RepeatedBody {
    chunk: Bytes,
    left: u64,
}

impl BodySource for RepeatedBody {
    fn poll_chunk(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        self.left = self.left.saturating_sub(1);
        Poll::Ready(Ok(Some(self.chunk.clone())))
    }
}

#[tokio::test]
async fn a_script_can_ignore_the_request_body() {
    const LENGTH: u64 = 20 << 20;
    let fpm = Fpm::start();
    let plain = fpm.script("plain.php", "echo 'done';");
    // Ends the request before PHP has read the body; PHP then closes the connection.
    let early = fpm.script("early.php", "echo 'done'; fastcgi_finish_request();");
    // PHP reads the body of a POST before the script runs, the body of a PUT only if the script reads it.
    for (method, script, is_reusable) in [
        ("POST", &plain, true),
        ("PUT", &plain, true),
        ("PUT", &early, false),
    ] {
        let mut connection = fpm.connect().await;
        let body = &mut CountingBody::new(LENGTH);
        let (_, body) = send_with_method(method, &mut connection, script, LENGTH, body).await;
        assert_eq!(body, b"done");
        assert_eq!(
            connection.is_reusable(),
            is_reusable,
            "{method} {}",
            script.display()
        );
        if is_reusable {
            let (_, body) = send(&mut connection, script, 0, &mut NoBody).await;
            assert_eq!(body, b"done");
        }
    }
}

#[tokio::test]
async fn a_script_can_write_while_reading_the_body() {
    const LENGTH: u64 = 20 << 20;
    let fpm = Fpm::start();
    let script = fpm.script(
        "echo.php",
        "$f = fopen('php://input', 'r'); while (!feof($f)) { echo fread($f, 65536); flush(); }",
    );
    let mut connection = fpm.connect().await;
    let (_, body) = send_counted(&mut connection, &script, LENGTH).await;
    let mut expected = CountingBody::new(LENGTH);
    let mut rest = &body[..];
    while let Some(chunk) = expected.chunk() {
        assert!(rest.starts_with(&chunk));
        rest = &rest[chunk.len()..];
    }
    assert!(rest.is_empty() && connection.is_reusable());
}

#[tokio::test]
async fn a_large_response_arrives_completely() {
    let fpm = Fpm::start();
    let script = fpm.script(
        "print.php",
        "for ($i = 0; $i < 800; $i++) echo str_repeat(chr(65 + $i % 26), 65536); error_log('end');",
    );
    let mut connection = fpm.connect().await;
    let (started, cpu) = (Instant::now(), cpu_ms());
    let (head, body) = send(&mut connection, &script, 0, &mut NoBody).await;
    println!(
        "50 MiB down in {:?}, {} ms of CPU",
        started.elapsed(),
        cpu_ms() - cpu
    );
    assert!(
        head.to_ascii_lowercase()
            .contains("content-type: text/html"),
        "{head}"
    );
    assert_eq!(body.len(), 800 * 65536);
    for (index, piece) in body.chunks(65536).enumerate() {
        let letter = b'A' + u8::try_from(index % 26).unwrap();
        assert!(piece.iter().all(|&byte| byte == letter), "piece {index}");
    }
    assert!(connection.is_reusable());
}

#[tokio::test]
async fn closing_aborts_a_request() {
    let fpm = Fpm::start();
    let endless = fpm.script(
        "endless.php",
        "while (true) { echo str_repeat('x', 65536); flush(); }",
    );
    let hello = fpm.script("hello.php", "echo 'hello';");
    // More requests than workers, so each worker must become free again.
    for _ in 0..5 {
        let mut connection = fpm.connect().await;
        let variables = variables("GET", &endless, 0);
        with_timeout(connection.send(&FastCgiRequest {
            variables: &variables,
            body_length: 0,
        }))
        .await
        .unwrap();
        assert!(matches!(
            with_timeout(connection.event(&mut NoBody)).await.unwrap(),
            FastCgiEvent::Stdout(_)
        ));
    }
    assert_eq!(
        send(&mut fpm.connect().await, &hello, 0, &mut NoBody)
            .await
            .1,
        b"hello"
    );
}
