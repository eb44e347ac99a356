//! Texts that a regular expression matches: one for each of its alternatives, not all.

use regex_syntax::hir::{Class, Hir, HirKind, Repetition};

/// Paths that a pattern probably matches. Empty if the pattern is invalid or too large.
pub(super) fn of(pattern: &str) -> Vec<String> {
    let Ok(hir) = regex_syntax::parse(pattern) else {
        return Vec::new();
    };
    let mut samples = texts(&hir, 0);
    for text in &mut samples {
        if !text.starts_with('/') {
            // A pattern without an anchor also matches in the middle: `\.css$`.
            let needs_name = text.starts_with('.');
            text.insert_str(0, if needs_name { "/a" } else { "/" });
        }
    }
    samples
        .retain(|text| text.len() <= MAX_BYTES && text.bytes().all(|byte| byte.is_ascii_graphic()));
    samples.sort();
    samples.dedup();
    samples
}

fn texts(hir: &Hir, depth: usize) -> Vec<String> {
    if depth > MAX_DEPTH {
        return vec![String::new()];
    }
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => vec![String::new()],
        HirKind::Literal(literal) => vec![String::from_utf8_lossy(&literal.0).into_owned()],
        HirKind::Class(class) => vec![letter(class).to_string()],
        HirKind::Capture(capture) => texts(&capture.sub, depth + 1),
        HirKind::Alternation(all) => {
            let mut samples: Vec<String> =
                all.iter().flat_map(|one| texts(one, depth + 1)).collect();
            samples.truncate(MAX_TEXTS);
            samples
        }
        HirKind::Repetition(repetition) => repeated(repetition, depth),
        HirKind::Concat(all) => joined(all, depth),
    }
}

fn repeated(repetition: &Repetition, depth: usize) -> Vec<String> {
    let once = texts(&repetition.sub, depth + 1);
    let count = usize::try_from(repetition.min.clamp(1, MAX_REPEATED)).unwrap_or(1);
    let mut samples: Vec<String> = once.iter().map(|text| text.repeat(count)).collect();
    if repetition.min == 0 {
        samples.push(String::new());
    }
    samples
}

/// Combines the texts of the parts, so that each text occurs at least once, with the first texts of other parts.
fn joined(parts: &[Hir], depth: usize) -> Vec<String> {
    let parts: Vec<Vec<String>> = parts.iter().map(|one| texts(one, depth + 1)).collect();
    let most = parts.iter().map(Vec::len).max().unwrap_or(0);
    let mut samples = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        for choice in 0..part.len().min(most) {
            let text: String = parts
                .iter()
                .enumerate()
                .filter_map(|(other, texts)| texts.get(if other == at { choice } else { 0 }))
                .map(String::as_str)
                .collect();
            if !samples.contains(&text) && samples.len() < MAX_TEXTS {
                samples.push(text);
            }
        }
    }
    samples
}

/// A letter, a digit, or the first character of the class.
fn letter(class: &Class) -> char {
    let has = |wanted: char| contains(class, wanted);
    let first = || match class {
        Class::Unicode(class) => class
            .ranges()
            .first()
            .map(regex_syntax::hir::ClassUnicodeRange::start),
        Class::Bytes(class) => class
            .ranges()
            .first()
            .map(|range| char::from(range.start())),
    };
    let usual = ['a', '0', '-', '/', '.'].into_iter().find(|c| has(*c));
    let other = first().unwrap_or('a');
    // For a case-insensitive pattern, use lower case.
    let small = other.to_ascii_lowercase();
    usual.unwrap_or(if has(small) { small } else { other })
}

fn contains(class: &Class, wanted: char) -> bool {
    match class {
        Class::Unicode(class) => {
            let mut ranges = class.ranges().iter();
            ranges.any(|range| range.start() <= wanted && wanted <= range.end())
        }
        Class::Bytes(class) => class
            .ranges()
            .iter()
            .any(|range| char::from(range.start()) <= wanted && wanted <= char::from(range.end())),
    }
}

const MAX_TEXTS: usize = 24;
const MAX_BYTES: usize = 500;
const MAX_REPEATED: u32 = 20;
const MAX_DEPTH: usize = 50;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_alternative_has_a_sample() {
        let all = of(r"(?i)\.(jpe?g|png|gif)$");
        for name in ["/a.JPEG", "/a.PNG", "/a.GIF"] {
            assert!(
                all.iter().any(|one| one.eq_ignore_ascii_case(name)),
                "{name}: {all:?}"
            );
        }
        assert!(of("(").is_empty());
    }

    proptest! {
        #[test]
        fn any_pattern_is_accepted(pattern in "[a-z/.*+?(|)\\[\\]{}0-9^$\\\\-]{0,40}") {
            prop_assert!(of(&pattern).len() <= MAX_TEXTS);
        }
    }
}
