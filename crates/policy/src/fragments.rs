//! Shared fragments of a page, as the WordPress plugin describes them in response fields.
//!
//! `Galley-Fragment: <label> <start> <length> <blocks> <definition> <tags>`, one field for each fragment: the position of its
//! bytes in the body, its kinds of blocks, the data with which the plugin renders it again, and the tags of the fragment. The
//! page's own tags do not include them, so a response whose fragments cannot be parsed depends on everything. A seventh word,
//! `context`, means that the definition contains the parts of the page on which the fragment depends. In a response that
//! consists of fragments, the definition is the number of the fragment in the request.

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::tags::{self, EVERYTHING, MAX_TAGS, Tags};

/// The field that describes a fragment of a response.
pub const FRAGMENT: HeaderName = HeaderName::from_static("galley-fragment");

/// The field with tags that fragments of a page must not have when they are rendered without the page: they would show the page
/// as the current one.
const EXCEPT: HeaderName = HeaderName::from_static("galley-fragment-except");

/// The word after the tags of a fragment whose definition contains its context.
const CONTEXT: &str = "context";

/// The maximum number of fragments in one page.
pub const MAX_FRAGMENTS: usize = 64;

/// A fragment, with its position in the body and its dependencies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FragmentPart {
    /// The name for users: `widget:recent-posts-2`.
    pub label: String,
    /// The position of the first byte in the body.
    pub start: usize,
    /// The length in bytes.
    pub length: usize,
    /// The id of the kinds of blocks in the fragment, whose styles and scripts the page loads.
    pub blocks: String,
    /// The data with which the plugin renders the fragment, signed by the plugin.
    pub definition: String,
    /// The dependencies of the fragment.
    pub tags: Tags,
    /// Whether the definition contains the parts of the page on which the fragment depends, such as the current item of a menu.
    pub has_context: bool,
}

/// The fields of a response cannot be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidFragments;

/// Parses the fragments of a response, which are in rising order, without overlaps.
pub fn parse(fields: &HeaderMap) -> Result<Vec<FragmentPart>, InvalidFragments> {
    let mut parts: Vec<FragmentPart> = Vec::new();
    let mut end = 0;
    for value in fields.get_all(FRAGMENT) {
        let part = part(value).ok_or(InvalidFragments)?;
        if part.start < end || parts.len() == MAX_FRAGMENTS {
            return Err(InvalidFragments);
        }
        end = part
            .start
            .checked_add(part.length)
            .ok_or(InvalidFragments)?;
        parts.push(part);
    }
    Ok(parts)
}

/// [`crate::key::tag_id`] of the tags that fragments must not have when they are rendered without this page.
pub fn exceptions(fields: &HeaderMap) -> Result<Vec<u64>, InvalidFragments> {
    let mut tags = Tags::default();
    for value in fields.get_all(EXCEPT) {
        let list = value.to_str().ok().and_then(tags::from_list);
        tags.add(&list.ok_or(InvalidFragments)?);
    }
    Ok(tags.ids)
}

fn part(value: &HeaderValue) -> Option<FragmentPart> {
    let text = value.to_str().ok()?;
    let mut words = text.split(' ');
    let mut word = || words.next().filter(|word| !word.is_empty());
    let part = FragmentPart {
        label: word()?.to_owned(),
        start: word()?.parse().ok()?,
        length: word()?.parse().ok()?,
        blocks: word()?.to_owned(),
        definition: word()?.to_owned(),
        tags: tags::from_list(word().unwrap_or_default())?,
        has_context: false,
    };
    let context = words.next();
    let part = FragmentPart {
        has_context: context == Some(CONTEXT),
        ..part
    };
    let is_known = part.has_context || context.is_none();
    let is_bounded = part.tags.ids.len() <= MAX_TAGS && part.tags.names != [EVERYTHING];
    (words.next().is_none() && is_known && is_bounded).then_some(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(lines: &[&str]) -> HeaderMap {
        let values = lines.iter().map(|line| HeaderValue::from_str(line));
        values.map(|value| (FRAGMENT, value.unwrap())).collect()
    }

    #[test]
    fn fragments_are_parsed_in_their_order() {
        let read = parse(&fields(&[
            "widget:recent-posts-2 10 20 - d.m l.post.q,l.post.r0",
            "core/archives 30 0 abc e.m",
            "menu/main 30 9 - f.m m2 context",
        ]))
        .unwrap();
        let contexts: Vec<bool> = read.iter().map(|part| part.has_context).collect();
        assert_eq!(contexts, [false, false, true]);
        assert_eq!(
            (read[0].start, read[0].length, &*read[0].definition),
            (10, 20, "d.m")
        );
        assert_eq!(read[0].tags.names, ["l.post.q", "l.post.r0"]);
        assert!(read[1].tags.ids.is_empty());
    }

    #[test]
    fn invalid_fragments_are_rejected() {
        let table: &[&[&str]] = &[
            &[""],
            &["a 1 2 -"],
            &["a x 2 - d t"],
            &["a -1 2 - d t"],
            &["a 1 2 - d t more"],
            &["a 1 2 - d t context more"],
            &["a 1  2 - d t"],
            &["a 1 2 - d *"],
            &["a 1 99999999999999999999999 - d t"],
            &["a 5 18446744073709551615 - d t"],
            &["a 0 9 - d t", "b 8 1 - e t"],
            &["a 9 1 - d t", "b 0 1 - e t"],
        ];
        for lines in table {
            assert_eq!(parse(&fields(lines)), Err(InvalidFragments), "{lines:?}");
        }
        assert_eq!(parse(&HeaderMap::new()), Ok(Vec::new()));
        let many = vec!["a 0 0 - d t"; MAX_FRAGMENTS + 1];
        assert_eq!(parse(&fields(&many)), Err(InvalidFragments));
    }
}
