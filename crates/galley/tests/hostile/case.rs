//! Parses `http1.txt` and `http2.txt`, whose headers describe the format.

use std::fmt::Write as _;

#[derive(Debug, Clone)]
pub struct Case {
    pub name: String,
    pub section: String,
    pub rfc: String,
    pub why: String,
    pub expected: ExpectedResult,
    /// The recorded result of nginx; `None` before the first recording.
    pub nginx: Option<String>,
    /// Whether the case is also tested with PHP-FPM.
    pub with_php: bool,
    /// The stream, with `c000.test` as host.
    pub bytes: Vec<u8>,
    /// The lines of the stream as the file has them.
    pub lines: Vec<String>,
}

/// The expected result of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectedResult {
    /// The permitted statuses of each response; in HTTP/2 also `reset` and `goaway`.
    pub statuses: Vec<Vec<String>>,
    pub connection: ConnectionState,
    /// METHOD TARGET "BODY" of each request that the upstream receives, in order.
    pub received: String,
}

/// State of the connection after the case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionState {
    /// The next request on it gets a response.
    Open,
    /// The server closes it without a response to what follows.
    Closed,
    /// The server waits for more bytes.
    Waiting,
    /// Open or closed; only in expected results.
    Any,
}

impl ConnectionState {
    pub fn word(self) -> &'static str {
        match self {
            Self::Open => "keep",
            Self::Closed => "close",
            Self::Waiting => "waits",
            Self::Any => "any",
        }
    }
}

/// The host in the file.
const HOST: &str = "c000.test";

impl Case {
    /// The bytes, with the host of this case number.
    pub fn bytes_for(&self, number: usize) -> Vec<u8> {
        let host = host(number);
        let small = replaced(&self.bytes, HOST.as_bytes(), host.as_bytes());
        let large = host.to_ascii_uppercase();
        replaced(
            &small,
            HOST.to_ascii_uppercase().as_bytes(),
            large.as_bytes(),
        )
    }
}

/// The host for this case number, as long as the one in the file.
pub fn host(number: usize) -> String {
    format!("c{:03}.test", number + 1)
}

/// All cases of the file.
///
/// # Panics
/// If a line is invalid.
pub fn parse_cases(text: &str) -> Vec<Case> {
    let mut section = String::new();
    let mut cases: Vec<Case> = Vec::new();
    for line in text.lines() {
        if let Some(title) = line.strip_prefix("# ") {
            title.clone_into(&mut section);
        } else if let Some(name) = line.strip_prefix("== ") {
            cases.push(Case {
                name: name.to_owned(),
                section: section.clone(),
                rfc: String::new(),
                why: String::new(),
                expected: ExpectedResult {
                    statuses: Vec::new(),
                    connection: ConnectionState::Waiting,
                    received: String::new(),
                },
                nginx: None,
                with_php: true,
                bytes: Vec::new(),
                lines: Vec::new(),
            });
        } else if let Some(case) = cases.last_mut() {
            parse_line(case, line);
        }
    }
    cases
}

fn parse_line(case: &mut Case, line: &str) {
    if let Some(bytes) = line.strip_prefix('|') {
        case.bytes.extend(unescaped(bytes));
        case.lines.push(bytes.to_owned());
        return;
    }
    match line.split_once(": ") {
        Some(("rfc", text)) => text.clone_into(&mut case.rfc),
        Some(("why", text)) => text.clone_into(&mut case.why),
        Some(("expected", text)) => case.expected = parse_result(text),
        Some(("nginx", text)) => case.nginx = Some(text.to_owned()),
        Some(("php", "no")) => case.with_php = false,
        _ => assert!(
            line.is_empty(),
            "{}: `{line}` is not a known line",
            case.name
        ),
    }
}

/// The result that this text stands for.
pub fn parse_result(text: &str) -> ExpectedResult {
    let (responses, received) = text.split_once(", ").unwrap_or((text, ""));
    let mut words: Vec<&str> = responses.split(' ').collect();
    let connection = match words.pop() {
        Some("keep") => ConnectionState::Open,
        Some("close") => ConnectionState::Closed,
        Some("waits") => ConnectionState::Waiting,
        Some("any") => ConnectionState::Any,
        other => panic!("unknown state of a connection: {other:?}"),
    };
    let statuses = words
        .iter()
        .map(|word| word.split('/').map(str::to_owned).collect())
        .collect();
    ExpectedResult {
        statuses,
        connection,
        received: received.to_owned(),
    }
}

/// The file with new results of nginx, recorded with this version.
pub fn with_nginx_results(text: &str, version: &str, results: &[String]) -> String {
    let mut results = results.iter();
    let mut out = String::new();
    for line in text.lines() {
        if line.starts_with("nginx: ") {
            continue;
        }
        if line.starts_with("nginx-version: ") {
            let _ = writeln!(out, "nginx-version: {version}");
            continue;
        }
        out.push_str(line);
        out.push('\n');
        if line.starts_with("expected: ") {
            let _ = writeln!(out, "nginx: {}", results.next().unwrap());
        }
    }
    assert!(results.next().is_none());
    out
}

/// The nginx version of the recorded results.
pub fn recorded_nginx_version(text: &str) -> &str {
    let mut lines = text.lines();
    lines
        .find_map(|line| line.strip_prefix("nginx-version: "))
        .unwrap()
}

/// The bytes with the escapes of the file, on one line.
pub fn escaped(bytes: &[u8]) -> String {
    let mut out = String::new();
    for byte in bytes {
        match byte {
            b'\r' => out.push_str("\\r"),
            b'\n' => out.push_str("\\n"),
            b'\t' => out.push_str("\\t"),
            0 => out.push_str("\\0"),
            b'\\' => out.push_str("\\\\"),
            b' '..=b'~' => out.push(char::from(*byte)),
            _ => {
                let _ = write!(out, "\\x{byte:02x}");
            }
        }
    }
    out
}

/// The bytes that escaped text of the file stands for.
pub fn unescaped(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        assert!(letter.is_ascii(), "`{text}` is not ASCII");
        let Some(code) = rest.strip_prefix('\\') else {
            out.extend_from_slice(letter.to_string().as_bytes());
            rest = &rest[1..];
            continue;
        };
        let taken = match code.as_bytes()[0] {
            b'r' => push(&mut out, b'\r'),
            b'n' => push(&mut out, b'\n'),
            b't' => push(&mut out, b'\t'),
            b'0' => push(&mut out, 0),
            b'\\' => push(&mut out, b'\\'),
            b'x' => {
                out.push(u8::from_str_radix(&code[1..3], 16).unwrap());
                3
            }
            b'{' => {
                let end = code.find('}').unwrap();
                let (letter, count) = code[1..end].split_once('*').unwrap();
                out.extend_from_slice(letter.repeat(count.parse().unwrap()).as_bytes());
                end + 1
            }
            other => panic!("`\\{}` is not a known escape", char::from(other)),
        };
        rest = &code[taken..];
    }
    out
}

fn push(out: &mut Vec<u8>, byte: u8) -> usize {
    out.push(byte);
    1
}

fn replaced(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut out = bytes.to_vec();
    for at in 0..bytes.len() {
        if bytes[at..].starts_with(from) {
            out[at..at + from.len()].copy_from_slice(to);
        }
    }
    out
}

#[test]
fn escapes_of_the_file_stand_for_bytes() {
    assert_eq!(unescaped(r"a\r\n\t\0\\\xff\{x*3}b"), b"a\r\n\t\0\\\xffxxxb");
    assert_eq!(escaped(b"a\r\n\t\0\\\xff"), r"a\r\n\t\0\\\xff");
}
