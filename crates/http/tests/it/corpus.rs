//! Streams of requests, good and bad, with what they must be read as, and where hyper reads more into them.

mod bad;

use crate::reader::End;

/// How hyper's server reads the same stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hyper {
    /// As many whole requests.
    Same,
    /// More requests: it lets pass what we refuse, and this is what allows, or asks, to refuse.
    Laxer(&'static str),
}

pub struct Case {
    pub name: &'static str,
    pub stream: Vec<u8>,
    /// Whole requests before the end.
    pub requests: usize,
    pub end: End,
    pub hyper: Hyper,
}

pub fn cases() -> Vec<Case> {
    let mut cases = good_requests();
    cases.extend(good_bodies());
    cases.extend(good_ends());
    cases.extend(cut_short());
    cases.extend(bad::cases());
    cases
}

fn good(name: &'static str, requests: usize, stream: &str) -> Case {
    Case {
        name,
        stream: stream.as_bytes().to_vec(),
        requests,
        end: End::Clean,
        hyper: Hyper::Same,
    }
}

fn closed(name: &'static str, requests: usize, stream: &str) -> Case {
    Case {
        end: End::Closed,
        ..good(name, requests, stream)
    }
}

fn good_requests() -> Vec<Case> {
    vec![
        good("plain get", 1, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
        good("nothing", 0, ""),
        good("browser", 1, BROWSER),
        good(
            "three pipelined",
            3,
            "GET /1 HTTP/1.1\r\nHost: a\r\n\r\nHEAD /2?q=1 HTTP/1.1\r\nHost: a\r\n\r\nGET /3 HTTP/1.1\r\nHost: a\r\n\r\n",
        ),
        good(
            "empty lines before and between",
            2,
            "\r\n\r\nGET /1 HTTP/1.1\r\nHost: a\r\n\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n",
        ),
        good(
            "length body, then get",
            2,
            "POST /f HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\nhello worldGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        ),
        good(
            "body that looks like a request",
            2,
            "POST /f HTTP/1.1\r\nHost: a\r\nContent-Length: 28\r\n\r\nGET /x HTTP/1.1\r\nHost: b\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n",
        ),
        good(
            "zero length",
            2,
            "POST /f HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        ),
        good(
            "length with leading zeros",
            2,
            "POST /f HTTP/1.1\r\nHost: a\r\nContent-Length: 003\r\n\r\nabcGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        ),
        good(
            "get with body",
            2,
            "GET /f HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        ),
        good(
            "post without body",
            2,
            "POST /f HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        ),
        good(
            "chunked, then get",
            2,
            "POST /f HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        ),
        good(
            "chunked in capitals",
            1,
            "POST /f HTTP/1.1\r\nHost: a\r\nTRANSFER-ENCODING:\tChunKED \r\n\r\nA\r\n0123456789\r\n0\r\n\r\n",
        ),
        good(
            "chunk size with zeros",
            1,
            "POST /f HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0000000000000003\r\nabc\r\n000\r\n\r\n",
        ),
        good(
            "chunk extensions",
            1,
            "POST /f HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n3 ; c=\"d;e\"\r\ndef\r\n0;last\r\n\r\n",
        ),
        good(
            "trailers are dropped",
            2,
            "POST /f HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n3\r\nabc\r\n0\r\nX: 1\r\nContent-Length: 9\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        ),
    ]
}

fn good_bodies() -> Vec<Case> {
    vec![
        good(
            "empty chunked",
            2,
            "POST /f HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        ),
        good(
            "expect continue",
            2,
            "PUT /f HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nContent-Length: 2\r\n\r\nokGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        ),
        good(
            "absolute form",
            1,
            "GET http://b.example/x?y HTTP/1.1\r\nHost: a\r\n\r\n",
        ),
        good("asterisk form", 1, "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n"),
        good(
            "extension method",
            1,
            "PURGE /x HTTP/1.1\r\nHost: a\r\n\r\n",
        ),
        good(
            "odd method token",
            1,
            "M-S!#$%&'*+.^_`|~9 /x HTTP/1.1\r\nHost: a\r\n\r\n",
        ),
        good(
            "odd field names",
            1,
            "GET / HTTP/1.1\r\nHost: a\r\n!#$%&'*+-.^_`|~1: x\r\nA_B: y\r\n\r\n",
        ),
        good(
            "empty and spaced values",
            1,
            "GET / HTTP/1.1\r\nHost:a\r\nA:\r\nB: \t \r\nC:\t x \t y \t\r\n\r\n",
        ),
        good(
            "repeated fields",
            1,
            "GET / HTTP/1.1\r\nCookie: a=1\r\nHost: a\r\nX: 1\r\ncookie: b=2\r\nx: 2\r\n\r\n",
        ),
        good(
            "host with port",
            1,
            "GET / HTTP/1.1\r\nHost: example.com:8080\r\n\r\n",
        ),
        good(
            "host is v6",
            1,
            "GET / HTTP/1.1\r\nHost: [2001:db8::1]:80\r\n\r\n",
        ),
        good(
            "odd target",
            1,
            "GET /a%00b/..;/%2e%2e?x[]={1}&y=|^~ HTTP/1.1\r\nHost: a\r\n\r\n",
        ),
        good(
            "upgrade",
            2,
            "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        ),
        good(
            "1.0 kept alive",
            2,
            "GET /1 HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\nGET /2 HTTP/1.0\r\nConnection: keep-alive\r\nHost: a\r\n\r\n",
        ),
        good(
            "1.0 kept alive with body",
            2,
            "POST /1 HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nokGET /2 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
        ),
        closed("1.0", 1, "GET / HTTP/1.0\r\n\r\nGET /2 HTTP/1.0\r\n\r\n"),
    ]
}

fn good_ends() -> Vec<Case> {
    vec![
        Case {
            hyper: Hyper::Laxer(
                "RFC 9112 9.6: a server MAY close after any answer; what follows may be meant for a tunnel",
            ),
            ..closed(
                "connect",
                1,
                "CONNECT b:443 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n",
            )
        },
        closed(
            "close",
            1,
            "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n",
        ),
        closed(
            "close among options",
            1,
            "GET / HTTP/1.1\r\nHost: a\r\nConnection: x, CLOSE,y\r\nConnection: keep-alive\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n",
        ),
        closed(
            "close after a body",
            1,
            "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 2\r\n\r\nokGET /2 HTTP/1.1\r\nHost: a\r\n\r\n",
        ),
        closed(
            "1.0 expects nothing",
            1,
            "POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nok",
        ),
        Case {
            name: "bytes above ascii in a value",
            stream: b"GET / HTTP/1.1\r\nHost: a\r\nX: \xff\x80\xe4\r\n\r\n".to_vec(),
            ..good("", 1, "")
        },
    ]
}

fn cut_short() -> Vec<Case> {
    let cut = |name, requests, stream: &str| Case {
        name,
        stream: stream.as_bytes().to_vec(),
        requests,
        end: End::Partial,
        hyper: Hyper::Same,
    };
    vec![
        cut("within the method", 0, "GE"),
        cut("within the head", 0, "GET / HTTP/1.1\r\nHost: a\r\n"),
        cut(
            "within the empty line",
            0,
            "GET / HTTP/1.1\r\nHost: a\r\n\r",
        ),
        cut(
            "within the second head",
            1,
            "GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHo",
        ),
        cut(
            "within a length body",
            0,
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nabcd",
        ),
        cut(
            "within a chunk",
            0,
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcd",
        ),
        cut(
            "before the last chunk",
            0,
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n",
        ),
        cut(
            "before the end of trailers",
            0,
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: b\r\n\r",
        ),
    ]
}

const BROWSER: &str = "GET /2024/05/hello-world/?utm_source=x HTTP/1.1\r\nHost: www.example.com\r\nConnection: keep-alive\r\n\
Upgrade-Insecure-Requests: 1\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko)\r\n\
Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8\r\nReferer: https://example.com/\r\n\
Accept-Encoding: gzip, deflate, br, zstd\r\nAccept-Language: de-DE,de;q=0.9\r\nCookie: wp-settings-1=a%3Db; _ga=GA1.1.1\r\n\r\n";
