//! The purge requests of existing plugins: one table of dialects.
//!
//! [`Dialect::of`] finds the dialect of a request, the first row that matches; [`Dialect::purges`] parses the purges;
//! [`Dialect::reply`] is the response that the sender expects. The caller decides whether the sender may purge, with
//! [`Dialect::is_method_of_its_own`]: a request with an ordinary method is an ordinary request if its sender may not purge.
//! The literal bytes of each row are in `contract/`.

use super::api::{SOUIN, fastly_key, fastly_request, souin_batch, souin_key};
use super::dialect_request::DialectRequest;
use super::error::PurgeError;
use super::path::{below_purge, is_below_purge, path_scope};
use super::purge_fields::{PathReading, PurgeFields};
use super::scope::{Purge, Scope, Strength};
use super::tag_list::tag_scopes;
use crate::request_info::{Method, RequestInfo};
use crate::site::Policy;

/// A format of purge requests.
#[derive(Debug)]
pub struct Dialect {
    /// The name of the dialect, for the log and the contract.
    pub name: &'static str,
    /// The response that the sender expects.
    pub reply: DialectReply,
    methods: &'static [Method],
    matches: fn(&DialectRequest<'_>) -> bool,
    scopes: fn(&DialectRequest<'_>) -> Result<Vec<Scope>, PurgeError>,
}

/// The response that the sender of a purge expects. Each has the field `Cache-Purge-Result`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DialectReply {
    /// 200 and a text. W3 Total Cache accepts this status only; nginx-helper logs it as purged; Proxy Cache Purge
    /// expects `exact`, `wildcard` or `all`.
    Path,
    /// 200 and a text with the word `tags`.
    Tags,
    /// 200 and `{"status":"ok"}`.
    Json,
    /// 204.
    Empty,
}

/// The table: the first row that matches counts. The last two rows match every other `BAN` and `PURGE`.
#[rustfmt::skip]
pub static DIALECTS: &[Dialect] = &[
    // nginx-helper: `GET /purge/a/`.
    row("get", GET, |a| is_below_purge(a.info.path()) && a.is_from_wordpress(), |a| one(below_purge(a.info, a.policy)), DialectReply::Path),

    // Souin: its API below the default path.
    row("souin-flush", PURGE, |a| a.is_below(SOUIN, b"/flush"), |_| Ok(vec![Scope::Site]), DialectReply::Empty),
    row("souin-tags", PURGE, |a| a.is_below(SOUIN, b"") && a.fields.by_tags, |a| tag_scopes(&a.fields.tags), DialectReply::Empty),
    row("souin-key", PURGE, |a| a.starts_below(SOUIN), |a| one(souin_key(a)), DialectReply::Empty),
    row("souin-batch", POST, |a| a.is_below(SOUIN, b"") && a.fields.is_json, souin_batch, DialectReply::Json),

    // Fastly: its API. The plugin always sends `Fastly-Key`, which an HTML form cannot.
    row("fastly-all", POST, |a| a.fields.has_fastly_key && fastly_request(a) == Some(b"purge_all"), |_| Ok(vec![Scope::Site]), DialectReply::Json),
    row("fastly-tags", POST, |a| a.fields.has_fastly_key && fastly_request(a) == Some(b"purge"), |a| tag_scopes(&a.fields.tags), DialectReply::Json),
    row("fastly-tag", POST, |a| a.fields.has_fastly_key && fastly_key(a).is_some(), |a| tag_scopes(fastly_key(a).as_slice()), DialectReply::Json),

    // Proxy Cache Purge in its tag mode, VCaching, xkey, and the fields of CDNs.
    row("tags", OWN, |a| a.fields.by_tags, |a| tag_scopes(&a.fields.tags), DialectReply::Tags),

    // nginx-helper for torden's nginx: the whole host.
    row("all", PURGE, |a| a.info.path() == b"/purgeall", |a| one(a.host().map(Scope::Host)), DialectReply::Path),
    // VCaching: a path with any query.
    row("any-query", OWN, |a| a.fields.reading == PathReading::AnyQuery, |a| one(path_scope(a, PathReading::AnyQuery)), DialectReply::Path),
    // VCaching, Varnish's own examples: one URL, even if it looks like a pattern.
    row("exact", OWN, |a| a.fields.reading == PathReading::Exact, |a| one(path_scope(a, PathReading::Exact)), DialectReply::Path),
    // Proxy Cache Purge, WP Rocket, o2switch, VCaching: the path is a pattern.
    row("regex", OWN, |a| a.fields.reading == PathReading::Regex, |a| one(path_scope(a, PathReading::Regex)), DialectReply::Path),
    // GoDaddy, WordPress VIP: all paths that begin with this one.
    row("ban", BAN, |_| true, |a| one(path_scope(a, PathReading::Prefix)), DialectReply::Path),
    // All other plugins: one URL, or with `.*` or `*` more than one.
    row("path", PURGE, |_| true, |a| one(path_scope(a, PathReading::Unspecified)), DialectReply::Path),
];

const GET: &[Method] = &[Method::Get];

const POST: &[Method] = &[Method::Post];

const PURGE: &[Method] = &[Method::Purge];

const BAN: &[Method] = &[Method::Ban];

const OWN: &[Method] = &[Method::Purge, Method::Ban];

impl Dialect {
    /// The dialect of a request. `None`: it is not a purge.
    pub fn of<'a>(
        info: &RequestInfo,
        fields: impl Iterator<Item = (&'a str, &'a [u8])>,
        policy: &Policy,
    ) -> Option<&'static Self> {
        let of_method = |row: &&Self| row.methods.contains(&info.method());
        // Pages are requested often, so the part of a `GET` that can make it a purge is checked first.
        if info.method() == Method::Get && !is_below_purge(info.path()) {
            return None;
        }
        let request = DialectRequest {
            info,
            // A request with too many tags is a purge all the same, and rejected when `purges` reads the fields again.
            fields: PurgeFields::read(fields).unwrap_or_default(),
            policy,
            body: b"",
        };
        DIALECTS
            .iter()
            .filter(of_method)
            .find(|row| (row.matches)(&request))
    }

    /// The purges of a request in this dialect, at least one; more than one for lists. `body` is the whole body. A request beyond
    /// a limit is one purge of the whole site.
    pub fn purges<'a>(
        &self,
        info: &RequestInfo,
        fields: impl Iterator<Item = (&'a str, &'a [u8])>,
        body: &'a [u8],
        policy: &Policy,
    ) -> Result<Vec<Purge>, PurgeError> {
        let fields = match PurgeFields::read(fields) {
            Err(why) if why.is_limit() => {
                return Ok(vec![Purge {
                    scope: Scope::Site,
                    strength: Strength::Hard,
                }]);
            }
            fields => fields?,
        };
        let strength = if fields.is_soft {
            Strength::Soft
        } else {
            Strength::Hard
        };
        let request = DialectRequest {
            info,
            fields,
            policy,
            body,
        };
        // Plugins do not look at the reply.
        let scopes = match (self.scopes)(&request) {
            Err(why) if why.is_limit() => vec![Scope::Site],
            scopes => scopes?,
        };
        if scopes.is_empty() {
            return Err(PurgeError::NoPurge);
        }
        Ok(scopes
            .into_iter()
            .map(|scope| Purge { scope, strength })
            .collect())
    }

    /// Whether the dialect uses only methods that mean nothing else, so that a client that may not purge gets the response for an
    /// unknown method. With another method, a request that is not a permitted purge is an ordinary request.
    pub fn is_method_of_its_own(&self) -> bool {
        self.methods.iter().all(|method| OWN.contains(method))
    }

    /// Whether the dialect uses `GET`. It needs the site's permission, because other sites can make a browser send a `GET`.
    pub fn is_get(&self) -> bool {
        self.methods.contains(&Method::Get)
    }
}

fn one(scope: Result<Scope, PurgeError>) -> Result<Vec<Scope>, PurgeError> {
    Ok(vec![scope?])
}

const fn row(
    name: &'static str,
    methods: &'static [Method],
    matches: fn(&DialectRequest<'_>) -> bool,
    scopes: fn(&DialectRequest<'_>) -> Result<Vec<Scope>, PurgeError>,
    reply: DialectReply,
) -> Dialect {
    Dialect {
        name,
        reply,
        methods,
        matches,
        scopes,
    }
}
