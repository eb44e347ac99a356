//! Defaults of options that the manual states outside of the reference: each must be that of the option table.
//!
//! A sentence with the word "default" and the name of an option states the default as `` `name = value` ``. A row of a table marks it with
//! `(default)` behind the value, and the head of the table has the name. A paragraph about "defaults" that ends with a colon states those
//! of the block behind it. Defaults in other words are in `IN_WORDS`.

use std::fmt::Write as _;

use galley_config::{Fallback, OptionRow, OptionSection, options};

use crate::pages::{Page, page, pages};

/// Page, words, option, and its default as the table has it.
const IN_WORDS: [(&str, &str, &str, &str); 6] = [
    (
        "docs/faq.md",
        "a quarter of the machine's memory by default (`memory` in `[cache]`)",
        "cache.memory",
        "a quarter of the memory of the machine or its control group, at least 16MiB",
    ),
    (
        "docs/how-to/access.md",
        "(`min_rate`: 15 kB in the first 30 s)",
        "server.min_rate",
        "\"500B\"",
    ),
    (
        "docs/how-to/access.md",
        "(`min_rate`: 15 kB in the first 30 s)",
        "server.write_timeout",
        "\"30s\"",
    ),
    (
        "docs/how-to/uploads.md",
        "500 bytes per second keep it (`body_timeout`, [`min_rate`]",
        "server.min_rate",
        "\"500B\"",
    ),
    (
        "docs/how-to/many-sites.md",
        "| 256, over all sites | `connections_per_address` |",
        "server.connections_per_address",
        "256",
    ),
    (
        "docs/how-to/reload.md",
        "queue of site `example.com`: 200 (default) -> 400",
        "site.queue",
        "200",
    ),
];

/// A paragraph, an item of a list, or a row of a table.
#[derive(Default)]
struct Passage {
    text: String,
    /// The first cell of the table's head.
    head: String,
    /// The block of configuration behind it.
    block: String,
}

fn passages(page: &Page) -> Vec<Passage> {
    let mut found: Vec<Passage> = Vec::new();
    let (mut is_fenced, mut is_new, mut head) = (false, true, String::new());
    for line in page.text.lines() {
        let line = line.trim();
        if line.starts_with("```") {
            is_fenced = !is_fenced;
            is_new = true;
        } else if is_fenced {
            if let Some(last) = found.last_mut() {
                writeln!(last.block, "{line}").unwrap();
            }
        } else if line.is_empty() {
            is_new = true;
            head.clear();
        } else {
            if let Some(cells) = line.strip_prefix("| ")
                && head.is_empty()
            {
                cells.split(" |").next().unwrap().clone_into(&mut head);
            }
            if is_new || line.starts_with(['-', '|', '#']) {
                found.push(Passage {
                    head: head.clone(),
                    ..Passage::default()
                });
            }
            is_new = false;
            let text = &mut found.last_mut().unwrap().text;
            text.push_str(line);
            text.push(' ');
        }
    }
    found
}

/// The words in backticks of a sentence, and whether the rest of it speaks of a default.
fn code_and_default(sentence: &str) -> (Vec<&str>, bool) {
    let code = sentence.split('`').skip(1).step_by(2).collect();
    let mut prose = sentence.split('`').step_by(2);
    let speaks = prose.any(|text| {
        text.split(|c: char| !c.is_alphabetic())
            .any(|word| ["default", "defaults", "Default"].contains(&word))
    });
    (code, speaks)
}

/// Whether an option has this name, with or without its section.
fn is_option(word: &str) -> bool {
    options().any(|row| row.name == word || row.path() == word)
}

/// Whether the option table has this default. Most options of a rule default to the value of the site.
fn is_default(name: &str, value: &str) -> bool {
    let is_of_row = |row: &OptionRow| match row.fallback {
        Fallback::Value(text) => text == value,
        Fallback::Computed(how) => {
            how.contains(&format!("`{value}`")) || how.contains(&format!("`{name} = {value}`"))
        }
        Fallback::Absent | Fallback::Required => false,
    };
    let is_named = |row: &&OptionRow| {
        row.name == name || row.path() == name || name.starts_with('"') && row.name.starts_with('<')
    };
    options()
        .filter(|row| row.section != OptionSection::SiteRule)
        .filter(is_named)
        .any(is_of_row)
}

/// The defaults that a passage states, and its sentences that speak of a default without stating it.
fn stated(passage: &Passage) -> (Vec<(String, String)>, Vec<String>) {
    let (mut found, mut vague) = (Vec::new(), Vec::new());
    let assignment = |text: &str| {
        let (name, value) = text.split_once(" = ")?;
        Some((name.trim().to_owned(), value.trim().to_owned()))
    };
    if passage.text.starts_with('|')
        && let Some((value, _)) = passage.text.split_once("` (default)")
    {
        let value = value.rsplit('`').next().unwrap().to_owned();
        found.push((passage.head.trim_matches('`').to_owned(), value));
        return (found, vague);
    }
    for sentence in passage.text.split(". ") {
        let (code, speaks) = code_and_default(sentence);
        if !speaks {
            continue;
        }
        let stated: Vec<_> = code.iter().filter_map(|word| assignment(word)).collect();
        if stated.is_empty() && sentence.trim_end().ends_with(':') {
            found.extend(passage.block.lines().filter_map(assignment));
        } else if stated.is_empty() && code.iter().any(|word| is_option(word)) {
            vague.push(sentence.to_owned());
        }
        found.extend(stated);
    }
    (found, vague)
}

#[test]
fn defaults_in_the_manual_match_the_options() {
    let mut violations = String::new();
    let mut compared = 0;
    let of_owners = |page: &&Page| {
        page.name == "README.md"
            || page.name.starts_with("docs/")
                && !page.name.starts_with("docs/internals/")
                && page.name != "docs/reference/options.md"
    };
    for page in pages().iter().filter(of_owners) {
        for passage in passages(page) {
            let (found, vague) = stated(&passage);
            compared += found.len();
            for (name, value) in found {
                if !is_default(&name, &value) {
                    writeln!(violations, "{}: `{name}` is not {value}", page.name).unwrap();
                }
            }
            let in_words = |sentence: &String| {
                let mut known = IN_WORDS.iter().filter(|known| known.0 == page.name);
                known.any(|known| sentence.contains(known.1))
            };
            for sentence in vague.iter().filter(|sentence| !in_words(sentence)) {
                writeln!(violations, "{}: which default? {sentence}", page.name).unwrap();
            }
        }
    }
    assert!(violations.is_empty(), "{violations}");
    assert!(compared >= 14, "only {compared} defaults found");
}

#[test]
fn defaults_in_words_match_the_options() {
    for (name, words, path, expected) in IN_WORDS {
        assert!(page(name).contains(words), "{name} has no `{words}`");
        let row = options().find(|row| row.path() == path);
        let row = row.unwrap_or_else(|| panic!("no option `{path}`"));
        let found = match row.fallback {
            Fallback::Value(text) | Fallback::Computed(text) => text,
            Fallback::Absent | Fallback::Required => "none",
        };
        assert_eq!(found, expected, "{name}: {path}");
    }
}

#[test]
fn a_stated_default_is_found_in_each_form() {
    let page = Page {
        name: String::new(),
        text: "By default `a = 1` holds,\nin two lines. `queue` has a default.\n\n\
            | `b` | effect |\n|---|---|\n| `\"x\"` (default) | y |\n\n\
            With these defaults:\n\n```toml\nc = 2\n```\n"
            .to_owned(),
    };
    let all: Vec<_> = passages(&page).iter().map(stated).collect();
    let found: Vec<_> = all.iter().flat_map(|(found, _)| found.clone()).collect();
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(found, [pair("a", "1"), pair("b", "\"x\""), pair("c", "2")]);
    let vague: Vec<_> = all.iter().flat_map(|(_, vague)| vague).collect();
    assert_eq!(vague.len(), 1, "{vague:?}");
    assert!(is_default("queue", "200") && !is_default("queue", "201"));
}
