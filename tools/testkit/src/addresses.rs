//! Addresses for services: free TCP ports, and paths of unix sockets that are short enough for the kernel.

use std::{
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    net::TcpListener,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

use crate::error::{Context, TestkitError};

/// A free port on 127.0.0.1, for programs that cannot bind to port 0.
///
/// It is below the range that the kernel uses for outgoing connections, so that no client of a test takes it. Another
/// process may still take it before the service starts: the caller must check that its own service responds, and retry.
pub fn free_port() -> Result<u16, TestkitError> {
    let count = u32::from(LAST_PORT - FIRST_PORT);
    // Each process starts at a different port, so that concurrent processes rarely choose the same one.
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

/// `dir/name`, or a short path derived from it if `dir/name` is too long for a socket (108 bytes with the final zero).
pub(crate) fn socket_path(dir: &Path, name: &str) -> Result<PathBuf, TestkitError> {
    let path = dir.join(name);
    if path.as_os_str().len() < MAX_SOCKET_PATH {
        return Ok(path);
    }
    let mut hash = DefaultHasher::new();
    dir.hash(&mut hash);
    let uid = rustix::process::geteuid().as_raw();
    let short = PathBuf::from(format!("/tmp/galley-{uid}-{:016x}", hash.finish()));
    fs::create_dir_all(&short).context(format_args!("create {}", short.display()))?;
    // Fails if the directory belongs to another user.
    fs::set_permissions(&short, fs::Permissions::from_mode(0o1777)).context(format_args!(
        "make {} writable for all users",
        short.display()
    ))?;
    Ok(short.join(name))
}

/// Below the kernel's range for outgoing connections (from 32768), above the usual ports of services.
const FIRST_PORT: u16 = 21_000;
const LAST_PORT: u16 = 32_000;
const MAX_SOCKET_PATH: usize = 100;
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
            "the path is not deterministic"
        );
        fs::remove_dir(other.parent().unwrap()).unwrap();
    }
}
