//! The self-signed certificate that all contenders use: ECDSA over P-256, which is common and the cheapest to sign with. The
//! client trusts only this certificate.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use rcgen::{CertifiedKey, PublicKeyData as _, generate_simple_self_signed};
use rustls::pki_types::CertificateDer;
use sha2::{Digest as _, Sha256};

use crate::error::CommandError;

/// The files for the servers, and the certificate for the client.
#[derive(Debug)]
pub(crate) struct Certificate {
    /// In PEM form.
    pub(crate) file: PathBuf,
    pub(crate) key: PathBuf,
    pub(crate) trusted: CertificateDer<'static>,
    /// For Chromium: the pin of the key (RFC 7469 section 2.4).
    pub(crate) pin: String,
}

impl Certificate {
    /// Creates a certificate for the hosts in `dir`.
    pub(crate) fn create(dir: &Path, hosts: &[&str]) -> Result<Self, CommandError> {
        let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        let CertifiedKey { cert, signing_key } = generate_simple_self_signed(hosts)?;
        let (file, key) = (dir.join("bench.pem"), dir.join("bench.key"));
        fs::write(&file, cert.pem())?;
        fs::write(&key, signing_key.serialize_pem())?;
        // Galley rejects a key that is readable by others; the other servers read it as root.
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600))?;
        Ok(Self {
            file,
            key,
            trusted: cert.der().clone(),
            pin: STANDARD.encode(Sha256::digest(signing_key.subject_public_key_info())),
        })
    }
}
