//! The certificate that all contenders show: one key, ECDSA over P-256, which is what most sites have and the cheapest to sign
//! with. It signs itself, and the client trusts it and nobody else.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::pki_types::CertificateDer;

use crate::demo::CommandError;

/// Where it lies, and the same for the client.
#[derive(Debug)]
pub(super) struct Certificate {
    /// In PEM form.
    pub(super) file: PathBuf,
    pub(super) key: PathBuf,
    pub(super) trusted: CertificateDer<'static>,
}

impl Certificate {
    /// Makes one for `host` in `dir`.
    pub(super) fn make(dir: &Path, host: &str) -> Result<Self, CommandError> {
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(vec![host.to_owned()])?;
        let (file, key) = (dir.join("bench.pem"), dir.join("bench.key"));
        fs::write(&file, cert.pem())?;
        fs::write(&key, signing_key.serialize_pem())?;
        // Galley takes no key that everybody may read; the others read it before they give up root.
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600))?;
        Ok(Self {
            file,
            key,
            trusted: cert.der().clone(),
        })
    }
}
