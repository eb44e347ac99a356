//! Generated requests and purges.

use serde_json::{Value, json};

use super::pages;
use super::random::Random;

pub type Field = (&'static str, &'static str);

/// One step of a run, at one site.
#[derive(Clone, Debug)]
pub enum Step {
    Request(GeneratedRequest),
    /// The body of `POST /purge`, and the request that follows.
    Purge(Value, GeneratedRequest),
}

#[derive(Clone, Debug)]
pub struct GeneratedRequest {
    pub method: &'static str,
    pub target: String,
    pub fields: Vec<Field>,
    pub is_http2: bool,
}

/// Generates a step. `paths` are the few paths of the site, so that requests find stored pages.
pub fn generate_step(random: &mut Random, host: &str, paths: &[String]) -> Step {
    if !random.one_in(6) {
        return Step::Request(generate_request(random, paths));
    }
    let path = &paths[random.below(paths.len())];
    let body = generate_purge(random, host, path);
    let next = if random.one_in(4) {
        generate_request(random, paths)
    } else {
        GeneratedRequest::plain(random, path)
    };
    Step::Purge(body, next)
}

/// The paths of a site. The first is a page with fragments, because few generated pages have fragments.
pub fn generate_paths(random: &mut Random) -> Vec<String> {
    let generated = (1..PATHS).map(|_| pages::generate_path(random));
    std::iter::once("/x-m600-f-t0/".to_owned())
        .chain(generated)
        .collect()
}

impl GeneratedRequest {
    /// The request of most visitors.
    fn plain(random: &mut Random, path: &str) -> Self {
        Self {
            method: "GET",
            target: path.to_owned(),
            fields: Vec::new(),
            is_http2: random.one_in(3),
        }
    }
}

fn generate_request(random: &mut Random, paths: &[String]) -> GeneratedRequest {
    if random.one_in(3) {
        let path = &paths[random.below(paths.len())];
        return GeneratedRequest::plain(random, path);
    }
    let method = match random.below(16) {
        0..12 => "GET",
        12..14 => "HEAD",
        _ => random.choose(&[
            "POST", "OPTIONS", "TRACE", "PURGE", "BAN", "FOO", "PROPFIND",
        ]),
    };
    let path = if random.one_in(8) {
        random.choose(FIXED_PATHS).to_owned()
    } else {
        paths[random.below(paths.len())].clone()
    };
    let query = random.choose(QUERIES);
    let is_http2 = random.one_in(3);
    let mut fields: Vec<Field> = Vec::new();
    for _ in 0..random.below(3) {
        let field = FIELDS[random.below(FIELDS.len())];
        // Two fields with the same name would form a list. HTTP/2 has no `Upgrade`.
        let is_allowed = !(is_http2 && field.0 == "Upgrade");
        if is_allowed && fields.iter().all(|(name, _)| *name != field.0) {
            fields.push(field);
        }
    }
    GeneratedRequest {
        method,
        target: format!("{path}{query}"),
        fields,
        is_http2,
    }
}

fn generate_purge(random: &mut Random, host: &str, path: &str) -> Value {
    let url = format!("http://{host}{path}{}", random.choose(QUERIES));
    let mut body = match random.below(12) {
        // Tags of fragments.
        0..9 if path.contains("-f-") => json!({ "tags": [format!("f{}", random.below(2))] }),
        0..5 => json!({ "urls": [url] }),
        5..9 => json!({ "tags": [format!("t{}", random.below(3))] }),
        9 => json!({ "prefixes": [path] }),
        10 => json!({ "patterns": [format!("^{path}")] }),
        _ => json!({ "all": true }),
    };
    body["site"] = json!(host);
    body["soft"] = json!(random.one_in(2));
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

const FIXED_PATHS: &[&str] = &[
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
