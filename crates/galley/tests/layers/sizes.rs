//! Size of the product: `cargo test -p galley --test layers sizes -- --nocapture` prints lines and functions of each crate.

use std::fs;

use super::{all_sources, functions, is_test, workspace};

/// Nine of ten functions of the product have at most this number of lines.
const P90_LINES: usize = 25;

#[test]
fn most_functions_are_short() {
    let (mut all, mut all_lengths) = (0, Vec::new());
    println!("| crate | product lines | functions | nine of ten have at most | longest |");
    println!("|---|--:|--:|--:|--:|");
    for (name, lines, lengths) in sizes() {
        all += lines;
        all_lengths.extend_from_slice(&lengths);
        print_row(&name, lines, lengths);
    }
    let most = print_row("all", all, all_lengths);
    assert!(
        most <= P90_LINES,
        "more than one function of ten has over {P90_LINES} lines"
    );
}

/// Prints a row and returns the number of lines that nine of ten functions have at most.
fn print_row(name: &str, lines: usize, mut lengths: Vec<usize>) -> usize {
    lengths.sort_unstable();
    let most = lengths.get(lengths.len() * 9 / 10).copied().unwrap_or(0);
    let longest = lengths.last().copied().unwrap_or(0);
    println!(
        "| {name} | {lines} | {} | {most} | {longest} |",
        lengths.len()
    );
    most
}

/// For each crate below `crates`: its name, its lines without tests, and the length of each function.
fn sizes() -> Vec<(String, usize, Vec<usize>)> {
    let mut sizes: Vec<(String, usize, Vec<usize>)> = Vec::new();
    for path in all_sources() {
        let Ok(below) = path.strip_prefix(workspace().join("crates")) else {
            continue;
        };
        let mut parts = below
            .components()
            .map(|part| part.as_os_str().to_string_lossy());
        let (Some(name), Some(folder)) = (parts.next(), parts.next()) else {
            continue;
        };
        if folder != "src" || is_test(&path) || path.ends_with("testing.rs") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let product = without_tests(&text);
        if sizes.last().is_none_or(|(last, ..)| *last != name) {
            sizes.push((name.into_owned(), 0, Vec::new()));
        }
        if let Some((_, lines, lengths)) = sizes.last_mut() {
            *lines += product.lines().count();
            lengths.extend(functions(product).iter().map(|function| function.lines));
        }
    }
    sizes
}

/// The text before the first test module, whatever its name.
fn without_tests(text: &str) -> &str {
    let starts = text.match_indices("#[cfg(test)]\n").map(|(start, _)| start);
    let mut modules = starts.filter(|start| {
        let item = text[*start..].lines().nth(1).unwrap_or_default();
        item.contains("mod ") && item.ends_with('{')
    });
    modules.next().map_or(text, |start| &text[..start])
}
