//! The folder of a test: certificate, password files, output of the old server. Removed at the end.

use std::fs;
use std::io;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use galley_import::CopyWorkspace;
use sha1::{Digest, Sha1};

use galley_sys::random_bytes;

/// The folder of a test.
pub(super) struct TestWorkspace {
    folder: tempfile::TempDir,
    copy: CopyWorkspace,
    /// The password of the only user in each password file: valid for this test only.
    secret: String,
}

impl TestWorkspace {
    pub(super) fn new() -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("galley-try-").tempdir()?;
        // Both servers may run as other users, who need access.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o711))?;
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]);
        let made = made.map_err(io::Error::other)?;
        let [cert, key] = ["cert.pem", "key.pem"].map(|name| folder.path().join(name));
        fs::write(&cert, made.cert.pem())?;
        fs::write(&key, made.signing_key.serialize_pem())?;
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600))?;
        let copy = CopyWorkspace {
            folder: folder.path().to_owned(),
            ports: free_ports()?,
            cert,
            key,
        };
        let [first, second] = [random_bytes(), random_bytes()].map(u64::from_ne_bytes);
        Ok(Self {
            folder,
            copy,
            secret: format!("{first:016x}{second:016x}"),
        })
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The values for the copy of the old configuration.
    pub(super) fn copy(&self) -> &CopyWorkspace {
        &self.copy
    }

    /// The replacement for the password file with this index. Each has a different user, so that a mix-up of files is detected.
    pub(super) fn password_file(&self, index: usize) -> PathBuf {
        self.path().join(format!("users-{index}"))
    }

    /// Writes the password files.
    pub(super) fn write_passwords(&self, count: usize) -> io::Result<()> {
        for index in 0..count {
            let hash = base64::engine::general_purpose::STANDARD.encode(Sha1::digest(&self.secret));
            let path = self.password_file(index);
            fs::write(&path, format!("galley-try-{index}:{{SHA}}{hash}\n"))?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o644))?;
        }
        Ok(())
    }

    /// The value of `Authorization` for the user in the password file with this index.
    pub(super) fn authorization(&self, index: usize) -> String {
        basic(&format!("galley-try-{index}:{}", self.secret))
    }
}

/// The value of `Authorization` for a name and a password.
pub(super) fn basic(credentials: &str) -> String {
    let text = base64::engine::general_purpose::STANDARD.encode(credentials);
    format!("Basic {text}")
}

/// Finds unused ports.
fn free_ports() -> io::Result<Vec<u16>> {
    let listeners: io::Result<Vec<TcpListener>> = (0..MAX_LISTENERS)
        .map(|_| TcpListener::bind("127.0.0.1:0"))
        .collect();
    listeners?
        .iter()
        .map(|one| Ok(one.local_addr()?.port()))
        .collect()
}

const MAX_LISTENERS: usize = 32;
