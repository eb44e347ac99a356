//! The settings of a site for its PHP-FPM, or for another FastCGI program, and the errors of a start.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use galley_config::{PhpSandbox, PhpWritable};
use galley_policy::shape::Shape;

use super::MemoryDivision;
use galley_sys::cgroup::GroupLimits;

/// The settings of a site for its PHP-FPM, or for another FastCGI program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhpSettings {
    /// The PHP-FPM binary; `None`: the one found in the usual folders, see [`PhpStartError::NoBinary`].
    pub binary: Option<PathBuf>,
    /// Another program instead of PHP-FPM, with its arguments; empty for PHP-FPM.
    pub command: Vec<String>,
    /// The number of worker processes; 0: as many as fit into the memory.
    pub workers: usize,
    /// The memory of the machine, divided.
    pub budget: MemoryDivision,
    /// The time limit for the first byte of a response, and for a script in PHP-FPM, unless the script raises it.
    pub first_byte_timeout: Duration,
    /// The time limit for a request in PHP-FPM, after which its worker is killed.
    pub timeout: Duration,
    /// The memory limit of a script in PHP-FPM, in bytes; `None`: computed from the available memory.
    pub memory_limit: Option<u64>,
    /// The user of the workers. `None`: `www-data` if Galley runs as root. Only root can change it.
    pub user: Option<String>,
    /// The folder in which a subfolder for the socket and the configuration is created; created if it does not exist.
    pub runtime_dir: PathBuf,
    /// The site's name, for file names and log lines.
    pub site_name: String,
    /// The maximum size of a request body in bytes; PHP's own limits are set to it.
    pub request_body: u64,
    /// The site's root, which is the working directory of the processes.
    pub root: PathBuf,
    /// The sandbox of PHP-FPM; `None`: only the permissions of its user apply.
    pub sandbox: Option<PhpSandbox>,
    /// The kernel's limits for all processes of PHP-FPM together.
    pub limits: GroupLimits,
}

impl PhpSettings {
    /// Whether a pool with these settings can be used for `other`.
    pub fn is_like(&self, other: &Self) -> bool {
        self.likeness() == other.likeness()
    }

    /// A text that is the same for pools that can be used for each other, also in the process of another version.
    pub fn likeness(&self) -> String {
        format!("{:016x}", self.shape().hash())
    }

    fn shape(&self) -> Shape {
        // Every field is here, so that a new one is either declared below or, with its reason, not.
        let Self {
            binary,
            command,
            workers,
            // The share of the memory depends on the number of pools.
            budget: _,
            first_byte_timeout,
            timeout,
            memory_limit,
            user,
            // The path of the socket.
            runtime_dir: _,
            site_name,
            request_body,
            root,
            sandbox,
            limits:
                GroupLimits {
                    memory_high,
                    pids_max,
                },
        } = self;
        let shape = Shape::new("php-pool", 1)
            .with("site", [site_name])
            .with("root", [root.display()])
            .with("binary", binary.iter().map(|path| path.display()))
            .with("command", command)
            .with("workers", [workers])
            .with("first_byte_timeout", [first_byte_timeout.as_nanos()])
            .with("timeout", [timeout.as_nanos()])
            .with("memory_limit", memory_limit)
            .with("user", user)
            .with("request_body", [request_body])
            .with("memory_high", memory_high)
            .with("pids_max", pids_max);
        let Some(PhpSandbox {
            writable,
            paths,
            connect_ports,
        }) = sandbox
        else {
            return shape;
        };
        let writable = match writable {
            PhpWritable::Root => "root",
            PhpWritable::Content => "wp-content",
        };
        // An empty list of ports permits none, and no list permits all.
        shape
            .with("sandbox", [writable])
            .with("paths", paths.iter().map(|path| path.display()))
            .with_flag("limits_ports", connect_ports.is_some())
            .with("connect_ports", connect_ports.iter().flatten())
    }
}

/// The reason why PHP-FPM does not run.
#[derive(Debug, thiserror::Error)]
pub enum PhpStartError {
    /// No binary was named and none is installed in the usual folders.
    #[error(
        "no php-fpm found in /usr/sbin, /usr/local/sbin: install PHP-FPM (Debian: package `php-fpm`) or name the program"
    )]
    NoBinary,
    /// A setting cannot be written into the pool's configuration.
    #[error("{what} `{value}` cannot be used for PHP: {why}")]
    Setting {
        /// The name of the setting.
        what: &'static str,
        /// The value as given.
        value: String,
        /// The problem.
        why: &'static str,
    },
    /// The folder or the configuration could not be written.
    #[error("cannot prepare PHP in `{}`", path.display())]
    Files {
        /// The path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A program could not be started.
    #[error("cannot start `{}`", program.display())]
    Spawn {
        /// PHP-FPM, or the watcher shell.
        program: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The program must run as another user, and Galley has given up root.
    #[error(
        "only a restart of Galley can start PHP as another user than `server.user`, or with other settings as that user"
    )]
    Apart,
    /// The program could not be sandboxed.
    #[error("cannot confine PHP (`php_sandbox`)")]
    Confine {
        /// The cause.
        source: io::Error,
    },
    /// The program ended before its socket accepted connections.
    #[error("php-fpm ended at once ({status}): {output}")]
    Exited {
        /// The exit status.
        status: ExitStatus,
        /// The last lines of its log.
        output: String,
    },
    /// The socket did not accept connections in time.
    #[error("php-fpm did not accept connections within {timeout:?}: {output}")]
    NotReady {
        /// The time limit.
        timeout: Duration,
        /// The last lines of its log.
        output: String,
    },
}

#[cfg(test)]
mod tests {
    use super::super::MachineMemory;
    use super::*;

    fn settings() -> PhpSettings {
        PhpSettings {
            binary: Some("/usr/sbin/php-fpm8.4".into()),
            command: Vec::new(),
            workers: 4,
            budget: MemoryDivision::of(MachineMemory {
                memory: 4 << 30,
                cores: 2,
                cache: 1 << 28,
                pools: 1,
            }),
            first_byte_timeout: Duration::from_secs(60),
            timeout: Duration::from_secs(300),
            memory_limit: Some(256 << 20),
            user: Some("www-data".to_owned()),
            runtime_dir: "/run/galley".into(),
            site_name: "example.com".to_owned(),
            request_body: 32 << 20,
            root: "/var/www/example.com".into(),
            sandbox: Some(PhpSandbox {
                writable: PhpWritable::Content,
                paths: vec!["/srv/uploads".into()],
                connect_ports: Some(vec![443]),
            }),
            limits: GroupLimits {
                memory_high: Some(1 << 30),
                pids_max: Some(100),
            },
        }
    }

    /// A running PHP-FPM is handed over to another version of Galley by this text.
    #[test]
    fn the_likeness_of_a_pool_is_the_same_in_every_version() {
        assert_eq!(settings().likeness(), "5bd152c6ed4d14bc");
        let plain = PhpSettings {
            sandbox: None,
            limits: GroupLimits::default(),
            ..settings()
        };
        assert_eq!(plain.likeness(), "75fdaa684bbbfa6b");
    }

    #[test]
    fn every_setting_but_the_place_of_the_socket_makes_another_pool() {
        let moved = PhpSettings {
            runtime_dir: "/tmp/other".into(),
            ..settings()
        };
        assert!(settings().is_like(&moved));
        let sandbox = |change: fn(&mut PhpSandbox)| {
            let mut all = settings();
            all.sandbox.as_mut().into_iter().for_each(change);
            all
        };
        let others = [
            PhpSettings {
                binary: None,
                ..settings()
            },
            PhpSettings {
                command: vec!["/usr/bin/php-cgi".to_owned()],
                ..settings()
            },
            PhpSettings {
                workers: 5,
                ..settings()
            },
            PhpSettings {
                first_byte_timeout: Duration::from_secs(61),
                ..settings()
            },
            PhpSettings {
                timeout: Duration::from_secs(301),
                ..settings()
            },
            PhpSettings {
                memory_limit: None,
                ..settings()
            },
            PhpSettings {
                user: None,
                ..settings()
            },
            PhpSettings {
                site_name: "other".to_owned(),
                ..settings()
            },
            PhpSettings {
                request_body: 1,
                ..settings()
            },
            PhpSettings {
                root: "/var/www/other".into(),
                ..settings()
            },
            PhpSettings {
                sandbox: None,
                ..settings()
            },
            PhpSettings {
                limits: GroupLimits::default(),
                ..settings()
            },
            sandbox(|one| one.writable = PhpWritable::Root),
            sandbox(|one| one.paths.clear()),
            sandbox(|one| one.connect_ports = Some(Vec::new())),
            sandbox(|one| one.connect_ports = None),
        ];
        for (index, one) in others.iter().enumerate() {
            assert!(!settings().is_like(one), "{one:?}");
            for other in others.iter().skip(index + 1) {
                assert!(!one.is_like(other), "{one:?} {other:?}");
            }
        }
    }
}
