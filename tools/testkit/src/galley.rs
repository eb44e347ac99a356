//! The server under test: starts the binary with a configuration, reads the addresses it prints, collects what it says.
//!
//! The binary is the one of `$GALLEY_BIN`, else of `$CARGO_BIN_EXE_galley`, else the one beside the test program. Its stderr
//! announces `galley: listening on http://ADDR` for each listener, `galley: admin on WHERE`, then `galley: ready`; all of
//! it, with the configuration, is printed when the owning test fails.

use std::{
    env, fs,
    io::{BufRead, BufReader},
    net::SocketAddr,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Output, Stdio},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use rustix::process::Signal;

use crate::{
    error::{Context, TestkitError},
    process::{Farewell, Service},
    wait::poll_until,
};

/// A running Galley.
#[derive(Debug)]
pub struct Galley {
    service: Service,
    binary: PathBuf,
    dir: PathBuf,
    config: PathBuf,
    heard: Arc<Mutex<Heard>>,
    listener: Option<thread::JoinHandle<()>>,
}

/// Under what circumstances a server starts; by default as its owner, with the owner's environment.
#[derive(Debug, Clone, Default)]
pub struct Launch {
    /// A program with its arguments that becomes the server in the end, by exec: `unshare --time`.
    pub through: Vec<String>,
    /// Variables that are added to the environment.
    pub env: Vec<(String, String)>,
    /// User and group to run as; only root may say.
    pub user: Option<(u32, u32)>,
}

impl Launch {
    fn command(&self, binary: &Path, dir: &Path) -> Command {
        let mut made = match self.through.split_first() {
            None => command(binary, dir),
            Some((program, arguments)) => {
                let mut made = command(Path::new(program), dir);
                made.args(arguments).arg(binary);
                made
            }
        };
        made.envs(self.env.iter().map(|(name, value)| (name, value)));
        if let Some((uid, gid)) = self.user {
            made.uid(uid).gid(gid);
        }
        made
    }
}

/// What stderr has said so far.
#[derive(Debug, Default)]
struct Heard {
    text: String,
    urls: Vec<String>,
    admin: Option<String>,
    ready: bool,
}

impl Galley {
    /// Writes `config` to `dir/galley.toml` and runs `galley run --config` with it. Ready when this returns. What the
    /// configuration says nothing of is quiet: no scheduled tasks, and time-outs that no slow machine runs into.
    ///
    /// # Errors
    /// [`TestkitError::Missing`] without a binary, [`TestkitError::Ended`] or [`TestkitError::Late`] with what it said when it does not
    /// become ready.
    pub fn start(dir: &Path, config: &str) -> Result<Self, TestkitError> {
        Self::start_binary(&binary()?, dir, config)
    }

    /// The same for a given program.
    pub fn start_binary(binary: &Path, dir: &Path, config: &str) -> Result<Self, TestkitError> {
        fs::create_dir_all(dir).context(format_args!("make {}", dir.display()))?;
        let file = dir.join("galley.toml");
        fs::write(&file, quiet(config)).context(format_args!("write {}", file.display()))?;
        Self::start_config(binary, dir, &file)
    }

    /// The same for a configuration file that exists. `dir` takes the log of stdout and the admin socket.
    pub fn start_config(binary: &Path, dir: &Path, config: &Path) -> Result<Self, TestkitError> {
        Self::start_under(binary, dir, config, &Launch::default())
    }

    /// The same under circumstances.
    pub fn start_under(
        binary: &Path,
        dir: &Path,
        config: &Path,
        launch: &Launch,
    ) -> Result<Self, TestkitError> {
        let mut command = launch.command(binary, dir);
        command.arg("run").arg("--config").arg(config);
        let out = fs::File::create(dir.join(STDOUT)).context("open the log of stdout")?;
        command.stdout(out).stderr(Stdio::piped());
        let mut service =
            Service::spawn_as_is("galley", &mut command, Farewell::Ask(STOP_PATIENCE))?;
        let heard = Arc::new(Mutex::new(Heard::default()));
        let listener = service.child().stderr.take().map(|stderr| {
            let heard = Arc::clone(&heard);
            thread::spawn(move || listen(BufReader::new(stderr), &heard))
        });
        let mut galley = Self {
            service,
            binary: binary.to_owned(),
            dir: dir.to_owned(),
            config: config.to_owned(),
            heard,
            listener,
        };
        galley.wait_until_ready()?;
        Ok(galley)
    }

    fn wait_until_ready(&mut self) -> Result<(), TestkitError> {
        let heard = Arc::clone(&self.heard);
        let outcome = self
            .service
            .wait_until("`galley: ready`", START_PATIENCE, || lock(&heard).ready);
        outcome.map_err(|trouble| {
            self.service.kill();
            self.join_listener();
            match trouble {
                TestkitError::Ended {
                    program, status, ..
                } => TestkitError::Ended {
                    program,
                    status,
                    log: self.log(),
                },
                TestkitError::Late { what, timeout, .. } => TestkitError::Late {
                    what,
                    timeout,
                    log: self.log(),
                },
                other => other,
            }
        })
    }

    /// `http://127.0.0.1:port` of the first listener, without a slash at the end.
    ///
    /// # Panics
    /// When it announced no listener.
    pub fn url(&self) -> String {
        self.urls()
            .first()
            .cloned()
            .expect("no listener was announced")
    }

    /// The URLs of all listeners, in the order announced.
    pub fn urls(&self) -> Vec<String> {
        lock(&self.heard).urls.clone()
    }

    /// Address of the first listener.
    ///
    /// # Panics
    /// When it announced no listener.
    pub fn addr(&self) -> SocketAddr {
        let url = self.url();
        let authority = url.split_once("://").map_or(url.as_str(), |(_, rest)| rest);
        authority
            .trim_end_matches('/')
            .parse()
            .expect("a listener is announced by its address")
    }

    /// Where the admin interface is, as announced: `unix:/path` or `http://ADDR`.
    pub fn admin(&self) -> Option<String> {
        lock(&self.heard).admin.clone()
    }

    /// Process id.
    pub fn pid(&self) -> u32 {
        self.service.pid()
    }

    /// The configuration file.
    pub fn config(&self) -> &Path {
        &self.config
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        self.service.signal(signal);
    }

    /// SIGKILL; returns when it is gone.
    pub fn kill(&mut self) {
        self.service.kill();
        self.join_listener();
    }

    /// True once it has ended, by itself or not.
    pub fn has_ended(&self) -> bool {
        self.service.has_ended()
    }

    /// Sends SIGTERM and waits; returns how it ended.
    ///
    /// # Panics
    /// When it does not end within 30 seconds; it is killed then.
    pub fn stop(&mut self) -> ExitStatus {
        let ended = self.service.stop(DRAIN_PATIENCE);
        self.join_listener();
        ended.unwrap_or_else(|trouble| panic!("{trouble}\n{}", self.log()))
    }

    /// Runs `galley SUBCOMMAND --config FILE REST` with the same configuration: `cli(&["purge", "--all"])`.
    pub fn cli(&self, arguments: &[&str]) -> Result<Output, TestkitError> {
        let mut command = command(&self.binary, &self.dir);
        let (subcommand, rest) = arguments
            .split_first()
            .map_or((None, arguments), |(first, rest)| (Some(first), rest));
        command
            .args(subcommand)
            .arg("--config")
            .arg(&self.config)
            .args(rest);
        command
            .stdin(Stdio::null())
            .output()
            .context(format_args!("run galley {}", arguments.join(" ")))
    }

    /// All that stderr has said so far.
    pub fn log(&self) -> String {
        lock(&self.heard).text.clone()
    }

    /// All that stdout has said so far: the access log, unless the configuration sends it elsewhere.
    pub fn stdout(&self) -> String {
        fs::read_to_string(self.dir.join(STDOUT)).unwrap_or_default()
    }

    /// Waits until stderr has a line with `words`.
    ///
    /// # Panics
    /// When `timeout` has passed first.
    #[track_caller]
    pub fn wait_for_log(&self, words: &str, timeout: Duration) {
        assert!(
            poll_until(timeout, || self.log().contains(words)),
            "waited {timeout:?} for `{words}` in\n{}",
            self.log()
        );
    }

    fn join_listener(&mut self) {
        if let Some(listener) = self.listener.take() {
            let _ = listener.join();
        }
    }
}

impl Drop for Galley {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("---- {} ----", self.config.display());
            eprintln!("{}", fs::read_to_string(&self.config).unwrap_or_default());
            eprintln!("---- galley's stderr ----\n{}", self.log());
            eprintln!(
                "---- galley's stdout, end ----\n{}",
                crate::process::tail(&self.dir.join(STDOUT))
            );
            // What it would still say while ending is of no interest, and a stuck server must not hold up the report.
            self.service.kill();
        }
    }
}

fn command(binary: &Path, dir: &Path) -> Command {
    let mut command = Command::new(binary);
    // The default admin socket lies in the runtime directory: each server gets its own.
    command.current_dir(dir).env("RUNTIME_DIRECTORY", dir);
    command
}

fn listen(lines: impl BufRead, heard: &Mutex<Heard>) {
    // Bytes, not text: a log line may quote anything a client sent.
    for line in lines.split(b'\n') {
        let Ok(line) = line else { return };
        let line = String::from_utf8_lossy(&line);
        let mut heard = lock(heard);
        if let Some(url) = line.strip_prefix("galley: listening on ") {
            heard.urls.push(url.trim().to_owned());
        } else if let Some(admin) = line.strip_prefix("galley: admin on ") {
            heard.admin = Some(admin.trim().to_owned());
        } else if line.trim_end() == "galley: ready" {
            heard.ready = true;
        }
        heard.text.push_str(&line);
        heard.text.push('\n');
    }
}

fn binary() -> Result<PathBuf, TestkitError> {
    let given = ["GALLEY_BIN", "CARGO_BIN_EXE_galley"]
        .iter()
        .find_map(env::var_os)
        .map(PathBuf::from);
    let beside = || {
        let program = env::current_exe().ok()?;
        let folder = program.parent()?;
        [folder.join("galley"), folder.parent()?.join("galley")]
            .into_iter()
            .find(|path| path.is_file())
    };
    given.or_else(beside).ok_or_else(|| TestkitError::Missing {
        program: "galley (build it, or set GALLEY_BIN)".to_owned(),
    })
}

/// The configuration with [`QUIET`] in each section that does not say otherwise, so that Galley does what a test asks for
/// and nothing else, however slow the machine is.
fn quiet(config: &str) -> String {
    let mut quiet = String::with_capacity(config.len());
    let mut lines = config.lines();
    while let Some(line) = lines.next() {
        quiet.push_str(line);
        quiet.push('\n');
        let own: Vec<&str> = lines
            .clone()
            .take_while(|line| !line.starts_with('['))
            .filter_map(|line| line.split_once('='))
            .map(|(name, _)| name.trim())
            .collect();
        for (section, name, value) in QUIET {
            if *section == line && !own.contains(name) {
                quiet.extend([name, " = \"", value, "\"\n"]);
            }
        }
    }
    quiet
}

/// Section, option and value. Scheduled tasks would ask PHP beside the test. The time-outs are beyond what any test waits:
/// none ends what a slow machine only delays, none does what the test expects of something else. (Requests that stand in
/// line for long are left a tenth of `queue_timeout`.)
const QUIET: &[(&str, &str, &str)] = &[
    ("[server]", "head_timeout", "10m"),
    ("[server]", "idle_timeout", "10m"),
    ("[server]", "body_timeout", "10m"),
    ("[server]", "write_timeout", "10m"),
    ("[[site]]", "cron", "off"),
    ("[[site]]", "queue_timeout", "1h"),
    ("[[site]]", "lock_age", "1h"),
    ("[[site]]", "connect_timeout", "10m"),
    ("[[site]]", "first_byte_timeout", "10m"),
    ("[[site]]", "read_timeout", "10m"),
];

fn lock(heard: &Mutex<Heard>) -> MutexGuard<'_, Heard> {
    heard.lock().unwrap_or_else(PoisonError::into_inner)
}

const STDOUT: &str = "galley.stdout";
const START_PATIENCE: Duration = Duration::from_secs(60);
const STOP_PATIENCE: Duration = Duration::from_secs(5);
const DRAIN_PATIENCE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scratch;

    /// A program that talks like Galley.
    fn stand_in(scratch: &Scratch, body: &str) -> PathBuf {
        let text = format!(
            "#!/bin/sh\nif [ \"$1\" != run ]; then echo \"args: $*\"; exit 7; fi\n\
             echo 'galley: listening on http://127.0.0.1:34567' >&2\n\
             echo 'galley: listening on http://[::1]:34568' >&2\n\
             echo 'galley: admin on unix:/run/x.sock' >&2\n{body}\n"
        );
        let path = scratch.join("galley");
        crate::process::write_executable(&path, &text).unwrap();
        path
    }

    const POLITE: &str = "echo 'galley: ready' >&2; trap 'echo bye >&2; exit 0' TERM; echo GET /; while :; do sleep 0.02; done";

    #[test]
    fn addresses_are_read_from_what_it_says() {
        let scratch = Scratch::new().unwrap();
        let binary = stand_in(&scratch, POLITE);
        let mut galley = Galley::start_binary(&binary, scratch.path(), "[admin]\n").unwrap();
        assert_eq!(galley.url(), "http://127.0.0.1:34567");
        assert_eq!(galley.addr().port(), 34567);
        assert_eq!(galley.urls().len(), 2);
        assert_eq!(galley.admin().as_deref(), Some("unix:/run/x.sock"));
        assert_eq!(fs::read_to_string(galley.config()).unwrap(), "[admin]\n");
        crate::wait_for("the access line", START_PATIENCE, || {
            galley.stdout() == "GET /\n"
        });
        let output = galley.cli(&["purge", "--all"]).unwrap();
        assert_eq!(output.status.code(), Some(7));
        let said = String::from_utf8(output.stdout).unwrap();
        assert_eq!(
            said,
            format!("args: purge --config {} --all\n", galley.config().display())
        );
        assert_eq!(galley.stop().code(), Some(0));
        assert!(
            galley.log().ends_with("bye\n"),
            "what is said at the end is heard: {}",
            galley.log()
        );
        assert!(galley.has_ended());
    }

    #[test]
    fn what_a_section_says_itself_is_left_as_it_is() {
        let own = "[server]\nhead_timeout = \"1s\"\n[[site]]\nlock_age = \"10ms\"\ncron = \"every minute\"\n\
                   [site.ttl]\nread_timeout = 1\n[[site]]\n";
        let quiet = quiet(own);
        let (server, sites) = quiet.split_once("[[site]]\n").unwrap();
        let (first, second) = sites.split_once("[[site]]\n").unwrap();
        let lines = |text: &str, name: &str| text.matches(&format!("{name} = ")).count();
        assert!(server.ends_with("head_timeout = \"1s\"\n") && lines(server, "head_timeout") == 1);
        assert_eq!(lines(server, "idle_timeout"), 1);
        assert_eq!([lines(first, "lock_age"), lines(first, "cron")], [1, 1]);
        assert_eq!(lines(first, "read_timeout"), 2, "one of each table");
        assert!(second.contains("cron = \"off\"\n") && second.contains("lock_age = \"1h\"\n"));
    }

    #[test]
    fn a_refused_configuration_is_shown() {
        let scratch = Scratch::new().unwrap();
        let binary = stand_in(&scratch, "echo 'unknown option `lisetn`' >&2; exit 2");
        let trouble = Galley::start_binary(&binary, scratch.path(), "")
            .unwrap_err()
            .to_string();
        assert!(
            trouble.contains("unknown option `lisetn`") && trouble.contains('2'),
            "{trouble}"
        );
    }

    #[test]
    fn kill_takes_it_at_once() {
        let scratch = Scratch::new().unwrap();
        let binary = stand_in(&scratch, POLITE);
        let mut galley = Galley::start_binary(&binary, scratch.path(), "").unwrap();
        galley.kill();
        assert!(galley.has_ended());
        assert!(!galley.log().contains("bye"));
    }
}
