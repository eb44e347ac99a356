//! Reads certificates from PEM files, as `certbot` and every authority write them.

use std::fmt;
use std::path::{Path, PathBuf};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::chain::{CertificateChain, CertificateError, MAX_BYTES};
use crate::file;

/// The paths of a certificate and of its key, which may be the same file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CertificateFiles {
    /// The site's own certificate, followed by the intermediate certificates.
    pub cert: PathBuf,
    /// The key of the first: PKCS#8, PKCS#1 or SEC1, without a passphrase.
    pub key: PathBuf,
}

/// Why files contain no usable certificate, and which file is the cause.
#[derive(Debug, thiserror::Error)]
#[error("`{}`, {error}", path.display())]
pub struct CertificateFileError {
    /// The file.
    pub path: PathBuf,
    /// The error.
    pub error: CertificateError,
}

impl CertificateFileError {
    fn new(path: &Path, error: CertificateError) -> Self {
        let path = path.to_owned();
        Self { path, error }
    }
}

/// The contents of both files.
#[derive(Clone, PartialEq, Eq)]
pub struct CertificatePem {
    /// The site's own certificate, followed by the intermediate certificates.
    pub chain: Vec<u8>,
    /// The key of the first.
    pub key: Vec<u8>,
}

/// Reads a certificate and its key. Blocks on the disk.
///
/// Errors: the cause and its file.
pub fn read(files: &CertificateFiles) -> Result<CertificateChain, CertificateFileError> {
    CertificatePem::read(files)?.parse(files)
}

impl CertificatePem {
    /// Reads both files. Blocks on the disk.
    ///
    /// Errors: a file that cannot be read, or a key that others may read.
    pub fn read(files: &CertificateFiles) -> Result<Self, CertificateFileError> {
        let read = |path: &Path, secrecy| {
            contents(path, secrecy).map_err(|error| CertificateFileError::new(path, error))
        };
        Ok(Self {
            chain: read(&files.cert, Secrecy::Public)?,
            key: read(&files.key, Secrecy::Secret)?,
        })
    }

    /// Parses the certificate; `files` are the paths for errors.
    ///
    /// Errors: the cause and its file.
    pub fn parse(
        &self,
        files: &CertificateFiles,
    ) -> Result<CertificateChain, CertificateFileError> {
        let of_cert = |error| CertificateFileError::new(&files.cert, error);
        let of_key = |error| CertificateFileError::new(&files.key, error);
        let chain = chain_of(&self.chain).map_err(of_cert)?;
        let key = PrivateKeyDer::from_pem_slice(&self.key).map_err(|_| {
            of_key(CertificateError::Missing(
                "private key without a passphrase",
            ))
        })?;
        CertificateChain::new(chain, &key).map_err(|trouble| match trouble {
            CertificateError::BadKey(_) | CertificateError::Mismatch => of_key(trouble),
            other => of_cert(other),
        })
    }
}

/// Omits the key.
impl fmt::Debug for CertificatePem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CertificatePem").finish_non_exhaustive()
    }
}

/// Reads certificates of authorities. Blocks on the disk.
pub fn read_roots(path: &Path) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    chain_of(&contents(path, Secrecy::Public)?)
}

fn chain_of(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match chain {
        Ok(chain) if !chain.is_empty() => Ok(chain),
        Ok(_) | Err(_) => Err(CertificateError::Missing("certificate")),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Secrecy {
    Public,
    Secret,
}

fn contents(path: &Path, secrecy: Secrecy) -> Result<Vec<u8>, CertificateError> {
    let found = file::read(path, MAX_BYTES)?;
    if secrecy == Secrecy::Secret && found.mode & OTHERS_READ != 0 {
        return Err(CertificateError::Exposed(found.mode & 0o777));
    }
    Ok(found.bytes)
}

/// The permission for others. A group may read the key, such as Debian's `ssl-cert`.
const OTHERS_READ: u32 = 0o004;
