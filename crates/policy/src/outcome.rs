//! The words that explain a response: a stable word for each outcome and each reason.
//!
//! `Cache-Status` (RFC 9211), the access log and the labels of metrics use the same word. A word does not change after its
//! release. Words are structured-field tokens (RFC 9651 §3.3.4) of lower-case letters and hyphens. This module decides
//! nothing; it names the decisions of others.

/// Defines an enum in which each variant has a word, and a list of all variants.
#[macro_export]
macro_rules! words {
    ($(#[$outer:meta])* $name:ident { $($(#[$inner:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$outer])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$inner])* $variant,)+ }

        impl $name {
            /// Every variant, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The stable word.
            pub const fn word(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }
        }
    };
}
pub use words;

words! {
    /// Why a request bypassed the cache, and was forwarded unchanged.
    PassWhy {
        /// The method is neither GET nor HEAD.
        Method = "method",
        /// The request carried `Authorization`.
        Authorization = "authorization",
        /// The request carried a bypass cookie.
        Cookie = "cookie",
        /// The path differs for each visitor.
        Path = "path",
        /// A query parameter requests a personal or unpublished view.
        Query = "query",
        /// The request was for another protocol.
        Upgrade = "upgrade",
        /// The request was a GET with a body.
        Body = "body",
        /// `Origin` named another host, and the response may depend on it.
        Origin = "origin",
        /// The request carried a REST nonce and a login cookie.
        Nonce = "nonce",
        /// The client prefers a media type for which the page has another form (`Vary: Accept`), and no copy.
        Accept = "accept",
        /// A script sent the request (`X-Requested-With: XMLHttpRequest`); themes respond with a part of the page.
        Ajax = "ajax",
        /// A rule of the site has `cache = false`.
        Rule = "rule",
        /// The request carried `no-store`.
        NoStore = "no-store",
        /// A hit-for-pass object: the page could not be stored a moment ago.
        Remembered = "remembered",
        /// A range was requested, and no stored response contains it.
        Range = "range",
        /// The request was a HEAD, and no stored response can be used.
        Head = "head",
        /// The page was generated for a member, to be compared with the stored one.
        Compared = "compared",
        /// Pages of this member's role differ from the stored one outside the private fragments.
        Differs = "differs",
        /// Purges of other nodes of the cluster may be missing, so no stored response is used.
        Partition = "partition",
    }
}

words! {
    /// Why a response was not stored.
    NotStored {
        /// The status may not be stored.
        Status = "status",
        /// The response sets a cookie that is not declared harmless.
        SetCookie = "set-cookie",
        /// `no-store`.
        NoStore = "no-store",
        /// `private`, or a response to a request with a session.
        Private = "private",
        /// `no-cache`.
        NoCache = "no-cache",
        /// `Vary` names a field that is not part of the key.
        Vary = "vary",
        /// A part of a representation (206, `Content-Range`).
        Partial = "partial",
        /// The response has a content coding that Galley does not support.
        Coding = "coding",
        /// The response is larger than the maximum.
        TooLarge = "too-large",
        /// The response was truncated.
        Incomplete = "incomplete",
        /// The response was invalid, and Galley has repaired it for its client.
        Repaired = "repaired",
        /// The response names a file to send in its place, for its client alone.
        SentFile = "sent-file",
        /// A page without content.
        Empty = "empty",
        /// A redirect to the requested URL.
        Loop = "loop",
        /// The content was purged while it was being generated.
        Purged = "purged",
        /// The response has no lifetime, or is stale on arrival.
        NoLifetime = "no-lifetime",
        /// A maintenance page.
        Maintenance = "maintenance",
        /// An error page with a status of success.
        ErrorPage = "error-page",
        /// There was not enough memory.
        Memory = "memory",
        /// Only responses to GET are stored.
        Method = "method",
    }
}

words! {
    /// Why a stale response was sent.
    StaleWhy {
        /// A refresh is in progress.
        Revalidating = "revalidating",
        /// The upstream failed.
        UpstreamError = "upstream-error",
        /// The upstream's queue was full.
        Overload = "overload",
        /// The client accepts a stale response (`max-stale`).
        MaxStale = "max-stale",
    }
}

words! {
    /// Why a cacheable page was fetched.
    MissWhy {
        /// No response is stored for the key.
        Uri = "uri-miss",
        /// The stored response is stale.
        Stale = "stale",
        /// The stored response was purged.
        Purged = "purged",
    }
}

words! {
    /// Why Galley sent an error.
    RefusedWhy {
        /// No site has this host.
        UnknownHost = "unknown-host",
        /// The certificate that the client was shown is not valid for the requested host.
        Misdirected = "misdirected",
        /// The request is not valid HTTP.
        BadRequest = "bad-request",
        /// The request head is larger than allowed.
        HeadTooLarge = "head-too-large",
        /// The request body is larger than allowed.
        BodyTooLarge = "body-too-large",
        /// There was not enough memory or disk space to receive the request body.
        NoRoom = "no-room",
        /// The client took too long.
        Timeout = "timeout",
        /// The client ended the connection or the request before it had a response; in the log only.
        ClientGone = "client-gone",
        /// The path names a file that is never sent.
        Denied = "denied",
        /// Access control denies the client's address.
        Network = "network",
        /// The request is for administrators, and the client's address is not in `admin_allow`.
        Admin = "admin",
        /// A request for the site's dashboard without TLS.
        NeedsTls = "needs-tls",
        /// The request needs a name and a password.
        Password = "password",
        /// The client exceeds a rate limit.
        Limited = "limited",
        /// PHP has no slot for a client that has not visited the site.
        Unseen = "unseen",
        /// XML-RPC, or the called method of it, is disabled.
        XmlRpc = "xmlrpc",
        /// The request is for the names of users.
        Authors = "authors",
        /// `crawler_rules` refuses the crawler that the request names.
        Crawler = "crawler",
        /// A crawler requests pages faster than the site permits.
        CrawlDelay = "crawl-delay",
        /// The method is not supported.
        Method = "method",
        /// The method is unknown, and no rule names it.
        UnknownMethod = "unknown-method",
        /// The file does not exist, and the site has no upstream for it.
        NotFound = "not-found",
        /// `only-if-cached`, and no stored response could be used.
        OnlyIfCached = "only-if-cached",
        /// The upstream's queue is full.
        Overload = "overload",
        /// The upstream is not reachable.
        UpstreamDown = "upstream-down",
        /// The upstream failed several times in succession, and gets no requests for a moment.
        UpstreamPaused = "upstream-paused",
        /// The upstream exceeded a timeout.
        UpstreamTimeout = "upstream-timeout",
        /// The upstream's response is invalid.
        BadUpstream = "bad-upstream",
        /// The stored response must be validated before use, and the upstream does not respond.
        MustRevalidate = "must-revalidate",
        /// Galley has forwarded the request before.
        Loop = "loop",
        /// An internal error.
        Internal = "internal",
    }
}

/// The storage of a response to a cacheable request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StoreOutcome {
    /// The response is stored, or is being stored as it arrives.
    Stored,
    /// Not known before the response ends. The last response for this URL was not stored, for a reason other than a purge.
    Undecided,
    /// As `Stored`; the response was assembled from a page and its ESI includes.
    StoredIncludes,
    /// The response was not stored, for this reason.
    NotStored(NotStored),
}

impl StoreOutcome {
    /// Whether `stored` is written (RFC 9211 section 2.5: the parameter means that the cache has stored the response).
    const fn is_stored(self) -> bool {
        match self {
            Self::Stored | Self::StoredIncludes => true,
            Self::Undecided | Self::NotStored(_) => false,
        }
    }
}

/// The outcome of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// A fresh stored response was sent.
    Hit,
    /// A fresh stored response was sent that was assembled from a page and its ESI includes.
    HitOfIncludes,
    /// A fresh stored page was sent as the difference to a dictionary that the client has.
    HitByDictionary,
    /// A stored response was sent in which purged fragments had been replaced.
    Patched,
    /// A fresh response was sent that another node of the cluster had fetched.
    Shared,
    /// A stored response was sent with the private fragments of a member.
    Assembled,
    /// A stale stored response was sent, within its window.
    Stale(StaleWhy),
    /// The upstream's response to a cacheable request was sent.
    Miss {
        /// Why the upstream was requested.
        why: MissWhy,
        /// Whether the response was stored.
        outcome: StoreOutcome,
        /// Whether this request waited for the fetch of another request.
        collapsed: bool,
    },
    /// The upstream's response to a request that bypassed the cache was sent.
    Pass(PassWhy),
    /// A file below the root was sent.
    File,
    /// Galley redirected the request.
    Redirect,
    /// A purge was executed.
    Purge,
    /// The site's dashboard responded.
    Dashboard,
    /// Galley sent an error.
    Refused(RefusedWhy),
}

impl Outcome {
    /// The first word: `hit`, `stale`, `miss`, `pass`, `file`, `redirect`, `purge`, `dashboard` or `refused`.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Hit
            | Self::HitOfIncludes
            | Self::HitByDictionary
            | Self::Patched
            | Self::Shared
            | Self::Assembled => "hit",
            Self::Stale(_) => "stale",
            Self::Miss { .. } => "miss",
            Self::Pass(_) => "pass",
            Self::File => "file",
            Self::Redirect => "redirect",
            Self::Purge => "purge",
            Self::Dashboard => "dashboard",
            Self::Refused(_) => "refused",
        }
    }

    /// The second word, if there is one. For a miss: why the response was not stored, otherwise `purged` if a purge caused it,
    /// otherwise `esi` if the response has ESI includes.
    pub const fn detail(self) -> Option<&'static str> {
        match self {
            Self::Hit
            | Self::File
            | Self::Redirect
            | Self::Purge
            | Self::Dashboard
            | Self::Miss {
                why: MissWhy::Uri | MissWhy::Stale,
                outcome: StoreOutcome::Stored | StoreOutcome::Undecided,
                ..
            } => None,
            Self::HitOfIncludes
            | Self::Miss {
                why: MissWhy::Uri | MissWhy::Stale,
                outcome: StoreOutcome::StoredIncludes,
                ..
            } => Some(ESI),
            Self::HitByDictionary => Some(DICTIONARY),
            Self::Patched => Some(PATCHED),
            Self::Shared => Some(SHARED),
            Self::Assembled => Some(ASSEMBLED),
            Self::Stale(why) => Some(why.word()),
            Self::Miss {
                outcome: StoreOutcome::NotStored(why),
                ..
            } => Some(why.word()),
            Self::Miss {
                why: MissWhy::Purged,
                outcome:
                    StoreOutcome::Stored | StoreOutcome::StoredIncludes | StoreOutcome::Undecided,
                ..
            } => Some(MissWhy::Purged.word()),
            Self::Pass(why) => Some(why.word()),
            Self::Refused(why) => Some(why.word()),
        }
    }

    /// Appends this cache's member of `Cache-Status` to `out`: `galley; hit; ttl=31`,
    /// `galley; fwd=uri-miss; collapsed; stored`, `galley; fwd=bypass; detail=cookie`, `galley; detail=file`.
    ///
    /// `ttl_s`: the remaining freshness in seconds, negative if stale (RFC 9211 §2.5); written for stored responses only.
    /// `hit` and `fwd` exclude one another (§2.1). The key is never sent.
    pub fn write_cache_status(self, ttl_s: Option<i64>, out: &mut Vec<u8>) {
        out.extend_from_slice(b"galley");
        match self {
            Self::Hit
            | Self::HitOfIncludes
            | Self::HitByDictionary
            | Self::Patched
            | Self::Shared
            | Self::Assembled
            | Self::Stale(_) => {
                out.extend_from_slice(b"; hit");
            }
            Self::Miss {
                why,
                outcome,
                collapsed,
            } => {
                parameter(out, "fwd", why.forwarded());
                if collapsed {
                    out.extend_from_slice(b"; collapsed");
                }
                if outcome.is_stored() {
                    out.extend_from_slice(b"; stored");
                }
            }
            Self::Pass(why) => parameter(out, "fwd", why.forwarded()),
            Self::File | Self::Redirect | Self::Purge | Self::Dashboard | Self::Refused(_) => {}
        }
        if let Some(ttl_s) = ttl_s.filter(|_| self.has_lifetime()) {
            write_ttl(ttl_s, out);
        }
        match self.detail() {
            Some(detail) => parameter(out, "detail", detail),
            None if matches!(
                self,
                Self::File | Self::Redirect | Self::Purge | Self::Dashboard
            ) =>
            {
                parameter(out, "detail", self.word());
            }
            None => {}
        }
    }

    const fn has_lifetime(self) -> bool {
        matches!(
            self,
            Self::Hit
                | Self::HitOfIncludes
                | Self::HitByDictionary
                | Self::Patched
                | Self::Shared
                | Self::Stale(_)
                | Self::Miss {
                    outcome: StoreOutcome::Stored | StoreOutcome::StoredIncludes,
                    ..
                }
        )
    }
}

/// The detail of a page with ESI includes.
pub const ESI: &str = "esi";

/// The detail of a page that was sent as the difference to a dictionary.
pub const DICTIONARY: &str = "dictionary";

/// The detail of a hit in which purged fragments had been replaced.
pub const PATCHED: &str = "patched";

/// The detail of a hit with a page that another node of the cluster had fetched.
pub const SHARED: &str = "cluster";

/// The detail of a hit with the private fragments of a member.
pub const ASSEMBLED: &str = "assembled";

impl MissWhy {
    /// The word of RFC 9211 §2.2. It has none for a purged response, which counts as `stale`.
    const fn forwarded(self) -> &'static str {
        match self {
            Self::Uri => "uri-miss",
            Self::Stale | Self::Purged => "stale",
        }
    }
}

impl PassWhy {
    /// The word of RFC 9211 §2.2.
    const fn forwarded(self) -> &'static str {
        match self {
            Self::Method => "method",
            Self::NoStore => "request",
            Self::Accept => "vary-miss",
            Self::Range | Self::Head => "miss",
            Self::Authorization
            | Self::Cookie
            | Self::Path
            | Self::Query
            | Self::Upgrade
            | Self::Body
            | Self::Origin
            | Self::Nonce
            | Self::Ajax
            | Self::Rule
            | Self::Remembered
            | Self::Compared
            | Self::Differs
            | Self::Partition => "bypass",
        }
    }
}

fn parameter(out: &mut Vec<u8>, name: &str, value: &str) {
    out.extend_from_slice(b"; ");
    out.extend_from_slice(name.as_bytes());
    out.push(b'=');
    out.extend_from_slice(value.as_bytes());
}

/// Writes `; ttl=` and the digits. Runs for every hit, so it must not allocate.
fn write_ttl(ttl_s: i64, out: &mut Vec<u8>) {
    out.extend_from_slice(b"; ttl=");
    if ttl_s < 0 {
        out.push(b'-');
    }
    // Structured-field integers have at most 15 digits (RFC 9651 §3.3.1).
    let mut rest = ttl_s.unsigned_abs().min(999_999_999_999_999);
    let start = out.len();
    loop {
        out.push(b'0' + u8::try_from(rest % 10).unwrap_or(0));
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if let Some(digits) = out.get_mut(start..) {
        digits.reverse();
    }
}

#[cfg(test)]
mod tests;
