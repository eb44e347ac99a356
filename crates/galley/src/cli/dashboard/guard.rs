//! What a request must have before anything looks at it, and the fields that every response gets.

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};

use super::address::DashboardAddress;
use super::sessions::SessionSecrets;

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// `Host` names something else.
    Host,
    /// It comes from a page of another origin.
    Origin,
    /// An order that is no JSON, which forms of other pages can send.
    ContentType,
}

impl Refusal {
    pub(super) fn status(self) -> StatusCode {
        match self {
            Self::Host => StatusCode::MISDIRECTED_REQUEST,
            Self::Origin => StatusCode::FORBIDDEN,
            Self::ContentType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        }
    }

    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Host => "the dashboard is at the address that `galley dashboard` printed",
            Self::Origin => "requests from other pages are rejected",
            Self::ContentType => "the body must be JSON",
        }
    }
}

/// Checks what holds for every request. `is_asset`: it is for a file of the page, to which anybody may link.
pub(super) fn check(
    address: DashboardAddress,
    method: &Method,
    fields: &HeaderMap,
    is_asset: bool,
) -> Result<(), Refusal> {
    let host = one(fields, &header::HOST).unwrap_or_default();
    if !address.is_host(host) {
        return Err(Refusal::Host);
    }
    let is_read = matches!(*method, Method::GET | Method::HEAD);
    let is_own_origin = match one(fields, &header::ORIGIN) {
        Some(origin) => address.is_origin(origin, host),
        // Browsers send it with every POST.
        None => is_read && !fields.contains_key(header::ORIGIN),
    };
    if !is_own_origin || (!is_asset && is_foreign(fields)) {
        return Err(Refusal::Origin);
    }
    let is_json = one(fields, &header::CONTENT_TYPE) == Some("application/json");
    if !is_read && !is_json {
        return Err(Refusal::ContentType);
    }
    Ok(())
}

/// Whether the browser says that another page makes it ask (Fetch Metadata).
fn is_foreign(fields: &HeaderMap) -> bool {
    let site = fields.get("sec-fetch-site");
    site.is_some_and(|site| site != "same-origin" && site != "none")
}

/// The secrets that a request carries.
pub(super) fn secrets(address: DashboardAddress, fields: &HeaderMap) -> Option<SessionSecrets> {
    let key = one(fields, &KEY)?.to_owned();
    let name = address.cookie();
    let cookies = fields.get_all(header::COOKIE).into_iter();
    let mut pairs = cookies
        .filter_map(|field| field.to_str().ok())
        .flat_map(|field| field.split(';'))
        .filter_map(|pair| pair.trim().split_once('='));
    let (_, cookie) = pairs.find(|(known, _)| *known == name)?;
    let cookie = cookie.to_owned();
    Some(SessionSecrets { cookie, key })
}

/// The value of a field that is there once.
fn one<'f>(fields: &'f HeaderMap, name: &HeaderName) -> Option<&'f str> {
    let mut all = fields.get_all(name).iter();
    let first = all.next()?.to_str().ok()?;
    all.next().is_none().then_some(first)
}

/// Gives a response the fields that keep browsers from doing anything with it but showing the page.
pub(super) fn protect(fields: &mut HeaderMap) {
    for (name, value) in PROTECTION {
        fields.insert(
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        );
    }
}

/// The field with the session's key.
pub(super) static KEY: HeaderName = HeaderName::from_static("x-galley-key");

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

    fn checked(method: &Method, fields: &[(&str, &str)], is_asset: bool) -> Result<(), Refusal> {
        let address = DashboardAddress::new("127.0.0.1:9".parse().unwrap());
        let mut map = HeaderMap::new();
        for (name, value) in fields {
            map.append(
                HeaderName::from_bytes(name.as_bytes()).unwrap(),
                value.parse().unwrap(),
            );
        }
        check(address, method, &map, is_asset)
    }

    #[test]
    fn requests_of_other_pages_and_hosts_are_refused() {
        let host = ("host", "127.0.0.1:9");
        let own = ("origin", "http://127.0.0.1:9");
        let json = ("content-type", "application/json");
        let foreign = ("sec-fetch-site", "cross-site");
        let get = |fields: &[_]| checked(&Method::GET, fields, false);
        let post = |fields: &[_]| checked(&Method::POST, fields, false);
        assert_eq!(get(&[host]), Ok(()));
        assert_eq!(get(&[]), Err(Refusal::Host));
        assert_eq!(get(&[("host", "evil.test:9")]), Err(Refusal::Host));
        assert_eq!(get(&[host, host]), Err(Refusal::Host));
        assert_eq!(get(&[host, foreign]), Err(Refusal::Origin));
        assert_eq!(checked(&Method::GET, &[host, foreign], true), Ok(()));
        let evil = ("origin", "http://evil.test");
        assert_eq!(get(&[host, evil]), Err(Refusal::Origin));
        assert_eq!(get(&[host, own, own]), Err(Refusal::Origin));
        assert_eq!(post(&[host, own, json]), Ok(()));
        assert_eq!(post(&[host, json]), Err(Refusal::Origin));
        let localhost = ("origin", "http://localhost:9");
        assert_eq!(post(&[host, localhost, json]), Err(Refusal::Origin));
        assert_eq!(post(&[host, own]), Err(Refusal::ContentType));
        let form = ("content-type", "text/plain");
        assert_eq!(post(&[host, own, form]), Err(Refusal::ContentType));
    }

    proptest::proptest! {
        #[test]
        fn whatever_comes_only_its_own_host_and_origin_pass(
            host in ".{0,40}", origin in ".{0,40}", cookie in ".{0,80}", key in ".{0,80}",
        ) {
            let address = DashboardAddress::new("127.0.0.1:9".parse().unwrap());
            let mut map = HeaderMap::new();
            for (name, value) in [("host", &host), ("origin", &origin), ("cookie", &cookie), ("x-galley-key", &key)] {
                if let Ok(value) = HeaderValue::from_str(value) {
                    map.insert(HeaderName::from_static(name), value);
                }
            }
            map.insert("content-type", HeaderValue::from_static("application/json"));
            let is_own = matches!(host.as_str(), "127.0.0.1:9" | "localhost:9") && origin == format!("http://{host}");
            proptest::prop_assert_eq!(check(address, &Method::POST, &map, false).is_ok(), is_own);
            let _ = secrets(address, &map);
        }
    }

    #[test]
    fn secrets_are_those_of_this_listener() {
        let address = DashboardAddress::new("127.0.0.1:9".parse().unwrap());
        let given = |cookie: &'static str| {
            let mut map = HeaderMap::new();
            map.insert("x-galley-key", HeaderValue::from_static("k"));
            map.insert("cookie", HeaderValue::from_static(cookie));
            secrets(address, &map).map(|secrets| secrets.cookie)
        };
        assert_eq!(given("a=1; galley-dashboard-9=c"), Some("c".to_owned()));
        assert_eq!(given("galley-dashboard-99=c; galley-dashboard-=d"), None);
        assert_eq!(given(""), None);
    }
}
