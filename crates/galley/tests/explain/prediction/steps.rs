//! Generated requests and purges.

use serde_json::{Value, json};

use super::dice::Dice;
use super::pages;

pub type Field = (&'static str, &'static str);

/// Some steps of a run, at one site.
#[derive(Clone, Debug)]
pub enum Step {
    Request(Ask),
    /// The body of `POST /purge`, and the request that follows.
    Purge(Value, Ask),
}

#[derive(Clone, Debug)]
pub struct Ask {
    pub method: &'static str,
    pub target: String,
    pub fields: Vec<Field>,
    pub is_http2: bool,
}

/// `paths` are those of the site: few, so that requests meet.
pub fn step(dice: &mut Dice, host: &str, paths: &[String]) -> Step {
    if !dice.once_in(6) {
        return Step::Request(ask(dice, paths));
    }
    let path = &paths[dice.below(paths.len())];
    let body = purge(dice, host, path);
    let next = if dice.once_in(4) {
        ask(dice, paths)
    } else {
        Ask::plain(dice, path)
    };
    Step::Purge(body, next)
}

/// The paths of a site. The first is a page with fragments, which only few of the generated ones are.
pub fn paths(dice: &mut Dice) -> Vec<String> {
    let generated = (1..PATHS).map(|_| pages::path(dice));
    std::iter::once("/x-m600-f-t0/".to_owned())
        .chain(generated)
        .collect()
}

impl Ask {
    /// What most visitors send.
    fn plain(dice: &mut Dice, path: &str) -> Self {
        Self {
            method: "GET",
            target: path.to_owned(),
            fields: Vec::new(),
            is_http2: dice.once_in(3),
        }
    }
}

fn ask(dice: &mut Dice, paths: &[String]) -> Ask {
    if dice.once_in(3) {
        let path = &paths[dice.below(paths.len())];
        return Ask::plain(dice, path);
    }
    let method = match dice.below(16) {
        0..12 => "GET",
        12..14 => "HEAD",
        _ => dice.one_of(&[
            "POST", "OPTIONS", "TRACE", "PURGE", "BAN", "FOO", "PROPFIND",
        ]),
    };
    let path = if dice.once_in(8) {
        dice.one_of(FIXED).to_owned()
    } else {
        paths[dice.below(paths.len())].clone()
    };
    let query = dice.one_of(QUERIES);
    let is_http2 = dice.once_in(3);
    let mut fields: Vec<Field> = Vec::new();
    for _ in 0..dice.below(3) {
        let field = FIELDS[dice.below(FIELDS.len())];
        // Two lines of one name would be a list. HTTP/2 has no `Upgrade`.
        let is_fit = !(is_http2 && field.0 == "Upgrade");
        if is_fit && fields.iter().all(|(name, _)| *name != field.0) {
            fields.push(field);
        }
    }
    Ask {
        method,
        target: format!("{path}{query}"),
        fields,
        is_http2,
    }
}

fn purge(dice: &mut Dice, host: &str, path: &str) -> Value {
    let url = format!("http://{host}{path}{}", dice.one_of(QUERIES));
    let mut body = match dice.below(12) {
        // Of fragments.
        0..9 if path.contains("-f-") => json!({ "tags": [format!("f{}", dice.below(2))] }),
        0..5 => json!({ "urls": [url] }),
        5..9 => json!({ "tags": [format!("t{}", dice.below(3))] }),
        9 => json!({ "prefixes": [path] }),
        10 => json!({ "patterns": [format!("^{path}")] }),
        _ => json!({ "all": true }),
    };
    body["site"] = json!(host);
    body["soft"] = json!(dice.once_in(2));
    body
}

const PATHS: usize = 10;

const QUERIES: &[&str] = &[
    "",
    "",
    "",
    "",
    "",
    "?a=1",
    "?a=2",
    "?ref=1",
    "?utm_source=x",
    "?preview=true",
    "?a=1&ref=2",
];

const FIXED: &[&str] = &[
    "/",
    "/style.css",
    "/.env",
    "/folder",
    "/index.php",
    "/wp-admin/",
    "/wp-login.php",
    "/purge/x-m600-t0/",
];

pub const FIELDS: &[Field] = &[
    ("Cookie", "_ga=1"),
    ("Cookie", "member_1=x"),
    ("Cookie", "currency=eur"),
    ("Cookie", "wordpress_logged_in_0=x"),
    ("Range", "bytes=0-3"),
    ("If-Range", "\"x\""),
    ("Authorization", "Basic eDp5"),
    ("Accept-Language", "de"),
    ("Accept-Language", "en"),
    ("Accept", "application/json"),
    ("Accept-Encoding", "gzip"),
    ("Cache-Control", "no-cache"),
    ("Cache-Control", "no-store"),
    ("Cache-Control", "max-age=0"),
    ("Cache-Control", "max-age=120"),
    ("Cache-Control", "min-fresh=500"),
    ("Cache-Control", "max-stale"),
    ("Cache-Control", "max-stale=100"),
    ("Cache-Control", "only-if-cached"),
    ("Pragma", "no-cache"),
    (
        "User-Agent",
        "Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X) Mobile/15E148",
    ),
    ("X-Requested-With", "XMLHttpRequest"),
    ("X-Forwarded-For", "192.0.2.1"),
    ("Origin", "https://other.test"),
    ("If-None-Match", "\"x\""),
    ("If-None-Match", "\"e\""),
    ("If-Modified-Since", "Sun, 06 Nov 1994 08:49:37 GMT"),
    ("CDN-Loop", "other"),
    ("Upgrade", "websocket"),
];
