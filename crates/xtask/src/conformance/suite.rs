//! The public suite `http-cache-tests`: installed by npm at a fixed version, its origin started, its tests run.
//!
//! It is not part of this repository: it lies below the folder of results, which git ignores.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use super::program::{self, Program};
use super::verdict::Test;
use crate::demo::Complaint;

/// The version that the results are about.
pub(super) const VERSION: &str = "0.4.5";

/// The suite on disk.
pub(super) struct Suite {
    modules: PathBuf,
    driver: PathBuf,
}

impl Suite {
    /// Installs it below `dir` unless it is there.
    pub(super) fn install(dir: &Path) -> Result<Self, Complaint> {
        let home = dir.join("suite");
        let modules = home.join("node_modules");
        let suite = modules.join("http-cache-tests");
        let has_version = fs::read_to_string(suite.join("package.json"))
            .is_ok_and(|text| text.contains(&format!("\"version\": \"{VERSION}\"")));
        if !has_version {
            eprintln!("conformance: installing http-cache-tests {VERSION} with npm");
            fs::create_dir_all(&home)?;
            fs::write(home.join("package.json"), "{ \"private\": true }\n")?;
            let status = Command::new("npm")
                .args([
                    "install",
                    "--no-save",
                    "--no-audit",
                    "--no-fund",
                    "--silent",
                ])
                .arg(format!("http-cache-tests@{VERSION}"))
                .current_dir(&home)
                .stdout(Stdio::null())
                .status()
                .map_err(|e| {
                    format!("npm does not start ({e}): install Node.js 18 or later with npm")
                })?;
            if !status.success() {
                return Err("npm could not install the suite: see above".into());
            }
        }
        let driver = home.join("driver.mjs");
        fs::write(&driver, include_str!("driver.mjs"))?;
        Ok(Self { modules, driver })
    }

    /// Starts the suite's origin. It keeps what it has seen in memory, so each server gets one of its own.
    pub(super) fn origin(&self, dir: &Path) -> Result<(Program, SocketAddr), Complaint> {
        let port = program::free_port()?;
        let addr = SocketAddr::from(([127, 0, 0, 1], port));
        let mut command = Command::new("node");
        command
            .arg("--no-warnings")
            .arg("server/server.mjs")
            .current_dir(self.modules.join("http-cache-tests"))
            .env("npm_config_protocol", "http")
            .env("npm_config_port", port.to_string())
            .env("npm_config_pidfile", dir.join("origin.pid"));
        let origin = Program::start(&command, &dir.join("origin.log"))?;
        Ok((origin.listening(addr)?, addr))
    }

    /// Runs all tests against the server at `addr`.
    pub(super) fn run(&self, addr: SocketAddr) -> Result<Vec<Test>, Complaint> {
        let output = Command::new("node")
            .arg("--no-warnings")
            .arg(&self.driver)
            .arg(&self.modules)
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
