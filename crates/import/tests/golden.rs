//! Configurations as sites have them, with the file and the report that the import makes of each. `UPDATE_GOLDEN=1` writes them.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::fs;
use std::path::{Path, PathBuf};

use galley_import::{Imported, ServerKind, Source, StatementFate, import};

/// The files of one case, seen below `/etc/SERVER`.
struct CaseFiles {
    folder: PathBuf,
    seen_as: PathBuf,
}

impl CaseFiles {
    fn real(&self, path: &Path) -> Option<PathBuf> {
        Some(self.folder.join(path.strip_prefix(&self.seen_as).ok()?))
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

fn converted(folder: &Path) -> Imported {
    let mains: Vec<(ServerKind, PathBuf)> = MAINS
        .iter()
        .filter(|(_, name)| folder.join(name).is_file())
        .map(|(kind, name)| (*kind, PathBuf::from("/etc/server").join(name)))
        .collect();
    assert!(!mains.is_empty(), "{}", folder.display());
    let files = CaseFiles {
        folder: folder.to_owned(),
        seen_as: PathBuf::from("/etc/server"),
    };
    import(&files, &mains)
}

const MAINS: &[(ServerKind, &str)] = &[
    (ServerKind::Nginx, "nginx.conf"),
    (ServerKind::Varnish, "default.vcl"),
    (ServerKind::Apache, "apache2.conf"),
    (ServerKind::Apache, ".htaccess"),
    (ServerKind::Caddy, "Caddyfile"),
];

fn report(imported: &Imported) -> String {
    let line = |statement: &galley_import::ImportedStatement| {
        let (fate, what) = match &statement.fate {
            StatementFate::Carried(what) => ("carried", what),
            StatementFate::NotNeeded(what) => ("not needed", what),
            StatementFate::NotCarried(what) => ("NOT CARRIED", what),
        };
        format!(
            "{} {}\n    {fate}: {what}\n",
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

/// Complaints that are about the machine, and not about the file: its folders and sockets do not exist here.
fn wrong_lines(text: &str) -> Vec<String> {
    match galley_config::from_text("/etc/galley/galley.toml", text) {
        Ok(_) => Vec::new(),
        Err(complaints) => complaints
            .iter()
            .map(|one| format!("{}: {}: {}", one.line, one.option, one.message))
            .filter(|one| !ABOUT_FILES.iter().any(|words| one.contains(words)))
            .collect(),
    }
}

const ABOUT_FILES: &[&str] = &[
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

/// How many statements a file has, counted without the import's own parser.
fn counted(name: &str, text: &str) -> usize {
    match name {
        "apache2.conf" | ".htaccess" => {
            let joined = text.replace("\\\n", " ");
            lines_but(&joined, |line| line.starts_with("</"))
        }
        "Caddyfile" => lines_but(text, |line| line == "}"),
        "default.vcl" => ends_of_statements(&text.replace("//", "#")),
        _ => ends_of_statements(text),
    }
}

/// Lines that are not empty, no comments, and not `left_out`.
fn lines_but(text: &str, left_out: fn(&str) -> bool) -> usize {
    let lines = text.lines().map(str::trim);
    let is_statement = |line: &&str| !line.is_empty() && !line.starts_with('#') && !left_out(line);
    lines.filter(is_statement).count()
}

/// Each `;` and `{` outside of quotes, comments and `${names}` ends the words of a statement.
fn ends_of_statements(text: &str) -> usize {
    let (mut count, mut quote, mut before) = (0, None, ' ');
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        let begins_word = before.is_whitespace() || ";{}".contains(before);
        match (quote, c) {
            (Some(end), _) if c == end => quote = None,
            (_, '\\') => chars = skipped(chars, |_| true),
            (None, '"' | '\'') => quote = Some(c),
            (None, '#') if begins_word => chars = skipped(chars, |c| c == '\n'),
            (None, ';') => count += 1,
            (None, '{') if before != '$' => count += 1,
            _ => {}
        }
        before = c;
    }
    count
}

/// What stands behind the first character that `ends` accepts.
fn skipped(mut chars: std::str::Chars<'_>, ends: fn(char) -> bool) -> std::str::Chars<'_> {
    chars.find(|c| ends(*c));
    chars
}

/// Every file of a case, with how many statements the report has of it.
fn reported(folder: &Path, imported: &Imported) -> Vec<(PathBuf, usize)> {
    let mut waiting = vec![folder.to_owned()];
    let mut found = Vec::new();
    while let Some(place) = waiting.pop() {
        for path in fs::read_dir(place)
            .unwrap()
            .map(|entry| entry.unwrap().path())
        {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                waiting.push(path);
            } else if !name.starts_with("expected.") {
                let seen_as = Path::new("/etc/server").join(path.strip_prefix(folder).unwrap());
                let is_of = |one: &&galley_import::ImportedStatement| {
                    *one.origin.file == *seen_as.to_str().unwrap()
                };
                found.push((path, imported.statements.iter().filter(is_of).count()));
            }
        }
    }
    found
}

#[test]
fn no_statement_is_missing_in_a_report() {
    let mut files = 0;
    for folder in cases() {
        for (path, reported) in reported(&folder, &converted(&folder)) {
            let name = path.file_name().unwrap().to_string_lossy();
            let text = fs::read_to_string(&path).unwrap();
            // A file that two servers include has its statements twice.
            let counted = counted(&name, &text);
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
fn configurations_become_those_that_are_expected() {
    let mut wrong = Vec::new();
    for folder in cases() {
        let imported = converted(&folder);
        wrong.extend(compare(
            &folder.join("expected.toml"),
            &imported.configuration,
        ));
        wrong.extend(compare(&folder.join("expected.txt"), &report(&imported)));
        let name = folder.display();
        let percent = imported.shares().settled_percent();
        if percent < 90 {
            wrong.push(format!("{name}: {percent} % of the statements are settled"));
        }
        wrong.extend(
            wrong_lines(&imported.configuration)
                .into_iter()
                .map(|one| format!("{name}: {one}")),
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
