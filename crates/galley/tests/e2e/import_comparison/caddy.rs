//! A typical Caddyfile, and the differences to plant in its draft.

use super::differences::{SITE_HEADERS, difference, field_difference};
use super::draft::DraftEdit::{AddRule, RemoveRule, SetRule, SetSite};
use super::draft::{DraftEdit, ManualStep, PlantedDifference};

/// Configuration with placeholders.
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
	@scripts path_regexp ^/wp-content/(uploads|cache)/.*\.(php|phtml)$
	respond @scripts 403
	@core path_regexp ^/wp-includes/[^m]*\.(php|phtml)$
	respond @core 403
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
	header /api/cached Cache-Control max-age=2592000
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

/// What the import leaves to the owner of the site: fields, and redirects of paths.
pub const STEPS: &[ManualStep] = &[
    step(
        "header X-Frame-Options",
        SetSite(
            "set_headers",
            Some(
                "['X-Frame-Options: SAMEORIGIN', 'X-Content-Type-Options: nosniff', 'Referrer-Policy: no-referrer']",
            ),
        ),
    ),
    step(
        "redir /old-page ",
        AddRule(
            "pattern = '(?i)^/old-page$'\nredirect = '/new-page/'\nredirect_status = 301\nredirect_query = false",
        ),
    ),
    step(
        "redir /old-target ",
        AddRule(
            "pattern = '(?i)^/old-target$'\nredirect = '/new-target/'\nredirect_status = 301\nredirect_query = false",
        ),
    ),
    step(
        "redir /old-status ",
        AddRule(
            "pattern = '(?i)^/old-status$'\nredirect = '/new-status/'\nredirect_status = 301\nredirect_query = false",
        ),
    ),
    step(
        "redir /old-temporary ",
        AddRule(
            "pattern = '(?i)^/old-temporary$'\nredirect = '/new-temporary/'\nredirect_status = 302\nredirect_query = false",
        ),
    ),
    step(
        "header /api/csp ",
        AddRule(
            "pattern = '(?i)^/api/csp$'\nset_headers = [\"Content-Security-Policy: default-src 'self'\"]",
        ),
    ),
    step(
        "header /api/robots ",
        AddRule("pattern = '(?i)^/api/robots$'\nset_headers = [\"X-Robots-Tag: noindex\"]"),
    ),
    step(
        "header /api/store ",
        AddRule("pattern = '(?i)^/api/store$'\nset_headers = [\"Cache-Control: no-store\"]"),
    ),
    step(
        "header /api/cached ",
        AddRule(
            "pattern = '(?i)^/api/cached$'\nset_headers = [\"Cache-Control: max-age=2592000\"]",
        ),
    ),
];

const fn step(statement: &'static str, edit: DraftEdit) -> ManualStep {
    ManualStep { statement, edit }
}

pub const DIFFERENCES: &[PlantedDifference] = &[
    difference(
        "a host is redirected to another one",
        SetRule("/", "redirect", Some("'https://other.test/$1'")),
        "redirect",
        "/galley-try/",
    ),
    difference(
        "a denial is lost",
        RemoveRule("/internal"),
        "entry",
        "/internal",
    ),
    difference(
        "a page is denied",
        AddRule("path = '/index.php*'\ndeny = ['0.0.0.0/0', '::/0']"),
        "entry",
        "/index.php",
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
        "crawlers may index",
        RemoveRule("/api/robots"),
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
    difference(
        "an expiry is shorter",
        SetRule(
            "/api/cached",
            "set_headers",
            Some("['Cache-Control: max-age=86400']"),
        ),
        "lifetime",
        "/api/cached",
    ),
];
