//! Chooses the PHP-FPM binary if the configuration names none: among `php-fpm*` in the usual folders, one without a version
//! in its name (the choice of the administrator or the container image), otherwise the newest version. `8.10` is newer than
//! `8.9`; Alpine's `83` means 8.3.

use std::path::{Path, PathBuf};

/// The PHP-FPM binary of this machine.
pub(super) fn find() -> Option<PathBuf> {
    let found = PLACES
        .iter()
        .flat_map(|place| std::fs::read_dir(place).into_iter().flatten());
    newest(
        found
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.is_file()),
    )
}

fn newest(paths: impl Iterator<Item = PathBuf>) -> Option<PathBuf> {
    paths
        .filter_map(|path| Some((rank(&path)?, path)))
        .max()
        .map(|(_, path)| path)
}

/// The rank of a binary, higher is better; `None` if the name is not one of PHP-FPM.
fn rank(path: &Path) -> Option<(bool, u32, u32)> {
    let version = path.file_name()?.to_str()?.strip_prefix("php-fpm")?;
    if version.is_empty() {
        return Some((true, 0, 0));
    }
    let version = version.strip_prefix('-').unwrap_or(version);
    let (major, minor) = version
        .split_once('.')
        .or_else(|| version.split_at_checked(1))?;
    Some((false, number(major)?, number(minor)?))
}

fn number(digits: &str) -> Option<u32> {
    digits
        .bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| digits.parse().ok())?
}

const PLACES: [&str; 2] = ["/usr/sbin", "/usr/local/sbin"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binary_without_version_is_preferred_then_the_newest() {
        for (names, chosen) in [
            (&["/usr/sbin/php-fpm8.2"][..], Some("/usr/sbin/php-fpm8.2")),
            (
                &[
                    "/usr/sbin/php-fpm8.9",
                    "/usr/sbin/php-fpm8.10",
                    "/usr/sbin/php-fpm7.4",
                ],
                Some("/usr/sbin/php-fpm8.10"),
            ),
            (
                &["/usr/sbin/php-fpm82", "/usr/sbin/php-fpm83"],
                Some("/usr/sbin/php-fpm83"),
            ),
            (
                &["/usr/sbin/php-fpm8.2", "/usr/local/sbin/php-fpm"],
                Some("/usr/local/sbin/php-fpm"),
            ),
            (
                &[
                    "/usr/sbin/php-fpm8.2",
                    "/usr/sbin/php-fpm8.3.dpkg-old",
                    "/usr/sbin/php-fpm-",
                ],
                Some("/usr/sbin/php-fpm8.2"),
            ),
            (
                &["/usr/sbin/php", "/usr/sbin/nginx", "/usr/sbin/php-fpmx.y"],
                None,
            ),
            (&[], None),
        ] {
            assert_eq!(
                newest(names.iter().map(PathBuf::from)),
                chosen.map(PathBuf::from),
                "{names:?}"
            );
        }
    }
}
