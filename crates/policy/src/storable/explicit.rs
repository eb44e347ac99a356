//! Partial responses and responses to `POST`: stored only with an explicit lifetime.

use super::judge::judge;
use super::redirect;
use super::response::{ResponseHead, Storability};
use crate::freshness::{self};
use crate::outcome::NotStored;
use crate::request_info::RequestInfo;
use crate::site::{IgnoredParts, Policy};
use crate::vary::Vary;
use http::header::{CONTENT_LOCATION, CONTENT_RANGE};

/// Evaluates a 206 response to a `Range` request, to be stored for that exact `Range`: it must contain one part and state a
/// lifetime. All reasons not to store a 200 apply too.
pub fn judge_part(info: &RequestInfo, response: &ResponseHead<'_>, policy: &Policy) -> Storability {
    let is_single = response
        .fields
        .get(CONTENT_RANGE)
        .is_some_and(|value| value.as_bytes().starts_with(b"bytes "));
    if response.status.as_u16() != 206 || !is_single || info.if_range().is_some() {
        return Storability::Skip(NotStored::Partial);
    }
    let as_whole = ResponseHead {
        status: http::StatusCode::OK,
        ..*response
    };
    explicit_only(&as_whole, judge(info, &as_whole, policy), policy)
}

/// Evaluates a response to `POST` that is explicitly the response to a `GET` of the same URL (RFC 9110 §9.3.3): status 200, an
/// explicit lifetime, and a `Content-Location` that names the URL. `reader` is that `GET`.
pub fn judge_taught(
    reader: &RequestInfo,
    response: &ResponseHead<'_>,
    policy: &Policy,
) -> Storability {
    let names_requested_url = response.status.as_u16() == 200
        && response
            .fields
            .get(CONTENT_LOCATION)
            .and_then(|value| redirect::resolve(reader, value.as_bytes(), policy))
            .is_some_and(|address| address.is_of(reader));
    if !names_requested_url {
        return Storability::Skip(NotStored::Method);
    }
    explicit_only(response, judge(reader, response, policy), policy)
}

/// Rejects a response without an explicit lifetime, and one with `Vary`.
fn explicit_only(
    response: &ResponseHead<'_>,
    verdict: Storability,
    policy: &Policy,
) -> Storability {
    let statement = freshness::statement(
        response.fields,
        policy.storage.fields,
        IgnoredParts::default(),
        response.now,
    );
    let varies = Vary::of(response.fields) != Vary::Fields(smallvec::SmallVec::new());
    match verdict {
        Storability::Store(_) if varies => Storability::Skip(NotStored::Vary),
        Storability::Store(lifetime)
            if statement.lifetime.is_some() && lifetime.fresh > lifetime.initial_age =>
        {
            verdict
        }
        Storability::Store(_) => Storability::Skip(NotStored::NoLifetime),
        Storability::Skip(_) => verdict,
    }
}
