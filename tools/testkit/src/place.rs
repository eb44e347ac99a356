//! Where parts listen and where programs are: free ports, socket paths short enough for the kernel, files of programs.

use std::{
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    net::TcpListener,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

use crate::error::{Context, TestkitError};

/// A port on 127.0.0.1 that nothing listens on now, for programs that cannot choose one themselves.
///
/// It lies below the range from which the kernel takes ports for outgoing connections, so that no client of a test takes
/// it meanwhile. Another process may still be quicker: who uses it must check that it was served, and try again.
pub fn free_port() -> Result<u16, TestkitError> {
    let count = u32::from(LAST_PORT - FIRST_PORT);
    // Processes start at different places, so that they seldom meet.
    let start = std::process::id().wrapping_mul(97);
    for _ in 0..count {
        let step = start.wrapping_add(NEXT_PORT.fetch_add(1, Ordering::Relaxed)) % count;
        let port = FIRST_PORT + u16::try_from(step).unwrap_or(0);
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return Ok(port);
        }
    }
    Err(TestkitError::Unreachable(format!(
        "no free port from {FIRST_PORT} to {LAST_PORT}"
    )))
}

/// `dir/name`, or, where that is too long for a socket (108 bytes with the final zero), a short path for the same.
pub(crate) fn socket_path(dir: &Path, name: &str) -> Result<PathBuf, TestkitError> {
    let wanted = dir.join(name);
    if wanted.as_os_str().len() < LONGEST_SOCKET {
        return Ok(wanted);
    }
    let mut hash = DefaultHasher::new();
    dir.hash(&mut hash);
    let uid = rustix::process::geteuid().as_raw();
    let short = PathBuf::from(format!("/tmp/galley-{uid}-{:016x}", hash.finish()));
    fs::create_dir_all(&short).context(format_args!("make {}", short.display()))?;
    // Fails when it belongs to somebody else.
    fs::set_permissions(&short, fs::Permissions::from_mode(0o1777))
        .context(format_args!("open {} to others", short.display()))?;
    Ok(short.join(name))
}

/// The first of these names that is a program on this machine. /usr/sbin is looked at even where PATH leaves it out, as
/// it does for ordinary users on Debian.
pub(crate) fn program(names: &[&str]) -> Result<PathBuf, TestkitError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = || {
        std::env::split_paths(&path).chain([
            "/usr/sbin".into(),
            "/usr/bin".into(),
            "/usr/local/sbin".into(),
        ])
    };
    for name in names {
        if let Some(found) = folders()
            .map(|folder| folder.join(name))
            .find(|file| file.is_file())
        {
            return Ok(found);
        }
    }
    Err(TestkitError::Missing {
        program: names.first().copied().unwrap_or_default().to_owned(),
    })
}

/// Outside the kernel's range for outgoing connections (from 32768), above what services usually take.
const FIRST_PORT: u16 = 21_000;
const LAST_PORT: u16 = 32_000;
const LONGEST_SOCKET: usize = 100;
static NEXT_PORT: AtomicU32 = AtomicU32::new(0);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_differ_and_can_be_bound() {
        let first = free_port().unwrap();
        let second = free_port().unwrap();
        assert_ne!(first, second);
        TcpListener::bind(("127.0.0.1", first)).unwrap();
    }

    #[test]
    fn socket_paths_fit_the_kernel() {
        let short = socket_path(Path::new("/tmp/x"), "a.sock").unwrap();
        assert_eq!(short, Path::new("/tmp/x/a.sock"));
        let long = format!("/tmp/{}", "deep/".repeat(40));
        let other = socket_path(Path::new(&long), "a.sock").unwrap();
        assert!(other.as_os_str().len() < 108);
        assert_eq!(
            other,
            socket_path(Path::new(&long), "a.sock").unwrap(),
            "the same every time"
        );
        fs::remove_dir(other.parent().unwrap()).unwrap();
    }

    #[test]
    fn programs_are_found_or_named() {
        assert!(
            program(&["no-such-program-here", "sh"])
                .unwrap()
                .ends_with("sh")
        );
        assert!(
            program(&["no-such-program-here"])
                .unwrap_err()
                .to_string()
                .contains("no-such-program-here")
        );
    }
}
