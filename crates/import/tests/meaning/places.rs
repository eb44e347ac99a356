//! Servers of one host at different listeners: what only one of them had is not served at the other one.

use galley_import::ServerKind;

use super::Fate::{Carried, Lost};
use super::hostile::bare;
use super::{Case, check};

#[test]
fn what_only_some_listeners_of_nginx_had_stays_there() {
    check(ServerKind::Nginx, NGINX, bare);
}

const NGINX: &[Case] = &[
    Case {
        name: "a server for this machine only, with files and an upstream of its own",
        text: "server { listen 127.0.0.1:8080; server_name a.test;\nroot /srv/private;\nlocation /status {\nproxy_pass http://127.0.0.1:9001; } }
               server { listen 80; server_name a.test;\nlocation / { proxy_set_header Host $host; proxy_pass http://127.0.0.1:9000; } }",
        has: &["listen = [\"0.0.0.0:80\"]", "127.0.0.1:9000"],
        lacks: &["/srv/private", "9001", "8080"],
        fates: &[
            ("listen 127", Lost),
            ("root /srv/private", Lost),
            ("location /status", Lost),
            ("listen 80", Carried),
        ],
    },
    Case {
        name: "a port behind a firewall, with less refused",
        text: "server { listen 80; listen [::]:80; server_name a.test www.a.test; root /srv/a; location /admin/ { deny all; } }
               server { listen 8080; server_name a.test;\nroot /srv/a; }",
        has: &["path = \"/admin/*\"\ndeny"],
        lacks: &["8080"],
        fates: &[("listen 8080", Lost), ("location /admin/", Carried)],
    },
    Case {
        name: "two servers of this machine only, at different addresses",
        text: "server { listen 10.0.0.1:80; server_name a.test; root /srv/a; }
               server { listen 10.0.0.2:80; server_name a.test;\nroot /srv/b; }",
        has: &["root = \"/srv/a\"", "10.0.0.1:80"],
        lacks: &["/srv/b", "10.0.0.2"],
        fates: &[("root /srv/b", Lost)],
    },
    Case {
        name: "the same server at two places",
        text: "server { listen 80; server_name a.test; root /srv/a; location /x { deny all; } }
               server { listen 8443 ssl; ssl_certificate /c; ssl_certificate_key /k; server_name a.test; root /srv/a; location /x { deny all; } }",
        has: &["listen = [\"0.0.0.0:80\"]", "listen_tls = [\"0.0.0.0:8443\"]"],
        lacks: &[],
        fates: &[("listen 8443", Carried)],
    },
    Case {
        name: "blocks that end elsewhere are another server",
        text: "server { listen 80; server_name a.test; root /srv/a; location /x { deny all; } }
               server { listen 8080; server_name a.test; root /srv/a; location /x { } deny all; }",
        has: &[],
        lacks: &["8080"],
        fates: &[("listen 8080", Lost)],
    },
    Case {
        name: "clients with certificates, at another listener",
        text: "server { listen 80; server_name a.test; root /srv/a; }
               server { listen 8443 ssl; ssl_certificate /c; ssl_certificate_key /k; ssl_verify_client on; server_name a.test; root /srv/a; }",
        has: &[],
        lacks: &["8443"],
        fates: &[("listen 8443", Lost), ("ssl_verify_client", Lost)],
    },
    Case {
        name: "the usual ports with and without TLS are one place",
        text: "server { listen 80; server_name a.test; root /srv/a; }
               server { listen 443 ssl; listen [::]:443 ssl; ssl_certificate /c; ssl_certificate_key /k; server_name a.test; root /srv/a; expires 1h; }",
        has: &["listen_tls = [\"0.0.0.0:443\", \"[::]:443\"]"],
        lacks: &[],
        fates: &[("listen 80", Carried), ("listen 443", Carried)],
    },
    Case {
        name: "a public redirect that no option has, and a server for this machine only",
        text: "server { listen 80; server_name a.test; return 301 http://a.test/new; }
               server { listen 127.0.0.1:8080; server_name a.test; root /srv/private; }",
        has: &["listen = [\"127.0.0.1:8080\"]\nroot = \"/srv/private\""],
        lacks: &[],
        fates: &[("return 301", Lost)],
    },
    Case {
        name: "a public redirect to a name that only this machine has",
        text: "server { listen 80; server_name www.a.test; return 301 $scheme://a.test$request_uri; }
               server { listen 127.0.0.1:8080; server_name a.test; root /srv/private; }",
        has: &["hosts = [\"a.test\"]\nlisten = [\"127.0.0.1:8080\"]"],
        lacks: &["canonical_host"],
        fates: &[("return 301", Lost)],
    },
    Case {
        name: "a redirect to TLS at another port",
        text: "server { listen 80; server_name a.test; return 301 https://$host$request_uri; }
               server { listen 8443 ssl; ssl_certificate /c; ssl_certificate_key /k; server_name a.test; root /srv/a; }",
        has: &["https_redirect = true"],
        lacks: &[],
        fates: &[("return 301", Carried)],
    },
];

#[test]
fn what_only_some_listeners_of_apache_had_stays_there() {
    check(ServerKind::Apache, APACHE, bare);
}

const APACHE: &[Case] = &[
    Case {
        name: "a host for this machine only, with a root of its own",
        text: "<VirtualHost 127.0.0.1:8080>\nServerName a.test\nDocumentRoot /srv/private\nProxyPass /status http://127.0.0.1:9001/status\n</VirtualHost>
               <VirtualHost *:80>\nServerName www.a.test\nServerAlias a.test\nDocumentRoot /srv/a\n</VirtualHost>",
        has: &["root = \"/srv/a\""],
        lacks: &["/srv/private", "9001", "8080"],
        fates: &[("<virtualhost 127", Lost), ("documentroot /srv/private", Lost)],
    },
    Case {
        name: "the same host with and without TLS",
        text: "<VirtualHost *:80>\nServerName a.test\nDocumentRoot /srv/a\n</VirtualHost>
               <VirtualHost *:443>\nServerName a.test\nDocumentRoot /srv/a\nSSLEngine on\nSSLCertificateFile /c\nSSLCertificateKeyFile /k\n</VirtualHost>",
        has: &["0.0.0.0:80", "0.0.0.0:443"],
        lacks: &[],
        fates: &[("<virtualhost *:443", Carried)],
    },
    Case {
        name: "what is gone, and refused by a longer path",
        text: "<VirtualHost *:80>\nServerName a.test\nDocumentRoot /srv/a\nRedirect gone /a\n<Location /a/b>\nRequire all denied\n</Location>\n</VirtualHost>",
        has: &["deny_status = 410"],
        lacks: &[],
        fates: &[("redirect gone", Carried)],
    },
];
