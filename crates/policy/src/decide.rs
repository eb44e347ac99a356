//! The cache decision: one pure function for the fast path, the slow path and `galley why`.
//!
//! A request passes three steps, each of which may decide it: [`before_lookup`] uses its head only, [`decide`] also the
//! lookup result, [`Decision::below_root`] also the kind of its path below the site's root. No step does I/O, reads a clock
//! or allocates for a hit. For stored responses the windows of RFC 5861 and the request directives of RFC 9111 section
//! 5.2.1 apply. With the WordPress preset the request directives are empty, because the application decides how fresh its
//! pages are, not the visitor.

use std::time::Duration;

use http::HeaderMap;

use crate::freshness;
use crate::outcome::{MissWhy, PassWhy, RefusedWhy};
use crate::redirect::{self, Redirection};
use crate::request_info::{Cacheability, Directives, Method, RequestInfo};
use crate::site::{AddressedFields, PartialRequests, Policy, VaryPolicy};
use crate::storable::{Lifetime, SharedWith};

/// The effect of purges on a stored response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validity {
    /// No purge covers the response.
    Valid,
    /// A soft purge covers the response: it is stale, and may be sent while it is revalidated.
    SoftPurged,
    /// A purge covers only fragments of the response: it is never sent again as it is, but the fragments can be replaced.
    Outdated,
    /// A hard purge covers the response: it is never sent again, not even when the upstream fails.
    Purged,
    /// A purge is being written now. The response must not be sent before its validity is known.
    Unknown,
}

/// The state of a member's private fragments for a stored page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PrivateParts {
    /// Nothing can be inserted: the page has no private fragments, or the visitor is not a member.
    #[default]
    None,
    /// A fragment is missing, the fragments are not known yet, or a generated page must be compared with the stored one again.
    Missing,
    /// All fragments are stored.
    Complete,
    /// Pages of the member's role differ from the stored page also outside the private fragments.
    Differ,
}

/// A stored response that a request selects, in its current state.
#[derive(Clone, Copy, Debug)]
pub struct StoredResponse<'a> {
    /// Whether this is a hit-for-pass object: the responses of the URL cannot be stored, so requests pass.
    pub is_hit_for_pass: bool,
    /// The current age, including the age on arrival (RFC 9111 section 4.2.3).
    pub age: Duration,
    /// The lifetime and the stale windows after it.
    pub lifetime: &'a Lifetime,
    /// The effect of purges on the response.
    pub validity: Validity,
    /// The stored fields.
    pub fields: &'a HeaderMap,
    /// Whether the response is requested often and expires soon, so that it should be fetched again before it expires.
    pub ends_soon: bool,
    /// The private fragments that may be inserted for a member.
    pub private: PrivateParts,
}

/// How a request is handled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The request is a purge.
    Purge,
    /// The response lists the server's methods (`OPTIONS *`, RFC 9110 section 9.3.7).
    Methods,
    /// Galley itself responds, with the site's dashboard.
    Dashboard,
    /// The response is an error.
    Refuse(RefusedWhy),
    /// The site's configuration redirects the request.
    Redirect(Redirection),
    /// The stored response is fresh, and is sent.
    Hit,
    /// As `Hit`; the response is also fetched in the background, because it expires soon.
    HitAndRefresh,
    /// The stored response is stale, and is sent while it is fetched in the background (RFC 5861 section 3).
    StaleWhileRevalidate,
    /// The stored response is stale, and is sent because the client accepts that (`max-stale`).
    StaleAccepted,
    /// The stored response is sent with the member's private fragments inserted.
    Assemble,
    /// The response is generated for this member only, and compared with the stored one.
    Compare,
    /// A file below the root is sent.
    File,
    /// The path is a directory without its slash. The request is redirected to the path with the slash.
    Slash,
    /// The purged fragments of the stored response are rendered again and replaced before it is sent.
    Patch,
    /// The response is fetched for all waiting requests, and is stored if that is permitted.
    Fetch {
        /// Why no stored response was sent.
        why: MissWhy,
        /// Whether the stored response is sent if the fetch fails (RFC 5861 section 4).
        stale_on_error: bool,
    },
    /// The request is forwarded unchanged, for its client only.
    Pass(PassWhy),
}

/// The kind of a path below the site's root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathKind {
    /// A file that is sent.
    File,
    /// A script for FastCGI.
    Script,
    /// A directory, requested without its slash.
    Directory,
    /// The path does not exist, or the site has no root.
    Missing,
    /// A file that is never sent.
    Denied,
    /// The lookup failed.
    Failed,
}

/// The upstream that generates responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// None: the site has files only.
    None,
    /// FastCGI, which needs a script.
    FastCgi,
    /// An HTTP server.
    Http,
}

/// The decision that needs the request head only. `has_tls`: whether the host can be reached over TLS. `None`: a lookup is needed.
pub fn before_lookup(info: &RequestInfo, policy: &Policy, has_tls: bool) -> Option<Decision> {
    match info.method() {
        Method::Options if info.path() == b"*" => return Some(Decision::Methods),
        Method::Trace | Method::Connect => return Some(Decision::Refuse(RefusedWhy::Method)),
        _ => {}
    }
    let redirected = redirect::of(info, policy, has_tls).map(Decision::Redirect);
    redirected.or_else(|| {
        policy
            .is_dashboard(info.decoded_path())
            .then_some(Decision::Dashboard)
    })
}

/// Decides with the entry of the request's key; `None` if no entry exists.
///
/// [`Decision::Fetch`] and [`Decision::Pass`] are not final: a file below the root takes precedence
/// ([`Decision::below_root`]).
pub fn decide(
    info: &RequestInfo,
    policy: &Policy,
    stored: Option<&StoredResponse<'_>>,
) -> Decision {
    if let Cacheability::Pass(why) = info.cacheability() {
        return match stored {
            Some(stored) if info.is_member() => stored.for_member(why),
            _ => Decision::Pass(why),
        };
    }
    if stored.is_some_and(|stored| differs_by_accept(info, policy, stored.fields)) {
        return Decision::Pass(PassWhy::Accept);
    }
    if stored.is_some_and(|stored| stored.may_be_patched(info)) {
        return Decision::Patch;
    }
    let was_purged = stored.is_some_and(StoredResponse::was_purged);
    let Some(stored) = stored.filter(|stored| may_select(info, policy, stored)) else {
        let why = if was_purged {
            MissWhy::Purged
        } else {
            MissWhy::Uri
        };
        return nothing_usable(info, policy, why);
    };
    let usable = stored.use_for(&info.directives());
    if stored.is_hit_for_pass {
        return match usable {
            Decision::Hit => Decision::Pass(PassWhy::Remembered),
            _ => nothing_usable(info, policy, MissWhy::Uri),
        };
    }
    match usable {
        // A background fetch carries no credentials, so its response may not be meant for this client.
        Decision::Hit if stored.ends_soon && !info.has_authorization() => Decision::HitAndRefresh,
        Decision::StaleWhileRevalidate if info.has_authorization() => stored.fetch(),
        Decision::Fetch { .. } if is_head_alone(info, policy) => Decision::Pass(PassWhy::Head),
        usable => usable,
    }
}

/// Decides while purges of other nodes may be missing: no stored response is used, and no earlier fetch is joined.
pub fn decide_partitioned(info: &RequestInfo) -> Decision {
    match info.cacheability() {
        Cacheability::Pass(why) => Decision::Pass(why),
        Cacheability::Cacheable => Decision::Pass(PassWhy::Partition),
    }
}

/// Whether a request may select a stored response at all: no purge prevents it, and if the request carries
/// credentials, the response permits shared use (RFC 9111 section 3.5).
pub fn may_select(info: &RequestInfo, policy: &Policy, stored: &StoredResponse<'_>) -> bool {
    matches!(stored.validity, Validity::Valid | Validity::SoftPurged)
        && (!info.has_authorization()
            || SharedWith::of(stored.fields, policy) == SharedWith::Everyone)
}

/// Whether a response to a shared request is not the one that this client prefers. Without a preset, clients get variants by their
/// own `Accept`.
pub fn differs_by_accept(info: &RequestInfo, policy: &Policy, fields: &HeaderMap) -> bool {
    policy.storage.vary == VaryPolicy::CoveredByKey && info.differs_by_accept(fields)
}

/// With the WordPress preset, the whole page is fetched for a `HEAD` or `Range` request; by RFC 9111 the request is forwarded.
fn nothing_usable(info: &RequestInfo, policy: &Policy, why: MissWhy) -> Decision {
    if is_head_alone(info, policy) {
        Decision::Pass(PassWhy::Head)
    } else if policy.requests.partial == PartialRequests::Forward && info.range().is_some() {
        Decision::Pass(PassWhy::Range)
    } else {
        Decision::Fetch {
            why,
            stale_on_error: false,
        }
    }
}

fn is_head_alone(info: &RequestInfo, policy: &Policy) -> bool {
    policy.requests.partial == PartialRequests::Forward && info.method() == Method::Head
}

impl StoredResponse<'_> {
    fn was_purged(&self) -> bool {
        matches!(self.validity, Validity::Purged | Validity::Outdated) && !self.is_hit_for_pass
    }

    /// A member gets the stored response only if it is fresh and not purged. Otherwise PHP generates the page, as for any session.
    fn for_member(&self, why: PassWhy) -> Decision {
        let is_fresh = self.validity == Validity::Valid && self.lifetime.fresh > self.age;
        match self.private {
            _ if self.is_hit_for_pass || !is_fresh => Decision::Pass(why),
            PrivateParts::None => Decision::Pass(why),
            PrivateParts::Differ => Decision::Pass(PassWhy::Differs),
            PrivateParts::Missing => Decision::Compare,
            PrivateParts::Complete => Decision::Assemble,
        }
    }

    fn fetch(&self) -> Decision {
        let lifetime = self.lifetime;
        Decision::Fetch {
            why: MissWhy::Stale,
            stale_on_error: lifetime.fresh.saturating_add(lifetime.stale_if_error) > self.age,
        }
    }

    /// Whether the response can be sent after its purged fragments are replaced. The rest keeps its age, so the request directives
    /// apply to that age.
    fn may_be_patched(&self, info: &RequestInfo) -> bool {
        self.validity == Validity::Outdated
            && self.lifetime.fresh > self.age
            && !info.has_authorization()
            && !self.is_too_old(&info.directives())
    }

    /// Whether the request demands a newer response (RFC 9111 section 5.2.1).
    fn is_too_old(&self, directives: &Directives) -> bool {
        let left = self.lifetime.fresh.saturating_sub(self.age);
        directives.no_cache
            || directives.max_age.is_some_and(|oldest| self.age > oldest)
            || directives.min_fresh.is_some_and(|wanted| left < wanted)
    }

    /// Decides by age and validity. `directives` are empty with the WordPress preset.
    fn use_for(&self, directives: &Directives) -> Decision {
        let lifetime = self.lifetime;
        if self.is_too_old(directives) {
            return self.fetch();
        }
        let is_soft_purged = self.validity != Validity::Valid;
        if lifetime.fresh > self.age && !is_soft_purged {
            return Decision::Hit;
        }
        let staleness = self.age.saturating_sub(lifetime.fresh);
        let is_accepted = directives.max_stale.is_some_and(|most| staleness <= most);
        if is_accepted
            && !is_soft_purged
            && !freshness::forbids_stale(self.fields, AddressedFields::Standard)
        {
            return Decision::StaleAccepted;
        }
        // The windows begin at the end of freshness (RFC 5861 section 3), even if a soft purge ended it earlier: a soft-purged
        // response is never used longer than one that was not purged.
        if lifetime
            .fresh
            .saturating_add(lifetime.stale_while_revalidate)
            > self.age
        {
            return Decision::StaleWhileRevalidate;
        }
        self.fetch()
    }
}

impl Decision {
    /// Whether the path must be looked up below the root before the decision is final.
    pub fn needs_file(&self) -> bool {
        matches!(
            self,
            Self::Patch | Self::Compare | Self::Fetch { .. } | Self::Pass(_)
        )
    }

    /// The final decision, given the kind of the path below the root.
    #[must_use]
    pub fn below_root(self, info: &RequestInfo, below: PathKind, backend: Backend) -> Self {
        if !self.needs_file() {
            return self;
        }
        match (below, backend) {
            (PathKind::File, _) => Self::File,
            (PathKind::Directory, _) => Self::Slash,
            (PathKind::Denied, _) => Self::Refuse(RefusedWhy::Denied),
            (PathKind::Failed, _) => Self::Refuse(RefusedWhy::Internal),
            _ if info.only_if_cached() => Self::Refuse(RefusedWhy::OnlyIfCached),
            (PathKind::Script, Backend::FastCgi) | (_, Backend::Http) => self,
            (PathKind::Script, Backend::None) | (PathKind::Missing, _) => {
                Self::Refuse(RefusedWhy::NotFound)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{LINE, parsed};

    fn fetch(stale_on_error: bool) -> Decision {
        Decision::Fetch {
            why: MissWhy::Stale,
            stale_on_error,
        }
    }

    fn stored<'a>(
        age: u64,
        lifetime: &'a Lifetime,
        validity: Validity,
        fields: &'a HeaderMap,
    ) -> StoredResponse<'a> {
        StoredResponse {
            is_hit_for_pass: false,
            age: Duration::from_secs(age),
            lifetime,
            validity,
            fields,
            ends_soon: false,
            private: PrivateParts::None,
        }
    }

    #[test]
    fn a_page_is_patched_unless_the_request_demands_a_newer_one() {
        let lifetime = Lifetime {
            fresh: Duration::from_secs(60),
            ..Lifetime::default()
        };
        let no_fields = HeaderMap::new();
        let decided = |policy: &Policy, fields: &[(&str, &str)], age| {
            let stored = stored(age, &lifetime, Validity::Outdated, &no_fields);
            decide(&parsed(&LINE, fields, policy), policy, Some(&stored))
        };
        let fetch = Decision::Fetch {
            why: MissWhy::Purged,
            stale_on_error: false,
        };
        let newer: &[(&str, &str)] = &[
            ("cache-control", "no-cache"),
            ("cache-control", "max-age=0"),
            ("cache-control", "max-age=29"),
            ("cache-control", "min-fresh=31"),
        ];
        for field in newer {
            let (wordpress, none) = (Policy::wordpress(), Policy::rfc9111());
            assert_eq!(decided(&none, &[*field], 30), fetch, "{field:?}");
            assert_eq!(decided(&wordpress, &[*field], 30), Decision::Patch);
        }
        for policy in [Policy::wordpress(), Policy::rfc9111()] {
            let enough = ("cache-control", "max-age=30");
            assert_eq!(decided(&policy, &[enough], 30), Decision::Patch);
            assert_eq!(decided(&policy, &[], 60), fetch);
        }
    }

    #[test]
    fn a_page_that_varies_by_type_is_passed_for_types_without_a_copy() {
        let lifetime = Lifetime {
            fresh: Duration::from_secs(60),
            ..Lifetime::default()
        };
        let decided = |policy: &Policy, accept: &str, vary: &'static str| {
            let fields =
                HeaderMap::from_iter([(http::header::VARY, http::HeaderValue::from_static(vary))]);
            let stored = stored(10, &lifetime, Validity::Valid, &fields);
            let info = parsed(&LINE, &[("accept", accept)], policy);
            decide(&info, policy, Some(&stored))
        };
        let (wordpress, none) = (Policy::wordpress(), Policy::rfc9111());
        let pass = Decision::Pass(PassWhy::Accept);
        let turtle = "text/turtle, text/html;q=0.9";
        assert_eq!(decided(&wordpress, turtle, "Accept-Encoding, accept"), pass);
        assert_eq!(
            decided(&wordpress, turtle, "Accept-Encoding"),
            Decision::Hit
        );
        for copied in ["text/html", "*/*", "application/json", "text/markdown"] {
            assert_eq!(decided(&wordpress, copied, "Accept"), Decision::Hit);
        }
        assert_eq!(decided(&none, turtle, "Accept"), Decision::Hit);
    }

    #[test]
    fn a_miss_after_a_purge_has_the_reason_purged() {
        let (lifetime, fields) = (Lifetime::default(), HeaderMap::new());
        let purged = |validity, is_hit_for_pass| {
            let stored = StoredResponse {
                is_hit_for_pass,
                ..stored(90, &lifetime, validity, &fields)
            };
            let info = parsed(&LINE, &[], &Policy::wordpress());
            match decide(&info, &Policy::wordpress(), Some(&stored)) {
                Decision::Fetch { why, .. } => why,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(purged(Validity::Purged, false), MissWhy::Purged);
        assert_eq!(purged(Validity::Outdated, false), MissWhy::Purged);
        assert_eq!(purged(Validity::Purged, true), MissWhy::Uri);
        assert_eq!(purged(Validity::Valid, false), MissWhy::Stale);
    }

    #[test]
    fn stored_responses_are_used_by_age() {
        use Decision::{Hit, StaleWhileRevalidate};
        use Validity::{SoftPurged, Valid};
        // fresh, stale-while-revalidate, stale-if-error, age, validity, wanted
        let table = [
            (60, 0, 0, 0, Valid, Hit),
            (60, 0, 0, 59, Valid, Hit),
            (60, 0, 0, 60, Valid, fetch(false)),
            (60, 10, 0, 60, Valid, StaleWhileRevalidate),
            (60, 10, 0, 69, Valid, StaleWhileRevalidate),
            (60, 10, 0, 70, Valid, fetch(false)),
            (60, 10, 100, 70, Valid, fetch(true)),
            (60, 10, 100, 159, Valid, fetch(true)),
            (60, 10, 100, 160, Valid, fetch(false)),
            (60, 0, 0, 5, SoftPurged, StaleWhileRevalidate),
            (60, 0, 0, 60, SoftPurged, fetch(false)),
            (60, 10, 100, 65, SoftPurged, StaleWhileRevalidate),
            (60, 10, 100, 100, SoftPurged, fetch(true)),
            (0, 0, 0, 0, Valid, fetch(false)),
        ];
        let fields = HeaderMap::new();
        for (fresh, swr, sie, age, validity, wanted) in table {
            let lifetime = Lifetime {
                fresh: Duration::from_secs(fresh),
                stale_while_revalidate: Duration::from_secs(swr),
                stale_if_error: Duration::from_secs(sie),
                initial_age: Duration::ZERO,
            };
            let stored = stored(age, &lifetime, validity, &fields);
            assert_eq!(
                stored.use_for(&Directives::default()),
                wanted,
                "{fresh} {swr} {sie} {age} {validity:?}"
            );
        }
    }

    #[test]
    fn members_get_fresh_pages_with_their_own_fragments() {
        use Validity::{Outdated, Purged, SoftPurged, Valid};
        let site = Policy {
            members: crate::site::MemberPages::Fragments,
            ..Policy::wordpress()
        };
        let info = parsed(&LINE, &[("cookie", "wordpress_logged_in_0a=ann")], &site);
        let pass = || Decision::Pass(PassWhy::Cookie);
        let table = [
            (Valid, 10, PrivateParts::Complete, Decision::Assemble),
            (Valid, 10, PrivateParts::Missing, Decision::Compare),
            (
                Valid,
                10,
                PrivateParts::Differ,
                Decision::Pass(PassWhy::Differs),
            ),
            (Valid, 10, PrivateParts::None, pass()),
            (Valid, 60, PrivateParts::Complete, pass()),
            (SoftPurged, 10, PrivateParts::Complete, pass()),
            (Outdated, 10, PrivateParts::Complete, pass()),
            (Purged, 10, PrivateParts::Complete, pass()),
            (Validity::Unknown, 10, PrivateParts::Complete, pass()),
        ];
        let lifetime = Lifetime {
            fresh: Duration::from_secs(60),
            ..Lifetime::default()
        };
        let fields = HeaderMap::new();
        for (validity, age, private, wanted) in table {
            let mut stored = StoredResponse {
                private,
                ..stored(age, &lifetime, validity, &fields)
            };
            assert_eq!(decide(&info, &site, Some(&stored)), wanted, "{stored:?}");
            stored.is_hit_for_pass = true;
            assert_eq!(decide(&info, &site, Some(&stored)), pass(), "{stored:?}");
        }
        assert_eq!(decide(&info, &site, None), pass());
        // Private fragments are never used for anonymous visitors.
        let stranger = info.without_member().unwrap();
        let stored = StoredResponse {
            private: PrivateParts::Complete,
            ..stored(0, &lifetime, Valid, &fields)
        };
        assert_eq!(decide(&stranger, &site, Some(&stored)), Decision::Hit);
    }
}
