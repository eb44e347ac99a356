//! Configurations that a translation by names would get wrong: each statement is judged by its context.

use galley_import::ServerKind;

use super::Fate::{Carried, Lost, NotNeeded, Open};
use super::{Case, check};

pub(super) fn bare(text: &str) -> String {
    text.to_owned()
}

/// A site with files and PHP, and the statements of a case.
fn server(text: &str) -> String {
    format!(
        "server {{ listen 80; server_name a.test; root /srv/a; index index.php index.html;
         location / {{ try_files $uri $uri/ /index.php?$args; }}
         location ~ \\.php$ {{ fastcgi_pass 127.0.0.1:9000; }}
         {text} }}"
    )
}

#[test]
fn nginx_is_read_by_context() {
    check(ServerKind::Nginx, NGINX, server);
}

const NGINX: &[Case] = &[
    Case {
        name: "a cookie for which nothing is stored",
        text: "fastcgi_no_cache $cookie_my_member $http_authorization; fastcgi_cache_bypass $arg_preview;",
        has: &["bypass_cookies = [\"my_member\"]"],
        lacks: &[],
        fates: &[
            ("fastcgi_no_cache", Carried),
            ("fastcgi_cache_bypass", Lost),
        ],
    },
    Case {
        name: "variables that statements set, and one that none sets",
        text: "set $skip 0; fastcgi_no_cache $skip; fastcgi_cache_bypass $elsewhere;",
        has: &[],
        lacks: &["bypass_cookies"],
        fates: &[
            ("fastcgi_no_cache", NotNeeded),
            ("fastcgi_cache_bypass", Lost),
        ],
    },
    Case {
        name: "fields of one level, where another program guards the server",
        text: "auth_request /sub;\nadd_header X-Outer one;\nlocation ^~ /media/ {\nadd_header X-Inner two; }",
        has: &[],
        lacks: &[],
        fates: &[("auth_request", Open), ("add_header X-Outer", Lost)],
    },
    Case {
        name: "a cache that is off",
        text: "fastcgi_cache off;",
        has: &[],
        lacks: &[],
        fates: &[("fastcgi_cache off", Lost)],
    },
    Case {
        name: "a rewrite before an upstream",
        text: "location /api/ { rewrite ^/api/(.*)$ /$1 break; proxy_pass http://127.0.0.1:3000; }",
        has: &[],
        lacks: &["3000"],
        fates: &[("rewrite", Lost), ("proxy_pass", Lost)],
    },
    Case {
        name: "a redirect before an upstream",
        text: "location ^~ /api/ { rewrite ^/api/old$ /new permanent; proxy_set_header Host $http_host; proxy_pass http://127.0.0.1:3000; }",
        has: &["3000"],
        lacks: &[],
        fates: &[("rewrite", Lost), ("proxy_pass", Carried)],
    },
    Case {
        name: "a condition on the address, which may match its query",
        text: "if ($request_uri ~ ^/.*secret) { return 403; } if ($request_uri ~ ^/private/) { return 403; } if ($request_uri ~ \"^/a|wipe\") { return 403; }",
        has: &["path = \"/private/*\"\ndeny"],
        lacks: &[],
        fates: &[
            ("if ($request_uri ~ ^/.*secret", Open),
            ("if ($request_uri ~ ^/private", Carried),
            ("if ($request_uri ~ ^/a|wipe", Open),
        ],
    },
    Case {
        name: "a pattern that only PCRE has",
        text: "location ~ ^/secret\\Z { deny all; } location ~ ^/(?<name>private) { deny all; }",
        has: &[],
        lacks: &["\\Z", "?<name>"],
        fates: &[
            ("location ~ ^/secret", Open),
            ("location ~ ^/(?<name>", Open),
        ],
    },
    Case {
        name: "a star that is no wildcard",
        text: "location = \"/a*\" { return 301 /b; } location \"/c*d\" { deny all; }",
        has: &[],
        lacks: &["/a*", "/c*"],
        fates: &[("return 301", Lost), ("location /c*d", Open)],
    },
    Case {
        name: "a cookie beside those of PHP",
        text: "location ^~ /shop/ { add_header Set-Cookie seen=1; fastcgi_pass 127.0.0.1:9000; }",
        has: &[],
        lacks: &["Set-Cookie"],
        fates: &[("add_header Set-Cookie", Lost)],
    },
    Case {
        name: "an inner location that opens what the outer one closes",
        text: "location ^~ /private/ { deny all; location ^~ /private/public/ { allow all; } }",
        has: &["path = \"/private/*\"\ndeny"],
        lacks: &[],
        fates: &[("location ^~ /private/ ", Lost)],
    },
    Case {
        name: "an inner pattern that opens what an outer one closes",
        text: "location ~* /private {\ndeny all;\nlocation ~ \\.txt$ {\nallow all; } }",
        has: &["pattern = \"(?i)/private\"\ndeny"],
        lacks: &[],
        fates: &[("location ~* /private", Lost)],
    },
    Case {
        name: "a refusal that a variable decides about",
        text: "set $bad 0; if ($http_user_agent ~ curl) { set $bad 1; } if ($bad) { return 403; }",
        has: &[],
        lacks: &["deny"],
        fates: &[("if ($bad", Open)],
    },
    Case {
        name: "a condition that a redirect is behind",
        text: "if ($http_user_agent ~ bot) { return 301 /robots; }",
        has: &[],
        lacks: &["redirect"],
        fates: &[("if (", Lost), ("return 301", Lost)],
    },
    Case {
        name: "referers",
        text: "valid_referers none a.test; location ~ \\.(jpg|png)$ { if ($invalid_referer) { return 403; } }",
        has: &[],
        lacks: &["deny"],
        fates: &[("valid_referers", Lost), ("if ($invalid", Open)],
    },
    Case {
        name: "programs that decide about access",
        text: "location ^~ /a/ { auth_ldap x; } location ^~ /b/ { access_by_lua_file /x.lua; } location ^~ /c/ { auth_digest x; }",
        has: &[],
        lacks: &[],
        fates: &[
            ("auth_ldap", Open),
            ("access_by_lua_file", Open),
            ("auth_digest", Open),
        ],
    },
    Case {
        name: "a password whose file is named elsewhere",
        text: "auth_basic_user_file /etc/pw; location ^~ /a/ { auth_basic x; }",
        has: &["basic_auth = \"/etc/pw\""],
        lacks: &[],
        fates: &[("auth_basic_user_file", Lost)],
    },
    Case {
        name: "a lifetime of one location, and none of another below it",
        text: "location /css/ { expires 30d; location ~ \\.css$ { add_header X-A one; } }",
        has: &[],
        lacks: &["X-A"],
        fates: &[("add_header X-A", Lost)],
    },
    Case {
        name: "an error page that is a redirect",
        text: "error_page 403 =301 https://b.test/; location = /a { deny all; }",
        has: &["path = \"/a\"\ndeny"],
        lacks: &["b.test"],
        fates: &[("error_page", Lost)],
    },
    Case {
        name: "a folder elsewhere",
        text: "location ^~ /files/ { alias /srv/files/; allow 192.0.2.0/24; deny all; }",
        has: &["path = \"/files/*\"\nallow = [\"192.0.2.0/24\"]"],
        lacks: &[],
        fates: &[("alias", Lost), ("allow", Carried)],
    },
    Case {
        name: "an upstream by a variable",
        text: "set $api 127.0.0.1:3000; location ^~ /api/ { proxy_pass http://$api; }",
        has: &[],
        lacks: &["3000"],
        fates: &[("proxy_pass", Lost)],
    },
    Case {
        name: "what guards an inner location, at any depth",
        text: "location ^~ /a/ {\nlocation ^~ /a/1/ {\nauth_request /sub; }\nlocation ^~ /a/2/ {\nif ($arg_key != x) {\nreturn 403; } }
               location ^~ /a/3/ {\nlimit_except GET {\ndeny all; } }\nlocation ^~ /a/4/ {\nsecure_link $arg_md5; }
               location ^~ /a/5/ {\naccess_by_lua_block {\nngx.exit(403) } }\nlocation ^~ /a/6/ {\nlimit_conn one 5; }
               location ^~ /a/7/ {\nlocation ^~ /a/7/8/ {\ndeny 192.0.2.1; } }\nlocation ^~ /a/9/ {\nlimit_req zone=one; } }",
        has: &[],
        lacks: &["deny"],
        fates: &[
            ("location ^~ /a/1/", Open),
            ("auth_request", Open),
            ("location ^~ /a/2/", Open),
            ("return 403", Open),
            ("limit_except", Open),
            ("secure_link", Open),
            ("access_by_lua_block", Open),
            ("limit_conn", Open),
            ("deny 192.0.2.1", Open),
            ("limit_req", Open),
        ],
    },
    Case {
        name: "what guards a location that no rule has",
        text: "location ~ ^/(?!b)c/ { limit_conn one 5; if ($arg_key != x) { return 403; } } location @own { auth_request /sub; }",
        has: &[],
        lacks: &["deny"],
        fates: &[("limit_conn", Open), ("return 403", Open), ("auth_request", Open)],
    },
    Case {
        name: "upstreams that get their own host, or that of the visitor",
        text: "proxy_set_header X-Own one;
               location ^~ /a/ { proxy_pass http://10.0.0.5:8080; } location ^~ /b/ { proxy_set_header Host $host; proxy_pass http://10.0.0.6:8080; }
               location ^~ /c/ { proxy_set_header X-Real-IP $remote_addr; proxy_pass http://127.0.0.1:8080; }",
        has: &["10.0.0.5:8080", "10.0.0.6:8080", "127.0.0.1:8080"],
        lacks: &[],
        fates: &[
            ("proxy_pass http://10.0.0.5", Lost),
            ("proxy_pass http://10.0.0.6", Carried),
            ("proxy_pass http://127", Lost),
        ],
    },
    Case {
        name: "a host that the server sends, and a location with fields of its own",
        text: "proxy_set_header Host $http_host;
               location ^~ /a/ { proxy_pass http://10.0.0.5:8080; } location ^~ /b/ { proxy_set_header X-Real-IP $remote_addr; proxy_pass http://10.0.0.6:8080; }
               location ^~ /c/ { proxy_pass http://10.0.0.7:8080; }",
        has: &[],
        lacks: &[],
        fates: &[
            ("proxy_pass http://10.0.0.5", Carried),
            ("proxy_pass http://10.0.0.6", Lost),
            ("proxy_pass http://10.0.0.7", Carried),
        ],
    },
    Case {
        name: "keys of a cache by addresses, and by other things",
        text: "fastcgi_cache_key $scheme$request_method$host$request_uri; location ^~ /a/ { proxy_cache_key ${cookie_lang}$request_uri; }
               location ^~ /b/ { proxy_cache_key $http_accept_language$host; } location ^~ /c/ { proxy_cache_key pages|${http_host}x$host; }
               location ^~ /d/ { proxy_cache_key $request_uri$hostile; }",
        has: &[],
        lacks: &[],
        fates: &[
            ("fastcgi_cache_key", NotNeeded),
            ("proxy_cache_key ${cookie_lang}", Lost),
            ("proxy_cache_key $http_accept", Lost),
            ("proxy_cache_key pages", NotNeeded),
            ("proxy_cache_key $request_uri", Lost),
        ],
    },
    Case {
        name: "programs before a location, and a limit that is not enforced",
        text: "limit_req_dry_run on; location ^~ /a/ { rewrite_by_lua_file /x.lua; } location ^~ /b/ { modsecurity_rules_file /x; } include missing.conf;",
        has: &[],
        lacks: &[],
        fates: &[
            ("rewrite_by_lua_file", Open),
            ("modsecurity_rules_file", Open),
            ("limit_req_dry_run", Lost),
            ("include missing", Open),
        ],
    },
    Case {
        name: "a file that switches the site, and one that a visitor names",
        text: "if (!-f $document_root/open.flag) {\nrewrite ^ /index.php;\n}\nif (!-e $request_filename) {\nrewrite ^.* /index.php last;\n}",
        has: &[],
        lacks: &[],
        fates: &[("if (!-f", Lost), ("if (!-e", NotNeeded)],
    },
];

#[test]
fn nginx_is_read_by_server() {
    check(ServerKind::Nginx, SERVERS, bare);
}

const SERVERS: &[Case] = &[
    Case {
        name: "a root that depends on the host",
        text: "server { listen 80; server_name .a.test; root /srv/$host/public; location ~ \\.php$ { fastcgi_pass 127.0.0.1:9000; } }",
        has: &[],
        lacks: &["/srv"],
        fates: &[("root", Lost)],
    },
    Case {
        name: "limits by something other than addresses",
        text: "limit_req_zone $server_name zone=all:1m rate=5r/s; limit_req_zone $binary_remote_addr zone=one:1m rate=5r/s;
               server { listen 80; server_name a.test; root /srv/a; location = /a.php { limit_req zone=all; fastcgi_pass 127.0.0.1:9000; }
               location = /b.php { limit_req zone=one burst=3; limit_req zone=all; fastcgi_pass 127.0.0.1:9000; } }",
        has: &["path = \"/b.php\"\nlimit = { rate = \"5/s\", burst = 3 }"],
        lacks: &["path = \"/a.php\"\nlimit"],
        fates: &[
            ("limit_req_zone $server_name", Lost),
            ("limit_req zone=all", Open),
            ("limit_req zone=one", Carried),
        ],
    },
    Case {
        name: "the field from which nginx takes addresses without a statement",
        text: "server { listen 80; server_name a.test; root /srv/a; set_real_ip_from 192.0.2.0/24; }",
        has: &[
            "trusted_proxies = [\"192.0.2.0/24\"]",
            "client_field = \"x-real-ip\"",
        ],
        lacks: &[],
        fates: &[("set_real_ip_from", Carried)],
    },
    Case {
        name: "a field that Galley does not read",
        text: "server { listen 80; server_name a.test; root /srv/a; set_real_ip_from 192.0.2.0/24; real_ip_header True-Client-IP; real_ip_recursive off; }",
        has: &[],
        lacks: &["trusted_proxies"],
        fates: &[
            ("set_real_ip_from", Lost),
            ("real_ip_header", Lost),
            ("real_ip_recursive", Lost),
        ],
    },
    Case {
        name: "a proxy that one of two servers trusts",
        text: "server { listen 80; server_name a.test; root /srv/a;\nset_real_ip_from 192.0.2.0/24;\nreal_ip_header X-Forwarded-For;\n}
               server { listen 80; server_name b.test; root /srv/b; allow 198.51.100.7; deny all; }",
        has: &[],
        lacks: &[],
        fates: &[("set_real_ip_from", Lost)],
    },
    Case {
        name: "two values for all sites",
        text: "server { listen 80; server_name a.test; root /srv/a;\nkeepalive_timeout 10s;\n}
               server { listen 80; server_name b.test; root /srv/b;\nkeepalive_timeout 20s;\n}",
        has: &["idle_timeout = \"10s\""],
        lacks: &["20s"],
        fates: &[("keepalive_timeout 10s", Carried), ("keepalive_timeout 20s", Lost)],
    },
    Case {
        name: "what all servers refuse",
        text: "deny all; server { listen 80; server_name a.test; root /srv/a; }",
        has: &[],
        lacks: &[],
        fates: &[("deny all", Open)],
    },
    Case {
        name: "TLS 1.3 only, and media types",
        text: "types { text/plain php; } server { listen 443 ssl; server_name a.test; ssl_certificate /c; ssl_certificate_key /k; root /srv/a; ssl_protocols TLSv1.3; }
               server { listen 443 ssl; server_name b.test; ssl_certificate /c; ssl_certificate_key /k; root /srv/a; ssl_protocols TLSv1.2 TLSv1.3; }",
        has: &[],
        lacks: &[],
        fates: &[
            ("text/plain", Lost),
            ("ssl_protocols TLSv1.3", Lost),
            ("ssl_protocols TLSv1.2", NotNeeded),
        ],
    },
    Case {
        name: "scripts without the password of the server",
        text: "server { listen 80; server_name a.test; root /srv/a; auth_basic x;\nauth_basic_user_file /etc/pw;\nlocation / { try_files $uri $uri/ /index.php?$args; }
               location ~ \\.php$ { auth_basic off; fastcgi_pass 127.0.0.1:9000; } }",
        has: &["basic_auth = \"/etc/pw\""],
        lacks: &["\"off\""],
        fates: &[("auth_basic_user_file", Lost), ("auth_basic off", Lost)],
    },
    Case {
        name: "fields that one of two upstreams hides",
        text: "server { listen 80; server_name a.test; root /srv/a; location ~ \\.php$ { fastcgi_pass 127.0.0.1:9000; fastcgi_hide_header X-Secret; }
               location ^~ /api/ { proxy_pass http://127.0.0.1:3000; } }",
        has: &["3000"],
        lacks: &["X-Secret"],
        fates: &[("fastcgi_hide_header", Lost)],
    },
    Case {
        name: "fields that the only upstream hides",
        text: "server { listen 80; server_name a.test; root /srv/a; location ~ \\.php$ { fastcgi_pass 127.0.0.1:9000; fastcgi_hide_header X-Secret; } }",
        has: &["X-Secret"],
        lacks: &[],
        fates: &[("fastcgi_hide_header", Carried)],
    },
    Case {
        name: "a refusal of scripts that never run, in a folder that redirects",
        text: "server { listen 80; server_name a.test; root /srv/a; location ~* /wp-content/uploads/.*\\.php$ {\ndeny all; }
               location /wp-content/uploads/ {\nreturn 308 /moved$request_uri; } }",
        has: &["redirect"],
        lacks: &[],
        fates: &[("deny all", Open)],
    },
    Case {
        name: "a refusal of scripts that never run, in a folder with a password",
        text: "server { listen 80; server_name a.test; root /srv/a; location ~* /wp-content/uploads/.*\\.php$ {\ndeny all; }
               location /wp-content/ {\nauth_basic x; auth_basic_user_file /etc/pw; } }",
        has: &["basic_auth"],
        lacks: &[],
        fates: &[("deny all", Lost), ("auth_basic_user_file", Carried)],
    },
    Case {
        name: "geography and maps",
        text: "geo $office { default 0; 192.0.2.0/24 1; } map $request_uri $closed { default 0; ~*/secret 1; }
               server { listen 80; server_name a.test; root /srv/a; if ($office = 0) { return 403; } if ($closed) { return 404; } }",
        has: &[],
        lacks: &["deny"],
        fates: &[
            ("geo", Lost),
            ("map", Lost),
            ("if ($office", Open),
            ("if ($closed", Open),
        ],
    },
    Case {
        name: "a host that one of two servers refuses",
        text: "server { listen 80; server_name example.com; return 444; } server { listen 443 ssl; server_name example.com; ssl_certificate /c; ssl_certificate_key /k; root /w; }",
        has: &[],
        lacks: &["deny"],
        fates: &[("return 444", Open)],
    },
    Case {
        name: "hosts that a server for all others refuses, and a site for all hosts",
        text: "server { listen 80 default_server; return 444; } server { listen 8080; server_name _; root /w; }",
        has: &[],
        lacks: &["deny"],
        fates: &[("return 444", Open)],
    },
    Case {
        name: "a host below a domain that another server serves",
        text: "server { listen 80; server_name a.example.com; return 444; } server { listen 80; server_name .example.com; root /w; }",
        has: &["hosts = [\"a.example.com\"]\nupstream = [\"http://127.0.0.1:9\"]\ndeny"],
        lacks: &[],
        fates: &[("return 444", Lost)],
    },
    Case {
        name: "hosts that no server serves",
        text: "server { listen 80 default_server; server_name _; return 444; } server { listen 80; server_name old.example.com; return 444; }
               server { listen 80; server_name example.com; root /w; }",
        has: &["hosts = [\"example.com\"]"],
        lacks: &["deny"],
        fates: &[("return 444", NotNeeded)],
    },
    Case {
        name: "a redirect of one host before a refusal",
        text: "server { listen 80; server_name example.com a.example.com; if ($host=example.com){ return 301 https://$host$request_uri; } return 444; }
               server { listen 443 ssl; server_name example.com a.example.com; ssl_certificate /c; ssl_certificate_key /k; root /w; }",
        has: &[],
        lacks: &["https_redirect", "deny"],
        fates: &[("if ($host", Lost), ("return 444", Open)],
    },
    Case {
        name: "redirects of all hosts of a server before a refusal",
        text: "server { listen 80; server_name example.com www.example.com; if ($host = example.com) { return 301 https://$host$request_uri; }
               if ($host = www.example.com) { return 301 https://$host$request_uri; } return 404; }
               server { listen 443 ssl; server_name example.com www.example.com; ssl_certificate /c; ssl_certificate_key /k; root /w; }",
        has: &["https_redirect = true"],
        lacks: &["deny"],
        fates: &[("if ($host", Carried), ("return 404", NotNeeded)],
    },
    Case {
        name: "a limit that is not enforced, and values that no option may have",
        text: "limit_req_zone $binary_remote_addr zone=one:1m rate=5r/s; limit_req_zone $binary_remote_addr zone=two:1m rate=99999999r/s; fastcgi_cache_path /c keys_zone=k:1m inactive=5s;
               server { listen 80; server_name a.test; root /srv/a; client_max_body_size 100g; fastcgi_read_timeout 500000s;\nsend_timeout 2h;\nlocation / { try_files $uri $uri/ /index.php?$args; }
               location = /a.php { limit_req zone=one;\nlimit_req_dry_run on; fastcgi_pass 127.0.0.1:9000; } location = /b.php { limit_req zone=two; fastcgi_pass 127.0.0.1:9000; }
               location ~ \\.php$ { fastcgi_pass 127.0.0.1:9000;\nfastcgi_cache_valid 200 20y; } }",
        has: &[
            "request_body = \"64GiB\"",
            "read_timeout = \"1d\"",
            "write_timeout = \"1h\"",
            "inactive = \"1m\"",
            "\"200\" = \"3650d\"",
        ],
        lacks: &["100GiB"],
        fates: &[
            ("limit_req zone=one", Lost),
            ("limit_req zone=two", Open),
            ("client_max_body_size", Lost),
            ("fastcgi_read_timeout", Lost),
            ("send_timeout", Lost),
            ("fastcgi_cache_path", Lost),
            ("fastcgi_cache_valid", Lost),
        ],
    },
    Case {
        name: "a server that refuses TLS for hosts that no other one has",
        text: "server { listen 443 ssl default_server; ssl_reject_handshake on; }
               server { listen 443 ssl; server_name a.test; ssl_certificate /c; ssl_certificate_key /k; root /w; }",
        has: &["hosts = [\"a.test\"]"],
        lacks: &["\"*\""],
        fates: &[("ssl_reject_handshake", NotNeeded)],
    },
    Case {
        name: "a server for this machine only, beside a public one",
        text: "server { listen 80; server_name example.com; root /w; }
               server { listen 127.0.0.1:8080; server_name admin.example.com; root /srv/admin; }",
        has: &[
            "hosts = [\"example.com\"]\nlisten = [\"0.0.0.0:80\"]",
            "hosts = [\"admin.example.com\"]\nlisten = [\"127.0.0.1:8080\"]",
        ],
        lacks: &[],
        fates: &[("listen 127", Carried)],
    },
    Case {
        name: "a port that no server but one for refusals has",
        text: "server { listen 80 default_server; return 444; }
               server { listen 443 ssl; server_name example.com; ssl_certificate /c; ssl_certificate_key /k; root /w; }",
        has: &["https_redirect = true"],
        lacks: &["listen = []"],
        fates: &[("return 444", NotNeeded)],
    },
    Case {
        name: "one server that redirects the hosts of several",
        text: "server { listen 80 default_server; server_name _; return 301 https://$host$request_uri; }
               server { listen 443 ssl; server_name a.test; ssl_certificate /c; ssl_certificate_key /k; root /a; }
               server { listen 443 ssl; server_name b.test; ssl_certificate /c; ssl_certificate_key /k; root /b; }
               server { listen 8080; server_name c.test; root /c; }",
        has: &["root = \"/a\"\ntls = { cert = \"/c\", key = \"/k\" }\nhttps_redirect = true", "root = \"/b\"\ntls = { cert = \"/c\", key = \"/k\" }\nhttps_redirect = true"],
        lacks: &["root = \"/c\"\nhttps_redirect"],
        fates: &[("return 301", Lost)],
    },
    Case {
        name: "one server that redirects other hosts to one site",
        text: "server { listen 443 ssl; server_name a.test; ssl_certificate /c; ssl_certificate_key /k; root /a; }
               server { listen 443 ssl; server_name b.test; ssl_certificate /c; ssl_certificate_key /k; root /b; }
               server { listen 80 default_server; server_name _; return 301 https://b.test$request_uri; }",
        has: &["https_redirect = true\ncanonical_host = \"b.test\""],
        lacks: &[],
        fates: &[("return 301", Carried)],
    },
    Case {
        name: "an upstream beside the redirect of a server",
        text: "server {\nlisten 80;\nserver_name e.com;\nproxy_set_header Host $host;\nlocation /api/ {\nproxy_pass http://127.0.0.1:3000;\n}\nlocation / {\nreturn 301 https://e.com$request_uri;\n}\n}
               server { listen 443 ssl; server_name e.com; ssl_certificate /c; ssl_certificate_key /k; root /w; }",
        has: &["https_redirect = true"],
        lacks: &["3000"],
        fates: &[
            ("location /api/", Lost),
            ("proxy_pass", Lost),
            ("listen 80", Carried),
        ],
    },
    Case {
        name: "a server for the hosts that no other one has",
        text: "server { listen 80 default_server; server_name example.com; root /w; }",
        has: &["hosts = [\"example.com\"]"],
        lacks: &[],
        fates: &[("listen 80", Lost)],
    },
    Case {
        name: "a server for all hosts",
        text: "server { listen 80 default_server; server_name _; root /w; }",
        has: &["hosts = [\"*\"]"],
        lacks: &[],
        fates: &[("listen 80", Carried)],
    },
];
