//! The scripts of a folder: one edit each, in the order of their names.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{TestkitError, error::Context, exactness::script::Via};

/// An edit.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct EventScript {
    /// The file name without `.php`.
    pub(super) name: String,
    /// The value of `Event:` in the comment of the file; otherwise the name.
    pub(super) description: String,
    pub(super) via: Via,
    pub(super) file: PathBuf,
}

/// Lists all scripts but `setup.php`.
///
/// # Errors
/// [`TestkitError::Refused`] if there is none, or a name or an interface is unknown.
pub(super) fn event_scripts(dir: &Path) -> Result<Vec<EventScript>, TestkitError> {
    let mut scripts = Vec::new();
    for entry in fs::read_dir(dir).context(format_args!("read {}", dir.display()))? {
        let file = entry
            .context(format_args!("read {}", dir.display()))?
            .path();
        let is_event = file.extension().is_some_and(|it| it == "php")
            && file.file_stem().is_some_and(|it| it != SETUP);
        if is_event {
            scripts.push(event_script(file)?);
        }
    }
    if scripts.is_empty() {
        return Err(TestkitError::Refused(format!(
            "{} has no PHP script of an event",
            dir.display()
        )));
    }
    scripts.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(scripts)
}

fn event_script(file: PathBuf) -> Result<EventScript, TestkitError> {
    let stem = file.file_stem().unwrap_or_default();
    let name = stem.to_string_lossy().into_owned();
    let refused = |text: &str| TestkitError::Refused(format!("{}: {text}", file.display()));
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if !name.bytes().all(is_plain) {
        return Err(refused("only letters, digits, `-` and `_` are allowed"));
    }
    let text = fs::read(&file).context(format_args!("read {}", file.display()))?;
    let text = String::from_utf8_lossy(&text);
    let via = match field(&text, "Via:") {
        None => Via::Cli,
        Some(wanted) => Via::ALL
            .into_iter()
            .find(|via| via.name() == wanted)
            .ok_or_else(|| {
                let all = Via::ALL.map(Via::name).join(", ");
                refused(&format!("`Via: {wanted}` is none of {all}"))
            })?,
    };
    Ok(EventScript {
        description: field(&text, "Event:").unwrap_or(&name).to_owned(),
        name,
        via,
        file,
    })
}

/// The value of a field in the first comment.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let lines = text.lines().take(MAX_LINES);
    lines
        .map(|line| line.trim_start_matches(['/', '*', '#', ' ', '\t']))
        .find_map(|line| line.strip_prefix(name))
        .map(|value| value.trim_end_matches("*/").trim())
}

pub(super) const SETUP: &str = "setup";
/// Lines at the beginning of a script that may be its comment.
const MAX_LINES: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scratch;

    #[test]
    fn scripts_state_their_interface_in_a_comment() {
        let scratch = Scratch::new().unwrap();
        let files = [
            ("setup.php", "<?php"),
            (
                "b-sale.php",
                "<?php\n/**\n * Event: a sale ends\n * Via: cron\n */\n",
            ),
            ("a.php", "<?php // Via: rest"),
            ("a.php", "<?php\n// Via: rest\n"),
            ("c.php", "<?php update_option( 'x', 1 );"),
            ("notes.txt", "x"),
        ];
        for (name, text) in files {
            scratch.write(name, text).unwrap();
        }
        let found = event_scripts(scratch.path()).unwrap();
        let found: Vec<_> = found
            .iter()
            .map(|it| (it.name.as_str(), it.description.as_str(), it.via))
            .collect();
        let expected = [
            ("a", "a", Via::Rest),
            ("b-sale", "a sale ends", Via::Cron),
            ("c", "c", Via::Cli),
        ];
        assert_eq!(found, expected);
        for (name, text, expected) in [
            (
                "d.php",
                "<?php\n// Via: phone\n",
                "`Via: phone` is none of admin, form",
            ),
            ("e f.php", "<?php", "only letters"),
        ] {
            let file = scratch.write(name, text).unwrap();
            let error = event_scripts(scratch.path()).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
            fs::remove_file(file).unwrap();
        }
    }
}
