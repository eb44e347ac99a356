//! Common parts of several subroutines: patterns of conditions, entries of access lists, options for whole conditions.

use crate::draft::ImportedSite;
use crate::report::Report;
use crate::tree::ParsedDirective;

/// An entry of an access list. `None` for a name or an exclusion.
pub(super) fn network(entry: &ParsedDirective) -> Option<String> {
    let words = entry.words.join("");
    let network = match words.as_str() {
        "localhost" => "127.0.0.0/8",
        words => words,
    };
    let address = network.split('/').next()?;
    let is_address = address.parse::<std::net::IpAddr>().is_ok();
    is_address.then(|| network.to_owned())
}

/// Sets an option that has the effect of a condition and its block.
pub(super) fn switch_on(
    option: &str,
    directive: &ParsedDirective,
    site: &mut ImportedSite,
    report: &mut Report,
) {
    site.section.set(option, true, &directive.origin);
    directive.carried(option, report);
}

/// The patterns after each `~` of a condition.
pub(super) fn patterns(text: &str) -> Vec<String> {
    let words: Vec<&str> = text.split(' ').collect();
    let after = |index: usize| {
        words
            .get(index + 1)
            .map(|word| word.trim_end_matches([')', '{']))
    };
    words
        .iter()
        .enumerate()
        .filter(|(_, word)| word.ends_with('~'))
        .filter_map(|(index, _)| after(index))
        .map(|word| {
            if word.matches('(').count() > word.matches(')').count() {
                format!("{word})")
            } else {
                word.to_owned()
            }
        })
        .collect()
}

/// Whether a condition is about phones.
pub(super) fn is_about_phones(directive: &ParsedDirective) -> bool {
    let text = directive.words.join(" ").to_ascii_lowercase();
    ["iphone", "android", "x-device", "x-ua", "mobile"]
        .iter()
        .any(|word| text.contains(word))
        || directive.inner().iter().any(is_about_phones)
}

/// Whether a block contains, at any depth, a statement for which `matches` is true.
pub(super) fn contains(
    block: &[ParsedDirective],
    matches: &dyn Fn(&ParsedDirective) -> bool,
) -> bool {
    block
        .iter()
        .any(|one| matches(one) || contains(one.inner(), matches))
}

/// Why a condition is not carried.
pub(super) const COMPUTES: &str =
    "VCL computes something here: write rules for the paths, or decide in PHP";
