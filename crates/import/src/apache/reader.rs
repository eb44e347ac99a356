//! Reads Apache's files: sections, includes and defined names. The words of a line are those of `galley_files`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use galley_files::apache_lines;

use crate::directive::Directive;
use crate::report::{Report, ReportEntry};
use crate::source::{MAX_FILES, MAX_LEVELS, MAX_NESTED, Source, StatementOrigin};

/// Reads a configuration of Apache with the files that it includes. Names of directives are in lower case, those of sections begin
/// with `<`.
pub fn apache_directives(source: &dyn Source, main: &Path) -> Vec<Directive> {
    read(source, main, &mut Report::default())
}

/// As [`apache_directives`], with a report of every directive.
pub(crate) fn read(source: &dyn Source, main: &Path, report: &mut Report) -> Vec<Directive> {
    let folder = main.parent().unwrap_or(Path::new("/"));
    // On Fedora the file is in /etc/httpd/conf, and relative paths start at /etc/httpd.
    let is_below = folder.ends_with("conf");
    let folder = folder.parent().filter(|_| is_below).unwrap_or(folder);
    let mut reader = ApacheReader {
        source,
        report,
        folder: folder.to_owned(),
        defined: HashMap::new(),
        left: MAX_FILES,
    };
    reader.file(main, 0)
}

struct ApacheReader<'a> {
    source: &'a dyn Source,
    report: &'a mut Report,
    folder: PathBuf,
    /// The values of `Define`.
    defined: HashMap<String, String>,
    left: usize,
}

/// An open section.
struct OpenApacheSection {
    section: Option<Directive>,
    inner: Vec<Directive>,
}

impl ApacheReader<'_> {
    fn file(&mut self, path: &Path, level: usize) -> Vec<Directive> {
        self.left = self.left.saturating_sub(1);
        let file: Rc<str> = path.display().to_string().into();
        let Some(text) = self.source.text(path) else {
            self.report.unreadable(file);
            return Vec::new();
        };
        let mut open = vec![OpenApacheSection {
            section: None,
            inner: Vec::new(),
        }];
        for line in apache_lines(&text) {
            let origin = StatementOrigin {
                file: Rc::clone(&file),
                line: line.number,
            };
            let words = line.words.iter().map(|word| self.expanded(word));
            self.line(words.collect(), origin, &mut open, level);
        }
        while open.len() > 1 {
            close(&mut open);
        }
        open.pop().map(|top| top.inner).unwrap_or_default()
    }

    /// A word with the value of a name that is defined.
    fn expanded(&self, word: &str) -> String {
        let parts = word.split_once("${").and_then(|(before, rest)| {
            let (name, after) = rest.split_once('}')?;
            Some(format!("{before}{}{after}", self.defined.get(name)?))
        });
        parts.unwrap_or_else(|| word.to_owned())
    }

    fn line(
        &mut self,
        words: Vec<String>,
        origin: StatementOrigin,
        open: &mut Vec<OpenApacheSection>,
        level: usize,
    ) {
        let name = words.first().map_or("", String::as_str);
        if name.starts_with("</") {
            if open.len() > 1 {
                close(open);
            }
            return;
        }
        let Some(entry) = self.report.add(&words.join(" "), origin.clone()) else {
            return;
        };
        let argument = words.get(1).cloned().unwrap_or_default();
        let is_section = name.starts_with('<') && open.len() <= MAX_NESTED;
        match name {
            "include" | "includeoptional" => {
                let included = self.include(&argument, &entry, level);
                if let Some(top) = open.last_mut() {
                    top.inner.extend(included);
                }
                return;
            }
            "serverroot" if argument.starts_with('/') => self.folder = PathBuf::from(&argument),
            "define" if self.defined.len() < MAX_FILES => {
                let value = words.get(2).cloned().unwrap_or_default();
                self.defined.insert(argument, value);
                entry.not_needed("its value is read where the name is used");
            }
            _ => {}
        }
        let directive = Directive {
            entry,
            origin,
            words,
            block: is_section.then(Vec::new),
        };
        if is_section {
            open.push(OpenApacheSection {
                section: Some(directive),
                inner: Vec::new(),
            });
        } else if let Some(top) = open.last_mut() {
            top.inner.push(directive);
        }
    }

    fn include(&mut self, pattern: &str, entry: &ReportEntry, level: usize) -> Vec<Directive> {
        let files = self.source.matching(&self.folder.join(pattern));
        if files.is_empty() && !pattern.contains(['*', '?']) {
            let remedy = "the file does not exist here: run the import where it does";
            entry.not_carried(remedy);
            return Vec::new();
        }
        if level >= MAX_LEVELS || self.left < files.len() {
            let remedy = "too many files, or files that include each other";
            entry.not_carried(remedy);
            return Vec::new();
        }
        let why = "the directives of the file are read here";
        entry.not_needed(why);
        let files = files.iter();
        files.flat_map(|file| self.file(file, level + 1)).collect()
    }
}

fn close(open: &mut Vec<OpenApacheSection>) {
    let Some(done) = open.pop() else {
        return;
    };
    if let (Some(mut section), Some(outer)) = (done.section, open.last_mut()) {
        section.block = Some(done.inner);
        outer.inner.push(section);
    }
}
