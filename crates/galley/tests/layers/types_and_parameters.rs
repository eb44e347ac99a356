//! Type names are unique, and parameters are not tuples.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use super::modules::Modules;
use super::source::{Token, closing, product_tokens};
use super::{crate_roots, workspace};

/// Limit for the number of type names that more than one module of the workspace defines.
const MAX_REPEATED_NAMES: usize = 20;

/// Permitted number of functions with tuple parameters, by crate; 0 for crates not listed. A number may only be lowered.
const PERMITTED_TUPLES: &[(&str, usize)] = &[];

#[test]
fn few_type_names_are_repeated() {
    let mut definitions: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for root in crate_roots() {
        let modules = Modules::read(&root, &|file| fs::read_to_string(file).ok());
        for (name, file) in modules.types() {
            let file = file.strip_prefix(workspace().join("crates")).unwrap();
            definitions
                .entry(name.to_owned())
                .or_default()
                .push(file.display().to_string());
        }
    }
    let repeated = repeated(definitions);
    assert!(
        repeated.len() <= MAX_REPEATED_NAMES,
        "{} type names are defined more than once:\n{}",
        repeated.len(),
        repeated.join("\n")
    );
}

fn repeated(definitions: BTreeMap<String, Vec<String>>) -> Vec<String> {
    definitions
        .into_iter()
        .filter(|(_, files)| files.len() > 1)
        .map(|(name, files)| format!("{name}: {}", files.join(" ")))
        .collect()
}

#[test]
fn parameters_are_not_tuples() {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for root in crate_roots() {
        let modules = Modules::read(&root, &|file| fs::read_to_string(file).ok());
        for file in modules.files() {
            let text = fs::read_to_string(file).unwrap();
            let below = file.strip_prefix(workspace().join("crates")).unwrap();
            let name = below.iter().next().unwrap().to_string_lossy().into_owned();
            let functions = tuple_parameters(&product_tokens(&text));
            let with_file = functions
                .iter()
                .map(|f| format!("{}: {f}", below.display()));
            found.entry(name).or_default().extend(with_file);
        }
    }
    let mut violations = Vec::new();
    for (name, functions) in found {
        let permitted = PERMITTED_TUPLES
            .iter()
            .find(|(permitted, _)| *permitted == name)
            .map_or(0, |(_, permitted)| *permitted);
        if functions.len() < permitted {
            let now = functions.len();
            violations.push(format!(
                "{name}: only {now} tuple parameters, lower {permitted} in this test"
            ));
        }
        if functions.len() > permitted {
            violations.extend(functions);
        }
    }
    assert!(violations.is_empty(), "{}", violations.join("\n"));
}

/// `function(parameter)` for each parameter of a named function whose type is a tuple or a reference to one.
fn tuple_parameters(tokens: &[Token]) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in tokens.iter().enumerate().filter(|(_, t)| t.is("fn")) {
        let Some(function) = tokens.get(at + 1).and_then(Token::name) else {
            continue;
        };
        let mut open = at + 2;
        if tokens.get(open) == Some(&Token::Sign('<')) {
            open = after_generics(tokens, open);
        }
        let end = closing(tokens, open);
        for parameter in parameters(&tokens[open + 1..end]) {
            let Some(colon) = parameter.iter().position(|t| *t == Token::Sign(':')) else {
                continue;
            };
            if is_tuple(&parameter[colon + 1..]) {
                let name: Vec<&str> = parameter[..colon].iter().filter_map(Token::name).collect();
                found.push(format!("{function}({})", name.join(" ")));
            }
        }
    }
    found
}

fn after_generics(tokens: &[Token], open: usize) -> usize {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token {
            Token::Sign('<') => depth += 1,
            Token::Sign('>') => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    tokens.len()
}

/// Splits at commas outside brackets.
fn parameters(tokens: &[Token]) -> Vec<&[Token]> {
    let mut depth = 0;
    tokens
        .split(move |token| {
            if token.opens() || *token == Token::Sign('<') {
                depth += 1;
            } else if token.closes() || *token == Token::Sign('>') {
                depth -= 1;
            }
            depth == 0 && *token == Token::Sign(',')
        })
        .collect()
}

fn is_tuple(of_type: &[Token]) -> bool {
    let bare = of_type
        .iter()
        .position(|t| *t != Token::Sign('&') && !t.is("mut"))
        .map_or(&[][..], |start| &of_type[start..]);
    bare.first() == Some(&Token::Sign('(')) && parameters(&bare[1..closing(bare, 0)]).len() > 1
}

#[test]
fn tuple_parameters_are_found() {
    let text = "
        fn a<F: Fn(u8) -> (u8, u8)>(f: F, (x, y): (u8, u8), z: u8) {}
        pub(crate) async fn b(&self, pair: &mut (u8, Vec<u8>)) -> (u8, u8) { |c: (u8, u8)| c }
        fn d(list: &[(u8, u8)], f: fn((u8, u8)), one: (u8)) {}
    ";
    assert_eq!(
        tuple_parameters(&product_tokens(text)),
        ["a(x y)", "b(pair)"]
    );
}

#[test]
fn a_repeated_type_name_is_found() {
    let read = |file: &std::path::Path| match file.to_str()? {
        "src/lib.rs" => Some("mod a; struct A; impl I for A { type Out = u8; }".to_owned()),
        "src/a.rs" => Some("pub enum A {} type B = u8; #[cfg(test)] struct C;".to_owned()),
        _ => None,
    };
    let modules = Modules::read(&PathBuf::from("src/lib.rs"), &read);
    let mut definitions: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, file) in modules.types() {
        definitions
            .entry(name.to_owned())
            .or_default()
            .push(file.display().to_string());
    }
    assert_eq!(repeated(definitions), ["A: src/lib.rs src/a.rs"]);
}
