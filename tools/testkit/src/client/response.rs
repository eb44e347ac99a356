//! Responses: status, fields and body, and the raw bytes for exact comparisons.

use crate::TestkitError;

/// A complete response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// `HTTP/1.1` or `HTTP/1.0`.
    pub version: String,
    /// Status code of the final response.
    pub status: u16,
    /// Header fields in the order received.
    pub fields: Vec<(String, Vec<u8>)>,
    /// Body without its transfer coding; content codings are not decoded.
    pub body: Vec<u8>,
    /// Status codes of the interim responses (1xx) before it.
    pub interim: Vec<u16>,
    /// The raw bytes, including interim responses.
    pub raw: Vec<u8>,
}

impl Response {
    /// The value of the first field with this name, ignoring case; `None` if missing or not UTF-8.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.all(name).into_iter().next()
    }

    /// The values of all fields with this name that are UTF-8.
    pub fn all(&self, name: &str) -> Vec<&str> {
        let same = self
            .fields
            .iter()
            .filter(|(other, _)| other.eq_ignore_ascii_case(name));
        same.filter_map(|(_, value)| std::str::from_utf8(value).ok())
            .collect()
    }

    /// True if the response has a field with this name.
    pub fn has(&self, name: &str) -> bool {
        self.fields
            .iter()
            .any(|(other, _)| other.eq_ignore_ascii_case(name))
    }

    /// The body as text; replaces invalid UTF-8.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The value of `Cache-Status`; empty if missing.
    pub fn cache_status(&self) -> &str {
        self.field("cache-status").unwrap_or_default()
    }

    /// True if `Cache-Status` contains `hit`.
    pub fn is_hit(&self) -> bool {
        self.cache_status()
            .split(';')
            .any(|part| part.trim() == "hit")
    }

    /// The value of `Age` in seconds.
    pub fn age(&self) -> Option<u64> {
        self.field("age")?.trim().parse().ok()
    }

    /// Returns the response if it has this status.
    ///
    /// # Panics
    /// If the status differs; the message has the head and the beginning of the body.
    #[track_caller]
    #[must_use]
    pub fn expect_status(self, status: u16) -> Self {
        assert!(
            self.status == status,
            "expected status {status}, got:\n{}",
            self.excerpt()
        );
        self
    }

    /// The beginning of the raw response, for messages.
    pub fn excerpt(&self) -> String {
        String::from_utf8_lossy(self.raw.get(..1500).unwrap_or(&self.raw)).into_owned()
    }

    /// True if no further answer can come on this connection.
    pub(crate) fn closes(&self) -> bool {
        let connection = self
            .field("connection")
            .unwrap_or_default()
            .to_ascii_lowercase();
        connection.contains("close")
            || (self.version == "HTTP/1.0" && !connection.contains("keep-alive"))
    }
}

/// How the length of a response body is determined (RFC 9112 section 6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    None,
    Length(usize),
    Chunked,
    UntilClose,
}

/// Parses the head of a response.
pub(super) fn parse_head(head: &[u8]) -> Result<Response, TestkitError> {
    let text = head
        .strip_suffix(b"\r\n\r\n")
        .ok_or_else(|| bad("no end of the head"))?;
    let mut lines = text
        .split(|byte| *byte == b'\n')
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let first = lines.next().unwrap_or_default();
    let first = std::str::from_utf8(first).map_err(|_| bad("status line is not text"))?;
    let mut words = first.splitn(3, ' ');
    let version = words.next().unwrap_or_default();
    let code = words.next().unwrap_or_default();
    let known = matches!(version, "HTTP/1.1" | "HTTP/1.0");
    if !known || code.len() != 3 {
        return Err(bad(&format!("status line `{first}`")));
    }
    let status = code.parse().map_err(|_| bad(&format!("status `{code}`")))?;
    let mut fields = Vec::new();
    for line in lines {
        let colon = line
            .iter()
            .position(|byte| *byte == b':')
            .ok_or_else(|| bad("field line without a colon"))?;
        let (name, value) = line.split_at(colon);
        let name = std::str::from_utf8(name)
            .ok()
            .filter(|name| !name.is_empty() && !name.contains([' ', '\t']));
        let name = name.ok_or_else(|| bad("field name"))?;
        let value = value.get(1..).unwrap_or_default().trim_ascii();
        if value.iter().any(|byte| matches!(byte, b'\r' | 0)) {
            return Err(bad(&format!("control bytes in `{name}`")));
        }
        fields.push((name.to_owned(), value.to_vec()));
    }
    Ok(Response {
        version: version.to_owned(),
        status,
        fields,
        body: Vec::new(),
        interim: Vec::new(),
        raw: Vec::new(),
    })
}

/// Determines how the body ends; any ambiguity is an error.
pub(super) fn framing(response: &Response, method: &str) -> Result<Framing, TestkitError> {
    let lengths = response.all("content-length");
    let codings = response.all("transfer-encoding");
    if lengths.len() > 1 || codings.len() > 1 || (!lengths.is_empty() && !codings.is_empty()) {
        return Err(bad("more than one framing of the body"));
    }
    if method == "HEAD" || matches!(response.status, 100..=199 | 204 | 304) {
        return Ok(Framing::None);
    }
    if let Some(coding) = codings.first() {
        let chunked = coding.trim().eq_ignore_ascii_case("chunked");
        return if chunked {
            Ok(Framing::Chunked)
        } else {
            Err(bad(&format!("transfer coding `{coding}`")))
        };
    }
    let Some(length) = lengths.first() else {
        return Ok(Framing::UntilClose);
    };
    let digits = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
    let length = if digits { length.parse().ok() } else { None };
    length
        .map(Framing::Length)
        .ok_or_else(|| bad("content length"))
}

/// Parses the size of a chunk from its line without the line end; allows extensions.
pub(super) fn chunk_size(line: &[u8]) -> Result<usize, TestkitError> {
    let line = std::str::from_utf8(line).map_err(|_| bad("chunk size"))?;
    let digits = line.split(';').next().unwrap_or_default().trim_end();
    let hexadecimal =
        (1..=15).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let size = if hexadecimal {
        usize::from_str_radix(digits, 16).ok()
    } else {
        None
    };
    size.ok_or_else(|| bad(&format!("chunk size `{line}`")))
}

pub(super) fn bad(what: &str) -> TestkitError {
    TestkitError::Malformed(what.to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn head(fields: &str) -> Response {
        parse_head(format!("HTTP/1.1 200 OK\r\n{fields}\r\n").as_bytes()).unwrap()
    }

    #[test]
    fn ambiguous_framing_is_rejected() {
        let rows = [
            ("", "GET", Some(Framing::UntilClose)),
            ("Content-Length: 5\r\n", "GET", Some(Framing::Length(5))),
            ("Content-Length: 5\r\n", "HEAD", Some(Framing::None)),
            (
                "Transfer-Encoding: Chunked\r\n",
                "GET",
                Some(Framing::Chunked),
            ),
            ("Transfer-Encoding: gzip\r\n", "GET", None),
            ("Content-Length: 5\r\nContent-Length: 5\r\n", "GET", None),
            (
                "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
                "GET",
                None,
            ),
            ("Content-Length: +5\r\n", "GET", None),
            ("Content-Length: \r\n", "GET", None),
        ];
        for (fields, method, expected) in rows {
            assert_eq!(
                framing(&head(fields), method).ok(),
                expected,
                "{fields:?} {method}"
            );
        }
    }

    #[test]
    fn field_names_are_case_insensitive() {
        let response = head(
            "Cache-Status: galley; hit; ttl=5\r\nAge: 7\r\nSet-Cookie: a\r\nset-cookie: b\r\n",
        );
        assert!(response.is_hit());
        assert_eq!(response.age(), Some(7));
        assert_eq!(response.all("SET-COOKIE"), ["a", "b"]);
        assert!(!head("Cache-Status: galley; fwd=uri-miss; stored\r\n").is_hit());
    }

    #[test]
    fn chunk_sizes_are_parsed_strictly() {
        for (line, expected) in [
            ("0", Some(0)),
            ("1aF", Some(0x1af)),
            ("5;x=y", Some(5)),
            ("", None),
            ("-1", None),
            ("0x5", None),
            ("fffffffffffffffff", None),
        ] {
            assert_eq!(chunk_size(line.as_bytes()).ok(), expected, "{line}");
        }
    }

    proptest! {
        #[test]
        fn parsing_any_bytes_does_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut whole = b"HTTP/1.1 200 OK\r\n".to_vec();
            whole.extend_from_slice(&bytes);
            whole.extend_from_slice(b"\r\n\r\n");
            if let Ok(response) = parse_head(&whole) {
                let _ = framing(&response, "GET");
            }
            let _ = parse_head(&bytes);
            let _ = chunk_size(&bytes);
        }
    }
}
