//! The state of the machine in `/proc`, `/sys` and `/run`, below a root that tests can replace.
//!
//! No function fails: a missing or unreadable value is `None`.

use std::fs;
use std::path::{Path, PathBuf};

/// The files in which the kernel reports its state.
#[derive(Clone, Debug)]
pub struct ProcFs {
    root: PathBuf,
}

/// A running process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ProcessInfo {
    pub id: u32,
    /// The program's name, at most 15 bytes (proc(5), `comm`).
    pub name: String,
    /// The memory that is freed when the process ends, in bytes: private memory, and the share of shared memory if the kernel
    /// reports it.
    pub bytes: u64,
}

impl ProcFs {
    /// The machine whose root directory is `root`.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Reads a file as text.
    pub(super) fn text(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.path(path)).ok()
    }

    /// Reads a file that contains one number.
    pub(super) fn number(&self, path: &str) -> Option<u64> {
        self.text(path)?.trim().parse().ok()
    }

    /// Whether the file exists.
    pub(super) fn has(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// The path of a file below the root.
    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// The number after `name:` in a file such as `/proc/meminfo`, in bytes if the line ends with kB.
    pub(super) fn line(&self, path: &str, name: &str) -> Option<u64> {
        let text = self.text(path)?;
        let value = text
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?
            .trim();
        match value.strip_suffix("kB") {
            Some(number) => number.trim().parse::<u64>().ok()?.checked_mul(1024),
            None => value.parse().ok(),
        }
    }

    /// The counter `name` of `group` in `/proc/net/snmp` or `/proc/net/netstat`, which have a line of names before each line of
    /// numbers.
    pub(super) fn counter(&self, path: &str, group: &str, name: &str) -> Option<u64> {
        let text = self.text(path)?;
        let mut lines = text
            .lines()
            .filter_map(|line| line.strip_prefix(group)?.strip_prefix(':'));
        let at = lines.next()?.split_whitespace().position(|n| n == name)?;
        lines.next()?.split_whitespace().nth(at)?.parse().ok()
    }

    /// The number after `name` on a line of words, as in `/proc/net/sockstat` and `/proc/vmstat`.
    pub(super) fn word(&self, path: &str, line: &str, name: &str) -> Option<u64> {
        let text = self.text(path)?;
        let line = text.lines().find(|text| text.starts_with(line))?;
        let mut words = line.split_whitespace();
        words.find(|word| *word == name)?;
        words.next()?.parse().ok()
    }

    /// The running processes with a name that `wanted` selects.
    pub(super) fn processes(&self, wanted: impl Fn(&str) -> bool) -> Vec<ProcessInfo> {
        let folders = fs::read_dir(self.path("proc")).into_iter().flatten();
        folders
            .filter_map(|folder| folder.ok()?.file_name().to_str()?.parse().ok())
            .filter_map(|id: u32| {
                let name = self.text(&format!("proc/{id}/comm"))?.trim().to_owned();
                let bytes = wanted(&name).then(|| self.memory_of(id)).flatten();
                wanted(&name).then_some(ProcessInfo {
                    id,
                    name,
                    bytes: bytes.unwrap_or(0),
                })
            })
            .collect()
    }

    /// The process id of a running server: the one that was started with this configuration file, or otherwise any.
    pub(super) fn server(&self, file: &Path) -> Option<u32> {
        let processes = self.processes(|name| name == "galley");
        let servers = processes.iter().map(|process| process.id);
        let servers: Vec<u32> = servers
            .filter(|id| self.argument(*id, 1).as_deref() == Some("run"))
            .collect();
        let has_it = |id: &u32| {
            let line = self.text(&format!("proc/{id}/cmdline")).unwrap_or_default();
            line.split('\0').any(|word| Path::new(word) == file)
        };
        let server = servers.iter().copied().find(has_it);
        server.or_else(|| servers.first().copied())
    }

    /// The word with this index on a process's command line.
    pub(super) fn argument(&self, id: u32, index: usize) -> Option<String> {
        let line = self.text(&format!("proc/{id}/cmdline"))?;
        line.split('\0').nth(index).map(str::to_owned)
    }

    /// The parent process id: the second field of `stat` after the name, which may contain anything.
    pub(super) fn parent(&self, id: u32) -> Option<u32> {
        let stat = self.text(&format!("proc/{id}/stat"))?;
        let (_, fields) = stat.rsplit_once(") ")?;
        fields.split(' ').nth(1)?.parse().ok()
    }

    /// The proportional set size if it is readable, otherwise the resident size without shared memory (`statm`: size, resident,
    /// shared).
    fn memory_of(&self, id: u32) -> Option<u64> {
        let share = self.line(&format!("proc/{id}/smaps_rollup"), "Pss");
        share.or_else(|| {
            let text = self.text(&format!("proc/{id}/statm"))?;
            let mut words = text.split_whitespace().skip(1);
            let resident: u64 = words.next()?.parse().ok()?;
            let shared: u64 = words.next()?.parse().ok()?;
            let page = rustix::param::page_size() as u64;
            resident.checked_sub(shared)?.checked_mul(page)
        })
    }

    /// The number of entries in a folder.
    pub(super) fn count(&self, path: &str) -> Option<u64> {
        Some(fs::read_dir(self.path(path)).ok()?.count() as u64)
    }
}

#[cfg(test)]
pub(super) mod stand_in {
    //! A fake machine whose `/proc` consists of files.

    use super::ProcFs;

    pub(crate) struct StandIn {
        dir: tempfile::TempDir,
    }

    impl StandIn {
        /// Creates files below the root with these texts.
        pub(crate) fn new(files: &[(&str, &str)]) -> Self {
            let made = Self {
                dir: tempfile::tempdir().unwrap(),
            };
            for (name, text) in files {
                made.write(name, text);
            }
            made
        }

        pub(crate) fn write(&self, name: &str, text: &str) {
            let path = self.dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }

        pub(crate) fn machine(&self) -> ProcFs {
            ProcFs::at(self.dir.path())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::stand_in::StandIn;
    use proptest::prelude::*;

    #[test]
    fn every_format_of_the_kernel_is_parsed() {
        let stand_in = StandIn::new(&[
            ("proc/meminfo", "MemTotal:  2 kB\nHugePages_Free:  7\n"),
            ("proc/net/snmp", "Tcp: A B\nTcp: 1 22\nUdp: B\nUdp: 3\n"),
            ("proc/net/sockstat", "sockets: used 5\nTCP: inuse 1 tw 9\n"),
            ("proc/vmstat", "oom_kill 4\n"),
            ("proc/12/comm", "php-fpm8.2\n"),
            ("proc/12/statm", "100 30 10 0 0 0 0\n"),
            ("proc/13/comm", "php-fpm8.2\n"),
            ("proc/13/smaps_rollup", "Rss: 9 kB\nPss:   5 kB\n"),
            ("proc/self/comm", "x\n"),
        ]);
        let machine = stand_in.machine();
        assert_eq!(machine.line("proc/meminfo", "MemTotal"), Some(2048));
        assert_eq!(machine.line("proc/meminfo", "HugePages_Free"), Some(7));
        assert_eq!(machine.line("proc/meminfo", "Mem"), None);
        assert_eq!(machine.counter("proc/net/snmp", "Tcp", "B"), Some(22));
        assert_eq!(machine.counter("proc/net/snmp", "Udp", "B"), Some(3));
        assert_eq!(machine.counter("proc/net/snmp", "Udp", "A"), None);
        assert_eq!(machine.word("proc/net/sockstat", "TCP:", "tw"), Some(9));
        assert_eq!(machine.word("proc/vmstat", "oom_kill", "oom_kill"), Some(4));
        let mut all = machine.processes(|name| name.starts_with("php"));
        all.sort_by_key(|process| process.id);
        let page = rustix::param::page_size() as u64;
        let bytes: Vec<u64> = all.iter().map(|process| process.bytes).collect();
        assert_eq!(bytes, [20 * page, 5 * 1024]);
        assert_eq!(machine.number("proc/nothing"), None);
    }

    proptest! {
        #[test]
        fn any_file_content_is_parsed_without_panic(text in "(?s).{0,200}") {
            let stand_in = StandIn::new(&[("proc/f", &text), ("proc/7/comm", &text), ("proc/7/statm", &text)]);
            let machine = stand_in.machine();
            let _ = machine.line("proc/f", "A");
            let _ = machine.counter("proc/f", "", "A");
            let _ = machine.word("proc/f", "", "A");
            let _ = machine.number("proc/f");
            let _ = machine.processes(|_| true);
        }
    }
}
