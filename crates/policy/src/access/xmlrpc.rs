//! Which method an XML-RPC request calls, as far as that is needed to deny two of them.
//!
//! `system.multicall` tries hundreds of passwords in one request, and `pingback.ping` makes the site send requests to other
//! servers on behalf of anybody. WordPress uses the text of the last `methodName` element, wherever it is. So every one
//! must be plain text here, and none may be a denied one: anything that needs a parser to understand (references, comments,
//! instructions inside) is denied with them. No real client writes such a thing. It reads the body in pieces, keeps a
//! bounded part, and is total over any bytes.

use crate::request_info::RequestInfo;

/// Whether `xmlrpc.php` is asked, at any depth and with whatever follows it.
pub fn is_meant(info: &RequestInfo) -> bool {
    let mut segments = info.decoded_path().split(|&b| b == b'/');
    segments.any(|segment| segment.eq_ignore_ascii_case(b"xmlrpc.php"))
}

/// What a body calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Something that may be called.
    Fine,
    /// A method that is not served.
    Forbidden,
    /// Not XML-RPC as it is read here.
    Unreadable,
}

/// Reads a body.
#[derive(Debug, Default)]
pub struct XmlRpcScanner {
    /// Bytes that are not evaluated yet; at most [`MOST_KEPT`] between two pieces.
    kept: Vec<u8>,
    has_begun: bool,
    has_name: bool,
    call: Option<Call>,
}

impl XmlRpcScanner {
    /// Adds the next piece.
    pub fn push(&mut self, piece: &[u8]) {
        if self.call.is_some() {
            return;
        }
        self.kept.extend_from_slice(piece);
        if let Err(call) = self.read(false) {
            self.call = Some(call);
            self.kept = Vec::new();
        }
    }

    /// What all of it calls.
    pub fn finish(mut self) -> Call {
        if let Some(call) = self.call {
            return call;
        }
        match self.read(true) {
            Err(call) => call,
            Ok(()) if self.has_name => Call::Fine,
            Ok(()) => Call::Unreadable,
        }
    }

    fn read(&mut self, is_end: bool) -> Result<(), Call> {
        if !self.has_begun {
            if self.kept.len() < MOST_KEPT && !is_end {
                return Ok(());
            }
            begins_well(up_to(&self.kept, MOST_KEPT))?;
            self.has_begun = true;
        }
        // Bytes after a NUL are not examined: the verdict is the same however the body is split.
        let nul = memchr::memchr(0, &self.kept);
        let is_end = is_end || nul.is_some();
        self.kept.truncate(nul.unwrap_or(usize::MAX));
        let mut done = 0;
        while let Some(found) = self.next_name(done) {
            let rest = self.kept.get(found..).unwrap_or_default();
            let rest = up_to(rest, MOST_KEPT);
            match MethodNameState::read(rest) {
                MethodNameState::Other => done = found + NAME.len(),
                MethodNameState::Plain(name) if is_forbidden(name) => return Err(Call::Forbidden),
                MethodNameState::Plain(_) => {
                    self.has_name = true;
                    done = found + NAME.len();
                }
                MethodNameState::Partial if !is_end && rest.len() < MOST_KEPT => {
                    self.kept.drain(..found);
                    return Ok(());
                }
                MethodNameState::Partial | MethodNameState::Odd => return Err(Call::Unreadable),
            }
        }
        if nul.is_some() {
            return Err(Call::Unreadable);
        }
        // The beginning of a tag may be at the end.
        let keep = self.kept.len().saturating_sub(NAME.len() - 1).max(done);
        self.kept.drain(..keep.min(self.kept.len()));
        Ok(())
    }

    fn next_name(&self, from: usize) -> Option<usize> {
        let rest = self.kept.get(from..)?;
        memchr::memmem::find(rest, NAME).map(|at| from + at)
    }
}

/// WordPress takes one declaration out of the first hundred bytes, wherever there, and wants the call to follow: one that
/// stood elsewhere would hide a name from us.
fn begins_well(body: &[u8]) -> Result<(), Call> {
    let body = body.trim_ascii_start();
    let rest = match body.strip_prefix(b"<?xml") {
        Some(declaration) => {
            let end = memchr::memmem::find(declaration, b"?>").ok_or(Call::Unreadable)?;
            declaration.get(end + 2..).unwrap_or_default()
        }
        None => body,
    };
    let near = up_to(rest, SEARCHED);
    let is_call = rest.trim_ascii_start().starts_with(b"<methodCall");
    if is_call && memchr::memmem::find(near, b"<?").is_none() {
        Ok(())
    } else {
        Err(Call::Unreadable)
    }
}

fn up_to(bytes: &[u8], most: usize) -> &[u8] {
    bytes.get(..most).unwrap_or(bytes)
}

/// What begins with `<methodName`.
enum MethodNameState<'b> {
    /// An element whose name only begins so.
    Other,
    /// The text of the element.
    Plain(&'b [u8]),
    /// There is not enough of it.
    Partial,
    /// Nothing that a program writes.
    Odd,
}

impl<'b> MethodNameState<'b> {
    fn read(bytes: &'b [u8]) -> Self {
        let rest = bytes.get(NAME.len()..).unwrap_or_default();
        let Some(first) = rest.first() else {
            return Self::Partial;
        };
        if !(first.is_ascii_whitespace() || matches!(first, b'>' | b'/')) {
            return Self::Other;
        }
        let rest = rest.trim_ascii_start();
        let Some((open, rest)) = rest.split_first() else {
            return Self::Partial;
        };
        if *open != b'>' {
            return Self::Odd;
        }
        let Some(end) = memchr::memchr(b'<', rest) else {
            return Self::Partial;
        };
        let (text, tail) = rest.split_at(end);
        let text = text.trim_ascii();
        let is_plain = |byte: &u8| {
            byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-' | b':' | b'/')
        };
        if !text.iter().all(is_plain) {
            return Self::Odd;
        }
        if tail.len() < CLOSED.len() {
            return if CLOSED.starts_with(tail) {
                Self::Partial
            } else {
                Self::Odd
            };
        }
        if tail.starts_with(CLOSED) {
            Self::Plain(text)
        } else {
            Self::Odd
        }
    }
}

fn is_forbidden(name: &[u8]) -> bool {
    FORBIDDEN
        .iter()
        .any(|known| name.eq_ignore_ascii_case(known))
}

/// The response to a call that is not served: what a server says of a method that it does not have.
pub const FAULT: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<methodResponse>\n  <fault>\n    <value>\n      \
<struct>\n        <member>\n          <name>faultCode</name>\n          <value><int>-32601</int></value>\n        </member>\n        \
<member>\n          <name>faultString</name>\n          <value><string>server error. requested method is not available</string></value>\n        \
</member>\n      </struct>\n    </value>\n  </fault>\n</methodResponse>\n";

const FORBIDDEN: &[&[u8]] = &[b"system.multicall", b"pingback.ping"];

const NAME: &[u8] = b"<methodName";
const CLOSED: &[u8] = b"</methodName";

/// More than WordPress's hundred.
const SEARCHED: usize = 256;

/// Of a declaration and the beginning, or of one element: far more than either has.
const MOST_KEPT: usize = 1024;
