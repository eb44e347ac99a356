//! The names of protocols in a handshake (ALPN, RFC 7301).

/// HTTP/2 (RFC 9113 section 3.2).
pub const H2: &[u8] = b"h2";

/// HTTP/3 (RFC 9114 section 3.1).
pub const H3: &[u8] = b"h3";

/// The protocol with which an authority validates a name (RFC 8737).
pub const ACME: &[u8] = b"acme-tls/1";
