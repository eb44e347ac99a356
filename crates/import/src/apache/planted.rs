//! Wrong translations of a virtual host of Apache.

use super::*;
use crate::draft::Value;
use crate::planted::PlantedServer;

const fn host(text: &'static str) -> PlantedServer {
    PlantedServer {
        convert: |source, main, report, change| convert_with(source, main, report, change),
        text,
    }
}

#[test]
fn planted_wrong_translations_lose_their_labels() {
    let planted = host(LOCATIONS).rules_lose_labels() + host(FILES).rules_lose_labels();
    assert!(planted >= 50, "only {planted}");
}

#[test]
fn planted_wrong_options_of_the_site_lose_their_labels() {
    host(LOCATIONS).options_lose_labels(&[
        ("set_headers", Value::List(vec!["X-Site: other".to_owned()])),
        ("set_headers", Value::List(Vec::new())),
        ("deny", Value::List(vec!["203.0.113.0/24".to_owned()])),
        ("allow", Value::List(vec!["192.0.2.0/24".to_owned()])),
        ("canonical_host", Value::Text("b.test".to_owned())),
        ("https_redirect", Value::Flag(true)),
        ("basic_auth", Value::Text("/etc/x".to_owned())),
    ]);
}

/// A host in which each rule decides about some request: rules and locations.
const LOCATIONS: &str = "<VirtualHost *:80>
ServerName a.test
DocumentRoot /srv/a
RewriteEngine On
RewriteRule ^/forbidden/ - [F]
RewriteRule ^/year/([0-9]+)/$ https://b.test/$1 [R=302,L]
Redirect 301 /old /new
RedirectMatch 302 ^/moved/(.*)$ /elsewhere/$1
Redirect 403 /secret
Header set X-Site one
ProxyPreserveHost On
ProxyPass /api/ http://127.0.0.1:3000/api/
<Location /private>
Require all denied
</Location>
<Location /office/>
Require ip 192.0.2.0/24
</Location>
<Location /blocked>
<RequireAll>
Require all granted
Require not ip 192.0.2.7
</RequireAll>
</Location>
<Directory /srv/a/members>
AuthType Basic
AuthUserFile /etc/pw
Require valid-user
</Directory>
<LocationMatch \"^/fields/[a-z]+\\.txt$\">
Header set X-A one
</LocationMatch>
</VirtualHost>
";

/// As [`LOCATIONS`], with names of files, over which locations have precedence.
const FILES: &str = "<VirtualHost *:80>
ServerName a.test
DocumentRoot /srv/a
Redirect 301 /old https://b.test/new
ExpiresActive On
ExpiresByType text/css A60
ExpiresByType image/png \"access plus 1 week\"
<FilesMatch \"\\.(sql|bak)$\">
Require all denied
</FilesMatch>
<Files readme.html>
Order allow,deny
Deny from all
</Files>
<Files xmlrpc.php>
Order deny,allow
Deny from all
Allow from 192.0.2.7
</Files>
<FilesMatch \"\\.woff2$\">
Header set Access-Control-Allow-Origin *
</FilesMatch>
</VirtualHost>
";
