//! Finds the method that an XML-RPC request calls, as far as that is needed to deny two of them.
//!
//! `system.multicall` tries hundreds of passwords in one request, and `pingback.ping` makes the site send requests to other
//! servers on behalf of any client. WordPress uses the text of the last `methodName` element, wherever it is. So each of
//! these elements must contain plain text, and none may name a denied method. Anything that needs a parser to understand
//! (references, comments, processing instructions inside) is denied; no real client writes it. The scanner reads the body in
//! pieces, buffers a limited part, and accepts any bytes.

use crate::request_info::RequestInfo;

/// Whether the path contains `xmlrpc.php`, at any depth and with any suffix.
pub fn is_meant(info: &RequestInfo) -> bool {
    let mut segments = info.decoded_path().split(|&b| b == b'/');
    segments.any(|segment| segment.eq_ignore_ascii_case(b"xmlrpc.php"))
}

/// The call in a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// The methods that it names are allowed.
    Fine,
    /// It names a denied method.
    Forbidden,
    /// The body is not XML-RPC in the accepted form.
    Unreadable,
}

/// Scans a body in pieces.
#[derive(Debug, Default)]
pub struct XmlRpcScanner {
    /// Bytes that are not evaluated yet; at most [`MAX_BUFFERED`] between two pieces.
    buffered: Vec<u8>,
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
        self.buffered.extend_from_slice(piece);
        if let Err(call) = self.read(false) {
            self.call = Some(call);
            self.buffered = Vec::new();
        }
    }

    /// The result for the whole body.
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
            if self.buffered.len() < MAX_BUFFERED && !is_end {
                return Ok(());
            }
            check_beginning(up_to(&self.buffered, MAX_BUFFERED))?;
            self.has_begun = true;
        }
        // Bytes after a NUL are not examined: the result does not depend on how the body is split.
        let nul = memchr::memchr(0, &self.buffered);
        let is_end = is_end || nul.is_some();
        self.buffered.truncate(nul.unwrap_or(usize::MAX));
        let mut done = 0;
        while let Some(found) = self.next_name(done) {
            let rest = self.buffered.get(found..).unwrap_or_default();
            let rest = up_to(rest, MAX_BUFFERED);
            match MethodNameState::read(rest) {
                MethodNameState::Other => done = found + NAME.len(),
                MethodNameState::Plain(name) if is_denied(name) => return Err(Call::Forbidden),
                MethodNameState::Plain(_) => {
                    self.has_name = true;
                    done = found + NAME.len();
                }
                MethodNameState::Partial if !is_end && rest.len() < MAX_BUFFERED => {
                    self.buffered.drain(..found);
                    return Ok(());
                }
                MethodNameState::Partial | MethodNameState::Odd => return Err(Call::Unreadable),
            }
        }
        if nul.is_some() {
            return Err(Call::Unreadable);
        }
        // The end may contain the beginning of a tag.
        let keep = self.buffered.len().saturating_sub(NAME.len() - 1).max(done);
        self.buffered.drain(..keep.min(self.buffered.len()));
        Ok(())
    }

    fn next_name(&self, from: usize) -> Option<usize> {
        let rest = self.buffered.get(from..)?;
        memchr::memmem::find(rest, NAME).map(|at| from + at)
    }
}

/// Checks the beginning of a body. WordPress removes one declaration from the first hundred bytes, at any position, and expects
/// the call after it. A declaration elsewhere could hide a name from this scanner.
fn check_beginning(body: &[u8]) -> Result<(), Call> {
    let body = body.trim_ascii_start();
    let rest = match body.strip_prefix(b"<?xml") {
        Some(declaration) => {
            let end = memchr::memmem::find(declaration, b"?>").ok_or(Call::Unreadable)?;
            declaration.get(end + 2..).unwrap_or_default()
        }
        None => body,
    };
    let near = up_to(rest, DECLARATION_RANGE);
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

/// An element that begins with `<methodName`.
enum MethodNameState<'b> {
    /// Another element: its name is longer.
    Other,
    /// The text of the element.
    Plain(&'b [u8]),
    /// It is incomplete.
    Partial,
    /// It has a form that no client writes.
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
        if tail.len() < END_TAG.len() {
            return if END_TAG.starts_with(tail) {
                Self::Partial
            } else {
                Self::Odd
            };
        }
        if tail.starts_with(END_TAG) {
            Self::Plain(text)
        } else {
            Self::Odd
        }
    }
}

fn is_denied(name: &[u8]) -> bool {
    DENIED.iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// The response to a denied call: a server's response for a method that it does not have.
pub const FAULT: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<methodResponse>\n  <fault>\n    <value>\n      \
<struct>\n        <member>\n          <name>faultCode</name>\n          <value><int>-32601</int></value>\n        </member>\n        \
<member>\n          <name>faultString</name>\n          <value><string>server error. requested method is not available</string></value>\n        \
</member>\n      </struct>\n    </value>\n  </fault>\n</methodResponse>\n";

const DENIED: &[&[u8]] = &[b"system.multicall", b"pingback.ping"];

const NAME: &[u8] = b"<methodName";
const END_TAG: &[u8] = b"</methodName";

/// The bytes in which no second declaration may begin. More than WordPress's hundred.
const DECLARATION_RANGE: usize = 256;

/// The maximum size of the declaration and the beginning, or of one element, in bytes: far more than either needs.
const MAX_BUFFERED: usize = 1024;
