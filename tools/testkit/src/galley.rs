//! Runs the server under test: starts the binary with a configuration, reads the addresses that it prints, and collects its
//! output.
//!
//! The binary is `$GALLEY_BIN`, otherwise `$CARGO_BIN_EXE_galley`, otherwise the one next to the test program. It prints
//! `galley: listening on http://ADDR` for each listener, `galley: admin on ADDRESS`, and finally `galley: ready` to stderr. If
//! the owning test fails, the configuration and the output are printed.

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
    process::{Service, StopMode},
    wait::poll_until,
};

/// A running Galley.
#[derive(Debug)]
pub struct Galley {
    service: Service,
    binary: PathBuf,
    dir: PathBuf,
    config: PathBuf,
    stderr: Arc<Mutex<StderrOutput>>,
    stderr_reader: Option<thread::JoinHandle<()>>,
}

/// The environment that a server starts in; by default the user and environment of this process.
#[derive(Debug, Clone, Default)]
pub struct Launch {
    /// A program with its arguments that executes the server by exec, such as `unshare --time`. May be empty.
    pub through: Vec<String>,
    /// Additional environment variables.
    pub env: Vec<(String, String)>,
    /// User and group ids to run as; requires root.
    pub user: Option<(u32, u32)>,
}

impl Launch {
    fn command(&self, binary: &Path, dir: &Path) -> Command {
        let mut launch = match self.through.split_first() {
            None => command(binary, dir),
            Some((program, arguments)) => {
                let mut launch = command(Path::new(program), dir);
                launch.args(arguments).arg(binary);
                launch
            }
        };
        launch.envs(self.env.iter().map(|(name, value)| (name, value)));
        if let Some((uid, gid)) = self.user {
            launch.uid(uid).gid(gid);
        }
        launch
    }
}

/// The output of stderr so far, and the addresses in it.
#[derive(Debug, Default)]
struct StderrOutput {
    text: String,
    urls: Vec<String>,
    admin: Option<String>,
    ready: bool,
}

impl Galley {
    /// Writes `config` to `dir/galley.toml`, runs `galley run --config` with it, and waits until the server is ready. Options
    /// that the configuration does not set get test defaults: no scheduled tasks, and timeouts that do not expire on a slow
    /// machine.
    ///
    /// # Errors
    /// [`TestkitError::Missing`] without a binary, [`TestkitError::Ended`] or [`TestkitError::Timeout`] with the output if the
    /// server does not become ready.
    pub fn start(dir: &Path, config: &str) -> Result<Self, TestkitError> {
        Self::start_binary(&binary()?, dir, config)
    }

    /// Starts a server from this binary, as [`start`](Self::start).
    pub fn start_binary(binary: &Path, dir: &Path, config: &str) -> Result<Self, TestkitError> {
        fs::create_dir_all(dir).context(format_args!("create {}", dir.display()))?;
        let file = dir.join("galley.toml");
        fs::write(&file, with_test_defaults(config))
            .context(format_args!("write {}", file.display()))?;
        Self::start_config(binary, dir, &file)
    }

    /// Starts a server with an existing configuration file, unchanged. The log of stdout and the admin socket are in `dir`.
    pub fn start_config(binary: &Path, dir: &Path, config: &Path) -> Result<Self, TestkitError> {
        Self::start_under(binary, dir, config, &Launch::default())
    }

    /// Starts a server with an existing configuration file in a given environment.
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
            Service::spawn_with_outputs("galley", &mut command, StopMode::Terminate(STOP_TIMEOUT))?;
        let output = Arc::new(Mutex::new(StderrOutput::default()));
        let stderr_reader = service.child().stderr.take().map(|pipe| {
            let output = Arc::clone(&output);
            thread::spawn(move || read_stderr(BufReader::new(pipe), &output))
        });
        let mut galley = Self {
            service,
            binary: binary.to_owned(),
            dir: dir.to_owned(),
            config: config.to_owned(),
            stderr: output,
            stderr_reader,
        };
        galley.wait_until_ready()?;
        Ok(galley)
    }

    fn wait_until_ready(&mut self) -> Result<(), TestkitError> {
        let stderr = Arc::clone(&self.stderr);
        let outcome = self
            .service
            .wait_until("`galley: ready`", START_TIMEOUT, || lock(&stderr).ready);
        outcome.map_err(|error| {
            self.service.kill();
            self.join_stderr_reader();
            match error {
                TestkitError::Ended {
                    program, status, ..
                } => TestkitError::Ended {
                    program,
                    status,
                    log: self.log(),
                },
                TestkitError::Timeout { what, timeout, .. } => TestkitError::Timeout {
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
    /// If the server printed no listener.
    pub fn url(&self) -> String {
        self.urls()
            .first()
            .cloned()
            .expect("the server printed no listener")
    }

    /// The URLs of all listeners, in the order of the output.
    pub fn urls(&self) -> Vec<String> {
        lock(&self.stderr).urls.clone()
    }

    /// Address of the first listener.
    ///
    /// # Panics
    /// If the server printed no listener.
    pub fn addr(&self) -> SocketAddr {
        let url = self.url();
        let authority = url.split_once("://").map_or(url.as_str(), |(_, rest)| rest);
        authority
            .trim_end_matches('/')
            .parse()
            .expect("the server prints the address of a listener")
    }

    /// The address of the admin interface as printed: `unix:/path` or `http://ADDR`.
    pub fn admin(&self) -> Option<String> {
        lock(&self.stderr).admin.clone()
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

    /// Sends SIGKILL and waits until the server has ended.
    pub fn kill(&mut self) {
        self.service.kill();
        self.join_stderr_reader();
    }

    /// True once the server has ended, for any reason.
    pub fn has_ended(&self) -> bool {
        self.service.has_ended()
    }

    /// Sends SIGTERM, waits, and returns the exit status.
    ///
    /// # Panics
    /// If the server does not end within 60 seconds; it is killed first.
    pub fn stop(&mut self) -> ExitStatus {
        let status = self.service.stop(DRAIN_TIMEOUT);
        self.join_stderr_reader();
        status.unwrap_or_else(|error| panic!("{error}\n{}", self.log()))
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

    /// The output of stderr so far.
    pub fn log(&self) -> String {
        lock(&self.stderr).text.clone()
    }

    /// The output of stdout so far: the access log, unless the configuration writes it to another destination.
    pub fn stdout(&self) -> String {
        fs::read_to_string(self.dir.join(STDOUT)).unwrap_or_default()
    }

    /// Waits until the output of stderr contains `words`.
    ///
    /// # Panics
    /// If `timeout` expires first.
    #[track_caller]
    pub fn wait_for_log(&self, words: &str, timeout: Duration) {
        assert!(
            poll_until(timeout, || self.log().contains(words)),
            "waited {timeout:?} for `{words}` in\n{}",
            self.log()
        );
    }

    fn join_stderr_reader(&mut self) {
        if let Some(reader) = self.stderr_reader.take() {
            let _ = reader.join();
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
            // SIGKILL, because a server that does not respond must not delay the report of the test.
            self.service.kill();
        }
    }
}

fn command(binary: &Path, dir: &Path) -> Command {
    let mut command = Command::new(binary);
    // The default admin socket is in the runtime directory, so each server needs a different one.
    command.current_dir(dir).env("RUNTIME_DIRECTORY", dir);
    command
}

fn read_stderr(lines: impl BufRead, output: &Mutex<StderrOutput>) {
    // Bytes, because a log line may contain any bytes that a client sent.
    for line in lines.split(b'\n') {
        let Ok(line) = line else { return };
        let line = String::from_utf8_lossy(&line);
        let mut output = lock(output);
        if let Some(url) = line.strip_prefix("galley: listening on ") {
            output.urls.push(url.trim().to_owned());
        } else if let Some(admin) = line.strip_prefix("galley: admin on ") {
            output.admin = Some(admin.trim().to_owned());
        } else if line.trim_end() == "galley: ready" {
            output.ready = true;
        }
        output.text.push_str(&line);
        output.text.push('\n');
    }
}

fn binary() -> Result<PathBuf, TestkitError> {
    let from_environment = ["GALLEY_BIN", "CARGO_BIN_EXE_galley"]
        .iter()
        .find_map(env::var_os)
        .map(PathBuf::from);
    let next_to_program = || {
        let program = env::current_exe().ok()?;
        let folder = program.parent()?;
        [folder.join("galley"), folder.parent()?.join("galley")]
            .into_iter()
            .find(|path| path.is_file())
    };
    from_environment
        .or_else(next_to_program)
        .ok_or_else(|| TestkitError::Missing {
            program: "galley (build it, or set GALLEY_BIN)".to_owned(),
        })
}

/// Adds [`TEST_DEFAULTS`] to each section that does not set these options.
fn with_test_defaults(config: &str) -> String {
    let mut out = String::with_capacity(config.len());
    let mut lines = config.lines();
    while let Some(line) = lines.next() {
        out.push_str(line);
        out.push('\n');
        let set: Vec<&str> = lines
            .clone()
            .take_while(|line| !line.starts_with('['))
            .filter_map(|line| line.split_once('='))
            .map(|(name, _)| name.trim())
            .collect();
        for (section, name, value) in TEST_DEFAULTS {
            if *section == line && !set.contains(name) {
                out.extend([name, " = \"", value, "\"\n"]);
            }
        }
    }
    out
}

/// Section, option and value. Scheduled tasks would send requests to PHP during the test. The timeouts are longer than any
/// test waits, so that none expires because the machine is slow, or causes an effect that the test expects from another
/// feature. (Requests that have waited for long in the queue get a tenth of `queue_timeout`.)
const TEST_DEFAULTS: &[(&str, &str, &str)] = &[
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

fn lock(output: &Mutex<StderrOutput>) -> MutexGuard<'_, StderrOutput> {
    output.lock().unwrap_or_else(PoisonError::into_inner)
}

const STDOUT: &str = "galley.stdout";
const START_TIMEOUT: Duration = Duration::from_secs(60);
const STOP_TIMEOUT: Duration = Duration::from_secs(5);
const DRAIN_TIMEOUT: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scratch;

    /// Writes a script that prints the same addresses as Galley and then runs `body`.
    fn fake_galley(scratch: &Scratch, body: &str) -> PathBuf {
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

    const STOPS_ON_SIGTERM: &str = "echo 'galley: ready' >&2; trap 'echo bye >&2; exit 0' TERM; echo GET /; while :; do sleep 0.02; done";

    #[test]
    fn addresses_are_read_from_the_output() {
        let scratch = Scratch::new().unwrap();
        let binary = fake_galley(&scratch, STOPS_ON_SIGTERM);
        let mut galley = Galley::start_binary(&binary, scratch.path(), "[admin]\n").unwrap();
        assert_eq!(galley.url(), "http://127.0.0.1:34567");
        assert_eq!(galley.addr().port(), 34567);
        assert_eq!(galley.urls().len(), 2);
        assert_eq!(galley.admin().as_deref(), Some("unix:/run/x.sock"));
        assert_eq!(fs::read_to_string(galley.config()).unwrap(), "[admin]\n");
        crate::wait_for("the access line", START_TIMEOUT, || {
            galley.stdout() == "GET /\n"
        });
        let output = galley.cli(&["purge", "--all"]).unwrap();
        assert_eq!(output.status.code(), Some(7));
        assert_eq!(
            String::from_utf8(output.stdout).unwrap(),
            format!("args: purge --config {} --all\n", galley.config().display())
        );
        assert_eq!(galley.stop().code(), Some(0));
        assert!(
            galley.log().ends_with("bye\n"),
            "the last output is missing: {}",
            galley.log()
        );
        assert!(galley.has_ended());
    }

    #[test]
    fn test_defaults_do_not_replace_options_of_the_configuration() {
        let config = "[server]\nhead_timeout = \"1s\"\n[[site]]\nlock_age = \"10ms\"\ncron = \"every minute\"\n\
                   [site.ttl]\nread_timeout = 1\n[[site]]\n";
        let config = with_test_defaults(config);
        let (server, sites) = config.split_once("[[site]]\n").unwrap();
        let (first, second) = sites.split_once("[[site]]\n").unwrap();
        let lines = |text: &str, name: &str| text.matches(&format!("{name} = ")).count();
        assert!(server.ends_with("head_timeout = \"1s\"\n") && lines(server, "head_timeout") == 1);
        assert_eq!(lines(server, "idle_timeout"), 1);
        assert_eq!([lines(first, "lock_age"), lines(first, "cron")], [1, 1]);
        assert_eq!(lines(first, "read_timeout"), 2, "one in each table");
        assert!(second.contains("cron = \"off\"\n") && second.contains("lock_age = \"1h\"\n"));
    }

    #[test]
    fn an_invalid_configuration_is_reported_with_the_output() {
        let scratch = Scratch::new().unwrap();
        let binary = fake_galley(&scratch, "echo 'unknown option `lisetn`' >&2; exit 2");
        let error = Galley::start_binary(&binary, scratch.path(), "")
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("unknown option `lisetn`") && error.contains('2'),
            "{error}"
        );
    }

    #[test]
    fn kill_ends_the_server_without_a_graceful_shutdown() {
        let scratch = Scratch::new().unwrap();
        let binary = fake_galley(&scratch, STOPS_ON_SIGTERM);
        let mut galley = Galley::start_binary(&binary, scratch.path(), "").unwrap();
        galley.kill();
        assert!(galley.has_ended());
        assert!(!galley.log().contains("bye"));
    }
}
