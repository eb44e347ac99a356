//! A PHP-FPM of its own: one pool on a unix socket or a TCP port, a fixed number of workers.
//!
//! Started by root its workers run as `www-data`. The modules of the machine's PHP are loaded; pools and settings of the
//! machine's PHP-FPM are not. What PHP logs leaves through FastCGI's stderr stream unless `error_log` is set.

use std::{
    fmt::Write as _,
    fs,
    os::unix::{fs::PermissionsExt, net::UnixStream},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use crate::{
    account,
    error::{Context, TestkitError},
    place,
    process::{Farewell, Service},
};

/// Where a pool listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FpmListen {
    /// A unix socket in the pool's directory.
    Unix,
    /// A free port on 127.0.0.1.
    Tcp,
}

/// What a pool is made of.
#[derive(Debug, Clone)]
pub struct FpmOptions {
    /// Where it listens.
    pub listen: FpmListen,
    /// Number of workers, all started at once.
    pub workers: usize,
    /// Settings of PHP, name and value, for example `("memory_limit", "64M")`.
    pub ini: Vec<(String, String)>,
    /// Further lines of the pool, name and value, for example `("request_terminate_timeout", "1s")`.
    pub pool: Vec<(String, String)>,
}

impl Default for FpmOptions {
    fn default() -> Self {
        Self {
            listen: FpmListen::Unix,
            workers: 2,
            ini: Vec::new(),
            pool: Vec::new(),
        }
    }
}

/// A running pool.
#[derive(Debug)]
pub struct PhpFpm {
    service: Service,
    dir: PathBuf,
    listen: Listen,
}

#[derive(Debug, Clone)]
enum Listen {
    Unix(PathBuf),
    Tcp(u16),
}

impl PhpFpm {
    /// Starts a pool whose files are in `dir`. It takes requests when this returns.
    ///
    /// # Errors
    /// [`TestkitError::Missing`] without the package, [`TestkitError::Unreachable`] when root gave a directory that workers cannot
    /// enter, [`TestkitError::Ended`] or [`TestkitError::Late`] with the log when it does not start.
    pub fn start(dir: &Path, options: &FpmOptions) -> Result<Self, TestkitError> {
        fs::create_dir_all(dir).context(format_args!("make {}", dir.display()))?;
        let dir = fs::canonicalize(dir).context(format_args!("find {}", dir.display()))?;
        account::require_reachable(&dir)?;
        let sessions = dir.join("sessions");
        fs::create_dir_all(&sessions).context("make a directory for sessions")?;
        fs::set_permissions(&sessions, fs::Permissions::from_mode(0o1777))
            .context("open the directory for sessions")?;
        let mut tries = 0;
        loop {
            tries += 1;
            let listen = match options.listen {
                FpmListen::Unix => Listen::Unix(place::socket_path(&dir, "php-fpm.sock")?),
                FpmListen::Tcp => Listen::Tcp(place::free_port()?),
            };
            let text = configuration(&dir, &listen, options);
            fs::write(dir.join("php-fpm.conf"), text).context("write php-fpm.conf")?;
            match launch(&dir, &listen) {
                Ok(service) => {
                    return Ok(Self {
                        service,
                        dir,
                        listen,
                    });
                }
                // Somebody else took the port meanwhile.
                Err(TestkitError::Ended { .. })
                    if matches!(listen, Listen::Tcp(_)) && tries < 5 => {}
                Err(trouble) => return Err(trouble),
            }
        }
    }

    /// The address as Galley's configuration wants it: `unix:/path` or `127.0.0.1:port`.
    pub fn address(&self) -> String {
        match &self.listen {
            Listen::Unix(path) => format!("unix:{}", path.display()),
            Listen::Tcp(port) => format!("127.0.0.1:{port}"),
        }
    }

    /// Process id of the master.
    pub fn pid(&self) -> u32 {
        self.service.pid()
    }

    /// Process ids of the workers as they are now.
    pub fn workers(&self) -> Vec<u32> {
        let master = self.pid();
        let children = fs::read_to_string(format!("/proc/{master}/task/{master}/children"))
            .unwrap_or_default();
        children
            .split_whitespace()
            .filter_map(|pid| pid.parse().ok())
            .collect()
    }

    /// Kills master and workers at once, in the middle of what they do. [`restart`](Self::restart) brings them back.
    pub fn kill(&mut self) {
        self.service.kill();
    }

    /// Starts the pool again at the same address.
    pub fn restart(&mut self) -> Result<(), TestkitError> {
        self.service.kill();
        self.service = launch(&self.dir, &self.listen)?;
        Ok(())
    }

    /// The last lines of the master's log.
    pub fn log(&self) -> String {
        self.service.log_tail()
    }
}

fn launch(dir: &Path, listen: &Listen) -> Result<Service, TestkitError> {
    let log = dir.join("php-fpm.log");
    // The master logs that it is ready. A second start writes below the first: only what comes now counts.
    let before = fs::read_to_string(&log).map_or(0, |text| text.len());
    if let Listen::Unix(path) = listen {
        let _ = fs::remove_file(path);
    }
    let mut master = Command::new(place::program(PHP_FPM)?);
    master
        .arg("--nodaemonize")
        .arg("--fpm-config")
        .arg(dir.join("php-fpm.conf"))
        .current_dir(dir);
    let mut service = Service::spawn("php-fpm", &mut master, &log, Farewell::Ask(TIMEOUT))?;
    service.wait_until("the pool to be ready", START_PATIENCE, || {
        let text = fs::read_to_string(&log).unwrap_or_default();
        let said = text
            .get(before..)
            .is_some_and(|new| new.contains("ready to handle connections"));
        said && match listen {
            Listen::Unix(path) => UnixStream::connect(path).is_ok(),
            Listen::Tcp(_) => true,
        }
    })?;
    Ok(service)
}

fn configuration(dir: &Path, listen: &Listen, options: &FpmOptions) -> String {
    let mut text = format!(
        "[global]\nerror_log = {}\ndaemonize = no\n\n[test]\n",
        dir.join("php-fpm.log").display()
    );
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(text, "{name} = {value}");
    };
    match listen {
        Listen::Unix(path) => line("listen", &path.display().to_string()),
        Listen::Tcp(port) => line("listen", &format!("127.0.0.1:{port}")),
    }
    line("listen.mode", "0666");
    if let Some(user) = account::for_web() {
        line("user", &user.name);
        line("group", &user.gid.to_string());
    }
    line("pm", "static");
    line("pm.max_children", &options.workers.max(1).to_string());
    line("catch_workers_output", "yes");
    line("decorate_workers_output", "no");
    line(
        "php_admin_value[session.save_path]",
        &dir.join("sessions").display().to_string(),
    );
    line("php_admin_value[sendmail_path]", "/bin/true");
    line("php_admin_value[log_errors]", "1");
    for (name, value) in &options.pool {
        line(name, value);
    }
    for (name, value) in &options.ini {
        line(&format!("php_admin_value[{name}]"), &format!("\"{value}\""));
    }
    text
}

/// Debian names the program after its version and puts it into /usr/sbin.
pub(crate) const PHP_FPM: &[&str] = &[
    "php-fpm8.5",
    "php-fpm8.4",
    "php-fpm8.3",
    "php-fpm8.2",
    "php-fpm8.1",
    "php-fpm8.0",
    "php-fpm7.4",
    "php-fpm",
];
const START_PATIENCE: Duration = Duration::from_secs(60);
const TIMEOUT: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_reach_the_pool_file() {
        let options = FpmOptions {
            workers: 0,
            ini: vec![("memory_limit".into(), "64M".into())],
            pool: vec![("request_terminate_timeout".into(), "1s".into())],
            ..FpmOptions::default()
        };
        let text = configuration(Path::new("/d"), &Listen::Tcp(9123), &options);
        for wanted in [
            "listen = 127.0.0.1:9123\n",
            "pm.max_children = 1\n",
            "php_admin_value[memory_limit] = \"64M\"\n",
            "request_terminate_timeout = 1s\n",
        ] {
            assert!(text.contains(wanted), "{wanted} is not in\n{text}");
        }
    }
}
