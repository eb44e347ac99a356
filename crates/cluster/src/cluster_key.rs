//! The cluster's key. A value that is signed with it was written by a node, and not by another client of the engine. Only nodes
//! can decrypt a secret that is encrypted with it.

use std::path::Path;

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use aws_lc_rs::{hkdf, hmac};

use crate::error::EngineError;

/// Keys derived from the secret that all nodes have.
pub(crate) struct ClusterKey {
    pages: hmac::Key,
    purges: hmac::Key,
    secrets: RandomizedNonceKey,
}

/// The name of a page for all nodes.
#[derive(Clone, Copy, Debug)]
pub struct PageName<'p> {
    /// The name of the site, as in purges.
    pub site: &'p str,
    /// The cache key of the page.
    pub key: &'p [u8],
}

impl ClusterKey {
    /// Reads the secret from a file.
    pub(crate) fn read(path: &Path, cluster: &str) -> Result<Self, EngineError> {
        let secret = read_secret(path)?;
        Self::derive(&secret, cluster).ok_or_else(|| unusable(path, "no key can be derived"))
    }

    /// Derives the keys (RFC 5869), with the cluster's name as salt.
    pub(crate) fn derive(secret: &[u8], cluster: &str) -> Option<Self> {
        let salt = hkdf::Salt::new(hkdf::HKDF_SHA256, cluster.as_bytes());
        let derived = salt.extract(secret);
        let pages = derived.expand(&[b"galley pages"], hmac::HMAC_SHA256).ok()?;
        let purges = derived
            .expand(&[b"galley purges"], hmac::HMAC_SHA256)
            .ok()?;
        let secrets = expand(&derived, b"galley secrets")?;
        Some(Self {
            pages: hmac::Key::from(pages),
            purges: hmac::Key::from(purges),
            secrets: RandomizedNonceKey::new(&AES_256_GCM, &secrets).ok()?,
        })
    }

    /// The name of a page in the engine, which does not reveal its address.
    pub(crate) fn name_of(&self, page: PageName<'_>) -> String {
        let digest = self.sign(NAME, page, &[]);
        let half = digest.as_ref().first_chunk().copied().unwrap_or_default();
        format!("{:032x}", u128::from_be_bytes(half))
    }

    /// Appends a MAC of the page's name and the value: [`MAC`] bytes.
    pub(crate) fn seal(&self, page: PageName<'_>, value: &mut Vec<u8>) {
        let tag = self.sign(VALUE, page, value);
        value.extend_from_slice(tag.as_ref());
    }

    /// The value without its MAC; `None`: no node has stored it under this name.
    pub(crate) fn open<'v>(&self, page: PageName<'_>, sealed: &'v [u8]) -> Option<&'v [u8]> {
        let (value, mac) = sealed.split_last_chunk::<MAC>()?;
        let tag = self.sign(VALUE, page, value);
        aws_lc_rs::constant_time::verify_slices_are_equal(tag.as_ref(), mac).ok()?;
        Some(value)
    }

    /// The MAC of parts that concern the order of purges. The context is the first part.
    pub(crate) fn sign_purge<'p>(&self, parts: impl Iterator<Item = &'p [u8]>) -> [u8; MAC] {
        let mut context = hmac::Context::with_key(&self.purges);
        for part in parts {
            update(&mut context, part);
        }
        let tag = context.sign();
        tag.as_ref().first_chunk().copied().unwrap_or_default()
    }

    /// Whether a node has made this MAC of these parts.
    pub(crate) fn is_purge_signed<'p>(
        &self,
        parts: impl Iterator<Item = &'p [u8]>,
        mac: &[u8; MAC],
    ) -> bool {
        let expected = self.sign_purge(parts);
        aws_lc_rs::constant_time::verify_slices_are_equal(&expected, mac).is_ok()
    }

    /// Encrypts and authenticates a secret, and authenticates `context` with it. Returns nonce, ciphertext and tag.
    pub(crate) fn encrypt(&self, context: &[u8], secret: &[u8]) -> Option<Vec<u8>> {
        let mut text = secret.to_vec();
        let nonce = self
            .secrets
            .seal_in_place_append_tag(Aad::from(context), &mut text);
        let mut sealed = nonce.ok()?.as_ref().to_vec();
        sealed.append(&mut text);
        Some(sealed)
    }

    /// The decrypted secret; `None`: no node has encrypted it with this context.
    pub(crate) fn decrypt(&self, context: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
        let (nonce, text) = sealed.split_first_chunk::<NONCE_LEN>()?;
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let mut text = text.to_vec();
        let secret = self
            .secrets
            .open_in_place(nonce, Aad::from(context), &mut text);
        let length = secret.ok()?.len();
        text.truncate(length);
        Some(text)
    }

    fn sign(&self, purpose: u8, page: PageName<'_>, value: &[u8]) -> hmac::Tag {
        let mut context = hmac::Context::with_key(&self.pages);
        context.update(&[purpose]);
        for part in [page.site.as_bytes(), page.key] {
            update(&mut context, part);
        }
        context.update(value);
        context.sign()
    }
}

/// The secret for QUIC of all nodes of a cluster, derived from the one in a file.
///
/// # Errors
/// The file cannot be used.
pub fn quic_secret(path: &Path, cluster: &str) -> Result<[u8; SECRETS_KEY], EngineError> {
    let salt = hkdf::Salt::new(hkdf::HKDF_SHA256, cluster.as_bytes());
    let derived = salt.extract(&read_secret(path)?);
    expand(&derived, b"galley quic").ok_or_else(|| unusable(path, "no key can be derived"))
}

fn expand(derived: &hkdf::Prk, purpose: &[u8]) -> Option<[u8; SECRETS_KEY]> {
    let mut bytes = [0; SECRETS_KEY];
    let purpose = [purpose];
    let expanded = derived.expand(&purpose, SecretsKeyLength).ok()?;
    expanded.fill(&mut bytes).ok()?;
    Some(bytes)
}

fn read_secret(path: &Path) -> Result<Vec<u8>, EngineError> {
    let secret = std::fs::read(path).map_err(|cause| unusable(path, &cause.to_string()))?;
    let secret = secret.trim_ascii();
    if secret.len() < MIN_SECRET {
        let why = format!("it has less than {MIN_SECRET} bytes");
        return Err(unusable(path, &why));
    }
    Ok(secret.to_vec())
}

fn unusable(path: &Path, why: &str) -> EngineError {
    EngineError::Key {
        path: path.to_owned(),
        why: why.to_owned(),
    }
}

/// Includes the length, so that no two names have the same signature.
fn update(context: &mut hmac::Context, part: &[u8]) {
    let length = u64::try_from(part.len()).unwrap_or(u64::MAX);
    context.update(&length.to_le_bytes());
    context.update(part);
}

/// The length of the key for secrets.
struct SecretsKeyLength;

impl hkdf::KeyType for SecretsKeyLength {
    fn len(&self) -> usize {
        SECRETS_KEY
    }
}

const SECRETS_KEY: usize = 32;

/// The length of a MAC in bytes (HMAC-SHA-256).
pub(crate) const MAC: usize = 32;

/// The minimum length of the secret in bytes: 128 bits in hexadecimal.
pub(crate) const MIN_SECRET: usize = 32;

const NAME: u8 = 1;
const VALUE: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    fn key(secret: &[u8], cluster: &str) -> ClusterKey {
        ClusterKey::derive(secret, cluster).unwrap()
    }

    const PAGE: PageName<'_> = PageName {
        site: "a.test",
        key: b"/page",
    };

    #[test]
    fn a_value_is_accepted_only_from_a_node_and_under_its_name() {
        let secret = [7; 32];
        let ours = key(&secret, "one");
        let mut sealed = b"value".to_vec();
        ours.seal(PAGE, &mut sealed);
        assert_eq!(key(&secret, "one").open(PAGE, &sealed), Some(&b"value"[..]));
        for other in [
            PageName {
                key: b"/other",
                ..PAGE
            },
            PageName {
                site: "b.test",
                ..PAGE
            },
            PageName {
                site: "a.test/",
                key: b"page",
            },
        ] {
            assert_eq!(ours.open(other, &sealed), None, "{other:?}");
            assert_ne!(ours.name_of(PAGE), ours.name_of(other));
        }
        assert_eq!(key(&secret, "two").open(PAGE, &sealed), None);
        assert_eq!(key(&[8; 32], "one").open(PAGE, &sealed), None);
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert_eq!(ours.open(PAGE, &changed), None, "{at}");
        }
        for length in 0..sealed.len() {
            assert_eq!(ours.open(PAGE, &sealed[..length]), None);
        }
        assert_eq!(ours.name_of(PAGE).len(), 32);
    }

    #[test]
    fn a_short_secret_is_rejected() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("key");
        assert!(ClusterKey::read(&file, "one").is_err());
        std::fs::write(&file, " 0123456789abcdef0123456789abcde\n").unwrap();
        assert!(ClusterKey::read(&file, "one").is_err());
        std::fs::write(&file, "0123456789abcdef0123456789abcdef\n").unwrap();
        assert!(ClusterKey::read(&file, "one").is_ok());
    }
}
