//! Becomes a program's user, then the program itself. Nothing of root is left when the program begins.
//!
//! It is a process of its own, started by `keep`, because safe code can only do these steps in a program of its own.
//! Standard input is the program's, standard output the plan, standard error the pipe for messages.

use std::fs;
use std::io::{self, stdout};
use std::os::fd::{AsRawFd, IntoRawFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rustix::io::FdFlags;
use rustix::process::{Signal, getppid, set_parent_process_death_signal};

use super::plan::{LaunchPlan, ProgramKind};
use crate::php::master::NOT_FOR_PHP;
use crate::php::outlook::SEARCH_PATH;
use crate::sys::{memory_file, privileges};

/// Becomes the process of a pool, for one of its places. Returns only if that fails.
pub fn step(pool: usize, place: usize) -> io::Error {
    match prepare(pool, place) {
        Ok(mut command) => {
            let program = command.get_program().to_owned();
            let error = command.exec();
            let said = format!("cannot start `{}`: {error}", program.display());
            io::Error::new(error.kind(), said)
        }
        Err(error) => error,
    }
}

fn prepare(pool: usize, place: usize) -> io::Result<Command> {
    let parent = getppid();
    let plan = LaunchPlan::read(stdout())?;
    let pool = plan.pools.get(pool);
    let pool = pool.ok_or_else(|| io::Error::other("the plan has no such pool"))?;
    privileges::become_account(&pool.account)?;
    let said = |what: &str, error: io::Error| {
        io::Error::new(
            error.kind(),
            format!("cannot {what} as the site's user: {error}"),
        )
    };
    // As the user: what it cannot open is none of its folders. A kernel that cannot was noticed by Galley.
    if let Some(sandbox) = &pool.sandbox {
        sandbox
            .enter()
            .map_err(|error| said("confine PHP", error))?;
    }
    std::env::set_current_dir(&pool.root)
        .map_err(|error| said(&format!("enter `{}`", pool.root.display()), error))?;
    let mut command = Command::new(&pool.program);
    command.args(&pool.arguments).stdout(Stdio::null());
    let end = match &pool.kind {
        ProgramKind::Fpm { config, socket } => {
            for name in NOT_FOR_PHP {
                command.env_remove(name);
            }
            // As the user: the folder is his, and a link in it leads nowhere that he could not go.
            match fs::remove_file(socket) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(said(&format!("remove `{}`", socket.display()), error));
                }
                _ => {}
            }
            let config = config_file(config)?;
            command.args(["--nodaemonize", "--fpm-config", &config]);
            Signal::QUIT
        }
        ProgramKind::Program { requests, .. } => {
            command.env_clear().env("PATH", SEARCH_PATH);
            let requests = requests.get(place).copied().unwrap_or(1);
            command.env("PHP_FCGI_MAX_REQUESTS", requests.to_string());
            Signal::TERM
        }
    };
    // If the privileged process is killed, this is how everything ends: no other process may signal it. It holds until a
    // program changes its user.
    set_parent_process_death_signal(Some(end))?;
    if getppid() != parent {
        return Err(io::Error::other("the privileged process has ended"));
    }
    Ok(command)
}

/// PHP-FPM opens it by the path that is returned, as often as it likes.
fn config_file(text: &str) -> io::Result<String> {
    let file = memory_file::sealed("galley-fpm.conf", text.as_bytes())?;
    rustix::io::fcntl_setfd(&file, FdFlags::empty())?;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    // Stays open beyond the end of this program.
    let _ = file.into_raw_fd();
    Ok(path)
}
