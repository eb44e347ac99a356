//! A hit on a page or a file allocates no memory. The test runs the server in its own process and counts the allocations of ten
//! thousand hits. Over TLS, only the TLS library allocates.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::alloc::System;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use galley_testkit::Scratch;
use galley_testkit::origin::Origin;
use socket2::{Domain, Socket, Type};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static COUNTING: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const HITS: usize = 10_000;

const HITS_OVER_TLS: usize = 3_000;

/// Allocations of rustls for a hit: one for the request's plaintext, one for each record of the response, one for their queue.
const RUSTLS_ALLOCATIONS: usize = 4;

/// Other fields of a browser, with cookies that do not identify a user.
const BROWSER_FIELDS: &str = "Host: example.test\r\nConnection: keep-alive\r\nCache-Control: max-age=0\r\n\
sec-ch-ua: \"Chromium\";v=\"142\", \"Google Chrome\";v=\"142\"\r\nsec-ch-ua-mobile: ?0\r\n\
Upgrade-Insecure-Requests: 1\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) \
Chrome/142.0.0.0 Safari/537.36\r\nAccept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n\
Sec-Fetch-Site: none\r\nAccept-Language: en-GB,en;q=0.9\r\n\
Cookie: _ga=GA1.1.123456789; _gid=GA1.1.99; wordpress_test_cookie=WP%20Cookie%20check\r\n";

/// Fields that a proxy adds.
const PROXY_FIELDS: &str = "X-Forwarded-For: 192.0.2.1, 203.0.113.7\r\nX-Forwarded-Proto: http\r\n\
X-Forwarded-Host: example.test\r\nX-Forwarded-Port: 80";

/// A browser's request with tracking parameters and one additional field.
fn request(method: &str, field: &str) -> Vec<u8> {
    let target = "/post/?utm_source=newsletter&utm_medium=email";
    format!("{method} {target} HTTP/1.1\r\n{BROWSER_FIELDS}{field}\r\n\r\n").into_bytes()
}

/// A browser's request for a stylesheet, with the query that WordPress adds.
fn file_request(field: &str) -> Vec<u8> {
    format!("GET /wp-content/style.css?ver=6.9 HTTP/1.1\r\n{BROWSER_FIELDS}{field}\r\n\r\n")
        .into_bytes()
}

// A single test, because the allocator counts all threads.
#[test]
fn hits_allocate_nothing() {
    let origin = Origin::constant(
        &[
            ("Content-Type", "text/html"),
            ("Cache-Control", "max-age=3600"),
        ],
        &format!("<html><body>{}</body></html>", "<p>text</p>".repeat(1000)),
    )
    .unwrap();
    let scratch = Scratch::new().unwrap();
    let [address, tls_address] = start(&scratch, &origin);

    let mut client = connect("127.0.0.1", &address);
    let mut proxy = connect("127.0.0.2", &address);
    let mut buffer = vec![0; 256 * 1024];
    let (gzip, br) = (
        "Accept-Encoding: gzip, deflate",
        "Accept-Encoding: gzip, deflate, br, zstd",
    );
    // A response that is compressed during the fetch has no `Content-Length`, so the first request is uncompressed.
    let plain = request("GET", "Accept-Encoding: identity");
    exchange(&mut client, &plain, 1, &mut buffer);
    // Waits until the response is stored and compressed.
    let mut wait_for_brotli_etag = |bytes: &[u8]| loop {
        let length = exchange(&mut client, bytes, 1, &mut buffer);
        let etag = etag(&buffer[..length]);
        if etag.ends_with("-br\"") {
            return etag;
        }
    };
    let page_etag = wait_for_brotli_etag(&request("GET", br));
    let file_etag = wait_for_brotli_etag(&file_request(br));
    let conditional_file = format!("{br}\r\nIf-None-Match: {file_etag}");
    let conditional = format!("{br}\r\nIf-None-Match: {page_etag}");
    let proxied = format!("{br}\r\n{PROXY_FIELDS}");
    let kinds: [(&str, Vec<u8>, usize, HeadVariation); 10] = [
        ("proxied", request("GET", &proxied), 1, HeadVariation::Same),
        ("gzip", request("GET", gzip), 1, HeadVariation::Same),
        ("br", request("GET", br), 1, HeadVariation::Same),
        ("HEAD", request("HEAD", br), 1, HeadVariation::Same),
        ("304", request("GET", &conditional), 1, HeadVariation::Same),
        ("file", file_request(br), 1, HeadVariation::Same),
        (
            "304 of a file",
            file_request(&conditional_file),
            1,
            HeadVariation::Same,
        ),
        (
            "pipelined",
            [request("GET", br), request("GET", gzip)]
                .concat()
                .repeat(8),
            16,
            HeadVariation::Same,
        ),
        ("new head", request("GET", br), 1, HeadVariation::Unique),
        (
            "repeated once",
            request("GET", br),
            1,
            HeadVariation::EachTwice,
        ),
    ];
    for (kind, bytes, responses, heads) in kinds {
        let client = if kind == "proxied" {
            &mut proxy
        } else {
            &mut client
        };
        count_hits(client, kind, bytes, responses, heads);
    }
    assert_eq!(origin.requests().len(), 1);
    let over_tls = [
        ("page", request("GET", gzip)),
        ("304", request("GET", &conditional)),
        ("file", file_request(br)),
    ];
    count_hits_over_tls(&tls_address, &plain, &over_tls);
}

/// Starts a server in this process and returns its addresses without and with TLS.
fn start(scratch: &Scratch, origin: &Origin) -> [String; 2] {
    let dir = scratch.path().display();
    let file = scratch.join("galley.toml");
    scratch
        .write("root/wp-content/style.css", "p { margin: 0 }\n".repeat(500))
        .unwrap();
    fs::write(
        &file,
        format!(
            "[server]\nlisten = [\"127.0.0.1:0\"]\nlisten_tls = [\"127.0.0.1:0\"]\nworkers = 1\ntrusted_proxies = [\"127.0.0.2\"]\n[admin]\nlisten = \"off\"\n[log]\naccess = \"{dir}/access.log\"\n\
             [cache]\nmemory = \"64MiB\"\n[[site]]\nhosts = [\"example.test\"]\ncron = \"off\"\nroot = \"{dir}/root\"\nupstream = [\"{}\"]\n\
             compress = [\"gzip\", \"br\"]\n\
             dense_after = 0\nset_headers = [\"X-Frame-Options: DENY\"]\nhttps_redirect = false\n\
             tls = {{ cert = \"{dir}/cert.pem\", key = \"{dir}/key.pem\" }}\n\
             [[site.rule]]\npattern = '^/(post|shop)/'\nset_headers = [\"Content-Type: text/html; charset=utf-8\"]\n",
            origin.url()
        ),
    )
    .unwrap();
    let certificate = rcgen::generate_simple_self_signed(vec!["example.test".to_owned()]).unwrap();
    scratch.write("cert.pem", certificate.cert.pem()).unwrap();
    let key = scratch.write("key.pem", certificate.signing_key.serialize_pem());
    fs::set_permissions(key.unwrap(), fs::Permissions::from_mode(0o600)).unwrap();
    let config = galley_config::load(&file).unwrap();
    let (line_sender, lines) = mpsc::channel();
    // The thread ends with the process.
    std::thread::spawn(move || {
        let source = galley_config::ConfigSource::file(Path::new("test.toml"));
        let report = |line: &str| drop(line_sender.send(line.to_owned()));
        galley::app::run(
            &config,
            source,
            None,
            galley::app::Inheritance::default(),
            &report,
        )
        .unwrap();
    });
    let listening = |scheme: &str| {
        let line = lines.recv_timeout(Duration::from_secs(15)).unwrap();
        let address = line.strip_prefix(&format!("listening on {scheme}://"));
        address.unwrap().to_owned()
    };
    let addresses = [listening("http"), listening("https")];
    while lines.recv_timeout(Duration::from_secs(15)).unwrap() != "ready" {}
    addresses
}

fn count_hits(
    client: &mut TcpStream,
    kind: &str,
    mut bytes: Vec<u8>,
    responses: usize,
    heads: HeadVariation,
) {
    let mut buffer = vec![0; 256 * 1024];
    let mut number = 0;
    let mut send = || {
        number += 1;
        heads.apply(&mut bytes, number);
        exchange(client, &bytes, responses, &mut buffer);
    };
    // Until every buffer has its final size, including those of the head cache.
    for _ in 0..heads.warm_up() {
        send();
    }
    let began = Instant::now();
    let region = Region::new(COUNTING);
    for _ in 0..HITS / responses {
        send();
    }
    let change = region.change();
    // Allowed for concurrent work: log batches, and per second the timer sweep and checks for changes of the file.
    let seconds = usize::try_from(began.elapsed().as_secs()).unwrap();
    let allowed = (HITS / 50 + seconds * 100).min(HITS / 2);
    assert!(
        change.allocations + change.reallocations < allowed,
        "{HITS} {kind} hits made {} allocations and {} reallocations",
        change.allocations,
        change.reallocations
    );
}

fn count_hits_over_tls(address: &str, first: &[u8], kinds: &[(&str, Vec<u8>)]) {
    let mut buffer = vec![0; 256 * 1024];
    // The page is stored separately for HTTPS, because its URLs may have another scheme.
    let mut client = Openssl::connect(address);
    exchange(&mut client, first, 1, &mut buffer);
    for (kind, bytes) in kinds {
        for _ in 0..200 {
            exchange(&mut client, bytes, 1, &mut buffer);
        }
        let began = Instant::now();
        let region = Region::new(COUNTING);
        for _ in 0..HITS_OVER_TLS {
            exchange(&mut client, bytes, 1, &mut buffer);
        }
        let change = region.change();
        let seconds = usize::try_from(began.elapsed().as_secs()).unwrap();
        let allocations = change.allocations + change.reallocations;
        println!("{kind} over TLS: {allocations} allocations for {HITS_OVER_TLS} hits");
        assert!(
            allocations < HITS_OVER_TLS * RUSTLS_ALLOCATIONS + seconds * 100,
            "{HITS_OVER_TLS} {kind} hits over TLS made {allocations} allocations"
        );
    }
}

/// How the request heads of a measurement differ.
#[derive(Clone, Copy)]
enum HeadVariation {
    /// All are the same, so the head cache has them.
    Same,
    /// Each is new.
    Unique,
    /// Each is sent twice and replaces another in the head cache.
    EachTwice,
}

impl HeadVariation {
    fn warm_up(self) -> usize {
        match self {
            Self::Same | Self::Unique => 200,
            Self::EachTwice => 4_000,
        }
    }

    /// Writes a number that makes the head unique into a cookie. Does not allocate.
    fn apply(self, bytes: &mut [u8], number: usize) {
        let mut number = match self {
            Self::Same => return,
            Self::Unique => number,
            Self::EachTwice => 1_000_000 + number / 2,
        };
        let name = b"_ga=GA1.1.";
        let at = bytes.windows(name.len()).position(|at| at == name).unwrap();
        for digit in bytes[at + name.len()..][..9].iter_mut().rev() {
            *digit = b'0' + u8::try_from(number % 10).unwrap();
            number /= 10;
        }
    }
}

/// Connects from the given local address.
fn connect(from: &str, to: &str) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let from: SocketAddr = format!("{from}:0").parse().unwrap();
    socket.bind(&from.into()).unwrap();
    let to: SocketAddr = to.parse().unwrap();
    socket.connect(&to.into()).unwrap();
    let client = TcpStream::from(socket);
    client.set_nodelay(true).unwrap();
    let timeout = Some(Duration::from_secs(15));
    client.set_read_timeout(timeout).unwrap();
    client
}

/// A client in a separate process, so that its allocations do not count.
struct Openssl(Child, ChildStdin, ChildStdout);

impl Openssl {
    fn connect(address: &str) -> Self {
        let mut client = Command::new("openssl")
            .args([
                "s_client",
                "-quiet",
                "-servername",
                "example.test",
                "-connect",
                address,
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (stdin, stdout) = (client.stdin.take().unwrap(), client.stdout.take().unwrap());
        Self(client, stdin, stdout)
    }
}

impl Read for Openssl {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        self.2.read(into)
    }
}

impl Write for Openssl {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.1.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.1.flush()
    }
}

impl Drop for Openssl {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Sends requests, reads the complete responses and returns their total length.
fn exchange(
    client: &mut (impl Read + Write),
    bytes: &[u8],
    responses: usize,
    buffer: &mut [u8],
) -> usize {
    client.write_all(bytes).unwrap();
    let has_bodies = bytes.starts_with(b"GET");
    let (mut length, mut complete, mut received) = (0, 0, 0);
    while received < responses {
        let count = client.read(&mut buffer[length..]).unwrap();
        assert!(count > 0, "the server has closed the connection");
        length += count;
        while let Some(end) = response_end(&buffer[complete..length], has_bodies) {
            complete += end;
            received += 1;
        }
    }
    assert_eq!((complete, received), (length, responses));
    length
}

/// The end of the first response, if it is complete. Does not allocate.
fn response_end(bytes: &[u8], has_body: bool) -> Option<usize> {
    let head = bytes.windows(4).position(|at| at == b"\r\n\r\n")? + 4;
    let name = b"Content-Length: ";
    let at = bytes[..head]
        .windows(name.len())
        .position(|at| at == name)
        .filter(|_| has_body);
    let length = at.map_or(0, |at| {
        let digits = bytes[at + name.len()..head]
            .iter()
            .take_while(|byte| byte.is_ascii_digit());
        digits.fold(0, |sum, digit| sum * 10 + usize::from(digit - b'0'))
    });
    (bytes.len() >= head + length).then_some(head + length)
}

fn etag(response: &[u8]) -> String {
    let text = String::from_utf8_lossy(response);
    let line = text.lines().find_map(|line| line.strip_prefix("etag: "));
    line.unwrap_or_default().to_owned()
}
