//! An answer as it comes in, in pieces: its status, how long its body is, whether it ends the connection.
//!
//! Only what the bench needs of HTTP/1.1 (RFC 9112) for answers to GET and PURGE. Total over any bytes.

use super::chunks::Chunks;

/// What is known of the answer that is being read. Used again for the next one.
#[derive(Debug)]
pub(super) struct Answer {
    state: State,
    /// The head so far, where it came in several pieces.
    head: Vec<u8>,
    pub(super) status: u16,
    /// Bytes of the body so far, without their framing.
    pub(super) length: u64,
    /// Bytes on the wire so far.
    pub(super) bytes: u64,
    pub(super) coding: Coding,
    /// True if the server will close the connection after it.
    pub(super) closes: bool,
    /// The body, where it is kept.
    pub(super) body: Option<Vec<u8>>,
}

/// Content-Encoding, as far as the bench can undo it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Coding {
    Identity,
    Gzip,
    Br,
    Other,
}

impl Coding {
    pub(in super::super) fn name(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Gzip => "gzip",
            Self::Br => "br",
            Self::Other => "another",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// It goes on.
    More,
    /// It has ended; so many bytes of the piece belonged to it.
    Done { used: usize },
}

/// Why bytes are no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Malformed(pub(super) &'static str);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Head,
    Length { left: u64 },
    Chunks(Chunks),
    UntilClose,
}

impl Answer {
    pub(super) fn new() -> Self {
        Self {
            state: State::Head,
            head: Vec::new(),
            status: 0,
            length: 0,
            bytes: 0,
            coding: Coding::Identity,
            closes: false,
            body: None,
        }
    }

    /// Forgets the answer before; `is_kept`: the next one's body is.
    pub(super) fn reset(&mut self, is_kept: bool) {
        self.state = State::Head;
        self.head.clear();
        self.status = 0;
        self.length = 0;
        self.bytes = 0;
        self.closes = false;
        self.body = is_kept.then(Vec::new);
    }

    /// True if nothing of it has come.
    pub(super) fn is_untouched(&self) -> bool {
        self.bytes == 0
    }

    /// True if the end of the connection is the end of this answer.
    pub(super) fn ends_with_connection(&self) -> bool {
        self.state == State::UntilClose
    }

    /// Reads on.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Result<Step, Malformed> {
        let mut used = 0;
        while self.state == State::Head {
            let Some(count) = self.head(bytes.get(used..).unwrap_or_default())? else {
                self.bytes += bytes.len() as u64;
                return Ok(Step::More);
            };
            used += count;
        }
        let step = self.body(bytes.get(used..).unwrap_or_default(), used)?;
        self.bytes += match step {
            Step::More => bytes.len() as u64,
            Step::Done { used } => used as u64,
        };
        Ok(step)
    }

    /// How many bytes ended the head; `None`: it goes on.
    fn head(&mut self, bytes: &[u8]) -> Result<Option<usize>, Malformed> {
        if self.head.is_empty() {
            match parse(bytes)? {
                Some((count, head)) => {
                    self.begin(head);
                    return Ok(Some(count));
                }
                None => self.head.extend_from_slice(bytes),
            }
            return Ok(None);
        }
        let before = self.head.len();
        self.head.extend_from_slice(bytes);
        if self.head.len() > MOST_HEAD {
            return Err(Malformed("a head without end"));
        }
        match parse(&self.head)? {
            Some((count, head)) => {
                self.begin(head);
                self.head.clear();
                Ok(Some(count.saturating_sub(before)))
            }
            None => Ok(None),
        }
    }

    fn begin(&mut self, head: Head) {
        self.status = head.status;
        self.coding = head.coding;
        self.closes = head.closes;
        self.state = match head {
            // Interim: the answer itself follows.
            Head {
                status: 100..=199, ..
            } => State::Head,
            Head {
                status: 204 | 304, ..
            } => State::Length { left: 0 },
            Head {
                is_chunked: true, ..
            } => State::Chunks(Chunks::new()),
            Head {
                length: Some(left), ..
            } => State::Length { left },
            _ => {
                self.closes = true;
                State::UntilClose
            }
        };
    }

    fn body(&mut self, bytes: &[u8], before: usize) -> Result<Step, Malformed> {
        let (length, body) = (&mut self.length, &mut self.body);
        let mut take = |content: &[u8]| {
            *length += content.len() as u64;
            if let Some(body) = body {
                body.extend_from_slice(content);
            }
        };
        match &mut self.state {
            State::Head => Err(Malformed("a body before its head")),
            State::UntilClose => {
                take(bytes);
                Ok(Step::More)
            }
            State::Length { left } => {
                let count = usize::try_from(*left)
                    .unwrap_or(usize::MAX)
                    .min(bytes.len());
                take(bytes.get(..count).unwrap_or_default());
                *left -= count as u64;
                Ok(if *left == 0 {
                    Step::Done {
                        used: before + count,
                    }
                } else {
                    Step::More
                })
            }
            State::Chunks(chunks) => {
                let piece = chunks.feed(bytes, take)?;
                Ok(if piece.is_last {
                    Step::Done {
                        used: before + piece.used,
                    }
                } else {
                    Step::More
                })
            }
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Head {
    status: u16,
    length: Option<u64>,
    is_chunked: bool,
    closes: bool,
    coding: Coding,
}

/// The head at the beginning of `bytes` with its length; `None`: it is not whole.
fn parse(bytes: &[u8]) -> Result<Option<(usize, Head)>, Malformed> {
    let mut fields = [httparse::EMPTY_HEADER; MOST_FIELDS];
    let mut response = httparse::Response::new(&mut fields);
    let count = match response.parse(bytes) {
        Ok(httparse::Status::Complete(count)) => count,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(_) => return Err(Malformed("no head of an answer")),
    };
    let mut head = Head {
        status: response.code.unwrap_or(0),
        length: None,
        is_chunked: false,
        // HTTP/1.0 closes unless it says otherwise.
        closes: response.version == Some(0),
        coding: Coding::Identity,
    };
    for field in response.headers.iter() {
        let is = |name: &str| field.name.eq_ignore_ascii_case(name);
        let has = |word: &[u8]| {
            field
                .value
                .windows(word.len())
                .any(|part| part.eq_ignore_ascii_case(word))
        };
        // The length first: comparing it is cheap, and most names have another one.
        match field.name.len() {
            14 if is("content-length") => head.length = number(field.value),
            17 if is("transfer-encoding") => head.is_chunked = has(b"chunked"),
            10 if is("connection") => head.closes = has(b"close"),
            16 if is("content-encoding") => {
                head.coding = match field.value {
                    b"gzip" => Coding::Gzip,
                    b"br" => Coding::Br,
                    _ => Coding::Other,
                }
            }
            _ => {}
        }
    }
    Ok(Some((count, head)))
}

fn number(value: &[u8]) -> Option<u64> {
    std::str::from_utf8(value).ok()?.trim().parse().ok()
}

const MOST_FIELDS: usize = 64;
const MOST_HEAD: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn whole(text: &str) -> (Answer, Result<Step, Malformed>) {
        let mut answer = Answer::new();
        answer.reset(true);
        let step = answer.feed(text.as_bytes());
        (answer, step)
    }

    fn body(answer: &Answer) -> String {
        String::from_utf8_lossy(answer.body.as_deref().unwrap_or_default()).into_owned()
    }

    #[test]
    fn answers_of_every_framing_whole_and_byte_by_byte() {
        for (text, status, wanted, closes) in [
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
                200,
                "hello",
                false,
            ),
            (
                "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n",
                304,
                "",
                false,
            ),
            (
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nConnection: Close\r\n\r\n2\r\nhe\r\n0\r\n\r\n",
                200,
                "he",
                true,
            ),
            (
                "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
                404,
                "",
                false,
            ),
            (
                "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
                200,
                "ok",
                true,
            ),
            (
                "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok",
                200,
                "ok",
                false,
            ),
        ] {
            let (answer, step) = whole(text);
            assert_eq!(step, Ok(Step::Done { used: text.len() }), "{text}");
            assert_eq!(
                (answer.status, body(&answer).as_str(), answer.closes),
                (status, wanted, closes),
                "{text}"
            );
            assert_eq!(answer.bytes, text.len() as u64);
            let mut slow = Answer::new();
            slow.reset(true);
            let (last, most) = text.as_bytes().split_last().unwrap();
            for byte in most {
                assert_eq!(slow.feed(&[*byte]), Ok(Step::More), "{text}");
            }
            assert_eq!(slow.feed(&[*last]), Ok(Step::Done { used: 1 }), "{text}");
            assert_eq!(
                (slow.status, body(&slow).as_str()),
                (status, wanted),
                "{text}"
            );
        }
    }

    #[test]
    fn an_answer_that_ends_with_its_connection() {
        let (answer, step) = whole("HTTP/1.1 200 OK\r\nContent-Encoding: br\r\n\r\nwhat comes");
        assert_eq!(step, Ok(Step::More));
        assert!(answer.ends_with_connection() && answer.closes);
        assert_eq!(
            (body(&answer).as_str(), answer.coding),
            ("what comes", Coding::Br)
        );
    }

    #[test]
    fn what_follows_an_answer_is_not_part_of_it() {
        let (_, step) = whole("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxHTTP/1.1");
        assert_eq!(step, Ok(Step::Done { used: 39 }));
        assert!(whole("no answer at all\r\n\r\n").1.is_err());
    }

    proptest! {
        #[test]
        fn nothing_panics(
            head in "HTTP/1\\.[01] [0-9]{0,4} ?[A-Z]{0,3}\r\n((content-length|transfer-encoding|x): ?[0-9a-z-]{0,22}\r\n){0,3}\r\n",
            body in "[0-9a-f\r\n]{0,40}",
            cut in 0_usize..100,
        ) {
            let text = head + &body;
            let (first, second) = text.as_bytes().split_at(cut.min(text.len()));
            let mut answer = Answer::new();
            answer.reset(false);
            if answer.feed(first) == Ok(Step::More) {
                let _ = answer.feed(second);
            }
        }
    }
}
