//! A hit allocates nothing: counted over ten thousand of them by the allocator itself, in the server's own process.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::alloc::System;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc;
use std::time::Duration;

use galley_testkit::Scratch;
use galley_testkit::origin::Origin;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static COUNTING: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const HITS: usize = 10_000;

/// A browser's head, with cookies that mean nobody and a tracking parameter.
const REQUEST: &[u8] = b"GET /post/?utm_source=newsletter&utm_medium=email HTTP/1.1\r\n\
Host: example.test\r\nConnection: keep-alive\r\nCache-Control: max-age=0\r\n\
sec-ch-ua: \"Chromium\";v=\"142\", \"Google Chrome\";v=\"142\"\r\nsec-ch-ua-mobile: ?0\r\n\
Upgrade-Insecure-Requests: 1\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) \
Chrome/142.0.0.0 Safari/537.36\r\nAccept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n\
Sec-Fetch-Site: none\r\nAccept-Encoding: gzip, deflate, br, zstd\r\nAccept-Language: en-GB,en;q=0.9\r\n\
Cookie: _ga=GA1.1.1234; _gid=GA1.1.99; wordpress_test_cookie=WP%20Cookie%20check\r\n\r\n";

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
    let dir = scratch.path().display();
    let file = scratch.join("galley.toml");
    fs::write(
        &file,
        format!(
            "[server]\nlisten = [\"127.0.0.1:0\"]\nworkers = 1\n[admin]\nlisten = \"off\"\n[log]\naccess = \"{dir}/access.log\"\n\
             [cache]\nmemory = \"64MiB\"\n[[site]]\nhosts = [\"example.test\"]\nupstream = [\"{}\"]\ncompress = [\"gzip\"]\n\
             dense_after = 0\n",
            origin.url()
        ),
    )
    .unwrap();
    let config = galley_config::load(&file).unwrap();
    let (told, heard) = mpsc::channel();
    // Ends with the process.
    std::thread::spawn(move || {
        galley::app::run(&config, &|line| drop(told.send(line.to_owned()))).unwrap();
    });
    let address = loop {
        let line = heard.recv_timeout(Duration::from_secs(15)).unwrap();
        if let Some(address) = line.strip_prefix("listening on http://") {
            break address.to_owned();
        }
    };
    while heard.recv_timeout(Duration::from_secs(15)).unwrap() != "ready" {}

    let mut client = TcpStream::connect(address).unwrap();
    client.set_nodelay(true).unwrap();
    client
        .set_read_timeout(Some(Duration::from_secs(15)))
        .unwrap();
    let mut answer = vec![0; 64 * 1024];
    // Until it is stored, compressed, and every buffer has its size.
    let mut coded = 0;
    while coded < 2000 {
        let length = exchange(&mut client, &mut answer);
        coded += usize::from(answer[..length].windows(5).any(|at| at == b"-gzip"));
    }
    let counted = Region::new(COUNTING);
    for _ in 0..HITS {
        exchange(&mut client, &mut answer);
    }
    let change = counted.change();
    // What goes on beside: logs handed over, the sweep of timers four times a second.
    let allowed = HITS / 50;
    assert!(
        change.allocations + change.reallocations < allowed,
        "{HITS} hits made {} allocations and {} reallocations",
        change.allocations,
        change.reallocations
    );
    assert_eq!(origin.seen().len(), 1);
}

/// One request and its whole answer; how long that is.
fn exchange(client: &mut TcpStream, answer: &mut [u8]) -> usize {
    client.write_all(REQUEST).unwrap();
    let mut length = 0;
    loop {
        let count = client.read(&mut answer[length..]).unwrap();
        assert!(count > 0, "the server has left");
        length += count;
        if let Some(end) = whole(&answer[..length]) {
            assert_eq!(end, length);
            return length;
        }
    }
}

/// Where an answer ends, once it is known; allocates nothing.
fn whole(bytes: &[u8]) -> Option<usize> {
    let head = bytes.windows(4).position(|at| at == b"\r\n\r\n")? + 4;
    let name = b"Content-Length: ";
    let at = bytes[..head]
        .windows(name.len())
        .position(|at| at == name)?
        + name.len();
    let digits = bytes[at..head]
        .iter()
        .take_while(|byte| byte.is_ascii_digit());
    let length = digits.fold(0, |sum, digit| sum * 10 + usize::from(digit - b'0'));
    (bytes.len() >= head + length).then_some(head + length)
}
