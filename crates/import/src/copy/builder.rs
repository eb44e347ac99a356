//! What all copies collect: listeners, password files, and changes.

use std::path::{Path, PathBuf};

use crate::source::StatementOrigin;

/// The files and ports for a copy.
#[derive(Clone, Debug)]
pub struct CopyWorkspace {
    /// A separate folder for the copy.
    pub folder: PathBuf,
    /// Free ports of 127.0.0.1.
    pub ports: Vec<u16>,
    /// The certificate that replaces all others.
    pub cert: PathBuf,
    /// The key of the certificate.
    pub key: PathBuf,
}

/// Why a configuration cannot be copied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CopyError {
    /// The configuration has no server.
    #[error("`{0}` has no server")]
    NoServer(String),
    /// A program in the configuration.
    #[error("{0}: the copy cannot contain a block of Lua or JavaScript")]
    Code(StatementOrigin),
    /// More listeners than free ports.
    #[error("the configuration has more than {0} listeners")]
    Listeners(usize),
    /// A file that needs the main file of its server.
    #[error("`{0}` belongs to a server that is not named: name its main file, too")]
    NoMain(String),
}

/// A listener of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopiedListener {
    /// The key of the original listener: [`crate::ServedListener::key`].
    pub key: String,
    /// Whether it uses TLS.
    pub is_tls: bool,
    /// The port on 127.0.0.1.
    pub port: u16,
}

/// Collects the parts of a copy while it is written.
pub(super) struct CopyBuilder<'w> {
    pub workspace: &'w CopyWorkspace,
    pub listeners: Vec<CopiedListener>,
    pub passwords: Vec<PathBuf>,
    pub changes: Vec<String>,
}

impl<'w> CopyBuilder<'w> {
    pub fn new(workspace: &'w CopyWorkspace) -> Self {
        Self {
            workspace,
            listeners: Vec::new(),
            passwords: Vec::new(),
            changes: Vec::new(),
        }
    }

    /// The port that replaces the address `key`.
    pub fn port(&mut self, key: &str, is_tls: bool) -> Result<u16, CopyError> {
        if let Some(known) = self.listeners.iter_mut().find(|known| known.key == key) {
            known.is_tls |= is_tls;
            return Ok(known.port);
        }
        let ports = &self.workspace.ports;
        let port = ports.get(self.listeners.len()).copied();
        let port = port.ok_or(CopyError::Listeners(ports.len()))?;
        self.listeners.push(CopiedListener {
            key: key.to_owned(),
            is_tls,
            port,
        });
        self.change(&format!("port {key} is 127.0.0.1:{port}"));
        Ok(port)
    }

    /// The file that replaces a password file.
    pub fn password(&mut self, path: &Path) -> PathBuf {
        let position = self.passwords.iter().position(|known| known == path);
        let at = position.unwrap_or_else(|| {
            self.passwords.push(path.to_owned());
            self.change(&format!(
                "`{}` is a file with one user of the test",
                path.display()
            ));
            self.passwords.len() - 1
        });
        self.workspace.folder.join(format!("users-{at}"))
    }

    /// Records a change, unless it was recorded before.
    pub fn change(&mut self, what: &str) {
        if !self.changes.iter().any(|known| known == what) {
            self.changes.push(what.to_owned());
        }
    }

    /// The path of a file in the folder of the copy.
    pub fn file(&self, name: &str) -> String {
        self.workspace.folder.join(name).display().to_string()
    }
}
