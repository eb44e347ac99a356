//! The settings of a site for its PHP-FPM, or for another FastCGI program, and the errors of a start.

use std::fmt::Write;
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use galley_config::PhpSandbox;

use super::MemoryDivision;
use crate::sys::cgroup::GroupLimits;

/// The settings of a site for its PHP-FPM, or for another FastCGI program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhpSettings {
    /// The PHP-FPM binary; `None`: the one found in the usual folders, see [`PhpStartError::NoBinary`].
    pub binary: Option<PathBuf>,
    /// Another program instead of PHP-FPM, with its arguments; empty for PHP-FPM.
    pub command: Vec<String>,
    /// The number of worker processes; 0: as many as fit into the memory.
    pub workers: usize,
    /// The memory of the machine, divided.
    pub budget: MemoryDivision,
    /// The time limit for the first byte of a response, and for a script in PHP-FPM, unless the script raises it.
    pub first_byte_timeout: Duration,
    /// The time limit for a request in PHP-FPM, after which its worker is killed.
    pub timeout: Duration,
    /// The memory limit of a script in PHP-FPM, in bytes; `None`: computed from the available memory.
    pub memory_limit: Option<u64>,
    /// The user of the workers. `None`: `www-data` if Galley runs as root. Only root can change it.
    pub user: Option<String>,
    /// The folder in which a subfolder for the socket and the configuration is created; created if it does not exist.
    pub runtime_dir: PathBuf,
    /// The site's name, for file names and log lines.
    pub site_name: String,
    /// The maximum size of a request body in bytes; PHP's own limits are set to it.
    pub request_body: u64,
    /// The site's root, which is the working directory of the processes.
    pub root: PathBuf,
    /// The sandbox of PHP-FPM; `None`: only the permissions of its user apply.
    pub sandbox: Option<PhpSandbox>,
    /// The kernel's limits for all processes of PHP-FPM together.
    pub limits: GroupLimits,
}

impl PhpSettings {
    /// Whether a pool with these settings can be used for `other`: everything is equal except the share of the memory, which
    /// depends on the number of pools, and the path of the socket.
    pub fn is_like(&self, other: &Self) -> bool {
        let other = Self {
            budget: self.budget,
            runtime_dir: self.runtime_dir.clone(),
            ..other.clone()
        };
        *self == other
    }

    /// The settings as a text that another process can compare, whose version may have other settings.
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
        // Defaults are omitted, so that versions without these settings have the same text.
        if let Some(sandbox) = sandbox {
            let _ = write!(text, "{sandbox:?}");
        }
        if *limits != GroupLimits::default() {
            let _ = write!(text, "{limits:?}");
        }
        text
    }
}

/// The reason why PHP-FPM does not run.
#[derive(Debug, thiserror::Error)]
pub enum PhpStartError {
    /// No binary was named and none is installed in the usual folders.
    #[error(
        "no php-fpm found in /usr/sbin, /usr/local/sbin: install PHP-FPM (Debian: package `php-fpm`) or name the program"
    )]
    NoBinary,
    /// A setting cannot be written into the pool's configuration.
    #[error("{what} `{value}` cannot be used for PHP: {why}")]
    Setting {
        /// The name of the setting.
        what: &'static str,
        /// The value as given.
        value: String,
        /// The problem.
        why: &'static str,
    },
    /// The folder or the configuration could not be written.
    #[error("cannot prepare PHP in `{}`", path.display())]
    Files {
        /// The path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A program could not be started.
    #[error("cannot start `{}`", program.display())]
    Spawn {
        /// PHP-FPM, or the watcher shell.
        program: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The program must run as another user, and Galley has given up root.
    #[error(
        "only a restart of Galley can start PHP as another user than `server.user`, or with other settings as that user"
    )]
    Apart,
    /// The program could not be sandboxed.
    #[error("cannot confine PHP (`php_sandbox`)")]
    Confine {
        /// The cause.
        source: io::Error,
    },
    /// The program ended before its socket accepted connections.
    #[error("php-fpm ended at once ({status}): {output}")]
    Exited {
        /// The exit status.
        status: ExitStatus,
        /// The last lines of its log.
        output: String,
    },
    /// The socket did not accept connections in time.
    #[error("php-fpm did not accept connections within {timeout:?}: {output}")]
    NotReady {
        /// The time limit.
        timeout: Duration,
        /// The last lines of its log.
        output: String,
    },
}
