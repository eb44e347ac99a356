//! Differential test: Galley, nginx and hyper parse the same generated streams. If they find different requests, Galley must be
//! the strictest, or the difference must be in [`KNOWN_DIFFERENCES`] with its reason.
//!
//! The tests run a fixed number of streams from a fixed seed. `GALLEY_HOSTILE_STREAMS` and `GALLEY_HOSTILE_SEED` change them;
//! `make hostile` runs many streams from a new seed and prints the seed.

use std::fmt::Write as _;

use galley_policy::uri;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::case::{escaped, host};
use crate::client::{TIMEOUT, count_responses};
use crate::hyper_reader::read_with_hyper;
use crate::reader::{StreamEnd, read_whole};
use crate::servers::{GalleyWithEcho, NginxWithEcho};

const STREAMS: usize = 500;
const SEED: u64 = 7;

#[test]
fn galley_is_stricter_than_nginx_and_hyper_except_for_known_differences() {
    let from_environment =
        |name, default| std::env::var(name).map_or(default, |text| text.parse().expect("a number"));
    let streams = from_environment("GALLEY_HOSTILE_STREAMS", STREAMS as u64);
    let seed = from_environment("GALLEY_HOSTILE_SEED", SEED);
    eprintln!("{streams} streams from seed {seed}");
    let galley = GalleyWithEcho::start_uncached(1);
    let nginx = NginxWithEcho::start_uncached(1);
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let strategy = stream();
    let mut counts = Counts::default();
    let mut problems = Vec::new();
    for number in 0..streams {
        let stream = strategy.new_tree(&mut runner).unwrap().current();
        let stream = numbered(&stream, number);
        if let Err(problem) = compare(&galley, &nginx, &stream, number, &mut counts) {
            if KNOWN_DIFFERENCES.iter().any(|(fits, _)| fits(&stream)) {
                counts.known_differences += 1;
                continue;
            }
            problems.push(format!("{number}: {problem}\n{}", escaped(&stream)));
        }
    }
    assert!(problems.is_empty(), "seed {seed}, {}", problems.join("\n"));
    eprintln!("{counts:?}");
    // A comparison in which no request is read, or no stream rejected, proves nothing.
    assert!(counts.read > streams, "{counts:?}");
    assert!(counts.rejected > streams / 10, "{counts:?}");
    assert!(
        counts.nginx_is_laxer > 0 && counts.hyper_is_laxer > 0,
        "{counts:?}"
    );
    assert!(
        KNOWN_DIFFERENCES
            .iter()
            .all(|(_, reason)| reason.starts_with("RFC "))
    );
}

#[derive(Debug, Default)]
struct Counts {
    read: u64,
    rejected: u64,
    nginx_is_laxer: u64,
    hyper_is_laxer: u64,
    known_differences: u64,
}

fn compare(
    galley: &GalleyWithEcho,
    nginx: &NginxWithEcho,
    stream: &[u8],
    number: u64,
    counts: &mut Counts,
) -> Result<(), String> {
    // An incomplete stream would need a timeout. The cases of `http1.txt` cover it.
    let reading = read_whole(stream);
    if reading.end == StreamEnd::Partial {
        return Ok(());
    }
    counts.rejected += u64::from(matches!(reading.end, StreamEnd::Rejected(_)));
    let whole = [stream, &numbered(PROBE.as_bytes(), number)].concat();
    let galley_responses = count_responses(galley.addr(), &whole, TIMEOUT, usize::MAX);
    let by_galley = galley.echo.take();
    counts.read += by_galley.len() as u64;
    // The client stops reading from nginx after as many responses.
    let nginx_responses = count_responses(nginx.server.addr(), &whole, TIMEOUT, galley_responses);
    let by_nginx = nginx.echo.take();
    let of_this = by_nginx
        .iter()
        .filter(|line| !is_of_earlier_stream(line, number));
    let by_nginx: Vec<String> = of_this.map(|line| canonical(line)).collect();
    let by_hyper = read_with_hyper(stream);
    counts.nginx_is_laxer += u64::from(by_nginx.len() > by_galley.len());
    counts.hyper_is_laxer += u64::from(by_hyper.len() > reading.requests.len());
    // Galley may respond to requests that nginx forwards. It must not forward others, or in another order.
    let mut rest = by_nginx.iter();
    if !by_galley.iter().all(|one| rest.any(|other| other == one)) {
        return Err(format!(
            "Galley forwards {by_galley:#?}, nginx {by_nginx:#?} ({nginx_responses} responses)"
        ));
    }
    let hyper = by_hyper
        .iter()
        .map(|request| (request.method.as_str(), &request.body[..]));
    let read = reading.requests.iter();
    let read: Vec<(&str, &[u8])> = read
        .map(|request| (request.method.as_str(), &request.body[..]))
        .collect();
    if hyper.take(read.len()).collect::<Vec<_>>() != read {
        return Err(format!("Galley reads {read:?}, hyper {by_hyper:#?}"));
    }
    Ok(())
}

/// A difference: which streams may show it, and why it is harmless.
type KnownDifference = (fn(&[u8]) -> bool, &'static str);

/// Requests that Galley accepts and another parser rejects.
const KNOWN_DIFFERENCES: &[KnownDifference] = &[
    (
        |stream| {
            has_line(stream, |line| {
                !line.starts_with(|c: char| c.is_ascii_uppercase()) && line.contains(" /s")
            })
        },
        "RFC 9110 9.1: any token is a method; nginx accepts upper case letters, hyphens and underscores",
    ),
    (
        |stream| has_line(stream, is_method_of_symbols),
        "RFC 9110 9.1: as above",
    ),
    (
        has_a_rejected_path,
        "RFC 9112 9.6: both reject the target; its framing is valid, so Galley keeps the connection open, and nginx closes it",
    ),
    (
        |stream| has_line(stream, |line| line.contains('\t')),
        "RFC 9110 5.5: tabs around a value are white space; nginx treats them as part of the value",
    ),
    (
        |stream| has_line(stream, names_another_option),
        "RFC 9110 7.6.1: connection options are tokens; nginx searches for `close` and `keep-alive` anywhere in the line",
    ),
    (
        |stream| has_line(stream, |line| line.contains("/../")),
        "RFC 3986 5.2.4: `..` at the root is removed; nginx rejects it",
    ),
    (
        |stream| {
            read_whole(stream)
                .requests
                .iter()
                .any(|request| http::Uri::try_from(&request.target).is_err())
        },
        "RFC 9112 3.2: hyper's type for targets rejects some bytes that Galley checks later, with the rules for paths",
    ),
];

fn has_line(stream: &[u8], fits: impl Fn(&str) -> bool) -> bool {
    String::from_utf8_lossy(stream).lines().any(fits)
}

fn has_a_rejected_path(stream: &[u8]) -> bool {
    let is_rejected = |target: &str| {
        let (mut path, mut decoded) = (Vec::new(), Vec::new());
        let Ok(parts) = uri::split(target.as_bytes()) else {
            return true;
        };
        uri::canonical_path(parts.path, &mut path).is_err()
            || uri::decoded_path(&path, &mut decoded).is_err()
    };
    let read = read_whole(stream).requests;
    read.iter().any(|request| is_rejected(&request.target))
}

fn names_another_option(line: &str) -> bool {
    let line = line.to_ascii_lowercase();
    let value = line.strip_prefix("connection:").map(str::trim);
    value.is_some_and(|value| {
        !["close", "keep-alive"].contains(&value)
            && (value.contains("close") || value.contains("keep-alive"))
    })
}

fn is_method_of_symbols(line: &str) -> bool {
    let (method, rest) = line.split_once(' ').unwrap_or_default();
    let is_plain = |c: char| c.is_ascii_uppercase() || matches!(c, '-' | '_');
    rest.contains(" HTTP/1.") && !method.chars().all(is_plain)
}

/// The stream with its number in all targets, because nginx may still process the previous stream.
fn numbered(stream: &[u8], number: u64) -> Vec<u8> {
    let mut out = stream.to_vec();
    let name = format!("/s{:05}", 1 + number % 99_999);
    for at in 0..stream.len() {
        if stream[at..].starts_with(b"/s00000") {
            out[at..at + name.len()].copy_from_slice(name.as_bytes());
        }
    }
    out
}

/// Whether a request belongs to one of the nine previous streams.
fn is_of_earlier_stream(line: &str, number: u64) -> bool {
    let target = line
        .split_once(" /s")
        .and_then(|(_, target)| target.get(..5));
    let named: Option<u64> = target.and_then(|digits| digits.parse().ok());
    let current = 1 + number % 99_999;
    named.is_some_and(|named| (1..10).contains(&current.wrapping_sub(named)))
}

/// The request with its path in canonical form: nginx forwards the path unchanged, Galley the canonical form.
fn canonical(line: &str) -> String {
    let mut words = line.splitn(3, ' ');
    let mut word = || words.next().unwrap_or_default();
    let (method, target, body) = (word(), word(), word());
    let Ok(parts) = uri::split(target.as_bytes()) else {
        return line.to_owned();
    };
    let mut path = Vec::new();
    if uri::canonical_path(parts.path, &mut path).is_err() {
        return line.to_owned();
    }
    let query = parts.query.map(|query| format!("?{}", escaped(query)));
    format!(
        "{method} {}{} {body}",
        escaped(&path),
        query.unwrap_or_default()
    )
}

/// Follows each stream, so that both servers close the connection.
const PROBE: &str = "GET /s00000probe HTTP/1.1\r\nHost: c001.test\r\nConnection: close\r\n\r\n";

/// One to four requests of mostly valid parts, with one or two bytes inserted, removed or changed in a third of the streams.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let request = (
        select(METHODS),
        0..99_u8,
        select(VERSIONS),
        vec(mostly(FIELDS, BAD_FIELDS), 0..3),
        mostly(BODIES, BAD_BODIES),
        any::<bool>(),
    );
    let edit = (any::<Index>(), 0..3_u8, select(EDIT_BYTES));
    let edits = prop_oneof![2 => vec(edit.clone(), 0..1), 1 => vec(edit, 1..3)];
    (vec(request, 1..5), edits).prop_map(|(requests, edits)| {
        let mut stream = String::new();
        for (method, number, version, fields, (framing, body), framing_first) in requests {
            let fields = fields.concat();
            let (first, second) = if framing_first {
                (framing, &fields[..])
            } else {
                (&fields[..], framing)
            };
            let _ = write!(
                stream,
                "{method} /s00000r{number} HTTP/{version}\r\nHost: {}\r\n{first}{second}\r\n{body}",
                host(0)
            );
        }
        let mut stream = stream.into_bytes();
        for (at, what, byte) in edits {
            let at = at.index(stream.len());
            match what {
                0 => stream.insert(at, byte),
                1 => stream[at] = byte,
                _ => drop(stream.remove(at)),
            }
        }
        stream
    })
}

fn mostly<T: Clone + std::fmt::Debug + 'static>(
    good: &'static [T],
    bad: &'static [T],
) -> impl Strategy<Value = T> {
    prop_oneof![9 => select(good), 1 => select(bad)]
}

const METHODS: &[&str] = &["GET", "GET", "POST", "POST", "PUT", "DELETE", "HEAD"];
const VERSIONS: &[&str] = &["1.1", "1.1", "1.1", "1.1", "1.0"];
const EDIT_BYTES: &[u8] = b"\r\n\r\n\r\n\r\n \t\0\x0b\x7f\x80\xff:;,=\"0159afGx/?#%*[]-+_.@";
const FIELDS: &[&str] = &[
    "Connection: keep-alive\r\n",
    "Connection: close\r\n",
    "Connection: Upgrade\r\nUpgrade: h2c\r\n",
    "Connection: Content-Length, Transfer-Encoding\r\n",
    "Expect: 100-continue\r\n",
    "Content_Length: 7\r\n",
    "X-Content-Length: 7\r\n",
    "TE: trailers, chunked\r\n",
    "Accept: */*\r\n",
    "X: \t\r\n",
];
const BAD_FIELDS: &[&str] = &["X : y\r\n", "X: y\r\n z\r\n", "X: y\n", "Host: b.test\r\n"];
const SMUGGLED: &str = "GET /s00000x HTTP/1.1\r\nHost: c001.test\r\n\r\n";
const BODIES: &[(&str, &str)] = &[
    ("", ""),
    ("", ""),
    ("", SMUGGLED),
    ("Content-Length: 5\r\n", "01234"),
    ("Content-Length: 5\r\n", "01234"),
    ("Content-Length: 43\r\n", SMUGGLED),
    ("content-length:0\r\n", ""),
    ("Content-Length: 05\r\n", "01234"),
    ("Transfer-Encoding: chunked\r\n", "5\r\n01234\r\n0\r\n\r\n"),
    (
        "Transfer-Encoding: chunked\r\n",
        "2\r\n01\r\n3\r\n234\r\n0\r\n\r\n",
    ),
    (
        "transfer-encoding: Chunked\r\n",
        "5;x=y\r\n01234\r\n0\r\n\r\n",
    ),
    (
        "Transfer-Encoding: chunked\r\n",
        "5\r\n01234\r\n0\r\nA: b\r\n\r\n",
    ),
];
const BAD_BODIES: &[(&str, &str)] = &[
    ("Content-Length: 5\r\nContent-Length: 5\r\n", "01234"),
    ("Content-Length: 5, 5\r\n", "01234"),
    ("Content-Length: +5\r\n", "01234"),
    ("Content-Length : 5\r\n", "01234"),
    ("Transfer-Encoding: chunked\r\n", "5\n01234\r\n0\r\n\r\n"),
    ("Transfer-Encoding: chunked\r\n", "5\r\n012345\r\n0\r\n\r\n"),
    ("Transfer-Encoding: chunked\r\n", "5 \r\n01234\r\n0\r\n\r\n"),
    ("Transfer-Encoding: chunked\r\n", "0\r\n\n"),
    ("Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n"),
    ("Transfer-Encoding: chunked, chunked\r\n", "0\r\n\r\n"),
    ("Transfer-Encoding:\x0bchunked\r\n", "0\r\n\r\n"),
    ("Transfer-Encoding: identity\r\n", ""),
    (
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        "0\r\n\r\n",
    ),
    (
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "0\r\n\r\n",
    ),
];
