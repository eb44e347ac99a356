//! Against the real PHP-FPM, from the package `php-fpm`.

#![expect(clippy::unwrap_used, reason = "a test may fail")]

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

const PATIENCE: Duration = Duration::from_secs(60);

/// One PHP-FPM with two workers below a directory of its own.
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
        let mut master = Command::new(binary())
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
            .recv_timeout(PATIENCE)
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

/// The newest by name: `php-fpm8.4` after `php-fpm8.2`.
fn binary() -> PathBuf {
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

/// Bytes that do not repeat within a chunk's length, so that a lost or doubled piece shows.
struct Counting {
    left: u64,
    next: u64,
}

const CHUNK: u64 = 64 * 1024;

impl Counting {
    fn new(length: u64) -> Counting {
        Counting {
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

impl BodySource for Counting {
    fn poll_chunk(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        Poll::Ready(Ok(self.chunk()))
    }
}

/// Asks and gives head and body.
async fn ask(
    connection: &mut FastCgiConnection<UnixStream>,
    script: &Path,
    body_length: u64,
    body: &mut impl BodySource,
) -> (String, Vec<u8>) {
    let method = if body_length > 0 { "POST" } else { "GET" };
    ask_with(method, connection, script, body_length, body).await
}

async fn ask_with(
    method: &str,
    connection: &mut FastCgiConnection<UnixStream>,
    script: &Path,
    body_length: u64,
    body: &mut impl BodySource,
) -> (String, Vec<u8>) {
    let variables = variables(method, script, body_length);
    soon(connection.send(&FastCgiRequest {
        variables: &variables,
        body_length,
    }))
    .await
    .unwrap();
    let (mut splitter, mut head, mut answer) = (Splitter::new(), None, Vec::new());
    loop {
        match soon(connection.event(body)).await.unwrap() {
            FastCgiEvent::Stdout(bytes) => {
                let split = splitter.push(bytes).unwrap();
                head = head.or(split.head);
                answer.extend_from_slice(&split.body);
            }
            FastCgiEvent::Stderr(bytes) => eprintln!("stderr: {}", String::from_utf8_lossy(&bytes)),
            FastCgiEvent::End(status) => {
                assert_eq!(status.app_status, 0);
                splitter.finish().unwrap();
                return (String::from_utf8(head.unwrap().to_vec()).unwrap(), answer);
            }
        }
    }
}

async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future)
        .await
        .expect("a deadlock")
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

fn sha256(mut chunks: Counting) -> String {
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
        // Every third has a body, so that what follows it is proved to begin at the right byte.
        let length = if round % 3 == 0 { 8 * (round + 1) } else { 0 };
        let (head, body) = ask(&mut connection, &script, length, &mut Counting::new(length)).await;
        assert!(head.contains(&format!("X-Seen: {length}\r\n")), "{head}");
        assert!(body.starts_with(b"hello "));
        // One worker all the time: it is the same connection.
        assert_eq!(*first.get_or_insert_with(|| body.clone()), body);
        assert!(connection.is_reusable(), "round {round}");
    }
    println!("1,000 requests in {:?}", started.elapsed());
}

#[tokio::test]
async fn a_large_upload_arrives_whole() {
    const LENGTH: u64 = 100 << 20;
    let fpm = Fpm::start();
    let script = fpm.script("hash.php", "echo hash_file('sha256', 'php://input');");
    let sink = fpm.script(
        "sink.php",
        "$f = fopen('php://input', 'r'); while (!feof($f)) fread($f, 65536);",
    );
    let mut connection = fpm.connect().await;
    let (_, body) = ask(&mut connection, &script, LENGTH, &mut Counting::new(LENGTH)).await;
    assert_eq!(
        String::from_utf8(body).unwrap(),
        sha256(Counting::new(LENGTH))
    );
    assert!(connection.is_reusable());
    let (started, cpu) = (Instant::now(), cpu_ms());
    let mut same = Same {
        chunk: Bytes::from(vec![b'u'; 64 * 1024]),
        left: LENGTH / CHUNK,
    };
    ask(&mut connection, &sink, LENGTH, &mut same).await;
    println!(
        "100 MiB up in {:?}, {} ms of CPU",
        started.elapsed(),
        cpu_ms() - cpu
    );
    assert!(connection.is_reusable());
}

/// The same chunk again and again, to measure the codec and not the source.
struct Same {
    chunk: Bytes,
    left: u64,
}

impl BodySource for Same {
    fn poll_chunk(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        self.left = self.left.saturating_sub(1);
        Poll::Ready(Ok(Some(self.chunk.clone())))
    }
}

#[tokio::test]
async fn a_script_may_ignore_its_body() {
    const LENGTH: u64 = 20 << 20;
    let fpm = Fpm::start();
    let plain = fpm.script("plain.php", "echo 'done';");
    // Ends the request before PHP has read on; PHP then closes.
    let early = fpm.script("early.php", "echo 'done'; fastcgi_finish_request();");
    // PHP takes in the body of a POST before the script runs, that of a PUT only when asked.
    for (method, script, keeps) in [
        ("POST", &plain, true),
        ("PUT", &plain, true),
        ("PUT", &early, false),
    ] {
        let mut connection = fpm.connect().await;
        let body = &mut Counting::new(LENGTH);
        let (_, answer) = ask_with(method, &mut connection, script, LENGTH, body).await;
        assert_eq!(answer, b"done");
        assert_eq!(
            connection.is_reusable(),
            keeps,
            "{method} {}",
            script.display()
        );
        if keeps {
            let (_, answer) = ask(&mut connection, script, 0, &mut NoBody).await;
            assert_eq!(answer, b"done");
        }
    }
}

#[tokio::test]
async fn a_script_may_print_while_it_reads() {
    const LENGTH: u64 = 20 << 20;
    let fpm = Fpm::start();
    let script = fpm.script(
        "echo.php",
        "$f = fopen('php://input', 'r'); while (!feof($f)) { echo fread($f, 65536); flush(); }",
    );
    let mut connection = fpm.connect().await;
    let (_, body) = ask(&mut connection, &script, LENGTH, &mut Counting::new(LENGTH)).await;
    let mut expected = Counting::new(LENGTH);
    let mut rest = &body[..];
    while let Some(chunk) = expected.chunk() {
        assert!(rest.starts_with(&chunk));
        rest = &rest[chunk.len()..];
    }
    assert!(rest.is_empty() && connection.is_reusable());
}

#[tokio::test]
async fn a_large_answer_arrives_whole() {
    let fpm = Fpm::start();
    let script = fpm.script(
        "print.php",
        "for ($i = 0; $i < 800; $i++) echo str_repeat(chr(65 + $i % 26), 65536); error_log('end');",
    );
    let mut connection = fpm.connect().await;
    let (started, cpu) = (Instant::now(), cpu_ms());
    let (head, body) = ask(&mut connection, &script, 0, &mut NoBody).await;
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
    // More than there are workers: each must be given back.
    for _ in 0..5 {
        let mut connection = fpm.connect().await;
        let variables = variables("GET", &endless, 0);
        soon(connection.send(&FastCgiRequest {
            variables: &variables,
            body_length: 0,
        }))
        .await
        .unwrap();
        assert!(matches!(
            soon(connection.event(&mut NoBody)).await.unwrap(),
            FastCgiEvent::Stdout(_)
        ));
    }
    assert_eq!(
        ask(&mut fpm.connect().await, &hello, 0, &mut NoBody)
            .await
            .1,
        b"hello"
    );
}
