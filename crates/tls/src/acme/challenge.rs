//! A challenge that Galley answers itself, on this node and on the others of its cluster.

use std::fmt::Write as _;
use std::sync::Arc;

use rustls::sign::CertifiedKey;

use super::Acme;
use super::certificate::{self, SHA256_BYTES};
use super::problem::OrderError;
use crate::Certificates;

/// The request of an authority, and the data for the response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Challenge {
    /// HTTP-01: a token, and the key authorization that the response contains (RFC 8555 section 8.3).
    Http { token: String, response: String },
    /// TLS-ALPN-01: a name, and the digest in the certificate of the handshake (RFC 8737 section 3).
    Handshake {
        name: String,
        digest: [u8; SHA256_BYTES],
    },
}

impl Challenge {
    /// Serves the response until the returned value is dropped.
    pub(super) fn post(
        &self,
        acme: &Arc<Acme>,
        handshakes: &Arc<Certificates>,
    ) -> Result<PostedChallenge, OrderError> {
        let key = match self {
            Self::Http { token, response } => {
                acme.tokens.put(token, response.clone());
                None
            }
            Self::Handshake { name, digest } => {
                let key = certificate::challenge(name, digest)?;
                handshakes.put_challenge(name, Arc::clone(&key));
                Some(key)
            }
        };
        Ok(PostedChallenge {
            challenge: self.clone(),
            acme: Arc::clone(acme),
            handshakes: Arc::clone(handshakes),
            key,
        })
    }

    /// The form in which other nodes receive the challenge: three lines.
    pub(super) fn write(&self) -> Vec<u8> {
        let text = match self {
            Self::Http { token, response } => format!("{HTTP}\n{token}\n{response}"),
            Self::Handshake { name, digest } => {
                let mut text = format!("{HANDSHAKE}\n{name}\n");
                for byte in digest {
                    let _ = write!(text, "{byte:02x}");
                }
                text
            }
        };
        text.into_bytes()
    }

    /// Reads that form. `None`: the text has another format, possibly of another version.
    pub(super) fn read(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        let (kind, rest) = text.split_once('\n')?;
        let (subject, response) = rest.split_once('\n')?;
        match kind {
            HTTP => is_response(subject, response).then(|| Self::Http {
                token: subject.to_owned(),
                response: response.to_owned(),
            }),
            HANDSHAKE => Some(Self::Handshake {
                name: subject.to_owned(),
                digest: digest(response)?,
            }),
            _ => None,
        }
    }
}

/// Checks a key authorization: the token, a dot and a thumbprint, all base64url (RFC 8555 section 8.1).
fn is_response(token: &str, response: &str) -> bool {
    let is_word = |text: &str| {
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        !text.is_empty() && text.bytes().all(is_letter)
    };
    let thumbprint = response
        .strip_prefix(token)
        .and_then(|rest| rest.strip_prefix('.'));
    is_word(token) && thumbprint.is_some_and(is_word)
}

fn digest(hex: &str) -> Option<[u8; SHA256_BYTES]> {
    if hex.len() != 2 * SHA256_BYTES || !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let mut digest = [0; SHA256_BYTES];
    for (at, byte) in digest.iter_mut().enumerate() {
        *byte = u8::from_str_radix(hex.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(digest)
}

/// A challenge whose response is served until this value is dropped.
pub(super) struct PostedChallenge {
    pub(super) challenge: Challenge,
    acme: Arc<Acme>,
    handshakes: Arc<Certificates>,
    /// The certificate for handshakes.
    key: Option<Arc<CertifiedKey>>,
}

impl Drop for PostedChallenge {
    fn drop(&mut self) {
        match (&self.challenge, &self.key) {
            (Challenge::Http { token, .. }, _) => self.acme.tokens.drop(token),
            (Challenge::Handshake { name, .. }, Some(key)) => {
                self.handshakes.drop_challenge(name, key);
            }
            (Challenge::Handshake { .. }, None) => {}
        }
    }
}

const HTTP: &str = "http-01";
const HANDSHAKE: &str = "tls-alpn-01";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn challenges_survive_writing_and_reading() {
        let http = Challenge::Http {
            token: "a-B_1".to_owned(),
            response: "a-B_1.x9".to_owned(),
        };
        let mut digest = [0xab; SHA256_BYTES];
        digest[0] = 1;
        let handshake = Challenge::Handshake {
            name: "a.test".to_owned(),
            digest,
        };
        for one in [http, handshake] {
            assert_eq!(Challenge::read(&one.write()), Some(one));
        }
        let hex = "0".repeat(2 * SHA256_BYTES);
        for text in [
            "",
            "http-01",
            "http-01\na",
            "http-01\na\nb.c",
            "http-01\n\n.c",
            "http-01\na/b\na/b.c",
            "http-01\na\na.",
            "http-01\na\na.c\nd",
            "tls-alpn-01\na.test\n00",
            &format!("tls-alpn-01\na.test\n{}+1", &hex[2..]),
            &format!("dns-01\na.test\n{hex}"),
        ] {
            assert_eq!(Challenge::read(text.as_bytes()), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes: Vec<u8>, text: String) {
            let _ = Challenge::read(&bytes);
            let _ = Challenge::read(format!("tls-alpn-01\n{text}\n{text}").as_bytes());
        }
    }
}
