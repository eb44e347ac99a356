//! The header of the PROXY protocol, versions 1 and 2, in which a proxy in front of Galley names the client.
//!
//! It precedes everything else on a connection, also TLS, and is read from the socket exactly to its end: [`read`] returns
//! how many more bytes certainly belong to it, so bytes after the header are never consumed. Strict: anything but exactly one
//! header ends the connection. Bytes after the addresses (TLVs) are consumed and ignored. The caller decides whether the
//! sender is trusted.
//!
//! Source: `proxy-protocol.txt` of `HAProxy` (2020/03/05).
//!
//! ```text
//! 1:  PROXY TCP4 192.0.2.1 198.51.100.2 56324 443 CR LF      at most 107 bytes
//!
//! 2:  0  signature    0D 0A 0D 0A 00 0D 0A 51 55 49 54 0A
//!     12 version, command      0x20 LOCAL, 0x21 PROXY
//!     13 family, transport     0x00 none, 0x11 TCP over IPv4, 0x21 over IPv6, 0x31 unix
//!     14 length of the rest    big endian
//!     16 source, destination, ports; then TLVs
//! ```

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The result of reading the bytes received so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyHeaderStep {
    /// At least this many more bytes belong to the header; never 0.
    More(usize),
    /// The header is complete.
    Whole(ProxySource),
}

/// The client that the proxy reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxySource {
    /// No client: the proxy's own connection (`LOCAL`, such as a health check), or addresses that do not apply here.
    Itself,
    /// A client.
    Client {
        /// The client's address.
        source: SocketAddr,
        /// The address to which the client connected.
        destination: SocketAddr,
    },
}

/// The bytes are not a header of the PROXY protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no header of the PROXY protocol")]
pub struct Malformed;

/// Reads the received part of a header, from its first byte.
///
/// Cost: one pass over at most 107 bytes (version 1) or 16 bytes (version 2). Allocates nothing.
pub fn read(received: &[u8]) -> Result<ProxyHeaderStep, Malformed> {
    match received.first() {
        None => Ok(ProxyHeaderStep::More(MIN_LINE)),
        Some(b'P') => version_1(received),
        Some(_) => version_2(received),
    }
}

fn version_1(received: &[u8]) -> Result<ProxyHeaderStep, Malformed> {
    let compared = received.len().min(PROXY.len());
    if received.get(..compared) != PROXY.get(..compared) || received.len() > MAX_LINE {
        return Err(Malformed);
    }
    if let Some(end) = memchr::memchr(b'\n', received) {
        let line = received
            .get(..end)
            .and_then(|line| line.strip_suffix(b"\r"));
        // Bytes after the line were not requested.
        let is_all = end + 1 == received.len();
        let line = line.filter(|_| is_all).ok_or(Malformed)?;
        let line = std::str::from_utf8(line).map_err(|_| Malformed)?;
        return line_1(line).map(ProxyHeaderStep::Whole);
    }
    let missing = missing_bytes(received);
    if received.len() + missing > MAX_LINE {
        return Err(Malformed);
    }
    Ok(ProxyHeaderStep::More(missing))
}

/// The minimum number of bytes that complete a version 1 line beginning with `received`.
fn missing_bytes(received: &[u8]) -> usize {
    if received.len() < MIN_LINE {
        return MIN_LINE - received.len();
    }
    if received.ends_with(b"\r") {
        return 1;
    }
    if received.starts_with(UNKNOWN) {
        return 2;
    }
    // The rest of ` :: 1 1\r\n` after the spaces received so far.
    match memchr::memchr_iter(b' ', received).count() {
        0..=2 => 9,
        3 => 6,
        4 => 4,
        _ => 2,
    }
}

/// Reads a line of version 1, without its line end.
fn line_1(line: &str) -> Result<ProxySource, Malformed> {
    let mut words = line.split(' ');
    let (Some("PROXY"), Some(family)) = (words.next(), words.next()) else {
        return Err(Malformed);
    };
    if family == "UNKNOWN" {
        // The rest of the line is to be ignored (section 2.1).
        return Ok(ProxySource::Itself);
    }
    let mut address = || -> Result<IpAddr, Malformed> {
        let word = words.next().ok_or(Malformed)?;
        match family {
            "TCP4" => word.parse().map(IpAddr::V4).map_err(|_| Malformed),
            "TCP6" => word.parse().map(IpAddr::V6).map_err(|_| Malformed),
            _ => Err(Malformed),
        }
    };
    let (source, destination) = (address()?, address()?);
    let mut port = || port(words.next().ok_or(Malformed)?);
    let (source_port, destination_port) = (port()?, port()?);
    if words.next().is_some() {
        return Err(Malformed);
    }
    client(
        SocketAddr::new(source, source_port),
        SocketAddr::new(destination, destination_port),
    )
}

/// Parses a decimal number without leading zeros.
fn port(word: &str) -> Result<u16, Malformed> {
    let is_plain = word.bytes().all(|byte| byte.is_ascii_digit()) && !word.starts_with('0');
    word.parse()
        .ok()
        .filter(|_| is_plain || word == "0")
        .ok_or(Malformed)
}

fn version_2(received: &[u8]) -> Result<ProxyHeaderStep, Malformed> {
    let compared = received.len().min(SIGNATURE.len());
    if received.get(..compared) != SIGNATURE.get(..compared) {
        return Err(Malformed);
    }
    let Some((head, rest)) = received.split_first_chunk::<HEAD_2>() else {
        return Ok(ProxyHeaderStep::More(HEAD_2 - received.len()));
    };
    let [.., command, family, high, low] = *head;
    let length = usize::from(u16::from_be_bytes([high, low]));
    if length > MAX_AFTER_HEAD {
        return Err(Malformed);
    }
    match length.checked_sub(rest.len()) {
        None => return Err(Malformed),
        Some(0) => {}
        Some(missing) => return Ok(ProxyHeaderStep::More(missing)),
    }
    source_2(command, family, rest).map(ProxyHeaderStep::Whole)
}

/// The client of a version 2 header. `rest` is the header after the fixed part.
fn source_2(command: u8, family: u8, rest: &[u8]) -> Result<ProxySource, Malformed> {
    match (command, family) {
        (LOCAL, _) | (PROXY_COMMAND, 0x00) => Ok(ProxySource::Itself),
        (PROXY_COMMAND, 0x11) => addresses::<4>(rest),
        (PROXY_COMMAND, 0x21) => addresses::<16>(rest),
        (PROXY_COMMAND, 0x31) if rest.len() >= UNIX_ADDRESSES => Ok(ProxySource::Itself),
        _ => Err(Malformed),
    }
}

/// Reads two addresses of `N` bytes and two ports; TLVs may follow.
fn addresses<const N: usize>(rest: &[u8]) -> Result<ProxySource, Malformed>
where
    ProxyAddress<N>: Into<IpAddr>,
{
    let (source, rest) = rest.split_first_chunk::<N>().ok_or(Malformed)?;
    let (destination, rest) = rest.split_first_chunk::<N>().ok_or(Malformed)?;
    let (source_port, rest) = rest.split_first_chunk().ok_or(Malformed)?;
    let (destination_port, _) = rest.split_first_chunk().ok_or(Malformed)?;
    let ip = |address: &[u8; N]| ProxyAddress(*address).into();
    let port = |bytes: &[u8; 2]| u16::from_be_bytes(*bytes);
    client(
        SocketAddr::new(ip(source), port(source_port)),
        SocketAddr::new(ip(destination), port(destination_port)),
    )
}

struct ProxyAddress<const N: usize>([u8; N]);

impl From<ProxyAddress<4>> for IpAddr {
    fn from(address: ProxyAddress<4>) -> Self {
        Self::V4(Ipv4Addr::from(address.0))
    }
}

impl From<ProxyAddress<16>> for IpAddr {
    fn from(address: ProxyAddress<16>) -> Self {
        Self::V6(Ipv6Addr::from(address.0))
    }
}

/// Rejects an unspecified address, which no client has.
fn client(source: SocketAddr, destination: SocketAddr) -> Result<ProxySource, Malformed> {
    let canonical =
        |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
    let source = canonical(source);
    if source.ip().is_unspecified() {
        return Err(Malformed);
    }
    Ok(ProxySource::Client {
        source,
        destination: canonical(destination),
    })
}

const PROXY: &[u8] = b"PROXY ";
const UNKNOWN: &[u8] = b"PROXY UNKNOWN";
/// The size of `PROXY UNKNOWN` with its line end; a version 2 header has at least one byte more.
const MIN_LINE: usize = 15;
/// The maximum length of a version 1 line (section 2.1).
const MAX_LINE: usize = 107;

const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
const HEAD_2: usize = 16;
const LOCAL: u8 = 0x20;
const PROXY_COMMAND: u8 = 0x21;
/// Two paths of 108 bytes each.
const UNIX_ADDRESSES: usize = 216;
/// Addresses need at most 216 bytes, TLVs of load balancers some hundred; a client certificate needs a few thousand.
const MAX_AFTER_HEAD: usize = 8 * 1024;
