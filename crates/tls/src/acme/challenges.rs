//! The automatic certificates and the current challenges, for front threads and the admin interface.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;

use super::state::{CertificateStatus, StatusFields};

/// The path prefix of HTTP-01 challenges (RFC 8555 section 8.3).
pub const CHALLENGES: &str = "/.well-known/acme-challenge/";

/// The automatic certificates and the current challenges. Outlives its keepers.
pub struct Acme {
    pub(super) tokens: Tokens,
    pub(super) certificates: Vec<Arc<CertificateStatus>>,
}

impl Acme {
    /// The response to an HTTP-01 challenge, if `path` is that of a current one.
    pub fn response(&self, path: &[u8]) -> Option<Bytes> {
        self.tokens.find(path.strip_prefix(CHALLENGES.as_bytes())?)
    }

    /// The state of each certificate of a site.
    pub fn of_site(&self, number: u32) -> impl Iterator<Item = StatusFields> {
        let all = self.certificates.iter();
        all.filter(move |one| one.wanted.number == number)
            .map(|one| one.state())
    }
}

/// The current HTTP-01 challenges. Written by orders; read by front threads only for paths of challenges. The lock is held for one
/// lookup.
#[derive(Default)]
pub(super) struct Tokens(RwLock<HashMap<Vec<u8>, Bytes>>);

impl Tokens {
    fn find(&self, token: &[u8]) -> Option<Bytes> {
        let tokens = self.0.read().unwrap_or_else(PoisonError::into_inner);
        tokens.get(token).cloned()
    }

    pub(super) fn put(&self, token: &str, response: String) {
        let mut tokens = self.0.write().unwrap_or_else(PoisonError::into_inner);
        tokens.insert(token.as_bytes().to_vec(), response.into());
    }

    pub(super) fn drop(&self, token: &str) {
        let mut tokens = self.0.write().unwrap_or_else(PoisonError::into_inner);
        tokens.remove(token.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_current_tokens_have_a_response() {
        let acme = Acme {
            tokens: Tokens::default(),
            certificates: Vec::new(),
        };
        acme.tokens.put("abc", "abc.thumb".to_owned());
        let response = |path: &str| acme.response(path.as_bytes());
        assert_eq!(
            response("/.well-known/acme-challenge/abc").as_deref(),
            Some(b"abc.thumb".as_slice())
        );
        for path in [
            "/.well-known/acme-challenge/",
            "/.well-known/acme-challenge/ab",
            "/.well-known/acme-challenge/abc/",
            "/.well-known/acme-challenge/abc?x",
            "/x/.well-known/acme-challenge/abc",
            "",
        ] {
            assert_eq!(response(path), None, "{path}");
        }
        acme.tokens.drop("abc");
        assert_eq!(response("/.well-known/acme-challenge/abc"), None);
    }
}
