//! `Cache-Status` of upstreams (RFC 9211): members with Galley's own name are removed, the others are kept.
//!
//! Intermediaries append their member, so a reader of `galley; hit, galley; fwd=miss` attributes the first to this cache.
//! Users who debug a site, and Galley's tests, rely on this cache's member; PHP must not be able to forge it.
//! Members with other names are those of caches between Galley and the program, and are forwarded. A second Galley in front
//! of the upstream cannot be distinguished, so its member is removed too.

use http::{HeaderMap, HeaderName, HeaderValue};

const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");

/// The name of this cache, in lower case; as a token or as a string.
const OWN: &[u8] = b"galley";

/// Removes every member with this cache's name, in any case. A line that is not a list of members is dropped.
pub fn remove_own(fields: &mut HeaderMap) {
    if !fields.contains_key(&CACHE_STATUS) {
        return;
    }
    let lines: Vec<HeaderValue> = fields.get_all(&CACHE_STATUS).iter().cloned().collect();
    fields.remove(&CACHE_STATUS);
    for line in lines {
        let Some(members) = members(line.as_bytes()) else {
            continue;
        };
        let others: Vec<&[u8]> = members.into_iter().filter(|one| !is_own(one)).collect();
        if let Ok(value) = HeaderValue::from_bytes(&others.join(&b", "[..]))
            && !value.is_empty()
        {
            fields.append(CACHE_STATUS, value);
        }
    }
}

/// The members of a list, trimmed and without empty ones; `None` if a quoted string has no end.
fn members(line: &[u8]) -> Option<Vec<&[u8]>> {
    let mut members = Vec::new();
    let (mut start, mut in_string, mut is_escaped) = (0, false, false);
    for (at, byte) in line.iter().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_string => is_escaped = true,
            b'"' => in_string = !in_string,
            b',' if !in_string => {
                members.push(line.get(start..at).unwrap_or_default().trim_ascii());
                start = at + 1;
            }
            _ => {}
        }
    }
    members.push(line.get(start..).unwrap_or_default().trim_ascii());
    members.retain(|member| !member.is_empty());
    (!in_string).then_some(members)
}

/// Whether a member has this cache's name, which ends where its parameters begin.
fn is_own(member: &[u8]) -> bool {
    let name = member.split(|&byte| byte == b';').next();
    let name = name.unwrap_or_default().trim_ascii();
    let text = match name {
        [b'"', text @ .., b'"'] => text,
        token => token,
    };
    text.eq_ignore_ascii_case(OWN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(lines: &[&str]) -> Vec<String> {
        let mut fields = HeaderMap::new();
        for line in lines {
            fields.append(CACHE_STATUS, HeaderValue::from_str(line).unwrap());
        }
        remove_own(&mut fields);
        let lines = fields.get_all(CACHE_STATUS).iter();
        lines.map(|v| v.to_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn members_with_our_name_are_removed() {
        for (lines, wanted) in [
            (&[][..], &[][..]),
            (&["galley; hit"], &[]),
            (&["galley"], &[]),
            (&["Galley ;hit"], &[]),
            (&["\"galley\"; hit"], &[]),
            (&["origin; hit"], &["origin; hit"]),
            (&["origin; hit, galley; hit,, b"], &["origin; hit, b"]),
            (&["galley; hit", "origin"], &["origin"]),
            (&["galleys; hit"], &["galleys; hit"]),
            (
                &["\"a, galley; hit\"; fwd=miss"],
                &["\"a, galley; hit\"; fwd=miss"],
            ),
            (
                &["a; detail=\"x\\\", galley; hit\""],
                &["a; detail=\"x\\\", galley; hit\""],
            ),
            (&["a; detail=\", galley; hit"], &[]),
        ] {
            assert_eq!(kept(lines), wanted, "{lines:?}");
        }
    }
}
