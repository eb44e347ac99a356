//! A certificate chain with its key: verified, with its names and dates, or the reason why it is invalid.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{Error as TlsError, InconsistentKeys};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::file;
use crate::names::CertificateNames;

/// A chain of certificates with the key of the first.
#[derive(Clone, Debug)]
pub struct CertificateChain {
    /// For handshakes.
    pub certified: Arc<CertifiedKey>,
    /// The names for which it is valid.
    pub names: CertificateNames,
    /// From when on it counts.
    pub not_before: SystemTime,
    /// Until when.
    pub not_after: SystemTime,
}

/// What a certificate's dates say at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DateValidity {
    /// It counts.
    Good,
    /// It counts, and ends within [`SOON`].
    Ending,
    /// Its time is over.
    Over,
    /// Its time has not begun.
    Early,
}

/// Why files contain no usable certificate. Each text continues after the name of a file.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file cannot be opened or read, is not a regular one, or is longer than any certificate.
    #[error(transparent)]
    Unread(#[from] file::FileError),
    /// There is no PEM block of the kind, or a broken one.
    #[error("in which there is no {0} in PEM form")]
    Missing(&'static str),
    /// The contents do not match the header.
    #[error("whose first certificate cannot be used: {0}")]
    NotUsable(String),
    /// The key is of a kind that TLS has no use for, or broken.
    #[error("whose key cannot be used: {0}")]
    BadKey(String),
    /// The key is another certificate's.
    #[error("whose key does not belong to the certificate")]
    Mismatch,
    /// Anybody on the machine may read the key.
    #[error("which every user of the machine can read (mode {0:03o})")]
    Exposed(u32),
}

impl CertificateError {
    /// Whether this user may not read a file.
    pub fn is_denied(&self) -> bool {
        matches!(self, Self::Unread(error) if error.is_denied())
    }
}

impl CertificateChain {
    /// From DER: the chain, the site's own first, and the key.
    ///
    /// Errors: [`CertificateError::Missing`] without a certificate; `NotUsable`, `BadKey`, `Mismatch`.
    pub fn new(
        chain: Vec<CertificateDer<'static>>,
        key: &PrivateKeyDer<'static>,
    ) -> Result<Self, CertificateError> {
        let key = rustls::crypto::aws_lc_rs::sign::any_supported_type(key)
            .map_err(|error| CertificateError::BadKey(error.to_string()))?;
        Self::of(Arc::new(CertifiedKey::new(chain, key)))
    }

    /// What a chain with its key says.
    ///
    /// Errors: as [`CertificateChain::new`].
    pub fn of(certified: Arc<CertifiedKey>) -> Result<Self, CertificateError> {
        let first = certified
            .cert
            .first()
            .ok_or(CertificateError::Missing("certificate"))?;
        let (_, parsed) = X509Certificate::from_der(first)
            .map_err(|error| CertificateError::NotUsable(error.to_string()))?;
        let names = CertificateNames::of(&parsed);
        let validity = parsed.validity();
        let (not_before, not_after) = (
            time(validity.not_before.timestamp()),
            time(validity.not_after.timestamp()),
        );
        match certified.keys_match() {
            // A kind of key that does not tell its public half: the first handshake will show it.
            Ok(()) | Err(TlsError::InconsistentKeys(InconsistentKeys::Unknown)) => {}
            Err(TlsError::InconsistentKeys(_)) => return Err(CertificateError::Mismatch),
            Err(error) => return Err(CertificateError::NotUsable(error.to_string())),
        }
        Ok(Self {
            certified,
            names,
            not_before,
            not_after,
        })
    }

    /// What its dates say at `now`.
    pub fn standing(&self, now: SystemTime) -> DateValidity {
        if now < self.not_before {
            DateValidity::Early
        } else if now >= self.not_after {
            DateValidity::Over
        } else if now + SOON >= self.not_after {
            DateValidity::Ending
        } else {
            DateValidity::Good
        }
    }

    /// Whether it is the same chain as another's.
    pub fn is_same(&self, other: &Self) -> bool {
        self.certified.cert == other.certified.cert
    }
}

/// A moment of a certificate; one before 1970 is as long over.
fn time(unix_s: i64) -> SystemTime {
    let seconds = u64::try_from(unix_s).unwrap_or_default();
    UNIX_EPOCH
        .checked_add(Duration::from_secs(seconds))
        .unwrap_or(UNIX_EPOCH)
}

/// When an end is near. Authorities want renewal a third before the end, which is 30 days of 90 and 15 of 47: by now it has
/// failed for a while.
pub const SOON: Duration = Duration::from_secs(10 * 86_400);

/// A file's most bytes: a chain has some kilobytes, the system's file of all authorities 200.
pub const MOST_BYTES: u64 = 1 << 20;
