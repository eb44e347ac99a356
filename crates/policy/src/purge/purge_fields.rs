//! The fields of a purge request.

use super::error::{MAX_PURGES, PurgeError};
use crate::tags;

/// How a path is interpreted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum PathReading {
    /// By its form.
    #[default]
    Unspecified,
    /// One URL with its query.
    Exact,
    /// One path with any query.
    AnyQuery,
    /// A pattern.
    Regex,
    /// All paths that begin with this one.
    Prefix,
}

/// The parsed fields of a purge.
#[derive(Default)]
pub(super) struct PurgeFields<'a> {
    pub(super) reading: PathReading,
    pub(super) by_tags: bool,
    pub(super) tags: Vec<&'a [u8]>,
    pub(super) is_soft: bool,
    /// The pattern of `X-Purge-Regex`, for the end of the path.
    pub(super) ending: Option<&'a [u8]>,
    pub(super) host: Option<&'a [u8]>,
    pub(super) has_fastly_key: bool,
    pub(super) is_json: bool,
}

impl<'a> PurgeFields<'a> {
    pub(super) fn read(
        fields: impl Iterator<Item = (&'a str, &'a [u8])>,
    ) -> Result<Self, PurgeError> {
        let mut purge_fields = Self::default();
        for (name, value) in fields {
            let is = |known: &str| name.eq_ignore_ascii_case(known);
            let value = value.trim_ascii();
            if is("x-purge-method") || is("x-vc-purge-method") {
                purge_fields.method(value, is("x-vc-purge-method"));
            } else if is("x-purge-regex") {
                purge_fields.reading = PathReading::Regex;
                purge_fields.ending = Some(value);
            } else if is("x-vc-purge-host") {
                purge_fields.host = Some(value);
            } else if is("fastly-key") {
                purge_fields.has_fastly_key = true;
            } else if is("content-type") {
                let media_type = value.split(|&byte| byte == b';').next();
                purge_fields.is_json = media_type.is_some_and(|text| {
                    text.trim_ascii().eq_ignore_ascii_case(b"application/json")
                });
            } else if SOFT_FIELDS.iter().any(|known| is(known)) {
                purge_fields.is_soft |= value == b"1" || value.eq_ignore_ascii_case(b"true");
            } else if is_tag_field(name) {
                purge_fields.by_tags = true;
                purge_fields.is_soft |= is("xkey-softpurge");
                purge_fields.tags.push(value);
                if purge_fields.tags.len() > MAX_PURGES {
                    return Err(PurgeError::TooMany);
                }
            }
        }
        Ok(purge_fields)
    }

    fn method(&mut self, value: &[u8], is_vc: bool) {
        let is = |known: &str| value.eq_ignore_ascii_case(known.as_bytes());
        if is("tags") {
            self.by_tags = true;
        } else if is("regex") {
            self.reading = PathReading::Regex;
        } else if is("exact") {
            self.reading = PathReading::Exact;
        } else if is("default") && is_vc && self.reading == PathReading::Unspecified {
            // In VCaching's dialect `default` ignores the query; elsewhere it has no meaning.
            self.reading = PathReading::AnyQuery;
        }
    }
}

fn is_tag_field(name: &str) -> bool {
    REQUEST_TAG_FIELDS
        .iter()
        .chain(tags::TAG_FIELDS)
        .any(|known| name.eq_ignore_ascii_case(known))
}

/// Fields with tags, besides those that responses have.
const REQUEST_TAG_FIELDS: &[&str] = &["x-cache-tags-pattern", "xkey-purge", "xkey-softpurge"];

/// Fields that request a soft purge by `1` or `true`.
const SOFT_FIELDS: &[&str] = &["fastly-soft-purge", "x-purge-soft", "galley-soft-purge"];
