//! Tags: the names of the objects on which a page depends, as the upstream declares them.
//!
//! Existing plugins use many fields; all are parsed, and none is sent to clients. `Surrogate-Key` and `xkey` separate by
//! blanks, the others by commas. No plugin uses either inside a tag, so both separate everywhere, for pages and for purges
//! alike. A page with more tags than can be stored gets the single tag `*`, which every purge of its site matches: it may
//! be purged too often, never too rarely.

use crate::fields;
use crate::key::tag_id;

/// The maximum number of tags of one page.
pub const MAX_TAGS: usize = 1024;

/// The tag of pages whose tags are not known: every purge matches it.
pub const EVERYTHING: &str = "*";

/// The response fields that carry tags, in lower case.
pub const TAG_FIELDS: &[&str] = &[
    "galley-tags",
    "x-litespeed-tag",
    "surrogate-key",
    "cache-tag",
    "cache-tags",
    "edge-cache-tag",
    "x-cache-tags",
    "xkey",
];

/// The tags of one response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tags {
    /// [`tag_id`] of each tag, ascending, without duplicates.
    pub ids: Vec<u64>,
    /// The tags in their original order, without duplicates.
    pub names: Vec<String>,
}

impl Tags {
    /// The tags of a page that depends on everything.
    pub fn everything() -> Self {
        Self {
            ids: vec![tag_id(EVERYTHING)],
            names: vec![EVERYTHING.to_owned()],
        }
    }

    /// Adds all tags of `others`. If they cannot all be stored, the result is [`Tags::everything`].
    pub fn add(&mut self, others: &Self) {
        if self.ids == Self::everything().ids {
            return;
        }
        if others.ids == Self::everything().ids || !others.names.iter().all(|tag| insert(self, tag))
        {
            *self = Self::everything();
        }
    }
}

/// Collects the tags of all [`TAG_FIELDS`], and the groups of `Cache-Groups`.
pub fn collect(fields: &http::HeaderMap) -> Tags {
    let mut tags = Tags::default();
    if !fields::has_any(fields, &[CACHE_GROUPS]) && !fields::has_any(fields, TAG_FIELDS) {
        return tags;
    }
    for group in groups(fields, CACHE_GROUPS) {
        if group.len() > MAX_TAG_BYTES || !insert(&mut tags, &group) {
            return Tags::everything();
        }
    }
    for name in TAG_FIELDS {
        for value in fields.get_all(*name) {
            for tag in split(value.as_bytes()) {
                // LiteSpeed marks the shared tags of a private response with this prefix.
                let tag = tag.strip_prefix(b"public:").unwrap_or(tag);
                let Ok(tag) = std::str::from_utf8(tag) else {
                    return Tags::everything();
                };
                if tag == EVERYTHING || tag.len() > MAX_TAG_BYTES || !insert(&mut tags, tag) {
                    return Tags::everything();
                }
            }
        }
    }
    tags
}

/// Whether other caches accept a tag: in their lists, blanks and commas separate.
pub fn is_portable(tag: &str) -> bool {
    tag.bytes()
        .all(|byte| byte.is_ascii_graphic() && byte != b',')
}

/// The tags of one list; `None` if they cannot all be stored.
pub fn from_list(list: &str) -> Option<Tags> {
    let mut tags = Tags::default();
    split(list.as_bytes())
        .all(|tag| {
            std::str::from_utf8(tag)
                .is_ok_and(|tag| tag.len() <= MAX_TAG_BYTES && insert(&mut tags, tag))
        })
        .then_some(tags)
}

/// The tags of the groups that a response to an unsafe request invalidates (RFC 9875 §2.2), of any length; `None` if there are too
/// many.
pub fn invalidated_groups(fields: &http::HeaderMap) -> Option<Vec<String>> {
    let groups = groups(fields, "cache-group-invalidation");
    (groups.len() <= MAX_TAGS).then_some(groups)
}

/// The tags of a list of groups (RFC 9875 §2): strings, case-sensitive. Members that are not strings are ignored, since a group
/// that is invalidated too often does no harm.
fn groups(fields: &http::HeaderMap, name: &str) -> Vec<String> {
    fields
        .get_all(name)
        .iter()
        .flat_map(|line| fields::members(line.as_bytes()))
        .filter_map(|member| {
            let item = fields::parts(member).next()?;
            let text = item.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
            Some(format!("cache-group:{}", std::str::from_utf8(text).ok()?))
        })
        .collect()
}

/// The members of a list of tags, separated by commas and blanks, without empty ones.
pub(crate) fn split(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|&byte| byte == b',' || byte.is_ascii_whitespace())
        .filter(|tag| !tag.is_empty())
}

/// Adds a tag unless it exists. Returns false if there would be too many.
fn insert(tags: &mut Tags, tag: &str) -> bool {
    let id = tag_id(tag);
    let Err(place) = tags.ids.binary_search(&id) else {
        return true;
    };
    if tags.ids.len() == MAX_TAGS {
        return false;
    }
    tags.ids.insert(place, id);
    tags.names.push(tag.to_owned());
    true
}

const CACHE_GROUPS: &str = "cache-groups";

/// The maximum length of a tag in bytes; plugins use at most some forty.
pub(crate) const MAX_TAG_BYTES: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderMap, HeaderName, HeaderValue};
    use proptest::prelude::*;

    fn collected(rows: &[(&'static str, &str)]) -> Tags {
        let mut fields = HeaderMap::new();
        for (name, value) in rows {
            fields.append(
                HeaderName::from_static(name),
                HeaderValue::from_str(value).unwrap(),
            );
        }
        collect(&fields)
    }

    #[test]
    fn groups_are_tags_with_a_prefix() {
        let rows = [("cache-groups", "\"a b\", \"c\";x=1, d"), ("xkey", "c")];
        assert_eq!(
            collected(&rows).names,
            ["cache-group:a b", "cache-group:c", "c"]
        );
        let mut fields = HeaderMap::new();
        fields.insert(
            "cache-group-invalidation",
            HeaderValue::from_static("\"c\""),
        );
        assert_eq!(
            invalidated_groups(&fields),
            Some(vec!["cache-group:c".to_owned()])
        );
        // No group is dropped: long ones and too many become a purge of the whole site.
        let long = format!("\"{}\"", "x".repeat(MAX_TAG_BYTES));
        fields.insert("cache-group-invalidation", long.parse().unwrap());
        assert!(invalidated_groups(&fields).is_some_and(|all| all[0].len() > MAX_TAG_BYTES));
        assert_eq!(collected(&[("cache-groups", &long)]), Tags::everything());
        let many = vec!["\"a\""; MAX_TAGS + 1].join(",");
        fields.insert("cache-group-invalidation", many.parse().unwrap());
        assert_eq!(invalidated_groups(&fields), None);
    }

    #[test]
    fn tags_of_every_field_and_separator_are_collected() {
        type Rows<'a> = &'a [(&'static str, &'a str)];
        let table: &[(Rows<'_>, &[&str])] = &[
            (&[], &[]),
            (&[("content-type", "a,b")], &[]),
            (
                &[("x-litespeed-tag", "b5f_Po.12,b5f_F,b5f_")],
                &["b5f_Po.12", "b5f_F", "b5f_"],
            ),
            (&[("x-litespeed-tag", "public:b5f_F, b5f_F")], &["b5f_F"]),
            (&[("surrogate-key", "p-1 t-2  a-3")], &["p-1", "t-2", "a-3"]),
            (&[("xkey", "a b"), ("xkey", "c")], &["a", "b", "c"]),
            (&[("cache-tag", "a,b , c,")], &["a", "b", "c"]),
            (
                &[
                    ("cache-tags", "a"),
                    ("edge-cache-tag", "b"),
                    ("x-cache-tags", "c"),
                ],
                &["a", "b", "c"],
            ),
            (
                &[("galley-tags", "z"), ("surrogate-key", "z y")],
                &["z", "y"],
            ),
            (&[("cache-tag", "a,*")], &["*"]),
            (&[("cache-tag", "caf\u{e9}")], &["caf\u{e9}"]),
        ];
        for (rows, wanted) in table {
            let tags = collected(rows);
            assert_eq!(tags.names, *wanted, "{rows:?}");
            let mut ids: Vec<u64> = wanted.iter().map(|tag| tag_id(tag)).collect();
            ids.sort_unstable();
            assert_eq!(tags.ids, ids, "{rows:?}");
        }
    }

    #[test]
    fn too_many_or_long_tags_become_everything() {
        let list = |count: usize| {
            (0..count)
                .map(|n| format!("t{n}"))
                .collect::<Vec<_>>()
                .join(",")
        };
        assert_eq!(
            collected(&[("cache-tag", &list(MAX_TAGS))]).names.len(),
            MAX_TAGS
        );
        assert_eq!(
            collected(&[("cache-tag", &list(MAX_TAGS + 1))]),
            Tags::everything()
        );
        assert_eq!(
            collected(&[("cache-tag", &"x".repeat(MAX_TAG_BYTES + 1))]),
            Tags::everything()
        );
        let mut fields = HeaderMap::new();
        fields.append("xkey", HeaderValue::from_bytes(b"a \xff").unwrap());
        assert_eq!(collect(&fields), Tags::everything());
    }

    proptest! {
        #[test]
        fn ids_are_sorted_unique_and_as_many_as_names(value in "[a-e, *]{0,40}") {
            let tags = collected(&[("cache-tags", &value)]);
            prop_assert!(tags.ids.windows(2).all(|pair| pair[0] < pair[1]));
            prop_assert_eq!(tags.ids.len(), tags.names.len());
        }
    }
}
