//! The processes of the machine: their arguments, their units, and the sockets that they hold.

use std::fs;
use std::path::{Path, PathBuf};

use super::machine::Machine;

/// A process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MachineProcess {
    pub(super) id: u32,
    /// The program's name, at most 15 bytes.
    pub(super) name: String,
    /// The words of the command line. If the program has replaced it by a title, the title is split at spaces.
    pub(super) words: Vec<String>,
}

impl MachineProcess {
    /// The word after an option: `-c FILE`.
    pub(super) fn option(&self, name: &str) -> Option<&str> {
        let mut words = self.words.iter();
        words.find(|word| *word == name)?;
        words.next().map(String::as_str)
    }

    /// The systemd unit of the process, from its control group.
    pub(super) fn unit(&self, machine: &Machine) -> Option<String> {
        let groups = machine.head(&self.folder().join("cgroup"))?;
        let path = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
        let unit = path.rsplit('/').find(|part| part.ends_with(".service"))?;
        Some(unit.to_owned())
    }

    /// The inodes of the process's open sockets. Only root and the process's own user can read them.
    pub(super) fn sockets(&self, machine: &Machine) -> Vec<u64> {
        let folder = machine.path(&self.folder().join("fd"));
        let entries = fs::read_dir(folder).into_iter().flatten();
        let links = entries.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
        links
            .filter_map(|link| {
                let inner = link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?;
                inner.parse().ok()
            })
            .take(MAX_SOCKETS)
            .collect()
    }

    fn folder(&self) -> PathBuf {
        Path::new("/proc").join(self.id.to_string())
    }
}

/// All processes, sorted by id.
pub(super) fn all(machine: &Machine) -> Vec<MachineProcess> {
    let names = machine.names(Path::new("/proc"));
    let ids = names.iter().filter_map(|name| name.parse::<u32>().ok());
    let mut processes: Vec<MachineProcess> = ids
        .filter_map(|id| {
            let folder = Path::new("/proc").join(id.to_string());
            let name = machine.head(&folder.join("comm"))?;
            let line = machine.head(&folder.join("cmdline")).unwrap_or_default();
            let line = line.trim_end_matches(['\0', ' ']);
            let separator = if line.contains('\0') { '\0' } else { ' ' };
            Some(MachineProcess {
                id,
                name: name.trim_end().to_owned(),
                words: line.split(separator).map(str::to_owned).collect(),
            })
        })
        .collect();
    processes.sort_by_key(|process| process.id);
    processes
}

/// The maximum number of sockets of a process. A web server has one for each connection.
const MAX_SOCKETS: usize = 100_000;

#[cfg(test)]
mod tests {
    use super::super::machine::sample::SampleMachine;
    use super::*;

    #[test]
    fn options_units_and_sockets_of_processes() {
        let sample = SampleMachine::new(&[
            ("proc/7/comm", "nginx\n"),
            (
                "proc/7/cmdline",
                "nginx: master process /usr/sbin/nginx -c /srv/n.conf\0\0\0",
            ),
            ("proc/7/cgroup", "0::/system.slice/nginx.service\n"),
            ("proc/8/comm", "php-fpm8.2\n"),
            ("proc/8/cmdline", "php-fpm8.2\0--fpm-config\0/a b.conf\0"),
            ("proc/8/cgroup", "0::/user.slice/session-1.scope\n"),
            ("proc/self/comm", "x\n"),
        ]);
        sample.link("proc/7/fd/3", "socket:[4711]");
        sample.link("proc/7/fd/4", "/dev/null");
        let machine = sample.machine();
        let found = all(&machine);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].option("-c"), Some("/srv/n.conf"));
        assert_eq!(found[0].unit(&machine).as_deref(), Some("nginx.service"));
        assert_eq!(found[0].sockets(&machine), [4711]);
        assert_eq!(found[1].option("--fpm-config"), Some("/a b.conf"));
        assert_eq!(found[1].unit(&machine), None);
    }
}
