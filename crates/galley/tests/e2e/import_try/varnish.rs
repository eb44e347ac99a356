//! Varnish in front of a server of its own, and the differences that are planted in its draft.

use galley_testkit::origin::Origin;

use super::planting::DraftEdit::{NewRule, NoRule, Rule, Site};
use super::planting::Plant;
use super::plants::{SITE_FIELDS, field, of};

/// The configuration; `{backend}` is the port of the server behind it.
pub const CONFIGURATION: &str = r#"vcl 4.1;
backend default { .host = "127.0.0.1"; .port = "{backend}"; }
acl purge { "localhost"; }
acl office { "127.0.0.1"; "10.9.0.0"/16; }
sub vcl_recv {
    if (req.method == "PURGE") {
        if (client.ip !~ purge) { return (synth(405)); }
        return (purge);
    }
    if (req.url ~ "^/internal") { return (synth(403, "Forbidden")); }
    if (req.url ~ "^/office" && client.ip !~ office) { return (synth(403, "Forbidden")); }
    if (req.url ~ "^/\.ht" || req.url ~ "^/wp-config\.php" || req.url ~ "^/xmlrpc\.php") {
        return (synth(403, "Forbidden"));
    }
    if (req.url ~ "/wp-(login|admin)" || req.url ~ "^/basket/") { return (pass); }
    if (req.http.Cookie ~ "wordpress_logged_in|comment_author|woocommerce_items_in_cart") { return (pass); }
    if (req.url ~ "utm_source=") { set req.url = regsub(req.url, "[?&]utm_source=[^&]*", ""); }
    unset req.http.Cookie;
}
sub vcl_backend_response {
    set beresp.ttl = 2m;
    set beresp.grace = 1h;
    set beresp.http.X-Content-Type-Options = "nosniff";
}
sub vcl_deliver {
    unset resp.http.X-Powered-By;
    unset resp.http.X-Debug;
    unset resp.http.Link;
    set resp.http.X-Frame-Options = "SAMEORIGIN";
    set resp.http.Referrer-Policy = "no-referrer";
}
"#;

/// The server behind Varnish and Galley: pages that show what they are asked.
pub fn backend() -> Origin {
    Origin::start(|seen, writer| {
        let body = format!("<html><head><title>Page</title></head><body>{}</body></html>\n", seen.target);
        let status = if seen.target.contains("missing") { 404 } else { 200 };
        if seen.method == "HEAD" {
            let length = body.len();
            let head = format!("HTTP/1.1 {status} X\r\nContent-Type: text/html; charset=UTF-8\r\nX-Debug: 1\r\nContent-Length: {length}\r\n\r\n");
            writer.write(head.as_bytes());
        } else {
            let fields = [("Content-Type", "text/html; charset=UTF-8"), ("X-Debug", "1"), ("Link", "</a.css>; rel=preload")];
            writer.answer(status, &fields, body.as_bytes());
        }
    })
    .unwrap()
}

pub const PLANTS: &[Plant] = &[
    of(
        "a refusal is lost",
        NoRule("/internal"),
        "entry",
        "/internal",
    ),
    of(
        "an address is another one",
        Rule("/office", "allow", Some("['127.0.0.3']")),
        "entry",
        "/office",
    ),
    of(
        "a page is refused",
        NewRule("path = '/feed/*'\ndeny = ['0.0.0.0/0', '::/0']"),
        "entry",
        "/feed/",
    ),
    of(
        "a page is a redirect",
        NewRule("path = '/license.txt'\nredirect = '/licence.txt'"),
        "redirect",
        "/license.txt",
    ),
    field(
        "a field has another value",
        SITE_FIELDS,
        "x-frame-options",
        "/",
    ),
    field(
        "a field is lost",
        SITE_FIELDS,
        "x-content-type-options",
        "/",
    ),
    field("a field is added", SITE_FIELDS, "x-planted", "/"),
    field(
        "a field is shown",
        Site("remove_headers", Some("['Link']")),
        "x-debug",
        "/",
    ),
    of(
        "an expiry is added",
        NewRule("path = '/robots.txt'\nset_headers = ['Cache-Control: max-age=600']"),
        "lifetime",
        "/robots.txt",
    ),
    of(
        "the query does not reach the server",
        Site("ignore_query", Some("['galley-try']")),
        "body",
        "/",
    ),
];
