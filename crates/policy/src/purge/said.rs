//! What the fields of an order say.

use super::error::{BadOrder, MAX_ORDERS};
use crate::tags;

/// How a path is to be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum PathReading {
    /// By its looks.
    #[default]
    Unsaid,
    /// One URL with its query.
    Exact,
    /// One path with any query.
    AnyQuery,
    /// A pattern.
    Regex,
    /// All that begins so.
    Beginning,
}

/// What the fields of an order say.
#[derive(Default)]
pub(super) struct PurgeFields<'a> {
    pub(super) reading: PathReading,
    pub(super) by_tags: bool,
    pub(super) tags: Vec<&'a [u8]>,
    pub(super) is_soft: bool,
    /// The pattern of `X-Purge-Regex`, which stands for the end of the path.
    pub(super) ending: Option<&'a [u8]>,
    pub(super) host: Option<&'a [u8]>,
    pub(super) has_fastly_key: bool,
    pub(super) is_json: bool,
}

impl<'a> PurgeFields<'a> {
    pub(super) fn read(
        fields: impl Iterator<Item = (&'a str, &'a [u8])>,
    ) -> Result<Self, BadOrder> {
        let mut said = Self::default();
        for (name, value) in fields {
            let is = |known: &str| name.eq_ignore_ascii_case(known);
            let value = value.trim_ascii();
            if is("x-purge-method") || is("x-vc-purge-method") {
                said.method(value, is("x-vc-purge-method"));
            } else if is("x-purge-regex") {
                said.reading = PathReading::Regex;
                said.ending = Some(value);
            } else if is("x-vc-purge-host") {
                said.host = Some(value);
            } else if is("fastly-key") {
                said.has_fastly_key = true;
            } else if is("content-type") {
                let media_type = value.split(|&byte| byte == b';').next();
                said.is_json = media_type.is_some_and(|text| {
                    text.trim_ascii().eq_ignore_ascii_case(b"application/json")
                });
            } else if SOFT_FIELDS.iter().any(|known| is(known)) {
                said.is_soft |= value == b"1" || value.eq_ignore_ascii_case(b"true");
            } else if is_tag_field(name) {
                said.by_tags = true;
                said.is_soft |= is("xkey-softpurge");
                said.tags.push(value);
                if said.tags.len() > MAX_ORDERS {
                    return Err(BadOrder::TooMany);
                }
            }
        }
        Ok(said)
    }

    fn method(&mut self, value: &[u8], is_vc: bool) {
        let is = |known: &str| value.eq_ignore_ascii_case(known.as_bytes());
        if is("tags") {
            self.by_tags = true;
        } else if is("regex") {
            self.reading = PathReading::Regex;
        } else if is("exact") {
            self.reading = PathReading::Exact;
        } else if is("default") && is_vc && self.reading == PathReading::Unsaid {
            // In VCaching's dialect the default leaves the query out of account; elsewhere it means nothing.
            self.reading = PathReading::AnyQuery;
        }
    }
}

fn is_tag_field(name: &str) -> bool {
    ORDER_TAG_FIELDS
        .iter()
        .chain(tags::TAG_FIELDS)
        .any(|known| name.eq_ignore_ascii_case(known))
}

/// Beyond the fields that carry tags in answers.
const ORDER_TAG_FIELDS: &[&str] = &["x-cache-tags-pattern", "xkey-purge", "xkey-softpurge"];

/// Fields that ask for a soft purge by `1` or `true`.
const SOFT_FIELDS: &[&str] = &["fastly-soft-purge", "x-purge-soft", "galley-soft-purge"];
