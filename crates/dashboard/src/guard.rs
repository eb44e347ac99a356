//! Checks every request to a dashboard, and adds security fields to every response.

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};

use super::sessions::SessionSecrets;

/// Why a request to a dashboard is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DashboardRefusal {
    /// `Host` names another host.
    Host,
    /// The request was sent by a page of another origin.
    Origin,
    /// The body of an action is not JSON; forms of other pages can send other types.
    ContentType,
}

impl DashboardRefusal {
    /// The status of the response.
    pub fn status(self) -> StatusCode {
        match self {
            Self::Host => StatusCode::MISDIRECTED_REQUEST,
            Self::Origin => StatusCode::FORBIDDEN,
            Self::ContentType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        }
    }

    /// The text for the client.
    pub fn text(self) -> &'static str {
        match self {
            Self::Host => "the dashboard is at the address that `galley dashboard` printed",
            Self::Origin => "requests from other pages are rejected",
            Self::ContentType => "the body must be JSON",
        }
    }
}

/// Checks a request. `own`: the origin of the dashboard under the requested host, `None` if that is not one of its hosts.
/// `is_asset`: the request is for a file of the page, to which any page may link.
pub fn check(
    own: Option<&str>,
    method: &Method,
    fields: &HeaderMap,
    is_asset: bool,
) -> Result<(), DashboardRefusal> {
    let own = own.ok_or(DashboardRefusal::Host)?;
    let is_read = matches!(*method, Method::GET | Method::HEAD);
    let is_own_origin = match one(fields, &header::ORIGIN) {
        Some(origin) => origin == own,
        // Browsers send `Origin` with every POST.
        None => is_read && !fields.contains_key(header::ORIGIN),
    };
    if !is_own_origin || (!is_asset && is_foreign(fields)) {
        return Err(DashboardRefusal::Origin);
    }
    let is_json = one(fields, &header::CONTENT_TYPE) == Some("application/json");
    if !is_read && !is_json {
        return Err(DashboardRefusal::ContentType);
    }
    Ok(())
}

/// Whether another page caused the request (Fetch Metadata).
fn is_foreign(fields: &HeaderMap) -> bool {
    let site = fields.get("sec-fetch-site");
    site.is_some_and(|site| site != "same-origin" && site != "none")
}

/// Reads the secrets of a request: the key, and the cookie of this name.
pub fn secrets(name: &str, fields: &HeaderMap) -> Option<SessionSecrets> {
    let key = one(fields, &KEY)?.to_owned();
    let cookies = fields.get_all(header::COOKIE).into_iter();
    let mut pairs = cookies
        .filter_map(|field| field.to_str().ok())
        .flat_map(|field| field.split(';'))
        .filter_map(|pair| pair.trim().split_once('='));
    let (_, cookie) = pairs.find(|(known, _)| *known == name)?;
    let cookie = cookie.to_owned();
    Some(SessionSecrets { cookie, key })
}

/// The value of a field, if the field occurs exactly once.
pub fn one<'f>(fields: &'f HeaderMap, name: &HeaderName) -> Option<&'f str> {
    let mut all = fields.get_all(name).iter();
    let first = all.next()?.to_str().ok()?;
    all.next().is_none().then_some(first)
}

/// Adds fields to a response that restrict what browsers and other pages may do with it.
pub fn protect(fields: &mut HeaderMap) {
    for (name, value) in PROTECTION {
        fields.insert(
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        );
    }
}

/// The request field with the session's key.
pub static KEY: HeaderName = HeaderName::from_static("x-galley-key");

const PROTECTION: [(&str, &str); 7] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
         trusted-types 'none'",
    ),
    ("cache-control", "no-store"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("referrer-policy", "no-referrer"),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
];

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = "http://127.0.0.1:9";

    fn checked(
        own: Option<&str>,
        method: &Method,
        fields: &[(&str, &str)],
        is_asset: bool,
    ) -> Result<(), DashboardRefusal> {
        let mut map = HeaderMap::new();
        for (name, value) in fields {
            map.append(
                HeaderName::from_bytes(name.as_bytes()).unwrap(),
                value.parse().unwrap(),
            );
        }
        check(own, method, &map, is_asset)
    }

    #[test]
    fn requests_of_other_pages_and_hosts_are_rejected() {
        let own = ("origin", OWN);
        let json = ("content-type", "application/json");
        let foreign = ("sec-fetch-site", "cross-site");
        let get = |fields: &[_]| checked(Some(OWN), &Method::GET, fields, false);
        let post = |fields: &[_]| checked(Some(OWN), &Method::POST, fields, false);
        assert_eq!(get(&[]), Ok(()));
        let elsewhere = checked(None, &Method::GET, &[], true);
        assert_eq!(elsewhere, Err(DashboardRefusal::Host));
        assert_eq!(get(&[foreign]), Err(DashboardRefusal::Origin));
        assert_eq!(checked(Some(OWN), &Method::GET, &[foreign], true), Ok(()));
        let evil = ("origin", "http://evil.test");
        assert_eq!(get(&[evil]), Err(DashboardRefusal::Origin));
        assert_eq!(get(&[own, own]), Err(DashboardRefusal::Origin));
        assert_eq!(post(&[own, json]), Ok(()));
        assert_eq!(post(&[json]), Err(DashboardRefusal::Origin));
        let localhost = ("origin", "http://localhost:9");
        assert_eq!(post(&[localhost, json]), Err(DashboardRefusal::Origin));
        assert_eq!(post(&[own]), Err(DashboardRefusal::ContentType));
        let form = ("content-type", "text/plain");
        assert_eq!(post(&[own, form]), Err(DashboardRefusal::ContentType));
    }

    proptest::proptest! {
        #[test]
        fn only_the_own_origin_passes(
            origin in ".{0,40}", cookie in ".{0,80}", key in ".{0,80}",
        ) {
            let mut map = HeaderMap::new();
            for (name, value) in [("origin", &origin), ("cookie", &cookie), ("x-galley-key", &key)] {
                if let Ok(value) = HeaderValue::from_str(value) {
                    map.insert(HeaderName::from_static(name), value);
                }
            }
            map.insert("content-type", HeaderValue::from_static("application/json"));
            proptest::prop_assert_eq!(check(Some(OWN), &Method::POST, &map, false).is_ok(), origin == OWN);
            let _ = secrets("galley-dashboard", &map);
        }
    }

    #[test]
    fn secrets_are_read_from_the_named_cookie() {
        let given = |cookie: &'static str| {
            let mut map = HeaderMap::new();
            map.insert("x-galley-key", HeaderValue::from_static("k"));
            map.insert("cookie", HeaderValue::from_static(cookie));
            secrets("galley-dashboard-9", &map).map(|secrets| secrets.cookie)
        };
        assert_eq!(given("a=1; galley-dashboard-9=c"), Some("c".to_owned()));
        assert_eq!(given("galley-dashboard-99=c; galley-dashboard-=d"), None);
        assert_eq!(given(""), None);
    }
}
