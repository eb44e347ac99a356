//! The result for a statement follows from what it does in its context, not from its name. Each case is a kind of statement whose
//! effect an import once dropped or changed.

mod apache;
mod caddy;
mod hostile;
mod hostile_others;
mod never_sent;
mod nginx;
mod places;
mod vcl;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use galley_import::{Imported, ServerKind, Source, StatementOutcome, import};

/// Files in memory.
#[derive(Default)]
struct Files(HashMap<PathBuf, String>);

impl Source for Files {
    fn text(&self, path: &Path) -> Option<String> {
        self.0.get(path).cloned()
    }

    fn matching(&self, pattern: &Path) -> Vec<PathBuf> {
        let text = pattern.to_string_lossy().into_owned();
        let is_match = |path: &&PathBuf| {
            let path = path.to_string_lossy();
            match text.split_once('*') {
                Some((before, after)) => path.starts_with(before) && path.ends_with(after),
                None => *path == *text,
            }
        };
        let mut found: Vec<PathBuf> = self.0.keys().filter(is_match).cloned().collect();
        found.sort();
        found
    }
}

/// What the report must say about a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Carried,
    NotNeeded,
    /// Not carried; what the statement closes stays closed, or it closes nothing.
    Lost,
    /// Not carried, and the new configuration leaves open what the statement closes.
    Open,
}

struct Case {
    name: &'static str,
    /// The statements, without those that all cases of a server share.
    text: &'static str,
    /// Parts that the configuration must contain.
    has: &'static [&'static str],
    /// Parts that the configuration must not contain.
    lacks: &'static [&'static str],
    /// Beginnings of statements, and what becomes of them.
    fates: &'static [(&'static str, Fate)],
}

fn imported(kind: ServerKind, text: &str) -> Imported {
    imported_with(kind, text, &[])
}

fn imported_with(kind: ServerKind, text: &str, others: &[(&str, &str)]) -> Imported {
    let mut files = Files::default();
    let main = PathBuf::from("/etc/server/main.conf");
    files.0.insert(main.clone(), text.to_owned());
    for (path, text) in others {
        files.0.insert(PathBuf::from(path), (*text).to_owned());
    }
    import(&files, &[(kind, main)])
}

fn fate(imported: &Imported, start: &str) -> Option<Fate> {
    let found = imported
        .statements
        .iter()
        .find(|one| one.text.starts_with(start))?;
    Some(match (&found.outcome, found.is_open) {
        (StatementOutcome::Carried(_), _) => Fate::Carried,
        (StatementOutcome::NotNeeded(_), _) => Fate::NotNeeded,
        (StatementOutcome::NotCarried(_), true) => Fate::Open,
        (StatementOutcome::NotCarried(_), false) => Fate::Lost,
    })
}

/// Whether the server accepts the configuration, apart from files that do not exist on this machine.
fn config_errors(text: &str) -> Vec<String> {
    let Err(errors) = galley_config::from_text("/etc/galley/galley.toml", text) else {
        return Vec::new();
    };
    let errors = errors
        .iter()
        .map(|error| format!("{}: {}: {}", error.line, error.option, error.message));
    let of_this_machine = [
        "does not exist",
        "cannot be read",
        "No such file",
        "is not a folder",
        "the site has no `root`",
    ];
    errors
        .filter(|error| !of_this_machine.iter().any(|words| error.contains(words)))
        .collect()
}

fn without_comments(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let lines = lines.map(|line| line.split("  # ").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

/// The faults of all cases. `whole`: the configuration that contains the statements of a case.
fn faults(kind: ServerKind, cases: &[Case], whole: fn(&str) -> String) -> Vec<String> {
    let mut faults = Vec::new();
    for case in cases {
        let imported = imported(kind, &whole(case.text));
        let mut fault = |what: String| {
            faults.push(format!("{}: {what}\n{}", case.name, imported.configuration));
        };
        let plain = without_comments(&imported.configuration);
        for part in case.has.iter().filter(|part| !plain.contains(**part)) {
            fault(format!("`{part}` is missing"));
        }
        for part in case.lacks.iter().filter(|part| plain.contains(**part)) {
            fault(format!("`{part}` is there"));
        }
        for (start, wanted) in case.fates {
            let found = fate(&imported, start);
            if found != Some(*wanted) {
                let outcome = imported
                    .statements
                    .iter()
                    .find(|one| one.text.starts_with(start));
                fault(format!(
                    "`{start}` is {found:?}, not {wanted:?}: {outcome:?}"
                ));
            }
        }
        for error in config_errors(&imported.configuration) {
            fault(error);
        }
    }
    faults
}

fn check(kind: ServerKind, cases: &[Case], whole: fn(&str) -> String) {
    let faults = faults(kind, cases, whole);
    assert!(
        faults.is_empty(),
        "{} faults\n{}",
        faults.len(),
        faults.join("\n")
    );
}
