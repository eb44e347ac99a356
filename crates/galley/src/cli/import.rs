//! `galley import`: the configuration of another web server as one of Galley's, with a report of every statement.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use galley_import::{Imported, ImportedStatement, ServerKind, StatementFate, import as convert};
use serde_json::{Value, json};

use super::options::ImportOptions;
use super::outcome::{EXIT_USAGE, fail, talk};
use super::show;
use crate::setup::Machine;

/// Runs `galley import`.
pub(super) fn import(options: &ImportOptions) -> ExitCode {
    let machine = Machine::at("/");
    let mains = mains(options, &machine);
    if mains.is_empty() {
        talk("found no configuration of nginx, Varnish, Apache or Caddy in the usual places");
        show::talk_lines("  name one: galley import --nginx FILE");
        return ExitCode::from(EXIT_USAGE);
    }
    let imported = convert(&machine, &mains);
    if let Some(path) = &options.output
        && let Err(error) = write_new(path, &imported.configuration)
    {
        return fail(&match error.kind() {
            ErrorKind::AlreadyExists => format!(
                "`{}` exists: name another file with --output",
                path.display()
            ),
            _ => format!("cannot write `{}`: {error}", path.display()),
        });
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
    ExitCode::SUCCESS
}

/// The files that the options name; without any, those in the usual places. The server that answers visitors comes first.
fn mains(options: &ImportOptions, machine: &Machine) -> Vec<(ServerKind, PathBuf)> {
    let named = [
        (ServerKind::Nginx, &options.nginx),
        (ServerKind::Caddy, &options.caddy),
        (ServerKind::Varnish, &options.varnish),
        (ServerKind::Apache, &options.apache),
    ];
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mains: Vec<_> = named
        .iter()
        .flat_map(|(kind, paths)| paths.iter().map(|path| (*kind, absolute(path))))
        .collect();
    if !mains.is_empty() {
        return mains;
    }
    USUAL_PLACES
        .iter()
        .map(|(kind, path)| (*kind, PathBuf::from(path)))
        .filter(|(_, path)| machine.path(path).is_file())
        .collect()
}

const USUAL_PLACES: &[(ServerKind, &str)] = &[
    (ServerKind::Nginx, "/etc/nginx/nginx.conf"),
    (ServerKind::Caddy, "/etc/caddy/Caddyfile"),
    (ServerKind::Varnish, "/etc/varnish/default.vcl"),
    (ServerKind::Apache, "/etc/apache2/apache2.conf"),
    (ServerKind::Apache, "/etc/httpd/conf/httpd.conf"),
];

/// Writes a file that does not exist yet.
fn write_new(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(text.as_bytes())
}

/// The report for people: what is lost first, which is what needs work.
fn report(imported: &Imported, shows_all: bool) {
    let shares = imported.shares();
    talk(&format!(
        "import: {} statements: {} carried over, {} not needed, {} not carried",
        shares.all(),
        shares.carried,
        shares.not_needed,
        shares.not_carried
    ));
    let of = |wanted: fn(&StatementFate) -> bool| {
        imported
            .statements
            .iter()
            .filter(move |one| wanted(&one.fate))
    };
    list(
        "not carried, and what it would take",
        of(|fate| matches!(fate, StatementFate::NotCarried(_))),
    );
    if shows_all {
        list(
            "not needed, and why",
            of(|fate| matches!(fate, StatementFate::NotNeeded(_))),
        );
        list(
            "carried over, and the option",
            of(|fate| matches!(fate, StatementFate::Carried(_))),
        );
    } else if shares.all() > shares.not_carried {
        show::talk_lines("\n--all lists the others, too");
    }
}

fn list<'s>(title: &str, statements: impl Iterator<Item = &'s ImportedStatement>) {
    let mut statements = statements.peekable();
    if statements.peek().is_none() {
        return;
    }
    show::talk_lines(&format!("\n{title}:"));
    for statement in statements {
        let (_, words) = words(&statement.fate);
        show::talk_lines(&format!(
            "  {}: {}\n      {words}",
            statement.origin, statement.text
        ));
    }
}

fn words(fate: &StatementFate) -> FateWords<'_> {
    match fate {
        StatementFate::Carried(option) => ("carried", option),
        StatementFate::NotNeeded(why) => ("not-needed", why),
        StatementFate::NotCarried(remedy) => ("not-carried", remedy),
    }
}

/// The word for scripts, and the text for people.
type FateWords<'f> = (&'static str, &'f str);

fn as_json(imported: &Imported) -> Value {
    let statements = imported.statements.iter().map(|statement| {
        let (fate, text) = words(&statement.fate);
        json!({
            "file": &*statement.origin.file, "line": statement.origin.line, "statement": statement.text, "fate": fate, "text": text,
        })
    });
    let shares = imported.shares();
    json!({
        "configuration": imported.configuration,
        "carried": shares.carried, "not_needed": shares.not_needed, "not_carried": shares.not_carried,
        "statements": statements.collect::<Vec<_>>(),
    })
}

/// What Galley says of the new file: paths that do not exist here, and values that nobody could convert.
fn check(configuration: &str) {
    if let Err(complaints) = galley_config::from_text("galley.toml", configuration) {
        show::talk_lines("\ngalley check will report:");
        show::talk_lines(&complaints.to_string());
    }
}
