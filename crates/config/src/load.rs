//! The sources of a configuration: a file, a text, or a folder without a file.

use std::path::{Path, PathBuf};

use galley_certs::CertificateFiles;

use crate::assemble::{admin_of, finish};
use crate::complaint::Complaints;
use crate::config::{AdminConfig, Config};
use crate::machine::Surroundings;
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
    /// A WordPress folder, and no file.
    Root(PathBuf),
}

impl ConfigSource {
    /// A file.
    pub fn file(path: &Path) -> Self {
        Self::at(SourcePlace::File(absolute(path)))
    }

    /// The WordPress folder `dir`, as in [`for_root`].
    pub fn root(dir: &Path) -> Self {
        Self::at(SourcePlace::Root(absolute(dir)))
    }

    fn at(place: SourcePlace) -> Self {
        let Surroundings { runtime, state, .. } = Surroundings::here();
        Self {
            place,
            runtime,
            state,
        }
    }

    /// Reads it. Certificates in `known` were read before and may be unreadable now.
    ///
    /// Errors: as [`load`] and [`for_root`].
    pub fn load(&self, known: &[CertificateFiles]) -> Result<Config, Complaints> {
        let here = Surroundings {
            runtime: self.runtime.clone(),
            state: self.state.clone(),
            known: known.to_vec(),
            ..Surroundings::here()
        };
        match &self.place {
            SourcePlace::File(path) => finish(include::read_file(path), &here),
            SourcePlace::Root(dir) => finish(root::for_root(dir), &here),
        }
    }
}

/// As it is, where the system does not say in which folder the process is.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Reads a configuration file and everything it includes.
///
/// Errors: all complaints of all files, in the order of files and lines.
pub fn load(path: &Path) -> Result<Config, Complaints> {
    finish(include::read_file(path), &Surroundings::here())
}

/// The admin interface of a configuration that may be invalid: that of the server that runs with the former one.
pub fn load_admin(path: &Path) -> AdminConfig {
    admin_of(include::read_file(path), &Surroundings::here())
}

/// Reads a configuration from `text`; `name` is shown in complaints, and relative paths and includes start at its folder.
///
/// Errors: as [`load`].
pub fn from_text(name: &str, text: &str) -> Result<Config, Complaints> {
    finish(include::read_text(name, text), &Surroundings::here())
}

/// The configuration without a file: one site for every host on port 8080, from the WordPress folder `dir`, with managed PHP.
///
/// Errors: `dir` is not a folder, or holds neither `wp-config.php`, `wp-load.php` nor `index.php`.
pub fn for_root(dir: &Path) -> Result<Config, Complaints> {
    finish(root::for_root(dir), &Surroundings::here())
}
