//! Query parameters of the admin interface: few, named; unknown ones are rejected.

use std::collections::BTreeMap;

use axum::Json;
use axum::http::StatusCode;
use percent_encoding::percent_decode;
use serde_json::{Value, json};

use super::AdminState;
use super::auth::AdminClient;
use super::target::{JsonReply, JsonResult, refuse, target};
use galley_request::Site;

/// The parameters of a query.
#[derive(Debug, Default)]
pub(super) struct QueryParams(BTreeMap<String, String>);

impl QueryParams {
    /// Parses `a=1&b=2` (form encoding). Rejects names that are not in `known`, and repeated names.
    pub(super) fn read(raw: Option<&str>, known: &[&str]) -> Result<Self, JsonReply> {
        let mut parameters = BTreeMap::new();
        for part in raw.unwrap_or_default().split('&').filter(|p| !p.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let (name, value) = (decoded(name), decoded(value));
            if !known.contains(&name.as_str()) {
                let message = format!(
                    "unknown parameter `{name}`; the parameters are `{}`",
                    known.join("`, `")
                );
                return Err(refuse(StatusCode::BAD_REQUEST, &message));
            }
            if parameters.insert(name.clone(), value).is_some() {
                let message = format!("`{name}` is given twice");
                return Err(refuse(StatusCode::BAD_REQUEST, &message));
            }
        }
        Ok(Self(parameters))
    }

    /// The value of a parameter; `None` if it is empty.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let value = self.0.get(name).map(String::as_str);
        value.filter(|value| !value.is_empty())
    }

    /// A number from 1 to `most`; `otherwise` is the default.
    pub(super) fn number(&self, name: &str, otherwise: u64, most: u64) -> Result<u64, JsonReply> {
        let Some(text) = self.get(name) else {
            return Ok(otherwise);
        };
        let number = text.parse().ok().filter(|n| (1..=most).contains(n));
        number.ok_or_else(|| {
            let message = format!("`{name}` is a number from 1 to {most}, not `{text}`");
            refuse(StatusCode::BAD_REQUEST, &message)
        })
    }
}

fn decoded(text: &str) -> String {
    let text = text.replace('+', " ");
    percent_decode(text.as_bytes())
        .decode_utf8_lossy()
        .into_owned()
}

/// Responds to a query with the single parameter `site`: with the result of `describe` for each selected site.
pub(super) fn each_site(
    state: &AdminState,
    client: &AdminClient,
    query: Option<&str>,
    describe: impl Fn(&AdminState, &Site) -> Value,
) -> JsonResult {
    let query = QueryParams::read(query, &["site"])?;
    let target = target(state, client, query.get("site"))?;
    let sites = target.sites.iter().map(|site| describe(state, site));
    let sites: Vec<Value> = sites.collect();
    Ok((StatusCode::OK, Json(json!({ "ok": true, "sites": sites }))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_parsed_or_rejected() {
        let known = ["site", "limit"];
        let read = |raw| QueryParams::read(Some(raw), &known);
        let query = read("site=a%2Fb+c&limit=7&").unwrap();
        assert_eq!(query.get("site"), Some("a/b c"));
        assert_eq!(query.number("limit", 1, 10).unwrap(), 7);
        assert_eq!(query.number("other", 3, 10).unwrap(), 3);
        assert_eq!(read("site=").unwrap().get("site"), None);
        for bad in ["sites=a", "site=a&site=b"] {
            assert_eq!(read(bad).unwrap_err().0, StatusCode::BAD_REQUEST, "{bad}");
        }
        for bad in ["limit=0", "limit=11", "limit=-1", "limit=x"] {
            let query = read(bad).unwrap();
            assert!(query.number("limit", 1, 10).is_err(), "{bad}");
        }
    }
}
