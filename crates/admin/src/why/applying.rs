//! The parts of the configuration that apply to a request: the classes of its cookies, and its rule.

use galley_policy::cookie::{self, Class};
use galley_policy::site::Rule;

use galley_request::Exchange;

/// The names and classes of the cookies.
pub(super) fn classes(exchange: &Exchange<'_>) -> Vec<(String, Class)> {
    let lines = exchange
        .head
        .fields()
        .filter(|(name, _)| name.eq_ignore_ascii_case("cookie"));
    let policy = &exchange.site.core.policy;
    lines
        .flat_map(|(_, line)| cookie::pairs(line))
        .map(|pair| (text(pair.name), cookie::classify(pair.name, policy)))
        .collect()
}

/// The rule that applies, and its number in the file, from 1.
pub(super) fn applying<'e>(exchange: &'e Exchange<'_>) -> Option<(usize, &'e Rule)> {
    let index = exchange.info.rule()?;
    Some((index + 1, exchange.site.core.policy.rules.get(index)?))
}

/// Converts bytes of a request to text.
pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
