//! Differences to plant in drafts, and how the report has to name them.

use super::draft::DraftEdit::{AddRule, RemoveRule, SetRule, SetSite};
use super::draft::{DraftEdit, ExpectedDifference, PlantedDifference};

/// For drafts from any server with redirects.
pub const REDIRECT_DIFFERENCES: &[PlantedDifference] = &[
    difference(
        "a redirect is lost",
        RemoveRule("/old-page"),
        "redirect",
        "/old-page",
    ),
    difference(
        "a redirect has another target",
        SetRule("/old-target", "redirect", Some("'/elsewhere/'")),
        "redirect",
        "/old-target",
    ),
    difference(
        "a permanent redirect is temporary",
        SetRule("/old-status", "redirect_status", Some("302")),
        "redirect",
        "/old-status",
    ),
    difference(
        "a temporary redirect is permanent",
        SetRule("/old-temporary", "redirect_status", Some("301")),
        "redirect",
        "/old-temporary",
    ),
];

/// For drafts from nginx and Apache.
pub const COMMON_DIFFERENCES: &[PlantedDifference] = &[
    difference(
        "a redirect loses the query",
        SetRule("/old-query", "redirect_query", Some("false")),
        "redirect",
        "/old-query",
    ),
    difference(
        "a redirect leads to plain HTTP",
        SetRule("/old-host", "redirect", Some("'http://other.test/'")),
        "redirect",
        "/old-host",
    ),
    difference(
        "a redirect becomes a denial",
        AddRule("path = '/old-denied'\ndeny = ['0.0.0.0/0', '::/0']"),
        "entry",
        "/old-denied",
    ),
    difference(
        "a redirect loses a part of the path",
        SetRule("/blog/(.*)", "redirect", Some("'/news/'")),
        "redirect",
        "/blog/a",
    ),
    difference(
        "a redirect by pattern is lost",
        RemoveRule("/archive/([0-9]+)/?"),
        "redirect",
        "/archive/0",
    ),
    difference(
        "the canonical host is lost",
        SetSite("canonical_host", None),
        "redirect",
        "/galley-try/",
    ),
    difference(
        "the redirect to TLS is lost",
        SetSite("https_redirect", Some("false")),
        "redirect",
        "/",
    ),
    without_response(
        "a host is lost",
        SetSite("hosts", Some("['shop.test', 'www.shop.test']")),
        "redirect",
        "/",
    ),
    difference(
        "a denial is lost",
        RemoveRule("/internal"),
        "entry",
        "/internal",
    ),
    difference(
        "a page is denied",
        AddRule("path = '/open*'\ndeny = ['0.0.0.0/0', '::/0']"),
        "entry",
        "/open",
    ),
    difference(
        "a network differs",
        SetRule("/office", "allow", Some("['10.7.0.0/16']")),
        "entry",
        "/office",
    ),
    difference(
        "a list of networks is lost",
        RemoveRule("/staff"),
        "entry",
        "/staff",
    ),
    difference(
        "a list of networks permits all clients",
        SetRule("/partners", "allow", Some("['0.0.0.0/0']")),
        "entry",
        "/partners",
    ),
    difference(
        "a blocked network is permitted",
        RemoveRule("/blocked"),
        "entry",
        "/blocked",
    ),
    difference(
        "an address differs",
        SetRule("/local", "allow", Some("['127.0.0.3']")),
        "entry",
        "/local",
    ),
    difference(
        "password protection is lost",
        RemoveRule("/private"),
        "entry",
        "/private",
    ),
    difference(
        "the password file differs",
        SetRule("/members", "basic_auth", Some("'{dir}/others'")),
        "entry",
        "/members",
    ),
    difference(
        "password protection is added",
        AddRule("path = '/account*'\nbasic_auth = '{dir}/users'"),
        "entry",
        "/account",
    ),
    difference(
        "both a user and a network are required",
        SetRule("/team", "allow", Some("['10.8.0.0/16']")),
        "entry",
        "/team",
    ),
    field_difference(
        "a field of the site has another value",
        SITE_HEADERS,
        "x-frame-options",
        "/",
    ),
    field_difference(
        "a field of the site is lost",
        SITE_HEADERS,
        "x-content-type-options",
        "/",
    ),
    field_difference(
        "a field of the site is added",
        SITE_HEADERS,
        "x-planted",
        "/",
    ),
    field_difference(
        "the lifetime of HSTS differs",
        SetSite("hsts", Some("'1d'")),
        "strict-transport-security",
        "/",
    ),
    field_difference(
        "a policy is weaker",
        SetRule(
            "/api/csp",
            "set_headers",
            Some("[\"Content-Security-Policy: default-src *\"]"),
        ),
        "content-security-policy",
        "/api/csp",
    ),
    field_difference(
        "another origin has access",
        SetRule(
            "/api/cors",
            "set_headers",
            Some("['Access-Control-Allow-Origin: https://a.test']"),
        ),
        "access-control-allow-origin",
        "/api/cors",
    ),
    field_difference(
        "a method is lost",
        SetRule(
            "/api/methods",
            "set_headers",
            Some("['Access-Control-Allow-Methods: GET']"),
        ),
        "access-control-allow-methods",
        "/api/methods",
    ),
    field_difference(
        "permissions are lost",
        RemoveRule("/api/permissions"),
        "permissions-policy",
        "/api/permissions",
    ),
    field_difference(
        "crawlers may index",
        SetRule(
            "/api/robots",
            "set_headers",
            Some("['X-Robots-Tag: index']"),
        ),
        "x-robots-tag",
        "/api/robots",
    ),
    field_difference(
        "browsers may store",
        SetRule(
            "/api/store",
            "set_headers",
            Some("['Cache-Control: no-cache']"),
        ),
        "cache-control",
        "/api/store",
    ),
    field_difference(
        "caches may share",
        SetRule(
            "/api/scope",
            "set_headers",
            Some("['Cache-Control: public, max-age=60']"),
        ),
        "cache-control",
        "/api/scope",
    ),
    field_difference(
        "the language differs",
        SetRule(
            "/api/language",
            "set_headers",
            Some("['Content-Language: fr']"),
        ),
        "content-language",
        "/api/language",
    ),
    field_difference(
        "the name of a field is misspelt",
        SetRule(
            "/api/spelling",
            "set_headers",
            Some("['X-Campain: spring']"),
        ),
        "x-campaign",
        "/api/spelling",
    ),
    field_difference(
        "the opener policy is lost",
        RemoveRule("/api/opener"),
        "cross-origin-opener-policy",
        "/api/opener",
    ),
    field_difference(
        "other sites may embed a page",
        SetRule(
            "/api/resource",
            "set_headers",
            Some("['Cross-Origin-Resource-Policy: cross-origin']"),
        ),
        "cross-origin-resource-policy",
        "/api/resource",
    ),
    field_difference(
        "a field of PHP is removed",
        SetRule("/api/link", "remove_headers", Some("['Link']")),
        "link",
        "/api/link",
    ),
    field_difference(
        "a cookie is set",
        SetRule(
            "/api/cookie",
            "add_headers",
            Some("['Set-Cookie: planted=1']"),
        ),
        "set-cookie",
        "/api/cookie",
    ),
    field_difference(
        "responses vary",
        SetRule("/api/vary", "add_headers", Some("['Vary: Origin']")),
        "vary",
        "/api/vary",
    ),
    field_difference(
        "a page has another charset",
        SetRule(
            "/api/latin",
            "set_headers",
            Some("['X-Latin: yes', 'Content-Type: text/html; charset=iso-8859-1']"),
        ),
        "content-type",
        "/api/latin",
    ),
    field_difference(
        "a font is limited to one origin",
        SetRule(
            "/fonts/a.woff2",
            "set_headers",
            Some("['Access-Control-Allow-Origin: https://a.test']"),
        ),
        "access-control-allow-origin",
        "/fonts/a.woff2",
    ),
    field_difference(
        "a file has another charset",
        AddRule(
            "path = '/css/charset.css'\nset_headers = ['Content-Type: text/css; charset=iso-8859-1']",
        ),
        "content-type",
        "/css/charset.css",
    ),
    field_difference(
        "a file has another type",
        AddRule("path = '/files/a.json'\nset_headers = ['Content-Type: text/plain']"),
        "content-type",
        "/files/a.json",
    ),
    difference(
        "an expiry is shorter",
        SetRule(
            "/css/age.css",
            "set_headers",
            Some("['Cache-Control: max-age=86400']"),
        ),
        "lifetime",
        "/css/age.css",
    ),
    difference(
        "an expiry is lost",
        RemoveRule("/img/age.png"),
        "lifetime",
        "/img/age.png",
    ),
    difference(
        "an expiry is added",
        AddRule("path = '/files/new.txt'\nset_headers = ['Cache-Control: max-age=600']"),
        "lifetime",
        "/files/new.txt",
    ),
    difference(
        "browsers do not revalidate",
        SetRule(
            "/js/no-cache.js",
            "set_headers",
            Some("['Cache-Control: max-age=60']"),
        ),
        "lifetime",
        "/js/no-cache.js",
    ),
    difference(
        "a style sheet is not compressed",
        SetSite("compress_types", Some("['text/html']")),
        "compression",
        "/css/long.css",
    ),
    difference(
        "the error page differs",
        SetSite(
            "error_pages",
            Some("{ \"403\" = '{dir}/root/elsewhere.html' }"),
        ),
        "body",
        "/office",
    ),
    difference(
        "a file is redirected",
        AddRule("path = '/files/gone.txt'\nredirect = '/files/plain.txt'"),
        "redirect",
        "/files/gone.txt",
    ),
    difference(
        "the query does not reach PHP",
        SetSite("ignore_query", Some("['galley-try']")),
        "body",
        "/api/link",
    ),
];

/// For drafts from nginx.
pub const NGINX_DIFFERENCES: &[PlantedDifference] = &[
    difference(
        "XML-RPC is on",
        RemoveRule("/xmlrpc.php"),
        "entry",
        "/xmlrpc.php",
    ),
    difference(
        "the administration is open",
        SetRule("/wp-login.php", "allow", None),
        "entry",
        "/wp-login.php",
    ),
    difference(
        "phones get the pages for computers",
        SetSite("device_variants", Some("false")),
        "body",
        "/",
    ),
];

/// For drafts from Apache.
pub const APACHE_DIFFERENCES: &[PlantedDifference] = &[
    difference(
        "XML-RPC is on",
        RemoveRule("/xmlrpc.php"),
        "entry",
        "/xmlrpc.php",
    ),
    difference(
        "the administration is open",
        RemoveRule("/wp-login.php"),
        "entry",
        "/wp-login.php",
    ),
];

/// A difference that the report names by its kind and by the path of a request.
pub const fn difference(
    name: &'static str,
    edit: DraftEdit,
    kind: &'static str,
    path: &'static str,
) -> PlantedDifference {
    PlantedDifference {
        name,
        edit,
        expected: ExpectedDifference {
            kind,
            field: None,
            path,
            galley: "",
        },
    }
}

/// A difference where Galley sends no response.
const fn without_response(
    name: &'static str,
    edit: DraftEdit,
    kind: &'static str,
    path: &'static str,
) -> PlantedDifference {
    let mut planted = difference(name, edit, kind, path);
    planted.expected.galley = "no response";
    planted
}

/// A difference in a response field.
pub const fn field_difference(
    name: &'static str,
    edit: DraftEdit,
    field: &'static str,
    path: &'static str,
) -> PlantedDifference {
    let mut planted = difference(name, edit, "field", path);
    planted.expected.field = Some(field);
    planted
}

/// One option causes three of the differences.
pub const SITE_HEADERS: DraftEdit = SetSite(
    "set_headers",
    Some("['X-Frame-Options: DENY', 'Referrer-Policy: no-referrer', 'X-Planted: yes']"),
);
