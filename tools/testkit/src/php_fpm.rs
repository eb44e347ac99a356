//! Runs a private PHP-FPM: one pool on a unix socket or a TCP port, with a fixed number of workers.
//!
//! Its workers run as `www-data` if root starts it. It loads the machine's PHP modules, but no pools or settings of the
//! machine's PHP-FPM. PHP writes its log to FastCGI's stderr stream unless `error_log` is set.

use std::{
    fmt::Write as _,
    fs,
    os::unix::{fs::PermissionsExt, net::UnixStream},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use crate::{
    account, addresses,
    error::{Context, TestkitError},
    process::{Service, StopMode},
    programs,
};

/// The kind of address that a pool listens on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FpmListen {
    /// A unix socket in the pool's directory.
    Unix,
    /// A free port on 127.0.0.1.
    Tcp,
}

/// The configuration of a [`PhpFpm`].
#[derive(Debug, Clone)]
pub struct FpmOptions {
    /// The kind of address.
    pub listen: FpmListen,
    /// Number of workers, all of which start immediately.
    pub workers: usize,
    /// PHP settings, name and value, for example `("memory_limit", "64M")`.
    pub ini: Vec<(String, String)>,
    /// Settings that count for the master, such as those of opcache's memory: name and value.
    pub system: Vec<(String, String)>,
    /// Additional settings of the pool, name and value, for example `("request_terminate_timeout", "1s")`.
    pub pool: Vec<(String, String)>,
}

impl Default for FpmOptions {
    fn default() -> Self {
        Self {
            listen: FpmListen::Unix,
            workers: 2,
            ini: Vec::new(),
            system: Vec::new(),
            pool: Vec::new(),
        }
    }
}

/// A running pool.
#[derive(Debug)]
pub struct PhpFpm {
    service: Service,
    dir: PathBuf,
    address: ListenAddress,
}

#[derive(Debug, Clone)]
enum ListenAddress {
    Unix(PathBuf),
    Tcp(u16),
}

impl PhpFpm {
    /// Starts a pool with its files in `dir` and waits until it accepts requests.
    ///
    /// # Errors
    /// [`TestkitError::Missing`] if the package is not installed, [`TestkitError::Unreachable`] if this process runs as root
    /// and the workers cannot enter the directory, [`TestkitError::Ended`] or [`TestkitError::Timeout`] with the log if it does
    /// not start.
    pub fn start(dir: &Path, options: &FpmOptions) -> Result<Self, TestkitError> {
        fs::create_dir_all(dir).context(format_args!("create {}", dir.display()))?;
        let dir = fs::canonicalize(dir).context(format_args!("find {}", dir.display()))?;
        account::require_reachable(&dir)?;
        let sessions = dir.join("sessions");
        fs::create_dir_all(&sessions).context("create the directory of sessions")?;
        fs::set_permissions(&sessions, fs::Permissions::from_mode(0o1777))
            .context("make the directory of sessions writable")?;
        if !options.system.is_empty() {
            let folder = dir.join(SYSTEM_FOLDER);
            fs::create_dir_all(&folder).context("create the directory of settings")?;
            let lines = options.system.iter();
            let text: Vec<String> = lines
                .map(|(name, value)| format!("{name}=\"{value}\"\n"))
                .collect();
            fs::write(folder.join("zz-system.ini"), text.concat()).context("write settings")?;
        }
        let mut attempts = 0;
        loop {
            attempts += 1;
            let address = match options.listen {
                FpmListen::Unix => {
                    ListenAddress::Unix(addresses::socket_path(&dir, "php-fpm.sock")?)
                }
                FpmListen::Tcp => ListenAddress::Tcp(addresses::free_port()?),
            };
            let text = configuration(&dir, &address, options);
            fs::write(dir.join("php-fpm.conf"), text).context("write php-fpm.conf")?;
            match launch(&dir, &address) {
                Ok(service) => {
                    return Ok(Self {
                        service,
                        dir,
                        address,
                    });
                }
                // Another process has taken the port.
                Err(TestkitError::Ended { .. })
                    if matches!(address, ListenAddress::Tcp(_)) && attempts < 5 => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The address in the syntax of Galley's configuration: `unix:/path` or `127.0.0.1:port`.
    pub fn address(&self) -> String {
        match &self.address {
            ListenAddress::Unix(path) => format!("unix:{}", path.display()),
            ListenAddress::Tcp(port) => format!("127.0.0.1:{port}"),
        }
    }

    /// Process id of the master.
    pub fn pid(&self) -> u32 {
        self.service.pid()
    }

    /// Process ids of the current workers.
    pub fn workers(&self) -> Vec<u32> {
        let master = self.pid();
        let children = fs::read_to_string(format!("/proc/{master}/task/{master}/children"))
            .unwrap_or_default();
        children
            .split_whitespace()
            .filter_map(|pid| pid.parse().ok())
            .collect()
    }

    /// Kills master and workers with SIGKILL. [`restart`](Self::restart) starts them again.
    pub fn kill(&mut self) {
        self.service.kill();
    }

    /// Restarts the pool at the same address.
    pub fn restart(&mut self) -> Result<(), TestkitError> {
        self.service.kill();
        self.service = launch(&self.dir, &self.address)?;
        Ok(())
    }

    /// The last lines of the master's log.
    pub fn log(&self) -> String {
        self.service.log_tail()
    }
}

fn launch(dir: &Path, address: &ListenAddress) -> Result<Service, TestkitError> {
    let log = dir.join("php-fpm.log");
    // The master logs a line when it is ready. A restart appends to the log, so only new lines count.
    let old_length = fs::read_to_string(&log).map_or(0, |text| text.len());
    if let ListenAddress::Unix(path) = address {
        let _ = fs::remove_file(path);
    }
    let mut master = Command::new(programs::find(PHP_FPM)?);
    master
        .arg("--nodaemonize")
        .arg("--fpm-config")
        .arg(dir.join("php-fpm.conf"))
        .current_dir(dir);
    let system = dir.join(SYSTEM_FOLDER);
    if system.exists() {
        // After the folder of the distribution.
        master.env("PHP_INI_SCAN_DIR", format!(":{}", system.display()));
    }
    let mut service = Service::spawn("php-fpm", &mut master, &log, StopMode::Terminate(TIMEOUT))?;
    service.wait_until("the pool to be ready", START_TIMEOUT, || {
        let text = fs::read_to_string(&log).unwrap_or_default();
        let is_ready = text
            .get(old_length..)
            .is_some_and(|new| new.contains("ready to handle connections"));
        is_ready
            && match address {
                ListenAddress::Unix(path) => UnixStream::connect(path).is_ok(),
                ListenAddress::Tcp(_) => true,
            }
    })?;
    Ok(service)
}

fn configuration(dir: &Path, address: &ListenAddress, options: &FpmOptions) -> String {
    let mut text = format!(
        "[global]\nerror_log = {}\ndaemonize = no\n\n[test]\n",
        dir.join("php-fpm.log").display()
    );
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(text, "{name} = {value}");
    };
    match address {
        ListenAddress::Unix(path) => line("listen", &path.display().to_string()),
        ListenAddress::Tcp(port) => line("listen", &format!("127.0.0.1:{port}")),
    }
    line("listen.mode", "0666");
    if let Some(user) = account::web_user() {
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

/// The folder of the settings for the master.
const SYSTEM_FOLDER: &str = "system";

/// Debian's program names contain the version.
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
const START_TIMEOUT: Duration = Duration::from_secs(60);
const TIMEOUT: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_written_to_the_configuration() {
        let options = FpmOptions {
            workers: 0,
            ini: vec![("memory_limit".into(), "64M".into())],
            pool: vec![("request_terminate_timeout".into(), "1s".into())],
            ..FpmOptions::default()
        };
        let text = configuration(Path::new("/d"), &ListenAddress::Tcp(9123), &options);
        for expected in [
            "listen = 127.0.0.1:9123\n",
            "pm.max_children = 1\n",
            "php_admin_value[memory_limit] = \"64M\"\n",
            "request_terminate_timeout = 1s\n",
        ] {
            assert!(text.contains(expected), "{expected} is missing in\n{text}");
        }
    }
}
