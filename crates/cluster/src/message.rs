//! A purge as an entry of the stream.

use std::collections::HashMap;

use galley_policy::purge::{Purge, PurgePattern, Scope, Strength};

/// A purge from a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemotePurge {
    /// The name of the site in the configuration.
    pub site: String,
    /// The scope of the purge.
    pub purge: Purge,
}

/// An entry of the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    /// The run of the node that published the purge.
    pub(crate) node: String,
    /// The number of the purge in that run, without gaps.
    pub(crate) sequence: u64,
    /// `None`: a mark, which purges nothing. A run begins with one, so that it has an entry.
    pub(crate) content: Option<RemotePurge>,
}

/// The fields of an entry in the engine.
pub(crate) type Fields = HashMap<String, Vec<u8>>;

impl Message {
    /// Names and values of the fields.
    pub(crate) fn fields(&self) -> Vec<(&'static str, Vec<u8>)> {
        let mut fields = vec![
            ("node", self.node.clone().into_bytes()),
            ("seq", self.sequence.to_string().into_bytes()),
        ];
        let Some(RemotePurge { site, purge }) = &self.content else {
            return fields;
        };
        let strength = match purge.strength {
            Strength::Hard => HARD,
            Strength::Soft => SOFT,
        };
        fields.push(("site", site.clone().into_bytes()));
        fields.push(("strength", strength.to_vec()));
        let (scope, value): (&str, &[u8]) = match &purge.scope {
            Scope::Site => ("site", b""),
            Scope::Host(host) => ("host", host.as_bytes()),
            Scope::Url { path, .. } => ("url", path),
            Scope::Prefix(path) => ("prefix", path),
            Scope::Tag(tag) => ("tag", tag.as_bytes()),
            Scope::Pattern(pattern) => ("pattern", pattern.text().as_bytes()),
        };
        fields.push(("scope", scope.into()));
        fields.push(("value", value.to_vec()));
        if let Scope::Url { host, query, .. } = &purge.scope {
            fields.extend(host.iter().map(|host| ("host", host.clone().into_bytes())));
            fields.extend(query.iter().map(|query| ("query", query.clone())));
        }
        fields
    }

    /// Parses an entry; `None`: it names no node. An entry without a site is a mark. An unknown scope counts as the whole site.
    pub(crate) fn read(mut fields: Fields) -> Option<Self> {
        let text = |fields: &mut Fields, name: &str| String::from_utf8(fields.remove(name)?).ok();
        let node = text(&mut fields, "node")?;
        let sequence = text(&mut fields, "seq")?.parse().ok()?;
        let Some(site) = text(&mut fields, "site") else {
            return Some(Self {
                node,
                sequence,
                content: None,
            });
        };
        let strength = match fields.get("strength") {
            Some(value) if value == SOFT => Strength::Soft,
            _ => Strength::Hard,
        };
        let content = RemotePurge {
            site,
            purge: Purge {
                scope: scope(&mut fields).unwrap_or(Scope::Site),
                strength,
            },
        };
        Some(Self {
            node,
            sequence,
            content: Some(content),
        })
    }
}

fn scope(fields: &mut Fields) -> Option<Scope> {
    let kind = fields.remove("scope")?;
    let value = fields.remove("value")?;
    let text = |value: Vec<u8>| String::from_utf8(value).ok();
    Some(match kind.as_slice() {
        b"host" => Scope::Host(text(value)?),
        b"url" => Scope::Url {
            host: match fields.remove("host") {
                Some(host) => Some(text(host)?),
                None => None,
            },
            path: value,
            query: fields.remove("query"),
        },
        b"prefix" => Scope::Prefix(value),
        b"tag" => Scope::Tag(text(value)?),
        b"pattern" => Scope::Pattern(PurgePattern::accepted(&text(value)?)?),
        _ => return None,
    })
}

const HARD: &[u8] = b"hard";
const SOFT: &[u8] = b"soft";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn scopes() -> impl Strategy<Value = Scope> {
        let bytes = || proptest::collection::vec(any::<u8>(), 0..20);
        prop_oneof![
            Just(Scope::Site),
            ".{0,9}".prop_map(Scope::Host),
            (
                proptest::option::of(".{0,9}"),
                bytes(),
                proptest::option::of(bytes())
            )
                .prop_map(|(host, path, query)| Scope::Url { host, path, query }),
            bytes().prop_map(Scope::Prefix),
            ".{0,9}".prop_map(Scope::Tag),
            Just(Scope::Pattern(PurgePattern::parse("^/a.*$").unwrap())),
        ]
    }

    proptest! {
        #[test]
        fn a_purge_is_parsed_as_it_was_sent(scope in scopes(), sequence: u64, soft: bool, site in ".{0,9}") {
            let strength = if soft { Strength::Soft } else { Strength::Hard };
            let message = Message {
                node: "n".to_owned(),
                sequence,
                content: Some(RemotePurge { site, purge: Purge { scope, strength } }),
            };
            let fields = message.fields().into_iter().map(|(name, value)| (name.to_owned(), value));
            prop_assert_eq!(Message::read(fields.collect()), Some(message));
        }

        #[test]
        fn foreign_entries_purge_more_and_never_panic(fields: HashMap<String, Vec<u8>>) {
            let mut fields = fields;
            let read = Message::read(fields.clone());
            fields.extend([
                ("node".to_owned(), b"n".to_vec()),
                ("seq".to_owned(), b"1".to_vec()),
                ("site".to_owned(), b"s".to_vec()),
                ("scope".to_owned(), b"of a later version".to_vec()),
            ]);
            prop_assert!(read.is_none());
            let read = Message::read(fields).unwrap();
            prop_assert_eq!(read.content.unwrap().purge.scope, Scope::Site);
        }
    }
}
