//! Becomes a program's user, then the program itself. The program starts without any of root's privileges.
//!
//! This is a separate process, started by `keep`, because safe code can execute these steps only in a separate program.
//! Standard input belongs to the program, standard output is the plan, standard error the pipe for messages.

use std::fs;
use std::io::{self, stdout};
use std::os::fd::{AsRawFd, IntoRawFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rustix::io::FdFlags;
use rustix::process::{Signal, getppid, set_parent_process_death_signal};

use super::plan::{LaunchPlan, ProgramKind};
use crate::master::NOT_FOR_PHP;
use crate::profile::SEARCH_PATH;
use galley_sys::{memory_file, privileges};

/// Becomes the process of a pool for one of its slots. Returns only on failure.
pub fn step(pool: usize, slot: usize) -> io::Error {
    match prepare(pool, slot) {
        Ok(mut command) => {
            let program = command.get_program().to_owned();
            let error = command.exec();
            let message = format!("cannot start `{}`: {error}", program.display());
            io::Error::new(error.kind(), message)
        }
        Err(error) => error,
    }
}

fn prepare(pool: usize, slot: usize) -> io::Result<Command> {
    let parent = getppid();
    let plan = LaunchPlan::read(stdout())?;
    let pool = plan.pools.get(pool);
    let pool = pool.ok_or_else(|| io::Error::other("the plan has no such pool"))?;
    privileges::become_account(&pool.account)?;
    let failed = |what: &str, error: io::Error| {
        io::Error::new(
            error.kind(),
            format!("cannot {what} as the site's user: {error}"),
        )
    };
    // After the change of the user: folders that the user cannot open are not added. Galley has already noticed if the kernel
    // does not support it.
    if let Some(sandbox) = &pool.sandbox {
        sandbox
            .enter()
            .map_err(|error| failed("confine PHP", error))?;
    }
    std::env::set_current_dir(&pool.root)
        .map_err(|error| failed(&format!("enter `{}`", pool.root.display()), error))?;
    let mut command = Command::new(&pool.program);
    command.args(&pool.arguments).stdout(Stdio::null());
    let end = match &pool.kind {
        ProgramKind::Fpm { config, socket } => {
            for name in NOT_FOR_PHP {
                command.env_remove(name);
            }
            // After the change of the user: the folder belongs to the user, and a link in it gives no additional access.
            match fs::remove_file(socket) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(failed(&format!("remove `{}`", socket.display()), error));
                }
                _ => {}
            }
            let config = config_file(config)?;
            command.args(["--nodaemonize", "--fpm-config", &config]);
            Signal::QUIT
        }
        ProgramKind::Program { requests, .. } => {
            command.env_clear().env("PATH", SEARCH_PATH);
            let requests = requests.get(slot).copied().unwrap_or(1);
            command.env("PHP_FCGI_MAX_REQUESTS", requests.to_string());
            Signal::TERM
        }
    };
    // If the privileged process is killed, this signal ends the program: no other process may signal it. The setting is valid
    // until a program changes its user.
    set_parent_process_death_signal(Some(end))?;
    if getppid() != parent {
        return Err(io::Error::other("the privileged process has ended"));
    }
    Ok(command)
}

/// Writes the configuration to a sealed file, and returns the path by which PHP-FPM can open it repeatedly.
fn config_file(text: &str) -> io::Result<String> {
    let file = memory_file::sealed("galley-fpm.conf", text.as_bytes())?;
    rustix::io::fcntl_setfd(&file, FdFlags::empty())?;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    // Stays open when this program is replaced.
    let _ = file.into_raw_fd();
    Ok(path)
}
