//! Names of crawlers in a `User-Agent`.

/// Whether a `User-Agent` contains a name, in any case. Reads the first [`MAX_AGENT`] bytes only.
pub(super) fn names(agent: &[u8], name: &str) -> bool {
    let agent = agent.get(..MAX_AGENT).unwrap_or(agent);
    let mut parts = agent.windows(name.len().max(1));
    parts.any(|part| part.eq_ignore_ascii_case(name.as_bytes()))
}

/// The `User-Agent` of no crawler is half as long; the rest of a longer one would only cost time.
const MAX_AGENT: usize = 512;
