//! Runs a private fcgiwrap: CGI scripts behind a unix socket, the simplest FastCGI application other than PHP.
//!
//! It runs as `www-data` if root starts it, as on a real machine.

use std::{
    fs,
    os::unix::{fs::PermissionsExt, net::UnixStream, process::CommandExt},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use crate::{
    account, addresses,
    error::{Context, TestkitError},
    process::{Service, StopMode, write_executable},
    programs,
};

/// A running fcgiwrap with a folder of scripts.
#[derive(Debug)]
pub struct FcgiWrap {
    service: Service,
    socket: PathBuf,
    scripts: PathBuf,
}

impl FcgiWrap {
    /// Starts `workers` processes that share a socket in `dir`; the scripts are in `dir/scripts`.
    ///
    /// # Errors
    /// [`TestkitError::Missing`] if the package is not installed, [`TestkitError::Unreachable`] if this process runs as root
    /// and `www-data` cannot enter the directory, [`TestkitError::Ended`] or [`TestkitError::Timeout`] with the log if it does
    /// not start.
    pub fn start(dir: &Path, workers: usize) -> Result<Self, TestkitError> {
        let scripts = dir.join("scripts");
        fs::create_dir_all(&scripts).context(format_args!("create {}", scripts.display()))?;
        let dir = fs::canonicalize(dir).context(format_args!("find {}", dir.display()))?;
        account::require_reachable(&dir)?;
        let run_dir = dir.join("run");
        fs::create_dir_all(&run_dir).context("create the directory of the socket")?;
        let socket = addresses::socket_path(&run_dir, "fcgiwrap.sock")?;
        let _ = fs::remove_file(&socket);
        let mut command = Command::new(programs::find(&["fcgiwrap"])?);
        command
            .arg("-f")
            .args(["-c", &workers.max(1).to_string()])
            .arg("-s")
            .arg(format!("unix:{}", socket.display()));
        if let Some(user) = account::web_user() {
            user.chown(&run_dir)?;
            command.uid(user.uid).gid(user.gid);
        }
        let mut service = Service::spawn(
            "fcgiwrap",
            &mut command,
            &dir.join("fcgiwrap.log"),
            StopMode::Terminate(TIMEOUT),
        )?;
        service.wait_until("fcgiwrap to accept connections", TIMEOUT, || {
            UnixStream::connect(&socket).is_ok()
        })?;
        // The mode of the socket depends on the umask; the user of the server under test must be able to connect.
        fs::set_permissions(&socket, fs::Permissions::from_mode(0o666))
            .context("make the socket writable for all users")?;
        Ok(Self {
            service,
            socket,
            scripts: dir.join("scripts"),
        })
    }

    /// Writes an executable script, for example in Perl with `#!/usr/bin/perl`, and returns its path.
    pub fn script(&self, name: &str, text: &str) -> Result<PathBuf, TestkitError> {
        let path = self.scripts.join(name);
        write_executable(&path, text)?;
        Ok(path)
    }

    /// The folder of the scripts: the document root.
    pub fn root(&self) -> &Path {
        &self.scripts
    }

    /// The socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// The address in the syntax of Galley's configuration: `unix:/path`.
    pub fn address(&self) -> String {
        format!("unix:{}", self.socket.display())
    }

    /// Process id of the first process.
    pub fn pid(&self) -> u32 {
        self.service.pid()
    }
}

const TIMEOUT: Duration = Duration::from_secs(60);
