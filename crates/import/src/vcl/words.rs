//! What several parts of the conversion of VCL use.

use crate::directive::ParsedDirective;

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

/// Why a statement is not carried.
pub(super) const COMPUTES: &str =
    "VCL computes something here: write rules for the paths, or decide in PHP";
