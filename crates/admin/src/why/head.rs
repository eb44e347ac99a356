//! Builds the request head that a client would send for a query.

use galley_policy::uri;
use http::{HeaderName, HeaderValue};

use super::WhyRequest;

/// Builds the bytes of a request head. As in a browser, a URL without a scheme gets one, characters are percent-encoded where
/// necessary, and the fragment is not sent.
pub(super) fn write(wanted: &WhyRequest) -> Result<Vec<u8>, String> {
    let url = absolute(wanted.url.trim())?;
    let target = uri::split(&url).map_err(|e| format!("`{}`: {e}", wanted.url))?;
    let authority = target.authority.unwrap_or_default();
    let mut out = Vec::with_capacity(url.len() + 256);
    if HeaderName::from_bytes(wanted.method.as_bytes()).is_err() {
        return Err(format!(
            "`{}` is not a method",
            wanted.method.escape_debug()
        ));
    }
    out.extend_from_slice(wanted.method.as_bytes());
    out.push(b' ');
    match target.path {
        b"" => out.push(b'/'),
        path => out.extend_from_slice(path),
    }
    if let Some(query) = target.query {
        out.push(b'?');
        out.extend_from_slice(query);
    }
    out.extend_from_slice(b" HTTP/1.1\r\n");
    let names_host = |(name, _): &(String, String)| name.eq_ignore_ascii_case("host");
    if !wanted.headers.iter().any(names_host) {
        push(&mut out, b"Host", authority);
    }
    for (name, value) in &wanted.headers {
        // One line for each field: a value must not contain a line break.
        let is_name = HeaderName::from_bytes(name.as_bytes()).is_ok();
        if !is_name || HeaderValue::from_str(value).is_err() {
            return Err(format!("`{}` is not a header field", name.escape_debug()));
        }
        push(&mut out, name.as_bytes(), value.as_bytes());
    }
    out.extend_from_slice(b"\r\n");
    Ok(out)
}

/// Scheme and authority of a URL that a person typed; the default scheme is `http`.
pub(super) fn origin(url: &str) -> (&str, &str) {
    let (scheme, rest) = url.trim().split_once("://").unwrap_or(("http", url.trim()));
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    (scheme, rest.get(..end).unwrap_or_default())
}

fn push(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

fn absolute(url: &str) -> Result<Vec<u8>, String> {
    let whole = url.split('#').next().unwrap_or_default();
    let text = if whole.contains("://") {
        whole.to_owned()
    } else if whole.starts_with('/') || whole.is_empty() {
        return Err(format!(
            "`{url}`: give the whole address, as `https://example.com/page/`"
        ));
    } else {
        format!("http://{whole}")
    };
    let mut out = Vec::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b' ' => out.extend_from_slice(b"%20"),
            0x80.. => out.extend_from_slice(format!("%{byte:02X}").as_bytes()),
            byte => out.push(byte),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(method: &str, url: &str, headers: &[(&str, &str)]) -> Result<String, String> {
        let wanted = WhyRequest {
            url: url.to_owned(),
            method: method.to_owned(),
            headers: headers
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            client: None,
            site: None,
        };
        write(&wanted).map(|bytes| String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn addresses_become_heads() {
        for (url, line, host) in [
            ("https://a.test/x?y=1#z", "/x?y=1", "a.test"),
            ("http://a.test", "/", "a.test"),
            ("http://a.test:81?q", "/?q", "a.test:81"),
            ("a.test/ü b", "/%C3%BC%20b", "a.test"),
        ] {
            let wanted = format!("GET {line} HTTP/1.1\r\nHost: {host}\r\n\r\n");
            assert_eq!(written("GET", url, &[]), Ok(wanted), "{url}");
        }
        let own_host = written(
            "HEAD",
            "http://a.test/",
            &[("host", "b.test"), ("X-A", "1")],
        );
        let wanted = "HEAD / HTTP/1.1\r\nhost: b.test\r\nX-A: 1\r\n\r\n";
        assert_eq!(own_host.unwrap(), wanted);
    }

    #[test]
    fn no_value_adds_a_line() {
        for (method, url, headers) in [
            ("GET\r\nX: y", "http://a.test/", &[][..]),
            ("", "http://a.test/", &[]),
            ("GET", "/x", &[]),
            ("GET", "http://a.test/\r\nX: y", &[]),
            ("GET", "http://a.test/", &[("X\r\nY", "z")]),
            ("GET", "http://a.test/", &[("X", "a\r\nCookie: b")]),
            ("GET", "http://a.test/", &[("X: y", "z")]),
        ] {
            assert!(written(method, url, headers).is_err(), "{method} {url}");
        }
    }
}
