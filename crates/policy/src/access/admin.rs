//! Which requests are for administrators: `wp-admin` and `wp-login.php`, except for the parts that visitors need.
//!
//! Visitors use both without knowing it: themes and plugins send forms to `admin-ajax.php` and `admin-post.php`, pages load
//! styles and scripts from `wp-admin/css` and `wp-admin/js`, the form of a protected post is sent to `wp-login.php`, and so are
//! the logout link and the link in a mail that confirms a request for personal data.
//!
//! The `action` of a request selects what `wp-login.php` does, and other parameters matter as well (`key`, `checkemail`).
//! In PHP a parameter in the body overrides that in the URL. So the exceptions are a closed list of actions with the
//! parameters that each may have, and the body of the form is checked against a separate list.

use crate::query::{FormDecoded, is_urlencoded, variables};
use crate::request_info::{Method, RequestInfo};

/// The audience of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// The request is outside the administration.
    Outside,
    /// The request is in the administration, and every client may send it.
    Visitors,
    /// The form of a protected post. Every client may send it, if its body contains nothing else ([`is_visitors_form`]).
    VisitorsForm,
    /// The request is for administrators.
    Admins,
}

/// Returns the audience of a request. Segments count at any depth, since WordPress may be in a directory, a network may have
/// sites in directories, and PHP gets the path after a script (`/wp-login.php/x`).
pub fn area(info: &RequestInfo) -> Audience {
    let path = info.decoded_path();
    if is_login(info) {
        return login(info);
    }
    match below_admin(path) {
        None => Audience::Outside,
        Some(rest) if is_for_visitors(rest) => Audience::Visitors,
        Some(_) => Audience::Admins,
    }
}

/// Whether the path contains `wp-login.php`, at any depth and with any suffix.
pub(crate) fn is_login(info: &RequestInfo) -> bool {
    segments(info.decoded_path()).any(|segment| segment.eq_ignore_ascii_case(LOGIN))
}

/// Whether an urlencoded body is the form of a protected post and contains nothing else.
pub fn is_visitors_form(content_type: &[u8], body: &[u8]) -> bool {
    is_urlencoded(content_type) && variables(body).all(|(name, _)| is_one_of(&name, FORM_FIELDS))
}

fn segments(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|&b| b == b'/')
}

/// The path after the first `/wp-admin`, without its slash.
fn below_admin(path: &[u8]) -> Option<&[u8]> {
    let mut at = 0;
    for segment in segments(path) {
        at += segment.len() + 1;
        if segment.eq_ignore_ascii_case(b"wp-admin") {
            return Some(path.get(at..).unwrap_or_default());
        }
    }
    None
}

fn is_for_visitors(below: &[u8]) -> bool {
    let first = segments(below).next().unwrap_or_default();
    let has_script = || {
        below
            .windows(4)
            .any(|window| window.eq_ignore_ascii_case(b".php"))
    };
    match first {
        b"css" | b"js" | b"images" => first.len() < below.len() && !has_script(),
        _ => is_one_of(
            below,
            &[b"admin-ajax.php", b"admin-post.php", b"load-styles.php"],
        ),
    }
}

/// The audience of `wp-login.php` with this query. Each parameter must be one that the action has.
fn login(info: &RequestInfo) -> Audience {
    let raw = info.raw_query().unwrap_or_default();
    let is_read = matches!(info.method(), Method::Get | Method::Head);
    // With an index PHP makes an array of a parameter. WordPress does not accept that as an action, and shows the login form.
    let has_index = FormDecoded(raw).any(|byte| byte == b'[');
    let Some(action) = only(raw, b"action").filter(|_| !has_index) else {
        return Audience::Admins;
    };
    let form: (&[&[u8]], Audience) = match (action.as_slice(), is_read) {
        (b"postpass", _) => (
            &[b"action", b"redirect_to", b"wp_lang"],
            Audience::VisitorsForm,
        ),
        (b"logout", true) => (
            &[b"action", b"redirect_to", b"wp_lang", b"_wpnonce"],
            Audience::Visitors,
        ),
        (b"confirmaction", true) => (
            &[b"action", b"request_id", b"confirm_key", b"wp_lang"],
            Audience::Visitors,
        ),
        _ => return Audience::Admins,
    };
    if variables(raw).all(|(name, _)| is_one_of(&name, form.0)) {
        form.1
    } else {
        Audience::Admins
    }
}

/// The decoded value of a parameter that occurs exactly once.
fn only(raw: &[u8], wanted: &[u8]) -> Option<Vec<u8>> {
    let mut values = variables(raw).filter(|(name, _)| name == wanted);
    let (_, value) = values.next()?;
    values
        .next()
        .is_none()
        .then(|| FormDecoded(value).collect::<Vec<u8>>())
}

fn is_one_of(name: &[u8], known: &[&[u8]]) -> bool {
    known.contains(&name)
}

const LOGIN: &[u8] = b"wp-login.php";

/// The fields of WordPress's form of a protected post. Since 6.8 it has the URL to redirect to.
const FORM_FIELDS: &[&[u8]] = &[b"post_password", b"Submit", b"submit", b"redirect_to"];
