//! Verifies passwords, and remembers successes for a minute.
//!
//! A comparison takes up to seconds of processor time (bcrypt), so it runs on a helper thread, few at a time, and a success is
//! remembered: the assets of a page cost nothing. The file is read again for each comparison, so a name that is removed from it
//! is rejected after that minute, and one that is added is accepted at once.
//!
//! Neither passwords nor names are stored: a success is a digest of the credentials with a random key of the process. It is valid
//! for one client only. Otherwise another client could use it to check a guess without a comparison, and so without a limit.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base64ct::{Base64, Encoding};
use galley_certs::file;
use galley_policy::access::passwords;
use galley_policy::class::Network;
use galley_policy::time::Tick;
use galley_sys::Lock;
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;

use super::hashes;

/// A file of names and passwords.
pub struct Passwords {
    path: PathBuf,
}

impl Passwords {
    /// The passwords in a file.
    pub fn of(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
        }
    }

    /// Changes when the file does; `None`: the file cannot be read.
    pub fn stamp(&self) -> Option<PasswordsStamp> {
        let metadata = std::fs::metadata(&self.path).ok()?;
        Some(PasswordsStamp {
            file: metadata.ino(),
            bytes: metadata.len(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }

    /// Whether the file contains the name with this password. An unknown name takes as long as a known one.
    fn has(&self, name: &[u8], password: &[u8]) -> bool {
        let file = match file::read_text(&self.path, passwords::MAX_BYTES) {
            Ok(file) => file,
            Err(error) => {
                tracing::error!(file = %self.path.display(), %error, "cannot read the password file: all its passwords are rejected");
                return false;
            }
        };
        let of_name = passwords::find(&file, name);
        let Some(hash) = of_name.or_else(|| passwords::some(&file)) else {
            return false;
        };
        hashes::is_of(password, hash) && of_name.is_some()
    }
}

/// Identifies a version of a password file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PasswordsStamp {
    file: u64,
    bytes: u64,
    /// The time of the last change, in seconds and nanoseconds.
    changed: (i64, i64),
}

/// The result of a check of name and password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PasswordCheck {
    /// The password is correct.
    Right,
    /// The password is wrong, or the credentials are invalid.
    Wrong,
    /// Too many comparisons are in progress; retry after this time.
    TooMany(Duration),
}

/// Successes of the last minute.
pub(super) struct VerifiedPasswords {
    key: [u8; 32],
    known: Lock<HashMap<[u8; 32], Tick>>,
    /// Permits for concurrent comparisons.
    slots: Arc<Semaphore>,
}

impl VerifiedPasswords {
    pub(super) fn new() -> Self {
        let mut key = [0; 32];
        for part in key.chunks_mut(8) {
            part.copy_from_slice(&galley_sys::random_bytes());
        }
        Self {
            key,
            known: Lock::default(),
            slots: Arc::new(Semaphore::new(MAX_COMPARISONS)),
        }
    }

    /// Checks credentials. `may_compare` is called before an expensive comparison. Cancel-safe: a comparison in progress continues.
    pub(super) async fn verify(
        &self,
        file: &Arc<Passwords>,
        client: Network,
        credentials: &[u8],
        now: Tick,
        may_compare: impl FnOnce() -> Result<(), Duration>,
    ) -> PasswordCheck {
        if credentials.len() > MAX_BYTES {
            return PasswordCheck::Wrong;
        }
        let digest = self.digest(file, client, credentials);
        if self.is_known(&digest, now) {
            return PasswordCheck::Right;
        }
        let compared = self.compare(file, credentials, may_compare).await;
        if compared == PasswordCheck::Right {
            self.remember(digest, now);
        }
        compared
    }

    /// As [`Self::verify`], without the earlier successes: for a login. Cancel-safe, too.
    pub(super) async fn compare(
        &self,
        file: &Arc<Passwords>,
        credentials: &[u8],
        may_compare: impl FnOnce() -> Result<(), Duration>,
    ) -> PasswordCheck {
        if credentials.len() > MAX_BYTES {
            return PasswordCheck::Wrong;
        }
        let decoded = std::str::from_utf8(credentials).ok();
        let Some(pair) = decoded.and_then(|text| Base64::decode_vec(text).ok()) else {
            return PasswordCheck::Wrong;
        };
        if let Err(wait) = may_compare() {
            return PasswordCheck::TooMany(wait);
        }
        let Ok(permit) =
            tokio::time::timeout(COMPARISON_TIMEOUT, Arc::clone(&self.slots).acquire_owned()).await
        else {
            return PasswordCheck::TooMany(COMPARISON_TIMEOUT);
        };
        let file = Arc::clone(file);
        let compared = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            let colon = memchr::memchr(b':', &pair)?;
            let (name, password) = pair.split_at_checked(colon)?;
            file.has(name, password.get(1..)?).then_some(())
        });
        match compared.await {
            Ok(Some(())) => PasswordCheck::Right,
            Ok(None) | Err(_) => PasswordCheck::Wrong,
        }
    }

    /// The digest under which a success is stored. As it is keyed, the timing of a lookup reveals nothing about stored digests.
    fn digest(&self, file: &Passwords, client: Network, credentials: &[u8]) -> [u8; 32] {
        let client = match client {
            Network::V4(bits) => (4_u8, u64::from(bits)),
            Network::V6(bits) => (6, bits),
        };
        let path = file.path.as_os_str().as_encoded_bytes();
        Sha256::new()
            .chain_update(self.key)
            .chain_update((path.len() as u64).to_be_bytes())
            .chain_update(path)
            .chain_update([client.0])
            .chain_update(client.1.to_be_bytes())
            .chain_update(credentials)
            .finalize()
            .into()
    }

    fn is_known(&self, digest: &[u8; 32], now: Tick) -> bool {
        let verified = self.known.lock();
        verified
            .get(digest)
            .is_some_and(|since| now.since(*since) < REMEMBERED)
    }

    fn remember(&self, digest: [u8; 32], now: Tick) {
        let mut verified = self.known.lock();
        if verified.len() >= MAX_KNOWN {
            verified.retain(|_, since| now.since(*since) < REMEMBERED);
        }
        // All are recent: everyone's password is compared once more.
        if verified.len() >= MAX_KNOWN {
            verified.clear();
        }
        verified.insert(digest, now);
    }
}

/// How long a success is remembered.
const REMEMBERED: Duration = Duration::from_secs(60);

/// The number of users within a minute.
const MAX_KNOWN: usize = 4_096;

/// Helper threads for comparisons; the others are needed for files and bodies.
const MAX_COMPARISONS: usize = 2;

/// How long a comparison may wait for a permit.
const COMPARISON_TIMEOUT: Duration = Duration::from_secs(5);

/// Limited because the time for some hashes grows with the square of a password's length.
const MAX_BYTES: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn file(line: &str) -> (tempfile::NamedTempFile, Arc<Passwords>) {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        writeln!(file, "{line}").unwrap();
        let passwords = Arc::new(Passwords::of(file.path()));
        (file, passwords)
    }

    const HERE: Network = Network::V4(1);

    fn basic(pair: &str) -> Vec<u8> {
        Base64::encode_string(pair.as_bytes()).into_bytes()
    }

    #[tokio::test]
    async fn a_success_counts_for_a_minute_without_comparison() {
        // The hash of `secret`.
        let (kept, passwords) = file("jane:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=");
        let verified = VerifiedPasswords::new();
        let right = basic("jane:secret");
        let never = || Err(Duration::from_secs(9));
        let at = |ms| Tick(ms);
        assert_eq!(
            verified
                .verify(&passwords, HERE, &right, at(0), never)
                .await,
            PasswordCheck::TooMany(Duration::from_secs(9))
        );
        assert_eq!(
            verified
                .verify(&passwords, HERE, &right, at(0), || Ok(()))
                .await,
            PasswordCheck::Right
        );
        assert_eq!(
            verified
                .verify(&passwords, HERE, &right, at(59_000), never)
                .await,
            PasswordCheck::Right
        );
        assert_ne!(
            verified
                .verify(&passwords, HERE, &right, at(60_000), never)
                .await,
            PasswordCheck::Right
        );
        for wrong in ["jane:other", "jane:", "jane", "", "joe:secret", ":secret"] {
            let result = verified
                .verify(&passwords, HERE, &basic(wrong), at(0), || Ok(()))
                .await;
            assert_eq!(result, PasswordCheck::Wrong, "{wrong}");
        }
        let long = basic(&format!("jane:{}", "x".repeat(600)));
        assert_eq!(
            verified
                .verify(&passwords, HERE, &long, at(0), || Ok(()))
                .await,
            PasswordCheck::Wrong
        );
        assert_eq!(
            verified
                .verify(&passwords, HERE, b"!", at(0), || Ok(()))
                .await,
            PasswordCheck::Wrong
        );
        // The success does not count for another client.
        let elsewhere = Network::V4(2);
        let result = verified
            .verify(&passwords, elsewhere, &right, at(1), never)
            .await;
        assert_eq!(result, PasswordCheck::TooMany(Duration::from_secs(9)));
        // The success does not count for another file, and ends for a removed name after a minute.
        let (_other, others) = file("joe:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=");
        assert_eq!(
            verified
                .verify(&others, HERE, &right, at(0), || Ok(()))
                .await,
            PasswordCheck::Wrong
        );
        std::fs::write(kept.path(), "").unwrap();
        assert_eq!(
            verified
                .verify(&passwords, HERE, &right, at(61_000), || Ok(()))
                .await,
            PasswordCheck::Wrong
        );
    }

    #[test]
    fn remembered_successes_are_limited() {
        let verified = VerifiedPasswords::new();
        for number in 0..10_000_u64 {
            let mut digest = [0; 32];
            digest[..8].copy_from_slice(&number.to_be_bytes());
            verified.remember(digest, Tick(number));
            assert!(verified.known.lock().len() <= MAX_KNOWN);
        }
    }
}
