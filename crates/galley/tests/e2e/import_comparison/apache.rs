//! A typical Apache configuration with the same directives as the one of nginx.

use std::fmt::Write as _;

use super::draft::DraftEdit::SetSite;
use super::draft::ManualStep;

/// Configuration with placeholders.
pub fn configuration() -> String {
    let mut text = String::new();
    for name in MODULES {
        let _ = writeln!(
            text,
            "LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so"
        );
    }
    text.push_str(HEAD);
    for [path, status, target] in REDIRECTS {
        let _ = writeln!(text, "RewriteRule ^{path}$ {target} [R={status},L]");
    }
    text.push_str(FALLBACK);
    for [path, directives] in SECTIONS {
        let lines = directives.replace("; ", "\n");
        let _ = writeln!(text, "<Location {path}>\n{lines}\n</Location>");
    }
    text.push_str("</VirtualHost>\n");
    text
}

/// What the import leaves to the owner of the site.
pub const STEPS: &[ManualStep] = &[ManualStep {
    statement: "errordocument 403",
    edit: SetSite(
        "error_pages",
        Some("{ \"403\" = '{dir}/root/forbidden.html' }"),
    ),
}];

const MODULES: &[&str] = &[
    "mpm_event",
    "authn_core",
    "authn_file",
    "authz_core",
    "authz_host",
    "authz_user",
    "auth_basic",
    "access_compat",
    "alias",
    "deflate",
    "dir",
    "filter",
    "headers",
    "mime",
    "proxy",
    "proxy_fcgi",
    "rewrite",
    "ssl",
];

const HEAD: &str = r#"User www-data
Listen 8081
Listen 8443
TypesConfig /etc/mime.types
AddDefaultCharset utf-8
DirectorySlash Off
<VirtualHost *:8081>
ServerName default.test
<Location />
Require all denied
</Location>
</VirtualHost>
<VirtualHost *:8443>
ServerName default.test
SSLEngine on
SSLCertificateFile /c
SSLCertificateKeyFile /k
<Location />
Require all denied
</Location>
</VirtualHost>
<VirtualHost *:8081>
ServerName shop.test
ServerAlias www.shop.test alias.shop.test
RewriteEngine On
RewriteRule ^ https://%{HTTP_HOST}%{REQUEST_URI} [R=301,L]
</VirtualHost>
<VirtualHost *:8443>
ServerName www.shop.test
ServerAlias alias.shop.test
SSLEngine on
SSLCertificateFile /c
SSLCertificateKeyFile /k
Header always set Strict-Transport-Security "max-age=31536000"
RewriteEngine On
RewriteRule ^ https://shop.test%{REQUEST_URI} [R=301,L]
</VirtualHost>
<VirtualHost *:8443>
ServerName shop.test
DocumentRoot {dir}/root
SSLEngine on
SSLCertificateFile /c
SSLCertificateKeyFile /k
Header always set X-Frame-Options SAMEORIGIN
Header always set X-Content-Type-Options nosniff
Header always set Referrer-Policy no-referrer
Header always set Strict-Transport-Security "max-age=31536000"
ErrorDocument 403 /forbidden.html
AddOutputFilterByType DEFLATE text/css
<Directory {dir}/root>
AllowOverride None
Require all granted
</Directory>
<FilesMatch "\.php$">
SetHandler "proxy:unix:{php}|fcgi://localhost"
</FilesMatch>
<Files ".ht*">
Require all denied
</Files>
<Files ".git*">
Require all denied
</Files>
<Files ".env">
Require all denied
</Files>
<Files ".user.ini">
Require all denied
</Files>
<Files "wp-config.php*">
Require all denied
</Files>
<Files "*.sql">
Require all denied
</Files>
<Files "*.log">
Require all denied
</Files>
<Files "xmlrpc.php">
Require all denied
</Files>
RewriteEngine On
RewriteCond %{REQUEST_URI} ^/wp-content/(uploads|cache)/.*\.(php|phtml)$
RewriteRule ^ - [F]
RewriteRule ^/wp-includes/[^m]*\.(php|phtml)$ - [F]
RewriteRule ^/wp-admin$ /wp-admin/ [R=301,L]
RewriteRule ^/blog/(.*)$ /news/$1 [R=301,L]
RewriteRule ^/archive/([0-9]+)/?$ /years/$1/ [R=301,L]
"#;

const FALLBACK: &str = r"RewriteCond %{REQUEST_URI} !(/\.(ht|git|env|user)|/wp-config\.php|\.sql$|\.log$|/error_log$)
RewriteCond %{DOCUMENT_ROOT}%{REQUEST_URI} !-f
RewriteRule ^ %{DOCUMENT_ROOT}/index.php [L]
";

const REDIRECTS: &[[&str; 3]] = &[
    ["/old-page", "301", "/new-page/"],
    ["/old-target", "301", "/new-target/"],
    ["/old-status", "301", "/new-status/"],
    ["/old-temporary", "302", "/new-temporary/"],
    ["/old-query", "301", "/new-query/"],
    ["/old-host", "301", "https://other.test/"],
    ["/old-denied", "301", "/new-denied/"],
];

const SECTIONS: &[[&str; 2]] = &[
    [
        "/api/csp",
        "Header always set Content-Security-Policy \"default-src 'self'\"",
    ],
    [
        "/api/cors",
        "Header always set Access-Control-Allow-Origin \"*\"",
    ],
    [
        "/api/methods",
        "Header always set Access-Control-Allow-Methods \"GET, POST\"",
    ],
    [
        "/api/permissions",
        "Header always set Permissions-Policy \"camera=()\"",
    ],
    ["/api/robots", "Header always set X-Robots-Tag noindex"],
    ["/api/store", "Header always set Cache-Control no-store"],
    [
        "/api/scope",
        "Header always set Cache-Control \"private, max-age=60\"",
    ],
    ["/api/language", "Header always set Content-Language de"],
    ["/api/spelling", "Header always set X-Campaign spring"],
    [
        "/api/opener",
        "Header always set Cross-Origin-Opener-Policy same-origin",
    ],
    [
        "/api/resource",
        "Header always set Cross-Origin-Resource-Policy same-site",
    ],
    ["/api/link", "Header always set X-Link yes"],
    ["/api/cookie", "Header always set X-Cookie yes"],
    ["/api/vary", "Header always set X-Vary yes"],
    ["/api/latin", "Header always set X-Latin yes"],
    [
        "/css/age.css",
        "Header always set Cache-Control \"max-age=2592000\"",
    ],
    [
        "/img/age.png",
        "Header always set Cache-Control \"max-age=604800\"",
    ],
    [
        "/js/no-cache.js",
        "Header always set Cache-Control no-cache",
    ],
    [
        "/fonts/a.woff2",
        "Header always set Access-Control-Allow-Origin \"*\"",
    ],
    ["/wp-admin", "Require ip 127.0.0.1 10.9.0.0/16"],
    ["/wp-login.php", "Require ip 127.0.0.1 10.9.0.0/16"],
    ["/error_log", "Require all denied"],
    ["/internal", "Require all denied"],
    ["/office", "Require ip 10.1.0.0/16"],
    ["/staff", "Require ip 10.2.0.0/16"],
    ["/partners", "Require ip 10.3.0.0/16"],
    [
        "/blocked",
        "Order allow,deny; Allow from all; Deny from 198.51.100.0/24",
    ],
    ["/local", "Require ip 127.0.0.2"],
    [
        "/private",
        "AuthType Basic; AuthName Private; AuthUserFile {dir}/users; Require valid-user",
    ],
    [
        "/members",
        "AuthType Basic; AuthName Members; AuthUserFile {dir}/users; Require valid-user",
    ],
    [
        "/team",
        "AuthType Basic; AuthName Team; AuthUserFile {dir}/others; Require valid-user",
    ],
];
