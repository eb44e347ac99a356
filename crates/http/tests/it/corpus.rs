//! Valid and invalid streams of requests, with the expected result of parsing and the differences of hyper.

mod rejected;

use crate::reader::StreamEnd;

/// How hyper's server reads the same stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hyper {
    /// The same number of complete requests.
    Same,
    /// More requests: hyper accepts what Galley rejects. The text quotes the rule that permits or requires rejection.
    Laxer(&'static str),
}

pub struct Case {
    pub name: &'static str,
    pub stream: Vec<u8>,
    /// Number of complete requests before the end.
    pub requests: usize,
    pub end: StreamEnd,
    pub hyper: Hyper,
}

pub fn cases() -> Vec<Case> {
    let mut cases = valid_requests();
    cases.extend(valid_bodies());
    cases.extend(valid_closing_requests());
    cases.extend(incomplete());
    cases.extend(rejected::cases());
    cases
}

fn valid(name: &'static str, requests: usize, stream: &str) -> Case {
    Case {
        name,
        stream: stream.as_bytes().to_vec(),
        requests,
        end: StreamEnd::Clean,
        hyper: Hyper::Same,
    }
}

fn closing(name: &'static str, requests: usize, stream: &str) -> Case {
    Case {
        end: StreamEnd::Closed,
        ..valid(name, requests, stream)
    }
}

fn valid_requests() -> Vec<Case> {
    vec![
        valid("plain get", 1, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
        valid("nothing", 0, ""),
        valid("browser", 1, BROWSER),
        valid(
            "three pipelined",
            3,
            "GET /1 HTTP/1.1\r\nHost: a\r\n\r\nHEAD /2?q=1 HTTP/1.1\r\nHost: a\r\n\r\nGET /3 HTTP/1.1\r\nHost: a\r\n\r\n",
        ),
        valid(
            "empty lines before and between",
            2,
            "\r\n\r\nGET /1 HTTP/1.1\r\nHost: a\r\n\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n",
        ),
        valid(
            "length body, then get",
            2,
            "POST /f HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\nhello worldGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        ),
        valid(
            "body that looks like a request",
            2,
            "POST /f HTTP/1.1\r\nHost: a\r\nContent-Length: 28\r\n\r\nGET /x HTTP/1.1\r\nHost: b\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n",
        ),
        valid(
            "zero length",
            2,
            "POST /f HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        ),
        valid(
            "length with leading zeros",
            2,
            "POST /f HTTP/1.1\r\nHost: a\r\nContent-Length: 003\r\n\r\nabcGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        ),
        valid(
            "get with body",
            2,
            "GET /f HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        ),
        valid(
            "post without body",
            2,
            "POST /f HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        ),
        valid(
            "chunked, then get",
            2,
            "POST /f HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        ),
        valid(
            "chunked in capitals",
            1,
            "POST /f HTTP/1.1\r\nHost: a\r\nTRANSFER-ENCODING:\tChunKED \r\n\r\nA\r\n0123456789\r\n0\r\n\r\n",
        ),
        valid(
            "chunk size with zeros",
            1,
            "POST /f HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0000000000000003\r\nabc\r\n000\r\n\r\n",
        ),
        valid(
            "chunk extensions",
            1,
            "POST /f HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n3 ; c=\"d;e\"\r\ndef\r\n0;last\r\n\r\n",
        ),
        valid(
            "trailers are dropped",
            2,
            "POST /f HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n3\r\nabc\r\n0\r\nX: 1\r\nContent-Length: 9\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        ),
    ]
}

fn valid_bodies() -> Vec<Case> {
    vec![
        valid(
            "empty chunked",
            2,
            "POST /f HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        ),
        valid(
            "expect continue",
            2,
            "PUT /f HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nContent-Length: 2\r\n\r\nokGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        ),
        valid(
            "absolute form",
            1,
            "GET http://b.example/x?y HTTP/1.1\r\nHost: a\r\n\r\n",
        ),
        valid("asterisk form", 1, "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n"),
        valid(
            "extension method",
            1,
            "PURGE /x HTTP/1.1\r\nHost: a\r\n\r\n",
        ),
        valid(
            "odd method token",
            1,
            "M-S!#$%&'*+.^_`|~9 /x HTTP/1.1\r\nHost: a\r\n\r\n",
        ),
        valid(
            "odd field names",
            1,
            "GET / HTTP/1.1\r\nHost: a\r\n!#$%&'*+-.^_`|~1: x\r\nA_B: y\r\n\r\n",
        ),
        valid(
            "empty and spaced values",
            1,
            "GET / HTTP/1.1\r\nHost:a\r\nA:\r\nB: \t \r\nC:\t x \t y \t\r\n\r\n",
        ),
        valid(
            "repeated fields",
            1,
            "GET / HTTP/1.1\r\nCookie: a=1\r\nHost: a\r\nX: 1\r\ncookie: b=2\r\nx: 2\r\n\r\n",
        ),
        valid(
            "host with port",
            1,
            "GET / HTTP/1.1\r\nHost: example.com:8080\r\n\r\n",
        ),
        valid(
            "host is v6",
            1,
            "GET / HTTP/1.1\r\nHost: [2001:db8::1]:80\r\n\r\n",
        ),
        valid(
            "odd target",
            1,
            "GET /a%00b/..;/%2e%2e?x[]={1}&y=|^~ HTTP/1.1\r\nHost: a\r\n\r\n",
        ),
        valid(
            "upgrade",
            2,
            "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        ),
        valid(
            "1.0 kept alive",
            2,
            "GET /1 HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\nGET /2 HTTP/1.0\r\nConnection: keep-alive\r\nHost: a\r\n\r\n",
        ),
        valid(
            "1.0 kept alive with body",
            2,
            "POST /1 HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nokGET /2 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
        ),
        closing("1.0", 1, "GET / HTTP/1.0\r\n\r\nGET /2 HTTP/1.0\r\n\r\n"),
    ]
}

fn valid_closing_requests() -> Vec<Case> {
    vec![
        Case {
            hyper: Hyper::Laxer(
                "RFC 9112 9.6: a server MAY close after any response; the following bytes may belong to a tunnel",
            ),
            ..closing(
                "connect",
                1,
                "CONNECT b:443 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n",
            )
        },
        closing(
            "close",
            1,
            "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n",
        ),
        closing(
            "close among options",
            1,
            "GET / HTTP/1.1\r\nHost: a\r\nConnection: x, CLOSE,y\r\nConnection: keep-alive\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n",
        ),
        closing(
            "close after a body",
            1,
            "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 2\r\n\r\nokGET /2 HTTP/1.1\r\nHost: a\r\n\r\n",
        ),
        closing(
            "1.0 expects nothing",
            1,
            "POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nok",
        ),
        Case {
            name: "bytes above ascii in a value",
            stream: b"GET / HTTP/1.1\r\nHost: a\r\nX: \xff\x80\xe4\r\n\r\n".to_vec(),
            ..valid("", 1, "")
        },
    ]
}

fn incomplete() -> Vec<Case> {
    let partial = |name, requests, stream: &str| Case {
        name,
        stream: stream.as_bytes().to_vec(),
        requests,
        end: StreamEnd::Partial,
        hyper: Hyper::Same,
    };
    vec![
        partial("within the method", 0, "GE"),
        partial("within the head", 0, "GET / HTTP/1.1\r\nHost: a\r\n"),
        partial(
            "within the empty line",
            0,
            "GET / HTTP/1.1\r\nHost: a\r\n\r",
        ),
        partial(
            "within the second head",
            1,
            "GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHo",
        ),
        partial(
            "within a length body",
            0,
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nabcd",
        ),
        partial(
            "within a chunk",
            0,
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcd",
        ),
        partial(
            "before the last chunk",
            0,
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n",
        ),
        partial(
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
