//! Directives of Apache.

use galley_import::ServerKind;

use super::Fate::{Carried, Lost, NotNeeded, Open};
use super::{Case, check};

/// A virtual host with TLS, files and PHP, and the directives of a case.
fn host(text: &str) -> String {
    format!(
        "<VirtualHost *:443>\nServerName a.test\nDocumentRoot /srv/a\nSSLEngine on\nSSLCertificateFile /c\nSSLCertificateKeyFile /k\nRewriteEngine On\n{text}\n</VirtualHost>\n"
    )
}

fn bare(text: &str) -> String {
    text.to_owned()
}

#[test]
fn directives_of_apache_keep_their_meaning() {
    check(ServerKind::Apache, CASES, host);
}

const CASES: &[Case] = &[
    Case {
        name: "an order that admits only what is allowed and not denied",
        text: "<Location /private>\nOrder mutual-failure\nAllow from 10.0.0.0/8\n</Location>",
        has: &["deny"],
        lacks: &[],
        fates: &[("order", Lost)],
    },
    Case {
        name: "alternatives of a folder with anchors of their own",
        text: "<Directory /srv/a>\nRewriteEngine on\nRewriteRule ^backup\\.sql|^dump\\.sql - [F]\n</Directory>",
        has: &[],
        lacks: &["dump"],
        fates: &[("rewriterule", Open)],
    },
    Case {
        name: "a section of a folder above the root, written after that of the root",
        text: "<Directory /srv/a>\nRequire ip 10.0.0.0/8\n</Directory>\n<Directory /srv>\nRequire all granted\n</Directory>",
        has: &["allow = [\"10.0.0.0/8\"]"],
        lacks: &[],
        fates: &[("require ip", Carried)],
    },
    Case {
        name: "a section for versions that a server of today may have",
        text: "<IfVersion < 2.5>\n<Location /private>\nRequire all denied\n</Location>\n</IfVersion>",
        has: &[],
        lacks: &[],
        fates: &[("require all denied", Open)],
    },
    Case {
        name: "passwords of another provider than files",
        text: "<Location /private>\nAuthType Basic\nAuthBasicProvider ldap\nAuthUserFile /etc/old\nRequire valid-user\n</Location>",
        has: &["deny"],
        lacks: &["/etc/old"],
        fates: &[("require valid-user", Lost)],
    },
    Case {
        name: "the scheme that a proxy names",
        text: "RewriteCond %{HTTP:X-Forwarded-Proto} !https\nRewriteRule ^ https://%{HTTP_HOST}%{REQUEST_URI} [R=301,L]",
        has: &[],
        lacks: &["https_redirect"],
        fates: &[("rewritecond", Lost), ("rewriterule", Lost)],
    },
    Case {
        name: "the scheme of the connection",
        text: "RewriteCond %{HTTPS} off\nRewriteRule ^(.*)$ https://%{HTTP_HOST}%{REQUEST_URI} [L,R=301]",
        has: &["https_redirect = true"],
        lacks: &[],
        fates: &[("rewritecond", Carried), ("rewriterule", Carried)],
    },
    Case {
        name: "two conditions",
        text: "RewriteCond %{HTTPS} off\nRewriteCond %{REQUEST_URI} !^/api/\nRewriteRule ^ https://%{HTTP_HOST}%{REQUEST_URI} [L,R=301]",
        has: &[],
        lacks: &["https_redirect"],
        fates: &[("rewriterule", Lost)],
    },
    Case {
        name: "a rewrite with a query",
        text: "RewriteRule ^shop$ /index.php?pagename=shop [L,QSA]",
        has: &[],
        lacks: &[],
        fates: &[("rewriterule", Lost)],
    },
    Case {
        name: "WordPress's block",
        text: "<Directory /srv/a>\nRewriteEngine On\nRewriteRule ^index\\.php$ - [L]\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_FILENAME} !-d\nRewriteRule . /index.php [L]\n</Directory>",
        has: &[],
        lacks: &[],
        fates: &[
            ("rewriterule ^index", NotNeeded),
            ("rewriterule . /index", NotNeeded),
        ],
    },
    Case {
        name: "a front controller for everything",
        text: "RewriteRule . /index.php [L]",
        has: &[],
        lacks: &[],
        fates: &[("rewriterule", Lost)],
    },
    Case {
        name: "a proxy that strips the path",
        text: "ProxyPreserveHost On\nProxyPass /api/ http://127.0.0.1:3000/\nProxyPass /b/ http://127.0.0.1:3001/b/\nProxyPass /c !",
        has: &["3001"],
        lacks: &["3000"],
        fates: &[
            ("proxypass /api", Lost),
            ("proxypass /b", Carried),
            ("proxypass /c", Lost),
        ],
    },
    Case {
        name: "a redirect of a prefix",
        text: "Redirect 301 /a /b",
        has: &["pattern = \"^/a(/.*)?$\"", "redirect = \"/b$1\""],
        lacks: &[],
        fates: &[("redirect", Carried)],
    },
    Case {
        name: "what is gone",
        text: "Redirect gone /x.php",
        has: &["pattern = '^/x\\.php(/.*)?$'\ndeny = [\"0.0.0.0/0\", \"::/0\"]\ndeny_status = 410"],
        lacks: &[],
        fates: &[("redirect", Carried)],
    },
    Case {
        name: "a redirect by a pattern",
        text: "RedirectMatch 302 ^/old/(.*)$ https://b.test/$1",
        has: &["redirect = \"https://b.test/$1\"", "redirect_status = 302"],
        lacks: &[],
        fates: &[("redirectmatch", Carried)],
    },
    Case {
        name: "a denial in an inner condition",
        text: "<If \"%{HTTP_USER_AGENT} == 'x'\">\nRequire all denied\n</If>\n<IfModule !mod_authz_core.c>\nDeny from all\n</IfModule>",
        has: &[],
        lacks: &["deny"],
        fates: &[
            ("<if ", Lost),
            ("require all denied", Open),
            ("<ifmodule", NotNeeded),
        ],
    },
    Case {
        name: "names of files",
        text: "<Files wp-config.php>\nRequire all denied\n</Files>\n<FilesMatch \"\\.(bak|sql)$\">\nRequire all denied\n</FilesMatch>\n<Files readme.html>\nRequire all denied\n</Files>",
        has: &["bak"],
        lacks: &[],
        fates: &[
            ("<files wp-config", NotNeeded),
            ("<filesmatch", Carried),
            ("<files readme", Carried),
        ],
    },
    Case {
        name: "a password or a network",
        text: "<Location /a>\nAuthType Basic\nAuthUserFile /etc/pw\nRequire valid-user\nRequire ip 192.0.2.0/24\n</Location>",
        has: &["pattern = \"^/a(/.*)?$\"\ndeny"],
        lacks: &[],
        fates: &[("require ip", Lost)],
    },
    Case {
        name: "some users",
        text: "<Location /a>\nAuthType Basic\nAuthUserFile /etc/pw\nRequire user anna\n</Location>",
        has: &["pattern = \"^/a(/.*)?$\"\ndeny"],
        lacks: &[],
        fates: &[("require user", Lost)],
    },
    Case {
        name: "access by something else",
        text: "<Location /a>\nRequire host b.test\n</Location>\n<Location /b>\nRequire expr true\n</Location>",
        has: &[
            "pattern = \"^/a(/.*)?$\"\ndeny",
            "pattern = \"^/b(/.*)?$\"\ndeny",
        ],
        lacks: &[],
        fates: &[("require host", Lost), ("require expr", Lost)],
    },
    Case {
        name: "all but some networks",
        text: "<Location /a>\nOrder Deny,Allow\nDeny from all\nAllow from 192.0.2.7\n</Location>",
        has: &["allow = [\"192.0.2.7\"]"],
        lacks: &["0.0.0.0/0"],
        fates: &[("deny from all", Carried), ("allow from 192", Carried)],
    },
    Case {
        name: "the order of index pages",
        text: "DirectoryIndex index.html index.php",
        has: &[],
        lacks: &[],
        fates: &[("directoryindex", Lost)],
    },
    Case {
        name: "lists of folders and scripts of other kinds",
        text: "Options +Indexes\nAddHandler cgi-script .cgi\nAddType text/x .x",
        has: &[],
        lacks: &[],
        fates: &[("options", Lost), ("addhandler", Lost), ("addtype", Lost)],
    },
    Case {
        name: "clients by their names",
        text: "RewriteCond %{HTTP_USER_AGENT} nikto\nRewriteRule .* - [F]",
        has: &[],
        lacks: &["deny"],
        fates: &[("rewriterule", Open)],
    },
    Case {
        name: "a skipped rule",
        text: "RewriteRule ^a$ - [S=1]\nRewriteRule ^b$ /c [R=301,L]",
        has: &[],
        lacks: &[],
        fates: &[("rewriterule ^a", Lost), ("rewriterule ^b", Lost)],
    },
    Case {
        name: "rules that nothing turns on",
        text: "RewriteEngine Off\nRewriteRule ^/a - [F]",
        has: &[],
        lacks: &["deny"],
        fates: &[("rewriterule", NotNeeded)],
    },
    Case {
        name: "WordPress's block in a host, where every file is one that does not exist",
        text: "RewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_FILENAME} !-d\nRewriteRule . /index.php [L]",
        has: &[],
        lacks: &[],
        fates: &[("rewriterule", Lost)],
    },
    Case {
        name: "a folder with a password, and lifetimes of files in it",
        text: "ExpiresActive On\nExpiresByType text/css A60\n<Directory /srv/a/private>\nAuthType Basic\nAuthUserFile /etc/pw\nRequire valid-user\n</Directory>",
        has: &[
            "pattern = \"^/private(/.*)?$\"\nbasic_auth = \"/etc/pw\"\nspellings = false\n\n[[site.rule]]\npattern = '(?i)\\.css$'",
        ],
        lacks: &[],
        fates: &[("require valid-user", Carried), ("expiresbytype", Lost)],
    },
    Case {
        name: "lifetimes of types that other files have",
        text: "ExpiresActive On\nExpiresByType text/css A60\nExpiresByType image/png A60\nExpiresByType text/javascript A60\nAddType text/plain .css",
        has: &["png"],
        lacks: &["css", "js"],
        fates: &[
            ("expiresbytype text/css", Lost),
            ("expiresbytype image/png", Carried),
            ("expiresbytype text/javascript", Lost),
        ],
    },
    Case {
        name: "a proxy, and fields of files below its path",
        text: "ProxyPass /api http://127.0.0.1:3000/api\n<FilesMatch \"\\.css$\">\nHeader set X-A one\n</FilesMatch>",
        has: &["3000"],
        lacks: &[],
        fates: &[("proxypass", Lost)],
    },
    Case {
        name: "lifetimes that nothing turns on",
        text: "ExpiresByType text/css A60",
        has: &[],
        lacks: &["max-age"],
        fates: &[("expiresbytype", NotNeeded)],
    },
    Case {
        name: "a location with a slash at its end",
        text: "<Location /a/>\nRequire all denied\n</Location>",
        has: &["path = \"/a/*\"\ndeny"],
        lacks: &[],
        fates: &[("<location", Carried), ("require", Carried)],
    },
    Case {
        name: "a field at two levels",
        text: "Header set X-A one\n<Location /a>\nHeader always set X-A two\n</Location>",
        has: &[],
        lacks: &[],
        fates: &[("header always", Lost)],
    },
    Case {
        name: "clients with certificates",
        text: "SSLVerifyClient require",
        has: &[],
        lacks: &[],
        fates: &[("sslverifyclient", Open)],
    },
];

#[test]
fn hosts_of_apache_that_redirect_keep_the_path() {
    let cases = [
        Case {
            name: "to TLS",
            text: "<VirtualHost *:80>\nServerName a.test\nRedirect permanent / https://a.test/\n</VirtualHost>\n<VirtualHost *:443>\nServerName a.test\nDocumentRoot /srv/a\nSSLEngine on\nSSLCertificateFile /c\nSSLCertificateKeyFile /k\n</VirtualHost>",
            has: &["https_redirect = true"],
            lacks: &[],
            fates: &[("redirect permanent", Carried)],
        },
        Case {
            name: "to a page",
            text: "<VirtualHost *:80>\nServerName a.test\nRedirect 302 / https://b.test/x/\n</VirtualHost>",
            has: &[
                "redirect = \"https://b.test/x/$1\"",
                "redirect_status = 302",
            ],
            lacks: &["canonical_host"],
            fates: &[("redirect 302", Carried)],
        },
    ];
    check(ServerKind::Apache, &cases, bare);
}

#[test]
fn what_is_closed_above_a_root_is_open_only_if_a_nearer_section_opens_it() {
    let cases = [
        Case {
            name: "no section opens the root",
            text: "<Directory />\nRequire all denied\n</Directory>\n<VirtualHost *:80>\nServerName a.test\nDocumentRoot /srv/a\n</VirtualHost>",
            has: &[],
            lacks: &[],
            fates: &[("require all denied", Open)],
        },
        Case {
            name: "the host opens its root",
            text: "<Directory />\nRequire all denied\n</Directory>\n<VirtualHost *:80>\nServerName a.test\nDocumentRoot /srv/a\n<Directory /srv/a>\nRequire all granted\n</Directory>\n</VirtualHost>",
            has: &[],
            lacks: &[],
            fates: &[("require all denied", NotNeeded)],
        },
    ];
    check(ServerKind::Apache, &cases, bare);
}

#[test]
fn a_htaccess_that_apache_does_not_read_has_no_effect() {
    let host = |value: &str| {
        format!(
            "<Directory /srv>\nAllowOverride {value}\n</Directory>\n<VirtualHost *:80>\nServerName a.test\nDocumentRoot /srv/a\n</VirtualHost>\n"
        )
    };
    let files = [("/srv/a/.htaccess", "Redirect 301 /from /to\n")];
    for (value, is_read) in [
        ("None", false),
        ("All", true),
        (
            "None\n</Directory>\n<Directory /srv/a/>\nAllowOverride FileInfo",
            true,
        ),
    ] {
        let imported = super::imported_with(ServerKind::Apache, &host(value), &files);
        assert_eq!(imported.configuration.contains("/to"), is_read, "{value}");
        assert_eq!(
            super::fate(&imported, "redirect 301").is_some(),
            is_read,
            "{value}"
        );
    }
}
