//! Checks a response: status, content coding, and the whole decoded body. Used before each measurement, and for the bodies that
//! the load client sampled.

use std::{
    fs,
    net::SocketAddr,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use galley_load::BodyCoding;
use galley_testkit::client::{Connection, Response};

use super::site::ExpectedBody;
use crate::error::CommandError;

/// A response that passed the check.
#[derive(Debug, Clone)]
pub(super) struct CheckedResponse {
    /// The value of Content-Encoding, or `identity`.
    pub(super) coding: String,
    /// The body as received.
    pub(super) body: Vec<u8>,
    /// Head and body as received.
    pub(super) raw: Vec<u8>,
    /// The header field of a conditional request for this response.
    pub(super) condition: Option<String>,
}

/// The expected properties of a response.
#[derive(Debug, Clone, Copy)]
pub(super) struct ExpectedResponse<'a> {
    pub(super) method: &'a str,
    pub(super) status: u16,
    pub(super) body: &'a ExpectedBody,
}

/// Sends `head` on a new connection and checks the response.
///
/// # Errors
/// Describes the difference and quotes the beginning of the response.
pub(super) fn request(
    addr: SocketAddr,
    head: &[u8],
    expected: ExpectedResponse<'_>,
    dir: &Path,
) -> Result<CheckedResponse, CommandError> {
    let mut connection = Connection::within(addr, TIMEOUT)?;
    request_on(&mut connection, head, expected, dir)
}

/// Sends `head` on an open connection and checks the response.
pub(super) fn request_on(
    connection: &mut Connection,
    head: &[u8],
    expected: ExpectedResponse<'_>,
    dir: &Path,
) -> Result<CheckedResponse, CommandError> {
    connection.write(head)?;
    let response = connection.receive(expected.method)?;
    let wrong = |what: &str| -> CommandError {
        format!("wrong response: {what}:\n{}", response.excerpt()).into()
    };
    if response.status != expected.status {
        return Err(wrong("status"));
    }
    let name = response.field("content-encoding").unwrap_or("identity");
    let coding = match name {
        "identity" => BodyCoding::Identity,
        "gzip" => BodyCoding::Gzip,
        "br" => BodyCoding::Br,
        _ => BodyCoding::Other,
    };
    // A response without a body (304) may have the Content-Encoding of the page.
    if !response.body.is_empty() || expected.status == 200 {
        body(coding, &response.body, expected.body, dir)
            .map_err(|error| wrong(&error.to_string()))?;
    }
    let condition = condition(&response);
    let name = name.to_owned();
    Ok(CheckedResponse {
        coding: name,
        condition,
        body: response.body,
        raw: response.raw,
    })
}

/// Decodes a body and compares it with the expected one.
pub(super) fn body(
    coding: BodyCoding,
    bytes: &[u8],
    expected: &ExpectedBody,
    dir: &Path,
) -> Result<(), CommandError> {
    let decoded = match coding {
        BodyCoding::Identity => None,
        BodyCoding::Gzip => Some(decompress(&["gzip", "-dc"], bytes, dir)?),
        BodyCoding::Br => Some(decompress(&["brotli", "-dc"], bytes, dir)?),
        BodyCoding::Other => return Err("a content coding that was not requested".into()),
    };
    let decoded = decoded.as_deref().unwrap_or(bytes);
    match expected {
        ExpectedBody::Bytes(expected) if expected == decoded => Ok(()),
        ExpectedBody::Bytes(expected) => Err(format!(
            "the body differs: {} bytes, expected {}",
            decoded.len(),
            expected.len()
        )
        .into()),
        ExpectedBody::Marks(marks) => {
            let text = String::from_utf8_lossy(decoded);
            match marks.iter().find(|mark| !text.contains(mark.as_str())) {
                Some(missing) => Err(format!("`{missing}` is not in the body").into()),
                None => Ok(()),
            }
        }
    }
}

fn condition(response: &Response) -> Option<String> {
    let etag = response.field("etag");
    let modified = response.field("last-modified");
    etag.map(|etag| format!("If-None-Match: {etag}"))
        .or_else(|| modified.map(|date| format!("If-Modified-Since: {date}")))
}

/// Decompresses with an external program, so that the check does not depend on Galley's code.
pub(crate) fn decompress(line: &[&str], bytes: &[u8], dir: &Path) -> Result<Vec<u8>, CommandError> {
    let (program, arguments) = line.split_first().ok_or("no program")?;
    let file = dir.join("response.compressed");
    fs::write(&file, bytes)?;
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::from(fs::File::open(&file)?))
        .output()
        .map_err(|error| format!("`{program}`: {error}: run `scripts/setup bench`"))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    Err(format!("the body is not valid {program}: {stderr}").into())
}

const TIMEOUT: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use galley_testkit::{Scratch, origin::Origin};

    use super::*;

    fn gzip(text: &str, dir: &Path) -> Vec<u8> {
        let plain = dir.join("plain");
        fs::write(&plain, text).unwrap();
        let output = Command::new("gzip")
            .arg("-nc")
            .arg(&plain)
            .output()
            .unwrap();
        output.stdout
    }

    #[test]
    fn only_the_expected_page_passes() {
        let scratch = Scratch::new().unwrap();
        let page = gzip("a page </html>", scratch.path());
        let origin = Origin::start(move |request, writer| {
            let gzip: &[(&str, &str)] = &[("Content-Encoding", "gzip"), ("ETag", "\"1\"")];
            let _ = match request.target.as_str() {
                "/" => writer.respond(200, &[], b"a page </html>"),
                "/gzip" => writer.respond(200, gzip, &page),
                "/broken" => writer.respond(200, gzip, b"a page </html>"),
                "/other" => writer.respond(200, &[], b"another page"),
                "/zstd" => writer.respond(200, &[("Content-Encoding", "zstd")], b"x"),
                _ => writer.respond(503, &[], b"a page </html>"),
            };
        })
        .unwrap();
        let body = ExpectedBody::Marks(vec!["</html>".to_owned()]);
        let expected = ExpectedResponse {
            method: "GET",
            status: 200,
            body: &body,
        };
        for (path, result) in [
            ("/", Ok("identity")),
            ("/gzip", Ok("gzip")),
            ("/broken", Err("not valid gzip")),
            ("/other", Err("is not in the body")),
            ("/zstd", Err("coding")),
            ("/down", Err("status")),
        ] {
            let head = format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
            match (
                super::request(origin.addr(), head.as_bytes(), expected, scratch.path()),
                result,
            ) {
                (Ok(response), Ok(coding)) => {
                    assert_eq!(response.coding, coding);
                    let condition = (coding == "gzip").then(|| "If-None-Match: \"1\"".to_owned());
                    assert_eq!(response.condition, condition);
                }
                (Err(error), Err(part)) => {
                    assert!(error.to_string().contains(part), "{path}: {error}");
                }
                (got, _) => panic!("{path}: {got:?}"),
            }
        }
    }

    #[test]
    fn a_body_with_other_bytes_is_rejected() {
        let scratch = Scratch::new().unwrap();
        let expected = ExpectedBody::Bytes(b"abc".to_vec());
        assert!(body(BodyCoding::Identity, b"abc", &expected, scratch.path()).is_ok());
        assert!(body(BodyCoding::Identity, b"abd", &expected, scratch.path()).is_err());
    }
}
