//! Runs a private MariaDB with its own data directory, on a unix socket, without network access, with small buffers.
//!
//! If root starts it, it runs as the user `mysql`, or as root if that user does not exist; otherwise as the current user. It
//! does not read the machine's configuration files. The system user that started it has administrative access through the
//! socket; WordPress gets an account with a password.

use std::{
    fs,
    io::Read,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Command, ExitStatus},
    time::Duration,
};

use crate::{
    account::{self, Account},
    addresses,
    error::{Context, TestkitError},
    process::{Service, StopMode, run},
    programs,
};

/// Whether the data must survive a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// For tests: the server never syncs to disk, and is stopped with SIGKILL.
    Discard,
    /// For the demo: the server syncs each commit to disk, and is shut down.
    Keep,
}

/// A running database server.
#[derive(Debug)]
pub struct MariaDb {
    service: Service,
    dir: PathBuf,
    socket: PathBuf,
    durability: Durability,
}

impl MariaDb {
    /// Starts a server with its data in `dir/data`, which is initialized if it does not exist, and waits until it is ready.
    ///
    /// # Errors
    /// [`TestkitError::Missing`] if the package is not installed, [`TestkitError::Unreachable`] if this process runs as root
    /// and the database's user cannot enter the directory, [`TestkitError::Ended`] or [`TestkitError::Timeout`] with the log if
    /// it does not start.
    pub fn start(dir: &Path, durability: Durability) -> Result<Self, TestkitError> {
        fs::create_dir_all(dir).context(format_args!("create {}", dir.display()))?;
        let dir = fs::canonicalize(dir).context(format_args!("find {}", dir.display()))?;
        account::require_reachable(&dir)?;
        let user = account::database_user();
        if let Some(user) = &user {
            // Only the directory itself: the server creates the socket and the log in it.
            std::os::unix::fs::chown(&dir, Some(user.uid), Some(user.gid))
                .context("change the owner of the database directory")?;
        }
        if !dir.join("data").exists() {
            create_data(&dir, user.as_ref())?;
        }
        let socket = addresses::socket_path(&dir, "mariadb.sock")?;
        let service = launch(&dir, &socket, durability)?;
        Ok(Self {
            service,
            dir,
            socket,
            durability,
        })
    }

    /// The unix socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Process id of the server.
    pub fn pid(&self) -> u32 {
        self.service.pid()
    }

    /// Runs SQL statements as the administrator; returns the rows, one per line, with columns separated by tabs.
    pub fn sql(&self, statements: &str) -> Result<String, TestkitError> {
        let mut client = Command::new(programs::find(&["mariadb", "mysql"])?);
        client
            .arg("--no-defaults")
            .arg("--socket")
            .arg(&self.socket)
            .args(["--batch", "--skip-column-names", "-e", statements]);
        run("mariadb client", &mut client)
    }

    /// Writes the database `name` with its views, triggers and data to a file, for [`restore`](Self::restore).
    pub fn dump(&self, name: &str, file: &Path) -> Result<(), TestkitError> {
        let mut client = Command::new(programs::find(&["mariadb-dump", "mysqldump"])?);
        client
            .arg("--no-defaults")
            .arg("--socket")
            .arg(&self.socket)
            .args(["--skip-lock-tables", "--result-file"])
            .arg(file)
            .arg(name);
        run("mariadb-dump", &mut client).map(drop)
    }

    /// Replaces everything in the database `name` by the content of a file of [`dump`](Self::dump).
    pub fn restore(&self, name: &str, file: &Path) -> Result<(), TestkitError> {
        self.sql(&format!(
            "DROP DATABASE {name}; CREATE DATABASE {name} CHARACTER SET utf8mb4; USE {name}; SOURCE {};",
            file.display()
        ))
        .map(drop)
    }

    /// Kills the server with SIGKILL, like a crash. [`restart`](Self::restart) starts it again.
    pub fn kill(&mut self) {
        self.service.kill();
    }

    /// Restarts the server with the same data and socket.
    pub fn restart(&mut self) -> Result<(), TestkitError> {
        self.service.kill();
        self.service = launch(&self.dir, &self.socket, self.durability)?;
        Ok(())
    }

    /// Shuts the server down, so that its data directory can be copied.
    pub fn stop(mut self) -> Result<ExitStatus, TestkitError> {
        self.service.stop(SHUTDOWN_TIMEOUT)
    }

    /// The last lines of the log.
    pub fn log(&self) -> String {
        self.service.log_tail()
    }
}

/// Creates a private directory for temporary tables and returns the option for it. A starting server removes every `#sql*`
/// file of its `tmpdir`. In a shared `/tmp` it also removes those of other servers, whose statements then fail (5 of 20
/// installations failed, with four at a time).
fn private_tmpdir(dir: &Path, user: Option<&Account>) -> Result<String, TestkitError> {
    let tmpdir = dir.join("tmp");
    fs::create_dir_all(&tmpdir).context("create a directory for temporary tables")?;
    if let Some(user) = user {
        user.chown(&tmpdir)?;
    }
    Ok(format!("--tmpdir={}", tmpdir.display()))
}

/// Creates the system tables in a temporary directory and renames it, so that no incomplete directory is ever used.
fn create_data(dir: &Path, user: Option<&Account>) -> Result<(), TestkitError> {
    let unfinished = dir.join("data.unfinished");
    if unfinished.exists() {
        fs::remove_dir_all(&unfinished).context("remove an unfinished data directory")?;
    }
    fs::create_dir(&unfinished).context("create a data directory")?;
    if let Some(user) = user {
        user.chown(&unfinished)?;
    }
    let current_user = run("id", Command::new("id").arg("-un"))?;
    let mut install = Command::new(programs::find(&["mariadb-install-db", "mysql_install_db"])?);
    install
        .arg("--no-defaults")
        .arg(format!("--datadir={}", unfinished.display()))
        .arg(private_tmpdir(dir, user)?)
        .args([
            "--auth-root-authentication-method=socket",
            &format!("--auth-root-socket-user={}", current_user.trim()),
            "--skip-test-db",
            "--skip-name-resolve",
            // Without this option the script fails if the machine's host name does not resolve, as in many containers.
            "--force",
            "--innodb-log-file-size=4M",
            "--innodb-flush-method=nosync",
        ]);
    install.args(run_as(user));
    run("mariadb-install-db", &mut install)?;
    fs::rename(&unfinished, dir.join("data")).context("rename the data directory")
}

fn launch(dir: &Path, socket: &Path, durability: Durability) -> Result<Service, TestkitError> {
    let user = account::database_user();
    let mut server = Command::new(programs::find(&["mariadbd", "mysqld"])?);
    server
        .arg("--no-defaults")
        .arg(format!("--datadir={}", dir.join("data").display()))
        .arg(format!("--socket={}", socket.display()))
        .arg(format!("--pid-file={}", dir.join("mariadb.pid").display()))
        .arg(private_tmpdir(dir, user.as_ref())?)
        .args(SMALL)
        .args(match durability {
            Durability::Discard => DISCARD,
            Durability::Keep => KEEP,
        })
        .args(run_as(user.as_ref()))
        .current_dir(dir);
    // A killed server does not remove its socket.
    let _ = fs::remove_file(socket);
    let stop_mode = match durability {
        Durability::Discard => StopMode::Kill,
        Durability::Keep => StopMode::Terminate(SHUTDOWN_TIMEOUT),
    };
    let mut service = Service::spawn("mariadbd", &mut server, &dir.join("mariadb.log"), stop_mode)?;
    service.wait_until("the database to accept connections", START_TIMEOUT, || {
        sends_handshake(socket)
    })?;
    Ok(service)
}

/// True if a server sends its initial handshake: a packet header of four bytes and protocol version 10.
fn sends_handshake(socket: &Path) -> bool {
    let Ok(mut stream) = UnixStream::connect(socket) else {
        return false;
    };
    let mut handshake = [0; 5];
    stream.set_read_timeout(Some(HANDSHAKE_TIMEOUT)).is_ok()
        && stream.read_exact(&mut handshake).is_ok()
        && handshake[4] == 10
}

fn run_as(user: Option<&Account>) -> Option<String> {
    match user {
        Some(user) => Some(format!("--user={}", user.name)),
        // The server refuses to run as root without this option.
        None if account::runs_as_root() => Some("--user=root".to_owned()),
        None => None,
    }
}

const SMALL: &[&str] = &[
    "--skip-networking",
    "--skip-name-resolve",
    "--skip-log-bin",
    "--performance-schema=0",
    "--innodb-buffer-pool-size=48M",
    "--innodb-log-file-size=4M",
    "--key-buffer-size=1M",
    "--aria-pagecache-buffer-size=4M",
    "--thread-cache-size=8",
    "--max-connections=200",
    "--character-set-server=utf8mb4",
    "--collation-server=utf8mb4_unicode_ci",
    // The kernel limits asynchronous I/O for the whole machine; many concurrent servers would exceed the limit.
    "--innodb-use-native-aio=0",
];
const DISCARD: &[&str] = &[
    "--innodb-flush-log-at-trx-commit=0",
    "--innodb-flush-method=nosync",
    "--innodb-doublewrite=0",
];
const KEEP: &[&str] = &["--innodb-flush-log-at-trx-commit=1"];
const START_TIMEOUT: Duration = Duration::from_secs(60);
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(30);
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(2);
