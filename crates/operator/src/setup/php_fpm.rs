//! The pools of PHP-FPM, from running processes and installed configurations.

use std::path::{Path, PathBuf};

use super::host::PhpBackend;
use super::machine::Machine;
use super::processes::MachineProcess;

/// A pool of PHP-FPM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FpmPool {
    /// The pool's name: the section in the file.
    pub name: String,
    /// The configuration file.
    pub file: PathBuf,
    /// The listener.
    pub listen: PhpBackend,
    /// The user of the workers.
    pub user: Option<String>,
    /// `pm.max_children`.
    pub workers: Option<u32>,
    /// The version, such as `8.2`, if the path of the file contains it.
    pub version: Option<String>,
    /// Whether the socket exists. Always true for a TCP address.
    pub has_socket: bool,
}

/// The pools of this machine.
pub(super) fn pools(machine: &Machine, processes: &[MachineProcess]) -> Vec<FpmPool> {
    let masters = processes.iter().filter(|p| p.name.starts_with("php-fpm"));
    let mut files: Vec<PathBuf> = masters.filter_map(main_file).collect();
    for pattern in INSTALLED {
        files.extend(machine.matching(Path::new(pattern)));
    }
    let mut drafts = Vec::new();
    for file in &files {
        read(machine, file, &mut drafts, 0);
    }
    drafts.sort();
    drafts.dedup();
    drafts
        .into_iter()
        .filter_map(|draft| draft.pool(machine))
        .collect()
}

/// The main file of a process: from its title `php-fpm: master process (/etc/php/8.2/fpm/php-fpm.conf)`, or from an option if
/// it runs in the foreground.
fn main_file(process: &MachineProcess) -> Option<PathBuf> {
    let words = &process.words;
    let title = words.iter().find_map(|word| {
        let inner = word.split_once('(')?.1;
        inner.strip_suffix(')')
    });
    let configured = title.or_else(|| process.option("--fpm-config"));
    let file = configured.or_else(|| process.option("-y"))?;
    file.starts_with('/').then(|| PathBuf::from(file))
}

/// A section of a configuration file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct PoolDraft {
    file: PathBuf,
    name: String,
    options: Vec<(String, String)>,
}

impl PoolDraft {
    fn option(&self, name: &str) -> Option<&str> {
        let option = self.options.iter().rev().find(|(own, _)| own == name);
        option.map(|(_, value)| value.as_str())
    }

    fn pool(&self, machine: &Machine) -> Option<FpmPool> {
        let listen = self.option("listen")?.replace("$pool", &self.name);
        let listen = if listen.starts_with('/') {
            PhpBackend::Unix(listen.into())
        } else if listen.bytes().all(|b| b.is_ascii_digit()) {
            PhpBackend::Tcp(format!("127.0.0.1:{listen}"))
        } else if listen.parse::<std::net::SocketAddr>().is_ok() {
            PhpBackend::Tcp(listen)
        } else {
            return None;
        };
        let has_socket = match &listen {
            PhpBackend::Unix(path) => machine.exists(path),
            PhpBackend::Tcp(_) | PhpBackend::Module => true,
        };
        let is_version = |part: &&str| {
            part.contains('.') && part.bytes().all(|b| b.is_ascii_digit() || b == b'.')
        };
        let folders = self.file.to_str().unwrap_or_default().split('/');
        let version = folders.into_iter().find(is_version).map(str::to_owned);
        Some(FpmPool {
            name: self.name.clone(),
            file: self.file.clone(),
            listen,
            user: self
                .option("user")
                .map(|user| user.replace("$pool", &self.name)),
            workers: self.option("pm.max_children").and_then(|n| n.parse().ok()),
            version,
            has_socket,
        })
    }
}

fn read(machine: &Machine, file: &Path, all: &mut Vec<PoolDraft>, depth: usize) {
    if depth > MAX_INCLUDES || all.len() > MAX_POOLS {
        return;
    }
    let Some(text) = machine.text(file) else {
        return;
    };
    let mut current: Option<PoolDraft> = None;
    for line in text.lines() {
        let line = line.split(';').next().unwrap_or_default().trim();
        if let Some(name) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            all.extend(current.take());
            current = (name != "global").then(|| PoolDraft {
                file: file.to_owned(),
                name: name.to_owned(),
                options: Vec::new(),
            });
        } else if let Some((name, value)) = line.split_once('=') {
            let (name, value) = (name.trim(), value.trim().trim_matches('"'));
            match (name, &mut current) {
                ("include", _) => {
                    let folder = file.parent().unwrap_or(Path::new("/"));
                    for inner in machine.matching(&folder.join(value)) {
                        read(machine, &inner, all, depth + 1);
                    }
                }
                (_, Some(pool)) => pool.options.push((name.to_owned(), value.to_owned())),
                (_, None) => {}
            }
        }
    }
    all.extend(current);
}

/// The files of Debian, of Fedora, of builds from source and of the image `php:fpm`.
const INSTALLED: &[&str] = &[
    "/etc/php/*/fpm/php-fpm.conf",
    "/etc/php/*/fpm/pool.d/*.conf",
    "/etc/php-fpm.conf",
    "/etc/php-fpm.d/*.conf",
    "/usr/local/etc/php-fpm.d/*.conf",
];

const MAX_INCLUDES: usize = 4;
const MAX_POOLS: usize = 1000;

#[cfg(test)]
mod tests {
    use super::super::machine::sample::SampleMachine;
    use super::super::processes;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn pools_of_an_installation_and_of_a_running_program() {
        let sample = SampleMachine::new(&[
            (
                "etc/php/8.2/fpm/php-fpm.conf",
                "[global]\nerror_log = /var/log/f.log\ninclude=/etc/php/8.2/fpm/pool.d/*.conf\n",
            ),
            (
                "etc/php/8.2/fpm/pool.d/www.conf",
                "; a comment\n[www]\nuser = www-data\nlisten = /run/php/php8.2-fpm.sock ; here\npm.max_children = 5\n",
            ),
            ("run/php/php8.2-fpm.sock", ""),
            ("proc/7/comm", "php-fpm\n"),
            (
                "proc/7/cmdline",
                "php-fpm: master process (/srv/fpm.conf)\0\0",
            ),
            (
                "srv/fpm.conf",
                "[shop]\nuser=$pool\nlisten = 9001\n[none]\nuser = x\n",
            ),
        ]);
        let machine = sample.machine();
        let mut found = pools(&machine, &processes::all(&machine));
        found.sort_by(|a, b| a.name.cmp(&b.name));
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(
            found[0].listen,
            PhpBackend::Tcp("127.0.0.1:9001".to_owned())
        );
        assert_eq!(found[0].user.as_deref(), Some("shop"));
        assert_eq!(
            found[1].listen,
            PhpBackend::Unix("/run/php/php8.2-fpm.sock".into())
        );
        assert_eq!((found[1].workers, found[1].has_socket), (Some(5), true));
        assert_eq!(found[1].version.as_deref(), Some("8.2"));
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_without_panic(text in "(?s).{0,200}", lines in "([\\[\\]=;a-z/*. \n]|include|listen){0,60}") {
            let sample = SampleMachine::new(&[("etc/php-fpm.d/a.conf", &format!("{text}\n{lines}"))]);
            let _ = pools(&sample.machine(), &[]);
        }
    }
}
