//! The sources of a configuration: a file, a text, or a WordPress folder without a file.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use galley_certs::CertificateFiles;

use crate::assemble::{admin_of, finish};
use crate::config::{AdminConfig, Config};
use crate::diagnostic::Diagnostics;
use crate::machine::Environment;
use crate::{include, root};

/// The source of a process's configuration, to read it again in the same way: its user, on which defaults depend, may have
/// changed since.
#[derive(Clone, Debug)]
pub struct ConfigSource {
    place: SourcePlace,
    runtime: PathBuf,
    state: PathBuf,
}

#[derive(Clone, Debug)]
enum SourcePlace {
    File(PathBuf),
    /// A WordPress folder without a file, and the address to listen on.
    Root(PathBuf, Option<SocketAddr>),
}

impl ConfigSource {
    /// A configuration file.
    pub fn file(path: &Path) -> Self {
        Self::at(SourcePlace::File(absolute(path)))
    }

    /// No file: one site for every host, on port 8080 or `listen`, from the WordPress folder `dir`, with managed PHP.
    pub fn root(dir: &Path, listen: Option<SocketAddr>) -> Self {
        Self::at(SourcePlace::Root(absolute(dir), listen))
    }

    fn at(place: SourcePlace) -> Self {
        let Environment { runtime, state, .. } = Environment::current();
        Self {
            place,
            runtime,
            state,
        }
    }

    /// Reads the configuration. The certificates in `known` were read before and may be unreadable now.
    ///
    /// Errors: as [`load`]; without a file: the folder does not exist, or contains none of `wp-config.php`, `wp-load.php` and
    /// `index.php`.
    pub fn load(&self, known: &[CertificateFiles]) -> Result<Config, Diagnostics> {
        let environment = Environment {
            runtime: self.runtime.clone(),
            state: self.state.clone(),
            known: known.to_vec(),
            ..Environment::current()
        };
        match &self.place {
            SourcePlace::File(path) => finish(include::read_file(path), &environment),
            SourcePlace::Root(dir, listen) => finish(root::for_root(dir, *listen), &environment),
        }
    }
}

/// The absolute path, or the path itself if the current folder is unknown.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Reads a configuration file and all its includes.
///
/// Errors: all diagnostics of all files, in the order of files and lines.
pub fn load(path: &Path) -> Result<Config, Diagnostics> {
    finish(include::read_file(path), &Environment::current())
}

/// The admin interface of a configuration file, and what is invalid in the file: the server may run with a former version of
/// it. What cannot be read has its default.
pub fn load_admin(path: &Path) -> (AdminConfig, Diagnostics) {
    admin_of(include::read_file(path), &Environment::current())
}

/// Reads a configuration from `text`. `name` is shown in diagnostics; relative paths and includes start at its folder.
///
/// Errors: as [`load`].
pub fn from_text(name: &str, text: &str) -> Result<Config, Diagnostics> {
    finish(include::read_text(name, text), &Environment::current())
}
