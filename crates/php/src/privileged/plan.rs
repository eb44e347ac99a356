//! The programs that may be started, fixed before root is given up. The plan is written once, into memory that is then
//! sealed: not even root can change it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use galley_sys::account::Account;
use galley_sys::memory_file::{read_sealed, sealed};
use galley_sys::sandbox::Sandbox;

/// The plan. Pools are identified by their index.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct LaunchPlan {
    pub(super) pools: Vec<PlannedPool>,
    /// The user that Galley becomes.
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
    /// The maximum number of concurrent processes.
    pub(super) slots: usize,
    /// The folder of the socket; removed at the end.
    pub(super) folder: PathBuf,
    /// The sandbox, if the program has one.
    pub(super) sandbox: Option<Sandbox>,
}

/// The kind of a program.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ProgramKind {
    /// PHP-FPM, which creates its socket itself.
    Fpm {
        /// The text of its configuration.
        config: String,
        /// The path in the configuration. The socket of a killed master is removed first.
        socket: PathBuf,
    },
    /// Another program, which gets the socket as its standard input.
    Program {
        /// The path of the socket, which the privileged process creates.
        socket: PathBuf,
        /// `PHP_FCGI_MAX_REQUESTS` for each slot.
        requests: Vec<usize>,
    },
}

impl LaunchPlan {
    /// Writes the plan to a file in memory that cannot be changed any more.
    pub(super) fn sealed(&self) -> io::Result<OwnedFd> {
        sealed("galley-plan", &serde_json::to_vec(self)?)
    }

    /// Reads the contents of [`LaunchPlan::sealed`]. Rejects a file that is not sealed.
    pub(super) fn read(file: impl AsFd) -> io::Result<Self> {
        let text = read_sealed(file, MAX_BYTES)
            .map_err(|_| io::Error::other("this command is for Galley itself"))?;
        Ok(serde_json::from_slice(&text)?)
    }
}

/// The maximum size of a plan in bytes. A site needs some kilobytes.
const MAX_BYTES: u64 = 64 << 20;

/// The hidden command for the privileged process and its children.
pub(super) const COMMAND: &str = "privileged";

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn a_sealed_plan_is_readable_and_immutable() {
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
        let other = tempfile::tempfile().unwrap();
        assert!(LaunchPlan::read(&other).is_err());
    }
}
