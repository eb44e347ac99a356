//! CGI: the variables of a request, and the head of a response (RFC 3875).
//!
//! Variables are made from typed values only. Fields of clients become `HTTP_*` variables and nothing else, so none can set
//! `PHP_VALUE` or `SCRIPT_FILENAME`; no two field names share a variable; `HTTP_PROXY` never exists (CVE-2016-5385).
//! A field of a response that has no valid name or value is dropped; a line that another parser could read as framing, as two
//! lines or as another field is an error. This module neither searches for scripts nor frames records.

use std::borrow::Cow;
use std::net::IpAddr;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use crate::fields::{FieldFlaw, connection_tokens, field_flaw, is_hop_by_hop, is_plain_name};
use crate::forward::{BodyLength, Client, UpstreamRequest, address_text};
use crate::request_info::Scheme;
use crate::route;
use crate::trace_context::TraceParent;

/// A script that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// `SCRIPT_FILENAME`: the absolute path of the file.
    pub filename: Vec<u8>,
    /// `SCRIPT_NAME`: the decoded path on the site.
    pub name: Vec<u8>,
    /// `PATH_INFO`: the decoded rest of the path after the script, with its slash.
    pub path_info: Option<Vec<u8>>,
    /// `DOCUMENT_ROOT`: an absolute path.
    pub document_root: Vec<u8>,
}

/// The connection of a request.
#[derive(Clone, Copy, Debug)]
pub struct CgiConnection<'a> {
    /// The client.
    pub client: Client<'a>,
    /// `SERVER_ADDR`.
    pub server_address: Option<IpAddr>,
}

/// The name and value of a variable.
pub type Variable<'a> = (Cow<'a, [u8]>, Cow<'a, [u8]>);

/// The variables that PHP gets for a request.
///
/// Source: RFC 3875 section 4.1, and variables that nginx adds and WordPress reads: `HTTPS`, `REQUEST_URI`, `DOCUMENT_ROOT`.
pub fn variables<'a>(
    request: &'a UpstreamRequest,
    script: &'a Script,
    connection: &CgiConnection<'_>,
) -> Vec<Variable<'a>> {
    let mut out = Vec::with_capacity(request.fields.len() + 28);
    request_variables(request, &mut out);
    script_variables(script, &mut out);
    let mut set =
        |name: &'static str, value: String| out.push((borrowed(name), value.into_bytes().into()));
    set("REMOTE_ADDR", address_text(connection.client.address));
    // A proxy names the address, but seldom the port.
    if connection.client.port != 0 {
        set("REMOTE_PORT", connection.client.port.to_string());
    }
    if let Some(address) = connection.server_address {
        set("SERVER_ADDR", address_text(address));
    }
    field_variables(request, &mut out);
    out
}

/// The variable of `traceparent`.
pub fn trace_parent(parent: &TraceParent) -> Variable<'static> {
    (
        Cow::Borrowed(b"HTTP_TRACEPARENT"),
        parent.text().into_bytes().into(),
    )
}

fn borrowed(text: &str) -> Cow<'_, [u8]> {
    Cow::Borrowed(text.as_bytes())
}

fn request_variables<'a>(request: &'a UpstreamRequest, out: &mut Vec<Variable<'a>>) {
    let mut set = |name: &'static str, value: Cow<'a, [u8]>| out.push((borrowed(name), value));
    let query = request.query.as_deref().unwrap_or_default();
    let uri = if request.query.is_some() {
        [&request.path, b"?".as_slice(), query].concat().into()
    } else {
        Cow::Borrowed(request.path.as_slice())
    };
    let host = route::canonical_host(request.host.as_bytes()).unwrap_or_default();
    let port =
        route::named_port(request.host.as_bytes(), &host).unwrap_or(request.scheme.default_port());

    set("GATEWAY_INTERFACE", borrowed("CGI/1.1"));
    set("SERVER_SOFTWARE", borrowed(SOFTWARE));
    set("SERVER_PROTOCOL", borrowed("HTTP/1.1"));
    set("SERVER_NAME", host.into_bytes().into());
    set("SERVER_PORT", port.to_string().into_bytes().into());
    set("REQUEST_METHOD", borrowed(&request.method));
    set("REQUEST_SCHEME", borrowed(request.scheme.as_str()));
    set("REQUEST_URI", uri);
    set("QUERY_STRING", query.into());
    if request.scheme == Scheme::Https {
        // WordPress's `is_ssl()` checks only this variable and the port.
        set("HTTPS", borrowed("on"));
    }
    if request.has_stored_pages {
        // WordPress 7.1: pages are loaded in advance when the pointer rests on a link, not only when the button is down. Settings of the
        // owner and of plugins take precedence.
        set(EAGERNESS, borrowed("moderate"));
    }
    if let BodyLength::Known(length) = request.body_length {
        set("CONTENT_LENGTH", length.to_string().into_bytes().into());
    }
    if !request.host.is_empty() {
        set("HTTP_HOST", borrowed(&request.host));
    }
}

fn script_variables<'a>(script: &'a Script, out: &mut Vec<Variable<'a>>) {
    let mut set = |name: &'static str, value: Cow<'a, [u8]>| out.push((borrowed(name), value));
    // An empty PATH_INFO is omitted: with a script that has a suffix it once made PHP-FPM write before its buffer
    // (CVE-2019-11043).
    let path_info = script.path_info.as_deref().filter(|info| !info.is_empty());
    let document_uri = path_info.map_or(Cow::Borrowed(script.name.as_slice()), |info| {
        [&script.name, info].concat().into()
    });

    set("DOCUMENT_ROOT", script.document_root.as_slice().into());
    set("DOCUMENT_URI", document_uri);
    set("SCRIPT_FILENAME", script.filename.as_slice().into());
    set("SCRIPT_NAME", script.name.as_slice().into());
    if let Some(info) = path_info {
        set("PATH_INFO", info.into());
    }
    // php-cgi does not run without it (`cgi.force_redirect`).
    set("REDIRECT_STATUS", borrowed("200"));
}

/// Adds the `HTTP_*` variables, with the lines of one field joined.
fn field_variables<'a>(request: &'a UpstreamRequest, out: &mut Vec<Variable<'a>>) {
    let first = out.len();
    for (name, value) in &request.fields {
        if name == "x-lscache" {
            push_lscache(value, out);
            continue;
        }
        let Some(variable) = variable_name(name.as_str()) else {
            continue;
        };
        let earlier = out
            .iter_mut()
            .skip(first)
            .find(|(known, _)| *known == variable);
        match earlier {
            None => out.push((variable.into(), value.as_bytes().into())),
            // CONTENT_TYPE has a single value; the first counts.
            Some(_) if variable == b"CONTENT_TYPE" => {}
            Some((_, known)) => {
                let known = known.to_mut();
                known.extend_from_slice(if name == http::header::COOKIE {
                    b"; "
                } else {
                    b", "
                });
                known.extend_from_slice(value.as_bytes());
            }
        }
    }
}

/// `LiteSpeed`'s plugin assumes that a cache in `HTTP_X_LSCACHE` processes its ESI tags. These two variables announce a cache
/// that does not, for which the plugin never uses ESI, whatever its settings are.
fn push_lscache<'a>(value: &'a HeaderValue, out: &mut Vec<Variable<'a>>) {
    out.push((borrowed("X-LSCACHE"), value.as_bytes().into()));
    out.push((borrowed("LSWS_EDITION"), borrowed("Openlitespeed (Galley)")));
}

/// The variable of a field; `None` if it has none.
fn variable_name(name: &str) -> Option<Vec<u8>> {
    if name == "content-type" {
        return Some(b"CONTENT_TYPE".to_vec());
    }
    let is_reserved = matches!(
        name,
        "proxy" | "host" | "content-length" | "transfer-encoding"
    );
    if is_reserved || !is_plain_name(name) || is_hop_by_hop(name, std::iter::empty()) {
        return None;
    }
    let mut variable = [b"HTTP_", name.as_bytes()].concat();
    for byte in &mut variable {
        *byte = match *byte {
            b'-' => b'_',
            other => other.to_ascii_uppercase(),
        };
    }
    Some(variable)
}

/// The default that WordPress 7.1 reads for its speculation rules.
const EAGERNESS: &str = "WP_SPECULATIVE_LOADING_DEFAULT_EAGERNESS";

/// The value of `SERVER_SOFTWARE`. Because it contains `nginx`, WordPress writes no `.htaccess` and offers permalinks without
/// `index.php`. It must not contain `Apache` or `LiteSpeed`, which announce a server that reads such files.
const SOFTWARE: &str = concat!("galley/", env!("CARGO_PKG_VERSION"), " (nginx)");

/// Why the head of a CGI response is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadCgiHead {
    /// A field that no parser may guess at: white space or a control character in its name, a CR or NUL in its value, or a framing
    /// field with an invalid value.
    #[error("malformed field in the head of the CGI response")]
    Field,
    /// `Status` is not a final status from 200 to 999, or occurs twice with different values.
    #[error("invalid status in the head of the CGI response")]
    Status,
    /// `Content-Length` occurs twice with different values.
    #[error("two content lengths in the head of the CGI response")]
    Length,
    /// More fields than [`MAX_FIELDS`].
    #[error("too many fields in the head of the CGI response")]
    TooMany,
    /// There are bytes after the empty line.
    #[error("bytes after the head of the CGI response")]
    Trailing,
}

/// The maximum number of fields in a response: plugins set dozens of cookies and links, but no page sets this many.
pub const MAX_FIELDS: usize = 512;

/// The head of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CgiHead {
    /// The final status.
    pub status: StatusCode,
    /// The end-to-end fields.
    pub fields: HeaderMap,
    /// The worst flaw of the fields that were dropped.
    pub dropped: Option<FieldFlaw>,
}

/// Parses the head of a response, with or without the empty line that ends it; lines end with LF or CRLF.
///
/// `Status` contains the status; without it a head with `Location` means 302, any other 200 (RFC 3875 section 6.2). Hop-by-hop
/// fields are dropped: Galley frames the message itself. LF alone is accepted here, unlike from HTTP upstreams: by RFC 3875
/// section 6.2 lines end as in the server's system, programs behind fcgiwrap send LF, and the records around the head make it
/// unambiguous.
pub fn response(head: &[u8]) -> Result<CgiHead, BadCgiHead> {
    let mut status = None;
    let mut fields = HeaderMap::new();
    let mut dropped = None;
    let mut rest = head;
    while let Some((line, tail)) = next_line(rest) {
        rest = tail;
        if line.is_empty() {
            if tail.is_empty() {
                break;
            }
            return Err(BadCgiHead::Trailing);
        }
        let colon = memchr::memchr(b':', line).unwrap_or(line.len());
        let (name, value) = line.split_at(colon);
        let value = value.get(1..).map(<[u8]>::trim_ascii);
        // Also rejects leading blanks: a folded line does not begin a field.
        match field_flaw(name, value) {
            None => {}
            Some(FieldFlaw::Dangerous) => return Err(BadCgiHead::Field),
            Some(flaw) => {
                dropped = dropped.max(Some(flaw));
                continue;
            }
        }
        let name = HeaderName::from_bytes(name).map_err(|_| BadCgiHead::Field)?;
        let value = value.unwrap_or_default();
        if name == "status" {
            let code = parse_status(value)?;
            if status.is_some_and(|known| known != code) {
                return Err(BadCgiHead::Status);
            }
            status = Some(code);
            continue;
        }
        if fields.len() >= MAX_FIELDS {
            return Err(BadCgiHead::TooMany);
        }
        let value = HeaderValue::from_bytes(value).map_err(|_| BadCgiHead::Field)?;
        fields
            .try_append(name, value)
            .map_err(|_| BadCgiHead::TooMany)?;
    }
    let mut lengths = fields.get_all(http::header::CONTENT_LENGTH).iter();
    if let Some(first) = lengths.next()
        && lengths.any(|other| other != first)
    {
        return Err(BadCgiHead::Length);
    }
    drop_hop_by_hop(&mut fields);
    let status = status.unwrap_or_else(|| {
        if fields.contains_key(http::header::LOCATION) {
            StatusCode::FOUND
        } else {
            StatusCode::OK
        }
    });
    Ok(CgiHead {
        status,
        fields,
        dropped,
    })
}

/// Returns the first line without its end, and the rest. The last line may have no end.
fn next_line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    if bytes.is_empty() {
        return None;
    }
    let end = memchr::memchr(b'\n', bytes).unwrap_or(bytes.len());
    let line = bytes.get(..end).unwrap_or_default();
    Some((
        line.strip_suffix(b"\r").unwrap_or(line),
        bytes.get(end + 1..).unwrap_or_default(),
    ))
}

/// Parses `404 Not Found`: three digits, then nothing, or a blank and a reason.
fn parse_status(value: &[u8]) -> Result<StatusCode, BadCgiHead> {
    let (digits, reason) = value.split_first_chunk::<3>().ok_or(BadCgiHead::Status)?;
    if !matches!(reason.first(), None | Some(b' ' | b'\t')) {
        return Err(BadCgiHead::Status);
    }
    let code = StatusCode::from_bytes(digits).map_err(|_| BadCgiHead::Status)?;
    // 1xx is not a final response. A client treats a status above 599 as a server error (RFC 9110 section 15).
    if code.is_informational() {
        Err(BadCgiHead::Status)
    } else {
        Ok(code)
    }
}

fn drop_hop_by_hop(fields: &mut HeaderMap) {
    let connection: Vec<HeaderValue> = fields
        .get_all(http::header::CONNECTION)
        .iter()
        .cloned()
        .collect();
    let tokens = connection_tokens(connection.iter().map(HeaderValue::as_bytes));
    let names: Vec<HeaderName> = fields
        .keys()
        .filter(|name| is_hop_by_hop(name.as_str(), tokens.clone()))
        .cloned()
        .collect();
    for name in names {
        fields.remove(name);
    }
}
