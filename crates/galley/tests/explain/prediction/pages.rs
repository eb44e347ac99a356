//! The upstream: the path of a request describes the response.
//!
//! `/x-m600-s60-g300-t3/` is a page with `max-age=600, stale-while-revalidate=60`, `Age: 300` and the tag `t3`. The first letter
//! selects the rules of the site ([`super::sites`]). The same pages come over HTTP and over FastCGI.

use std::fmt::Write as _;

use galley_testkit::TestkitError;
use galley_testkit::origin::{FastCgiOrigin, Origin};

use super::random::Random;

/// Kinds of pages. Ends of freshness and stale windows are more than a minute apart, so that none ends during a run.
const KINDS: &[&str] = &[
    "m600",
    "m600",
    "m600",
    "m600-s600",
    "m600-i600",
    "m600-s600-i1200",
    "m0-s600",
    "m0-i600",
    "m0",
    "m600-g300",
    "m600-s600-g900",
    "m600-i600-g900",
    "m600-s300-i900-g1200",
    "m600-g900",
    "m600-f",
    "m600-f",
    "m600-g300-f",
    "m600-s600-g900-f",
    "m600-l",
    "m600-l",
    "m600-s600-g900-l",
    "m600-e",
    "m600-g900-e",
    "m600-i600-g900-e",
    "m600-v",
    "m600-s600-g900-v",
    "m600-q",
    "m600-a",
    "m600-u",
    "m600-i600-g900-u",
    "m600-n",
    "m600-p",
    "m600-c",
    "m600-k",
    "m600-w",
    "m600-h",
    "m600-d",
    "m600-r",
    "m600-o",
    "m600-y",
    "m600-b",
    "z",
];

/// The path of a generated page. There are few paths, so that requests find stored pages.
pub fn generate_path(random: &mut Random) -> String {
    let rule = random.choose(&["x", "x", "x", "x", "y", "z"]);
    format!("/{rule}-{}-t{}/", random.choose(KINDS), random.below(3))
}

struct Page {
    status: u16,
    fields: Vec<(&'static str, String)>,
    body: String,
}

/// The parts of a request that the upstream uses.
struct PageRequest<'a> {
    path: &'a str,
    /// Definitions of the fragments to send instead of the page.
    fragments: Option<&'a str>,
    if_none_match: Option<&'a str>,
    range: Option<&'a str>,
}

impl Page {
    fn from_request(request: &PageRequest<'_>) -> Self {
        if let Some(definitions) = request.fragments {
            return Self::from_fragments(definitions);
        }
        let mut page = Self {
            status: 200,
            fields: vec![("Content-Type", "text/html".to_owned())],
            body: format!("<html>{}</html>", request.path),
        };
        let mut control = Vec::new();
        for word in request.path.trim_matches('/').split('-').skip(1) {
            let (letter, number) = word.split_at(1);
            page.add(letter, number, &mut control);
        }
        if !control.is_empty() {
            page.push("Cache-Control", &control.join(", "));
        }
        page.respond_to_condition(request)
    }

    /// Adds an ESI include of another page, with a tag that other pages have, too.
    fn insert_include(&mut self) {
        self.push("Surrogate-Control", "content=\"ESI/1.0\"");
        self.body
            .push_str("<esi:include src=\"/x-m600-t1/\" onerror=\"continue\"/>");
    }

    /// Adds the property that a letter of the path stands for.
    fn add(&mut self, letter: &str, number: &str, control: &mut Vec<String>) {
        match letter {
            "m" => control.push(format!("max-age={number}")),
            "s" => control.push(format!("stale-while-revalidate={number}")),
            "i" => control.push(format!("stale-if-error={number}")),
            "u" => control.push("must-revalidate".to_owned()),
            "a" => control.push("public".to_owned()),
            "n" => control.push("no-store".to_owned()),
            "p" => control.push("private".to_owned()),
            "c" => control.push("no-cache".to_owned()),
            "g" => self.push("Age", number),
            "t" => self.push("Cache-Tag", &format!("t{number}")),
            "k" => self.push("Set-Cookie", "PHPSESSID=topsecret; path=/"),
            "v" => self.push("Vary", "Accept-Language"),
            "w" => self.push("Vary", "*"),
            "q" => self.push("No-Vary-Search", "params=(\"a\")"),
            "e" => self.push("ETag", "\"e\""),
            "h" => self.push("Expires", "Wed, 11 Jan 1984 05:00:00 GMT"),
            "f" => self.insert_fragments(),
            "l" => self.insert_include(),
            "b" => self.body.truncate("<html>".len()),
            "d" => self.status = 404,
            "o" => self.status = 500,
            "y" => self.status = 418,
            "r" => {
                self.status = 302;
                self.push("Location", "/x-m600-t0/");
            }
            // A page without a lifetime.
            _ => {}
        }
    }

    fn push(&mut self, name: &'static str, value: &str) {
        self.fields.push((name, value.to_owned()));
    }

    fn insert_fragments(&mut self) {
        for (number, part) in PARTS.iter().enumerate() {
            let (start, length) = (self.body.len(), part.len());
            self.body.push_str(part);
            let field = format!("widget/{number} {start} {length} - d{number} f{number}");
            self.push("Galley-Fragment", &field);
        }
    }

    fn from_fragments(definitions: &str) -> Self {
        let mut page = Self {
            status: 200,
            fields: vec![("Content-Type", "text/plain".to_owned())],
            body: String::new(),
        };
        page.push("Cache-Control", "max-age=600");
        for (number, definition) in definitions.split(',').enumerate() {
            let which: usize = definition.trim_start_matches('d').parse().unwrap_or(0);
            let part = PARTS[which % PARTS.len()];
            let (start, length) = (page.body.len(), part.len());
            page.body.push_str(part);
            let field = format!("widget/{which} {start} {length} - {number} f{which}");
            page.push("Galley-Fragment", &field);
        }
        page
    }

    fn respond_to_condition(mut self, request: &PageRequest<'_>) -> Self {
        let has_etag = self.fields.iter().any(|(name, _)| *name == "ETag");
        if has_etag
            && request
                .if_none_match
                .is_some_and(|tags| tags.contains("\"e\""))
        {
            self.status = 304;
        } else if has_etag && request.range == Some("bytes=0-3") {
            let length = self.body.len();
            self.status = 206;
            self.push("Content-Range", &format!("bytes 0-3/{length}"));
            self.body.truncate(4);
        }
        self
    }
}

pub fn start_http_upstream() -> Result<Origin, TestkitError> {
    Origin::start_unrecorded(|request, writer| {
        let page = Page::from_request(&PageRequest {
            path: request.path(),
            fragments: request.field("galley-fragment"),
            if_none_match: request.field("if-none-match"),
            range: request.field("range"),
        });
        let fields: Vec<(&str, &str)> = page
            .fields
            .iter()
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        let _ = writer.respond(page.status, &fields, page.body.as_bytes());
    })
}

pub fn start_fastcgi_upstream() -> Result<FastCgiOrigin, TestkitError> {
    FastCgiOrigin::start(|request, writer| {
        let param = |name: &str| Some(request.param(name)).filter(|value| !value.is_empty());
        let uri = request.param("REQUEST_URI");
        let page = Page::from_request(&PageRequest {
            path: uri.split('?').next().unwrap_or_default(),
            fragments: param("HTTP_GALLEY_FRAGMENT"),
            if_none_match: param("HTTP_IF_NONE_MATCH"),
            range: param("HTTP_RANGE"),
        });
        let mut head = format!("Status: {}\r\n", page.status);
        for (name, value) in &page.fields {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        let is_bodiless = page.status == 304 || request.param("REQUEST_METHOD") == "HEAD";
        let body = if is_bodiless { "" } else { &page.body };
        let _ = writer.respond(&head, body.as_bytes());
    })
}

/// The fragments of all pages.
const PARTS: &[&str] = &["<ul><li>recent</li></ul>", "<nav>menu</nav>"];
