//! A certificate chain with its key: checked, with its names and dates, or the reason why it is invalid.

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
    /// The chain and the key, for handshakes.
    pub certified: Arc<CertifiedKey>,
    /// The names for which it is valid.
    pub names: CertificateNames,
    /// The start of its validity.
    pub not_before: SystemTime,
    /// The end of its validity.
    pub not_after: SystemTime,
}

/// The validity of a certificate at a given time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DateValidity {
    /// Valid.
    Good,
    /// Valid, but it expires within [`SOON`].
    Ending,
    /// Expired.
    Over,
    /// Not valid yet.
    Early,
}

/// Why files contain no usable certificate. Each text continues after the name of a file.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file cannot be opened or read, is not a regular file, or is too large.
    #[error(transparent)]
    Unread(#[from] file::FileError),
    /// There is no PEM block of this kind, or it is malformed.
    #[error("in which there is no {0} in PEM form")]
    Missing(&'static str),
    /// The contents do not match the header.
    #[error("whose first certificate cannot be used: {0}")]
    NotUsable(String),
    /// The key is malformed, or TLS does not support its type.
    #[error("whose key cannot be used: {0}")]
    BadKey(String),
    /// The key belongs to another certificate.
    #[error("whose key does not belong to the certificate")]
    Mismatch,
    /// All users of the machine may read the key.
    #[error("which every user of the machine can read (mode {0:03o})")]
    Exposed(u32),
}

impl CertificateError {
    /// Whether this user may not read the file.
    pub fn is_denied(&self) -> bool {
        matches!(self, Self::Unread(error) if error.is_denied())
    }
}

impl CertificateChain {
    /// Creates a chain from DER: the certificates, the site's own first, and the key.
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

    /// Reads the names and dates of a chain.
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
            // `Unknown`: this type of key does not reveal its public half, so the first handshake will tell.
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

    /// The validity at `now`.
    pub fn date_validity(&self, now: SystemTime) -> DateValidity {
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

    /// Whether both have the same chain.
    pub fn is_same(&self, other: &Self) -> bool {
        self.certified.cert == other.certified.cert
    }
}

/// A date of a certificate; dates before 1970 become 1970.
fn time(unix_s: i64) -> SystemTime {
    let seconds = u64::try_from(unix_s).unwrap_or_default();
    UNIX_EPOCH
        .checked_add(Duration::from_secs(seconds))
        .unwrap_or(UNIX_EPOCH)
}

/// The time before expiry from which a warning is given. Authorities recommend renewal when a third of the lifetime is left,
/// which is 30 days of 90 and 15 of 47, so the renewal has been failing for a while by then.
pub const SOON: Duration = Duration::from_secs(10 * 86_400);

/// The maximum size of a file, in bytes: a chain has some kilobytes, the system's file of all authorities 200.
pub const MAX_BYTES: u64 = 1 << 20;
