//! The differences that are planted.

use super::planting::DraftEdit::{NewRule, NoRule, Rule, Site};
use super::planting::{DraftEdit, Plant, PlantedSign};

/// Those that the drafts of all servers with redirects can have.
pub const OF_REDIRECTS: &[Plant] = &[
    of(
        "a redirect is lost",
        NoRule("/old-page"),
        "redirect",
        "/old-page",
    ),
    of(
        "a redirect leads elsewhere",
        Rule("/old-target", "redirect", Some("'/elsewhere/'")),
        "redirect",
        "/old-target",
    ),
    of(
        "a permanent redirect is temporary",
        Rule("/old-status", "redirect_status", Some("302")),
        "redirect",
        "/old-status",
    ),
    of(
        "a temporary redirect is permanent",
        Rule("/old-temporary", "redirect_status", Some("301")),
        "redirect",
        "/old-temporary",
    ),
];

/// Those that both nginx's and Apache's drafts can have.
pub const COMMON: &[Plant] = &[
    of(
        "a redirect loses the query",
        Rule("/old-query", "redirect_query", Some("false")),
        "redirect",
        "/old-query",
    ),
    of(
        "a redirect leads to http",
        Rule("/old-host", "redirect", Some("'http://other.test/'")),
        "redirect",
        "/old-host",
    ),
    of(
        "a redirect is a refusal",
        NewRule("path = '/old-denied'\ndeny = ['0.0.0.0/0', '::/0']"),
        "entry",
        "/old-denied",
    ),
    of(
        "a redirect loses a part of the path",
        Rule("/blog/(.*)", "redirect", Some("'/news/'")),
        "redirect",
        "/blog/a",
    ),
    of(
        "a redirect by pattern is lost",
        NoRule("/archive/([0-9]+)/?"),
        "redirect",
        "/archive/0",
    ),
    of(
        "the canonical host is lost",
        Site("canonical_host", None),
        "redirect",
        "/galley-try/",
    ),
    of(
        "the redirect to TLS is lost",
        Site("https_redirect", Some("false")),
        "redirect",
        "/",
    ),
    none(
        "a host is lost",
        Site("hosts", Some("['shop.test', 'www.shop.test']")),
        "redirect",
        "/",
    ),
    of(
        "a refusal is lost",
        NoRule("/internal"),
        "entry",
        "/internal",
    ),
    of(
        "a page is refused",
        NewRule("path = '/open*'\ndeny = ['0.0.0.0/0', '::/0']"),
        "entry",
        "/open",
    ),
    of(
        "a network is another one",
        Rule("/office", "allow", Some("['10.7.0.0/16']")),
        "entry",
        "/office",
    ),
    of(
        "a list of networks is lost",
        NoRule("/staff"),
        "entry",
        "/staff",
    ),
    of(
        "a list of networks has everybody",
        Rule("/partners", "allow", Some("['0.0.0.0/0']")),
        "entry",
        "/partners",
    ),
    of(
        "a blocked network is let in",
        NoRule("/blocked"),
        "entry",
        "/blocked",
    ),
    of(
        "an address is another one",
        Rule("/local", "allow", Some("['127.0.0.3']")),
        "entry",
        "/local",
    ),
    of(
        "a password is not asked for",
        NoRule("/private"),
        "entry",
        "/private",
    ),
    of(
        "the users are others",
        Rule("/members", "basic_auth", Some("'{dir}/others'")),
        "entry",
        "/members",
    ),
    of(
        "a password keeps everybody out",
        NewRule("path = '/account*'\nbasic_auth = '{dir}/users'"),
        "entry",
        "/account",
    ),
    of(
        "users and networks are both needed",
        Rule("/team", "allow", Some("['10.8.0.0/16']")),
        "entry",
        "/team",
    ),
    of(
        "XML-RPC is on",
        Site("xmlrpc", Some("'on'")),
        "entry",
        "/xmlrpc.php",
    ),
    field(
        "a field of the site has another value",
        SITE_FIELDS,
        "x-frame-options",
        "/",
    ),
    field(
        "a field of the site is lost",
        SITE_FIELDS,
        "x-content-type-options",
        "/",
    ),
    field(
        "a field of the site is added",
        SITE_FIELDS,
        "x-planted",
        "/",
    ),
    field(
        "browsers insist on TLS for a day",
        Site("hsts", Some("'1d'")),
        "strict-transport-security",
        "/",
    ),
    field(
        "a policy is weaker",
        Rule(
            "/api/csp",
            "set_headers",
            Some("[\"Content-Security-Policy: default-src *\"]"),
        ),
        "content-security-policy",
        "/api/csp",
    ),
    field(
        "another origin may read",
        Rule(
            "/api/cors",
            "set_headers",
            Some("['Access-Control-Allow-Origin: https://a.test']"),
        ),
        "access-control-allow-origin",
        "/api/cors",
    ),
    field(
        "a method is lost",
        Rule(
            "/api/methods",
            "set_headers",
            Some("['Access-Control-Allow-Methods: GET']"),
        ),
        "access-control-allow-methods",
        "/api/methods",
    ),
    field(
        "permissions are lost",
        NoRule("/api/permissions"),
        "permissions-policy",
        "/api/permissions",
    ),
    field(
        "crawlers may index",
        Rule(
            "/api/robots",
            "set_headers",
            Some("['X-Robots-Tag: index']"),
        ),
        "x-robots-tag",
        "/api/robots",
    ),
    field(
        "browsers may store",
        Rule(
            "/api/store",
            "set_headers",
            Some("['Cache-Control: no-cache']"),
        ),
        "cache-control",
        "/api/store",
    ),
    field(
        "caches may share",
        Rule(
            "/api/scope",
            "set_headers",
            Some("['Cache-Control: public, max-age=60']"),
        ),
        "cache-control",
        "/api/scope",
    ),
    field(
        "the language is another one",
        Rule(
            "/api/language",
            "set_headers",
            Some("['Content-Language: fr']"),
        ),
        "content-language",
        "/api/language",
    ),
    field(
        "a name is misspelt",
        Rule(
            "/api/spelling",
            "set_headers",
            Some("['X-Campain: spring']"),
        ),
        "x-campaign",
        "/api/spelling",
    ),
    field(
        "windows are not separated",
        NoRule("/api/opener"),
        "cross-origin-opener-policy",
        "/api/opener",
    ),
    field(
        "other sites may embed",
        Rule(
            "/api/resource",
            "set_headers",
            Some("['Cross-Origin-Resource-Policy: cross-origin']"),
        ),
        "cross-origin-resource-policy",
        "/api/resource",
    ),
    field(
        "a field of PHP is removed",
        Rule("/api/link", "remove_headers", Some("['Link']")),
        "link",
        "/api/link",
    ),
    field(
        "a cookie is set",
        Rule(
            "/api/cookie",
            "add_headers",
            Some("['Set-Cookie: planted=1']"),
        ),
        "set-cookie",
        "/api/cookie",
    ),
    field(
        "responses vary",
        Rule("/api/vary", "add_headers", Some("['Vary: Origin']")),
        "vary",
        "/api/vary",
    ),
    field(
        "a page has another charset",
        Rule(
            "/api/latin",
            "set_headers",
            Some("['X-Latin: yes', 'Content-Type: text/html; charset=iso-8859-1']"),
        ),
        "content-type",
        "/api/latin",
    ),
    field(
        "a font is for one origin",
        Rule(
            "/fonts/a.woff2",
            "set_headers",
            Some("['Access-Control-Allow-Origin: https://a.test']"),
        ),
        "access-control-allow-origin",
        "/fonts/a.woff2",
    ),
    field(
        "a file has another charset",
        NewRule(
            "path = '/css/charset.css'\nset_headers = ['Content-Type: text/css; charset=iso-8859-1']",
        ),
        "content-type",
        "/css/charset.css",
    ),
    field(
        "a file has another type",
        NewRule("path = '/files/a.json'\nset_headers = ['Content-Type: text/plain']"),
        "content-type",
        "/files/a.json",
    ),
    of(
        "an expiry is shorter",
        Rule(
            "/css/age.css",
            "set_headers",
            Some("['Cache-Control: max-age=86400']"),
        ),
        "lifetime",
        "/css/age.css",
    ),
    of(
        "an expiry is lost",
        NoRule("/img/age.png"),
        "lifetime",
        "/img/age.png",
    ),
    of(
        "an expiry is added",
        NewRule("path = '/files/new.txt'\nset_headers = ['Cache-Control: max-age=600']"),
        "lifetime",
        "/files/new.txt",
    ),
    of(
        "browsers do not ask again",
        Rule(
            "/js/no-cache.js",
            "set_headers",
            Some("['Cache-Control: max-age=60']"),
        ),
        "lifetime",
        "/js/no-cache.js",
    ),
    of(
        "a style sheet comes uncompressed",
        Site("compress_types", Some("['text/html']")),
        "compression",
        "/css/long.css",
    ),
    of(
        "another page for refusals",
        Site(
            "error_pages",
            Some("{ \"403\" = '{dir}/root/elsewhere.html' }"),
        ),
        "body",
        "/office",
    ),
    of(
        "a file is a page",
        NewRule("path = '/files/gone.txt'\nredirect = '/files/plain.txt'"),
        "redirect",
        "/files/gone.txt",
    ),
    of(
        "the query does not reach PHP",
        Site("ignore_query", Some("['galley-try']")),
        "body",
        "/api/link",
    ),
];

/// Those of a draft from nginx.
pub const OF_NGINX: &[Plant] = &[
    of(
        "the administration is open",
        Site("admin_allow", None),
        "entry",
        "/wp-login.php",
    ),
    of(
        "phones get the pages of others",
        Site("device_variants", Some("false")),
        "body",
        "/",
    ),
];

/// Those of a draft from Apache.
pub const OF_APACHE: &[Plant] = &[of(
    "the administration is open",
    NoRule("/wp-login.php"),
    "entry",
    "/wp-login.php",
)];

pub const fn of(
    name: &'static str,
    edit: DraftEdit,
    kind: &'static str,
    path: &'static str,
) -> Plant {
    Plant {
        name,
        edit,
        sign: PlantedSign {
            kind,
            field: None,
            path,
            galley: "",
        },
    }
}

/// One for which Galley has no response.
const fn none(
    name: &'static str,
    edit: DraftEdit,
    kind: &'static str,
    path: &'static str,
) -> Plant {
    let mut plant = of(name, edit, kind, path);
    plant.sign.galley = "no response";
    plant
}

pub const fn field(
    name: &'static str,
    edit: DraftEdit,
    field: &'static str,
    path: &'static str,
) -> Plant {
    let mut plant = of(name, edit, "field", path);
    plant.sign.field = Some(field);
    plant
}

/// One option has three of the differences.
pub const SITE_FIELDS: DraftEdit = Site(
    "set_headers",
    Some("['X-Frame-Options: DENY', 'Referrer-Policy: no-referrer', 'X-Planted: yes']"),
);
