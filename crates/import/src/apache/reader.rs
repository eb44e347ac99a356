//! Parses Apache's syntax: one directive per line, sections in angle brackets, `#` comments, and `\` at the end of a line that
//! continues on the next one.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::directive::ParsedDirective;
use crate::report::Report;
use crate::source::{MAX_FILES, MAX_LEVELS, MAX_NESTED, Source, StatementOrigin};

/// Parses a file and its includes. Names of directives are in lower case, those of sections begin with `<`.
pub(crate) fn read(source: &dyn Source, main: &Path, report: &mut Report) -> Vec<ParsedDirective> {
    let mut reader = ApacheReader {
        source,
        report,
        folder: main.parent().unwrap_or(Path::new("/")).to_owned(),
        left: MAX_FILES,
    };
    reader.file(main, 0)
}

struct ApacheReader<'a> {
    source: &'a dyn Source,
    report: &'a mut Report,
    folder: PathBuf,
    left: usize,
}

/// An open section.
struct OpenApacheSection {
    section: Option<ParsedDirective>,
    inner: Vec<ParsedDirective>,
}

impl ApacheReader<'_> {
    fn file(&mut self, path: &Path, level: usize) -> Vec<ParsedDirective> {
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
        for (line, words) in lines(&text) {
            let origin = StatementOrigin {
                file: Rc::clone(&file),
                line,
            };
            self.line(words, origin, &mut open, level);
        }
        while open.len() > 1 {
            close(&mut open);
        }
        open.pop().map(|top| top.inner).unwrap_or_default()
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
        let Some(id) = self.report.add(&words.join(" "), origin.clone()) else {
            return;
        };
        if matches!(name, "include" | "includeoptional") {
            let pattern = words.get(1).cloned().unwrap_or_default();
            let included = self.include(&pattern, id, level);
            if let Some(top) = open.last_mut() {
                top.inner.extend(included);
            }
            return;
        }
        let is_section = name.starts_with('<') && open.len() <= MAX_NESTED;
        let directive = ParsedDirective {
            id,
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

    fn include(
        &mut self,
        pattern: &str,
        id: crate::report::StatementId,
        level: usize,
    ) -> Vec<ParsedDirective> {
        let files = self.source.matching(&self.folder.join(pattern));
        if files.is_empty() && !pattern.contains(['*', '?']) {
            let remedy = "the file does not exist here: run the import where it does";
            self.report.not_carried(id, remedy);
            return Vec::new();
        }
        if level >= MAX_LEVELS || self.left < files.len() {
            self.report
                .not_carried(id, "too many files, or files that include each other");
            return Vec::new();
        }
        self.report
            .not_needed(id, "the directives of the file are read here");
        files
            .iter()
            .flat_map(|file| self.file(file, level + 1))
            .collect()
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

/// The words of each directive with the number of its first line.
fn lines(text: &str) -> Vec<(usize, Vec<String>)> {
    let mut all = Vec::new();
    let mut joined = String::new();
    let mut first = 1;
    for (index, line) in text.lines().enumerate() {
        if joined.is_empty() {
            first = index + 1;
        }
        if let Some(part) = line.strip_suffix('\\') {
            joined.push_str(part);
            joined.push(' ');
            continue;
        }
        joined.push_str(line);
        let words = words(&std::mem::take(&mut joined));
        if !words.is_empty() {
            all.push((first, words));
        }
    }
    all
}

/// The words of a line: quotes keep spaces, the name is in lower case, `<Section a>` begins with `<section`.
pub(crate) fn words(line: &str) -> Vec<String> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Vec::new();
    }
    let line = match line.strip_prefix('<') {
        Some(section) => format!("<{}", section.trim_end_matches('>')),
        None => line.to_owned(),
    };
    let mut words = Vec::new();
    let mut word = String::new();
    let (mut quote, mut is_word, mut is_escaped) = (None, false, false);
    for c in line.chars() {
        match (c, quote) {
            ('"' | '\'', None) if !is_escaped && (word.is_empty()) => {
                quote = Some(c);
                is_word = true;
            }
            (c, Some(open)) if c == open && !is_escaped => quote = None,
            (c, None) if c.is_whitespace() => {
                if is_word || !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                is_word = false;
            }
            _ => word.push(c),
        }
        is_escaped = c == '\\' && !is_escaped;
    }
    if is_word || !word.is_empty() {
        words.push(word);
    }
    if let Some(name) = words.first_mut() {
        *name = name.to_ascii_lowercase();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_split_into_words() {
        assert_eq!(
            words("  ServerName example.com"),
            ["servername", "example.com"]
        );
        assert_eq!(words("Header set X \"a b\""), ["header", "set", "X", "a b"]);
        assert_eq!(words("<VirtualHost *:80>"), ["<virtualhost", "*:80"]);
        assert_eq!(
            words("RewriteRule ^a\\ b$ \"-\" [F]"),
            ["rewriterule", "^a\\", "b$", "-", "[F]"]
        );
        assert!(words("# no").is_empty());
        let all = lines("A \\\n b\n\nC\n");
        assert_eq!(
            all,
            [
                (1, vec!["a".to_owned(), "b".to_owned()]),
                (4, vec!["c".to_owned()])
            ]
        );
    }
}
