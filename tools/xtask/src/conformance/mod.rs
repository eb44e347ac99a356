//! `xtask conformance`: the public cache suite against Galley and its peers, in one run on this machine.
//!
//! Each server gets a fresh origin of the suite and a fresh folder. Tables go to stdout, everything that was found to
//! `target/conformance/results.json`. Nothing in the other crates knows this suite.

mod program;
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
use self::verdict::Test;
use crate::demo::CommandError;

/// What the command line says.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The server binary
    #[arg(long, default_value = "target/release/galley")]
    galley: PathBuf,
    /// Only these servers: galley, nginx, varnish, httpd, trafficserver
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// A copy of the suite's repository, in place of one that is fetched
    #[arg(long)]
    suite: Option<PathBuf>,
    /// Where the suite and the results go
    #[arg(long, default_value = "target/conformance")]
    dir: PathBuf,
}

/// One server's results.
#[derive(Serialize)]
struct Run {
    server: String,
    tests: Vec<Test>,
}

/// Runs the suite against each server and prints what came out.
pub(crate) fn run(arguments: &Arguments) -> Result<(), CommandError> {
    let wanted = wanted(&arguments.only)?;
    fs::create_dir_all(&arguments.dir)?;
    let dir = fs::canonicalize(&arguments.dir)?;
    let suite = Suite::install(&dir, arguments.suite.as_deref())?;
    let mut runs = Vec::new();
    for server in wanted {
        let title = server.title(&arguments.galley);
        eprintln!("conformance: {title}");
        match one(server, &arguments.galley, &dir, &suite) {
            Ok(tests) => runs.push(Run {
                server: title,
                tests,
            }),
            // A peer that is not installed does not keep the others from being compared.
            Err(complaint) if server != Server::Galley => {
                eprintln!("conformance: {title} left out: {complaint}");
            }
            Err(complaint) => return Err(complaint),
        }
    }
    let json = serde_json::to_vec_pretty(&runs)?;
    fs::write(dir.join("results.json"), json)?;
    print!("{}", table::all(&runs));
    Ok(())
}

fn wanted(only: &[String]) -> Result<Vec<Server>, CommandError> {
    if only.is_empty() {
        return Ok(Server::ALL.to_vec());
    }
    let find = |name: &String| {
        let found = Server::ALL.into_iter().find(|server| server.name() == name);
        found.ok_or_else(|| format!("no server `{name}` is known").into())
    };
    only.iter().map(find).collect()
}

fn one(
    server: Server,
    galley: &Path,
    dir: &Path,
    suite: &Suite,
) -> Result<Vec<Test>, CommandError> {
    let own = dir.join(server.name());
    if own.exists() {
        fs::remove_dir_all(&own)?;
    }
    fs::create_dir_all(&own)?;
    let (_origin, origin) = suite.origin(&own)?;
    let (_running, addr) = server.start(galley, &own, origin)?;
    suite.run(addr)
}
