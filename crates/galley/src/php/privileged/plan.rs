//! The programs that may be started, fixed before root is given up. The plan is written once, into memory that is then
//! sealed: not even root can change it.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use rustix::fs::{MemfdFlags, SealFlags};
use serde::{Deserialize, Serialize};

use crate::sys::account::Account;
use crate::sys::sandbox::Sandbox;

/// All of it; pools go by their place in the list.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct LaunchPlan {
    pub(super) pools: Vec<PlannedPool>,
    /// Galley's later user.
    pub(super) galley: Account,
}

/// A program that runs as one user.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct PlannedPool {
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<String>,
    pub(super) kind: ProgramKind,
    pub(super) account: Account,
    /// The working directory: the site's root.
    pub(super) root: PathBuf,
    /// Processes at a time, at most.
    pub(super) slots: usize,
    /// For its socket; removed at the end.
    pub(super) folder: PathBuf,
    /// What it may reach.
    pub(super) sandbox: Option<Sandbox>,
}

/// Which program it is.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ProgramKind {
    /// PHP-FPM, which makes its socket itself.
    Fpm {
        /// Its configuration.
        config: String,
        /// What that names. One of a master that was killed is removed first.
        socket: PathBuf,
    },
    /// Another program, which takes the socket as its standard input.
    Program {
        /// Made by the process that keeps root.
        socket: PathBuf,
        /// `PHP_FCGI_MAX_REQUESTS` for each place.
        requests: Vec<usize>,
    },
}

impl LaunchPlan {
    /// The plan as a file in memory that cannot be changed any more.
    pub(super) fn sealed(&self) -> io::Result<OwnedFd> {
        sealed("galley-plan", &serde_json::to_vec(self)?)
    }

    /// The contents of [`LaunchPlan::sealed`]. Anything that is not sealed is rejected.
    pub(super) fn read(file: impl AsFd) -> io::Result<Self> {
        let file = File::from(file.as_fd().try_clone_to_owned()?);
        if !rustix::fs::fcntl_get_seals(&file).is_ok_and(|seals| seals.contains(SEALS)) {
            return Err(io::Error::other("this command is for Galley itself"));
        }
        let length = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
        let mut text = vec![0; length];
        // Other processes share the descriptor's position, so it is not used.
        file.read_exact_at(&mut text, 0)?;
        Ok(serde_json::from_slice(&text)?)
    }
}

/// A file in memory with this content, for good. It goes to a process that is started only if its descriptor does.
pub(super) fn sealed(name: &str, content: &[u8]) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let mut file = File::from(rustix::fs::memfd_create(name, flags)?);
    file.write_all(content)?;
    file.seek(SeekFrom::Start(0))?;
    rustix::fs::fcntl_add_seals(&file, SEALS)?;
    Ok(file.into())
}

const SEALS: SealFlags = SealFlags::SEAL
    .union(SealFlags::SHRINK)
    .union(SealFlags::GROW)
    .union(SealFlags::WRITE);

/// The hidden command of both processes.
pub(super) const COMMAND: &str = "privileged";

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn a_plan_arrives_and_cannot_be_changed() {
        let account = Account {
            uid: 5,
            gid: 60,
            groups: vec![7],
        };
        let mut sandbox = Sandbox::default();
        sandbox.write(Path::new("/run"));
        let plan = LaunchPlan {
            pools: vec![PlannedPool {
                program: "/usr/sbin/php-fpm".into(),
                arguments: vec!["-d".to_owned()],
                kind: ProgramKind::Fpm {
                    config: "[a]\n".to_owned(),
                    socket: "/run/a".into(),
                },
                account: account.clone(),
                root: "/srv".into(),
                slots: 1,
                folder: "/run".into(),
                sandbox: Some(sandbox),
            }],
            galley: account,
        };
        let file = plan.sealed().unwrap();
        for _ in 0..2 {
            let read = LaunchPlan::read(&file).unwrap();
            assert_eq!(format!("{read:?}"), format!("{plan:?}"));
        }
        let mut file = File::from(file);
        assert!(file.write_all(b"x").is_err() && file.set_len(0).is_err());
        let other = tempfile::tempfile().unwrap();
        assert!(LaunchPlan::read(&other).is_err());
    }
}
