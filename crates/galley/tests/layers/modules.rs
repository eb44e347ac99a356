//! The modules of one crate: the file of each module, its definitions and imports, and the files that it refers to.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::source::{Token, closing, product_tokens};

/// A path as written, relative to its module.
type Segments = Vec<String>;

/// The product modules of one crate, by their paths (`["disk", "read"]`).
#[derive(Default)]
pub(crate) struct Modules {
    modules: BTreeMap<Segments, Module>,
}

#[derive(Default)]
struct Module {
    file: PathBuf,
    children: BTreeSet<String>,
    items: BTreeSet<String>,
    types: BTreeSet<String>,
    imports: BTreeMap<String, Segments>,
    globs: Vec<Segments>,
    /// Paths in code and imports.
    paths: Vec<Segments>,
    /// Whether the module consists of declarations and imports only.
    only_declares: bool,
}

/// A reference from one file to an item of another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Reference {
    pub(crate) from: PathBuf,
    pub(crate) to: PathBuf,
    pub(crate) path: String,
}

impl Modules {
    /// Reads all modules declared from `root` down. `read` returns the text of a file, if the file exists.
    pub(crate) fn read(root: &Path, read: &dyn Fn(&Path) -> Option<String>) -> Self {
        let mut modules = Self::default();
        modules.read_file(root, &Vec::new(), read);
        modules
    }

    fn read_file(&mut self, file: &Path, path: &Segments, read: &dyn Fn(&Path) -> Option<String>) {
        let Some(text) = read(file) else { return };
        let tokens = product_tokens(&text);
        let declared = self.read_module(file, path.clone(), &tokens);
        let folder = match file.file_stem().and_then(|stem| stem.to_str()) {
            Some("lib" | "main" | "mod") => file.with_file_name(""),
            _ => file.with_extension(""),
        };
        for name in declared {
            let flat = folder.join(format!("{name}.rs"));
            let nested = folder.join(&name).join("mod.rs");
            let mut inner = path.clone();
            inner.push(name);
            let file = if read(&flat).is_some() { flat } else { nested };
            self.read_file(&file, &inner, read);
        }
    }

    /// Reads one module and returns the names of its modules in other files.
    fn read_module(&mut self, file: &Path, path: Segments, tokens: &[Token]) -> Vec<String> {
        let mut module = Module {
            file: file.to_owned(),
            only_declares: true,
            ..Module::default()
        };
        let mut declared = Vec::new();
        let mut at = 0;
        let mut depth = 0_usize;
        while let Some(token) = tokens.get(at) {
            let name = tokens.get(at + 1).and_then(Token::name).unwrap_or_default();
            match token {
                Token::Sign('#') => {
                    let open = at + 1 + usize::from(tokens.get(at + 1) == Some(&Token::Sign('!')));
                    at = closing(tokens, open) + 1;
                    continue;
                }
                token if token.is("mod") && !name.is_empty() => {
                    module.children.insert(name.to_owned());
                    if tokens.get(at + 2) == Some(&Token::Sign('{')) {
                        let end = closing(tokens, at + 2);
                        let mut inner = path.clone();
                        inner.push(name.to_owned());
                        self.read_module(file, inner, &tokens[at + 3..end]);
                        at = end + 1;
                    } else {
                        declared.push(name.to_owned());
                        at += 3;
                    }
                    continue;
                }
                token if token.is("use") && !name.is_empty() || is_rooted_use(tokens, at) => {
                    at = module.read_use(tokens, at + 1, &Vec::new()) + 1;
                    continue;
                }
                _ => {}
            }
            if depth == 0 && !(token.is("pub") || token.opens()) {
                module.only_declares = false;
            }
            if depth == 0
                && let Some(keyword) = token.name()
                && ITEMS.contains(&keyword)
                && !name.is_empty()
            {
                module.items.insert(name.to_owned());
                if TYPES.contains(&keyword) {
                    module.types.insert(name.to_owned());
                }
            }
            if depth == 0 && token.is("macro_rules") {
                module
                    .items
                    .extend(tokens.get(at + 2).and_then(Token::name).map(str::to_owned));
            }
            if token.opens() {
                depth += 1;
            } else if token.closes() {
                depth = depth.saturating_sub(1);
            }
            at = module.read_path(tokens, at);
        }
        self.modules.insert(path, module);
        declared
    }
}

fn is_rooted_use(tokens: &[Token], at: usize) -> bool {
    tokens[at].is("use") && tokens.get(at + 1) == Some(&Token::PathSeparator)
}

impl Module {
    /// Reads one tree of a `use` and returns the position of the next token.
    fn read_use(&mut self, tokens: &[Token], mut at: usize, prefix: &Segments) -> usize {
        let mut path = prefix.clone();
        while let Some(token) = tokens.get(at) {
            match token {
                Token::PathSeparator => at += 1,
                Token::Sign('*') => {
                    self.globs.push(path);
                    return at + 1;
                }
                Token::Sign('{') => {
                    let end = closing(tokens, at);
                    at += 1;
                    while at < end {
                        at = self.read_use(tokens, at, &path);
                        if tokens.get(at) == Some(&Token::Sign(',')) {
                            at += 1;
                        }
                    }
                    return end + 1;
                }
                token if token.is("as") => {
                    let alias = tokens.get(at + 1).and_then(Token::name).unwrap_or_default();
                    self.import(alias, path);
                    return at + 2;
                }
                Token::Name(name) => {
                    path.push(name.clone());
                    at += 1;
                }
                _ => break,
            }
        }
        if path.last().is_some_and(|name| name == "self") {
            path.pop();
        }
        if let Some(name) = path.last().cloned() {
            self.import(&name, path);
        }
        at
    }

    fn import(&mut self, name: &str, path: Segments) {
        self.paths.push(path.clone());
        self.imports.insert(name.to_owned(), path);
    }

    /// Records the path that starts at `at`, if any, and returns the position of the next token.
    fn read_path(&mut self, tokens: &[Token], mut at: usize) -> usize {
        let starts = tokens[at].name().is_some()
            && (at == 0 || tokens[at - 1] != Token::PathSeparator)
            && tokens.get(at + 1) == Some(&Token::PathSeparator);
        if !starts {
            return at + 1;
        }
        let mut path = Segments::new();
        while let Some(name) = tokens.get(at).and_then(Token::name) {
            path.push(name.to_owned());
            at += 1;
            if tokens.get(at) != Some(&Token::PathSeparator) {
                break;
            }
            at += 1;
        }
        self.paths.push(path);
        at
    }
}

/// What a path refers to.
enum Target {
    Module(Segments),
    /// The file that defines an item.
    Item(PathBuf),
}

impl Modules {
    /// Every reference from one file of the crate to an item in another, once per pair of files.
    ///
    /// Imports resolve to the file that defines the item. Modules that consist of declarations and imports have no references.
    pub(crate) fn references(&self) -> Vec<Reference> {
        let mut found: BTreeMap<(PathBuf, PathBuf), String> = BTreeMap::new();
        for (at, module) in self.modules.iter().filter(|(_, m)| !m.only_declares) {
            let items = module
                .paths
                .iter()
                .filter_map(|path| match self.resolve(at, path, 0)? {
                    Target::Item(file) => Some((file, path.join("::"))),
                    Target::Module(_) => None,
                });
            let globs = module.globs.iter().filter_map(|path| {
                let Target::Module(inner) = self.resolve(at, path, 0)? else {
                    return None;
                };
                let file = self.modules.get(&inner)?.file.clone();
                Some((file, format!("{}::*", path.join("::"))))
            });
            for (file, path) in items.chain(globs) {
                if file != module.file {
                    found.entry((module.file.clone(), file)).or_insert(path);
                }
            }
        }
        found
            .into_iter()
            .map(|((from, to), path)| Reference { from, to, path })
            .collect()
    }

    /// The name of each type definition, with its file.
    pub(crate) fn types(&self) -> impl Iterator<Item = (&str, &Path)> {
        self.modules.values().flat_map(|module| {
            let file = module.file.as_path();
            module.types.iter().map(move |name| (name.as_str(), file))
        })
    }

    /// The files of all modules.
    pub(crate) fn files(&self) -> BTreeSet<&Path> {
        self.modules
            .values()
            .map(|module| module.file.as_path())
            .collect()
    }

    fn resolve(&self, from: &Segments, path: &[String], depth: usize) -> Option<Target> {
        if depth > 16 {
            return None;
        }
        let mut at = from.clone();
        let mut rest = path;
        let mut is_local = false;
        while let Some((first, others)) = rest.split_first() {
            match first.as_str() {
                "crate" => at.clear(),
                "self" => {}
                "super" => {
                    at.pop();
                }
                _ => break,
            }
            is_local = true;
            rest = others;
        }
        while let Some((first, others)) = rest.split_first() {
            let module = self.modules.get(&at)?;
            let is_item = module.items.contains(first);
            if module.children.contains(first) && !(others.is_empty() && is_item) {
                at.push(first.clone());
                rest = others;
                is_local = true;
                continue;
            }
            if is_item {
                return Some(Target::Item(module.file.clone()));
            }
            if let Some(import) = module.imports.get(first)
                && import.as_slice() != path
            {
                let whole: Segments = import.iter().chain(others).cloned().collect();
                return self.resolve(&at, &whole, depth + 1);
            }
            let behind_globs = module.globs.iter().find_map(|glob| {
                let Target::Module(inner) = self.resolve(&at, glob, depth + 1)? else {
                    return None;
                };
                if !self.modules.get(&inner)?.defines(first) {
                    return None;
                }
                self.resolve(&inner, rest, depth + 1)
            });
            let unknown = || is_local.then(|| Target::Item(module.file.clone()));
            return behind_globs.or_else(unknown);
        }
        Some(Target::Module(at))
    }
}

impl Module {
    fn defines(&self, name: &str) -> bool {
        self.items.contains(name) || self.children.contains(name) || self.imports.contains_key(name)
    }
}

const ITEMS: &[&str] = &[
    "const", "enum", "fn", "static", "struct", "trait", "type", "union",
];
const TYPES: &[&str] = &["enum", "struct", "trait", "type", "union"];
