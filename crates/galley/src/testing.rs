//! Stored pages for unit tests.

use galley_cache::body::StoredBody;
use galley_cache::entry::{EntryKind, EntryParts, Scopes};
use galley_cache::key::Key;
use galley_policy::storable::Lifetime;
use galley_policy::time::Tick;
use http::{HeaderMap, StatusCode};

/// An empty page that was stored at tick 0, with the key `k`.
pub(crate) fn page() -> EntryParts {
    EntryParts {
        key: Key::new(b"k"),
        kind: EntryKind::Page,
        status: StatusCode::OK,
        fields: HeaderMap::new(),
        body: StoredBody::default(),
        stored_at: Tick(0),
        lifetime: Lifetime::default(),
        scopes: Scopes {
            host: 0,
            url: 0,
            path_query: Box::default(),
            tags: Box::default(),
        },
        tags: Vec::new(),
        born: 0,
    }
}
