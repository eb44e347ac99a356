//! Which stored pages take part in dictionaries, and are named as next pages.

use galley_cache::entry::{Entry, EntryKind};
use galley_policy::dictionary;
use galley_policy::key::read_key;
use galley_policy::request_info::Scheme;
use http::StatusCode;

/// Whether a stored page may be a dictionary, or may be sent by one, as far as the page tells: not if it is assembled from parts.
pub(crate) fn may_take_part(page: &Entry) -> bool {
    page.kind == EntryKind::Page
        && page.status == StatusCode::OK
        && page.pieces().is_none()
        && page.source().is_none()
        && page.assembly().is_none()
        && !page
            .fragments()
            .iter()
            .any(|part| part.version.private_scope().is_some())
        && page.is_compression_tried()
        && dictionary::is_for(&page.fields)
        && read_key(page.key.bytes()).is_some_and(|parts| parts.scheme == Scheme::Https)
}
