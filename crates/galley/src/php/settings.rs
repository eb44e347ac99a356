//! A site's settings for its PHP-FPM, or for another FastCGI program, and why it could not be started.

use std::fmt::Write;
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use galley_config::PhpSandbox;

use super::MemoryDivision;
use crate::sys::cgroup::GroupLimits;

/// What a site wants of its PHP-FPM, or of another FastCGI program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhpSettings {
    /// PHP-FPM; `None`: the one found in the usual places, see [`PhpStartError::NoBinary`].
    pub binary: Option<PathBuf>,
    /// Another program in its place, with its arguments; empty: none.
    pub command: Vec<String>,
    /// Worker processes; 0: as many as fit into the memory.
    pub workers: usize,
    /// The memory of the machine, divided.
    pub budget: MemoryDivision,
    /// How long Galley waits for the first byte of a response: a script of PHP-FPM may run as long, unless it requests more.
    pub first_byte_timeout: Duration,
    /// How long a request may take in PHP-FPM before its worker is ended.
    pub timeout: Duration,
    /// What a script of PHP-FPM may take, in bytes; `None`: what fits.
    pub memory_limit: Option<u64>,
    /// The user of the workers. `None`: `www-data` if Galley runs as root. Only root can change it.
    pub user: Option<String>,
    /// Where a directory for the socket and the pool's configuration is made; created if it is missing.
    pub runtime_dir: PathBuf,
    /// For names and log lines.
    pub site_name: String,
    /// Largest request body in bytes that Galley lets through; PHP's own limits are set to it.
    pub request_body: u64,
    /// Root of the site; the working directory of the processes.
    pub root: PathBuf,
    /// What PHP-FPM may reach; `None`: what its user may.
    pub sandbox: Option<PhpSandbox>,
    /// What the kernel limits for all processes of PHP-FPM together.
    pub limits: GroupLimits,
}

impl PhpSettings {
    /// Whether a pool of these can be used for `other`: all is equal but the share of the memory, which changes with the
    /// number of pools, and the path of its socket.
    pub fn is_like(&self, other: &Self) -> bool {
        let other = Self {
            budget: self.budget,
            runtime_dir: self.runtime_dir.clone(),
            ..other.clone()
        };
        *self == other
    }

    /// The same as a text that another process may compare: its version may know other settings.
    pub fn likeness(&self) -> String {
        let Self {
            binary,
            command,
            workers,
            budget: _,
            first_byte_timeout,
            timeout,
            memory_limit,
            user,
            runtime_dir: _,
            site_name,
            request_body,
            root,
            sandbox,
            limits,
        } = self;
        let mut text = format!(
            "{:?}",
            (
                (binary, command, workers, first_byte_timeout, timeout),
                (memory_limit, user, site_name, request_body, root)
            )
        );
        // A version that does not know them has the same text without them.
        if let Some(sandbox) = sandbox {
            let _ = write!(text, "{sandbox:?}");
        }
        if *limits != GroupLimits::default() {
            let _ = write!(text, "{limits:?}");
        }
        text
    }
}

/// Why PHP-FPM is not running.
#[derive(Debug, thiserror::Error)]
pub enum PhpStartError {
    /// No program was named and none is installed in the usual places.
    #[error(
        "no php-fpm found in /usr/sbin, /usr/local/sbin: install PHP-FPM (Debian: package `php-fpm`) or name the program"
    )]
    NoBinary,
    /// A setting cannot be written into the pool's configuration.
    #[error("{what} `{value}` cannot be used for PHP: {why}")]
    Setting {
        /// Which one.
        what: &'static str,
        /// As given.
        value: String,
        /// The problem with it.
        why: &'static str,
    },
    /// The directory or the configuration could not be written.
    #[error("cannot prepare PHP in `{}`", path.display())]
    Files {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A program could not be started at all.
    #[error("cannot start `{}`", program.display())]
    Spawn {
        /// PHP-FPM, or the shell that watches over it.
        program: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is to run as another user, and Galley has given up root.
    #[error(
        "only a restart of Galley can start PHP as another user than `server.user`, or with other settings as that user"
    )]
    Apart,
    /// It could not be confined.
    #[error("cannot confine PHP (`php_sandbox`)")]
    Confine {
        /// Why.
        source: io::Error,
    },
    /// It ended before its socket accepted connections.
    #[error("php-fpm ended at once ({status}): {said}")]
    Exited {
        /// How.
        status: ExitStatus,
        /// The last lines of its log.
        said: String,
    },
    /// Its socket did not accept connections in time.
    #[error("php-fpm did not accept connections within {patience:?}: {said}")]
    NotReady {
        /// How long it was waited for.
        patience: Duration,
        /// The last lines of its log.
        said: String,
    },
}
