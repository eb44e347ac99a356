//! Finds programs of the machine.

use std::path::PathBuf;

use crate::error::TestkitError;

/// The first of these names that is an installed program. Searches `/usr/sbin` even if `PATH` does not contain it, as for
/// ordinary users on Debian.
///
/// # Errors
/// [`TestkitError::Missing`] with the first name.
pub(crate) fn find(names: &[&str]) -> Result<PathBuf, TestkitError> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_installed_program_is_found() {
        assert!(
            find(&["no-such-program-here", "sh"])
                .unwrap()
                .ends_with("sh")
        );
    }

    #[test]
    fn the_error_names_a_missing_program() {
        assert!(
            find(&["no-such-program-here"])
                .unwrap_err()
                .to_string()
                .contains("no-such-program-here")
        );
    }
}
