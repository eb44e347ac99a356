//! Responses that name a file to send in their place, as programs send them to nginx, Apache and `LiteSpeed`.
//!
//! `X-Accel-Redirect` contains a URI, `X-Sendfile` the absolute path of a file, and `X-LiteSpeed-Location` either. These fields
//! are for this server: they are always taken out of the response. Whether the file may be sent is decided elsewhere.

use std::path::PathBuf;

use http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE, EXPIRES, SET_COOKIE,
};
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::uri;

/// A folder that is closed to visitors. Responses may name its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InternalFolder {
    /// The decoded path on the site, with a slash at both ends.
    pub path: String,
    /// The absolute path of the folder with its files; `None`: the folder at `path` below the root.
    pub folder: Option<PathBuf>,
}

/// A file to send in place of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendFile {
    /// The file.
    pub target: SendTarget,
    /// `X-Accel-Limit-Rate`: the speed at which the file is sent, in bytes per second.
    pub bytes_per_s: Option<u64>,
    /// `X-Accel-Charset`: the charset of a text whose type has none.
    pub charset: Option<String>,
}

/// The name of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SendTarget {
    /// A decoded path on the site.
    Uri(Vec<u8>),
    /// The absolute path of a file.
    File(Vec<u8>),
    /// Either.
    UriOrFile(Vec<u8>),
}

impl SendTarget {
    /// The path.
    pub fn path(&self) -> &[u8] {
        match self {
            Self::Uri(path) | Self::File(path) | Self::UriOrFile(path) => path,
        }
    }
}

/// Takes the name of a file out of the fields of a response. Of several, that for nginx counts, whose name Galley uses in
/// `SERVER_SOFTWARE`.
pub fn take(fields: &mut HeaderMap) -> Option<SendFile> {
    let mut names = [ACCEL_REDIRECT, SENDFILE, LITESPEED_LOCATION].into_iter();
    let [accel, sendfile, litespeed] = std::array::from_fn(|_| {
        let name = names.next()?;
        fields.contains_key(&name).then(|| fields.remove(&name))?
    });
    let accel = accel.map(|value| SendTarget::Uri(decoded_uri(value.as_bytes())));
    let sendfile = || sendfile.map(|value| SendTarget::File(value.as_bytes().to_vec()));
    let litespeed = || litespeed.map(|value| SendTarget::UriOrFile(decoded_uri(value.as_bytes())));
    let target = accel.or_else(sendfile).or_else(litespeed)?;
    Some(SendFile {
        target,
        bytes_per_s: fields.get(LIMIT_RATE).and_then(rate),
        charset: fields.get(CHARSET).and_then(charset),
    })
}

/// The fields of the program's response that the response with the file has, too: those that nginx keeps
/// (`ngx_http_upstream_headers_in`). Without a lifetime, only the client's own cache may store the file.
pub fn kept_fields(fields: &HeaderMap, has_file: bool) -> HeaderMap {
    let mut kept = HeaderMap::new();
    for (name, value) in fields {
        let is_of_file = [CONTENT_TYPE, CONTENT_DISPOSITION, ACCEPT_RANGES].contains(name);
        if (has_file && is_of_file) || [SET_COOKIE, CACHE_CONTROL, EXPIRES].contains(name) {
            kept.append(name.clone(), value.clone());
        }
    }
    if !kept.contains_key(CACHE_CONTROL) && !kept.contains_key(EXPIRES) {
        kept.insert(CACHE_CONTROL, HeaderValue::from_static("private"));
    }
    kept
}

/// The path of a URI: without its query, percent-decoded. A `%` without two digits stands for itself, because plugins send names
/// of files as they are.
fn decoded_uri(value: &[u8]) -> Vec<u8> {
    let mut rest = value.split(|byte| *byte == b'?').next().unwrap_or_default();
    let mut decoded = Vec::with_capacity(rest.len());
    while let Some((byte, tail)) = rest.split_first() {
        let escaped = (*byte == b'%').then(|| uri::escape(tail)).flatten();
        let (byte, tail) = escaped.unwrap_or((*byte, tail));
        decoded.push(byte);
        rest = tail;
    }
    decoded
}

/// A number of bytes, at least 1; `off` and 0 set no limit.
fn rate(value: &HeaderValue) -> Option<u64> {
    let rate = value.to_str().ok()?.trim().parse().ok()?;
    (rate > 0).then_some(rate)
}

fn charset(value: &HeaderValue) -> Option<String> {
    let text = value.to_str().ok()?;
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    (text != "off" && !text.is_empty() && text.bytes().all(is_name)).then(|| text.to_owned())
}

const ACCEL_REDIRECT: HeaderName = HeaderName::from_static("x-accel-redirect");
const SENDFILE: HeaderName = HeaderName::from_static("x-sendfile");
const LITESPEED_LOCATION: HeaderName = HeaderName::from_static("x-litespeed-location");
const LIMIT_RATE: &str = "x-accel-limit-rate";
const CHARSET: &str = "x-accel-charset";

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(rows: &[(&'static str, &'static str)]) -> HeaderMap {
        let row = |(name, value): &(&'static str, &'static str)| {
            (
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            )
        };
        rows.iter().map(row).collect()
    }

    #[test]
    fn the_named_file_is_taken_out_of_the_fields() {
        let uri = |path: &str| SendTarget::Uri(path.into());
        let table = [
            (("x-accel-redirect", "/a/b%20c.zip?x=1"), uri("/a/b c.zip")),
            (("x-accel-redirect", "/100%.zip"), uri("/100%.zip")),
            (("x-accel-redirect", "/a%2f..%2fb%00"), uri("/a/../b\0")),
            (
                ("x-sendfile", "/srv/a%20b?c"),
                SendTarget::File(b"/srv/a%20b?c".to_vec()),
            ),
            (
                ("x-litespeed-location", "/a%20b"),
                SendTarget::UriOrFile(b"/a b".to_vec()),
            ),
        ];
        for (row, target) in table {
            let mut map = fields(&[row, ("content-type", "a/b")]);
            assert_eq!(take(&mut map).unwrap().target, target);
            assert_eq!(map, fields(&[("content-type", "a/b")]));
        }
        let mut all = fields(&[
            ("x-litespeed-location", "/l"),
            ("x-sendfile", "/s"),
            ("x-accel-redirect", "/a"),
            ("x-accel-limit-rate", "1000"),
            ("x-accel-charset", "koi8-r"),
        ]);
        let file = take(&mut all).unwrap();
        assert_eq!(file.target, uri("/a"));
        assert_eq!(
            (file.bytes_per_s, file.charset.as_deref()),
            (Some(1000), Some("koi8-r"))
        );
        assert_eq!(take(&mut all), None);
        for (name, value) in [
            ("x-accel-limit-rate", "off"),
            ("x-accel-limit-rate", "0"),
            ("x-accel-charset", "a b"),
        ] {
            let file = take(&mut fields(&[("x-sendfile", "/s"), (name, value)])).unwrap();
            assert_eq!((file.bytes_per_s, file.charset), (None, None));
        }
    }

    #[test]
    fn the_fields_that_nginx_keeps_are_kept() {
        let map = fields(&[
            ("content-type", "application/zip"),
            ("content-disposition", "attachment"),
            ("content-length", "0"),
            ("set-cookie", "a=b"),
            ("etag", "\"x\""),
            ("x-robots-tag", "noindex"),
        ]);
        let kept = kept_fields(&map, true);
        let wanted = [
            ("content-type", "application/zip"),
            ("content-disposition", "attachment"),
            ("set-cookie", "a=b"),
            ("cache-control", "private"),
        ];
        assert_eq!(kept, fields(&wanted));
        assert_eq!(kept_fields(&map, false), fields(&wanted[2..]));
    }
}
