//! Detection of responses with ESI tags: pages with `Surrogate-Control: content="ESI/1.0"` (Edge Architecture 1.0).
//!
//! A page without this field is never parsed. So a visitor's text that looks like a tag has no effect on other pages of a
//! site that uses ESI.

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use crate::fields::{members, name_value, parts};

const SURROGATE_CONTROL: HeaderName = HeaderName::from_static("surrogate-control");

/// The name of this surrogate, as directives are addressed to it.
const NAME: &[u8] = b"galley";

/// Returns whether a response is a page with ESI tags. If so, its `content` directives are removed, because Galley processes them.
/// A field without other directives is removed as a whole, because it states no lifetime.
pub fn take(status: StatusCode, fields: &mut HeaderMap) -> bool {
    let is_page = status == StatusCode::OK && is_html(fields);
    if !is_page || !fields.get_all(&SURROGATE_CONTROL).iter().any(names_esi) {
        return false;
    }
    let lines: Vec<HeaderValue> = fields.get_all(&SURROGATE_CONTROL).iter().cloned().collect();
    fields.remove(&SURROGATE_CONTROL);
    for line in lines {
        let others = members(line.as_bytes()).filter(|member| content(member).is_none());
        let others = others.collect::<Vec<_>>().join(&b", "[..]);
        if let Ok(value) = HeaderValue::from_bytes(&others)
            && !value.is_empty()
        {
            fields.append(SURROGATE_CONTROL, value);
        }
    }
    true
}

fn is_html(fields: &HeaderMap) -> bool {
    let mut types = fields.get_all(CONTENT_TYPE).iter();
    let (Some(value), None) = (types.next(), types.next()) else {
        return false;
    };
    let kind = parts(value.as_bytes()).next().unwrap_or_default();
    kind.eq_ignore_ascii_case(b"text/html")
}

fn names_esi(line: &HeaderValue) -> bool {
    members(line.as_bytes())
        .filter_map(content)
        .any(|languages| {
            let mut languages = languages.split(|&byte| byte == b' ');
            languages.any(|language| language.eq_ignore_ascii_case(b"ESI/1.0"))
        })
}

/// The value of a `content` directive for this surrogate or for all; `None`: another directive.
fn content(member: &[u8]) -> Option<&[u8]> {
    let mut parts = parts(member);
    let (name, value) = name_value(parts.next()?);
    let is_for_galley = parts.next().is_none_or(|target| target == NAME);
    let value = value?.trim_ascii();
    let text = value
        .strip_prefix(b"\"")
        .and_then(|text| text.strip_suffix(b"\""));
    (name.eq_ignore_ascii_case(b"content") && is_for_galley).then(|| text.unwrap_or(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(kind: &str, status: u16, lines: &[&str]) -> (bool, Vec<String>) {
        let mut fields = HeaderMap::new();
        fields.insert(CONTENT_TYPE, HeaderValue::from_str(kind).unwrap());
        for line in lines {
            fields.append(SURROGATE_CONTROL, HeaderValue::from_str(line).unwrap());
        }
        let is_template = take(StatusCode::from_u16(status).unwrap(), &mut fields);
        let left = fields.get_all(SURROGATE_CONTROL).iter();
        let left = left.map(|value| value.to_str().unwrap().to_owned());
        (is_template, left.collect())
    }

    #[test]
    fn only_pages_that_announce_esi_have_tags() {
        const ESI: &str = "content=\"ESI/1.0\"";
        let html = "text/html; charset=UTF-8";
        type Lines = &'static [&'static str];
        let table: &[(&str, u16, Lines, bool, Lines)] = &[
            (html, 200, &[ESI], true, &[]),
            ("TEXT/HTML", 200, &[ESI], true, &[]),
            (html, 200, &["Content=\"esi/1.0\""], true, &[]),
            (
                html,
                200,
                &["content=\"ESI/1.0 ESI-Inline/1.0\""],
                true,
                &[],
            ),
            (html, 200, &["content=ESI/1.0"], true, &[]),
            (
                html,
                200,
                &["max-age=60+30, content=\"ESI/1.0\""],
                true,
                &["max-age=60+30"],
            ),
            (html, 200, &["no-store", ESI], true, &["no-store"]),
            (html, 200, &["content=\"ESI/1.0\";galley"], true, &[]),
            (
                html,
                200,
                &["content=\"ESI/1.0\";other"],
                false,
                &["content=\"ESI/1.0\";other"],
            ),
            (
                html,
                200,
                &["content=\"ESI/2.0\""],
                false,
                &["content=\"ESI/2.0\""],
            ),
            (html, 200, &["content"], false, &["content"]),
            (html, 200, &["max-age=60"], false, &["max-age=60"]),
            (html, 200, &[], false, &[]),
            (html, 404, &[ESI], false, &[ESI]),
            ("text/plain", 200, &[ESI], false, &[ESI]),
            ("application/json", 200, &[ESI], false, &[ESI]),
            ("text/htmlx", 200, &[ESI], false, &[ESI]),
        ];
        for (kind, status, lines, expected, left) in table {
            let taken = taken(kind, *status, lines);
            let left: Vec<String> = left.iter().map(|&line| line.to_owned()).collect();
            assert_eq!(taken, (*expected, left), "{kind} {status} {lines:?}");
        }
    }
}
