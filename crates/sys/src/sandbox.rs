//! Restricts threads and programs to the folders that they need (Landlock), and to their current privileges.
//!
//! The restriction applies to a thread and to everything that it starts. The threads for clients and upstreams are sandboxed,
//! so that a vulnerability in a parser or in the resolution of paths has limited effect. The control thread, which starts PHP
//! and reopens logs, is not: PHP's mail program must be able to change its group, and a sandboxed PHP needs other folders, so a
//! separate thread starts it ([`Sandbox::within`]). If the kernel does not support Landlock, nothing is restricted and the
//! status says so.

use std::io;
use std::path::{Path, PathBuf};
use std::thread;

use galley_policy::outcome::words;
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, NetPort, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetError, RulesetStatus, Scope, path_beneath_rules,
};
use serde::{Deserialize, Serialize};

/// The accessible files and TCP ports, and whether other processes are accessible.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sandbox {
    read: Vec<PathBuf>,
    write: Vec<PathBuf>,
    /// Programs and their libraries.
    execute: Vec<PathBuf>,
    /// The TCP ports that may be connected to; `None`: all.
    ports: Option<Vec<u16>>,
    /// Forbids signals to processes outside of the sandbox, and connections to their abstract unix sockets.
    is_apart: bool,
}

words! {
    /// To what extent the kernel enforces a sandbox.
    SandboxLevel {
        /// All restrictions.
        Whole = "full",
        /// The restrictions that an older kernel supports.
        Partly = "partial",
        /// None: the kernel has no Landlock, or it is disabled.
        Not = "none",
        /// The configuration disables the sandbox.
        Off = "off",
    }
}

/// Sandboxes the calling thread, if configured. The start has checked that this is possible.
pub fn enter(sandbox: Option<&Sandbox>) {
    if let Some(Err(error)) = sandbox.map(Sandbox::enter) {
        tracing::error!(%error, "a thread could not be confined");
    }
}

impl Sandbox {
    /// Permits reading a folder or file. A deployment may point each link in its path to a sibling of the link's current target
    /// (`current` from one release to the next), so all these siblings may be read.
    pub fn read(&mut self, path: &Path) {
        let is_link = |part: &&Path| part.is_symlink();
        let targets = path.ancestors().filter(is_link);
        let targets = targets.filter_map(|link| link.canonicalize().ok());
        let around = targets.filter_map(|target| Some(target.parent()?.to_owned()));
        self.read
            .extend(around.filter(|folder| folder.parent().is_some()));
        self.read.push(path.to_owned());
    }

    /// Permits reading a folder or file, but not the siblings of a link's target.
    pub fn read_target(&mut self, path: &Path) {
        self.read.push(path.to_owned());
    }

    /// Permits every access to a folder or file, except executing programs from it.
    pub fn write(&mut self, path: &Path) {
        self.write.push(path.to_owned());
    }

    /// Permits reading a folder or file, and executing programs from it.
    pub fn execute(&mut self, path: &Path) {
        self.execute.push(path.to_owned());
    }

    /// Forbids connections to other TCP ports.
    pub fn connect_only(&mut self, ports: &[u16]) {
        self.ports = Some(ports.to_owned());
    }

    /// Forbids signals to processes outside of the sandbox. Landlock always forbids tracing them.
    pub fn forbid_signals(&mut self) {
        self.is_apart = true;
    }

    /// Whether a path passes through a writable folder, so that a sandboxed program could redirect it with a link.
    pub fn may_lead(&self, path: &Path) -> bool {
        let folders = self.write.iter();
        let folders: Vec<PathBuf> = folders.filter_map(|one| one.canonicalize().ok()).collect();
        let mut way = path.ancestors().filter_map(|part| part.canonicalize().ok());
        way.any(|part| folders.contains(&part))
    }

    /// Sandboxes the calling thread and the threads that it starts later. This cannot be undone.
    pub fn enter(&self) -> io::Result<SandboxLevel> {
        rustix::thread::set_no_new_privs(true)?;
        let status = self.restrict().map_err(io::Error::other)?;
        Ok(match status {
            RulesetStatus::FullyEnforced => SandboxLevel::Whole,
            RulesetStatus::PartiallyEnforced => SandboxLevel::Partly,
            RulesetStatus::NotEnforced => SandboxLevel::Not,
        })
    }

    /// The result of [`Sandbox::enter`] on this machine, determined on a temporary thread.
    pub fn probe(&self) -> io::Result<SandboxLevel> {
        self.within(|| ()).map(|(level, ())| level)
    }

    /// Calls `start` on a temporary sandboxed thread and waits for its result. A program that it starts is sandboxed from its first
    /// instruction, and no code runs between fork and exec.
    pub fn within<T: Send>(
        &self,
        start: impl FnOnce() -> T + Send,
    ) -> io::Result<(SandboxLevel, T)> {
        thread::scope(|scope| {
            let confined = move || self.enter().map(|level| (level, start()));
            let thread = thread::Builder::new().spawn_scoped(scope, confined)?;
            thread
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("it panicked")))
        })
    }

    fn restrict(&self) -> Result<RulesetStatus, RulesetError> {
        let all_access = AccessFs::from_all(KNOWN);
        let mut rules = Ruleset::default().handle_access(all_access)?;
        if self.ports.is_some() {
            rules = rules.handle_access(AccessNet::ConnectTcp)?;
        }
        if self.is_apart {
            rules = rules.scope(Scope::from_all(ABI::V6))?;
        }
        // A file that does not exist cannot be opened later, either.
        let read: BitFlags<AccessFs> = AccessFs::ReadFile | AccessFs::ReadDir;
        let ports = self.ports.iter().flatten();
        let ports =
            ports.map(|port| Ok::<_, RulesetError>(NetPort::new(*port, AccessNet::ConnectTcp)));
        let restricted = rules
            .create()?
            .add_rules(path_beneath_rules(&self.read, read))?
            .add_rules(path_beneath_rules(&self.execute, read | AccessFs::Execute))?
            .add_rules(path_beneath_rules(
                &self.write,
                all_access & !AccessFs::Execute,
            ))?
            .add_rules(ports)?
            .restrict_self()?;
        Ok(restricted.ruleset)
    }
}

/// Up to Linux 6.10: files and devices. Later ABI versions would also block sockets in the file system, and PHP's is one of them.
const KNOWN: ABI = ABI::V5;

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_sandboxed_thread_only_accesses_its_folders() {
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
                // Threads that the sandboxed thread starts are restricted, too, such as helpers that read files.
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
    fn programs_of_a_sandboxed_thread_are_sandboxed() {
        use std::process::Command;
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("secret"), "a").unwrap();
        let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let [listed, other] = listeners.each_ref().map(|one| one.local_addr().unwrap());
        let mut sandbox = Sandbox::default();
        for path in ["/usr", "/bin", "/lib", "/lib64", "/etc"] {
            sandbox.execute(Path::new(path));
        }
        sandbox.write(Path::new("/dev/null"));
        sandbox.connect_only(&[listed.port()]);
        sandbox.forbid_signals();
        let secret = dir.path().join("secret");
        let (held, (output, connected)) = sandbox
            .within(|| {
                let signal = format!("cat {}; kill -0 {}", secret.display(), std::process::id());
                let output = Command::new("/bin/sh").args(["-c", &signal]).output();
                let connected = [listed, other].map(|to| TcpStream::connect(to).is_ok());
                (output, connected)
            })
            .unwrap();
        if held == SandboxLevel::Not {
            galley_testkit::skip("this kernel has no Landlock, so nothing is confined");
            return;
        }
        // The thread that reads the output is not sandboxed, and standard error goes to a pipe.
        let output = output.unwrap_or_else(|error| panic!("{held:?}: {error}"));
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.stdout.is_empty(), "{errors}");
        if held == SandboxLevel::Whole {
            assert_eq!(connected, [true, false]);
            assert_eq!(errors.matches("ermi").count(), 2, "{errors}");
        }
    }

    #[test]
    fn a_path_through_a_writable_folder_is_detected() {
        let dir = tempfile::tempdir().unwrap();
        let [root, other, link, alias] =
            ["root", "other", "root/link", "alias"].map(|name| dir.path().join(name));
        fs::create_dir(&root).unwrap();
        fs::create_dir(&other).unwrap();
        std::os::unix::fs::symlink(&other, &link).unwrap();
        std::os::unix::fs::symlink(&root, &alias).unwrap();
        let mut sandbox = Sandbox::default();
        sandbox.write(&root);
        for (path, leads) in [
            (link.clone(), true),
            (link.join("deeper"), true),
            (alias.join("link"), true),
            (alias, true),
            (other.join("new"), false),
            (other, false),
        ] {
            assert_eq!(sandbox.may_lead(&path), leads, "{}", path.display());
        }
    }

    #[test]
    fn siblings_of_a_links_target_are_readable() {
        let dir = tempfile::tempdir().unwrap();
        let releases = dir.path().canonicalize().unwrap().join("releases");
        fs::create_dir_all(releases.join("1")).unwrap();
        let current = dir.path().canonicalize().unwrap().join("current");
        std::os::unix::fs::symlink(releases.join("1"), &current).unwrap();
        let mut sandbox = Sandbox::default();
        sandbox.read(&current);
        assert_eq!(sandbox.read, [releases.clone(), current.clone()]);
        // The folder that the web server needs is often below the one that the link names.
        let (web, inner) = (current.join("web"), releases.join("1/web"));
        fs::create_dir(&inner).unwrap();
        let mut below = Sandbox::default();
        below.read(&web);
        assert_eq!(below.read, [releases.clone(), web]);
        let mut plain = Sandbox::default();
        plain.read(&releases);
        assert_eq!(plain.read, [releases]);
    }
}
