//! `xtask conformance`: runs the public HTTP cache test suite against Galley and other servers, in one run on this machine.
//!
//! Each server is started with a new origin server of the suite and a new folder. Tables go to stdout, all results to
//! `target/conformance/results.json`. No other crate depends on the suite.

mod servers;
mod suite;
mod table;
mod verdict;

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde::Serialize;

use self::servers::Server;
use self::suite::Suite;
use self::verdict::TestResult;
use crate::error::CommandError;

/// The options of `xtask conformance`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The server binary
    #[arg(long, default_value = "target/release/galley")]
    galley: PathBuf,
    /// Only these servers: galley, nginx, varnish, httpd, trafficserver
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// A copy of the suite's repository [default: fetched with git]
    #[arg(long)]
    suite: Option<PathBuf>,
    /// Folder for the suite and the results
    #[arg(long, default_value = "target/conformance")]
    dir: PathBuf,
}

/// The results of one server.
#[derive(Serialize)]
struct ServerResults {
    server: String,
    tests: Vec<TestResult>,
}

/// Runs the suite against each server and prints the results.
pub(crate) fn run(arguments: &Arguments) -> Result<(), CommandError> {
    let servers = selected_servers(&arguments.only)?;
    fs::create_dir_all(&arguments.dir)?;
    let dir = fs::canonicalize(&arguments.dir)?;
    let suite = Suite::install(&dir, arguments.suite.as_deref())?;
    let mut runs = Vec::new();
    for server in servers {
        let title = server.title(&arguments.galley);
        eprintln!("conformance: {title}");
        match run_suite(server, &arguments.galley, &dir, &suite) {
            Ok(tests) => runs.push(ServerResults {
                server: title,
                tests,
            }),
            // If another server is not installed, the comparison continues without it.
            Err(error) if server != Server::Galley => {
                eprintln!("conformance: {title} skipped: {error}");
            }
            Err(error) => return Err(error),
        }
    }
    let json = serde_json::to_vec_pretty(&runs)?;
    fs::write(dir.join("results.json"), json)?;
    print!("{}", table::all(&runs));
    Ok(())
}

fn selected_servers(only: &[String]) -> Result<Vec<Server>, CommandError> {
    if only.is_empty() {
        return Ok(Server::ALL.to_vec());
    }
    let find = |name: &String| {
        let found = Server::ALL.into_iter().find(|server| server.name() == name);
        found.ok_or_else(|| format!("unknown server: `{name}`").into())
    };
    only.iter().map(find).collect()
}

fn run_suite(
    server: Server,
    galley: &Path,
    dir: &Path,
    suite: &Suite,
) -> Result<Vec<TestResult>, CommandError> {
    let server_dir = dir.join(server.name());
    if server_dir.exists() {
        fs::remove_dir_all(&server_dir)?;
    }
    fs::create_dir_all(&server_dir)?;
    let (_origin, origin) = suite.origin(&server_dir)?;
    let (_running, addr) = server.start(galley, &server_dir, origin)?;
    suite.run(addr)
}
