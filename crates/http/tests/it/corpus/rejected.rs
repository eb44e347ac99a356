//! Streams that must be rejected: invalid heads, framing and chunks, and exceeded limits.
//!
//! Each rejected request is followed by a request for `/smuggled`, which must not be parsed.

use galley_http::head::BadRequest::{
    self, AmbiguousLength, BareLineFeed, BodyTooLarge, Chunk, ChunkExtension, ContentLength,
    Expectation, Field, HeadTooLarge, Host, Method, RequestLine, Target, TargetTooLong,
    TooManyFields, Trailer, TrailersTooLarge, TransferEncoding, UnknownCoding, Version,
};

use super::Hyper::{Laxer, Same};
use super::{Case, Hyper};
use crate::reader::StreamEnd;

pub fn cases() -> Vec<Case> {
    [
        bad_line_ends(),
        bad_field_lines(),
        bad_request_lines(),
        bad_targets(),
        bad_hosts(),
        ambiguous_lengths(),
        bad_lengths(),
        bad_codings(),
        bad_expectations(),
        bad_chunk_sizes(),
        bad_trailers(),
        over_limits(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// A case whose only request is rejected, followed by a request that must not be parsed.
fn rejected(name: &'static str, error: BadRequest, hyper: Hyper, head_and_body: &str) -> Case {
    let stream = format!("{head_and_body}GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n");
    Case {
        name,
        stream: stream.into_bytes(),
        requests: 0,
        end: StreamEnd::Rejected(error),
        hyper,
    }
}

const LF: Hyper = Laxer("RFC 9112 2.2: a recipient MAY recognize a single LF, but need not");

fn bad_line_ends() -> Vec<Case> {
    let mut after_good = rejected(
        "bad after good",
        Field,
        Same,
        "GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost : a\r\n\r\n",
    );
    after_good.requests = 1;
    vec![
        after_good,
        rejected(
            "three empty lines",
            RequestLine,
            Laxer("RFC 9112 2.2: at least one empty line SHOULD be ignored; three are noise"),
            "\r\n\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        ),
        rejected(
            "lf everywhere",
            BareLineFeed,
            LF,
            "GET / HTTP/1.1\nHost: a\n\n",
        ),
        rejected(
            "lf after the request line",
            BareLineFeed,
            LF,
            "GET / HTTP/1.1\nHost: a\r\n\r\n",
        ),
        rejected(
            "lf after a field",
            BareLineFeed,
            LF,
            "GET / HTTP/1.1\r\nHost: a\nX: y\r\n\r\n",
        ),
        rejected(
            "lf as the empty line",
            BareLineFeed,
            LF,
            "GET / HTTP/1.1\r\nHost: a\r\n\n",
        ),
        rejected(
            "lf before the head",
            BareLineFeed,
            LF,
            "\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        ),
        rejected(
            "cr in a value",
            Field,
            Same,
            "GET / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n",
        ),
        rejected(
            "cr before crlf",
            Field,
            Same,
            "GET / HTTP/1.1\r\nHost: a\r\nX: a\r\r\n\r\n",
        ),
        rejected(
            "cr in the target",
            RequestLine,
            Same,
            "GET /\r HTTP/1.1\r\nHost: a\r\n\r\n",
        ),
        rejected(
            "cr in the empty line",
            RequestLine,
            Same,
            "GET / HTTP/1.1\r\nHost: a\r\n\rX\r\n\r\n",
        ),
    ]
}

fn bad_field_lines() -> Vec<Case> {
    vec![
        rejected(
            "folded line",
            Field,
            Same,
            "GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n",
        ),
        rejected(
            "folded first line",
            Field,
            Same,
            "GET / HTTP/1.1\r\n Host: a\r\n\r\n",
        ),
        rejected(
            "space before the colon",
            Field,
            Same,
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length : 5\r\n\r\n",
        ),
        rejected(
            "empty name",
            Field,
            Same,
            "GET / HTTP/1.1\r\nHost: a\r\n: x\r\n\r\n",
        ),
        rejected(
            "no colon",
            Field,
            Same,
            "GET / HTTP/1.1\r\nHost: a\r\nX\r\n\r\n",
        ),
        rejected(
            "nul in a name",
            Field,
            Same,
            "GET / HTTP/1.1\r\nHost: a\r\nX\0: y\r\n\r\n",
        ),
        rejected(
            "nul in a value",
            Field,
            Same,
            "GET / HTTP/1.1\r\nHost: a\r\nX: y\0\r\n\r\n",
        ),
        rejected(
            "del in a value",
            Field,
            Same,
            "GET / HTTP/1.1\r\nHost: a\r\nX: y\x7f\r\n\r\n",
        ),
        rejected(
            "vt before chunked",
            Field,
            Same,
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\x0bchunked\r\n\r\n",
        ),
        rejected(
            "name not ascii",
            Field,
            Same,
            "GET / HTTP/1.1\r\nHost: a\r\n\u{e4}: y\r\n\r\n",
        ),
        rejected("no version", RequestLine, Same, "GET /\r\nHost: a\r\n\r\n"),
    ]
}

fn bad_request_lines() -> Vec<Case> {
    vec![
        rejected(
            "two spaces",
            RequestLine,
            Same,
            "GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
        ),
        rejected(
            "tab as space",
            RequestLine,
            Same,
            "GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n",
        ),
        rejected(
            "space in the target",
            RequestLine,
            Same,
            "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n",
        ),
        rejected(
            "space after the version",
            RequestLine,
            Same,
            "GET / HTTP/1.1 \r\nHost: a\r\n\r\n",
        ),
        rejected(
            "version in small letters",
            RequestLine,
            Same,
            "GET / http/1.1\r\nHost: a\r\n\r\n",
        ),
        rejected(
            "version with three numbers",
            RequestLine,
            Same,
            "GET / HTTP/1.10\r\nHost: a\r\n\r\n",
        ),
        rejected(
            "version 1.2",
            Version,
            Same,
            "GET / HTTP/1.2\r\nHost: a\r\n\r\n",
        ),
        rejected(
            "version 0.9",
            Version,
            Same,
            "GET / HTTP/0.9\r\nHost: a\r\n\r\n",
        ),
        rejected(
            "version 2.0",
            Version,
            Same,
            "GET / HTTP/2.0\r\nHost: a\r\n\r\n",
        ),
        rejected(
            "greeting of HTTP/2",
            Version,
            Same,
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        ),
        rejected(
            "tls",
            RequestLine,
            Same,
            "\x16\x03\x01\x02\0\x01\0\x01\r\n\r\n",
        ),
    ]
}

fn bad_targets() -> Vec<Case> {
    vec![
        rejected(
            "method with a colon",
            RequestLine,
            Same,
            "GE:T / HTTP/1.1\r\nHost: a\r\n\r\n",
        ),
        rejected(
            "method of 33",
            Method,
            Laxer("RFC 9112 3: a method longer than any implemented SHOULD be 501"),
            "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456 / HTTP/1.1\r\nHost: a\r\n\r\n",
        ),
        rejected(
            "target not ascii",
            Target,
            Laxer(
                "RFC 3986 2: no such byte in a URI; RFC 9112 3.2: invalid request line SHOULD be 400",
            ),
            "GET /\u{e4} HTTP/1.1\r\nHost: a\r\n\r\n",
        ),
        rejected(
            "target without slash",
            Target,
            Laxer("RFC 9112 3.2: none of the four forms"),
            "GET a HTTP/1.1\r\nHost: a\r\n\r\n",
        ),
        rejected(
            "asterisk without options",
            Target,
            Laxer("RFC 9112 3.2.4: only for OPTIONS"),
            "GET * HTTP/1.1\r\nHost: a\r\n\r\n",
        ),
        rejected(
            "user in the authority",
            Target,
            Laxer("RFC 9110 4.2.4: user information SHOULD be an error"),
            "GET http://u@a/ HTTP/1.1\r\nHost: a\r\n\r\n",
        ),
        rejected(
            "another scheme",
            Target,
            Laxer("RFC 9110 7.1: a server rejects targets that it is not the authority for"),
            "GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n",
        ),
        rejected("no host", Host, Laxer(HOST), "GET / HTTP/1.1\r\n\r\n"),
        rejected(
            "no host, absolute form",
            Host,
            Laxer(HOST),
            "GET http://a/ HTTP/1.1\r\n\r\n",
        ),
        rejected(
            "two hosts",
            Host,
            Laxer(HOST),
            "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        ),
        rejected(
            "two equal hosts in 1.0",
            Host,
            Laxer(HOST),
            "GET / HTTP/1.0\r\nConnection: keep-alive\r\nHost: a\r\nhost: a\r\n\r\n",
        ),
    ]
}

fn bad_hosts() -> Vec<Case> {
    vec![
        rejected(
            "empty host",
            Host,
            Laxer(
                "RFC 9110 7.2: empty only where the target has no authority, which http always has",
            ),
            "GET / HTTP/1.1\r\nHost: \r\n\r\n",
        ),
        rejected(
            "host with path",
            Host,
            Laxer(HOST),
            "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n",
        ),
        rejected(
            "host list",
            Host,
            Laxer(HOST),
            "GET / HTTP/1.1\r\nHost: a, b\r\n\r\n",
        ),
        rejected(
            "bad port",
            Host,
            Laxer(HOST),
            "GET / HTTP/1.1\r\nHost: a:99999\r\n\r\n",
        ),
    ]
}

const BOTH: Hyper = Laxer("RFC 9112 6.3: a server MAY reject a request with both");
const EMPTY: &str = "0\r\n\r\n";

fn with(name: &'static str, error: BadRequest, hyper: Hyper, fields: &str, body: &str) -> Case {
    let stream = format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n{body}");
    rejected(name, error, hyper, &stream)
}

fn ambiguous_lengths() -> Vec<Case> {
    vec![
        with(
            "length, then chunked",
            AmbiguousLength,
            BOTH,
            "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
            EMPTY,
        ),
        with(
            "chunked, then length",
            AmbiguousLength,
            BOTH,
            "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
            EMPTY,
        ),
        with(
            "length zero and chunked",
            AmbiguousLength,
            BOTH,
            "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n",
            EMPTY,
        ),
        with(
            "two lengths",
            ContentLength,
            Same,
            "Content-Length: 5\r\nContent-Length: 6\r\n",
            "abcde",
        ),
        with(
            "two equal lengths",
            ContentLength,
            Laxer("RFC 9110 8.6: MUST either reject or replace"),
            "Content-Length: 5\r\nContent-Length: 5\r\n",
            "abcde",
        ),
        with(
            "list of equal lengths",
            ContentLength,
            Same,
            "Content-Length: 5, 5\r\n",
            "abcde",
        ),
        with(
            "plus",
            ContentLength,
            Same,
            "Content-Length: +5\r\n",
            "abcde",
        ),
        with(
            "minus",
            ContentLength,
            Same,
            "Content-Length: -5\r\n",
            "abcde",
        ),
        with(
            "hex length",
            ContentLength,
            Same,
            "Content-Length: 0x5\r\n",
            "abcde",
        ),
    ]
}

fn bad_lengths() -> Vec<Case> {
    vec![
        with(
            "underscore",
            ContentLength,
            Same,
            "Content-Length: 5_0\r\n",
            "abcde",
        ),
        with(
            "space within",
            ContentLength,
            Same,
            "Content-Length: 5 5\r\n",
            "abcde",
        ),
        with(
            "empty length",
            ContentLength,
            Same,
            "Content-Length:\r\n",
            "abcde",
        ),
        with(
            "length over 64 bits",
            ContentLength,
            Same,
            "Content-Length: 18446744073709551621\r\n",
            "abcde",
        ),
        with(
            "unknown coding",
            UnknownCoding,
            Same,
            "Transfer-Encoding: xchunked\r\n",
            EMPTY,
        ),
        with(
            "gzip alone",
            UnknownCoding,
            Same,
            "Transfer-Encoding: gzip\r\n",
            EMPTY,
        ),
        with(
            "gzip, then chunked",
            UnknownCoding,
            Laxer("RFC 9112 6.1: a coding not understood SHOULD be 501"),
            "Transfer-Encoding: gzip, chunked\r\n",
            EMPTY,
        ),
        with(
            "identity, then chunked",
            UnknownCoding,
            Laxer("RFC 9112 6.1: a coding not understood SHOULD be 501"),
            "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n",
            EMPTY,
        ),
        with(
            "chunked not last",
            TransferEncoding,
            Same,
            "Transfer-Encoding: chunked, identity\r\n",
            EMPTY,
        ),
    ]
}

fn bad_codings() -> Vec<Case> {
    vec![
        with(
            "chunked twice",
            TransferEncoding,
            Laxer("RFC 9112 6.1: MUST NOT apply chunked more than once"),
            "Transfer-Encoding: chunked, chunked\r\n",
            EMPTY,
        ),
        with(
            "chunked on two lines",
            TransferEncoding,
            Laxer("RFC 9112 6.1: MUST NOT apply chunked more than once"),
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
            EMPTY,
        ),
        with(
            "chunked and nothing",
            TransferEncoding,
            Same,
            "Transfer-Encoding: chunked,\r\n",
            EMPTY,
        ),
        with(
            "nothing and chunked",
            TransferEncoding,
            Laxer("RFC 9110 5.6.1: a sender MUST NOT generate empty members"),
            "Transfer-Encoding: ,chunked\r\n",
            EMPTY,
        ),
        with(
            "empty coding",
            TransferEncoding,
            Same,
            "Transfer-Encoding:\r\n",
            EMPTY,
        ),
        with(
            "quoted chunked",
            TransferEncoding,
            Same,
            "Transfer-Encoding: \"chunked\"\r\n",
            EMPTY,
        ),
        with(
            "chunked with parameter",
            TransferEncoding,
            Same,
            "Transfer-Encoding: chunked;q=1\r\n",
            EMPTY,
        ),
        with(
            "other expectation",
            Expectation,
            Laxer("RFC 9110 10.1.1: MAY be 417"),
            "Expect: 200-ok\r\nContent-Length: 0\r\n",
            "",
        ),
        with(
            "expectation twice",
            Expectation,
            Laxer("RFC 9110 10.1.1: a list of the same has no meaning of its own; MAY be 417"),
            "Expect: 100-continue\r\nExpect: 100-continue\r\nContent-Length: 0\r\n",
            "",
        ),
    ]
}

fn bad_expectations() -> Vec<Case> {
    vec![
        rejected(
            "chunked in 1.0",
            TransferEncoding,
            Same,
            "POST / HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        ),
        rejected(
            "unknown coding on get",
            UnknownCoding,
            Same,
            "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: x\r\n\r\n",
        ),
    ]
}

const TRAILER: Hyper = Laxer(
    "RFC 9112 7.1.2: a trailer section is field lines and CRLF; 2.2: LF need not be a line end",
);
const EXTENSION: Hyper =
    Laxer("RFC 9112 7.1.1: chunk-ext is *( BWS \";\" BWS chunk-ext-name ... )");

fn chunked(name: &'static str, error: BadRequest, hyper: Hyper, body: &str) -> Case {
    let stream = format!("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{body}");
    rejected(name, error, hyper, &stream)
}

fn bad_chunk_sizes() -> Vec<Case> {
    vec![
        chunked("lf after the size", Chunk, Same, "3\nabc\r\n0\r\n\r\n"),
        chunked("lf after the data", Chunk, Same, "3\r\nabc\n0\r\n\r\n"),
        chunked(
            "cr alone after the size",
            Chunk,
            Same,
            "3\rabc\r\n0\r\n\r\n",
        ),
        chunked("nothing after the data", Chunk, Same, "3\r\nabc0\r\n\r\n"),
        chunked(
            "more data than the size",
            Chunk,
            Same,
            "3\r\nabcd\r\n0\r\n\r\n",
        ),
        chunked("no size", Chunk, Same, "\r\nabc\r\n0\r\n\r\n"),
        chunked("hex prefix", Chunk, Same, "0x3\r\nabc\r\n0\r\n\r\n"),
        chunked("plus size", Chunk, Same, "+3\r\nabc\r\n0\r\n\r\n"),
        chunked("minus size", Chunk, Same, "-3\r\nabc\r\n0\r\n\r\n"),
        chunked(
            "space before the size",
            Chunk,
            Same,
            " 3\r\nabc\r\n0\r\n\r\n",
        ),
        chunked(
            "space after the size",
            Chunk,
            Laxer("RFC 9112 7.1: no white space between size and CRLF"),
            "3 \r\nabc\r\n0\r\n\r\n",
        ),
        chunked(
            "size of 17 digits",
            Chunk,
            Laxer("RFC 9112 7.1: a recipient MUST prevent integer overflow"),
            "00000000000000003\r\nabc\r\n0\r\n\r\n",
        ),
        chunked(
            "size over 64 bits",
            Chunk,
            Same,
            "10000000000000003\r\nabc\r\n0\r\n\r\n",
        ),
        chunked(
            "lf in an extension",
            ChunkExtension,
            Same,
            "3;a\nabc\r\n0\r\n\r\n",
        ),
        chunked(
            "cr in an extension",
            Chunk,
            Same,
            "3;a\rb\r\nabc\r\n0\r\n\r\n",
        ),
        chunked(
            "nul in an extension",
            ChunkExtension,
            EXTENSION,
            "3;a=\0\r\nabc\r\n0\r\n\r\n",
        ),
        chunked(
            "line end in a quoted extension",
            ChunkExtension,
            EXTENSION,
            "3;a=\"\r\nabc\r\n0\r\n\r\n",
        ),
        chunked(
            "escaped quote at the end of an extension",
            ChunkExtension,
            EXTENSION,
            "3;a=\"b\\\"\r\nabc\r\n0\r\n\r\n",
        ),
    ]
}

fn bad_trailers() -> Vec<Case> {
    vec![
        chunked(
            "extension without name",
            ChunkExtension,
            EXTENSION,
            "3;\r\nabc\r\n0\r\n\r\n",
        ),
        chunked("cr x after the size", Chunk, Same, "3\rXabc\r\n0\r\n\r\n"),
        chunked("cr x after the data", Chunk, Same, "3\r\nabc\rX0\r\n\r\n"),
        chunked("cr x after a trailer", Trailer, Same, "0\r\nA: b\rX\r\n"),
        chunked("lf as the end", Trailer, TRAILER, "0\r\n\n"),
        chunked("cr alone as the end", Chunk, Same, "0\r\n\rX"),
        chunked("lf after a trailer", Trailer, TRAILER, "0\r\nA: b\n\r\n"),
        chunked(
            "space before a trailer's colon",
            Trailer,
            Same,
            "0\r\nA : b\r\n\r\n",
        ),
        chunked("folded trailer", Trailer, Same, "0\r\nA: b\r\n c\r\n\r\n"),
        chunked("trailer without colon", Trailer, Same, "0\r\nA\r\n\r\n"),
    ]
}

const SIZE: Hyper = Laxer("RFC 9110 5.4: a server MUST have limits and respond with 4xx");
const BODY: Hyper = Laxer("RFC 9110 15.5.14");

fn endless(name: &'static str, error: BadRequest, stream: String) -> Case {
    Case {
        name,
        stream: stream.into_bytes(),
        requests: 0,
        end: StreamEnd::Rejected(error),
        hyper: Hyper::Same,
    }
}

fn over_limits() -> Vec<Case> {
    let chunked = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let many = "A: b\r\n".repeat(16);
    let long = "x".repeat(2048);
    let extension = format!("3;{}\r\nabc\r\n", "x".repeat(100)).repeat(3);
    let trailers = format!("A: {long}\r\n").repeat(2);
    let target = "x".repeat(512);
    let zeros = "0".repeat(1000);
    vec![
        endless(
            "head that never ends",
            HeadTooLarge,
            format!("GET / HTTP/1.1\r\nHost: a\r\nX: {long}"),
        ),
        endless(
            "request line that never ends",
            TargetTooLong,
            format!("GET /{long}"),
        ),
        rejected(
            "long head",
            HeadTooLarge,
            SIZE,
            &format!("GET / HTTP/1.1\r\nHost: a\r\nX: {long}\r\n\r\n"),
        ),
        rejected(
            "many fields",
            TooManyFields,
            SIZE,
            &format!("GET / HTTP/1.1\r\nHost: a\r\n{many}\r\n"),
        ),
        rejected(
            "target over the limit by one",
            TargetTooLong,
            Laxer("RFC 9110 15.5.15"),
            &format!("GET /{target} HTTP/1.1\r\nHost: a\r\n\r\n"),
        ),
        rejected(
            "target far over the limit",
            TargetTooLong,
            Laxer("RFC 9110 15.5.15"),
            &format!("GET /{target}{target} HTTP/1.1\r\nHost: a\r\n\r\n"),
        ),
        rejected(
            "length over the limit",
            BodyTooLarge,
            BODY,
            &format!(
                "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4097\r\n\r\n{zeros}{zeros}{zeros}{zeros}{}",
                "0".repeat(97)
            ),
        ),
        rejected(
            "chunks over the limit",
            BodyTooLarge,
            BODY,
            &format!(
                "{chunked}3e8\r\n{zeros}\r\nc19\r\n{zeros}{zeros}{zeros}{}\r\n0\r\n\r\n",
                "0".repeat(97)
            ),
        ),
        rejected(
            "extensions over the limit",
            ChunkExtension,
            Laxer("RFC 9112 7.1.1: the total length MUST be limited"),
            &format!("{chunked}{extension}0\r\n\r\n"),
        ),
        rejected(
            "trailers over the limit",
            TrailersTooLarge,
            SIZE,
            &format!("{chunked}0\r\n{trailers}\r\n"),
        ),
    ]
}

const HOST: &str = "RFC 9112 3.2: no, two or an invalid Host MUST be 400";
