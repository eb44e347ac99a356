//! A stack that runs: PHP, and the programs in front of it, each in its own folder and on free ports of 127.0.0.1. All of them
//! end with their handle.

use std::{
    fs,
    net::SocketAddr,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use galley_testkit::{Apache, ApacheOptions, FpmOptions, PhpFpm, free_port, runs_as_root};

use super::{
    article::{Php, Role, StackPlan, Tier},
    stage::{HOST, Stage},
};
use crate::{
    bench::{Program, Words, on_core},
    demo::CommandError,
};

/// See the module.
#[derive(Debug)]
pub(super) struct Stack {
    pub(super) plan: &'static StackPlan,
    /// Where visitors ask.
    pub(super) addr: SocketAddr,
    // In this order they end.
    tiers: Vec<Front>,
    php: RunningPhp,
    dir: PathBuf,
}

#[derive(Debug)]
struct Front {
    program: Program,
    dir: PathBuf,
}

#[derive(Debug)]
enum RunningPhp {
    Apache(Apache),
    Fpm(PhpFpm),
}

impl Stack {
    /// Starts it on the server's core. It answers when this returns.
    pub(super) fn start(stage: &Stage, plan: &'static StackPlan) -> Result<Self, CommandError> {
        let dir = stage.dir("stack")?;
        let ports = plan.tiers.iter().map(|_| free_port());
        let ports: Vec<u16> = ports.collect::<Result<_, _>>()?;
        on_core(stage.cores.server, || {
            let php = RunningPhp::start(stage, plan, &dir.join("php"), ports.last().copied())?;
            let mut stack = Self {
                plan,
                addr: php.addr(),
                tiers: Vec::new(),
                php,
                dir,
            };
            for (tier, port) in plan.tiers.iter().zip(ports) {
                stack.add(stage, tier, port)?;
            }
            Ok(stack)
        })?
    }

    fn add(&mut self, stage: &Stage, tier: &Tier, port: u16) -> Result<(), CommandError> {
        let dir = self.dir.join(format!("tier-{}", self.tiers.len()));
        fs::create_dir_all(&dir)?;
        let words = self.words(stage, &dir, port)?;
        let line = prepare(stage, tier, &dir, words)?;
        let addr = SocketAddr::from(([127, 0, 0, 1], port));
        let mut program = Program::start(&line, &dir)?;
        program
            .wait_until_listening(addr)
            .map_err(|complaint| format!("{}: {complaint}", self.plan.title))?;
        self.tiers.push(Front { program, dir });
        self.addr = addr;
        Ok(())
    }

    fn words(&self, stage: &Stage, dir: &Path, port: u16) -> Result<Words, CommandError> {
        let text = |path: &Path| path.to_str().map(str::to_owned).ok_or("an odd path");
        let mut words = Words::new();
        words.set("dir", text(dir)?);
        words.set("root", text(&stage.wordpress.root)?);
        words.set("host", HOST);
        words.set("port", port);
        words.set("galley", text(&stage.galley)?);
        words.set("php_workers", FPM_WORKERS);
        // For a program in front of another that speaks HTTP.
        words.set("apache", self.addr);
        words.set("apache_port", self.addr.port());
        if let RunningPhp::Fpm(fpm) = &self.php {
            words.set("php", fpm.address());
        }
        words.set("user", if runs_as_root() { "user www-data;" } else { "" });
        Ok(words)
    }

    pub(super) fn is_galley(&self) -> bool {
        self.plan.role == Role::Galley
    }

    /// The processes that all of its processes hang below; the database is not among them.
    pub(super) fn roots(&self) -> Vec<u32> {
        let tiers = self.tiers.iter().map(|front| front.program.pid());
        tiers.chain([self.php.pid()]).collect()
    }

    /// How many requests for this path reached the server behind the front; `None` where the front itself reads files.
    pub(super) fn behind_front(&self, path: &str) -> Option<usize> {
        let log = match (&self.php, self.tiers.as_slice()) {
            (RunningPhp::Apache(apache), _) => apache.access_log(),
            (RunningPhp::Fpm(_), [inner, _, ..]) => {
                fs::read_to_string(inner.dir.join("access.log")).unwrap_or_default()
            }
            (RunningPhp::Fpm(_), _) => return None,
        };
        let request = format!("GET {path} ");
        Some(log.lines().filter(|line| line.contains(&request)).count())
    }

    /// Kills PHP, with the Apache that it runs in.
    pub(super) fn kill_php(&mut self) {
        match &mut self.php {
            RunningPhp::Apache(apache) => apache.kill(),
            RunningPhp::Fpm(fpm) => fpm.kill(),
        }
    }

    pub(super) fn restart_php(&mut self, stage: &Stage) -> Result<(), CommandError> {
        let restart = || match &mut self.php {
            RunningPhp::Apache(apache) => apache.restart(),
            RunningPhp::Fpm(fpm) => fpm.restart(),
        };
        Ok(on_core(stage.cores.server, restart)??)
    }

    /// The last lines that PHP and each program in front of it have said.
    pub(super) fn said(&self) -> String {
        let php = match &self.php {
            RunningPhp::Apache(apache) => apache.log(),
            RunningPhp::Fpm(fpm) => fpm.log(),
        };
        let fronts = self.tiers.iter().map(|front| front.program.log());
        let last = |log: String| {
            let lines: Vec<&str> = log.lines().collect();
            let from = lines.len().saturating_sub(LINES);
            lines.get(from..).unwrap_or_default().join("\n")
        };
        let said = [php].into_iter().chain(fronts).map(last);
        said.collect::<Vec<_>>().join("\n")
    }

    /// A folder for files of a client.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        self.tiers.clear();
        Stage::remove(&self.dir);
    }
}

impl RunningPhp {
    fn start(
        stage: &Stage,
        plan: &StackPlan,
        dir: &Path,
        front: Option<u16>,
    ) -> Result<Self, CommandError> {
        let plan_of_apache = match plan.php {
            Php::Apache(apache) => apache,
            Php::Fpm => return Ok(Self::Fpm(PhpFpm::start(dir, &fpm_options(plan, front))?)),
        };
        let options = ApacheOptions {
            max_request_workers: plan_of_apache.children,
            keep_alive_timeout_s: plan_of_apache.keep_alive_timeout_s,
            extra: plan_of_apache.directives.to_owned(),
        };
        let apache = Apache::start(dir, &stage.wordpress.root, &options)?;
        Ok(Self::Apache(apache))
    }

    fn pid(&self) -> u32 {
        match self {
            Self::Apache(apache) => apache.pid(),
            Self::Fpm(fpm) => fpm.pid(),
        }
    }

    /// Where Apache listens; PHP-FPM alone cannot be asked.
    fn addr(&self) -> SocketAddr {
        match self {
            Self::Apache(apache) => apache.addr(),
            Self::Fpm(_) => SocketAddr::from(([127, 0, 0, 1], 0)),
        }
    }
}

/// WordPress knows behind whom it runs by the environment of the pool.
fn fpm_options(plan: &StackPlan, front: Option<u16>) -> FpmOptions {
    let mut pool = Vec::new();
    if plan.role == Role::Galley {
        pool.push(("env[SEEDS_STACK]".to_owned(), "galley".to_owned()));
    }
    if let (Some(Tier::Varnish { .. }), Some(port)) = (plan.tiers.last(), front) {
        pool.push(("env[SEEDS_PURGE]".to_owned(), format!("127.0.0.1:{port}")));
    }
    FpmOptions {
        workers: FPM_WORKERS,
        pool,
        ..FpmOptions::default()
    }
}

/// Writes the files of a program; returns its command line.
fn prepare(
    stage: &Stage,
    tier: &Tier,
    dir: &Path,
    mut words: Words,
) -> Result<Vec<String>, CommandError> {
    let write = |name: &str, text: &str, words: &Words| -> Result<(), CommandError> {
        let filled = words
            .fill(text)
            .map_err(|error| format!("`{name}`: {error}"))?;
        Ok(fs::write(dir.join(name), filled)?)
    };
    let line: &[&str] = match tier {
        Tier::Nginx {
            files,
            words: further,
        } => {
            for (word, meaning) in *further {
                words.set(word, meaning);
            }
            for (name, text) in *files {
                write(name, text, &words)?;
            }
            NGINX
        }
        Tier::Varnish { vcl } => {
            write("default.vcl", vcl, &words)?;
            VARNISHD
        }
        Tier::Galley => {
            let port = free_port()?;
            words.set("admin_port", port);
            write("galley.toml", include_str!("settings/galley.toml"), &words)?;
            connect_plugin(stage, dir, port)?;
            GALLEY
        }
    };
    let line = LIMITED.iter().chain(line).map(|word| words.fill(word));
    line.collect()
}

/// Writes the tokens, and where the plugin finds Galley.
fn connect_plugin(stage: &Stage, dir: &Path, port: u16) -> Result<(), CommandError> {
    for (name, token) in [("server.token", SERVER_TOKEN), ("site.token", SITE_TOKEN)] {
        let file = dir.join(name);
        fs::write(&file, token)?;
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600))?;
    }
    let file = stage
        .wordpress
        .root
        .join("wp-content/galley-connection.php");
    let text = format!(
        "<?php\nreturn array( 'address' => 'http://127.0.0.1:{port}', 'token' => '{SITE_TOKEN}' );\n"
    );
    fs::write(&file, text)?;
    // PHP runs as another user than root.
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644))?;
    Ok(())
}

/// As a shell starts programs: they may have 1,024 descriptors, and ask for more themselves.
const LIMITED: &[&str] = &["prlimit", "--nofile=1024:"];
const NGINX: &[&str] = &[
    "nginx",
    "-p",
    "{{dir}}",
    "-c",
    "{{dir}}/nginx.conf",
    "-e",
    "stderr",
    "-g",
    "daemon off;",
];
const VARNISHD: &[&str] = &[
    "varnishd",
    "-F",
    "-j",
    "none",
    "-a",
    "127.0.0.1:{{port}}",
    "-n",
    "{{dir}}/work",
    "-f",
    "{{dir}}/default.vcl",
    "-s",
    "malloc,512M",
    "-p",
    "thread_pool_add_delay=0.002",
    "-p",
    "thread_pools=2",
    "-p",
    "thread_pool_min=200",
    "-p",
    "thread_pool_max=4000",
    "-p",
    "cli_timeout=25",
    "-p",
    "timeout_linger=0.05",
];
const GALLEY: &[&str] = &["{{galley}}", "run", "--config", "{{dir}}/galley.toml"];
/// Of a log, where something went wrong.
const LINES: usize = 8;
/// Of Debian's pool.
pub(super) const FPM_WORKERS: usize = 5;
/// Not secrets: the interface listens on this machine, for the length of a run.
const SERVER_TOKEN: &str = "seeds-token-of-the-server";
const SITE_TOKEN: &str = "seeds-token-of-the-site";
