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
    /// The run of the node that published the purge: 32 hexadecimal digits.
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
            // Nodes of earlier versions must note its number, and purge the least for it: a site without a name does not exist.
            fields.push(("site", Vec::new()));
            fields.push(("strength", SOFT.to_vec()));
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

    /// Parses an entry of the stream; `None`: no node has written it. A reader keeps the numbers of many runs, so it reads no other
    /// names.
    pub(crate) fn of_entry(fields: Fields) -> Option<Self> {
        Self::read(fields).filter(|message| is_run(&message.node))
    }

    /// Parses a message; `None`: it is none. An entry with an empty site is a mark. An unknown scope counts as the
    /// whole site.
    pub(crate) fn read(mut fields: Fields) -> Option<Self> {
        let text = |fields: &mut Fields, name: &str| String::from_utf8(fields.remove(name)?).ok();
        let node = text(&mut fields, "node")?;
        let sequence = text(&mut fields, "seq")?.parse().ok()?;
        let site = text(&mut fields, "site")?;
        if site.is_empty() {
            return Some(Self {
                node,
                sequence,
                content: None,
            });
        }
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

fn is_run(node: &str) -> bool {
    node.len() == 32 && node.bytes().all(|byte| byte.is_ascii_hexdigit())
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

    const RUN: &str = "0123456789abcdef0123456789abcdef";

    /// What versions before marks read: the run, the number and the site. They skip entries without a site, and miss the number.
    fn as_earlier_versions(fields: &Fields) -> Option<[Vec<u8>; 3]> {
        let field = |name: &str| fields.get(name).cloned();
        Some([field("node")?, field("seq")?, field("site")?])
    }

    #[test]
    fn a_mark_is_an_entry_of_no_site_to_earlier_versions() {
        let mark = Message {
            node: RUN.to_owned(),
            sequence: 7,
            content: None,
        };
        let fields = mark.fields().into_iter();
        let fields: Fields = fields
            .map(|(name, value)| (name.to_owned(), value))
            .collect();
        let [_, sequence, site] = as_earlier_versions(&fields).unwrap();
        assert_eq!(
            (sequence.as_slice(), site.as_slice()),
            (b"7".as_slice(), b"".as_slice())
        );
        assert_eq!(fields["strength"], SOFT);
        assert_eq!(Message::read(fields), Some(mark));
    }

    #[test]
    fn only_runs_of_nodes_are_read() {
        let fields = |node: &str| {
            let fields = [("node", node), ("seq", "1"), ("site", "s")];
            fields.map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec()))
        };
        let read = |node: &str| Message::of_entry(Fields::from(fields(node)));
        assert_eq!(read(RUN).unwrap().node, RUN);
        let (long, other) = ("a".repeat(1 << 20), "g".repeat(32));
        for wrong in ["", "n", &RUN[1..], long.as_str(), other.as_str()] {
            assert_eq!(read(wrong), None, "{} bytes", wrong.len());
        }
    }

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
        fn a_purge_is_parsed_as_it_was_sent(scope in scopes(), sequence: u64, soft: bool, site in ".{1,9}") {
            let strength = if soft { Strength::Soft } else { Strength::Hard };
            let message = Message {
                node: RUN.to_owned(),
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
                ("node".to_owned(), RUN.as_bytes().to_vec()),
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
