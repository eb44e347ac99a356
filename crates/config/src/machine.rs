//! The properties of the machine on which defaults depend: its memory, and the folders for runtime files and state.
//!
//! They are read once at the beginning and passed on as values.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use galley_certs::CertificateFiles;

/// The properties of the machine and process on which defaults depend.
#[derive(Clone, Debug)]
pub(crate) struct Environment {
    /// The folder for the admin socket, absolute.
    pub runtime: PathBuf,
    /// The folder for durable state, absolute.
    pub state: PathBuf,
    /// The memory that this process may use, in bytes.
    pub memory: u64,
    /// The current time, to check the validity of certificates.
    pub now: SystemTime,
    /// Certificates that the process has read before, possibly as another user.
    pub known: Vec<CertificateFiles>,
}

/// The folder for sockets and generated files of this process, absolute: that of systemd, otherwise in the user's runtime
/// directory, otherwise `/run/galley` for root and `/tmp/galley-<uid>` for other users.
pub fn runtime_dir() -> PathBuf {
    Environment::current().runtime
}

impl Environment {
    /// The properties for this process.
    pub fn current() -> Self {
        let env = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let (own, session) = (env("RUNTIME_DIRECTORY"), env("XDG_RUNTIME_DIR"));
        Self {
            runtime: runtime(
                own.as_deref(),
                session.as_deref(),
                rustix::process::geteuid().as_raw(),
            ),
            state: state(
                env("STATE_DIRECTORY").as_deref(),
                env("XDG_DATA_HOME").as_deref(),
                env("HOME").as_deref(),
                rustix::process::geteuid().as_raw(),
            ),
            memory: memory(Path::new("/")).unwrap_or(UNKNOWN_MEMORY),
            now: SystemTime::now(),
            known: Vec::new(),
        }
    }
}

/// The folder for runtime files. `own`: systemd's `RUNTIME_DIRECTORY`, which may be several paths separated by `:`; the first
/// is used.
fn runtime(own: Option<&OsStr>, session: Option<&OsStr>, user: u32) -> PathBuf {
    if let Some(first) = own.and_then(|own| std::env::split_paths(own).next()) {
        return first;
    }
    match (session, user) {
        (Some(session), _) => Path::new(session).join("galley"),
        (None, 0) => PathBuf::from("/run/galley"),
        (None, user) => PathBuf::from(format!("/tmp/galley-{user}")),
    }
}

/// The folder for state. `own`: systemd's `STATE_DIRECTORY`, which may be several paths separated by `:`; the first is used.
/// Root has `/var/lib/galley`; other users have the folder of the XDG base directory specification, or, without a home folder,
/// `/var/tmp/galley-<uid>`.
fn state(own: Option<&OsStr>, data: Option<&OsStr>, home: Option<&OsStr>, user: u32) -> PathBuf {
    if let Some(first) = own.and_then(|own| std::env::split_paths(own).next()) {
        return first;
    }
    let absolute = |path: &&OsStr| Path::new(path).is_absolute();
    match (data.filter(absolute), home.filter(absolute)) {
        _ if user == 0 => PathBuf::from("/var/lib/galley"),
        (Some(data), _) => Path::new(data).join("galley"),
        (None, Some(home)) => Path::new(home).join(".local/share/galley"),
        (None, None) => PathBuf::from(format!("/var/tmp/galley-{user}")),
    }
}

/// The memory for this process in bytes, on the machine whose `/` is `root`: the minimum of the machine's memory and of the
/// limits of control groups, version 2 or 1, at every level of the tree. `None` if the kernel does not provide it.
pub fn memory(root: &Path) -> Option<u64> {
    let limits = fs::read_to_string(root.join("proc/self/cgroup"))
        .map(|text| {
            text.lines()
                .flat_map(|line| group_limits(root, line))
                .collect::<Vec<_>>()
        })
        .unwrap_or_default();
    limits.into_iter().chain(machine_memory(root)).min()
}

fn machine_memory(root: &Path) -> Option<u64> {
    let text = fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// The limits for a line of `/proc/self/cgroup`: `0::/path` for version 2, `4:memory:/path` for version 1 (cgroups(7)). In a
/// container the path may not exist below the mount; its parents up to the mount do.
fn group_limits(root: &Path, line: &str) -> Vec<u64> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else {
        return Vec::new();
    };
    let (mount, file) = if controllers.is_empty() {
        ("sys/fs/cgroup", "memory.max")
    } else if controllers.split(',').any(|name| name == "memory") {
        ("sys/fs/cgroup/memory", "memory.limit_in_bytes")
    } else {
        return Vec::new();
    };
    let inner: PathBuf = Path::new(path)
        .components()
        .filter(|part| matches!(part, std::path::Component::Normal(_)))
        .collect();
    inner
        .ancestors()
        .filter_map(|level| fs::read_to_string(root.join(mount).join(level).join(file)).ok())
        .filter_map(|text| text.trim().parse().ok()) // "max" is no limit
        .collect()
}

/// Used if the memory is unknown: that of a small machine, so that the default cannot exhaust a real one.
const UNKNOWN_MEMORY: u64 = 256 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    /// Names below the root, and their contents.
    type Files = &'static [(&'static str, &'static str)];

    fn machine(files: Files) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        dir
    }

    #[test]
    fn memory_is_the_minimum_of_machine_and_groups() {
        const MEMINFO: (&str, &str) = ("proc/meminfo", "MemFree: 1 kB\nMemTotal:      1000 kB\n");
        const TWO: (&str, &str) = ("proc/self/cgroup", "0::/a/b\n");
        const ONE: (&str, &str) = ("proc/self/cgroup", "5:cpu:/x\n4:memory:/a\n");
        let cases: &[(Files, Option<u64>)] = &[
            (&[], None),
            (&[MEMINFO], Some(1_024_000)),
            (
                &[MEMINFO, TWO, ("sys/fs/cgroup/a/b/memory.max", "max\n")],
                Some(1_024_000),
            ),
            (
                &[MEMINFO, TWO, ("sys/fs/cgroup/a/b/memory.max", "5000\n")],
                Some(5_000),
            ),
            (
                &[
                    MEMINFO,
                    TWO,
                    ("sys/fs/cgroup/a/memory.max", "4000\n"),
                    ("sys/fs/cgroup/a/b/memory.max", "5000\n"),
                ],
                Some(4_000),
            ),
            (
                &[MEMINFO, TWO, ("sys/fs/cgroup/memory.max", "3000\n")],
                Some(3_000),
            ),
            (
                &[
                    MEMINFO,
                    ONE,
                    ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "2000\n"),
                ],
                Some(2_000),
            ),
            (
                &[
                    MEMINFO,
                    ONE,
                    (
                        "sys/fs/cgroup/memory/memory.limit_in_bytes",
                        "9223372036854771712\n",
                    ),
                ],
                Some(1_024_000),
            ),
            (
                &[
                    MEMINFO,
                    ("proc/self/cgroup", "0::/../../a\n"),
                    ("sys/fs/cgroup/memory.max", "7\n"),
                ],
                Some(7),
            ),
            (
                &[
                    ("proc/self/cgroup", "junk\n\n::\n"),
                    ("proc/meminfo", "MemTotal: x kB"),
                ],
                None,
            ),
        ];
        for (files, want) in cases {
            assert_eq!(memory(machine(files).path()), *want, "{files:?}");
        }
    }

    #[test]
    fn runtime_folder() {
        let os = |text: &'static str| Some(OsStr::new(text));
        assert_eq!(
            runtime(os("/run/g:/run/h"), os("/run/user/7"), 7),
            Path::new("/run/g")
        );
        assert_eq!(
            runtime(None, os("/run/user/7"), 7),
            Path::new("/run/user/7/galley")
        );
        assert_eq!(runtime(None, None, 0), Path::new("/run/galley"));
        assert_eq!(runtime(None, None, 7), Path::new("/tmp/galley-7"));
    }

    #[test]
    fn state_folder() {
        let os = |text: &'static str| Some(OsStr::new(text));
        let (data, home) = (os("/data"), os("/home/g"));
        for (own, data, home, user, want) in [
            (os("/var/lib/g:/x"), data, home, 0, "/var/lib/g"),
            (None, data, home, 0, "/var/lib/galley"),
            (None, data, home, 7, "/data/galley"),
            (None, os("data"), home, 7, "/home/g/.local/share/galley"),
            (None, None, None, 7, "/var/tmp/galley-7"),
        ] {
            assert_eq!(state(own, data, home, user), Path::new(want));
        }
    }
}
