//! Checks of complete bodies for pages that PHP did not finish.

use http::{HeaderMap, StatusCode};

use super::error_page;
use super::response::{ResponseHead, is_html};
use crate::outcome::NotStored;
use crate::site::Policy;

/// Evaluates a complete body.
///
/// For the WordPress preset. When PHP fails late, the response has status 200 and an empty body, a short message, or the first
/// part of a page; neither PHP-FPM nor Apache reports the failure. Fragments that are short by intent, and pages whose theme
/// omits the end tag, are not stored either: that costs speed, but half a page would affect every visitor.
pub fn judge_body(
    response: &ResponseHead<'_>,
    policy: &Policy,
    body: &[u8],
) -> Result<(), NotStored> {
    if !is_judged_whole(response.status, response.fields, policy) {
        return Ok(());
    }
    if body.is_empty() {
        return Err(NotStored::Empty);
    }
    if error_page::is_error_page(response.fields, body) {
        return Err(NotStored::ErrorPage);
    }
    let beginning = body.get(..MAX_PROLOGUE).unwrap_or(body);
    let is_suspect = body.len() < MIN_PAGE || has_tag(beginning, START_TAG);
    if is_suspect && !has_tag(body, END_TAG) {
        Err(NotStored::ErrorPage)
    } else {
        Ok(())
    }
}

/// Evaluates the body of an ESI include. It is not a whole page, so it may be short or empty.
pub fn judge_include(
    response: &ResponseHead<'_>,
    policy: &Policy,
    body: &[u8],
) -> Result<(), NotStored> {
    let is_judged = is_judged_whole(response.status, response.fields, policy);
    if is_judged && error_page::is_error_page(response.fields, body) {
        Err(NotStored::ErrorPage)
    } else {
        Ok(())
    }
}

/// Whether [`judge_body`] has to examine the whole body of such a response.
pub fn is_judged_whole(status: StatusCode, fields: &HeaderMap, policy: &Policy) -> bool {
    policy.storage.checks_pages && status == StatusCode::OK && is_html(fields)
}

/// Whether a tag occurs. Searches from the end, where the end tag of a page is.
fn has_tag(body: &[u8], tag: &[u8]) -> bool {
    body.windows(tag.len())
        .rev()
        .any(|place| place.eq_ignore_ascii_case(tag))
}

const START_TAG: &[u8] = b"<html";

const END_TAG: &[u8] = b"</html";

/// The bytes in which a whole page has its `<html`: after a doctype and a comment or two.
const MAX_PROLOGUE: usize = 1024;

/// Shorter HTML without an end tag is an error message.
const MIN_PAGE: usize = 255;
