//! Entries for unit tests, of this crate and, with the feature `testing`, of others.

use std::time::Duration;

use bytes::Bytes;
use galley_policy::key::{host_id, tag_id, url_id};
use galley_policy::storable::Lifetime;
use galley_policy::time::Tick;
use http::{HeaderMap, StatusCode};

use crate::body::StoredBody;
use crate::entry::{Entry, EntryKind, EntryParts, Scopes};
use crate::key::Key;

/// `path_query` as in a request: `/a?x=1`.
pub fn scopes(host: &str, path_query: &str, tags: &[&str]) -> Scopes {
    let (path, query) = match path_query.split_once('?') {
        Some((path, query)) => (path, Some(query.as_bytes())),
        None => (path_query, None),
    };
    Scopes {
        host: host_id(host),
        url: url_id(host, path.as_bytes(), query),
        path_query: path_query.as_bytes().into(),
        tags: tags.iter().map(|tag| tag_id(tag)).collect(),
    }
}

/// Fresh for 60 s, two seconds old.
pub fn lifetime() -> Lifetime {
    Lifetime {
        fresh: Duration::from_secs(60),
        stale_while_revalidate: Duration::ZERO,
        stale_if_error: Duration::ZERO,
        initial_age: Duration::from_secs(2),
    }
}

/// A page on `a.test` whose path is its key.
pub fn parts(path_query: &str, born: u64) -> EntryParts {
    EntryParts {
        key: Key::new(path_query.as_bytes()),
        kind: EntryKind::Page,
        status: StatusCode::OK,
        fields: HeaderMap::new(),
        body: Bytes::from_static(b"page").into(),
        stored_at: Tick(0),
        lifetime: lifetime(),
        scopes: scopes("a.test", path_query, &[]),
        tags: Vec::new(),
        born,
    }
}

/// The entry of a page on `host`.
pub fn entry(host: &str, path_query: &str, tags: &[&str], born: u64) -> Entry {
    Entry::new(EntryParts {
        scopes: scopes(host, path_query, tags),
        ..parts(path_query, born)
    })
}

/// An empty page that was stored at tick 0, with the key `k`.
pub fn page() -> EntryParts {
    EntryParts {
        key: Key::new(b"k"),
        body: StoredBody::default(),
        lifetime: Lifetime::default(),
        scopes: Scopes {
            host: 0,
            url: 0,
            path_query: Box::default(),
            tags: Box::default(),
        },
        ..parts("/", 0)
    }
}
