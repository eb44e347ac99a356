//! As `hostile`, for Apache, Caddy and Varnish.

use galley_import::ServerKind;

use super::Fate::{Carried, Lost, NotNeeded, Open};
use super::hostile::bare;
use super::{Case, check};

fn host(text: &str) -> String {
    format!(
        "<VirtualHost *:80>\nServerName a.test\nDocumentRoot /srv/a\nRewriteEngine On\n{text}\n</VirtualHost>\n"
    )
}

#[test]
fn apache_is_read_by_context() {
    check(ServerKind::Apache, APACHE, host);
}

#[test]
fn apache_is_read_by_server() {
    check(ServerKind::Apache, HOSTS, bare);
}

const HOSTS: &[Case] = &[
    Case {
        name: "a host for this machine only, beside a public one",
        text: "<VirtualHost *:80>\nServerName example.com\nDocumentRoot /w\n</VirtualHost>
               <VirtualHost 127.0.0.1:8080>\nServerName admin.example.com\nDocumentRoot /srv/admin\n</VirtualHost>",
        has: &[
            "hosts = [\"example.com\"]\nlisten = [\"0.0.0.0:80\"]",
            "hosts = [\"admin.example.com\"]\nlisten = [\"127.0.0.1:8080\"]",
        ],
        lacks: &[],
        fates: &[],
    },
    Case {
        name: "access in sections outside of all hosts",
        text: "<DirectoryMatch \"^/srv/.*/private\">\nRequire all denied\n</DirectoryMatch>
               <LimitExcept GET POST>\nRequire ip 192.0.2.1\n</LimitExcept>
               <IfDefine !OPEN>\nRequire ip 192.0.2.2\n</IfDefine>
               <IfModule !mod_own.c>\n<Directory /srv/a>\nRequire ip 192.0.2.3\n</Directory>\n</IfModule>
               <Directory /srv>\n<Limit PUT>\nRequire ip 192.0.2.4\n</Limit>\n</Directory>
               <Proxy *>\nRequire ip 192.0.2.5\n</Proxy>
               <Directory /srv>\n<IfModule mod_authz_core.c>\nRequire ip 192.0.2.6\n</IfModule>\n</Directory>
               <IfDefine SECURE>\nSSLRequireSSL\n</IfDefine>
               <VirtualHost *:80>\nServerName example.com\nDocumentRoot /srv/a\n</VirtualHost>",
        has: &["root = \"/srv/a\""],
        lacks: &["deny", "allow"],
        fates: &[
            ("require all denied", Open),
            ("require ip 192.0.2.1", Open),
            ("require ip 192.0.2.2", Open),
            ("require ip 192.0.2.3", Open),
            ("require ip 192.0.2.4", Open),
            ("require ip 192.0.2.5", Open),
            ("require ip 192.0.2.6", Open),
            ("sslrequiressl", Open),
        ],
    },
    Case {
        name: "an upstream that gets its own host",
        text: "<VirtualHost *:80>\nServerName a.test\nDocumentRoot /srv/a\nProxyPass /a/ http://10.0.0.5:8080/a/\n</VirtualHost>
               <VirtualHost *:80>\nServerName b.test\nProxyPreserveHost On\nProxyPass / http://10.0.0.6:8080/\n</VirtualHost>",
        has: &["10.0.0.5:8080", "10.0.0.6:8080"],
        lacks: &[],
        fates: &[("proxypass /a/", Lost), ("proxypass / ", Carried)],
    },
    Case {
        name: "the host of the visitor for all upstreams but one",
        text: "ProxyPreserveHost On\n<VirtualHost *:80>\nServerName a.test\nProxyPass / http://10.0.0.5:8080/\n</VirtualHost>
               <VirtualHost *:80>\nServerName b.test\nProxyPreserveHost Off\nProxyPass / http://127.0.0.1:8080/\n</VirtualHost>",
        has: &[],
        lacks: &[],
        fates: &[
            ("proxypass / http://10.0.0.5", Carried),
            ("proxypass / http://127", Lost),
        ],
    },
    Case {
        name: "a host that redirects to TLS, with a root and an upstream of its own, before the host with TLS",
        text: "<VirtualHost *:80>\nServerName e.com\nDocumentRoot /w\nProxyPreserveHost On\nProxyPass /api/ http://127.0.0.1:3000/api/\nRedirect permanent / https://e.com/\n</VirtualHost>
               <VirtualHost *:443>\nServerName e.com\nDocumentRoot /w\nSSLEngine On\nSSLCertificateFile /c\nSSLCertificateKeyFile /k\n</VirtualHost>",
        has: &["https_redirect = true"],
        lacks: &["redirect = \"https", "3000"],
        fates: &[("proxypass", Lost), ("redirect permanent", Carried)],
    },
];

const APACHE: &[Case] = &[
    Case {
        name: "access control that is merged",
        text: "<Directory /srv/a>\nRequire ip 192.0.2.0/24\n</Directory>\n<Location />\nAuthMerging And\nRequire all granted\n</Location>",
        has: &["deny = [\"0.0.0.0/0\", \"::/0\"]"],
        lacks: &[],
        fates: &[("authmerging", Open), ("require all granted", Lost)],
    },
    Case {
        name: "a field at two levels, behind a condition that the import does not evaluate",
        text: "RewriteCond %{ENV:closed} yes\nRewriteRule ^ - [F]\nHeader set X-A one\n<Location /a>\nHeader always set X-A two\n</Location>",
        has: &[],
        lacks: &[],
        fates: &[("rewriterule", Open), ("header always", Lost)],
    },
    Case {
        name: "refusals with other statuses",
        text: "RewriteRule ^/a$ - [R=404,L]\nRewriteRule ^/b$ - [R=503,L]\nRewriteRule ^/c$ - [G]\nRewriteRule ^/d$ - [F]",
        has: &[
            "pattern = \"^/a$\"\ndeny",
            "pattern = \"^/b$\"\ndeny",
            "pattern = \"^/c$\"\ndeny",
        ],
        lacks: &[],
        fates: &[
            ("rewriterule ^/a", Carried),
            ("rewriterule ^/b", Lost),
            ("rewriterule ^/c", Carried),
            ("rewriterule ^/d", Carried),
        ],
    },
    Case {
        name: "a page for maintenance, but not for all",
        text: "RewriteCond %{REMOTE_ADDR} !^192\\.0\\.2\\.\nRewriteRule ^ - [R=503,L]",
        has: &[],
        lacks: &["deny"],
        fates: &[("rewritecond", Open), ("rewriterule", Open)],
    },
    Case {
        name: "connections that must have TLS, and clients with certificates",
        text: "<Location /a>\nSSLRequireSSL\n</Location>\n<Location /b>\nSSLVerifyClient require\n</Location>\n<If \"true\">\nSSLRequireSSL\n</If>\nSSLVerifyClient none",
        has: &[],
        lacks: &[],
        fates: &[
            ("sslrequiressl", Open),
            ("sslverifyclient require", Open),
            ("sslverifyclient none", NotNeeded),
        ],
    },
    Case {
        name: "names of files in a folder",
        text: "<Directory /srv/a/private>\n<FilesMatch \"\\.(sql|bak)$\">\nRequire all denied\n</FilesMatch>\n</Directory>",
        has: &[],
        lacks: &["sql"],
        fates: &[("<filesmatch", Lost), ("require all denied", Open)],
    },
    Case {
        name: "alternatives of conditions",
        text: "RewriteCond %{REQUEST_URI} ^/secret [OR]\nRewriteCond %{QUERY_STRING} wipe\nRewriteRule ^ - [F]",
        has: &[],
        lacks: &["secret"],
        fates: &[("rewritecond %{REQUEST_URI}", Open), ("rewriterule", Open)],
    },
    Case {
        name: "requirements in requirements",
        text: "<Location /a>\n<RequireAll>\nRequire ip 192.0.2.0/24\n<RequireAny>\nRequire valid-user\nRequire ip 198.51.100.7\n</RequireAny>\n</RequireAll>\n</Location>",
        has: &["pattern = \"^/a(/.*)?$\"\ndeny"],
        lacks: &["allow"],
        fates: &[("<requireall", Lost)],
    },
    Case {
        name: "methods",
        text: "<Location /a>\n<LimitExcept GET>\nRequire all denied\n</LimitExcept>\n</Location>",
        has: &[],
        lacks: &["deny"],
        fates: &[("<limitexcept", Lost), ("require all denied", Open)],
    },
    Case {
        name: "either a password or a network",
        text: "<Location /a>\nSatisfy Any\nOrder deny,allow\nDeny from all\nAllow from 192.0.2.0/24\nAuthType Basic\nAuthUserFile /etc/pw\nRequire valid-user\n</Location>",
        has: &["deny = [\"0.0.0.0/0\", \"::/0\"]"],
        lacks: &["allow ="],
        fates: &[("satisfy", Lost), ("allow from", Lost)],
    },
    Case {
        name: "names of files that are refused, and a redirect of a folder",
        text: "<FilesMatch \"\\.txt$\">\nRequire all denied\n</FilesMatch>\n<Directory /srv/a>\nRedirect 302 /old /new\n</Directory>",
        has: &["redirect = \"/new$1\"", "deny"],
        lacks: &[],
        fates: &[("redirect 302", Lost), ("require all denied", Carried)],
    },
    Case {
        name: "relative targets below another folder than the root",
        text: "<Directory /srv/a>\nRewriteEngine On\nRewriteBase /blog/\nRewriteRule ^a$ b [R=301,L]\nRewriteRule ^c$ /d [R=301,L]\nRewriteRule ^e$ - [F]\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_FILENAME} !-d\nRewriteRule . index.php [L]\n</Directory>",
        has: &["redirect = \"/d\""],
        lacks: &["redirect = \"/b\""],
        fates: &[
            ("rewritebase", Lost),
            ("rewriterule ^a", Lost),
            ("rewriterule ^c", Carried),
            ("rewriterule ^e", Carried),
            ("rewriterule . index", Lost),
        ],
    },
    Case {
        name: "TLS 1.3 only",
        text: "SSLProtocol -all +TLSv1.3",
        has: &[],
        lacks: &[],
        fates: &[("sslprotocol", Lost)],
    },
    Case {
        name: "all versions of TLS but the older ones",
        text: "SSLProtocol all -SSLv3 -TLSv1 -TLSv1.1 -TLSv1.2",
        has: &[],
        lacks: &[],
        fates: &[("sslprotocol", Lost)],
    },
    Case {
        name: "both versions of TLS",
        text: "SSLProtocol all -SSLv3 -TLSv1 -TLSv1.1",
        has: &[],
        lacks: &[],
        fates: &[("sslprotocol", NotNeeded)],
    },
];

fn caddy(text: &str) -> String {
    format!("a.test {{\n\troot * /srv/a\n\tphp_fastcgi unix//run/php.sock\n{text}\n}}\n")
}

#[test]
fn caddy_is_read_by_context() {
    check(ServerKind::Caddy, CADDY, caddy);
}

const CADDY: &[Case] = &[
    Case {
        name: "a server that gets shorter paths",
        text: "uri strip_prefix /api\nreverse_proxy /api/* b:1",
        has: &[],
        lacks: &[],
        fates: &[("uri", Lost), ("reverse_proxy", Lost)],
    },
    Case {
        name: "clients with certificates, beside a certificate",
        text: "tls /c /k {\nclient_auth {\nmode require\n}\n}",
        has: &[],
        lacks: &[],
        fates: &[("tls", Open), ("client_auth", Open)],
    },
    Case {
        name: "files that are hidden",
        text: "file_server {\nhide /srv/a/secret.txt\n}",
        has: &[],
        lacks: &[],
        fates: &[("hide", Open)],
    },
    Case {
        name: "a path and a client",
        text: "@x {\npath /a/*\nnot remote_ip 192.0.2.0/24\n}\nrespond @x 403",
        has: &[],
        lacks: &["/a/"],
        fates: &[("@x", Lost), ("respond", Open)],
    },
    Case {
        name: "passwords in a block",
        text: "handle /a/* {\nbasic_auth {\nanna x\n}\nfile_server\n}",
        has: &[],
        lacks: &[],
        fates: &[("handle", Lost), ("basic_auth", Open)],
    },
    Case {
        name: "a refusal behind a rewrite",
        text: "rewrite * /app{uri}\nrespond /app/private/* 403",
        has: &["/app/private/"],
        lacks: &[],
        fates: &[("respond", Open)],
    },
    Case {
        name: "a refusal of names that are not plain",
        text: "respond /ä<b>/* 403",
        has: &["(?i)^/ä<b>/.*$"],
        lacks: &[],
        fates: &[("respond", Carried)],
    },
];

fn vcl(text: &str) -> String {
    format!("vcl 4.1;\nbackend default {{ .host = \"127.0.0.1\"; .port = \"8080\"; }}\n{text}\n")
}

#[test]
fn vcl_is_read_by_context() {
    check(ServerKind::Varnish, VCL, vcl);
}

const VCL: &[Case] = &[
    Case {
        name: "a refusal under two conditions",
        text: "sub vcl_recv { if (req.http.host == \"a.test\") { if (req.url ~ \"^/secret\") { return (synth(403)); } } }",
        has: &[],
        lacks: &["secret"],
        fates: &[("if (req.http.host", Lost), ("return (synth(403", Open)],
    },
    Case {
        name: "a refusal of all requests",
        text: "sub vcl_recv { return (synth(503)); }",
        has: &[],
        lacks: &[],
        fates: &[("return (synth(503", Open)],
    },
    Case {
        name: "a refusal in a subroutine, and one of the others",
        text: "sub vcl_recv { call own; if (req.url ~ \"^/a\") { return (pass); } else { return (synth(403)); } } sub own { if (req.url ~ \"^/b\") { return (synth(404)); } }",
        has: &[],
        lacks: &["deny"],
        fates: &[
            ("call own", Lost),
            ("else", Open),
            ("return (synth(404", Open),
        ],
    },
    Case {
        name: "a path, a client and a host",
        text: "acl office { \"192.0.2.0\"/24; } sub vcl_recv { if (req.url ~ \"^/a\" && client.ip !~ office && req.http.host == \"a.test\") { return (synth(403)); } }",
        has: &[],
        lacks: &["allow"],
        fates: &[("if (", Open), ("acl office", Lost)],
    },
    Case {
        name: "a list with an exception",
        text: "acl purge { \"192.0.2.0\"/24; ! \"192.0.2.7\"; } sub vcl_recv { if (req.method == \"PURGE\") { if (!client.ip ~ purge) { return (synth(405)); } return (purge); } }",
        has: &[],
        lacks: &["purge_allow"],
        fates: &[("acl purge", Lost)],
    },
    Case {
        name: "a refusal with another status, for all clients but some",
        text: "acl office { \"192.0.2.0\"/24; } sub vcl_recv { if (req.url ~ \"^/a\" && client.ip !~ office) { return (synth(404)); } }",
        has: &["allow = [\"192.0.2.0/24\"]\ndeny_status = 404"],
        lacks: &[],
        fates: &[("if (", Carried), ("acl office", Carried)],
    },
];
