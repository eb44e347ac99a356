//! Statements of nginx.

use galley_import::ServerKind;

use super::Fate::{Carried, Lost, NotNeeded, Open};
use super::{Case, check, imported_with};

/// A site with TLS, files and PHP, and the statements of a case.
fn server(text: &str) -> String {
    format!(
        "server {{ listen 443 ssl; server_name a.test; root /srv/a; index index.php; ssl_certificate /c; ssl_certificate_key /k;
         location / {{ try_files $uri $uri/ /index.php?$args; }}
         location ~ \\.php$ {{ fastcgi_pass 127.0.0.1:9000; }}
         {text} }}"
    )
}

/// A site that is a proxy, and the statements of a case.
fn proxy(text: &str) -> String {
    format!(
        "server {{ listen 80; server_name a.test; location / {{ proxy_pass http://127.0.0.1:8080; }} {text} }}"
    )
}

/// Only the statements of a case.
fn bare(text: &str) -> String {
    text.to_owned()
}

#[test]
fn conditions_of_nginx_are_not_flattened() {
    check(ServerKind::Nginx, CONDITIONS, server);
}

#[test]
fn servers_of_one_host_become_one_site() {
    check(ServerKind::Nginx, ONE_HOST, bare);
}

const ONE_HOST: &[Case] = &[
    Case {
        name: "another root: nginx ignores the second server of a name and a port",
        text: "server { listen 80;\nserver_name a.test b.test;\nroot /srv/a;\nlocation /a/ {\nexpires 30d; } }
            server { listen 80;\nserver_name b.test c.test;\nroot /srv/b;\nlocation /a/ {\nexpires 60d; } }",
        has: &[
            "hosts = [\"a.test\", \"b.test\", \"c.test\"]",
            "root = \"/srv/a\"",
            "max-age=2592000",
        ],
        lacks: &["/srv/b", "max-age=5184000"],
        fates: &[
            ("root /srv/a", Carried),
            ("root /srv/b", Lost),
            ("expires 30d", Carried),
            ("expires 60d", Lost),
        ],
    },
    Case {
        name: "what either server refuses stays closed",
        text: "server { listen 80;\nserver_name a.test;\nroot /srv/a;\nallow 192.0.2.1;\nallow 192.0.2.2;\ndeny all;\nlocation /a/ {\nexpires 30d; }\nlocation /b/ {\ndeny all; } }
            server { listen [::]:80;\nserver_name a.test;\nroot /srv/a;\nallow 192.0.2.2;\ndeny all;\nlocation /a/ {\ndeny all; }\nlocation /b/ {\nallow all; } }",
        has: &[
            "allow = [\"192.0.2.2\"]",
            "path = \"/a/*\"",
            "path = \"/b/*\"\ndeny",
            "\ndeny = [\"0.0.0.0/0\", \"::/0\"]",
        ],
        lacks: &["192.0.2.1"],
        fates: &[],
    },
    Case {
        name: "no client is in both lists",
        text: "server { listen 80;\nserver_name a.test;\nroot /srv/a;\nallow 192.0.2.1;\ndeny all; }
            server { listen [::]:80;\nserver_name a.test;\nroot /srv/a;\nallow 192.0.2.2;\ndeny all; }",
        has: &["deny = [\"0.0.0.0/0\", \"::/0\"]"],
        lacks: &["allow ="],
        fates: &[("allow 192.0.2.1", Lost), ("allow 192.0.2.2", Lost)],
    },
    Case {
        name: "fields that nginx ignores",
        text: "server { listen 80; server_name a.test; location / { proxy_pass http://127.0.0.1:8080; proxy_ignore_headers Cache-Control Expires; } }",
        has: &[],
        lacks: &["ignore"],
        fates: &[("proxy_ignore_headers", Lost)],
    },
];

const CONDITIONS: &[Case] = &[
    Case {
        name: "the scheme that a proxy names",
        text: "if ($http_x_forwarded_proto = \"http\") { return 301 https://$host$request_uri; }",
        has: &[],
        lacks: &["https_redirect"],
        fates: &[("if (", Lost), ("return 301", Lost)],
    },
    Case {
        name: "the scheme of the connection",
        text: "listen 80; if ($scheme = http) { return 301 https://$host$request_uri; }",
        has: &["https_redirect = true"],
        lacks: &[],
        fates: &[("if (", Carried)],
    },
    Case {
        name: "the scheme, the other way",
        text: "if ($scheme = https) { return 301 http://$host$request_uri; }",
        has: &[],
        lacks: &["https_redirect"],
        fates: &[("if (", Lost)],
    },
    Case {
        name: "a temporary redirect to TLS",
        text: "if ($scheme = http) { return 302 https://$host$request_uri; }",
        has: &[],
        lacks: &["https_redirect"],
        fates: &[("if (", Lost)],
    },
    Case {
        name: "a skip list in one expression",
        text: "set $skip_cache 0; if ($request_uri ~* \"/wp-admin/|/wp-json/|/xmlrpc.php|/members/\") { set $skip_cache 1; }
               location = /x.php { fastcgi_pass 127.0.0.1:9000; fastcgi_no_cache $skip_cache; }",
        has: &["pattern = \"(?i)/wp-json/|/members/\"", "cache = false"],
        lacks: &[],
        fates: &[("if (", Carried)],
    },
    Case {
        name: "a skip list with queries",
        text: "if ($request_uri ~* \"/members/|[?]nocache=\") { set $skip_cache 1; }
               location = /x.php { fastcgi_pass 127.0.0.1:9000; fastcgi_no_cache $skip_cache; }",
        has: &["/members/"],
        lacks: &[],
        fates: &[("if (", Lost)],
    },
    Case {
        name: "a variable that no cache uses",
        text: "if ($request_uri ~ /members/) { set $skip_cache 1; }",
        has: &[],
        lacks: &["cache = false"],
        fates: &[("if (", Lost)],
    },
    Case {
        name: "cookies that the preset does not know",
        text: "if ($http_cookie ~* \"wordpress_logged_in|woocommerce_recently_viewed|wordpress_[a-f0-9]+\") { set $skip_cache 1; }
               location = /x.php { fastcgi_pass 127.0.0.1:9000; fastcgi_no_cache $skip_cache; }",
        has: &["bypass_cookies = [\"woocommerce_recently_viewed*\"]"],
        lacks: &[],
        fates: &[("if (", Carried)],
    },
    Case {
        name: "queries that skip the cache",
        text: "if ($query_string != \"\") { set $skip_cache 1; }
               location = /x.php { fastcgi_pass 127.0.0.1:9000; fastcgi_no_cache $skip_cache; }",
        has: &[],
        lacks: &[],
        fates: &[("if (", Lost)],
    },
    Case {
        name: "a network in folders",
        text: "if (!-e $request_filename) { rewrite /wp-admin$ $scheme://$host$uri/ permanent; rewrite ^(/[^/]+)?(/wp-.*) $2 last;
               rewrite ^(/[^/]+)?(/.*\\.php) $2 last; }",
        has: &["multisite = true"],
        lacks: &[],
        fates: &[("if (", Carried), ("rewrite ^(/[^/]+)?(/wp-", Carried)],
    },
    Case {
        name: "clients by their names",
        text: "if ($http_user_agent ~* (nikto|sqlmap)) { return 403; }",
        has: &[],
        lacks: &[],
        fates: &[("if (", Open)],
    },
    Case {
        name: "a path that is denied by a condition",
        text: "if ($uri ~ ^/wp-content/debug\\.txt$) { return 403; } if ($request_uri ~* token=) { return 403; }",
        has: &["pattern = '^/wp-content/debug\\.txt$'"],
        lacks: &[],
        fates: &[("if ($uri", Carried), ("if ($request_uri", Open)],
    },
    Case {
        name: "one host",
        text: "server_name www.a.test; if ($host = www.a.test) { return 301 https://a.test$request_uri; }",
        has: &["canonical_host = \"a.test\""],
        lacks: &[],
        fates: &[("if (", Carried)],
    },
    Case {
        name: "one host of three",
        text: "server_name www.a.test b.test; if ($host = www.a.test) { return 301 https://a.test$request_uri; }",
        has: &[],
        lacks: &["canonical_host"],
        fates: &[("if (", Lost)],
    },
    Case {
        name: "methods",
        text: "if ($request_method !~ ^(GET|HEAD|POST)$) { return 403; } if ($request_method = DELETE) { return 405; } location = /x { deny all; }",
        has: &[
            "path = \"/*\"\nmethods = [\"PUT\", \"DELETE\", \"PATCH\", \"OPTIONS\", \"QUERY\"]\ndeny = [\"0.0.0.0/0\", \"::/0\"]\nspellings = false",
            "path = \"/*\"\nmethods = [\"DELETE\"]\ndeny = [\"0.0.0.0/0\", \"::/0\"]\ndeny_status = 405",
        ],
        lacks: &[],
        fates: &[
            ("if ($request_method !~", Carried),
            ("return 403", Carried),
            ("location = /x", Carried),
        ],
    },
    Case {
        name: "methods that Galley refuses, purges, and a method that has another one with it",
        text: "if ($request_method ~ ^(TRACE|TRACK)$) { return 405; } if ($request_method = PURGE) { return 403; } if ($request_method = GET) { return 403; }
               if ($request_method ~* \"^(?!GET).*$\") { return 403; }",
        has: &[],
        lacks: &["deny"],
        fates: &[
            ("if ($request_method ~ ^(TRACE", Lost),
            ("if ($request_method = PURGE", Lost),
            ("if ($request_method = GET", Open),
            ("if ($request_method ~*", Open),
        ],
    },
    Case {
        name: "methods that are refused after a redirect",
        text: "rewrite ^/a$ /b permanent; if ($request_method = PUT) { return 403; }",
        has: &["methods = [\"PUT\"]"],
        lacks: &[],
        fates: &[("if ($request_method", Lost)],
    },
    Case {
        name: "an included condition",
        text: "location /shop/ { if ($arg_x) { return 403; } }",
        has: &[],
        lacks: &[],
        fates: &[("if (", Open)],
    },
];

#[test]
fn denials_of_nginx_stay_closed() {
    check(ServerKind::Nginx, DENIALS, server);
}

const DENIALS: &[Case] = &[
    Case {
        name: "internal",
        text: "location ^~ /downloads-private/ { internal; }",
        has: &["internal = [\"/downloads-private/\"]"],
        lacks: &[],
        fates: &[("location ^~ /downloads", Carried), ("internal", Carried)],
    },
    Case {
        name: "internal, with scripts that nginx runs",
        text: "location /downloads-private/ { internal; }",
        has: &["internal = [\"/downloads-private/\"]"],
        lacks: &[],
        fates: &[("location /downloads", Lost), ("internal", Lost)],
    },
    Case {
        name: "internal with a folder",
        text: "location ^~ /protected/ { internal; alias /srv/files/; }",
        has: &["internal = [{ path = \"/protected/\", folder = \"/srv/files\" }]"],
        lacks: &[],
        fates: &[("internal", Carried), ("alias", Carried)],
    },
    Case {
        name: "internal by a pattern",
        text: "location ~ ^/wp-content/private { internal; }",
        has: &["path = \"/wp-content/private*\"\ndeny"],
        lacks: &[],
        fates: &[("internal", Lost)],
    },
    Case {
        name: "files with names that Galley sends",
        text: "location = /readme.html { deny all; } location = /wp-admin/install.php { deny all; }",
        has: &[
            "path = \"/readme.html\"",
            "path = \"/wp-admin/install.php\"\ndeny",
        ],
        lacks: &[],
        fates: &[
            ("location = /wp-admin", Carried),
            ("location = /readme", Carried),
        ],
    },
    Case {
        name: "scripts of plugins and themes",
        text: "location ~* /(plugins|themes)/.*\\.php$ { deny all; }",
        has: &["pattern = '(?i)/(plugins|themes)/.*\\.php$'"],
        lacks: &[],
        // The location of all scripts is before it.
        fates: &[("location ~*", Carried)],
    },
    Case {
        name: "scripts that never run",
        text: "location ~* ^/wp-content/uploads/.*\\.php$ { deny all; }",
        has: &[],
        lacks: &["uploads"],
        fates: &[
            ("location ~* ^/wp-content", NotNeeded),
            ("deny all", NotNeeded),
        ],
    },
    Case {
        name: "scripts in any folder called uploads",
        text: "location ~* /(?:uploads|files)/.*\\.php$ { deny all; }",
        has: &["spellings = false"],
        lacks: &[],
        fates: &[("location ~*", Carried)],
    },
    Case {
        name: "hidden files",
        text: "location ~ /\\.ht { deny all; }",
        has: &[],
        lacks: &["site.rule"],
        fates: &[("location ~ /", NotNeeded)],
    },
    Case {
        name: "hidden files, also those for certificate authorities",
        text: "location ~ /\\. { deny all; }",
        has: &["pattern = '/\\.'\ndeny"],
        lacks: &[],
        fates: &[("location ~ /\\. ", Carried)],
    },
    Case {
        name: "hidden files, after those for certificate authorities",
        text: "location ~ /\\. { deny all; } location ^~ /.well-known/acme-challenge/ { allow all; }",
        has: &[
            "path = \"/.well-known/acme-challenge/*\"",
            "pattern = '/\\.'\ndeny",
        ],
        lacks: &[],
        fates: &[("location ~ /\\. ", Carried)],
    },
    Case {
        name: "a name in a pattern",
        text: "location ~* (composer|backup).*\\.zipx$ { deny all; } location /license-shop/ { deny all; }",
        has: &["zipx", "path = \"/license-shop/*\"\ndeny"],
        lacks: &[],
        fates: &[("location ~* (", Carried), ("location /license", Carried)],
    },
    Case {
        name: "other statuses",
        text: "location = /old.php { return 410; } location = /older.php { return 404; } location ~ /\\.env { return 404; } location = /x { return 444; }",
        has: &[
            "path = \"/old.php\"\ndeny = [\"0.0.0.0/0\", \"::/0\"]\ndeny_status = 410",
            "path = \"/older.php\"\ndeny = [\"0.0.0.0/0\", \"::/0\"]\ndeny_status = 404",
            "pattern = '/\\.env'\ndeny = [\"0.0.0.0/0\", \"::/0\"]\ndeny_status = 404",
        ],
        lacks: &[],
        fates: &[
            ("return 410", Carried),
            ("return 404", Carried),
            ("location ~ /\\.env", Carried),
            ("return 444", Lost),
        ],
    },
    Case {
        name: "a pattern that Galley does not support",
        text: "location ~ ^/(?!public)secret { deny all; }",
        has: &[],
        lacks: &[],
        fates: &[("location ~ ^/(?!", Open), ("deny all", Open)],
    },
    Case {
        name: "the administration",
        text: "location ^~ /wp-admin/ { allow 192.0.2.0/24; deny all; location ~ \\.php$ { fastcgi_pass 127.0.0.1:9000; } }",
        has: &["path = \"/wp-admin/*\"\nallow = [\"192.0.2.0/24\"]"],
        lacks: &["admin_allow"],
        fates: &[
            ("location ^~", Carried),
            ("allow", Carried),
            ("deny", Carried),
        ],
    },
    Case {
        name: "networks in another order",
        text: "location /a/ { allow 192.0.2.7; deny 192.0.2.0/24; allow all; }",
        has: &["path = \"/a/*\"", "deny"],
        lacks: &[],
        fates: &[("deny 192", Lost)],
    },
    Case {
        name: "access of files only",
        text: "location ~ \\.pdf$ { auth_basic x; auth_basic_user_file /etc/pw; }",
        has: &["basic_auth = \"/etc/pw\""],
        lacks: &[],
        fates: &[("auth_basic_user_file", Carried)],
    },
    Case {
        name: "either a network or a password",
        text: "location /a/ { satisfy any; allow 192.0.2.7; deny all; auth_basic x; auth_basic_user_file /etc/pw; }",
        has: &["allow = [\"192.0.2.7\"]", "basic_auth = \"/etc/pw\""],
        lacks: &[],
        fates: &[("satisfy any", Lost), ("auth_basic_user_file", Lost)],
    },
    Case {
        name: "another program that decides",
        text: "location /a/ { auth_request /auth; } location /b/ { limit_conn addr 1; secure_link $arg_md5; }",
        has: &[],
        lacks: &[],
        fates: &[
            ("auth_request", Open),
            ("limit_conn", Open),
            ("secure_link", Open),
        ],
    },
    Case {
        name: "a limit without a zone",
        text: "location = /wp-login.php { limit_req zone=none burst=2; fastcgi_pass 127.0.0.1:9000; }",
        has: &[],
        lacks: &[],
        fates: &[("limit_req", Open)],
    },
];

#[test]
fn routing_of_nginx_is_kept_or_reported() {
    check(ServerKind::Nginx, ROUTES, server);
}

const ROUTES: &[Case] = &[
    Case {
        name: "a lifetime of files",
        text: "",
        has: &[],
        lacks: &[],
        fates: &[("try_files", NotNeeded)],
    },
    Case {
        name: "a proxy that strips the path",
        text: "location /api/ { proxy_pass http://127.0.0.1:3000/; }",
        has: &[],
        lacks: &["3000"],
        fates: &[("proxy_pass", Lost)],
    },
    Case {
        name: "a proxy that keeps the path",
        text: "proxy_set_header Host $host; location /api/ { proxy_pass http://127.0.0.1:3000/api/; } location /b/ { proxy_pass http://127.0.0.1:3001; }",
        has: &["http://127.0.0.1:3000", "http://127.0.0.1:3001"],
        lacks: &[],
        fates: &[("proxy_pass http://127.0.0.1:3000", Carried)],
    },
    Case {
        name: "a redirect with captures",
        text: "location ~ ^/old/(.*)$ { return 301 /new/$1; }",
        has: &["redirect = \"/new/$1\"", "redirect_query = false"],
        lacks: &[],
        fates: &[("return 301", Carried)],
    },
    Case {
        name: "a redirect that keeps the path",
        text: "location /old/ { return 301 https://b.test$request_uri; }",
        has: &["redirect = \"https://b.test/old/$1\""],
        lacks: &["redirect_query"],
        fates: &[("return 301", Carried)],
    },
    Case {
        name: "a text",
        text: "location = /health { return 200 \"ok\"; }",
        has: &[],
        lacks: &[],
        fates: &[("return 200", Lost)],
    },
    Case {
        name: "HTTPS for PHP",
        text: "listen 80; fastcgi_param HTTPS on; fastcgi_param REMOTE_ADDR $remote_addr; fastcgi_param REMOTE_ADDR $http_x;",
        has: &[],
        lacks: &[],
        fates: &[
            ("fastcgi_param HTTPS", Lost),
            ("fastcgi_param REMOTE_ADDR $remote", NotNeeded),
            ("fastcgi_param REMOTE_ADDR $http_x", Lost),
        ],
    },
    Case {
        name: "the order of index pages",
        text: "index index.html index.php;",
        has: &[],
        lacks: &[],
        fates: &[("index index.html", Lost)],
    },
    Case {
        name: "the usual order of index pages",
        text: "index index.php index.html index.htm;",
        has: &[],
        lacks: &[],
        fates: &[("index index.php index.html", NotNeeded)],
    },
    Case {
        name: "another root",
        text: "location /b/ { root /srv/b; }",
        has: &[],
        lacks: &[],
        fates: &[("root /srv/b", Lost)],
    },
    Case {
        name: "fields of the upstream's requests",
        text: "location /b/ { proxy_pass http://127.0.0.1:1; proxy_set_header Host other.test; proxy_set_header X-Real-IP $remote_addr; }",
        has: &[],
        lacks: &[],
        fates: &[
            ("proxy_set_header Host", Lost),
            ("proxy_set_header X-Real-IP", NotNeeded),
        ],
    },
    Case {
        name: "a WordPress in a folder that is not there",
        text: "location /blog/ { try_files $uri $uri/ /blog/index.php?$args; }",
        has: &[],
        lacks: &[],
        fates: &[("try_files $uri $uri/ /blog/", Lost)],
    },
    Case {
        name: "a rewrite inside the server",
        text: "rewrite ^/shop$ /index.php?pagename=shop last; rewrite ^/a/(.*)$ /b/$1 permanent; rewrite ^/c$ /d break;",
        has: &["redirect = \"/b/$1\""],
        lacks: &[],
        fates: &[
            ("rewrite ^/shop", Lost),
            ("rewrite ^/a", Carried),
            ("rewrite ^/c", Lost),
        ],
    },
    Case {
        name: "types of files",
        text: "location ~* \\.(css|js)$ { expires 30d; default_type text/plain; }",
        has: &["max-age=2592000"],
        lacks: &[],
        fates: &[("expires 30d", Carried), ("default_type", Lost)],
    },
    Case {
        name: "another file for missing ones",
        text: "location /img/ { try_files $uri /img/none.png; }",
        has: &[],
        lacks: &[],
        fates: &[("try_files $uri /img", Lost)],
    },
];

#[test]
fn a_lifetime_of_files_does_not_become_one_of_pages() {
    let text = "server { listen 80; server_name a.test; root /srv/a;
        location / { try_files $uri $uri/ /index.php?$args; expires 30m; add_header X-A b; }
        location ~ \\.php$ { fastcgi_pass 127.0.0.1:9000; add_header X-B c; } }";
    let case = Case {
        name: "files",
        text,
        has: &[],
        lacks: &["max-age", "X-A", "X-B"],
        fates: &[
            ("expires", Lost),
            ("add_header X-A", Lost),
            ("add_header X-B", Lost),
        ],
    };
    check(ServerKind::Nginx, &[case], bare);
}

#[test]
fn servers_of_nginx_that_redirect_keep_path_and_status() {
    check(ServerKind::Nginx, REDIRECTS, bare);
}

const REDIRECTS: &[Case] = &[
    Case {
        name: "a temporary redirect of a host",
        text: "server { listen 80; server_name a.test; return 302 https://b.test$request_uri; }",
        has: &["redirect = \"https://b.test/$1\"", "redirect_status = 302"],
        lacks: &["canonical_host", "https_redirect"],
        fates: &[("return 302", Carried)],
    },
    Case {
        name: "a redirect of a host to one page",
        text: "server { listen 80; server_name a.test; return 301 https://b.test/gone/; }",
        has: &["redirect = \"https://b.test/gone/\"", "redirect_query = false"],
        lacks: &["$1"],
        fates: &[("return 301", Carried)],
    },
    Case {
        name: "a redirect to TLS",
        text: "server { listen 80; server_name a.test; return 301 https://$host$request_uri; }
               server { listen 443 ssl; server_name a.test; ssl_certificate /c; ssl_certificate_key /k; root /srv/a; location ~ \\.php$ { fastcgi_pass 127.0.0.1:9000; } }",
        has: &["https_redirect = true"],
        lacks: &["redirect = \""],
        fates: &[("return 301", Carried)],
    },
    Case {
        name: "a temporary redirect to TLS",
        text: "server { listen 80; server_name a.test; return 302 https://$host$request_uri; }
               server { listen 443 ssl; server_name a.test; ssl_certificate /c; ssl_certificate_key /k; root /srv/a; location ~ \\.php$ { fastcgi_pass 127.0.0.1:9000; } }",
        has: &[],
        lacks: &["https_redirect = true"],
        fates: &[("return 302", Lost)],
    },
];

#[test]
fn proxies_of_nginx_without_files_close_hidden_names_themselves() {
    let case = Case {
        name: "hidden files behind a proxy",
        text: "location ~ /\\.git { deny all; } expires 1h;",
        has: &["git"],
        lacks: &[],
        fates: &[("location ~ /\\.git", Carried)],
    };
    check(ServerKind::Nginx, &[case], proxy);
}

#[test]
fn a_wordpress_in_a_folder_runs_its_own_front_controller() {
    let text = server("location /blog/ { try_files $uri $uri/ /blog/index.php?$args; }");
    let files = [
        ("/srv/a/blog/wp-blog-header.php", ""),
        ("/srv/a/blog/index.php", ""),
    ];
    let imported = imported_with(ServerKind::Nginx, &text, &files);
    assert_eq!(
        super::fate(&imported, "try_files $uri $uri/ /blog/"),
        Some(NotNeeded)
    );
}

#[test]
fn lifetimes_of_two_levels_are_not_one() {
    let scripts = "fastcgi_cache_valid 200 10m; location / { try_files $uri /index.php?$args; }
                   location ~ \\.php$ { fastcgi_pass 127.0.0.1:9000; fastcgi_cache_valid 404 1m; }
                   location = /feed.php { fastcgi_pass 127.0.0.1:9000; fastcgi_cache_valid 200 404 2h; }";
    let text = format!("server {{ listen 80; server_name a.test; root /srv/a; {scripts} }}");
    let imported = imported_with(ServerKind::Nginx, &text, &[]);
    for (start, wanted) in [
        ("fastcgi_cache_valid 404 1m", super::Fate::Carried),
        ("fastcgi_cache_valid 200 404 2h", super::Fate::Lost),
    ] {
        let found = super::fate(&imported, start);
        assert_eq!(found, Some(wanted), "{}", imported.configuration);
    }
}
