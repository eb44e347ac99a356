//! Control groups (version 2) below Galley's own, for programs with limits: an amount of memory above which the kernel slows them
//! down, and a number of processes.
//!
//! The kernel only limits groups whose parent group has no processes of its own. So Galley's processes move into a group
//! `galley-server`, next to the groups of the programs. This requires a group that belongs to Galley alone, such as that of a
//! service with `Delegate=yes`: if it contains other processes, nothing is changed. If a requirement is not met, the program runs
//! without limits, and [`GroupError`] is the reason.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::chown;
use rustix::io::Errno;
use rustix::process::{Gid, Pid, Uid, test_kill_process};

use super::account::Account;

/// The limits of a group; without any, no group is created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupLimits {
    /// `memory.high`: bytes above which the kernel reclaims memory and slows down allocations.
    pub memory_high: Option<u64>,
    /// `pids.max`: the maximum number of processes and threads.
    pub pids_max: Option<u64>,
}

/// The state of a program's limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupState {
    /// No limits are configured.
    Off,
    /// The kernel enforces the limits.
    Whole,
    /// The kernel does not enforce the limits, with the reason.
    Failed(String),
}

impl GroupState {
    /// The word in the status.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Whole => "full",
            Self::Failed(_) => "none",
        }
    }

    /// The reason why the limits are not enforced.
    pub fn problem(&self) -> Option<&str> {
        match self {
            Self::Off | Self::Whole => None,
            Self::Failed(why) => Some(why),
        }
    }
}

/// Why a program has no group.
#[derive(Debug, thiserror::Error)]
pub enum GroupError {
    /// cgroup version 2 is not mounted.
    #[error("no control groups of version 2 are mounted")]
    NoVersion2,
    /// Galley's group contains other processes.
    #[error("other processes are in Galley's control group, `{}`: run Galley as a service with `Delegate=yes`", .0.display())]
    Shared(PathBuf),
    /// The controller is not available in Galley's group.
    #[error("the control group `{}` has no `{controller}` controller: run Galley as a service with `Delegate=yes`", path.display())]
    NoController {
        /// The path of Galley's group.
        path: PathBuf,
        /// `memory` or `pids`.
        controller: &'static str,
    },
    /// A file cannot be read or written.
    #[error("cannot use `{}`: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

/// The group of a program. Its directory is removed on drop if the group has no processes.
#[derive(Debug)]
pub struct ProgramGroup {
    path: PathBuf,
}

impl ProgramGroup {
    /// Creates the group with these limits, or applies them to an existing group of this name.
    pub fn new(name: &str, limits: GroupLimits) -> Result<Self, GroupError> {
        let base = base(Path::new("/"))?;
        occupy(&base)?;
        Self::below(&base, name, limits)
    }

    fn below(base: &Path, name: &str, limits: GroupLimits) -> Result<Self, GroupError> {
        let values = limits.values();
        enable(base, values.iter().map(|(controller, ..)| *controller))?;
        sweep(base);
        let path = base.join(format!("{PREFIX}{name}"));
        make(&path)?;
        let group = Self { path };
        for (_, file, value) in values {
            write(&group.path.join(file), &value.to_string())?;
        }
        Ok(group)
    }

    /// Moves a program that has just been started into the group, with the children that it may have started since. Later children
    /// are in the group from the start.
    pub fn take(&self, process: u32) -> Result<(), GroupError> {
        let file = self.path.join(PROCESSES);
        write(&file, &process.to_string())?;
        let children = format!("/proc/{process}/task/{process}/children");
        let children = fs::read_to_string(children).unwrap_or_default();
        for child in children.split_ascii_whitespace() {
            // An error means that the child has just ended.
            let _ = fs::write(&file, child);
        }
        Ok(())
    }
}

impl Drop for ProgramGroup {
    fn drop(&mut self) {
        // A group with processes stays: they will end, or belong to another Galley by now. A later `sweep` removes it.
        let _ = fs::remove_dir(&self.path);
    }
}

impl GroupLimits {
    /// The controller, the file and the value of each limit.
    fn values(self) -> Vec<(&'static str, &'static str, u64)> {
        let memory = self.memory_high.map(|high| ("memory", "memory.high", high));
        let processes = self.pids_max.map(|most| ("pids", "pids.max", most));
        memory.into_iter().chain(processes).collect()
    }
}

impl GroupError {
    fn file(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        Self::File { path, source }
    }
}

/// Gives Galley's group to the user that Galley will become, as a service manager does with `Delegate=` and `User=`. Requires root.
pub fn delegate(account: &Account) -> Result<(), GroupError> {
    let base = base(Path::new("/"))?;
    occupy(&base)?;
    let (uid, gid) = (Uid::from_raw(account.uid), Gid::from_raw(account.gid));
    let server_group = base.join(SERVER_GROUP);
    let files = [
        base.clone(),
        base.join(PROCESSES),
        base.join(ENABLED),
        server_group.join(PROCESSES),
        server_group,
    ];
    for file in files {
        chown(&file, Some(uid), Some(gid))
            .map_err(|error| GroupError::file(&file, error.into()))?;
    }
    Ok(())
}

/// The group that contains those of Galley and of its programs. `root` is `/`.
fn base(root: &Path) -> Result<PathBuf, GroupError> {
    let read = |name: &str| fs::read_to_string(root.join("proc/self").join(name));
    let (groups, mounts) = (read("cgroup"), read("mountinfo"));
    let (Ok(groups), Ok(mounts)) = (groups, mounts) else {
        return Err(GroupError::NoVersion2);
    };
    let own_path = groups.lines().find_map(|line| line.strip_prefix("0::"));
    let mount = mounts.lines().find_map(mount);
    let (Some(own_path), Some((top, folder))) = (own_path, mount) else {
        return Err(GroupError::NoVersion2);
    };
    // In a container, only a part of the hierarchy is mounted.
    let inner = Path::new(own_path)
        .strip_prefix(top)
        .or_else(|_| Path::new(own_path).strip_prefix("/"));
    let own_folder = Path::new(folder).join(inner.map_err(|_| GroupError::NoVersion2)?);
    let around = own_folder.parent().filter(|_| {
        own_folder
            .file_name()
            .is_some_and(|name| name == SERVER_GROUP)
    });
    Ok(around.unwrap_or(&own_folder).to_owned())
}

/// The mounted root and the mount point in a line of `/proc/self/mountinfo` about version 2 (`proc_pid_mountinfo(5)`).
fn mount(line: &str) -> Option<(&str, &str)> {
    let (mount, kind) = line.split_once(" - ")?;
    (kind.split(' ').next() == Some("cgroup2")).then_some(())?;
    let mut fields = mount.split(' ').skip(3);
    Some((fields.next()?, fields.next()?))
}

/// Moves Galley's processes from the group itself into `galley-server`. Fails if the group contains other processes.
fn occupy(base: &Path) -> Result<(), GroupError> {
    let file = base.join(PROCESSES);
    for _ in 0..ROUNDS {
        let text = fs::read_to_string(&file).map_err(|error| GroupError::file(&file, error))?;
        let processes: Vec<u32> = text.lines().filter_map(|line| line.parse().ok()).collect();
        if processes.is_empty() && text.is_empty() {
            return Ok(());
        }
        // 0 stands for a process that is not visible here.
        if !processes.iter().all(|process| is_ours(*process)) {
            return Err(GroupError::Shared(base.to_owned()));
        }
        let server_group = base.join(SERVER_GROUP);
        make(&server_group)?;
        for process in processes {
            let moved = fs::write(server_group.join(PROCESSES), process.to_string());
            // ESRCH: the process has ended.
            if let Err(error) = moved
                && error.raw_os_error() != Some(Errno::SRCH.raw_os_error())
            {
                return Err(GroupError::file(&server_group.join(PROCESSES), error));
            }
        }
    }
    Err(GroupError::Shared(base.to_owned()))
}

/// Enables the controllers for child groups.
fn enable(base: &Path, controllers: impl Iterator<Item = &'static str>) -> Result<(), GroupError> {
    let available = base.join("cgroup.controllers");
    let text =
        fs::read_to_string(&available).map_err(|error| GroupError::file(&available, error))?;
    for controller in controllers {
        if !text.split_ascii_whitespace().any(|one| one == controller) {
            let path = base.to_owned();
            return Err(GroupError::NoController { path, controller });
        }
        write(&base.join(ENABLED), &format!("+{controller}"))?;
    }
    Ok(())
}

/// Removes the groups of programs that have ended. Groups with processes cannot be removed.
fn sweep(base: &Path) {
    let folders = fs::read_dir(base).into_iter().flatten().flatten();
    for folder in folders {
        if folder.file_name().to_string_lossy().starts_with(PREFIX) {
            let _ = fs::remove_dir(folder.path());
        }
    }
}

/// Creates a group, unless it exists.
fn make(folder: &Path) -> Result<(), GroupError> {
    match fs::create_dir(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(GroupError::file(folder, error))
        }
        _ => Ok(()),
    }
}

fn write(file: &Path, text: &str) -> Result<(), GroupError> {
    fs::write(file, text).map_err(|error| GroupError::file(file, error))
}

/// Whether a process is this one or its descendant. A process that has ended counts, too.
fn is_ours(process: u32) -> bool {
    let mut at = process;
    for _ in 0..GENERATIONS {
        if at == std::process::id() {
            return true;
        }
        let Ok(stat) = fs::read_to_string(format!("/proc/{at}/stat")) else {
            return at == process && has_exited(process);
        };
        // The fields after the name, which may contain anything: state, parent.
        let fields = stat.rsplit_once(") ").map(|(_, fields)| fields);
        let parent = fields.and_then(|fields| fields.split(' ').nth(1)?.parse().ok());
        match parent {
            Some(parent) if parent != 0 => at = parent,
            _ => return false,
        }
    }
    false
}

/// Whether the process does not exist. Processes that `/proc` hides are found, too.
fn has_exited(process: u32) -> bool {
    let process = i32::try_from(process).ok().and_then(Pid::from_raw);
    process.is_some_and(|process| test_kill_process(process) == Err(Errno::SRCH))
}

/// The group of Galley's own processes.
const SERVER_GROUP: &str = "galley-server";

/// The prefix of the groups of programs.
const PREFIX: &str = "galley-";

const PROCESSES: &str = "cgroup.procs";

const ENABLED: &str = "cgroup.subtree_control";

/// Processes may start others while the list is read.
const ROUNDS: usize = 8;

/// Galley, the process that keeps root, a waiting shell, a program: more than enough for these.
const GENERATIONS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};

    /// A child process that is killed on drop.
    struct Sleeper(Child);

    impl Sleeper {
        fn start() -> Self {
            Self(Command::new("sleep").arg("60").spawn().unwrap())
        }

        fn group(&self) -> String {
            let text = fs::read_to_string(format!("/proc/{}/cgroup", self.0.id())).unwrap();
            let line = text.lines().find_map(|line| line.strip_prefix("0::"));
            line.unwrap().to_owned()
        }
    }

    impl Drop for Sleeper {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn the_group_is_found_wherever_it_is_mounted() {
        const CGROUP1: &str = "34 24 0:29 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n";
        for (groups, mounts, found) in [
            (
                "0::/system.slice/galley.service\n",
                "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n",
                Some("/sys/fs/cgroup/system.slice/galley.service"),
            ),
            (
                "0::/system.slice/galley.service/galley-server\n",
                "30 24 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n",
                Some("/sys/fs/cgroup/system.slice/galley.service"),
            ),
            (
                "3:pids:/a\n0::/\n",
                "35 24 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
                Some("/sys/fs/cgroup/unified"),
            ),
            (
                "0::/pod/one/a\n",
                "35 24 0:30 /pod/one /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
                Some("/sys/fs/cgroup/a"),
            ),
            ("0::/a\n", "", None),
            (
                "3:pids:/a\n",
                "35 24 0:30 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
                None,
            ),
        ] {
            let dir = tempfile::tempdir().unwrap();
            fs::create_dir_all(dir.path().join("proc/self")).unwrap();
            fs::write(dir.path().join("proc/self/cgroup"), groups).unwrap();
            let mounts = format!("{CGROUP1}{mounts}");
            fs::write(dir.path().join("proc/self/mountinfo"), mounts).unwrap();
            let base = base(dir.path()).ok();
            assert_eq!(base.as_deref(), found.map(Path::new), "{groups}");
        }
    }

    #[test]
    fn a_group_with_other_processes_is_not_changed() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(PROCESSES);
        for others in ["1\n", "0\n"] {
            fs::write(&file, format!("{}\n{others}", std::process::id())).unwrap();
            assert!(matches!(occupy(dir.path()), Err(GroupError::Shared(_))));
            assert!(!dir.path().join(SERVER_GROUP).exists());
        }
    }

    #[test]
    fn missing_requirements_are_reported() {
        let dir = tempfile::tempdir().unwrap();
        let limits = GroupLimits {
            memory_high: Some(1 << 30),
            pids_max: Some(64),
        };
        let group = ProgramGroup::below(dir.path(), "a", limits);
        assert!(matches!(group, Err(GroupError::File { .. })));
        fs::write(dir.path().join("cgroup.controllers"), "cpu memory\n").unwrap();
        let group = ProgramGroup::below(dir.path(), "a", limits);
        let state = GroupState::Failed(group.unwrap_err().to_string());
        assert!(state.problem().unwrap().contains("`pids`"), "{state:?}");
        assert_eq!(state.word(), "none");
    }

    /// The group of this test, in the kernel's real hierarchy.
    struct RealGroup(PathBuf);

    impl RealGroup {
        fn new() -> Option<Self> {
            let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
            let mounted = mounts.lines().find_map(mount);
            let Some((_, folder)) = mounted else {
                galley_testkit::skip("no control groups of version 2 are mounted");
                return None;
            };
            let path = Path::new(folder).join(format!("galley-test-{}", std::process::id()));
            if let Err(error) = fs::create_dir(&path) {
                galley_testkit::skip(&format!("cannot make `{}`: {error}", path.display()));
                return None;
            }
            Some(Self(path))
        }
    }

    impl Drop for RealGroup {
        fn drop(&mut self) {
            let _ = fs::remove_dir(self.0.join(SERVER_GROUP));
            let _ = fs::remove_dir(&self.0);
        }
    }

    #[test]
    fn galley_and_programs_get_separate_groups() {
        let Some(base) = RealGroup::new() else {
            return;
        };
        let (server, program) = (Sleeper::start(), Sleeper::start());
        fs::write(base.0.join(PROCESSES), server.0.id().to_string()).unwrap();
        occupy(&base.0).unwrap();
        assert!(server.group().ends_with(SERVER_GROUP), "{}", server.group());
        let group = ProgramGroup::below(&base.0, "php-a", GroupLimits::default()).unwrap();
        group.take(program.0.id()).unwrap();
        assert!(program.group().ends_with("galley-php-a"));
        // The group stays while it has a process; after that, the next occasion removes it.
        let path = group.path.clone();
        drop(group);
        assert!(path.exists());
        drop((program, server));
        sweep(&base.0);
        assert!(!path.exists());
    }

    #[test]
    fn the_kernel_enforces_the_limits() {
        let Some(base) = RealGroup::new() else {
            return;
        };
        let limits = GroupLimits {
            memory_high: Some(64 << 20),
            pids_max: Some(16),
        };
        match ProgramGroup::below(&base.0, "php-b", limits) {
            Ok(group) => {
                let read = |file: &str| fs::read_to_string(group.path.join(file)).unwrap();
                assert_eq!(read("memory.high").trim(), (64 << 20).to_string());
                assert_eq!(read("pids.max").trim(), "16");
            }
            Err(error) => {
                assert!(matches!(error, GroupError::NoController { .. }), "{error}");
                galley_testkit::skip(&error.to_string());
            }
        }
    }
}
