//! The parts of a request that the dialects use.

use super::error::PurgeError;
use super::purge_fields::PurgeFields;
use crate::request_info::RequestInfo;
use crate::site::Policy;

/// A purge request, as the rows of the table examine it.
pub(super) struct DialectRequest<'a> {
    pub(super) info: &'a RequestInfo,
    pub(super) fields: PurgeFields<'a>,
    pub(super) policy: &'a Policy,
    pub(super) body: &'a [u8],
}

impl DialectRequest<'_> {
    /// The host of the purge: `VCaching` may name another one than that of the request.
    pub(super) fn host(&self) -> Result<String, PurgeError> {
        self.fields.host.map_or_else(
            || Ok(self.info.host().to_owned()),
            |host| Ok(crate::route::canonical_host(host)?),
        )
    }

    /// Whether the path is `base` followed by `rest`, with or without a final slash.
    pub(super) fn is_below(&self, base: &[u8], rest: &[u8]) -> bool {
        let path = self.info.path();
        let path = path.strip_suffix(b"/").unwrap_or(path);
        path.strip_prefix(base) == Some(rest)
    }

    pub(super) fn starts_below(&self, base: &[u8]) -> bool {
        let below = self.info.path().strip_prefix(base);
        below.is_some_and(|rest| rest.first() == Some(&b'/') && rest.len() > 1)
    }

    /// Whether WordPress's own HTTP client sent the request, as plugins do. Other sites cannot make a browser send this value.
    pub(super) fn is_from_wordpress(&self) -> bool {
        let agent = self.info.user_agent().unwrap_or_default();
        agent.starts_with(b"WordPress/")
    }
}
