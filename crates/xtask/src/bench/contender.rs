//! One contender running: its backend, the program in front of it if there is one, and whose processor time counts.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use galley_testkit::{Apache, ApacheOptions, FpmOptions, PhpFpm, runs_as_root};

use super::{
    measure::Stand,
    pin::{self, Cores},
    plan::{Backend, Contender},
    program::{self, Program},
    words::Words,
};
use crate::demo::Complaint;

/// What is the same for all contenders of a run.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) galley: PathBuf,
    /// The folder of the scenarios.
    pub(super) here: PathBuf,
    pub(super) cores: Cores,
}

/// A contender that answers. Ends with its handle, the front first.
#[derive(Debug)]
pub(super) struct Running {
    front: Option<Program>,
    backend: Composer,
    addr: SocketAddr,
}

#[derive(Debug)]
enum Composer {
    Apache(Apache),
    Fpm(PhpFpm),
}

impl Running {
    /// Starts everything on the server's core, in the stand's folder.
    pub(super) fn start(stand: &Stand<'_>, contender: &Contender) -> Result<Self, Complaint> {
        fs::create_dir_all(&stand.dir)?;
        pin::on_core(stand.place.cores.server, || {
            let backend = Composer::start(stand, contender.backend)?;
            if contender.command.is_empty() {
                let addr = backend
                    .addr()
                    .ok_or("PHP-FPM cannot answer clients itself")?;
                return Ok(Self {
                    front: None,
                    backend,
                    addr,
                });
            }
            let port = program::free_port()?;
            let addr = SocketAddr::from(([127, 0, 0, 1], port));
            let words = words(stand, port, &backend.address())?;
            let line = command(stand, contender, words)?;
            let mut front = Program::start(&line, &stand.dir)?;
            front.wait_until_listening(addr)?;
            Ok(Self {
                front: Some(front),
                backend,
                addr,
            })
        })?
    }

    /// Where clients ask.
    pub(super) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The process groups that do its work; the database's is not among them.
    pub(super) fn groups(&self) -> Vec<u32> {
        let front = self.front.as_ref().map(Program::pid);
        front.into_iter().chain([self.backend.pid()]).collect()
    }

    /// The last lines that speak of errors or warnings in what the front has said.
    pub(super) fn complaints(&self) -> Option<String> {
        let log = self.front.as_ref()?.log();
        let bad: Vec<&str> = log.lines().filter(|line| complains(line)).collect();
        let last = bad.get(bad.len().saturating_sub(LINES)..)?;
        (!bad.is_empty()).then(|| format!("{} lines, the last:\n{}", bad.len(), last.join("\n")))
    }
}

impl Composer {
    fn start(stand: &Stand<'_>, backend: Backend) -> Result<Self, Complaint> {
        let workers = stand.plan.php_workers;
        let children = usize::try_from(workers)?;
        match backend {
            Backend::Apache => {
                let mut words = Words::new();
                words.set("php_workers", workers);
                let options = ApacheOptions {
                    max_request_workers: children,
                    keep_alive_timeout_s: stand.plan.apache.keep_alive_timeout_s,
                    extra: words.fill(&stand.plan.apache.extra)?,
                };
                let dir = stand.dir.join("apache");
                let apache = Apache::start(&dir, stand.site.root(), &options)?;
                Ok(Self::Apache(apache))
            }
            Backend::PhpFpm => {
                let options = FpmOptions {
                    workers: children,
                    ..FpmOptions::default()
                };
                Ok(Self::Fpm(PhpFpm::start(&stand.dir.join("fpm"), &options)?))
            }
        }
    }

    fn addr(&self) -> Option<SocketAddr> {
        match self {
            Self::Apache(apache) => Some(apache.addr()),
            Self::Fpm(_) => None,
        }
    }

    /// As configuration files name it: `127.0.0.1:port`, or `unix:/path`.
    fn address(&self) -> String {
        match self {
            Self::Apache(apache) => apache.addr().to_string(),
            Self::Fpm(fpm) => fpm.address(),
        }
    }

    fn pid(&self) -> u32 {
        match self {
            Self::Apache(apache) => apache.pid(),
            Self::Fpm(fpm) => fpm.pid(),
        }
    }
}

/// The words of configuration files; README.md of the bench lists them.
fn words(stand: &Stand<'_>, port: u16, backend: &str) -> Result<Words, Complaint> {
    let text = |path: &Path| -> Result<String, Complaint> {
        let text = path.to_str();
        Ok(text.ok_or("a path that is not text")?.to_owned())
    };
    let mut words = Words::new();
    words.set("dir", text(&stand.dir)?);
    words.set("here", text(&stand.place.here)?);
    words.set("root", text(stand.site.root())?);
    words.set("galley", text(&stand.place.galley)?);
    words.set("host", &stand.plan.host);
    words.set("port", port);
    words.set("backend", backend);
    words.set("php_workers", stand.plan.php_workers);
    // An ordinary user's nginx complains about the line.
    words.set("user", if runs_as_root() { "user www-data;" } else { "" });
    Ok(words)
}

/// Writes the configuration file, and returns the command line that names it.
fn command(
    stand: &Stand<'_>,
    contender: &Contender,
    mut words: Words,
) -> Result<Vec<String>, Complaint> {
    if let Some(name) = &contender.config {
        let source = stand.place.here.join(name);
        let text = fs::read_to_string(&source)
            .map_err(|error| format!("cannot read `{}`: {error}", source.display()))?;
        let filled = words
            .fill(&text)
            .map_err(|error| format!("`{}`: {error}", source.display()))?;
        let target = stand.dir.join(name);
        fs::write(&target, filled)?;
        words.set("config", target.display());
    }
    words.fill_all(&contender.command)
}

/// `[error]`, `WARN`, `error:` and the like, as servers mark their lines.
fn complains(line: &str) -> bool {
    let line = line.to_ascii_lowercase();
    ["error", "warn", "crit", "alert", "emerg", "panic"]
        .iter()
        .any(|word| line.contains(word))
}

const LINES: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_complain() {
        for (line, wanted) in [
            ("2025/01/01 00:00:00 [error] 7#7: *1 connect() failed", true),
            (
                "2025/01/01 00:00:00 [warn] 7#7: 768 worker_connections",
                true,
            ),
            ("WARN upstream: slow", true),
            ("thread 'main' panicked at", true),
            ("galley: listening on http://127.0.0.1:20000", false),
            ("", false),
        ] {
            assert_eq!(complains(line), wanted, "{line}");
        }
    }
}
