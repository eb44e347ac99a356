//! Runs `galley import`.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use galley_import::{Imported, ServerKind, import as convert};

use super::compare::{TryOptions, compare};
use super::mains::mains;
use super::report::{as_json, check, report};
use crate::options::ImportOptions;
use crate::outcome::{EXIT_USAGE, talk};
use crate::setup::Machine;
use crate::show;

/// Runs `galley import`.
pub fn import(options: &ImportOptions) -> ExitCode {
    let machine = Machine::at("/");
    let mains = mains(options, &machine);
    if mains.is_empty() {
        talk("found no configuration of nginx, Varnish, Apache or Caddy in the usual places");
        show::talk_lines("  name one: galley import --nginx FILE");
        return ExitCode::from(EXIT_USAGE);
    }
    if let Some((path, error)) = unreadable(&mains) {
        talk(&format!(
            "cannot read `{}`: {error}: name the configuration file of nginx, Varnish, Apache or Caddy",
            path.display()
        ));
        return ExitCode::from(EXIT_USAGE);
    }
    let imported = convert(&machine, &mains);
    if let Some(path) = &options.output
        && let Err(error) = write_new(path, &imported.configuration)
    {
        let why = match error.kind() {
            ErrorKind::AlreadyExists => format!(
                "`{}` exists: name another file with --output",
                path.display()
            ),
            _ => format!("cannot write `{}`: {error}", path.display()),
        };
        talk(&why);
        return ExitCode::from(if options.is_try { EXIT_USAGE } else { 1 });
    }
    if options.is_try {
        let options = TryOptions {
            log: options.log.as_deref(),
            sitemap: options.sitemap.as_deref(),
            crawl: options.crawl,
            draft: options.draft.as_deref(),
            json: options.json,
        };
        return compare(&machine, &mains, &imported, &options);
    }
    if options.json {
        show::data(&as_json(&imported));
    } else {
        if options.output.is_none() {
            show::verbatim(&imported.configuration);
        }
        report(&imported, options.all);
    }
    check(&imported.configuration);
    decisions(&imported)
}

/// The first main file that cannot be read as text.
fn unreadable(mains: &[(ServerKind, PathBuf)]) -> Option<(&Path, std::io::Error)> {
    mains.iter().find_map(|(_, path)| {
        let error = std::fs::read_to_string(path).err()?;
        Some((path.as_path(), error))
    })
}

/// Names the statements about access that the owner of the site has to decide about. The import fails as long as there are any: the new
/// configuration serves what the old one refuses.
fn decisions(imported: &Imported) -> ExitCode {
    let count = imported.open().count();
    if count == 0 {
        return ExitCode::SUCCESS;
    }
    talk(&format!(
        "import: {count} statements refuse requests that the new configuration serves: close them before you switch over"
    ));
    for statement in imported.open() {
        show::talk_lines(&format!("  {}: {}", statement.origin, statement.text));
    }
    ExitCode::FAILURE
}

/// Writes a file that does not exist yet.
fn write_new(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(text.as_bytes())
}
