//! The form of `http1.txt` and `http2.txt`, which say themselves what they look like.

use std::fmt::Write as _;

/// One case.
#[derive(Debug, Clone)]
pub struct Case {
    pub name: String,
    pub section: String,
    pub rfc: String,
    pub why: String,
    pub right: Verdict,
    /// As recorded; nothing before the first recording.
    pub nginx: Option<String>,
    /// Whether it is tried with PHP-FPM, too.
    pub with_php: bool,
    /// With `c000.test` as its host.
    pub bytes: Vec<u8>,
    /// The same as the file has it, line by line.
    pub lines: Vec<String>,
}

/// What is right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// For each answer the statuses that are right alike; in HTTP/2 also `reset` and `goaway`.
    pub statuses: Vec<Vec<String>>,
    pub fate: Fate,
    /// METHOD TARGET "BODY" of each, in order.
    pub seen: String,
}

/// What becomes of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// The next request on it is answered.
    Keep,
    /// It ends, and nothing that follows is answered.
    Close,
    /// More has to come.
    Waits,
    /// It lives on or ends; of what is right only.
    Any,
}

impl Fate {
    pub fn word(self) -> &'static str {
        match self {
            Self::Keep => "keep",
            Self::Close => "close",
            Self::Waits => "waits",
            Self::Any => "any",
        }
    }
}

/// The host that stands in the file.
const HOST: &str = "c000.test";

impl Case {
    /// The bytes, for the host of this number.
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

/// The host of the case of this number; as long as the one in the file.
pub fn host(number: usize) -> String {
    format!("c{:03}.test", number + 1)
}

/// All cases of the file.
///
/// # Panics
/// With the line that does not fit the form.
pub fn cases(text: &str) -> Vec<Case> {
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
                right: Verdict {
                    statuses: Vec::new(),
                    fate: Fate::Waits,
                    seen: String::new(),
                },
                nginx: None,
                with_php: true,
                bytes: Vec::new(),
                lines: Vec::new(),
            });
        } else if let Some(case) = cases.last_mut() {
            take(case, line);
        }
    }
    cases
}

fn take(case: &mut Case, line: &str) {
    if let Some(bytes) = line.strip_prefix('|') {
        case.bytes.extend(unescaped(bytes));
        case.lines.push(bytes.to_owned());
        return;
    }
    match line.split_once(": ") {
        Some(("rfc", text)) => text.clone_into(&mut case.rfc),
        Some(("why", text)) => text.clone_into(&mut case.why),
        Some(("right", text)) => case.right = verdict(text),
        Some(("nginx", text)) => case.nginx = Some(text.to_owned()),
        Some(("php", "no")) => case.with_php = false,
        _ => assert!(line.is_empty(), "{}: `{line}` is nothing known", case.name),
    }
}

fn verdict(text: &str) -> Verdict {
    let (answers, seen) = text.split_once(", ").unwrap_or((text, ""));
    let mut words: Vec<&str> = answers.split(' ').collect();
    let fate = match words.pop() {
        Some("keep") => Fate::Keep,
        Some("close") => Fate::Close,
        Some("waits") => Fate::Waits,
        Some("any") => Fate::Any,
        other => panic!("no fate of a connection: {other:?}"),
    };
    let statuses = words
        .iter()
        .map(|word| word.split('/').map(str::to_owned).collect())
        .collect();
    Verdict {
        statuses,
        fate,
        seen: seen.to_owned(),
    }
}

/// The file with other lines of nginx, for this version of it.
pub fn recorded(text: &str, version: &str, answers: &[String]) -> String {
    let mut answers = answers.iter();
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
        if line.starts_with("right: ") {
            let _ = writeln!(out, "nginx: {}", answers.next().unwrap());
        }
    }
    assert!(answers.next().is_none());
    out
}

/// The version that the answers of nginx were recorded with.
pub fn recorded_version(text: &str) -> &str {
    let mut lines = text.lines();
    lines
        .find_map(|line| line.strip_prefix("nginx-version: "))
        .unwrap()
}

/// The bytes in the letters of the file, on one line.
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

/// The bytes that letters of the file stand for.
pub fn unescaped(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        assert!(letter.is_ascii(), "`{text}` is to be in ASCII");
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
            other => panic!("`\\{}` is no known escape", char::from(other)),
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
fn letters_of_the_file_are_bytes() {
    assert_eq!(unescaped(r"a\r\n\t\0\\\xff\{x*3}b"), b"a\r\n\t\0\\\xffxxxb");
    assert_eq!(escaped(b"a\r\n\t\0\\\xff"), r"a\r\n\t\0\\\xff");
}
