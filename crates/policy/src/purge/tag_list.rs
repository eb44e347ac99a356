//! Parsing of tags in the requests of plugins.
//!
//! Commas, blanks or `|` separate tags; Proxy Cache Purge and `VCaching` write them as alternatives in a regular expression.

use super::error::{MAX_PURGES, PurgeError};
use super::scope::{Scope, tag_scope};
use crate::tags;

/// Parses `a,b c|d`, also as alternatives in a pattern: `(a|b)`, `^a$`, with escapes. A tag that is itself a pattern means
/// the whole site, since tags are stored as hashes and cannot be searched.
pub(super) fn tag_scopes(lists: &[&[u8]]) -> Result<Vec<Scope>, PurgeError> {
    let mut scopes = Vec::new();
    for part in lists
        .iter()
        .flat_map(|list| tags::split(list))
        .flat_map(|part| part.split(|&byte| byte == b'|'))
    {
        let part = part.strip_prefix(b"^").unwrap_or(part);
        let part = part.strip_prefix(b"(").unwrap_or(part);
        let part = part.strip_suffix(b"$").unwrap_or(part);
        let part = part.strip_suffix(b")").unwrap_or(part);
        let Some(tag) = unescaped(part) else {
            return Ok(vec![Scope::Site]);
        };
        let tag = String::from_utf8(tag).map_err(|_| PurgeError::NotText)?;
        let scope = tag_scope(&tag)?;
        if scope == Scope::Tag(String::new()) || scopes.contains(&scope) {
            continue;
        }
        if scopes.len() == MAX_PURGES {
            return Err(PurgeError::TooMany);
        }
        scopes.push(scope);
    }
    if scopes.is_empty() {
        Err(PurgeError::NoTags)
    } else {
        Ok(scopes)
    }
}

/// A tag without the backslashes before punctuation; `None` if it is a pattern. A dot is read literally, because tags of
/// `LiteSpeed` contain dots.
fn unescaped(tag: &[u8]) -> Option<Vec<u8>> {
    let mut plain = Vec::with_capacity(tag.len());
    let mut bytes = tag.iter();
    while let Some(&byte) = bytes.next() {
        match byte {
            b'\\' => plain.push(*bytes.next().filter(|next| next.is_ascii_punctuation())?),
            b'*' | b'+' | b'?' | b'[' | b']' | b'(' | b')' | b'{' | b'}' | b'^' | b'$' => {
                return None;
            }
            _ => plain.push(byte),
        }
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tag(name: &str) -> Scope {
        Scope::Tag(name.to_owned())
    }

    #[test]
    fn lists_of_tags() {
        type Row<'a> = (&'a [&'a str], Result<Vec<Scope>, PurgeError>);
        let table: &[Row<'_>] = &[
            (&["a"], Ok(vec![tag("a")])),
            (&["a|b"], Ok(vec![tag("a"), tag("b")])),
            (&["a, b c", "a"], Ok(vec![tag("a"), tag("b"), tag("c")])),
            (&["(p\\-1|t\\-2)"], Ok(vec![tag("p-1"), tag("t-2")])),
            (&["^(p-1)$"], Ok(vec![tag("p-1")])),
            (&["b5f_Po.12"], Ok(vec![tag("b5f_Po.12")])),
            (&["a\\.b"], Ok(vec![tag("a.b")])),
            (&["p-1|p-.*"], Ok(vec![Scope::Site])),
            (&["*"], Ok(vec![Scope::Site])),
            (&["a\\d"], Ok(vec![Scope::Site])),
            (&["", " , |"], Err(PurgeError::NoTags)),
            (&[], Err(PurgeError::NoTags)),
        ];
        for (lists, wanted) in table {
            assert_eq!(
                tag_scopes(&lists.iter().map(|list| list.as_bytes()).collect::<Vec<_>>()),
                *wanted,
                "{lists:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn never_panics(list in proptest::collection::vec(any::<u8>(), 0..30)) {
            let _ = tag_scopes(&[&list]);
        }
    }
}
