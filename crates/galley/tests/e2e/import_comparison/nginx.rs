//! A typical nginx configuration with one directive for each planted difference.

use std::fmt::Write as _;

use super::draft::DraftEdit::SetSite;
use super::draft::ManualStep;

/// Configuration with placeholders.
pub fn configuration() -> String {
    let mut text = HEAD.replace("{fields}", FIELDS);
    for [path, target] in REDIRECTS {
        let _ = writeln!(text, "location = {path} {{ return {target}; }}");
    }
    for [name, field] in PAGES {
        let _ = writeln!(
            text,
            "location ^~ /api/{name} {{ {FIELDS} add_header {field} always; {PHP} }}"
        );
    }
    for [path, field] in FILES {
        let _ = writeln!(
            text,
            "location = {path} {{ {FIELDS} add_header {field} always; }}"
        );
    }
    for [path, statements] in LOCATIONS {
        let _ = writeln!(text, "location ^~ {path} {{ {statements} {PHP} }}");
    }
    text.push_str("}\n}\n");
    text
}

/// What the import leaves to the owner of the site.
pub const STEPS: &[ManualStep] = &[ManualStep {
    statement: "error_page 403",
    edit: SetSite(
        "error_pages",
        Some("{ \"403\" = '{dir}/root/forbidden.html' }"),
    ),
}];

const FIELDS: &str = "add_header X-Frame-Options SAMEORIGIN always; add_header X-Content-Type-Options nosniff always; \
    add_header Referrer-Policy no-referrer always; \
    add_header Strict-Transport-Security max-age=31536000 always;";

const PHP: &str = "include /etc/nginx/fastcgi_params; fastcgi_param SCRIPT_FILENAME $document_root/index.php; fastcgi_pass unix:{php};";

const HEAD: &str = r#"user www-data;
events {}
http {
include /etc/nginx/mime.types;
gzip on; gzip_types text/css; gzip_min_length 1000;
limit_req_zone $binary_remote_addr zone=login:1m rate=1r/m;
server { listen 8081 default_server; listen 8443 ssl default_server; ssl_certificate /c; ssl_certificate_key /k; return 444; }
server { listen 8081; server_name shop.test www.shop.test alias.shop.test; return 301 https://$host$request_uri; }
server { listen 8443 ssl; server_name www.shop.test alias.shop.test; ssl_certificate /c; ssl_certificate_key /k;
    add_header Strict-Transport-Security max-age=31536000 always; return 301 https://shop.test$request_uri; }
server {
listen 8443 ssl; server_name shop.test; ssl_certificate /c; ssl_certificate_key /k;
root {dir}/root; index index.php; charset utf-8;
{fields}
error_page 403 /forbidden.html;
if ($http_user_agent ~* "(iPhone|Android)") { set $mobile 1; }
rewrite ^/blog/(.*)$ /news/$1 permanent;
rewrite ^/archive/([0-9]+)/?$ /years/$1/ permanent;
location / { try_files $uri /index.php?$args; }
location ~ /\.(ht|git|env|user) { deny all; }
location ~ /wp-config\.php { deny all; }
location ~ \.sql$ { deny all; }
location ~ \.bak$ { deny all; }
location ~ \.log$ { deny all; }
location ~ ^/wp-content/(uploads|cache)/.*\.(php|phtml)$ { deny all; }
location ~ /wp-includes/[^m]*\.php$ { deny all; }
location ~ \.php$ { try_files $uri /index.php?$args; include /etc/nginx/fastcgi_params;
    fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name; fastcgi_pass unix:{php}; }
location ^~ /error_log { deny all; }
location ^~ /xmlrpc.php { deny all; }
location = /wp-admin { return 301 /wp-admin/$is_args$args; }
"#;

const REDIRECTS: &[[&str; 2]] = &[
    ["/old-page", "301 /new-page/"],
    ["/old-target", "301 /new-target/"],
    ["/old-status", "301 /new-status/"],
    ["/old-temporary", "302 /new-temporary/"],
    ["/old-query", "301 /new-query/$is_args$args"],
    ["/old-bare", "301 /new-bare/"],
    ["/old-host", "301 https://other.test/"],
    ["/old-denied", "301 /new-denied/"],
];

const PAGES: &[[&str; 2]] = &[
    ["csp", "Content-Security-Policy \"default-src 'self'\""],
    ["cors", "Access-Control-Allow-Origin \"*\""],
    ["methods", "Access-Control-Allow-Methods \"GET, POST\""],
    ["permissions", "Permissions-Policy \"camera=()\""],
    ["robots", "X-Robots-Tag noindex"],
    ["store", "Cache-Control no-store"],
    ["scope", "Cache-Control \"private, max-age=60\""],
    ["language", "Content-Language de"],
    ["spelling", "X-Campaign spring"],
    ["opener", "Cross-Origin-Opener-Policy same-origin"],
    ["resource", "Cross-Origin-Resource-Policy same-site"],
    ["link", "X-Link yes"],
    ["cookie", "X-Cookie yes"],
    ["vary", "X-Vary yes"],
    ["latin", "X-Latin yes"],
];

const FILES: &[[&str; 2]] = &[
    ["/css/age.css", "Cache-Control \"max-age=2592000\""],
    ["/img/age.png", "Cache-Control \"max-age=604800\""],
    ["/js/no-cache.js", "Cache-Control no-cache"],
    ["/fonts/a.woff2", "Access-Control-Allow-Origin \"*\""],
];

const LOCATIONS: &[[&str; 2]] = &[
    [
        "/wp-admin/",
        "allow 127.0.0.1; allow 10.9.0.0/16; deny all;",
    ],
    [
        "/wp-login.php",
        "limit_req zone=login; allow 127.0.0.1; allow 10.9.0.0/16; deny all;",
    ],
    ["/internal", "deny all;"],
    ["/office", "allow 10.1.0.0/16; deny all;"],
    ["/staff", "allow 10.2.0.0/16; deny all;"],
    ["/partners", "allow 10.3.0.0/16; deny all;"],
    ["/blocked", "deny 198.51.100.0/24;"],
    ["/local", "allow 127.0.0.2; deny all;"],
    [
        "/private",
        "auth_basic Private; auth_basic_user_file {dir}/users;",
    ],
    [
        "/members",
        "auth_basic Members; auth_basic_user_file {dir}/users;",
    ],
    [
        "/team",
        "auth_basic Team; auth_basic_user_file {dir}/others;",
    ],
    ["/open", "client_max_body_size 1m;"],
    ["/account", "client_max_body_size 2m;"],
];
