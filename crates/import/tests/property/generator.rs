//! Random servers of nginx, from the statements that the import reads.

use std::fmt::Write as _;

/// A sequence of numbers from a seed (`SplitMix64`).
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) >> 1).unwrap_or(0) % limit
    }

    pub fn is(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }
}

/// One `location`.
pub struct Location {
    pub modifier: &'static str,
    pub path: String,
    /// The first and last line in the text of all servers.
    pub lines: (usize, usize),
}

impl Location {
    /// Whether it is the one of all paths.
    pub fn is_root(&self) -> bool {
        self.modifier.is_empty() && self.path == "/"
    }
}

/// One `server`.
pub struct Server {
    pub host: String,
    pub lines: (usize, usize),
    pub locations: Vec<Location>,
    pub targets: Vec<String>,
}

/// The text of several servers.
#[derive(Default)]
pub struct Text {
    pub text: String,
    line: usize,
}

impl Text {
    /// The number of the last line.
    pub fn line(&self) -> usize {
        self.line
    }

    pub fn push(&mut self, line: &str) {
        self.line += 1;
        let _ = writeln!(self.text, "{line}");
    }
}

/// Addresses that the statements name.
pub struct Places {
    pub root: String,
    pub php: String,
    pub origin: String,
    pub users: String,
    pub listen: String,
}

/// Writes a random server.
pub fn server(random: &mut Random, number: usize, places: &Places, text: &mut Text) -> Server {
    let host = format!("h{number}.test");
    let first = text.line + 1;
    text.push("server {");
    text.push(&format!("listen {};", places.listen));
    text.push(&format!("server_name {host};"));
    let is_proxy = random.is(15);
    if !is_proxy || random.is(50) {
        text.push(&format!("root {};", places.root));
    }
    if !is_proxy || random.is(70) {
        text.push(&format!("index {};", random.one(INDEXES)));
    }
    let first_of = random.below(OF_SERVER.len());
    for step in 0..random.below(3) {
        let one = OF_SERVER[(first_of + step * 5) % OF_SERVER.len()];
        one.split('\n').for_each(|line| text.push(line));
    }
    let mut locations = Vec::new();
    if is_proxy {
        locations.push(location(
            random,
            "",
            "/",
            &[format!("proxy_pass http://{};", places.origin)],
            text,
        ));
    } else {
        let mut body = vec![random.one(FALLBACKS).to_owned()];
        if random.is(15) {
            body.push(random.one(FIELDS).to_owned());
        }
        locations.push(location(random, "", "/", &body, text));
    }
    let mut all = Vec::new();
    if !is_proxy && random.is(95) {
        all.push(("~", r"\.php$".to_owned()));
    }
    for _ in 0..=random.below(4) {
        let found = matcher(random);
        let is_same = |(modifier, path): &(&str, String)| {
            *path == found.1 && modifier.starts_with('~') == found.0.starts_with('~')
        };
        if !all.iter().any(is_same) {
            all.push(found);
        }
    }
    let at = random.below(all.len());
    all.swap(0, at);
    for (modifier, path) in all {
        let body = if path == r"\.php$" {
            scripts(random, places)
        } else {
            body(random, modifier, &path, places)
        };
        locations.push(location(random, modifier, &path, &body, text));
    }
    text.push("}");
    let mut server = Server {
        host,
        lines: (first, text.line),
        locations,
        targets: Vec::new(),
    };
    server.targets = (0..REQUESTS).map(|_| target(random, &server)).collect();
    server
}

fn location(
    random: &mut Random,
    modifier: &'static str,
    path: &str,
    body: &[String],
    text: &mut Text,
) -> Location {
    let first = text.line + 1;
    text.push(&format!("location {modifier} \"{path}\" {{").replace("  ", " "));
    for line in body.iter().flat_map(|one| one.split('\n')) {
        text.push(line);
    }
    if random.is(10) {
        text.push("access_log off;");
    }
    text.push("}");
    Location {
        modifier,
        path: path.to_owned(),
        lines: (first, text.line),
    }
}

fn matcher(random: &mut Random) -> (&'static str, String) {
    match random.below(10) {
        0 | 1 => ("=", random.one(EXACT).to_owned()),
        2..=4 => (
            if random.is(30) { "^~" } else { "" },
            random.one(PREFIXES).to_owned(),
        ),
        5 | 6 => {
            let parts = [
                random.one(&["", "^"]),
                random.one(MIDDLES),
                random.one(ENDS),
            ];
            (if random.is(40) { "~*" } else { "~" }, parts.concat())
        }
        _ => (
            if random.is(40) { "~*" } else { "~" },
            random.one(PATTERNS).to_owned(),
        ),
    }
}

fn scripts(random: &mut Random, places: &Places) -> Vec<String> {
    let mut body = vec![php(places)];
    if random.is(30) {
        body.push("try_files $uri =404;".to_owned());
    }
    if random.is(15) {
        body.push(random.one(FIELDS).to_owned());
    }
    body
}

fn php(places: &Places) -> String {
    let parameters = [
        "QUERY_STRING $query_string",
        "REQUEST_METHOD $request_method",
        "SCRIPT_NAME $fastcgi_script_name",
        "REQUEST_URI $request_uri",
        "DOCUMENT_ROOT $document_root",
        "SERVER_PROTOCOL $server_protocol",
        "SCRIPT_FILENAME $document_root$fastcgi_script_name",
    ];
    let lines: Vec<String> = parameters
        .iter()
        .map(|one| format!("fastcgi_param {one};"))
        .collect();
    format!("fastcgi_pass {};\n{}", places.php, lines.join("\n"))
}

fn body(random: &mut Random, modifier: &str, path: &str, places: &Places) -> Vec<String> {
    let mut body = Vec::new();
    match random.below(14) {
        0 | 1 => body.push("deny all;".to_owned()),
        2 => body.push(random.one(ACCESS).to_owned()),
        3 => body.push(format!(
            "return {};",
            random.one(&["403", "403", "404", "410", "200 ok"])
        )),
        4 | 5 => body.push(format!("return {};", random.one(REDIRECTS))),
        6 => body.push(format!(
            "auth_basic x;\nauth_basic_user_file {};",
            places.users
        )),
        7 if !modifier.starts_with('~') => body.push(format!(
            "proxy_pass http://{}{};",
            places.origin,
            random.one(&["", "", "/", "/api/"])
        )),
        7 => body.push(format!("proxy_pass http://{};", places.origin)),
        8 => body.push(php(places)),
        9 if modifier != "=" && path.ends_with('/') => body.push("internal;".to_owned()),
        10 if modifier != "=" => body.push(random.one(IN_LOCATION).to_owned()),
        _ => {}
    }
    if random.is(30) {
        body.push(format!("expires {};", random.one(LIFETIMES)));
    }
    for _ in 0..random.below(3) {
        let line = random.one(FIELDS).to_owned();
        if !line.starts_with("expires") && !body.contains(&line) {
            body.push(line);
        }
    }
    if random.is(20) && !body.iter().any(|one| one.contains("_pass")) {
        body.push(random.one(FALLBACKS).to_owned());
    }
    body
}

/// The target of a request: a path that a location may match, or one of those that every server has.
fn target(random: &mut Random, server: &Server) -> String {
    let location = &server.locations[random.below(server.locations.len())];
    let path = match random.below(4) {
        0 | 1 if !location.modifier.starts_with('~') => {
            let end = random.one(&[
                "",
                "",
                "a",
                "a.php",
                "secret.txt",
                "x/",
                "a.css",
                "index.html",
            ]);
            match location.modifier {
                "=" => location.path.clone(),
                _ => format!("{}{end}", location.path),
            }
        }
        0 if !location.modifier.starts_with('~') => location.path.trim_end_matches('/').to_owned(),
        _ => random.one(TARGETS).to_owned(),
    };
    let path = if path.starts_with('/') {
        path
    } else {
        format!("/{path}")
    };
    if !path.contains('?') && random.is(15) {
        format!("{path}?a=b")
    } else {
        path
    }
}

/// Requests for each server.
pub const REQUESTS: usize = 20;

const INDEXES: &[&str] = &[
    "index.php",
    "index.php index.html",
    "index.php index.html index.htm",
    "index.html index.php",
    "index.html",
];

const FALLBACKS: &[&str] = &[
    "try_files $uri $uri/ /index.php?$args;",
    "try_files $uri $uri/ /index.php?$args;",
    "try_files $uri $uri/ /index.php$is_args$args;",
    "try_files $uri /index.php?$args;",
    "try_files $uri $uri/ =404;",
    "try_files $uri /css/a.css;",
];

const FIELDS: &[&str] = &[
    "add_header X-A one;",
    "add_header X-A other;",
    "add_header X-B \"two words\" always;",
    "add_header Cache-Control \"public, no-transform\";",
    "add_header X-Frame-Options SAMEORIGIN;",
    "add_header Strict-Transport-Security max-age=3600;",
    "expires 1h;",
];

const LIFETIMES: &[&str] = &["30d", "1h", "-1", "0", "max", "epoch", "off"];

const OF_SERVER: &[&str] = &[
    "add_header X-A one;",
    "add_header X-B \"two words\" always;",
    "add_header X-Frame-Options SAMEORIGIN;",
    "if ($request_uri ~ ^/secret) {\nreturn 403;\n}",
    "if ($uri ~* \"\\.(ini|log)$\") {\nreturn 403;\n}",
    "if ($request_uri ~* \"/old/\") {\nreturn 301 /new/;\n}",
    "if ($args ~ a=b) {\nreturn 403;\n}",
    "if ($http_user_agent ~ bad) {\nreturn 403;\n}",
    "rewrite ^/a/(.*)$ /b/$1 permanent;",
    "rewrite ^/old/([a-z]+)/?$ https://b.test/$1 redirect;",
    "rewrite ^/shop$ /index.php?p=1 last;",
    "deny 192.0.2.7;",
    "allow 127.0.0.0/8;\ndeny all;",
    "allow 192.0.2.0/24;\ndeny all;",
    "client_max_body_size 8m;",
    "gzip on;",
    "error_page 404 /index.php;",
    "if (!-e $request_filename) {\nrewrite ^ /index.php last;\n}",
    "if ($request_uri ~ ^/.*a=b) {\nreturn 403;\n}",
    "if ($request_uri ~ \"^/a/|p=12\") {\nreturn 404;\n}",
    "error_page 403 =200 /css/a.css;",
    "satisfy any;",
    "auth_request /sub;",
    "if ($ssl_cipher ~ x) {\nreturn 403;\n}",
    "set $closed 0;\nif ($uri ~ ^/docs/) {\nset $closed 1;\n}\nif ($closed) {\nreturn 403;\n}",
    "if ($uri ~ ^/(private|shop)/) {\nset $section $1;\nreturn 302 /in/$section;\n}",
    "rewrite ^/css/(.*)$ /js/$1 last;",
];

const ACCESS: &[&str] = &[
    "allow 127.0.0.1;\ndeny all;",
    "allow 192.0.2.0/24;\ndeny all;",
    "deny 192.0.2.7;",
    "allow all;",
    "deny 127.0.0.1;\nallow all;",
    "allow 127.0.0.1;\ndeny 127.0.0.0/8;",
];

const IN_LOCATION: &[&str] = &[
    "location ~ \\.php$ {\ndeny all;\n}",
    "if ($args ~ a=b) {\nreturn 403;\n}",
    "rewrite ^/old/(.*)$ /new/$1 permanent;",
    "limit_except GET {\ndeny all;\n}",
    "autoindex on;",
    "alias /etc/;",
    "deny all;\nlocation ~ \\.txt$ {\nallow all;\n}",
    "satisfy any;\nallow 192.0.2.0/24;\ndeny all;",
    "error_page 404 /css/a.css;",
    "rewrite ^/[a-z]+/(.*)$ /$1 break;",
    "set $x 1;\nif ($x = 1) {\nreturn 404;\n}",
    "error_page 418 = /css/a.css;\nreturn 418;",
    "default_type text/plain;",
];

const REDIRECTS: &[&str] = &[
    "301 /new/",
    "302 https://b.test$request_uri",
    "301 https://b.test/x",
    "301 /new/$1",
    "301 $scheme://$host/moved$uri",
    "308 /moved$request_uri",
    "302 /x?y=1",
];

const EXACT: &[&str] = &[
    "/readme.html",
    "/xmlrpc.php",
    "/wp-login.php",
    "/favicon.ico",
    "/old",
    "/health",
    "/private/secret.txt",
    "/index.php",
];

const PREFIXES: &[&str] = &[
    "/private/",
    "/wp-admin/",
    "/wp-content/uploads/",
    "/api/",
    "/shop/",
    "/old/",
    "/docs",
    "/.well-known/",
    "/wp-content/",
    "/css/",
    "/private/a",
    "/wp-includes/",
];

const PATTERNS: &[&str] = &[
    r"\.(css|js)$",
    r"\.(jpg|png|gif)$",
    r"^/wp-content/uploads/.*\.php$",
    r"/wp-content/uploads/.*\.php$",
    r"/\.",
    r"/\.ht",
    r"/\.git",
    r"/(plugins|themes)/.*\.php$",
    r"^/old/(.*)$",
    r"\.(sql|bak)$",
    r"^/(private|docs)/",
    r"^/author/([a-z]+)/?$",
    r"/wp-config\.php$",
    r"\.html?$",
    r"/xmlrpc\.php$",
    r"^/wp-includes/[^/]+\.php$",
    r"/(?!private)secret",
    r"(readme|license)\.(html|txt)$",
];

const MIDDLES: &[&str] = &[
    "/private",
    "/docs/",
    "/(shop|old)/",
    "/wp-content/",
    "/",
    "css",
    "/[a-z]+/",
];

const ENDS: &[&str] = &["", ".*", ".*\\.php$", "$", "[a-z]+/?$", "a", "\\.txt$"];

/// Requests of every server.
pub const TARGETS: &[&str] = &[
    "/",
    "/index.php",
    "/index.html",
    "/?p=12",
    "/?s=word",
    "/hello-world/",
    "/hello-world",
    "/wp-login.php",
    "/wp-admin/",
    "/wp-admin/index.php",
    "/wp-admin",
    "/wp-content/uploads/a.php",
    "/wp-content/uploads/a.jpg",
    "/wp-content/plugins/x/a.php",
    "/wp-content/themes/t/style.css",
    "/readme.html",
    "/license.txt",
    "/css/a.css",
    "/css/",
    "/css",
    "/js/a.js",
    "/private/secret.txt",
    "/private/a.php",
    "/private/",
    "/private",
    "/PRIVATE/secret.txt",
    "/.git/config",
    "/.htaccess",
    "/.well-known/acme.txt",
    "/wp-config.php",
    "/old/a",
    "/old/",
    "/old",
    "/old/a.html",
    "/docs/manual.pdf",
    "/docs/",
    "/shop/",
    "/shop",
    "/api/x",
    "/api/x.php",
    "/api",
    "/backup.sql",
    "/author/ann/",
    "/author/ann",
    "/wp-includes/version.php",
    "/secret/x",
    "/a/b",
    "/xmlrpc.php",
    "/error.log",
    "/health",
    "/missing.css",
    "/missing.php",
    "/blog/",
    "/favicon.ico",
    "/index.php/private/",
    "/?pagename=private",
    "/wp-json/wp/v2/posts",
    "/feed/",
    "/2030/01/",
    "/private/sub/x.txt",
];
