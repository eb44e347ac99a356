//! A Caddyfile as sites have it, and the differences that are planted in its draft.

use super::planting::DraftEdit::{NewRule, NoRule, Rule, Site};
use super::planting::Plant;
use super::plants::{SITE_FIELDS, field, of};

/// The configuration, with placeholders.
pub const CONFIGURATION: &str = r#"# Sites of a shop.
{
	email shop@shop.test
}
(fields) {
	header X-Frame-Options SAMEORIGIN
	header X-Content-Type-Options nosniff
	header Referrer-Policy no-referrer
}
(closed) {
	respond /.ht* 403
	respond /.git* 403
	respond /.env* 403
	respond /.user.ini* 403
	respond /wp-config.php* 403
	respond /error_log* 403
	respond /xmlrpc.php* 403
	@closed path *.sql *.log *.bak
	respond @closed 403
	@scripts path_regexp ^/(wp-content/(uploads|cache)|wp-includes)/.*\.(php|phtml)$
	respond @scripts 403
}
shop.test:8443 {
	root * {dir}/root
	import fields
	encode gzip
	php_fastcgi unix/{php}
	file_server
	redir /old-page /new-page/ 301
	redir /old-target /new-target/ 301
	redir /old-status /new-status/ permanent
	redir /old-temporary /new-temporary/
	header /api/csp Content-Security-Policy "default-src 'self'"
	header /api/robots X-Robots-Tag noindex
	header /api/store Cache-Control no-store
	header /api/kept Cache-Control max-age=2592000
	import closed
	handle /internal* {
		respond 403
	}
}
www.shop.test:8443 {
	redir https://shop.test{uri} permanent
}
http://other.test:8081 {
	import closed
	respond /closed* 403
	root * {dir}/root
	php_fastcgi unix/{php}
	file_server
}
"#;

pub const PLANTS: &[Plant] = &[
    of(
        "the canonical host is lost",
        Site("canonical_host", None),
        "redirect",
        "/galley-try/",
    ),
    of(
        "a refusal is lost",
        NoRule("/internal"),
        "entry",
        "/internal",
    ),
    of(
        "a page is refused",
        NewRule("path = '/index.php*'\ndeny = ['0.0.0.0/0', '::/0']"),
        "entry",
        "/index.php",
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
        "crawlers may index",
        NoRule("/api/robots"),
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
    of(
        "an expiry is shorter",
        Rule(
            "/api/kept",
            "set_headers",
            Some("['Cache-Control: max-age=86400']"),
        ),
        "lifetime",
        "/api/kept",
    ),
];
