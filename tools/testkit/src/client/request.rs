//! Builds requests: the head exactly as given, and a body with `Content-Length` or chunked.

use std::{fmt::Write as _, net::SocketAddr, time::Duration};

use super::{Connection, Response};
use crate::TestkitError;

/// A body and how it is framed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// No body and no length.
    None,
    /// With `Content-Length`.
    Length(Vec<u8>),
    /// With `Transfer-Encoding: chunked` and these chunks.
    Chunked(Vec<Vec<u8>>),
}

/// One field of a `multipart/form-data` body.
#[derive(Debug, Clone, Copy)]
pub struct Part<'a> {
    /// Name of the field.
    pub name: &'a str,
    /// File name and content type; `None` for a plain field.
    pub file: Option<(&'a str, &'a str)>,
    /// Content of the field.
    pub content: &'a [u8],
}

/// A request. Only the framing of the body and `Host` are added; [`without_host`](Self::without_host) omits the latter.
#[derive(Debug, Clone)]
pub struct Request {
    /// Method, for example `GET`.
    pub method: String,
    /// Target of the request line.
    pub target: String,
    /// Header fields in order.
    pub fields: Vec<(String, Vec<u8>)>,
    /// Body and framing.
    pub body: Body,
    pub(super) timeout: Duration,
    adds_host: bool,
}

impl Request {
    /// Creates a request with any method.
    pub fn new(method: &str, target: &str) -> Self {
        Self {
            method: method.to_owned(),
            target: target.to_owned(),
            fields: Vec::new(),
            body: Body::None,
            timeout: TIMEOUT,
            adds_host: true,
        }
    }

    /// Creates a GET request.
    pub fn get(target: &str) -> Self {
        Self::new("GET", target)
    }

    /// Creates a HEAD request.
    pub fn head(target: &str) -> Self {
        Self::new("HEAD", target)
    }

    /// Creates a POST request with a body and its content type.
    pub fn post(target: &str, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        Self::new("POST", target)
            .field("Content-Type", content_type)
            .body(body)
    }

    /// Creates a POST request with a form, `application/x-www-form-urlencoded`.
    pub fn form(target: &str, fields: &[(&str, &str)]) -> Self {
        let pairs: Vec<String> = fields
            .iter()
            .map(|(name, value)| format!("{}={}", encoded(name), encoded(value)))
            .collect();
        Self::post(target, "application/x-www-form-urlencoded", pairs.join("&"))
    }

    /// Creates a POST request with a form with files, `multipart/form-data`.
    pub fn multipart(target: &str, parts: &[Part<'_>]) -> Self {
        let mut body = Vec::new();
        for part in parts {
            let mut head = format!(
                "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{}\"",
                part.name
            );
            if let Some((name, content_type)) = part.file {
                let _ = write!(
                    head,
                    "; filename=\"{name}\"\r\nContent-Type: {content_type}"
                );
            }
            body.extend_from_slice(head.as_bytes());
            body.extend_from_slice(b"\r\n\r\n");
            body.extend_from_slice(part.content);
            body.extend_from_slice(b"\r\n");
        }
        body.extend_from_slice(format!("--{BOUNDARY}--\r\n").as_bytes());
        Self::post(
            target,
            &format!("multipart/form-data; boundary={BOUNDARY}"),
            body,
        )
    }

    /// Adds a field; does not replace an earlier field with the same name.
    #[must_use]
    pub fn field(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.fields.push((name.to_owned(), value.as_ref().to_vec()));
        self
    }

    /// Sets `Host`, which is the address of the server by default.
    #[must_use]
    pub fn host(self, host: &str) -> Self {
        self.field("Host", host)
    }

    /// Omits `Host`.
    #[must_use]
    pub fn without_host(mut self) -> Self {
        self.adds_host = false;
        self
    }

    /// Adds a `Cookie` field: `name=value; other=value`.
    #[must_use]
    pub fn cookie(self, cookies: &str) -> Self {
        self.field("Cookie", cookies)
    }

    /// Sets a body with `Content-Length`.
    #[must_use]
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = Body::Length(body.into());
        self
    }

    /// Sets a chunked body.
    #[must_use]
    pub fn chunked(mut self, chunks: &[&[u8]]) -> Self {
        self.body = Body::Chunked(chunks.iter().map(|chunk| chunk.to_vec()).collect());
        self
    }

    /// Sets the timeout of the connection attempt and of the whole response. 28 seconds by default.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Encodes the request. `authority` is the default for `Host`.
    pub fn to_bytes(&self, authority: &str) -> Vec<u8> {
        let mut out = format!("{} {} HTTP/1.1\r\n", self.method, self.target).into_bytes();
        if self.adds_host
            && !self
                .fields
                .iter()
                .any(|(name, _)| name.eq_ignore_ascii_case("host"))
        {
            out.extend_from_slice(format!("Host: {authority}\r\n").as_bytes());
        }
        for (name, value) in &self.fields {
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b": ");
            out.extend_from_slice(value);
            out.extend_from_slice(b"\r\n");
        }
        match &self.body {
            Body::None => out.extend_from_slice(b"\r\n"),
            Body::Length(body) => {
                out.extend_from_slice(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes());
                out.extend_from_slice(body);
            }
            Body::Chunked(chunks) => {
                out.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
                for chunk in chunks.iter().filter(|chunk| !chunk.is_empty()) {
                    out.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
                    out.extend_from_slice(chunk);
                    out.extend_from_slice(b"\r\n");
                }
                out.extend_from_slice(b"0\r\n\r\n");
            }
        }
        out
    }

    /// Sends the request on a new connection, returns the response, and closes the connection.
    ///
    /// # Errors
    /// [`TestkitError::Io`] if the connection fails or after the timeout, [`TestkitError::Malformed`] if the response violates
    /// the protocol.
    pub fn send(&self, addr: SocketAddr) -> Result<Response, TestkitError> {
        Connection::within(addr, self.timeout)?.exchange(self)
    }
}

/// Percent-encodes text for forms, except letters, digits and `-_.`; a space becomes `+`.
fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => {
                out.push(char::from(byte));
            }
            b' ' => out.push('+'),
            _ => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

/// Shorter than Galley's default timeouts for PHP, so that a test with a shorter timeout fails if Galley ignores it.
pub(super) const TIMEOUT: Duration = Duration::from_secs(28);
const BOUNDARY: &str = "galley-testkit-7f3a9c51e2";

#[cfg(test)]
mod tests {
    use super::*;

    fn text(request: &Request) -> String {
        String::from_utf8(request.to_bytes("a:80")).unwrap()
    }

    #[test]
    fn requests_are_encoded_exactly() {
        let rows = [
            (
                Request::get("/x?y=1"),
                "GET /x?y=1 HTTP/1.1\r\nHost: a:80\r\n\r\n",
            ),
            (Request::get("/").without_host(), "GET / HTTP/1.1\r\n\r\n"),
            (
                Request::get("/")
                    .host("b")
                    .field("X-A", "1")
                    .field("X-A", "2"),
                "GET / HTTP/1.1\r\nHost: b\r\nX-A: 1\r\nX-A: 2\r\n\r\n",
            ),
            (
                Request::form("/f", &[("a b", "ü&="), ("c", "~")]).host("b"),
                "POST /f HTTP/1.1\r\nContent-Type: application/x-www-form-urlencoded\r\nHost: b\r\nContent-Length: 22\r\n\r\na+b=%C3%BC%26%3D&c=%7E",
            ),
            (
                Request::new("PUT", "/").without_host().chunked(&[
                    b"hello",
                    b"",
                    b"0123456789abcdef",
                ]),
                "PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n10\r\n0123456789abcdef\r\n0\r\n\r\n",
            ),
        ];
        for (request, expected) in rows {
            assert_eq!(text(&request), expected);
        }
    }

    #[test]
    fn files_are_encoded_as_multipart() {
        let parts = [
            Part {
                name: "action",
                file: None,
                content: b"upload",
            },
            Part {
                name: "f",
                file: Some(("a.png", "image/png")),
                content: b"\x89PNG",
            },
        ];
        let bytes = Request::multipart("/u", &parts).to_bytes("a");
        let text = String::from_utf8_lossy(&bytes);
        assert!(text.contains("name=\"action\"\r\n\r\nupload\r\n"));
        assert!(text.contains("name=\"f\"; filename=\"a.png\"\r\nContent-Type: image/png\r\n\r\n"));
        assert!(text.ends_with(&format!("PNG\r\n--{BOUNDARY}--\r\n")));
    }
}
