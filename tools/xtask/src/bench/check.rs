//! One answer looked at closely: is it the right page, and how did it come? Before a client asks for thousands, and
//! for those of the thousands that were kept.

use std::{
    fs,
    net::SocketAddr,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use galley_load::BodyCoding;
use galley_testkit::client::{Connection, Response};

use super::site::Expected;
use crate::demo::CommandError;

/// A right answer.
#[derive(Debug, Clone)]
pub(super) struct Answer {
    /// `identity`, or what Content-Encoding says.
    pub(super) coding: String,
    /// The body as it came.
    pub(super) body: Vec<u8>,
    /// Head and body as they came.
    pub(super) raw: Vec<u8>,
    /// The field of a request that asks whether this answer still holds.
    pub(super) condition: Option<String>,
}

/// What an answer must be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub(super) method: &'a str,
    pub(super) status: u16,
    pub(super) expected: &'a Expected,
}

/// Sends `head` and checks the answer.
///
/// # Errors
/// Says what is wrong with the answer, with its beginning.
pub(super) fn ask(
    addr: SocketAddr,
    head: &[u8],
    wanted: Wanted<'_>,
    dir: &Path,
) -> Result<Answer, CommandError> {
    let mut connection = Connection::within(addr, TIMEOUT)?;
    on(&mut connection, head, wanted, dir)
}

/// The same on a connection that stands.
pub(super) fn on(
    connection: &mut Connection,
    head: &[u8],
    wanted: Wanted<'_>,
    dir: &Path,
) -> Result<Answer, CommandError> {
    connection.write(head)?;
    let response = connection.receive(wanted.method)?;
    let wrong = |what: &str| -> CommandError {
        format!("wrong answer, {what}:\n{}", response.beginning()).into()
    };
    if response.status != wanted.status {
        return Err(wrong("status"));
    }
    let name = response.field("content-encoding").unwrap_or("identity");
    let coding = match name {
        "identity" => BodyCoding::Identity,
        "gzip" => BodyCoding::Gzip,
        "br" => BodyCoding::Br,
        _ => BodyCoding::Other,
    };
    // An answer without a body has nothing to decode, whatever its head says of the page.
    if !response.body.is_empty() || wanted.status == 200 {
        body(coding, &response.body, wanted.expected, dir)
            .map_err(|complaint| wrong(&complaint.to_string()))?;
    }
    let condition = condition(&response);
    let name = name.to_owned();
    Ok(Answer {
        coding: name,
        condition,
        body: response.body,
        raw: response.raw,
    })
}

/// Checks a body as it came.
pub(super) fn body(
    coding: BodyCoding,
    bytes: &[u8],
    expected: &Expected,
    dir: &Path,
) -> Result<(), CommandError> {
    let decoded = match coding {
        BodyCoding::Identity => None,
        BodyCoding::Gzip => Some(decode(&["gzip", "-dc"], bytes, dir)?),
        BodyCoding::Br => Some(decode(&["brotli", "-dc"], bytes, dir)?),
        BodyCoding::Other => return Err("a coding that was not asked for".into()),
    };
    let decoded = decoded.as_deref().unwrap_or(bytes);
    match expected {
        Expected::Bytes(wanted) if wanted == decoded => Ok(()),
        Expected::Bytes(wanted) => Err(format!(
            "its body is {} bytes and not the {} wanted",
            decoded.len(),
            wanted.len()
        )
        .into()),
        Expected::Marks(marks) => {
            let text = String::from_utf8_lossy(decoded);
            match marks.iter().find(|mark| !text.contains(mark.as_str())) {
                Some(missing) => Err(format!("`{missing}` is not in its body").into()),
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

/// By the programs of these names: they are not ours.
pub(crate) fn decode(line: &[&str], bytes: &[u8], dir: &Path) -> Result<Vec<u8>, CommandError> {
    let (program, arguments) = line.split_first().ok_or("no program")?;
    let file = dir.join("answer.packed");
    fs::write(&file, bytes)?;
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::from(fs::File::open(&file)?))
        .output()
        .map_err(|error| format!("`{program}`: {error}: run `scripts/setup bench`"))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("the body is not {program}: {said}").into())
}

const TIMEOUT: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use galley_testkit::{Scratch, origin::Origin};

    use super::*;

    fn packed(text: &str, dir: &Path) -> Vec<u8> {
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
    fn only_the_right_page_passes() {
        let scratch = Scratch::new().unwrap();
        let page = packed("a page </html>", scratch.path());
        let origin = Origin::start(move |seen, wire| {
            let gzip: &[(&str, &str)] = &[("Content-Encoding", "gzip"), ("ETag", "\"1\"")];
            let _ = match seen.target.as_str() {
                "/" => wire.answer(200, &[], b"a page </html>"),
                "/gzip" => wire.answer(200, gzip, &page),
                "/broken" => wire.answer(200, gzip, b"a page </html>"),
                "/other" => wire.answer(200, &[], b"another page"),
                "/zstd" => wire.answer(200, &[("Content-Encoding", "zstd")], b"x"),
                _ => wire.answer(503, &[], b"a page </html>"),
            };
        })
        .unwrap();
        let expected = Expected::Marks(vec!["</html>".to_owned()]);
        let wanted = Wanted {
            method: "GET",
            status: 200,
            expected: &expected,
        };
        for (path, verdict) in [
            ("/", Ok("identity")),
            ("/gzip", Ok("gzip")),
            ("/broken", Err("not gzip")),
            ("/other", Err("is not in its body")),
            ("/zstd", Err("coding")),
            ("/down", Err("status")),
        ] {
            let head = format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
            match (
                ask(origin.addr(), head.as_bytes(), wanted, scratch.path()),
                verdict,
            ) {
                (Ok(answer), Ok(coding)) => {
                    assert_eq!(answer.coding, coding);
                    let condition = (coding == "gzip").then(|| "If-None-Match: \"1\"".to_owned());
                    assert_eq!(answer.condition, condition);
                }
                (Err(complaint), Err(part)) => {
                    assert!(complaint.to_string().contains(part), "{path}: {complaint}");
                }
                (got, _) => panic!("{path}: {got:?}"),
            }
        }
    }

    #[test]
    fn bytes_must_be_the_same() {
        let scratch = Scratch::new().unwrap();
        let expected = Expected::Bytes(b"abc".to_vec());
        assert!(body(BodyCoding::Identity, b"abc", &expected, scratch.path()).is_ok());
        assert!(body(BodyCoding::Identity, b"abd", &expected, scratch.path()).is_err());
    }
}
