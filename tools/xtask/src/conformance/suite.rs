//! The public cache suite, its origin started, its tests run.
//!
//! It is a folder that somebody gives, or the repository at [`COMMIT`], or the package of npm, which is years older. It is not
//! part of this repository: what is fetched lies below the folder of results, which git ignores.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use super::program::Program;
use super::verdict::Test;
use crate::demo::CommandError;

/// The repository, and the commit that the results are about.
const REPOSITORY: &str = "https://github.com/http-tests/cache-tests.git";
pub(super) const COMMIT: &str = "b55b8bd";

/// The package of npm that comes next to it: years older, and in places against RFC 9111.
const PACKAGE: &str = "http-cache-tests@0.4.5";

/// What the suite's own `package.json` has its client need; the rest of it is for its website.
const UNDICI: &str = "undici@7";

/// The suite on disk.
pub(super) struct Suite {
    /// Where `tests` lies.
    folder: PathBuf,
    layout: Layout,
    driver: PathBuf,
}

/// Where client and server lie.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Layout {
    /// In `test-engine`, since 2025.
    Engine,
    /// Beside `tests`: the package of npm.
    Package,
}

impl Layout {
    fn of(folder: &Path) -> Option<Self> {
        [Self::Engine, Self::Package].into_iter().find(|layout| {
            let engine = folder.join(layout.engine());
            engine.join("client/runner.mjs").is_file() && folder.join("tests/index.mjs").is_file()
        })
    }

    fn engine(self) -> &'static str {
        match self {
            Self::Engine => "test-engine",
            Self::Package => ".",
        }
    }
}

impl Suite {
    /// The suite in `given`; without it, below `dir`, where it is fetched to unless it is there.
    pub(super) fn install(dir: &Path, given: Option<&Path>) -> Result<Self, CommandError> {
        let home = dir.join("suite");
        fs::create_dir_all(&home)?;
        fs::write(home.join("package.json"), "{ \"private\": true }\n")?;
        let folder = match given {
            Some(given) => copy(given, &home)?,
            None => fetch(&home).or_else(|complaint| {
                eprintln!(
                    "conformance: warning: the suite's repository cannot be fetched ({complaint}); running {PACKAGE} of npm, \
                     which is years older and contradicts RFC 9111 in places. Give a copy of the repository with SUITE=DIR"
                );
                npm(&home, PACKAGE)?;
                Ok::<_, CommandError>(home.join("node_modules/http-cache-tests"))
            })?,
        };
        let layout = Layout::of(&folder)
            .ok_or_else(|| format!("`{}` holds no cache suite", folder.display()))?;
        if layout == Layout::Engine && !home.join("node_modules/undici").is_dir() {
            npm(&home, UNDICI)?;
        }
        let driver = home.join("driver.mjs");
        fs::write(&driver, include_str!("driver.mjs"))?;
        Ok(Self {
            folder,
            layout,
            driver,
        })
    }

    /// Starts the suite's origin. It keeps what it has seen in memory, so each server gets one of its own.
    pub(super) fn origin(&self, dir: &Path) -> Result<(Program, SocketAddr), CommandError> {
        let port = galley_testkit::free_port()?;
        let addr = SocketAddr::from(([127, 0, 0, 1], port));
        let mut command = Command::new("node");
        command
            .arg("--no-warnings")
            .arg(format!("{}/server/server.mjs", self.layout.engine()))
            .current_dir(&self.folder)
            .env("npm_config_protocol", "http")
            .env("npm_config_port", port.to_string())
            .env("npm_config_pidfile", dir.join("origin.pid"));
        let origin = Program::start(&command, &dir.join("origin.log"))?;
        Ok((origin.listening(addr)?, addr))
    }

    /// Runs all tests against the server at `addr`.
    pub(super) fn run(&self, addr: SocketAddr) -> Result<Vec<Test>, CommandError> {
        let output = Command::new("node")
            .arg("--no-warnings")
            .arg(&self.driver)
            .arg(&self.folder)
            .arg(self.layout.engine())
            .arg(format!("http://{addr}"))
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()?;
        if !output.status.success() {
            return Err(format!("the suite ended with {}", output.status).into());
        }
        let text = String::from_utf8_lossy(&output.stdout);
        // The suite talks before the last line.
        let json = text.lines().last().unwrap_or_default();
        serde_json::from_str(json)
            .map_err(|e| format!("the suite's results cannot be read: {e}").into())
    }
}

/// A copy of `given` below `home`, so that node finds what is installed there, and nothing is written to what is given.
fn copy(given: &Path, home: &Path) -> Result<PathBuf, CommandError> {
    if Layout::of(given).is_none() {
        return Err(format!(
            "`{}` holds no cache suite: give the folder that has `tests` and `test-engine`",
            given.display()
        )
        .into());
    }
    let folder = home.join("given");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    let mut copy = Command::new("cp");
    copy.arg("-r");
    for part in [
        "package.json",
        "tests",
        "test-engine",
        "client",
        "server",
        "lib",
    ] {
        let path = given.join(part);
        if path.exists() {
            copy.arg(path);
        }
    }
    succeed(copy.arg(&folder))?;
    Ok(folder)
}

/// The repository at [`COMMIT`], fetched unless it is there.
fn fetch(home: &Path) -> Result<PathBuf, CommandError> {
    let folder = home.join(COMMIT);
    if Layout::of(&folder).is_some() {
        return Ok(folder);
    }
    eprintln!("conformance: fetching {REPOSITORY} at {COMMIT}");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    let git = || {
        let mut git = Command::new("git");
        // Nobody is there to be asked for a password.
        git.env("GIT_TERMINAL_PROMPT", "0");
        git
    };
    let mut clone = git();
    clone.args([
        "clone",
        "--quiet",
        "--filter=blob:none",
        "--no-checkout",
        REPOSITORY,
    ]);
    succeed(clone.arg(&folder))?;
    let mut checkout = git();
    checkout.arg("-C").arg(&folder);
    succeed(checkout.args(["checkout", "--quiet", "--detach", COMMIT]))?;
    Ok(folder)
}

fn npm(home: &Path, package: &str) -> Result<(), CommandError> {
    let name = package.rsplit_once('@').map_or(package, |(name, _)| name);
    if home.join("node_modules").join(name).is_dir() {
        return Ok(());
    }
    eprintln!("conformance: installing {package} with npm");
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-audit", "--no-fund", "--silent", package]);
    succeed(npm.current_dir(home))
}

/// Runs a program whose output nobody reads but whose errors everybody sees.
fn succeed(command: &mut Command) -> Result<(), CommandError> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .map_err(|e| format!("{name} does not start: {e}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{name} failed: {status}").into())
    }
}
