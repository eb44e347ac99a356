//! A hit allocates nothing, be it a page or a file: counted over ten thousand of them by the allocator itself, in the
//! server's own process. Over TLS each record costs what the library allocates for it, and nothing else.

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

/// What rustls allocates for a hit: one for the request's plaintext, one for each record of the answer, one for their queue.
const OF_RUSTLS: usize = 4;

/// What a browser sends besides, with cookies that mean nobody.
const FIELDS: &str = "Host: example.test\r\nConnection: keep-alive\r\nCache-Control: max-age=0\r\n\
sec-ch-ua: \"Chromium\";v=\"142\", \"Google Chrome\";v=\"142\"\r\nsec-ch-ua-mobile: ?0\r\n\
Upgrade-Insecure-Requests: 1\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) \
Chrome/142.0.0.0 Safari/537.36\r\nAccept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n\
Sec-Fetch-Site: none\r\nAccept-Language: en-GB,en;q=0.9\r\n\
Cookie: _ga=GA1.1.123456789; _gid=GA1.1.99; wordpress_test_cookie=WP%20Cookie%20check\r\n";

/// What a proxy adds.
const OF_A_PROXY: &str = "X-Forwarded-For: 192.0.2.1, 203.0.113.7\r\nX-Forwarded-Proto: http\r\n\
X-Forwarded-Host: example.test\r\nX-Forwarded-Port: 80";

/// A browser's head with a tracking parameter and one further field.
fn request(method: &str, field: &str) -> Vec<u8> {
    let target = "/post/?utm_source=newsletter&utm_medium=email";
    format!("{method} {target} HTTP/1.1\r\n{FIELDS}{field}\r\n\r\n").into_bytes()
}

/// The same for a stylesheet, as WordPress writes its address.
fn request_of_file(field: &str) -> Vec<u8> {
    format!("GET /wp-content/style.css?ver=6.9 HTTP/1.1\r\n{FIELDS}{field}\r\n\r\n").into_bytes()
}

// One test: the allocator counts for all threads.
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
    let [address, secure] = start(&scratch, &origin);

    let mut client = connect("127.0.0.1", &address);
    let mut proxy = connect("127.0.0.2", &address);
    let mut answer = vec![0; 256 * 1024];
    // Until it is stored and compressed.
    let (gzip, br) = (
        "Accept-Encoding: gzip, deflate",
        "Accept-Encoding: gzip, deflate, br, zstd",
    );
    // What is coded while it arrives has no length.
    let plain = request("GET", "Accept-Encoding: identity");
    exchange(&mut client, &plain, 1, &mut answer);
    let mut tag_of_coded = |bytes: &[u8]| loop {
        let length = exchange(&mut client, bytes, 1, &mut answer);
        let tag = etag(&answer[..length]);
        if tag.ends_with("-br\"") {
            return tag;
        }
    };
    let tag = tag_of_coded(&request("GET", br));
    let tag_of_file = tag_of_coded(&request_of_file(br));
    let known_file = format!("{br}\r\nIf-None-Match: {tag_of_file}");
    let known = format!("{br}\r\nIf-None-Match: {tag}");
    let proxied = format!("{br}\r\n{OF_A_PROXY}");
    let kinds: [(&str, Vec<u8>, usize, Heads); 10] = [
        ("proxied", request("GET", &proxied), 1, Heads::Same),
        ("gzip", request("GET", gzip), 1, Heads::Same),
        ("br", request("GET", br), 1, Heads::Same),
        ("HEAD", request("HEAD", br), 1, Heads::Same),
        ("304", request("GET", &known), 1, Heads::Same),
        ("file", request_of_file(br), 1, Heads::Same),
        (
            "304 of a file",
            request_of_file(&known_file),
            1,
            Heads::Same,
        ),
        (
            "pipelined",
            [request("GET", br), request("GET", gzip)]
                .concat()
                .repeat(8),
            16,
            Heads::Same,
        ),
        ("never seen", request("GET", br), 1, Heads::Other),
        ("taken in", request("GET", br), 1, Heads::EachTwice),
    ];
    for (kind, bytes, answers, heads) in kinds {
        let client = if kind == "proxied" {
            &mut proxy
        } else {
            &mut client
        };
        count_hits(client, kind, bytes, answers, heads);
    }
    assert_eq!(origin.requests().len(), 1);
    let over_tls = [
        ("page", request("GET", gzip)),
        ("304", request("GET", &known)),
        ("file", request_of_file(br)),
    ];
    count_hits_over_tls(&secure, &plain, &over_tls);
}

/// Starts a server within this process; its addresses without and with TLS.
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
    let made = rcgen::generate_simple_self_signed(vec!["example.test".to_owned()]).unwrap();
    scratch.write("cert.pem", made.cert.pem()).unwrap();
    let key = scratch.write("key.pem", made.signing_key.serialize_pem());
    fs::set_permissions(key.unwrap(), fs::Permissions::from_mode(0o600)).unwrap();
    let config = galley_config::load(&file).unwrap();
    let (line_sender, lines) = mpsc::channel();
    // Ends with the process.
    std::thread::spawn(move || {
        let source = galley_config::ConfigSource::file(Path::new("test.toml"));
        let tell = |line: &str| drop(line_sender.send(line.to_owned()));
        galley::app::run(
            &config,
            source,
            None,
            galley::app::Inheritance::default(),
            &tell,
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
    answers: usize,
    heads: Heads,
) {
    let mut answer = vec![0; 256 * 1024];
    let mut number = 0;
    let mut ask = || {
        number += 1;
        heads.turn(&mut bytes, number);
        exchange(client, &bytes, answers, &mut answer);
    };
    // Until every buffer has its size: those of remembered heads as well.
    for _ in 0..heads.warm_up() {
        ask();
    }
    let began = Instant::now();
    let counted = Region::new(COUNTING);
    for _ in 0..HITS / answers {
        ask();
    }
    let change = counted.change();
    // What goes on beside: logs handed over, and by time the sweep of timers and looks at the file.
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
    let mut answer = vec![0; 256 * 1024];
    // A page of its own: addresses in it may have another scheme.
    let mut client = Openssl::connect(address);
    exchange(&mut client, first, 1, &mut answer);
    for (kind, bytes) in kinds {
        for _ in 0..200 {
            exchange(&mut client, bytes, 1, &mut answer);
        }
        let began = Instant::now();
        let counted = Region::new(COUNTING);
        for _ in 0..HITS_OVER_TLS {
            exchange(&mut client, bytes, 1, &mut answer);
        }
        let change = counted.change();
        let seconds = usize::try_from(began.elapsed().as_secs()).unwrap();
        let made = change.allocations + change.reallocations;
        println!("{kind} over TLS: {made} allocations of {HITS_OVER_TLS} hits");
        assert!(
            made < HITS_OVER_TLS * OF_RUSTLS + seconds * 100,
            "{HITS_OVER_TLS} {kind} hits over TLS made {made} allocations"
        );
    }
}

/// How the heads of a kind differ.
#[derive(Clone, Copy)]
enum Heads {
    /// Not at all: the server knows them.
    Same,
    /// Each is another one.
    Other,
    /// Each comes twice, and replaces another one.
    EachTwice,
}

impl Heads {
    fn warm_up(self) -> usize {
        match self {
            Self::Same | Self::Other => 200,
            Self::EachTwice => 4_000,
        }
    }

    /// Writes the number of a head into a cookie; allocates nothing.
    fn turn(self, bytes: &mut [u8], number: usize) {
        let mut number = match self {
            Self::Same => return,
            Self::Other => number,
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

/// A connection from one of this machine's own addresses.
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

/// A client in a process of its own, so that what it allocates does not count.
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

/// Requests and their whole answers; how long those are together.
fn exchange(
    client: &mut (impl Read + Write),
    bytes: &[u8],
    answers: usize,
    answer: &mut [u8],
) -> usize {
    client.write_all(bytes).unwrap();
    let has_bodies = bytes.starts_with(b"GET");
    let (mut length, mut whole, mut seen) = (0, 0, 0);
    while seen < answers {
        let count = client.read(&mut answer[length..]).unwrap();
        assert!(count > 0, "the server has left");
        length += count;
        while let Some(end) = end(&answer[whole..length], has_bodies) {
            whole += end;
            seen += 1;
        }
    }
    assert_eq!((whole, seen), (length, answers));
    length
}

/// Where an answer ends, once it is known; allocates nothing.
fn end(bytes: &[u8], has_body: bool) -> Option<usize> {
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

fn etag(answer: &[u8]) -> String {
    let text = String::from_utf8_lossy(answer);
    let line = text.lines().find_map(|line| line.strip_prefix("etag: "));
    line.unwrap_or_default().to_owned()
}
