//! One answer looked at closely before a client asks for thousands: is it the right page, and how did it come?

use std::{
    fs::{self, File},
    net::SocketAddr,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use galley_testkit::client::{Connection, Response};

use crate::demo::Complaint;

/// A right answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answer {
    /// `identity`, or what Content-Encoding says.
    pub(super) coding: String,
    /// Of head and body.
    pub(super) bytes: usize,
}

/// Sends `head` and checks the answer: success, and a body that, decoded, holds all the marks.
///
/// # Errors
/// Says what is wrong with the answer, with its beginning.
pub(super) fn ask(
    addr: SocketAddr,
    head: &str,
    marks: &[String],
    dir: &Path,
) -> Result<Answer, Complaint> {
    let mut connection = Connection::within(addr, PATIENCE)?;
    connection.write(head.as_bytes())?;
    let response = connection.receive("GET")?;
    let wrong = |what: &str| -> Complaint {
        format!("wrong answer, {what}:\n{}", response.beginning()).into()
    };
    if response.status != 200 {
        return Err(wrong("status"));
    }
    let coding = response.field("content-encoding").unwrap_or("identity");
    let text = match coding {
        "identity" => response.text(),
        "gzip" => gunzip(&response, dir)?,
        other => return Err(wrong(&format!("coding `{other}`"))),
    };
    if let Some(missing) = marks.iter().find(|mark| !text.contains(mark.as_str())) {
        return Err(wrong(&format!("`{missing}` is not in its body")));
    }
    Ok(Answer {
        coding: coding.to_owned(),
        bytes: response.raw.len(),
    })
}

/// By the program of that name: it is on every machine, and it is not ours.
fn gunzip(response: &Response, dir: &Path) -> Result<String, Complaint> {
    let file = dir.join("answer.gz");
    fs::write(&file, &response.body)?;
    let output = Command::new("gzip")
        .arg("-dc")
        .stdin(Stdio::from(File::open(&file)?))
        .output()?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        let said = String::from_utf8_lossy(&output.stderr);
        Err(format!("the body is not gzip: {said}").into())
    }
}

const PATIENCE: Duration = Duration::from_secs(60);

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
            let gzip: &[(&str, &str)] = &[("Content-Encoding", "gzip")];
            let _ = match seen.target.as_str() {
                "/" => wire.answer(200, &[], b"a page </html>"),
                "/gzip" => wire.answer(200, gzip, &page),
                "/broken" => wire.answer(200, gzip, b"a page </html>"),
                "/other" => wire.answer(200, &[], b"another page"),
                "/br" => wire.answer(200, &[("Content-Encoding", "br")], b"x"),
                _ => wire.answer(503, &[], b"a page </html>"),
            };
        })
        .unwrap();
        let marks = ["</html>".to_owned()];
        for (path, wanted) in [
            ("/", Ok("identity")),
            ("/gzip", Ok("gzip")),
            ("/broken", Err("not gzip")),
            ("/other", Err("is not in its body")),
            ("/br", Err("coding `br`")),
            ("/down", Err("status")),
        ] {
            let head = format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
            match (ask(origin.addr(), &head, &marks, scratch.path()), wanted) {
                (Ok(answer), Ok(coding)) => assert_eq!(answer.coding, coding),
                (Err(complaint), Err(part)) => {
                    assert!(complaint.to_string().contains(part), "{path}: {complaint}");
                }
                (got, _) => panic!("{path}: {got:?}"),
            }
        }
    }
}
