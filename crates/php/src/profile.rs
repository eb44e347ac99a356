//! The properties of a program that are known before it runs.

use std::path::{Path, PathBuf};

use super::PhpSettings;

/// The properties of a program that are known before it runs.
#[derive(Debug)]
pub(crate) struct ProgramProfile {
    pub(super) site: String,
    pub(super) command: Vec<String>,
    pub(super) workers: usize,
    pub(super) socket: PathBuf,
    pub(super) share: u64,
}

impl ProgramProfile {
    /// The properties of a program whose socket is in `folder`.
    pub(super) fn new(settings: &PhpSettings, folder: &Path) -> Self {
        Self {
            site: settings.site_name.clone(),
            command: settings.command.clone(),
            workers: match settings.workers {
                0 => settings.budget.slots_at_start(),
                named => named,
            },
            socket: folder.join(SOCKET),
            share: settings.budget.share,
        }
    }
}

/// The number of requests after which a process of `php-cgi` ends: as many as for a worker of PHP-FPM, and different for each slot.
pub(super) fn requests(slot: usize) -> usize {
    750 + slot * 191 % 500
}

/// The name of the socket in its folder; also used in the shell script.
pub(super) const SOCKET: &str = "program.sock";

/// The `PATH` for scripts that call other programs.
pub(super) const SEARCH_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
