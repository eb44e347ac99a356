//! A MariaDB of its own: data directory, unix socket, no network, small memory.
//!
//! Started by root it runs as the user `mysql` (as root itself where that user is missing), else as oneself. The
//! machine's configuration files are not read. Administration goes over the socket as the system user that
//! started it; WordPress gets an account with a password.

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
    error::{Context, TestkitError},
    place,
    process::{Farewell, Service, run},
};

/// Whether what is written must survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// For tests: nothing is forced to disk, and the end is a kill.
    Discard,
    /// For the demo: each commit is on disk, and the end is a shutdown.
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
    /// Starts a server whose data is `dir/data`; the first time, an empty one is made there. Ready when this returns.
    ///
    /// # Errors
    /// [`TestkitError::Missing`] without the package, [`TestkitError::Unreachable`] when root gave a directory that the
    /// database's user cannot enter, [`TestkitError::Ended`] or [`TestkitError::Late`] with the log when it does not start.
    pub fn start(dir: &Path, durability: Durability) -> Result<Self, TestkitError> {
        fs::create_dir_all(dir).context(format_args!("make {}", dir.display()))?;
        let dir = fs::canonicalize(dir).context(format_args!("find {}", dir.display()))?;
        account::require_reachable(&dir)?;
        let user = account::for_database();
        if let Some(user) = &user {
            // Only itself, not what is below: the socket and the log are made in it.
            std::os::unix::fs::chown(&dir, Some(user.uid), Some(user.gid))
                .context("give the database its directory")?;
        }
        if !dir.join("data").exists() {
            create_data(&dir, user.as_ref())?;
        }
        let socket = place::socket_path(&dir, "mariadb.sock")?;
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

    /// Runs SQL statements as the administrator; returns what they print, one row a line, columns separated by tabs.
    pub fn sql(&self, statements: &str) -> Result<String, TestkitError> {
        let mut client = Command::new(place::program(&["mariadb", "mysql"])?);
        client
            .arg("--no-defaults")
            .arg("--socket")
            .arg(&self.socket)
            .args(["--batch", "--skip-column-names", "-e", statements]);
        run("mariadb client", &mut client)
    }

    /// Ends the server at once, as a crash would. [`restart`](Self::restart) brings it back.
    pub fn kill(&mut self) {
        self.service.kill();
    }

    /// Starts it again on the same data and socket.
    pub fn restart(&mut self) -> Result<(), TestkitError> {
        self.service.kill();
        self.service = launch(&self.dir, &self.socket, self.durability)?;
        Ok(())
    }

    /// Shuts it down so that its data directory may be copied.
    pub fn stop(mut self) -> Result<ExitStatus, TestkitError> {
        self.service.stop(SHUTDOWN_PATIENCE)
    }

    /// The last lines of its log.
    pub fn log(&self) -> String {
        self.service.log_tail()
    }
}

/// A directory of the server's own for temporary tables. A server that starts removes every `#sql*` of its
/// `tmpdir`; in a shared `/tmp` those of its neighbours too, and their statements fail (of 20 installations, four at
/// a time, 5 failed).
fn own_tmpdir(dir: &Path, user: Option<&Account>) -> Result<String, TestkitError> {
    let tmpdir = dir.join("tmp");
    fs::create_dir_all(&tmpdir).context("make a directory for temporary tables")?;
    if let Some(user) = user {
        user.own(&tmpdir)?;
    }
    Ok(format!("--tmpdir={}", tmpdir.display()))
}

/// Makes the system tables beside the final place and moves them there, so that a half-made directory is never used.
fn create_data(dir: &Path, user: Option<&Account>) -> Result<(), TestkitError> {
    let unfinished = dir.join("data.unfinished");
    if unfinished.exists() {
        fs::remove_dir_all(&unfinished).context("remove an unfinished data directory")?;
    }
    fs::create_dir(&unfinished).context("make a data directory")?;
    if let Some(user) = user {
        user.own(&unfinished)?;
    }
    let me = run("id", Command::new("id").arg("-un"))?;
    let mut install = Command::new(place::program(&["mariadb-install-db", "mysql_install_db"])?);
    install
        .arg("--no-defaults")
        .arg(format!("--datadir={}", unfinished.display()))
        .arg(own_tmpdir(dir, user)?)
        .args([
            "--auth-root-authentication-method=socket",
            &format!("--auth-root-socket-user={}", me.trim()),
            "--skip-test-db",
            "--skip-name-resolve",
            // Without it the script gives up where the machine's own name has no address, as in many containers.
            "--force",
            "--innodb-log-file-size=4M",
            "--innodb-flush-method=nosync",
        ]);
    install.args(run_as(user));
    run("mariadb-install-db", &mut install)?;
    fs::rename(&unfinished, dir.join("data")).context("move the data directory into place")
}

fn launch(dir: &Path, socket: &Path, durability: Durability) -> Result<Service, TestkitError> {
    let user = account::for_database();
    let mut server = Command::new(place::program(&["mariadbd", "mysqld"])?);
    server
        .arg("--no-defaults")
        .arg(format!("--datadir={}", dir.join("data").display()))
        .arg(format!("--socket={}", socket.display()))
        .arg(format!("--pid-file={}", dir.join("mariadb.pid").display()))
        .arg(own_tmpdir(dir, user.as_ref())?)
        .args(SMALL)
        .args(match durability {
            Durability::Discard => DISCARD,
            Durability::Keep => KEEP,
        })
        .args(run_as(user.as_ref()))
        .current_dir(dir);
    // A killed server leaves its socket behind, and nothing answers on it.
    let _ = fs::remove_file(socket);
    let farewell = match durability {
        Durability::Discard => Farewell::Kill,
        Durability::Keep => Farewell::Ask(SHUTDOWN_PATIENCE),
    };
    let mut service = Service::spawn("mariadbd", &mut server, &dir.join("mariadb.log"), farewell)?;
    service.wait_until("the database to answer", START_PATIENCE, || greets(socket))?;
    Ok(service)
}

/// True when a server says hello: a packet head of four bytes, then protocol version 10.
fn greets(socket: &Path) -> bool {
    let Ok(mut stream) = UnixStream::connect(socket) else {
        return false;
    };
    let mut hello = [0; 5];
    stream.set_read_timeout(Some(GREETING_PATIENCE)).is_ok()
        && stream.read_exact(&mut hello).is_ok()
        && hello[4] == 10
}

fn run_as(user: Option<&Account>) -> Option<String> {
    match user {
        Some(user) => Some(format!("--user={}", user.name)),
        // The server refuses to be root unless told so.
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
    // Asynchronous I/O has one small budget for the whole machine: many servers at once would use it up.
    "--innodb-use-native-aio=0",
];
const DISCARD: &[&str] = &[
    "--innodb-flush-log-at-trx-commit=0",
    "--innodb-flush-method=nosync",
    "--innodb-doublewrite=0",
];
const KEEP: &[&str] = &["--innodb-flush-log-at-trx-commit=1"];
const START_PATIENCE: Duration = Duration::from_secs(60);
const SHUTDOWN_PATIENCE: Duration = Duration::from_secs(30);
const GREETING_PATIENCE: Duration = Duration::from_secs(2);
