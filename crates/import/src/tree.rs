//! Parses statements with words and blocks in the syntax of nginx, VCL and Caddy: `name words;` or `name words { statements }`,
//! with comments and quotes. In a Caddyfile a line ends a statement. Accepts any text: invalid statements are reported, and
//! parsing continues after them.

use std::iter::Peekable;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::str::CharIndices;

use crate::directive::Directive;
pub(crate) use crate::grammar::Grammar;
use crate::report::{Report, ReportEntry};
use crate::source::{
    INCLUDE, MAX_FILES, MAX_LEVELS, MAX_NESTED, STANDARD_FILES, Source, StatementOrigin,
};

/// Reads a configuration of nginx with the files that it includes, without those of the packages. Statements that cannot be parsed are
/// left out.
pub fn nginx_directives(source: &dyn Source, main: &Path) -> Vec<Directive> {
    read(source, main, Grammar::Nginx, &mut Report::default())
}

/// Parses a file and its includes.
pub(crate) fn read(
    source: &dyn Source,
    main: &Path,
    grammar: Grammar,
    report: &mut Report,
) -> Vec<Directive> {
    Files::new(source, main, grammar, report).file(main, 0)
}

/// As [`read`], for a copy: an `include` of a standard file is kept, with its whole path.
pub(crate) fn read_whole(
    source: &dyn Source,
    main: &Path,
    grammar: Grammar,
    report: &mut Report,
) -> Vec<Directive> {
    let files = Files::new(source, main, grammar, report);
    Files {
        keeps_standard: true,
        ..files
    }
    .file(main, 0)
}

struct Files<'a> {
    source: &'a dyn Source,
    grammar: Grammar,
    report: &'a mut Report,
    folder: PathBuf,
    left: usize,
    keeps_standard: bool,
}

impl<'a> Files<'a> {
    fn new(source: &'a dyn Source, main: &Path, grammar: Grammar, report: &'a mut Report) -> Self {
        Self {
            source,
            grammar,
            report,
            folder: main.parent().unwrap_or(Path::new("/")).to_owned(),
            left: MAX_FILES,
            keeps_standard: false,
        }
    }

    fn file(&mut self, path: &Path, level: usize) -> Vec<Directive> {
        self.left = self.left.saturating_sub(1);
        let name: Rc<str> = path.display().to_string().into();
        let Some(text) = self.source.text(path) else {
            self.report.unreadable(name);
            return Vec::new();
        };
        let mut parser = StatementParser::new(&text, name, self.grammar, self.report);
        let statements = parser.statements(0);
        self.included(statements, level)
    }

    /// Replaces each `include` by the statements of the included files.
    fn included(&mut self, all: Vec<Directive>, level: usize) -> Vec<Directive> {
        let mut whole = Vec::with_capacity(all.len());
        for mut directive in all {
            let is_include = match self.grammar {
                Grammar::Caddy => directive.name() == "import" && self.names_files(&directive),
                Grammar::Nginx | Grammar::Vcl => directive.name() == INCLUDE,
            };
            if is_include {
                whole.extend(self.include(&directive, level));
                continue;
            }
            if let Some(block) = directive.block.take() {
                directive.block = Some(self.included(block, level));
            }
            whole.push(directive);
        }
        whole
    }

    /// Whether an `import` of a Caddyfile names files, and not a snippet.
    fn names_files(&self, directive: &Directive) -> bool {
        let pattern = directive.argument(0);
        pattern.contains(['*', '/']) || !self.source.matching(&self.folder.join(pattern)).is_empty()
    }

    fn include(&mut self, directive: &Directive, level: usize) -> Vec<Directive> {
        let pattern = directive.argument(0);
        let name = Path::new(pattern).file_name().unwrap_or_default();
        if STANDARD_FILES.iter().any(|standard| name == standard) {
            let why = "Galley knows media types and the parameters of FastCGI";
            directive.entry.not_needed(why);
            return self.standard(directive);
        }
        let files = self.source.matching(&self.folder.join(pattern));
        if files.is_empty() && !pattern.contains(['*', '?']) {
            let remedy = "the file does not exist here: run the import where it does";
            directive.undecided(remedy);
            return Vec::new();
        }
        if level >= MAX_LEVELS || self.left < files.len() {
            let remedy = "too many files, or files that include each other";
            directive.undecided(remedy);
            return Vec::new();
        }
        directive
            .entry
            .not_needed("the statements of the file are read here");
        let files = files.iter();
        files.flat_map(|file| self.file(file, level + 1)).collect()
    }

    /// An `include` of a standard file in a copy.
    fn standard(&self, directive: &Directive) -> Vec<Directive> {
        if !self.keeps_standard {
            return Vec::new();
        }
        let path = self.folder.join(directive.argument(0));
        let words = vec![INCLUDE.to_owned(), path.display().to_string()];
        vec![Directive {
            words,
            ..directive.clone()
        }]
    }
}

struct StatementParser<'a> {
    text: &'a str,
    chars: Peekable<CharIndices<'a>>,
    line: usize,
    file: Rc<str>,
    grammar: Grammar,
    report: &'a mut Report,
}

/// The end of a sequence of words.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WordsEnd {
    Semicolon,
    Open,
    Close,
    Text,
}

impl<'a> StatementParser<'a> {
    fn new(text: &'a str, file: Rc<str>, grammar: Grammar, report: &'a mut Report) -> Self {
        Self {
            text,
            chars: text.char_indices().peekable(),
            line: 1,
            file,
            grammar,
            report,
        }
    }

    /// Parses statements up to the end of the block, or of the text at depth 0.
    fn statements(&mut self, depth: usize) -> Vec<Directive> {
        let mut statements = Vec::new();
        loop {
            let mut words = Vec::new();
            let (line, end) = self.words(&mut words);
            match end {
                WordsEnd::Open if words.is_empty() && self.grammar == Grammar::Caddy => {
                    // Global options have no name.
                    let words = vec!["{".to_owned()];
                    let entry = self.add(&words, line, "");
                    let block = self.statements(depth + 1);
                    statements
                        .extend(entry.map(|entry| self.entered(entry, words, line, Some(block))));
                }
                WordsEnd::Semicolon | WordsEnd::Open if words.is_empty() => {
                    self.invalid(line, "a statement without a name");
                    if end == WordsEnd::Open {
                        self.skip_block();
                    }
                }
                WordsEnd::Semicolon => statements.extend(self.directive(words, line, None)),
                WordsEnd::Open if depth >= MAX_NESTED || is_code(&words) => {
                    self.skip_block();
                    statements.extend(self.directive(words, line, Some(Vec::new())));
                }
                WordsEnd::Open => {
                    let entry = self.add(&words, line, " {");
                    let block = self.statements(depth + 1);
                    statements
                        .extend(entry.map(|entry| self.entered(entry, words, line, Some(block))));
                }
                WordsEnd::Close | WordsEnd::Text => {
                    if !words.is_empty() {
                        self.invalid(
                            line,
                            &format!("`{}` does not end with `;`", words.join(" ")),
                        );
                    }
                    if end == WordsEnd::Text || depth > 0 {
                        return statements;
                    }
                    self.invalid(line, "a `}` without a `{`");
                }
            }
        }
    }

    fn directive(
        &mut self,
        words: Vec<String>,
        line: usize,
        block: Option<Vec<Directive>>,
    ) -> Option<Directive> {
        let end = if block.is_some() { " {" } else { ";" };
        let entry = self.add(&words, line, end)?;
        Some(self.entered(entry, words, line, block))
    }

    fn add(&mut self, words: &[String], line: usize, end: &str) -> Option<ReportEntry> {
        let text = words.join(" ") + end;
        self.report.add(&text, self.origin(line))
    }

    fn entered(
        &self,
        entry: ReportEntry,
        words: Vec<String>,
        line: usize,
        block: Option<Vec<Directive>>,
    ) -> Directive {
        Directive {
            entry,
            origin: self.origin(line),
            words,
            block,
        }
    }

    fn origin(&self, line: usize) -> StatementOrigin {
        StatementOrigin {
            file: Rc::clone(&self.file),
            line,
        }
    }

    fn invalid(&mut self, line: usize, what: &str) {
        let origin = self.origin(line);
        if let Some(entry) = self.report.add(what, origin) {
            entry.not_carried("this is not the grammar of nginx: correct the line");
        }
    }

    /// Parses words up to their end. Returns the line of the first word, or of the end.
    fn words(&mut self, words: &mut Vec<String>) -> (usize, WordsEnd) {
        let mut first = None;
        loop {
            let Some(&(start, c)) = self.chars.peek() else {
                return (first.unwrap_or(self.line), WordsEnd::Text);
            };
            let line = *first.get_or_insert(self.line);
            let is_caddy = self.grammar == Grammar::Caddy;
            match c {
                '\n' if is_caddy && !words.is_empty() => {
                    self.bump();
                    return (line, WordsEnd::Semicolon);
                }
                ';' if is_caddy => words.push(self.bare(start)),
                '{' if is_caddy && !self.opens_block(start) => words.push(self.bare(start)),
                '/' if self.grammar == Grammar::Vcl && self.skip_comment(start) => {
                    first = (!words.is_empty()).then_some(line);
                }
                ';' | '{' | '}' => {
                    self.bump();
                    let end = match c {
                        ';' => WordsEnd::Semicolon,
                        '{' => WordsEnd::Open,
                        _ => WordsEnd::Close,
                    };
                    return (line, end);
                }
                '#' => {
                    self.skip_line();
                    first = (!words.is_empty()).then_some(line);
                }
                c if c.is_whitespace() => {
                    self.bump();
                    first = (!words.is_empty()).then_some(line);
                }
                '"' | '\'' => words.push(self.quoted(c)),
                _ => words.push(self.bare(start)),
            }
        }
    }

    /// Whether the `{` here is the last character of its line, ignoring white space and comments.
    fn opens_block(&self, at: usize) -> bool {
        let rest = self.text.get(at + 1..).unwrap_or_default();
        let line = rest.lines().next().unwrap_or_default();
        line.trim().is_empty() || line.trim_start().starts_with('#')
    }

    /// Skips `// ...` or `/* ... */`. False if there is no comment here.
    fn skip_comment(&mut self, at: usize) -> bool {
        let rest = self.text.get(at..).unwrap_or_default();
        if rest.starts_with("//") {
            self.skip_line();
            return true;
        }
        let Some(inside) = rest.strip_prefix("/*") else {
            return false;
        };
        let length = inside.find("*/").map_or(rest.len(), |end| end + 4);
        while self
            .chars
            .peek()
            .is_some_and(|&(next, _)| next < at + length)
        {
            self.bump();
        }
        true
    }

    fn bump(&mut self) -> Option<char> {
        let (_, c) = self.chars.next()?;
        if c == '\n' {
            self.line += 1;
        }
        Some(c)
    }

    fn skip_line(&mut self) {
        while let Some(c) = self.bump() {
            if c == '\n' {
                return;
            }
        }
    }

    /// Parses a word in quotes; `\` escapes a quote. If the end is missing, the word is the rest of the text.
    fn quoted(&mut self, quote: char) -> String {
        self.bump();
        let mut word = String::new();
        while let Some(c) = self.bump() {
            if c == quote {
                break;
            }
            if c == '\\' && self.chars.peek().is_some_and(|&(_, next)| next == quote) {
                word.extend(self.bump());
                continue;
            }
            word.push(c);
        }
        word
    }

    /// Parses a word without quotes. `${name}` is part of it, and so is `{3}` in a regular expression,
    /// which nginx accepts only in quotes.
    fn bare(&mut self, start: usize) -> String {
        let (mut end, mut is_variable) = (start, false);
        while let Some(&(at, c)) = self.chars.peek() {
            let opens = c == '{' && self.text.get(..at).is_some_and(|text| text.ends_with('$'));
            if self.grammar == Grammar::Caddy {
                if c.is_whitespace() {
                    break;
                }
            } else if opens {
                is_variable = true;
            } else if is_variable && c == '}' {
                is_variable = false;
            } else if c.is_whitespace() || matches!(c, ';' | '{' | '}') {
                break;
            }
            end = at + c.len_utf8();
            let escapes = c == '\\';
            self.bump();
            if escapes && let Some(&(at, next)) = self.chars.peek() {
                end = at + next.len_utf8();
                self.bump();
            }
        }
        self.text.get(start..end).unwrap_or_default().to_owned()
    }

    /// Skips to the `}` of a block whose `{` was read.
    fn skip_block(&mut self) {
        let mut depth = 1_usize;
        while let Some(c) = self.bump() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return;
            }
        }
    }
}

/// Whether a block contains a program instead of statements.
fn is_code(words: &[String]) -> bool {
    words
        .first()
        .is_some_and(|name| name.ends_with("_by_lua_block") || name == "js_content")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::report::StatementOutcome;

    pub(crate) struct Texts(pub BTreeMap<PathBuf, String>);

    impl Source for Texts {
        fn text(&self, path: &Path) -> Option<String> {
            self.0.get(path).cloned()
        }

        fn matching(&self, pattern: &Path) -> Vec<PathBuf> {
            let pattern = pattern.display().to_string();
            let (before, after) = pattern.split_once('*').unwrap_or((&pattern, ""));
            let names = self.0.keys().filter(|path| {
                let path = path.display().to_string();
                path.starts_with(before) && path.ends_with(after)
            });
            names.cloned().collect()
        }
    }

    fn parse_as(grammar: Grammar, text: &str) -> (Vec<Directive>, Report) {
        let mut report = Report::default();
        let files = BTreeMap::from([(PathBuf::from("/n/main"), text.to_owned())]);
        let all = read(&Texts(files), Path::new("/n/main"), grammar, &mut report);
        (all, report)
    }

    fn parse(text: &str) -> (Vec<Directive>, Report) {
        parse_as(Grammar::Nginx, text)
    }

    #[test]
    fn vcl_and_caddyfiles_are_parsed() {
        let vcl = "sub vcl_recv { // begin\n if (req.url ~ \"a;b\") { /* } */ return (pass); } }";
        let (all, _) = parse_as(Grammar::Vcl, vcl);
        let condition = &all[0].inner()[0];
        assert_eq!(condition.words, ["if", "(req.url", "~", "a;b", ")"]);
        assert_eq!(condition.inner()[0].words, ["return", "(pass)"]);
        let caddy = "example.com {\n  root * /srv\n  header X {http.request.host}\n}\n";
        let (all, _) = parse_as(Grammar::Caddy, caddy);
        assert_eq!(all[0].words, ["example.com"]);
        assert_eq!(
            all[0].inner()[1].words,
            ["header", "X", "{http.request.host}"]
        );
    }

    #[test]
    fn words_blocks_quotes_and_comments_are_parsed() {
        let text = "user www; # end\nhttp {\n  log_format main '$a \"b\"';\n\
                    location ~ \\.php$ { return 404; }\n set ${x} \"a;b\"; }\n";
        let (all, report) = parse(text);
        assert_eq!(all[0].words, ["user", "www"]);
        let http = &all[1];
        assert_eq!(http.origin.line, 2);
        assert_eq!(http.inner()[0].words, ["log_format", "main", "$a \"b\""]);
        assert_eq!(http.inner()[1].words, ["location", "~", "\\.php$"]);
        assert_eq!(http.inner()[2].words, ["set", "${x}", "a;b"]);
        assert_eq!(report.into_statements().len(), 6);
    }

    #[test]
    fn invalid_statements_are_reported_and_parsing_continues() {
        let (all, report) = parse("a b }\n; c;\nhttp { server { listen 80; }");
        let names: Vec<_> = all.iter().map(Directive::name).collect();
        assert_eq!(names, ["c", "http"]);
        let statements = report.into_statements();
        let diagnostics: Vec<_> = statements
            .iter()
            .filter(|one| matches!(&one.outcome, StatementOutcome::NotCarried(why) if why.contains("grammar")))
            .map(|one| one.text.as_str())
            .collect();
        assert_eq!(
            diagnostics,
            [
                "`a b` does not end with `;`",
                "a `}` without a `{`",
                "a statement without a name"
            ]
        );
    }

    #[test]
    fn included_files_replace_the_include() {
        let files = BTreeMap::from([
            (
                PathBuf::from("/n/nginx.conf"),
                "include mime.types; include sites/*; include gone;".to_owned(),
            ),
            (
                PathBuf::from("/n/sites/a"),
                "a; include sites/a;".to_owned(),
            ),
            (PathBuf::from("/n/sites/b"), "b;".to_owned()),
        ]);
        let mut report = Report::default();
        let main = Path::new("/n/nginx.conf");
        let all = read(&Texts(files), main, Grammar::Nginx, &mut report);
        let names: Vec<_> = all.iter().map(Directive::name).collect();
        assert_eq!(names.iter().filter(|name| **name == "b").count(), 1);
        assert!(
            names.len() < 40,
            "a file that includes itself ends: {names:?}"
        );
        let statements = report.into_statements();
        let lost = statements.iter().find(|one| one.text == "include gone;");
        assert!(matches!(
            lost.unwrap().outcome,
            StatementOutcome::NotCarried(_)
        ));
    }

    proptest! {
        #[test]
        fn any_text_is_parsed(text in "[a-z;{}#/*\"'\\\\$ \n]{0,300}") {
            for grammar in [Grammar::Vcl, Grammar::Caddy] {
                parse_as(grammar, &text);
            }
            let (all, report) = parse(&text);
            fn count(all: &[Directive]) -> usize {
                all.iter().map(|one| 1 + count(one.inner())).sum()
            }
            prop_assert!(count(&all) <= report.into_statements().len());
        }
    }
}
