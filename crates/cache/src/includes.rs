//! Pages with the bytes of their ESI includes.
//!
//! An include is a separate stored response. The page contains the scopes of each of its parts ([`IncludedPart`]), so a purge
//! of a part is also a purge of the page. It also contains the positions of the includes' bytes, so they can be replaced
//! without fetching the rest again.

use std::ops::Range;
use std::sync::Arc;

use galley_policy::esi::template::IncludeSource;
use galley_policy::storable::Lifetime;

use crate::scopes::Scopes;

/// A response whose bytes are included in another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncludedPart {
    /// The scopes of the purges that reach the part.
    pub scopes: Scopes,
    /// The site's purge counter before the part was looked up or requested.
    pub born: u64,
}

/// All responses that are included in a page, at any depth.
#[derive(Clone, Debug, Default)]
pub struct IncludedResponses {
    /// The page's includes, their includes, and so on.
    pub parts: Arc<[IncludedPart]>,
    /// The depth of nesting; 0: no includes.
    pub depth: u8,
    /// Whether an include is missing because it exceeds the maximum depth. It may be present when that page is requested itself.
    pub is_cut: bool,
}

/// An include of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageInclude {
    /// The position of the include in the page's body.
    pub range: Range<u32>,
    /// The included content.
    pub source: Arc<IncludeSource>,
}

/// The parts of a page with includes.
#[derive(Clone, Debug)]
pub struct Assembly {
    /// The lifetime of the page without its includes. [`crate::entry::Entry::lifetime`] ends with the first of the parts.
    pub own: Lifetime,
    /// The includes, in the order of the body.
    pub includes: Box<[PageInclude]>,
    /// The responses that are included.
    pub inclusions: IncludedResponses,
}

impl Assembly {
    /// The memory used, in bytes.
    pub(crate) fn weight(&self) -> u64 {
        let parts = self.inclusions.parts.iter().map(|part| {
            size_of::<IncludedPart>() + part.scopes.path_query.len() + part.scopes.tags.len() * 8
        });
        let includes = self.includes.iter().map(|include| {
            let source = &*include.source;
            let alt = source.alt.as_ref().map_or(0, |alt| alt.len());
            size_of::<PageInclude>() + size_of::<IncludeSource>() + source.src.len() + alt
        });
        (size_of::<Self>() + parts.sum::<usize>() + includes.sum::<usize>()) as u64
    }
}

#[cfg(test)]
mod tests {
    use galley_policy::purge::{Purge, PurgePattern, Scope, Strength};
    use proptest::prelude::*;

    use super::*;
    use crate::entry::Entry;
    use crate::purge_table::{PurgeTable, Validity};
    use crate::testing::{entry, scopes};

    const PARTS: [(&str, &[&str]); 3] = [
        ("/page", &["page", "all"]),
        ("/part/a?x=1", &["a", "all"]),
        ("/part/b", &["b"]),
    ];

    fn purge() -> impl Strategy<Value = Purge> {
        let scope = prop_oneof![
            prop::sample::select(vec!["page", "a", "b", "all", "other"])
                .prop_map(|tag| Scope::Tag(tag.to_owned())),
            prop::sample::select(vec!["/part", "/part/a", "/pa", "/page"])
                .prop_map(|path| Scope::Prefix(path.as_bytes().to_vec())),
            prop::sample::select(vec!["/page", "/part/b", "/other"]).prop_map(|path| Scope::Url {
                host: Some("a.test".to_owned()),
                path: path.as_bytes().to_vec(),
                query: None,
            }),
            prop::sample::select(vec!["^/part/a", "x=1$", "^/other"])
                .prop_map(|text| Scope::Pattern(PurgePattern::parse(text).unwrap())),
            Just(Scope::Host("b.test".to_owned())),
        ];
        let strength = prop::sample::select(vec![Strength::Hard, Strength::Soft]);
        (scope, strength).prop_map(|(scope, strength)| Purge { scope, strength })
    }

    fn rank(validity: Validity) -> u8 {
        match validity {
            Validity::Valid => 0,
            Validity::SoftPurged => 1,
            _ => 2,
        }
    }

    proptest! {
        /// The page is assembled after the purges `before`. Each part was stored at that time.
        #[test]
        fn a_page_is_as_valid_as_the_least_valid_part(
            before in prop::collection::vec(purge(), 0..4),
            after in prop::collection::vec(purge(), 0..6),
            is_looked_at in prop::collection::vec(any::<bool>(), 6),
        ) {
            let table = PurgeTable::new();
            for purge in &before {
                table.publish(purge);
            }
            let born = table.current();
            let alone: Vec<Entry> = PARTS
                .iter()
                .map(|(path, tags)| entry("a.test", path, tags, born))
                .collect();
            let parts = PARTS[1..].iter().map(|(path, tags)| IncludedPart {
                scopes: scopes("a.test", path, tags),
                born,
            });
            let page = entry("a.test", PARTS[0].0, PARTS[0].1, born).with_assembly(Some(Arc::new(Assembly {
                own: Lifetime::default(),
                includes: Box::default(),
                inclusions: IncludedResponses { parts: parts.collect(), depth: 1, is_cut: false },
            })));
            for (purge, is_looked_at) in after.iter().zip(is_looked_at) {
                table.publish(purge);
                if is_looked_at {
                    let least = alone.iter().map(|part| rank(table.validity(part))).max();
                    prop_assert_eq!(Some(rank(table.validity(&page))), least);
                }
            }
            let least = alone.iter().map(|part| rank(table.validity(part))).max();
            prop_assert_eq!(Some(rank(table.validity_waiting(&page))), least);
        }
    }

    #[test]
    fn a_part_that_was_stored_after_a_purge_is_not_touched_by_it() {
        let table = PurgeTable::new();
        let purge = |tag: &str| {
            table.publish(&Purge {
                scope: Scope::Tag(tag.to_owned()),
                strength: Strength::Hard,
            })
        };
        let born = purge("a");
        let inclusions = |born| IncludedResponses {
            parts: Arc::new([IncludedPart {
                scopes: scopes("a.test", "/part", &["a"]),
                born,
            }]),
            ..IncludedResponses::default()
        };
        assert!(table.newer_than_parts(0, &inclusions(0)));
        assert!(!table.newer_than_parts(0, &inclusions(born)));
        assert!(!table.newer_than_parts(born, &inclusions(0)));
        purge("b");
        assert!(!table.newer_than_parts(0, &inclusions(born)));
        purge("a");
        assert!(table.newer_than_parts(born, &inclusions(born)));
    }
}
