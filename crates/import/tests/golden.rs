//! Realistic configurations of other servers, with the expected file and report of the import. `UPDATE_GOLDEN=1` writes them.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::{Path, PathBuf};

use galley_import::{Imported, ServerKind, Source, StatementOutcome, import};

/// The files of one case, which the import sees below `/etc/server`.
struct CaseFiles {
    folder: PathBuf,
    mount_point: PathBuf,
}

impl CaseFiles {
    fn real(&self, path: &Path) -> Option<PathBuf> {
        Some(self.folder.join(path.strip_prefix(&self.mount_point).ok()?))
    }
}

impl Source for CaseFiles {
    fn text(&self, path: &Path) -> Option<String> {
        fs::read_to_string(self.real(path)?).ok()
    }

    fn matching(&self, pattern: &Path) -> Vec<PathBuf> {
        let name = pattern
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let Some((before, after)) = name.split_once('*') else {
            let exists = self.real(pattern).is_some_and(|path| path.is_file());
            return exists.then(|| pattern.to_owned()).into_iter().collect();
        };
        let folder = pattern.parent().unwrap_or(Path::new("/"));
        let entries = self
            .real(folder)
            .and_then(|folder| fs::read_dir(folder).ok());
        let mut found: Vec<PathBuf> = entries
            .into_iter()
            .flatten()
            .flatten()
            .filter(|entry| {
                let name = entry.file_name().to_string_lossy().into_owned();
                name.starts_with(before) && name.ends_with(after)
            })
            .map(|entry| folder.join(entry.file_name()))
            .collect();
        found.sort();
        found
    }
}

fn import_case(folder: &Path) -> Imported {
    let main_files: Vec<(ServerKind, PathBuf)> = MAIN_FILES
        .iter()
        .filter(|(_, name)| folder.join(name).is_file())
        .map(|(kind, name)| (*kind, PathBuf::from("/etc/server").join(name)))
        .collect();
    assert!(!main_files.is_empty(), "{}", folder.display());
    let files = CaseFiles {
        folder: folder.to_owned(),
        mount_point: PathBuf::from("/etc/server"),
    };
    import(&files, &main_files)
}

const MAIN_FILES: &[(ServerKind, &str)] = &[
    (ServerKind::Nginx, "nginx.conf"),
    (ServerKind::Varnish, "default.vcl"),
    (ServerKind::Apache, "apache2.conf"),
    (ServerKind::Apache, ".htaccess"),
    (ServerKind::Caddy, "Caddyfile"),
];

fn report(imported: &Imported) -> String {
    let line = |statement: &galley_import::ImportedStatement| {
        let (outcome, what) = match &statement.outcome {
            StatementOutcome::Carried(what) => ("carried", what),
            StatementOutcome::NotNeeded(what) => ("not needed", what),
            StatementOutcome::NotCarried(what) => ("NOT CARRIED", what),
        };
        format!(
            "{} {}\n    {outcome}: {what}\n",
            statement.origin, statement.text
        )
    };
    let shares = imported.shares();
    let lines: String = imported.statements.iter().map(line).collect();
    format!(
        "{} statements: {} carried, {} not needed, {} not carried\n\n{lines}",
        shares.all(),
        shares.carried,
        shares.not_needed,
        shares.not_carried
    )
}

fn compare(path: &Path, now: &str) -> Option<String> {
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(path, now).expect("the golden file can be written");
        return None;
    }
    let before = fs::read_to_string(path).unwrap_or_default();
    (before != now).then(|| format!("{} differs:\n{now}", path.display()))
}

/// Errors in the generated configuration, except for folders and files that do not exist on this machine.
fn config_errors(text: &str) -> Vec<String> {
    match galley_config::from_text("/etc/galley/galley.toml", text) {
        Ok(_) => Vec::new(),
        Err(errors) => errors
            .iter()
            .map(|error| format!("{}: {}: {}", error.line, error.option, error.message))
            .filter(|error| !MISSING_FILE.iter().any(|words| error.contains(words)))
            .collect(),
    }
}

const MISSING_FILE: &[&str] = &[
    "does not exist",
    "cannot be read",
    "No such file",
    "is not a folder",
];

/// The folders of all cases.
fn cases() -> Vec<PathBuf> {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let entries = fs::read_dir(cases).unwrap();
    let mut folders: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    folders
}

/// Counts the statements of a file without the parser of the import.
fn count_statements(name: &str, text: &str) -> usize {
    match name {
        "apache2.conf" | ".htaccess" => {
            let joined = text.replace("\\\n", " ");
            count_lines_except(&joined, |line| line.starts_with("</"))
        }
        "Caddyfile" => count_lines_except(text, |line| line == "}"),
        "default.vcl" => count_statement_ends(&text.replace("//", "#")),
        _ => count_statement_ends(text),
    }
}

/// Counts the lines that are not empty, comments or `excluded`.
fn count_lines_except(text: &str, excluded: fn(&str) -> bool) -> usize {
    let lines = text.lines().map(str::trim);
    let is_statement = |line: &&str| !line.is_empty() && !line.starts_with('#') && !excluded(line);
    lines.filter(is_statement).count()
}

/// Counts `;` and `{` outside of quotes, comments and `${names}`, each of which ends a statement.
fn count_statement_ends(text: &str) -> usize {
    let (mut count, mut quote, mut before) = (0, None, ' ');
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        let begins_word = before.is_whitespace() || ";{}".contains(before);
        match (quote, c) {
            (Some(end), _) if c == end => quote = None,
            (_, '\\') => chars = skip_past(chars, |_| true),
            (None, '"' | '\'') => quote = Some(c),
            (None, '#') if begins_word => chars = skip_past(chars, |c| c == '\n'),
            (None, ';') => count += 1,
            (None, '{') if before != '$' => count += 1,
            _ => {}
        }
        before = c;
    }
    count
}

/// The rest after the first character that `ends` accepts.
fn skip_past(mut chars: std::str::Chars<'_>, ends: fn(char) -> bool) -> std::str::Chars<'_> {
    chars.find(|c| ends(*c));
    chars
}

/// Every file of a case, with the number of its statements in the report.
fn reported_statements(folder: &Path, imported: &Imported) -> Vec<(PathBuf, usize)> {
    let mut pending = vec![folder.to_owned()];
    let mut found = Vec::new();
    while let Some(current) = pending.pop() {
        for path in fs::read_dir(current)
            .unwrap()
            .map(|entry| entry.unwrap().path())
        {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                pending.push(path);
            } else if !name.starts_with("expected.") {
                let seen_path = Path::new("/etc/server").join(path.strip_prefix(folder).unwrap());
                let is_of = |statement: &&galley_import::ImportedStatement| {
                    *statement.origin.file == *seen_path.to_str().unwrap()
                };
                found.push((path, imported.statements.iter().filter(is_of).count()));
            }
        }
    }
    found
}

#[test]
fn every_statement_is_in_the_report() {
    let mut files = 0;
    for folder in cases() {
        for (path, reported) in reported_statements(&folder, &import_case(&folder)) {
            let name = path.file_name().unwrap().to_string_lossy();
            let text = fs::read_to_string(&path).unwrap();
            // The statements of a file that two servers include are reported twice.
            let counted = count_statements(&name, &text);
            assert!(
                reported > 0 && reported % counted == 0,
                "{}: {reported} of {counted}",
                path.display()
            );
            files += 1;
        }
    }
    assert!(files >= 17, "only {files} files");
}

#[test]
fn imported_configurations_match_the_expected_files() {
    let mut differences = Vec::new();
    for folder in cases() {
        let imported = import_case(&folder);
        differences.extend(compare(
            &folder.join("expected.toml"),
            &imported.configuration,
        ));
        differences.extend(compare(&folder.join("expected.txt"), &report(&imported)));
        let name = folder.display();
        differences.extend(
            config_errors(&imported.configuration)
                .into_iter()
                .map(|error| format!("{name}: {error}")),
        );
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
