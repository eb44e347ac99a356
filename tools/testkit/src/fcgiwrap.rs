//! fcgiwrap of its own: CGI scripts behind a unix socket, the simplest FastCGI application that is not PHP.
//!
//! Started by root it runs as `www-data`, as on a real machine.

use std::{
    fs,
    os::unix::{fs::PermissionsExt, net::UnixStream, process::CommandExt},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use crate::{
    account,
    error::{Context, TestkitError},
    place,
    process::{Farewell, Service, write_executable},
};

/// A running fcgiwrap with a folder of scripts.
#[derive(Debug)]
pub struct FcgiWrap {
    service: Service,
    socket: PathBuf,
    scripts: PathBuf,
}

impl FcgiWrap {
    /// Starts `workers` processes that share a socket in `dir`; the scripts belong into `dir/scripts`.
    ///
    /// # Errors
    /// [`TestkitError::Missing`] without the package, [`TestkitError::Unreachable`] when root gave a directory that `www-data`
    /// cannot enter, [`TestkitError::Ended`] or [`TestkitError::Late`] with the log when it does not start.
    pub fn start(dir: &Path, workers: usize) -> Result<Self, TestkitError> {
        let scripts = dir.join("scripts");
        fs::create_dir_all(&scripts).context(format_args!("make {}", scripts.display()))?;
        let dir = fs::canonicalize(dir).context(format_args!("find {}", dir.display()))?;
        account::require_reachable(&dir)?;
        let run_dir = dir.join("run");
        fs::create_dir_all(&run_dir).context("make a directory for a socket")?;
        let socket = place::socket_path(&run_dir, "fcgiwrap.sock")?;
        let _ = fs::remove_file(&socket);
        let mut command = Command::new(place::program(&["fcgiwrap"])?);
        command
            .arg("-f")
            .args(["-c", &workers.max(1).to_string()])
            .arg("-s")
            .arg(format!("unix:{}", socket.display()));
        if let Some(user) = account::for_web() {
            user.own(&run_dir)?;
            command.uid(user.uid).gid(user.gid);
        }
        let mut service = Service::spawn(
            "fcgiwrap",
            &mut command,
            &dir.join("fcgiwrap.log"),
            Farewell::Ask(TIMEOUT),
        )?;
        service.wait_until("fcgiwrap to accept", TIMEOUT, || {
            UnixStream::connect(&socket).is_ok()
        })?;
        // Its workers follow umask; the user of the server under test must be able to connect.
        fs::set_permissions(&socket, fs::Permissions::from_mode(0o666))
            .context("open the socket to others")?;
        Ok(Self {
            service,
            socket,
            scripts: dir.join("scripts"),
        })
    }

    /// Writes an executable script, for example Perl beginning with `#!/usr/bin/perl`, and returns its path.
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

    /// The address as Galley's configuration wants it: `unix:/path`.
    pub fn address(&self) -> String {
        format!("unix:{}", self.socket.display())
    }

    /// Process id of the first process.
    pub fn pid(&self) -> u32 {
        self.service.pid()
    }
}

const TIMEOUT: Duration = Duration::from_secs(60);
