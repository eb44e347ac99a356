//! Installs the public cache test suite, starts its origin server, and runs its tests.
//!
//! The suite is a given folder, or the repository at [`COMMIT`], or the npm package, which is years older. It is not part of this
//! repository: it is fetched to the folder of the results, which git ignores.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use super::verdict::TestResult;
use crate::{error::CommandError, program::Program};

/// The repository, and the commit that is tested.
const REPOSITORY: &str = "https://github.com/http-tests/cache-tests.git";
pub(super) const COMMIT: &str = "b55b8bd";

/// The closest npm package: years older, and in places contrary to RFC 9111.
const PACKAGE: &str = "http-cache-tests@0.4.5";

/// The dependency of the suite's client. The other dependencies in its `package.json` are for its website.
const UNDICI: &str = "undici@7";

/// The suite on disk.
pub(super) struct Suite {
    /// The folder that contains `tests`.
    folder: PathBuf,
    layout: Layout,
    driver: PathBuf,
}

/// The location of the suite's client and server.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Layout {
    /// In `test-engine`, since 2025.
    Engine,
    /// Next to `tests`, in the npm package.
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
    /// Installs the suite from `local_copy`, or fetches it to `dir` unless it exists there.
    pub(super) fn install(dir: &Path, local_copy: Option<&Path>) -> Result<Self, CommandError> {
        let suite_dir = dir.join("suite");
        fs::create_dir_all(&suite_dir)?;
        fs::write(suite_dir.join("package.json"), "{ \"private\": true }\n")?;
        let folder = match local_copy {
            Some(local_copy) => copy_suite(local_copy, &suite_dir)?,
            None => fetch(&suite_dir).or_else(|error| {
                eprintln!(
                    "conformance: warning: the suite's repository cannot be fetched ({error}); running the npm package {PACKAGE}, \
                     which is years older and contradicts RFC 9111 in places. Give a copy of the repository with SUITE=DIR"
                );
                npm(&suite_dir, PACKAGE)?;
                Ok::<_, CommandError>(suite_dir.join("node_modules/http-cache-tests"))
            })?,
        };
        let layout = Layout::of(&folder)
            .ok_or_else(|| format!("`{}` does not contain the cache suite", folder.display()))?;
        if layout == Layout::Engine && !suite_dir.join("node_modules/undici").is_dir() {
            npm(&suite_dir, UNDICI)?;
        }
        let driver = suite_dir.join("driver.mjs");
        fs::write(&driver, include_str!("driver.mjs"))?;
        Ok(Self {
            folder,
            layout,
            driver,
        })
    }

    /// Starts the suite's origin server. It stores requests in memory, so each server needs a separate one.
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
        let mut origin = Program::spawn(&command, dir.join("origin.log"))?;
        origin.wait_until_listening(addr)?;
        Ok((origin, addr))
    }

    /// Runs all tests against the server at `addr`.
    pub(super) fn run(&self, addr: SocketAddr) -> Result<Vec<TestResult>, CommandError> {
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
            return Err(format!("the suite exited with {}", output.status).into());
        }
        let text = String::from_utf8_lossy(&output.stdout);
        // The suite prints other text before the last line.
        let json = text.lines().last().unwrap_or_default();
        serde_json::from_str(json)
            .map_err(|e| format!("the suite's results cannot be read: {e}").into())
    }
}

/// Copies `local_copy` to `suite_dir`, so that node finds the packages that are installed there, and the original is not changed.
fn copy_suite(local_copy: &Path, suite_dir: &Path) -> Result<PathBuf, CommandError> {
    if Layout::of(local_copy).is_none() {
        return Err(format!(
            "`{}` does not contain the cache suite: give the folder with `tests` and `test-engine`",
            local_copy.display()
        )
        .into());
    }
    let folder = suite_dir.join("local");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    let mut cp = Command::new("cp");
    cp.arg("-r");
    for part in [
        "package.json",
        "tests",
        "test-engine",
        "client",
        "server",
        "lib",
    ] {
        let path = local_copy.join(part);
        if path.exists() {
            cp.arg(path);
        }
    }
    run_to_success(cp.arg(&folder))?;
    Ok(folder)
}

/// Fetches the repository at [`COMMIT`], unless it exists.
fn fetch(suite_dir: &Path) -> Result<PathBuf, CommandError> {
    let folder = suite_dir.join(COMMIT);
    if Layout::of(&folder).is_some() {
        return Ok(folder);
    }
    eprintln!("conformance: fetching {REPOSITORY} at {COMMIT}");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    let git = || {
        let mut git = Command::new("git");
        // Fail instead of prompting for a password.
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
    run_to_success(clone.arg(&folder))?;
    let mut checkout = git();
    checkout.arg("-C").arg(&folder);
    run_to_success(checkout.args(["checkout", "--quiet", "--detach", COMMIT]))?;
    Ok(folder)
}

fn npm(suite_dir: &Path, package: &str) -> Result<(), CommandError> {
    let name = package.rsplit_once('@').map_or(package, |(name, _)| name);
    if suite_dir.join("node_modules").join(name).is_dir() {
        return Ok(());
    }
    eprintln!("conformance: installing {package} with npm");
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-audit", "--no-fund", "--silent", package]);
    run_to_success(npm.current_dir(suite_dir))
}

/// Runs a program without its stdout; stderr is inherited. Fails if the program fails.
fn run_to_success(command: &mut Command) -> Result<(), CommandError> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .map_err(|e| format!("cannot start {name}: {e}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{name} failed: {status}").into())
    }
}
