//! A running stack: PHP, and the servers in front of it, each in a separate folder and on free ports of 127.0.0.1. Dropping the handle
//! stops all of them.

use std::{
    fs,
    net::SocketAddr,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use galley_testkit::{Apache, ApacheOptions, FpmOptions, PhpFpm, free_port, runs_as_root};

use super::{
    article::{Php, Role, StackPlan, Tier},
    environment::{HOST, SeedsEnvironment},
};
use crate::{
    bench::{Placeholders, on_core},
    error::CommandError,
    program::Program,
};

/// PHP and the servers in front of it.
#[derive(Debug)]
pub(super) struct Stack {
    pub(super) plan: &'static StackPlan,
    /// The address for clients.
    pub(super) addr: SocketAddr,
    // They are stopped in this order.
    tiers: Vec<RunningTier>,
    php: RunningPhp,
    dir: PathBuf,
}

#[derive(Debug)]
struct RunningTier {
    program: Program,
    dir: PathBuf,
}

#[derive(Debug)]
enum RunningPhp {
    Apache(Apache),
    Fpm(PhpFpm),
}

impl Stack {
    /// Starts the stack on the server's core and waits until it accepts connections.
    pub(super) fn start(
        environment: &SeedsEnvironment,
        plan: &'static StackPlan,
    ) -> Result<Self, CommandError> {
        let dir = environment.dir("stack")?;
        let ports = plan.tiers.iter().map(|_| free_port());
        let ports: Vec<u16> = ports.collect::<Result<_, _>>()?;
        on_core(environment.cores.server, || {
            let php =
                RunningPhp::start(environment, plan, &dir.join("php"), ports.last().copied())?;
            let mut stack = Self {
                plan,
                addr: php.addr(),
                tiers: Vec::new(),
                php,
                dir,
            };
            for (tier, port) in plan.tiers.iter().zip(ports) {
                stack.add(environment, tier, port)?;
            }
            Ok(stack)
        })?
    }

    fn add(
        &mut self,
        environment: &SeedsEnvironment,
        tier: &Tier,
        port: u16,
    ) -> Result<(), CommandError> {
        let dir = self.dir.join(format!("tier-{}", self.tiers.len()));
        fs::create_dir_all(&dir)?;
        let placeholders = self.placeholders(environment, &dir, port)?;
        let command = prepare(environment, tier, &dir, placeholders)?;
        let addr = SocketAddr::from(([127, 0, 0, 1], port));
        let mut program = Program::start(&command, &dir)?;
        program
            .wait_until_listening(addr)
            .map_err(|error| format!("{}: {error}", self.plan.title))?;
        self.tiers.push(RunningTier { program, dir });
        self.addr = addr;
        Ok(())
    }

    fn placeholders(
        &self,
        environment: &SeedsEnvironment,
        dir: &Path,
        port: u16,
    ) -> Result<Placeholders, CommandError> {
        let text = |path: &Path| {
            path.to_str()
                .map(str::to_owned)
                .ok_or("a path that is not valid UTF-8")
        };
        let mut placeholders = Placeholders::new();
        placeholders.set("dir", text(dir)?);
        placeholders.set("root", text(&environment.wordpress.root)?);
        placeholders.set("host", HOST);
        placeholders.set("port", port);
        placeholders.set("galley", text(&environment.galley)?);
        placeholders.set("php_workers", FPM_WORKERS);
        // For a server in front of another HTTP server.
        placeholders.set("apache", self.addr);
        placeholders.set("apache_port", self.addr.port());
        if let RunningPhp::Fpm(fpm) = &self.php {
            placeholders.set("php", fpm.address());
        }
        placeholders.set("user", if runs_as_root() { "user www-data;" } else { "" });
        Ok(placeholders)
    }

    pub(super) fn is_galley(&self) -> bool {
        self.plan.role == Role::Galley
    }

    /// The roots of its process trees, without the database.
    pub(super) fn roots(&self) -> Vec<u32> {
        let tiers = self.tiers.iter().map(|tier| tier.program.pid());
        tiers.chain([self.php.pid()]).collect()
    }

    /// How many requests for this path reached the server behind the front server; `None` if the front server reads files itself.
    pub(super) fn requests_behind_front(&self, path: &str) -> Option<usize> {
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

    /// Kills PHP-FPM, or the Apache that runs PHP.
    pub(super) fn kill_php(&mut self) {
        match &mut self.php {
            RunningPhp::Apache(apache) => apache.kill(),
            RunningPhp::Fpm(fpm) => fpm.kill(),
        }
    }

    pub(super) fn restart_php(
        &mut self,
        environment: &SeedsEnvironment,
    ) -> Result<(), CommandError> {
        let restart = || match &mut self.php {
            RunningPhp::Apache(apache) => apache.restart(),
            RunningPhp::Fpm(fpm) => fpm.restart(),
        };
        Ok(on_core(environment.cores.server, restart)??)
    }

    /// The last log lines of PHP and of each server in front of it.
    pub(super) fn log_tail(&self) -> String {
        let php = match &self.php {
            RunningPhp::Apache(apache) => apache.log(),
            RunningPhp::Fpm(fpm) => fpm.log(),
        };
        let tiers = self.tiers.iter().map(|tier| tier.program.log());
        let last = |log: String| {
            let lines: Vec<&str> = log.lines().collect();
            let from = lines.len().saturating_sub(LOG_LINES);
            lines.get(from..).unwrap_or_default().join("\n")
        };
        let tails = [php].into_iter().chain(tiers).map(last);
        tails.collect::<Vec<_>>().join("\n")
    }

    /// A folder for files of clients.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        self.tiers.clear();
        SeedsEnvironment::remove(&self.dir);
    }
}

impl RunningPhp {
    fn start(
        environment: &SeedsEnvironment,
        plan: &StackPlan,
        dir: &Path,
        front_port: Option<u16>,
    ) -> Result<Self, CommandError> {
        let settings = match plan.php {
            Php::Apache(apache) => apache,
            Php::Fpm => {
                return Ok(Self::Fpm(PhpFpm::start(
                    dir,
                    &fpm_options(plan, front_port),
                )?));
            }
        };
        let options = ApacheOptions {
            max_request_workers: settings.children,
            keep_alive_timeout_s: settings.keep_alive_timeout_s,
            extra: settings.directives.to_owned(),
        };
        let apache = Apache::start(dir, &environment.wordpress.root, &options)?;
        Ok(Self::Apache(apache))
    }

    fn pid(&self) -> u32 {
        match self {
            Self::Apache(apache) => apache.pid(),
            Self::Fpm(fpm) => fpm.pid(),
        }
    }

    /// The address of Apache. PHP-FPM has none for HTTP.
    fn addr(&self) -> SocketAddr {
        match self {
            Self::Apache(apache) => apache.addr(),
            Self::Fpm(_) => SocketAddr::from(([127, 0, 0, 1], 0)),
        }
    }
}

/// The environment of the pool tells WordPress which server is in front of it.
fn fpm_options(plan: &StackPlan, front_port: Option<u16>) -> FpmOptions {
    let mut pool = Vec::new();
    if plan.role == Role::Galley {
        pool.push(("env[SEEDS_STACK]".to_owned(), "galley".to_owned()));
    }
    if let (Some(Tier::Varnish { .. }), Some(port)) = (plan.tiers.last(), front_port) {
        pool.push(("env[SEEDS_PURGE]".to_owned(), format!("127.0.0.1:{port}")));
    }
    FpmOptions {
        workers: FPM_WORKERS,
        pool,
        ..FpmOptions::default()
    }
}

/// Writes the configuration files of a server and returns its command line.
fn prepare(
    environment: &SeedsEnvironment,
    tier: &Tier,
    dir: &Path,
    mut placeholders: Placeholders,
) -> Result<Vec<String>, CommandError> {
    let write = |name: &str, text: &str, placeholders: &Placeholders| -> Result<(), CommandError> {
        let filled = placeholders
            .fill(text)
            .map_err(|error| format!("`{name}`: {error}"))?;
        Ok(fs::write(dir.join(name), filled)?)
    };
    let command: &[&str] = match tier {
        Tier::Nginx {
            files,
            placeholders: values,
        } => {
            for (name, value) in *values {
                placeholders.set(name, value);
            }
            for (name, text) in *files {
                write(name, text, &placeholders)?;
            }
            NGINX
        }
        Tier::Varnish { vcl } => {
            write("default.vcl", vcl, &placeholders)?;
            VARNISHD
        }
        Tier::Galley => {
            let port = free_port()?;
            placeholders.set("admin_port", port);
            write(
                "galley.toml",
                include_str!("settings/galley.toml"),
                &placeholders,
            )?;
            connect_plugin(environment, dir, port)?;
            GALLEY
        }
    };
    let command = LIMITED
        .iter()
        .chain(command)
        .map(|word| placeholders.fill(word));
    command.collect()
}

/// Writes the tokens, and the file with Galley's address for the plugin.
fn connect_plugin(
    environment: &SeedsEnvironment,
    dir: &Path,
    port: u16,
) -> Result<(), CommandError> {
    for (name, token) in [("server.token", SERVER_TOKEN), ("site.token", SITE_TOKEN)] {
        let file = dir.join(name);
        fs::write(&file, token)?;
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600))?;
    }
    let file = environment
        .wordpress
        .root
        .join("wp-content/galley-connection.php");
    let text = format!(
        "<?php\nreturn array( 'address' => 'http://127.0.0.1:{port}', 'token' => '{SITE_TOKEN}' );\n"
    );
    fs::write(&file, text)?;
    // PHP does not run as root.
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644))?;
    Ok(())
}

/// The soft limit of descriptors in a shell. Programs can raise it.
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
/// Number of log lines in error messages.
const LOG_LINES: usize = 8;
/// The number in Debian's default pool.
pub(super) const FPM_WORKERS: usize = 5;
/// Not secret: the admin interface listens on the loopback address, during a run.
const SERVER_TOKEN: &str = "seeds-token-of-the-server";
const SITE_TOKEN: &str = "seeds-token-of-the-site";
