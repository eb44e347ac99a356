//! Pages with the bytes of their ESI includes.
//!
//! An include is a stored response of its own, which is not part of the page. The page knows which purges reach each of its
//! parts ([`IncludedPart`]), so a purge of a part is also a purge of the page. It also knows where the bytes of each
//! include are, so they can be replaced without fetching the rest again.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use galley_policy::esi::template::IncludeSource;

use crate::scopes::Scopes;

/// A response whose bytes are in another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncludedPart {
    /// What purges reach it by.
    pub scopes: Scopes,
    /// The site's purge counter before it was looked up or requested.
    pub born: u64,
}

/// All responses whose bytes are in a page, at any depth.
#[derive(Clone, Debug, Default)]
pub struct Inclusions {
    /// The page's includes, theirs, and so on.
    pub parts: Arc<[IncludedPart]>,
    /// How deep they are nested; 0: there are none.
    pub depth: u8,
    /// Whether one is missing because it would have been nested too deeply. A page that is requested for itself may have it.
    pub is_cut: bool,
}

/// An include of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageInclude {
    /// Where its bytes are in the page's body.
    pub range: Range<u32>,
    /// The included content.
    pub source: Arc<IncludeSource>,
}

/// A page that was put together.
#[derive(Clone, Debug)]
pub struct Assembly {
    /// How long the page is fresh without its includes; [`crate::entry::Entry::life`] ends with the first of its parts.
    pub own_fresh: Duration,
    /// The includes, by their place.
    pub includes: Box<[PageInclude]>,
    /// Their parts.
    pub inclusions: Inclusions,
}

impl Assembly {
    /// Bytes it occupies.
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
        /// The page is put together after `before`; each part has been stored at one of those purges.
        #[test]
        fn a_page_is_as_valid_as_the_least_of_its_parts(
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
                own_fresh: Duration::from_secs(60),
                includes: Box::default(),
                inclusions: Inclusions { parts: parts.collect(), depth: 1, is_cut: false },
            })));
            for (purge, is_looked_at) in after.iter().zip(is_looked_at) {
                table.publish(purge);
                if is_looked_at {
                    let least = alone.iter().map(|part| rank(table.prove(part))).max();
                    prop_assert_eq!(Some(rank(table.prove(&page))), least);
                }
            }
            let least = alone.iter().map(|part| rank(table.prove(part))).max();
            prop_assert_eq!(Some(rank(table.prove_waiting(&page))), least);
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
        let inclusions = |born| Inclusions {
            parts: Arc::new([IncludedPart {
                scopes: scopes("a.test", "/part", &["a"]),
                born,
            }]),
            ..Inclusions::default()
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
