//! Starts the old server with a copy of its configuration.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use galley_import::{CopiedListener, ServerCopy, ServerKind, copy};
use tokio::net::TcpStream;
use tokio::process::Command;
use tokio::time::Instant;

use super::error::TryError;
use super::process::ProcessGroup;
use super::workplace::TestWorkspace;
use crate::setup::Machine;

/// The old server, on loopback ports.
pub(super) struct OldServer {
    process: ProcessGroup,
    pub(super) listeners: Vec<CopiedListener>,
}

/// A copy of the old configuration, and the command that runs the server with it.
pub(super) struct PreparedServer {
    pub(super) name: &'static str,
    pub(super) copy: ServerCopy,
    command: Command,
}

/// Copies the configuration.
pub(super) fn prepare(
    machine: &Machine,
    kind: ServerKind,
    main: &Path,
    workplace: &TestWorkspace,
) -> Result<PreparedServer, TryError> {
    let copy = copy(machine, kind, main, workplace.copy())?;
    let folder = workplace.path();
    let file = folder.join("old-server.conf");
    fs::write(&file, &copy.text)?;
    workplace.write_passwords(copy.passwords.len())?;
    let (name, names): (_, &[&str]) = match kind {
        ServerKind::Nginx => ("nginx", &["nginx"]),
        ServerKind::Apache => ("Apache", &["apache2", "httpd"]),
        ServerKind::Varnish => ("Varnish", &["varnishd", "vinyld"]),
        ServerKind::Caddy => ("Caddy", &["caddy"]),
    };
    let program = names.iter().find_map(|name| program(name));
    let mut command = Command::new(program.ok_or(TryError::NoProgram(name))?);
    match kind {
        ServerKind::Nginx => {
            command.arg("-c").arg(&file);
        }
        ServerKind::Apache => {
            command.arg("-DFOREGROUND").arg("-f").arg(&file);
            apache_variables(machine, main, folder, &mut command);
        }
        ServerKind::Varnish => {
            let port = copy.listeners.first().map_or(0, |one| one.port);
            command
                .arg("-F")
                .arg("-a")
                .arg(format!("127.0.0.1:{port}"))
                .arg("-f")
                .arg(&file);
            command
                .arg("-n")
                .arg(folder.join("varnish"))
                .args(["-s", "malloc,64m", "-j", "none"]);
            let includes = main.parent().unwrap_or(Path::new("/")).display();
            command.arg("-p").arg(format!(
                "vcl_path={includes}:/usr/share/varnish/vcl:/usr/share/vinyl-cache/vcl:/usr/share/vinyl/vcl"
            ));
        }
        ServerKind::Caddy => {
            command
                .args(["run", "--adapter", "caddyfile", "--config"])
                .arg(&file);
            command.current_dir(main.parent().unwrap_or(Path::new("/")));
            command
                .env("XDG_DATA_HOME", folder)
                .env("XDG_CONFIG_HOME", folder);
        }
    }
    Ok(PreparedServer {
        name,
        copy,
        command,
    })
}

impl OldServer {
    /// Starts the server, and waits until it listens.
    pub(super) async fn start(prepared: PreparedServer, folder: &Path) -> Result<Self, TryError> {
        let process = ProcessGroup::start(prepared.command, &folder.join("old-server.log"))?;
        let mut server = Self {
            process,
            listeners: Vec::new(),
        };
        let deadline = Instant::now() + START_TIMEOUT;
        // A listener of a module that is not loaded never opens.
        let mut settled = deadline;
        loop {
            if server.process.has_ended() || Instant::now() > deadline {
                let log = fs::read_to_string(folder.join("error.log")).unwrap_or_default();
                return Err(TryError::OldServer(server.process.last_output() + &log));
            }
            server.listeners = listening(&prepared.copy.listeners).await;
            let is_whole = server.listeners.len() == prepared.copy.listeners.len();
            if is_whole || Instant::now() > settled {
                return Ok(server);
            }
            if !server.listeners.is_empty() {
                settled = settled.min(Instant::now() + SETTLING);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Ends the server and its workers.
    pub(super) async fn stop(self) {
        self.process.stop().await;
    }
}

/// The listeners that accept a connection.
async fn listening(all: &[CopiedListener]) -> Vec<CopiedListener> {
    let mut open = Vec::new();
    for listener in all {
        if TcpStream::connect(address(listener)).await.is_ok() {
            open.push(listener.clone());
        }
    }
    open
}

/// The address of a listener.
pub(super) fn address(listener: &CopiedListener) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], listener.port))
}

/// Finds a program in `PATH` or the usual folders for servers.
fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders =
        std::env::split_paths(&path).chain(["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from));
    folders
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}

/// Sets the variables of Debian's configuration, with the folders of the test.
fn apache_variables(machine: &Machine, main: &Path, folder: &Path, command: &mut Command) {
    use galley_import::Source as _;
    let file = main.parent().unwrap_or(Path::new("/")).join("envvars");
    for line in machine.text(&file).unwrap_or_default().lines() {
        if let Some((name, value)) = line
            .trim()
            .strip_prefix("export ")
            .and_then(|rest| rest.split_once('='))
            && !value.contains('$')
        {
            command.env(name, value.trim_matches(['"', '\'']));
        }
    }
    for name in ["APACHE_RUN_DIR", "APACHE_LOCK_DIR", "APACHE_LOG_DIR"] {
        command.env(name, folder);
    }
    command.env("APACHE_PID_FILE", folder.join("apache.pid"));
}

const START_TIMEOUT: Duration = Duration::from_secs(30);
/// The time to wait for further listeners after the first: servers open them one after the other.
const SETTLING: Duration = Duration::from_millis(300);
const PAUSE: Duration = Duration::from_millis(50);
