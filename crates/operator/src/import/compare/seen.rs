//! The parts of a response that a visitor sees.

use std::time::SystemTime;

use bytes::Bytes;
use http::HeaderMap;

/// The parts of a response that a visitor sees.
#[derive(Clone, Debug)]
pub(super) struct SeenResponse {
    /// `None`: the connection ended without a response.
    pub(super) status: Option<u16>,
    pub(super) fields: HeaderMap,
    /// The decoded body.
    pub(super) body: Bytes,
    /// The reason why there is no response, or no body.
    pub(super) trouble: Option<String>,
}

impl SeenResponse {
    pub(super) fn none(trouble: String) -> Self {
        Self {
            status: None,
            fields: HeaderMap::new(),
            body: Bytes::new(),
            trouble: Some(trouble),
        }
    }

    /// All values of a field, joined with commas.
    pub(super) fn field(&self, name: &str) -> Option<String> {
        let values: Vec<_> = self
            .fields
            .get_all(name)
            .iter()
            .map(|value| String::from_utf8_lossy(value.as_bytes()).trim().to_owned())
            .collect();
        (!values.is_empty()).then(|| values.join(", "))
    }

    pub(super) fn status_text(&self) -> String {
        match self.status {
            Some(status) => status.to_string(),
            None => "no response".to_owned(),
        }
    }

    pub(super) fn is_redirect(&self) -> bool {
        matches!(self.status, Some(301 | 302 | 303 | 307 | 308))
    }

    /// Whether browsers store the redirect. 301 and 308 differ only for methods other than `GET`.
    pub(super) fn is_permanent_redirect(&self) -> bool {
        matches!(self.status, Some(301 | 308))
    }

    /// Whether the server rejects the request, with any status; nginx's 444 closes the connection.
    pub(super) fn is_refusal(&self) -> bool {
        matches!(
            self.status,
            None | Some(400 | 401 | 403 | 404 | 405 | 410 | 421 | 429)
        )
    }

    pub(super) fn media_type(&self) -> Option<String> {
        let value = self.field("content-type")?;
        let essence = value.split(';').next().unwrap_or_default();
        Some(essence.trim().to_ascii_lowercase())
    }

    pub(super) fn is_html(&self) -> bool {
        self.media_type().is_some_and(|name| name == "text/html")
    }

    /// The time in seconds for which browsers may use the response without revalidation. `None`: the response does not specify it.
    pub(super) fn lifetime(&self) -> Option<u64> {
        let control = self
            .field("cache-control")
            .unwrap_or_default()
            .to_ascii_lowercase();
        let directives = || control.split(',').map(str::trim);
        if directives().any(|one| one == "no-store" || one == "no-cache") {
            return Some(0);
        }
        let age = directives().find_map(|one| one.strip_prefix("max-age="));
        if let Some(age) = age {
            return age.trim_matches('"').parse().ok();
        }
        let expires = self.field("expires")?;
        let time = |text: &str| httpdate::parse_http_date(text).ok();
        let now = self
            .field("date")
            .and_then(|date| time(&date))
            .unwrap_or_else(SystemTime::now);
        // An invalid date counts as a past one (RFC 9111 section 5.3).
        let left = time(&expires).and_then(|expires| expires.duration_since(now).ok());
        Some(left.map_or(0, |left| left.as_secs()))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn seen(
        status: u16,
        fields: &[[&'static str; 2]],
        body: &'static str,
    ) -> SeenResponse {
        let mut map = HeaderMap::new();
        for [name, value] in fields {
            map.append(*name, value.parse().unwrap());
        }
        SeenResponse {
            status: Some(status),
            fields: map,
            body: Bytes::from_static(body.as_bytes()),
            trouble: None,
        }
    }

    #[test]
    fn lifetimes_are_computed_like_in_browsers() {
        let lifetime = |fields: &[[&'static str; 2]]| seen(200, fields, "").lifetime();
        assert_eq!(lifetime(&[]), None);
        assert_eq!(
            lifetime(&[["cache-control", "public, Max-Age=60"]]),
            Some(60)
        );
        assert_eq!(
            lifetime(&[
                ["cache-control", "max-age=60"],
                ["cache-control", "no-cache"]
            ]),
            Some(0)
        );
        let date = ["date", "Thu, 01 Jan 2026 00:00:00 GMT"];
        assert_eq!(
            lifetime(&[date, ["expires", "Thu, 01 Jan 2026 00:01:00 GMT"]]),
            Some(60)
        );
        assert_eq!(
            lifetime(&[date, ["expires", "Wed, 31 Dec 2025 00:01:00 GMT"]]),
            Some(0)
        );
        assert_eq!(lifetime(&[["expires", "0"]]), Some(0));
    }
}
