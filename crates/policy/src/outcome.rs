//! The words that explain a response: one stable word for every outcome and every reason.
//!
//! `Cache-Status` (RFC 9211), the access log and the labels of metrics use the same word. A word does not change once
//! released. Words are structured-field tokens (RFC 9651 §3.3.4): lower case, letters and hyphens. This module decides
//! nothing; it names the decisions of others.

/// An enum of which each variant has a word, a list of all variants, and nothing else.
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
pub(crate) use words;

words! {
    /// Why a request travelled past the cache, whole.
    PassWhy {
        /// Neither GET nor HEAD.
        Method = "method",
        /// It carried `Authorization`.
        Authorization = "authorization",
        /// It carried a cookie of the bypass class.
        Cookie = "cookie",
        /// The path is one that never is the same for two visitors.
        Path = "path",
        /// A query parameter requests a personal or unpublished view.
        Query = "query",
        /// It requested another protocol.
        Upgrade = "upgrade",
        /// A GET with a body.
        Body = "body",
        /// `Origin` of another host: the response may depend on it.
        Origin = "origin",
        /// A REST nonce together with a login.
        Nonce = "nonce",
        /// A script asked (`X-Requested-With: XMLHttpRequest`), and themes answer those with a part of the page.
        Ajax = "ajax",
        /// A rule of the site says `cache = false`.
        Rule = "rule",
        /// The request said `no-store`.
        NoStore = "no-store",
        /// The page was found not storable a moment ago.
        Remembered = "remembered",
        /// A range was requested, and nothing is stored that it could be cut from.
        Range = "range",
        /// Only the head was requested, and no stored response can be used.
        Head = "head",
        /// The page was generated for a member, to be compared with the stored one.
        Compared = "compared",
        /// Pages of this member's role differ from the stored one outside of their private fragments.
        Differs = "differs",
        /// Purges of other nodes of the cluster may be missing, so nothing stored is used.
        Partition = "partition",
    }
}

words! {
    /// Why a response was not kept.
    NotStored {
        /// Its status is not one that may be stored here.
        Status = "status",
        /// It sets a cookie that is not declared harmless.
        SetCookie = "set-cookie",
        /// `no-store`.
        NoStore = "no-store",
        /// `private`, or a reply to a request with a session.
        Private = "private",
        /// `no-cache`.
        NoCache = "no-cache",
        /// `Vary` names a field that is not part of the key.
        Vary = "vary",
        /// A part of a representation (206, `Content-Range`).
        Partial = "partial",
        /// It came in a coding that is not read here.
        Coding = "coding",
        /// Larger than an object may be.
        TooLarge = "too-large",
        /// It ended before its end.
        Incomplete = "incomplete",
        /// A page without content.
        Empty = "empty",
        /// A redirect to the requested address.
        Loop = "loop",
        /// Its content was purged while it was being generated.
        Purged = "purged",
        /// It has no lifetime, or has exceeded it.
        NoLifetime = "no-lifetime",
        /// A maintenance page.
        Maintenance = "maintenance",
        /// A page that reports an error under a status of success.
        ErrorPage = "error-page",
        /// No memory for it.
        Memory = "memory",
        /// Only answers to GET are kept.
        Method = "method",
    }
}

words! {
    /// Why a stale copy answered.
    StaleWhy {
        /// A refresh is in progress.
        Revalidating = "revalidating",
        /// The upstream failed.
        UpstreamError = "upstream-error",
        /// The upstream's queue was full.
        Overload = "overload",
        /// The client said that it takes one (`max-stale`).
        MaxStale = "max-stale",
    }
}

words! {
    /// Why a page that may be cached was requested from the upstream.
    MissWhy {
        /// Nothing is stored under this key.
        Uri = "uri-miss",
        /// The stored response is too old.
        Stale = "stale",
        /// The stored response was purged.
        Purged = "purged",
    }
}

words! {
    /// Why Galley answered with an error of its own.
    RefusedWhy {
        /// No site has this host.
        UnknownHost = "unknown-host",
        /// The certificate that the client was shown speaks for other hosts.
        Misdirected = "misdirected",
        /// Not HTTP as we read it.
        BadRequest = "bad-request",
        /// The head is larger than allowed.
        HeadTooLarge = "head-too-large",
        /// The body is larger than allowed.
        BodyTooLarge = "body-too-large",
        /// There is no room left to receive a request's body.
        NoRoom = "no-room",
        /// The client took too long.
        Timeout = "timeout",
        /// The client left before it had a response; in the log only.
        ClientGone = "client-gone",
        /// A name that is never sent.
        Denied = "denied",
        /// The client's address may not ask for this.
        Network = "network",
        /// The administration, and the client's address is not one of those that may administer.
        Admin = "admin",
        /// The dashboard of a site, over a connection without TLS.
        NeedsTls = "needs-tls",
        /// A name and a password are wanted.
        Password = "password",
        /// The client requests too often.
        Limited = "limited",
        /// XML-RPC, or a method of it, that is not served.
        XmlRpc = "xmlrpc",
        /// It requests the names of users.
        Authors = "authors",
        /// A method that is not served.
        Method = "method",
        /// A method that is not known, and that no rule names.
        UnknownMethod = "unknown-method",
        /// No such file, and nothing behind us to ask.
        NotFound = "not-found",
        /// `only-if-cached`, and it was not.
        OnlyIfCached = "only-if-cached",
        /// The upstream's queue is full.
        Overload = "overload",
        /// The upstream cannot be reached.
        UpstreamDown = "upstream-down",
        /// The upstream failed several times in succession, and is paused for a moment.
        UpstreamPaused = "upstream-paused",
        /// The upstream took too long.
        UpstreamTimeout = "upstream-timeout",
        /// The upstream's response cannot be understood.
        BadUpstream = "bad-upstream",
        /// The stored response must not be used without validation, and the upstream does not answer.
        MustRevalidate = "must-revalidate",
        /// The request has been here before.
        Loop = "loop",
        /// An internal error.
        Internal = "internal",
    }
}

/// What became of a response that came in for a cacheable request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StoreOutcome {
    /// It is in the store, or goes there as it arrives.
    Stored,
    /// Its end decides, which has not come yet; the last response for this address was refused, and not because of a purge.
    Undecided,
    /// The same, and it was put together from a page and its ESI includes.
    StoredIncludes,
    /// It is not, and why.
    NotStored(NotStored),
}

impl StoreOutcome {
    /// Whether `stored` may be said (RFC 9211 section 2.5: a true value means that the cache has stored the response).
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
    /// A fresh copy answered.
    Hit,
    /// A fresh copy answered, which was put together from a page and its ESI includes.
    HitOfIncludes,
    /// A stored copy answered, in which purged fragments had been replaced.
    Patched,
    /// A fresh copy answered that another node of the cluster had fetched.
    Shared,
    /// A stored copy answered, with the private fragments of a member.
    Assembled,
    /// A stale copy answered, within its window.
    Stale(StaleWhy),
    /// The upstream answered a request that may be cached.
    Miss {
        /// Why it was asked.
        why: MissWhy,
        /// Whether its response was kept.
        outcome: StoreOutcome,
        /// Whether this request waited for a response that another request had ordered.
        collapsed: bool,
    },
    /// The upstream answered a request that may not be cached.
    Pass(PassWhy),
    /// A file below the root answered.
    File,
    /// Galley redirected.
    Redirect,
    /// A purge, executed.
    Purge,
    /// The dashboard of the site answered.
    Dashboard,
    /// Galley refused.
    Refused(RefusedWhy),
}

impl Outcome {
    /// The first word: `hit`, `stale`, `miss`, `pass`, `file`, `redirect`, `purge`, `dashboard` or `refused`.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Hit | Self::HitOfIncludes | Self::Patched | Self::Shared | Self::Assembled => {
                "hit"
            }
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

    /// The second word, if there is more to say. For a miss: why it was not stored, else `purged` if that caused it, else
    /// `esi` if the response has ESI includes.
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
    /// `ttl_s`: freshness left in seconds, negative when stale (RFC 9211 §2.5); written for what the store answers or
    /// keeps, ignored elsewhere. `hit` and `fwd` exclude one another (§2.1). The key is never shown.
    pub fn write_cache_status(self, ttl_s: Option<i64>, out: &mut Vec<u8>) {
        out.extend_from_slice(b"galley");
        match self {
            Self::Hit
            | Self::HitOfIncludes
            | Self::Patched
            | Self::Shared
            | Self::Assembled
            | Self::Stale(_) => {
                out.extend_from_slice(b"; hit");
            }
            Self::Miss {
                why,
                outcome: kept,
                collapsed,
            } => {
                parameter(out, "fwd", why.forwarded());
                if collapsed {
                    out.extend_from_slice(b"; collapsed");
                }
                if kept.is_stored() {
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

/// The detail of a hit in which fragments had been replaced.
pub const PATCHED: &str = "patched";

/// The detail of a hit with a page that another node of the cluster had fetched.
pub const SHARED: &str = "cluster";

/// The detail of a hit with the private fragments of a member.
pub const ASSEMBLED: &str = "assembled";

impl MissWhy {
    /// The word of RFC 9211 §2.2; a purged copy was there and could not be used, which it calls `stale`.
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

/// Writes digits by hand: this runs for every hit, and must not allocate.
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
