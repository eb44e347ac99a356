//! Contenders running: their backends, the programs in front of them, and whose processor time counts.

use std::{
    collections::BTreeMap,
    fs,
    net::SocketAddr,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use galley_testkit::{Apache, ApacheOptions, FpmOptions, PhpFpm, runs_as_root};

use super::{
    floor::Answers,
    pin,
    plan::{Backend, Contender},
    program::Program,
    stand::Stand,
    words::Words,
};
use crate::demo::CommandError;

/// Everybody who is measured in a round, running. Ends with its handle, backends last.
#[derive(Debug)]
pub(super) struct Field {
    running: BTreeMap<String, Running>,
    apache: Option<Apache>,
    slow: Program,
    slow_addr: SocketAddr,
    dir: PathBuf,
}

/// A contender that answers.
#[derive(Debug)]
pub(super) struct Running {
    front: Program,
    fpm: Option<PhpFpm>,
    apache: Option<u32>,
    addr: SocketAddr,
    tls_addr: SocketAddr,
}

/// A contender that could not be started, and why.
pub(super) type Missing = Vec<(String, CommandError)>;

impl Field {
    /// Starts all contenders of the plan but the floor on the server's core, and the slow upstream on the client's.
    pub(super) fn start(stand: &Stand<'_>, dir: &Path) -> Result<(Self, Missing), CommandError> {
        fs::create_dir_all(dir)?;
        let (slow, slow_addr) = slow(stand, dir)?;
        let wants_apache = stand
            .plan
            .contenders
            .iter()
            .any(|one| one.backend == Backend::Apache);
        let apache = if wants_apache {
            Some(apache(stand, dir)?)
        } else {
            None
        };
        let mut field = Self {
            running: BTreeMap::new(),
            apache,
            slow,
            slow_addr,
            dir: dir.to_owned(),
        };
        let mut missing = Vec::new();
        for contender in &stand.plan.contenders {
            if contender.is_floor {
                continue;
            }
            stand.interrupt.check()?;
            match field.launch(stand, contender) {
                Ok(running) => {
                    field.running.insert(contender.name.clone(), running);
                }
                Err(complaint) => missing.push((contender.name.clone(), complaint)),
            }
        }
        Ok((field, missing))
    }

    pub(super) fn running(&self, name: &str) -> Option<&Running> {
        self.running.get(name)
    }

    /// A floor with these answers, by the target of their requests.
    pub(super) fn floor<'a>(
        &self,
        stand: &Stand<'_>,
        contender: &Contender,
        answers: impl IntoIterator<Item = (&'a str, &'a [u8])>,
    ) -> Result<Running, CommandError> {
        let dir = self.dir.join(&contender.name);
        fs::create_dir_all(&dir)?;
        Answers::write(&dir.join("answers"), answers)?;
        self.launch(stand, contender)
    }

    /// What fronts and the slow upstream have complained about.
    pub(super) fn complaints(&self) -> Vec<(String, String)> {
        let mut all: Vec<(String, String)> = self
            .running
            .iter()
            .filter_map(|(name, running)| Some((name.clone(), complaints(&running.front.log())?)))
            .collect();
        all.extend(complaints(&self.slow.log()).map(|said| ("the slow upstream".to_owned(), said)));
        all
    }

    /// Starts it in a folder of its own.
    fn launch(&self, stand: &Stand<'_>, contender: &Contender) -> Result<Running, CommandError> {
        let dir = self.dir.join(&contender.name);
        fs::create_dir_all(&dir)?;
        let server = stand.place.cores.server;
        pin::on_core(server, || {
            let fpm = match contender.backend {
                Backend::PhpFpm => Some(fpm(stand, &dir)?),
                Backend::None | Backend::Apache => None,
            };
            let ports = (galley_testkit::free_port()?, galley_testkit::free_port()?);
            let [addr, tls_addr] =
                [ports.0, ports.1].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
            let words = self.words(stand, &dir, ports, fpm.as_ref())?;
            prepare(stand, contender, &dir, &words)?;
            let mut front = Program::start(&words.fill_all(&contender.command)?, &dir)?;
            front.wait_until_listening(addr)?;
            Ok(Running {
                front,
                fpm,
                apache: self
                    .apache
                    .as_ref()
                    .filter(|_| contender.backend == Backend::Apache)
                    .map(Apache::pid),
                addr,
                tls_addr,
            })
        })?
    }

    /// The words of configuration files; README.md of the bench lists them.
    fn words(
        &self,
        stand: &Stand<'_>,
        dir: &Path,
        (port, tls_port): (u16, u16),
        fpm: Option<&PhpFpm>,
    ) -> Result<Words, CommandError> {
        let text = |path: &Path| -> Result<String, CommandError> {
            let text = path.to_str();
            Ok(text.ok_or("a path that is not text")?.to_owned())
        };
        let mut words = Words::new();
        words.set("dir", text(dir)?);
        words.set("root", text(stand.site.root())?);
        words.set("static", text(stand.site.statics())?);
        words.set("galley", text(&stand.place.galley)?);
        words.set("xtask", text(&stand.place.xtask)?);
        words.set("host", &stand.plan.host);
        words.set("port", port);
        words.set("tls_port", tls_port);
        words.set("certificate", text(&stand.certificate.file)?);
        words.set("key", text(&stand.certificate.key)?);
        words.set("slow", self.slow_addr);
        words.set("slow_port", self.slow_addr.port());
        words.set("php_workers", stand.plan.php_workers);
        // Every contender has one core.
        words.set("workers", 1);
        if let Some(apache) = &self.apache {
            words.set("apache", apache.addr());
            words.set("apache_port", apache.addr().port());
        }
        if let Some(fpm) = fpm {
            words.set("php", fpm.address());
        }
        // An ordinary user's servers complain about such a line.
        let as_root = |line: &'static str| if runs_as_root() { line } else { "" };
        words.set("user", as_root("user www-data;"));
        words.set("apache_user", as_root("User www-data\nGroup www-data"));
        words.set("user_name", if runs_as_root() { "www-data" } else { "#-1" });
        Ok(words)
    }
}

impl Running {
    /// Where clients ask.
    pub(super) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The same over TLS, where it listens there.
    pub(super) fn tls_addr(&self) -> SocketAddr {
        self.tls_addr
    }

    /// The processes that all of its processes hang below; the database is not among them.
    pub(super) fn roots(&self) -> Vec<u32> {
        let fpm = self.fpm.as_ref().map(PhpFpm::pid);
        let parts = [Some(self.front.pid()), fpm, self.apache];
        parts.into_iter().flatten().collect()
    }
}

fn slow(stand: &Stand<'_>, dir: &Path) -> Result<(Program, SocketAddr), CommandError> {
    let dir = dir.join("slow");
    fs::create_dir_all(&dir)?;
    let file = dir.join("answers");
    let text = "<p>A paragraph of a page from a slow upstream, as long as paragraphs are.</p>\n"
        .repeat(120);
    let html = format!("<!doctype html><html><body><h1>slow</h1>\n{text}</body></html>");
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\
         Cache-Control: public, max-age=1, stale-while-revalidate=600\r\n\r\n",
        html.len()
    );
    Answers::write(&file, [("/", (head + &html).as_bytes())])?;
    let port = galley_testkit::free_port()?;
    let line = [
        stand.place.xtask.display().to_string(),
        "floor".to_owned(),
        "--port".to_owned(),
        port.to_string(),
        "--answers".to_owned(),
        file.display().to_string(),
        "--delay-ms".to_owned(),
        SLOW_MS.to_string(),
    ];
    let addr = SocketAddr::from(([127, 0, 0, 1], port));
    let mut program = pin::on_core(stand.place.cores.client, || Program::start(&line, &dir))??;
    program.wait_until_listening(addr)?;
    Ok((program, addr))
}

fn apache(stand: &Stand<'_>, dir: &Path) -> Result<Apache, CommandError> {
    let mut words = Words::new();
    words.set("php_workers", stand.plan.php_workers);
    let options = ApacheOptions {
        max_request_workers: usize::try_from(stand.plan.php_workers)?,
        keep_alive_timeout_s: stand.plan.apache.keep_alive_timeout_s,
        extra: words.fill(&stand.plan.apache.extra)?,
    };
    let start = || Apache::start(&dir.join("apache"), stand.site.root(), &options);
    Ok(pin::on_core(stand.place.cores.server, start)??)
}

fn fpm(stand: &Stand<'_>, dir: &Path) -> Result<PhpFpm, CommandError> {
    let options = FpmOptions {
        workers: usize::try_from(stand.plan.php_workers)?,
        ..FpmOptions::default()
    };
    Ok(PhpFpm::start(&dir.join("fpm"), &options)?)
}

/// Makes the folders and writes the configuration files.
fn prepare(
    stand: &Stand<'_>,
    contender: &Contender,
    dir: &Path,
    words: &Words,
) -> Result<(), CommandError> {
    for folder in &contender.folders {
        let folder = dir.join(folder);
        fs::create_dir_all(&folder)?;
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777))?;
    }
    for (source, target) in &contender.files {
        let source = stand.place.here.join("contenders").join(source);
        let text = fs::read_to_string(&source)
            .map_err(|error| format!("cannot read `{}`: {error}", source.display()))?;
        let filled = words
            .fill(&text)
            .map_err(|error| format!("`{}`: {error}", source.display()))?;
        let target = dir.join(target);
        if let Some(folder) = target.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(&target, filled)?;
    }
    Ok(())
}

/// The last lines that speak of errors in what a program has said.
fn complaints(log: &str) -> Option<String> {
    let bad: Vec<&str> = log.lines().filter(|line| complains(line)).collect();
    let last = bad.get(bad.len().saturating_sub(LINES)..)?;
    (!bad.is_empty()).then(|| format!("{} lines, the last:\n{}", bad.len(), last.join("\n")))
}

/// `[error]`, `error:` and the like, as servers mark their lines.
fn complains(line: &str) -> bool {
    let line = line.to_ascii_lowercase();
    ["error", "[crit", "[alert", "[emerg", "panic"]
        .iter()
        .any(|word| line.contains(word))
}

const LINES: usize = 5;
/// What the slow upstream takes for each answer.
const SLOW_MS: u64 = 50;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_complain() {
        for (line, wanted) in [
            ("2025/01/01 00:00:00 [error] 7#7: *1 connect() failed", true),
            ("[emerg] 7#7: bind() failed", true),
            ("thread 'main' panicked at", true),
            ("galley: listening on http://127.0.0.1:20000", false),
            ("Debug: Platform: Linux,x86_64,-jnone,-hcritbit", false),
            ("", false),
        ] {
            assert_eq!(complains(line), wanted, "{line}");
        }
    }
}
