//! Varnish in front of a separate server, and the differences to plant in its draft.

use galley_testkit::origin::Origin;

use super::differences::{SITE_HEADERS, difference, field_difference};
use super::draft::DraftEdit::{AddRule, RemoveRule, SetRule, SetSite};
use super::draft::{ManualStep, PlantedDifference};

/// Configuration. `{backend}` is the port of Varnish's backend.
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

/// The backend of Varnish and Galley. Its pages show the target of the request.
pub fn backend() -> Origin {
    Origin::start(|request, writer| {
        let body = format!("<html><head><title>Page</title></head><body>{}</body></html>\n", request.target);
        let status = if request.target.contains("missing") { 404 } else { 200 };
        if request.method == "HEAD" {
            let length = body.len();
            let head = format!("HTTP/1.1 {status} X\r\nContent-Type: text/html; charset=UTF-8\r\nX-Debug: 1\r\nContent-Length: {length}\r\n\r\n");
            writer.write(head.as_bytes());
        } else {
            let fields = [("Content-Type", "text/html; charset=UTF-8"), ("X-Debug", "1"), ("Link", "</a.css>; rel=preload")];
            writer.respond(status, &fields, body.as_bytes());
        }
    })
    .unwrap()
}

/// What the import leaves to the owner of the site: fields.
pub const STEPS: &[ManualStep] = &[
    ManualStep {
        statement: "set resp.http.X-Frame-Options",
        edit: SetSite(
            "set_headers",
            Some(
                "['X-Frame-Options: SAMEORIGIN', 'X-Content-Type-Options: nosniff', 'Referrer-Policy: no-referrer']",
            ),
        ),
    },
    ManualStep {
        statement: "unset resp.http.X-Debug",
        edit: SetSite(
            "remove_headers",
            Some("['X-Powered-By', 'X-Pingback', 'Server', 'X-Debug', 'Link']"),
        ),
    },
];

pub const DIFFERENCES: &[PlantedDifference] = &[
    difference(
        "a denial is lost",
        RemoveRule("/internal"),
        "entry",
        "/internal",
    ),
    difference(
        "an address differs",
        SetRule("/office", "allow", Some("['127.0.0.3']")),
        "entry",
        "/office",
    ),
    difference(
        "a page is denied",
        AddRule("path = '/feed/*'\ndeny = ['0.0.0.0/0', '::/0']"),
        "entry",
        "/feed/",
    ),
    difference(
        "a page becomes a redirect",
        AddRule("path = '/license.txt'\nredirect = '/licence.txt'"),
        "redirect",
        "/license.txt",
    ),
    field_difference(
        "a field has another value",
        SITE_HEADERS,
        "x-frame-options",
        "/",
    ),
    field_difference(
        "a field is lost",
        SITE_HEADERS,
        "x-content-type-options",
        "/",
    ),
    field_difference("a field is added", SITE_HEADERS, "x-planted", "/"),
    field_difference(
        "a removed field is sent",
        SetSite("remove_headers", Some("['Link']")),
        "x-debug",
        "/",
    ),
    difference(
        "an expiry is added",
        AddRule("path = '/robots.txt'\nset_headers = ['Cache-Control: max-age=600']"),
        "lifetime",
        "/robots.txt",
    ),
    difference(
        "the query does not reach the server",
        SetSite("ignore_query", Some("['galley-try']")),
        "body",
        "/",
    ),
];
