//! The folders that a PHP-FPM of a site with `php_sandbox` may access, from the settings.
//!
//! The kernel's rules apply to the files that the paths refer to when PHP is started. A link that PHP can write must
//! therefore not decide what PHP may access after its next start: `wp-content` counts only if it is in the root itself, and a
//! path of `php_paths` in a folder that PHP may write is accessible through that folder alone.

use std::path::{Path, PathBuf};

use galley_config::{PhpSandbox, PhpWritable};

use super::PhpStartError;
use galley_sys::sandbox::{Sandbox, SandboxLevel};

/// The folders for a PHP-FPM with this program and this root, whose socket and configuration are in `pool`.
pub(super) fn sandbox(wanted: &PhpSandbox, root: &Path, program: &Path, pool: &Path) -> Sandbox {
    let mut sandbox = Sandbox::default();
    for folder in PROGRAMS {
        sandbox.execute(Path::new(folder));
    }
    sandbox.execute(&prefix(program));
    for folder in SETTINGS {
        sandbox.read_target(Path::new(folder));
    }
    for folder in TEMPORARY {
        sandbox.write(Path::new(folder));
    }
    sandbox.write(pool);
    sandbox.read_target(root);
    // WordPress also reads its configuration from the parent folder.
    let target = root.canonicalize().unwrap_or_else(|_| root.to_owned());
    if let Some(around) = target.parent() {
        sandbox.read_target(&around.join("wp-config.php"));
    }
    match wanted.writable {
        PhpWritable::Root => sandbox.write(root),
        PhpWritable::Content => {
            if let Some(content) = content(root) {
                sandbox.write(&content);
            }
        }
    }
    for path in &wanted.paths {
        if !sandbox.may_lead(path) {
            sandbox.write(path);
        }
    }
    if let Some(ports) = &wanted.connect_ports {
        sandbox.connect_only(ports);
    }
    sandbox.forbid_signals();
    sandbox
}

/// The part of the sandbox that the kernel enforces, for log and status.
pub(super) fn level(sandbox: Option<&Sandbox>, site: &str) -> Result<SandboxLevel, PhpStartError> {
    let Some(sandbox) = sandbox else {
        return Ok(SandboxLevel::Off);
    };
    let level = sandbox
        .probe()
        .map_err(|source| PhpStartError::Confine { source })?;
    match level {
        SandboxLevel::Whole | SandboxLevel::Off => {
            tracing::info!(site, "PHP is confined by `php_sandbox`");
        }
        SandboxLevel::Partly => tracing::warn!(
            site,
            "PHP is confined by `php_sandbox` as far as this kernel can: Linux 6.12 restricts signals too, and 6.7 ports"
        ),
        SandboxLevel::Not => tracing::warn!(
            site,
            "PHP is not confined by `php_sandbox`: this kernel has no Landlock, or it is off"
        ),
    }
    Ok(level)
}

/// `wp-content`, if it is in the root and not a link to another place.
fn content(root: &Path) -> Option<PathBuf> {
    let around = root.canonicalize().ok()?;
    let content = around.join(CONTENT).canonicalize().ok()?;
    (content == around.join(CONTENT)).then_some(content)
}

/// The installation folder of a program outside of the system folders: `/opt/php` for `/opt/php/sbin/php-fpm`.
fn prefix(program: &Path) -> PathBuf {
    let folder = program.parent().filter(|folder| {
        let name = folder.file_name().and_then(|name| name.to_str());
        matches!(name, Some("bin" | "sbin"))
    });
    let around = folder.and_then(Path::parent);
    // Never the whole file system.
    let around = around.filter(|around| around.parent().is_some());
    around.unwrap_or(program).to_owned()
}

const CONTENT: &str = "wp-content";

/// Folders with programs, libraries, certificates, time zones.
const PROGRAMS: &[&str] = &["/usr", "/lib", "/lib64", "/bin", "/sbin"];

/// Settings of PHP, of the resolver and of libraries, which other programs replace at any time, so that a rule for a single file
/// would soon refer to an old file; and information about the machine in `/proc` and `/sys`.
const SETTINGS: &[&str] = &[
    "/etc",
    "/run/systemd/resolve",
    "/run/resolvconf",
    "/run/NetworkManager",
    "/var/lib/ca-certificates",
    "/var/cache/fontconfig",
    "/proc",
    "/sys/devices/system",
    "/dev/random",
    "/dev/urandom",
];

/// The default folders of PHP for uploads, sessions and locks, and devices without content.
const TEMPORARY: &[&str] = &[
    "/tmp",
    "/var/tmp",
    "/dev/shm",
    "/dev/null",
    "/dev/zero",
    "/var/lib/php/sessions",
    "/var/lib/php/session",
    "/var/lib/php/wsdlcache",
    "/var/lib/php/opcache",
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn wp_content_counts_only_in_the_root_itself() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        let (root, other) = (dir.join("root"), dir.join("other"));
        fs::create_dir_all(root.join(CONTENT)).unwrap();
        fs::create_dir(&other).unwrap();
        assert_eq!(content(&root), Some(root.join(CONTENT)));
        fs::remove_dir(root.join(CONTENT)).unwrap();
        assert_eq!(content(&root), None);
        symlink(&other, root.join(CONTENT)).unwrap();
        assert_eq!(content(&root), None);
    }

    #[test]
    fn installation_folders_are_found() {
        for (program, folder) in [
            ("/opt/php/sbin/php-fpm", "/opt/php"),
            ("/usr/sbin/php-fpm", "/usr"),
            ("/sbin/php-fpm", "/sbin/php-fpm"),
            ("/srv/php-fpm", "/srv/php-fpm"),
            ("php-fpm", "php-fpm"),
        ] {
            assert_eq!(prefix(Path::new(program)), Path::new(folder), "{program}");
        }
    }
}
