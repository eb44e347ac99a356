//! What the kernel lets the threads do that deal with clients and upstreams: reach the folders that they need (Landlock), and
//! gain no privileges.
//!
//! It holds for a thread and for those that it starts, so the control thread, which starts PHP and opens logs anew, is free
//! of it: PHP's mail program must be able to change its group, and PHP's files are none of ours. What a hole in a parser or
//! in the resolution of paths could reach is bounded all the same, since both run on threads that are confined.
//! Where the kernel cannot, nothing is refused and the status says so.

use std::io;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus,
    path_beneath_rules,
};

/// The folders that are within reach.
#[derive(Clone, Debug, Default)]
pub struct Sandbox {
    read: Vec<PathBuf>,
    write: Vec<PathBuf>,
}

/// How far the kernel went along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SandboxLevel {
    /// As asked for.
    Whole,
    /// As far as an older kernel knows it.
    Partly,
    /// Not at all: the kernel has no Landlock, or it is off.
    Not,
    /// Nobody asked.
    Off,
}

impl SandboxLevel {
    /// The word for it in status and log.
    pub fn word(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::Partly => "partly",
            Self::Not => "none",
            Self::Off => "off",
        }
    }
}

/// Confines the calling thread where it is to be; that it could be done was tried at the start.
pub fn enter(sandbox: Option<&Sandbox>) {
    if let Some(Err(error)) = sandbox.map(Sandbox::enter) {
        tracing::error!(%error, "a thread could not be confined");
    }
}

impl Sandbox {
    /// A folder or file that may be read. Where its path leads through links, a deployment may let them lead to a sibling
    /// of where they lead now, so that all of those are within reach.
    pub fn read(&mut self, path: &Path) {
        let target = path.canonicalize().ok();
        let is_moved = target.as_deref().is_some_and(|target| target != path);
        let siblings = target
            .as_deref()
            .filter(|_| is_moved)
            .and_then(Path::parent)
            .filter(|parent| parent.parent().is_some());
        self.read.extend(siblings.map(Path::to_owned));
        self.read.push(path.to_owned());
    }

    /// A folder in which anything may be done.
    pub fn write(&mut self, path: &Path) {
        self.write.push(path.to_owned());
    }

    /// Confines the calling thread, and those that it starts from now on. There is no way back.
    pub fn enter(&self) -> io::Result<SandboxLevel> {
        rustix::thread::set_no_new_privs(true)?;
        let status = self.restrict().map_err(io::Error::other)?;
        Ok(match status {
            RulesetStatus::FullyEnforced => SandboxLevel::Whole,
            RulesetStatus::PartiallyEnforced => SandboxLevel::Partly,
            RulesetStatus::NotEnforced => SandboxLevel::Not,
        })
    }

    /// What [`Sandbox::enter`] comes to on this machine, found out by a thread that ends at once.
    pub fn probe(&self) -> io::Result<SandboxLevel> {
        let one = self.clone();
        let thread = std::thread::Builder::new().spawn(move || one.enter())?;
        thread
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("it panicked")))
    }

    fn restrict(&self) -> Result<RulesetStatus, RulesetError> {
        let rules = Ruleset::default()
            .handle_access(AccessFs::from_all(KNOWN))?
            .create()?;
        // A missing file cannot be opened either.
        let read = AccessFs::ReadFile | AccessFs::ReadDir;
        let restricted = rules
            .add_rules(path_beneath_rules(&self.read, read))?
            .add_rules(path_beneath_rules(&self.write, AccessFs::from_all(KNOWN)))?
            .restrict_self()?;
        Ok(restricted.ruleset)
    }
}

/// Up to Linux 6.10: files and devices. Later ones would also close sockets in the file system, and PHP's is one of them.
const KNOWN: ABI = ABI::V5;

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::thread;

    #[test]
    fn a_thread_reaches_its_folders_and_others_reach_everything() {
        let dir = tempfile::tempdir().unwrap();
        let [root, spool, outside] = ["root", "spool", "outside"].map(|name| dir.path().join(name));
        for folder in [&root, &spool, &outside] {
            fs::create_dir(folder).unwrap();
            fs::write(folder.join("a"), "a").unwrap();
        }
        std::os::unix::fs::symlink(outside.join("a"), root.join("link")).unwrap();
        let mut sandbox = Sandbox::default();
        sandbox.read(&root);
        sandbox.write(&spool);
        let entered = sandbox.clone();
        let held = thread::scope(|scope| {
            let confined = scope.spawn(|| {
                let held = entered.enter().unwrap();
                assert_eq!(fs::read(root.join("a")).unwrap(), b"a");
                fs::write(spool.join("b"), "b").unwrap();
                let refused = |done: io::Result<Vec<u8>>| {
                    done.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
                };
                // The thread's own children too, such as helpers that read files.
                let (link, above) = (root.join("link"), root.join("../outside/a"));
                let child = thread::spawn(move || [fs::read(link), fs::read(above)]);
                let all = child.join().unwrap().into_iter().all(refused);
                let written = fs::write(root.join("b"), "b").map(|()| Vec::new());
                assert_eq!(
                    all && refused(written),
                    held != SandboxLevel::Not,
                    "{held:?}"
                );
                held
            });
            confined.join().unwrap()
        });
        assert_eq!(sandbox.probe().unwrap(), held);
        assert_eq!(fs::read(root.join("link")).unwrap(), b"a");
    }

    #[test]
    fn where_a_link_leads_its_siblings_are_within_reach() {
        let dir = tempfile::tempdir().unwrap();
        let releases = dir.path().canonicalize().unwrap().join("releases");
        fs::create_dir_all(releases.join("1")).unwrap();
        let current = dir.path().canonicalize().unwrap().join("current");
        std::os::unix::fs::symlink(releases.join("1"), &current).unwrap();
        let mut sandbox = Sandbox::default();
        sandbox.read(&current);
        assert_eq!(sandbox.read, [releases.clone(), current]);
        let mut plain = Sandbox::default();
        plain.read(&releases);
        assert_eq!(plain.read, [releases]);
    }
}
