//! Starts the contenders: the programs, their backends, and the process trees whose processor time counts.

use std::{
    collections::BTreeMap,
    fs,
    net::SocketAddr,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use galley_testkit::{Apache, ApacheOptions, FpmOptions, PhpFpm, runs_as_root};

use super::{
    context::RunContext,
    floor::PreparedResponses,
    pin,
    placeholders::Placeholders,
    settings::{Backend, Contender},
};
use crate::{error::CommandError, program::Program};

/// All running contenders of a round. Dropping it stops them, the backends last.
#[derive(Debug)]
pub(super) struct RunningContenders {
    running: BTreeMap<String, RunningContender>,
    apache: Option<Apache>,
    slow_upstream: Program,
    slow_upstream_addr: SocketAddr,
    dir: PathBuf,
}

/// A contender that accepts requests.
#[derive(Debug)]
pub(super) struct RunningContender {
    program: Program,
    fpm: Option<PhpFpm>,
    /// Process id of its Apache.
    apache: Option<u32>,
    addr: SocketAddr,
    tls_addr: SocketAddr,
}

/// The contenders that failed to start, with the reasons.
pub(super) type FailedStarts = Vec<(String, CommandError)>;

impl RunningContenders {
    /// Starts all contenders of the plan except the floor, on the server's core, and the slow upstream on the client's core.
    pub(super) fn start(
        context: &RunContext<'_>,
        dir: &Path,
    ) -> Result<(Self, FailedStarts), CommandError> {
        fs::create_dir_all(dir)?;
        let (slow_upstream, slow_upstream_addr) = start_slow_upstream(context, dir)?;
        let needs_apache = context
            .plan
            .contenders
            .iter()
            .any(|contender| contender.backend == Backend::Apache);
        let apache = if needs_apache {
            Some(start_apache(context, dir)?)
        } else {
            None
        };
        let mut contenders = Self {
            running: BTreeMap::new(),
            apache,
            slow_upstream,
            slow_upstream_addr,
            dir: dir.to_owned(),
        };
        let mut failed = Vec::new();
        for contender in &context.plan.contenders {
            if contender.is_floor {
                continue;
            }
            context.interrupt.check()?;
            match contenders.launch(context, contender) {
                Ok(running) => {
                    contenders.running.insert(contender.name.clone(), running);
                }
                Err(error) => failed.push((contender.name.clone(), error)),
            }
        }
        Ok((contenders, failed))
    }

    pub(super) fn running(&self, name: &str) -> Option<&RunningContender> {
        self.running.get(name)
    }

    /// Starts a floor with these responses by request target.
    pub(super) fn start_floor<'a>(
        &self,
        context: &RunContext<'_>,
        contender: &Contender,
        responses: impl IntoIterator<Item = (&'a str, &'a [u8])>,
    ) -> Result<RunningContender, CommandError> {
        let dir = self.dir.join(&contender.name);
        fs::create_dir_all(&dir)?;
        PreparedResponses::write(&dir.join("responses"), responses)?;
        self.launch(context, contender)
    }

    /// The errors that the contenders and the slow upstream have logged, by name.
    pub(super) fn logged_errors(&self) -> Vec<(String, String)> {
        let mut all: Vec<(String, String)> = self
            .running
            .iter()
            .filter_map(|(name, running)| {
                Some((name.clone(), logged_errors(&running.program.log())?))
            })
            .collect();
        let upstream = logged_errors(&self.slow_upstream.log());
        all.extend(upstream.map(|lines| ("the slow upstream".to_owned(), lines)));
        all
    }

    /// Starts a contender in a separate folder.
    fn launch(
        &self,
        context: &RunContext<'_>,
        contender: &Contender,
    ) -> Result<RunningContender, CommandError> {
        let dir = self.dir.join(&contender.name);
        fs::create_dir_all(&dir)?;
        let server = context.environment.cores.server;
        pin::on_core(server, || {
            let fpm = match contender.backend {
                Backend::PhpFpm => Some(start_fpm(context, &dir)?),
                Backend::None | Backend::Apache => None,
            };
            let ports = (galley_testkit::free_port()?, galley_testkit::free_port()?);
            let [addr, tls_addr] =
                [ports.0, ports.1].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
            let placeholders = self.placeholders(context, &dir, ports, fpm.as_ref())?;
            prepare(context, contender, &dir, &placeholders)?;
            let mut program = Program::start(&placeholders.fill_all(&contender.command)?, &dir)?;
            program.wait_until_listening(addr)?;
            Ok(RunningContender {
                program,
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

    /// The values of the placeholders in configuration files. bench/README.md lists them.
    fn placeholders(
        &self,
        context: &RunContext<'_>,
        dir: &Path,
        (port, tls_port): (u16, u16),
        fpm: Option<&PhpFpm>,
    ) -> Result<Placeholders, CommandError> {
        let text = |path: &Path| -> Result<String, CommandError> {
            let text = path.to_str();
            Ok(text.ok_or("a path that is not valid UTF-8")?.to_owned())
        };
        let mut placeholders = Placeholders::new();
        placeholders.set("dir", text(dir)?);
        placeholders.set("root", text(context.site.root())?);
        placeholders.set("static", text(context.site.statics())?);
        placeholders.set("galley", text(&context.environment.galley)?);
        placeholders.set("xtask", text(&context.environment.xtask)?);
        placeholders.set("quic", text(&context.environment.quic)?);
        placeholders.set("host", &context.plan.host);
        placeholders.set("port", port);
        placeholders.set("tls_port", tls_port);
        placeholders.set("certificate", text(&context.certificate.file)?);
        placeholders.set("key", text(&context.certificate.key)?);
        placeholders.set("slow", self.slow_upstream_addr);
        placeholders.set("slow_port", self.slow_upstream_addr.port());
        placeholders.set("php_workers", context.plan.php_workers);
        // Each contender has one core.
        placeholders.set("workers", 1);
        if let Some(apache) = &self.apache {
            placeholders.set("apache", apache.addr());
            placeholders.set("apache_port", apache.addr().port());
        }
        if let Some(fpm) = fpm {
            placeholders.set("php", fpm.address());
        }
        // Servers that do not run as root warn about these directives.
        let if_root = |line: &'static str| if runs_as_root() { line } else { "" };
        placeholders.set("user", if_root("user www-data;"));
        placeholders.set("apache_user", if_root("User www-data\nGroup www-data"));
        placeholders.set("user_name", if runs_as_root() { "www-data" } else { "#-1" });
        Ok(placeholders)
    }
}

impl RunningContender {
    /// The address for HTTP without TLS.
    pub(super) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The address for TLS, if the contender has it.
    pub(super) fn tls_addr(&self) -> SocketAddr {
        self.tls_addr
    }

    /// The roots of its process trees, without the database.
    pub(super) fn roots(&self) -> Vec<u32> {
        let fpm = self.fpm.as_ref().map(PhpFpm::pid);
        let parts = [Some(self.program.pid()), fpm, self.apache];
        parts.into_iter().flatten().collect()
    }
}

/// Starts the slow upstream: a floor with a delay, on the client's core.
fn start_slow_upstream(
    context: &RunContext<'_>,
    dir: &Path,
) -> Result<(Program, SocketAddr), CommandError> {
    let dir = dir.join("slow");
    fs::create_dir_all(&dir)?;
    let file = dir.join("responses");
    let text = "<p>A paragraph of a page from a slow upstream, as long as paragraphs are.</p>\n"
        .repeat(120);
    let html = format!("<!doctype html><html><body><h1>slow</h1>\n{text}</body></html>");
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\
         Cache-Control: public, max-age=1, stale-while-revalidate=600\r\n\r\n",
        html.len()
    );
    PreparedResponses::write(&file, [("/", (head + &html).as_bytes())])?;
    let port = galley_testkit::free_port()?;
    let line = [
        context.environment.xtask.display().to_string(),
        "floor".to_owned(),
        "--port".to_owned(),
        port.to_string(),
        "--responses".to_owned(),
        file.display().to_string(),
        "--delay-ms".to_owned(),
        SLOW_MS.to_string(),
    ];
    let addr = SocketAddr::from(([127, 0, 0, 1], port));
    let mut program = pin::on_core(context.environment.cores.client, || {
        Program::start(&line, &dir)
    })??;
    program.wait_until_listening(addr)?;
    Ok((program, addr))
}

fn start_apache(context: &RunContext<'_>, dir: &Path) -> Result<Apache, CommandError> {
    let mut placeholders = Placeholders::new();
    placeholders.set("php_workers", context.plan.php_workers);
    let options = ApacheOptions {
        max_request_workers: usize::try_from(context.plan.php_workers)?,
        keep_alive_timeout_s: context.plan.apache.keep_alive_timeout_s,
        extra: placeholders.fill(&context.plan.apache.extra)?,
    };
    let start = || Apache::start(&dir.join("apache"), context.site.root(), &options);
    Ok(pin::on_core(context.environment.cores.server, start)??)
}

fn start_fpm(context: &RunContext<'_>, dir: &Path) -> Result<PhpFpm, CommandError> {
    let options = FpmOptions {
        workers: usize::try_from(context.plan.php_workers)?,
        ..FpmOptions::default()
    };
    Ok(PhpFpm::start(&dir.join("fpm"), &options)?)
}

/// Creates the folders and writes the configuration files.
fn prepare(
    context: &RunContext<'_>,
    contender: &Contender,
    dir: &Path,
    placeholders: &Placeholders,
) -> Result<(), CommandError> {
    for folder in &contender.folders {
        let folder = dir.join(folder);
        fs::create_dir_all(&folder)?;
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777))?;
    }
    for (source, target) in &contender.files {
        let source = context
            .environment
            .bench_dir
            .join("contenders")
            .join(source);
        let text = fs::read_to_string(&source)
            .map_err(|error| format!("cannot read `{}`: {error}", source.display()))?;
        let filled = placeholders
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

/// The last error lines of a log.
fn logged_errors(log: &str) -> Option<String> {
    let errors: Vec<&str> = log.lines().filter(|line| is_error(line)).collect();
    let last = errors.get(errors.len().saturating_sub(MAX_LINES)..)?;
    (!errors.is_empty()).then(|| format!("{} lines, the last:\n{}", errors.len(), last.join("\n")))
}

/// Whether a server has marked a log line as an error, such as `[error]` or `error:`.
fn is_error(line: &str) -> bool {
    let line = line.to_ascii_lowercase();
    ["error", "[crit", "[alert", "[emerg", "panic"]
        .iter()
        .any(|word| line.contains(word))
}

const MAX_LINES: usize = 5;
/// The delay of the slow upstream.
const SLOW_MS: u64 = 50;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_lines_of_several_servers_are_recognized() {
        for (line, expected) in [
            ("2025/01/01 00:00:00 [error] 7#7: *1 connect() failed", true),
            ("[emerg] 7#7: bind() failed", true),
            ("thread 'main' panicked at", true),
            ("galley: listening on http://127.0.0.1:20000", false),
            ("Debug: Platform: Linux,x86_64,-jnone,-hcritbit", false),
            ("", false),
        ] {
            assert_eq!(is_error(line), expected, "{line}");
        }
    }
}
