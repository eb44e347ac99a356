//! Random virtual hosts of Apache, each with a `.htaccess`, from the directives that the import reads.

use regex::Regex;

use crate::generator::{Random, TARGETS, Text};

/// The paths that a directive may apply to.
#[derive(Clone, Copy)]
pub enum Reach {
    All,
    /// A path, and everything below.
    Below(&'static str),
    /// A pattern for paths.
    Path(&'static str),
}

/// Where a directive may be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Where {
    Host,
    Htaccess,
    Both,
}

/// Directives that belong together.
type Snippet = (Where, Reach, &'static str);

/// Directives of a host with their place.
pub struct Placed {
    pub is_htaccess: bool,
    /// The first and last line in the file.
    pub lines: (usize, usize),
    pub reach: Reach,
}

/// A virtual host.
pub struct VirtualHost {
    pub host: String,
    pub root: String,
    pub htaccess: String,
    pub placed: Vec<Placed>,
    pub targets: Vec<String>,
}

/// Addresses that the directives name.
pub struct ApachePlaces {
    /// The folder of all roots.
    pub roots: String,
    pub php: String,
    pub origin: String,
    pub users: String,
}

/// Writes a random virtual host, and its `.htaccess`.
pub fn virtual_host(
    random: &mut Random,
    number: usize,
    places: &ApachePlaces,
    text: &mut Text,
) -> VirtualHost {
    let host = format!("h{number}.test");
    let root = format!("{}/{number}", places.roots);
    for line in [
        "<VirtualHost {listen}>".to_owned(),
        format!("ServerName {host}"),
        format!("DocumentRoot {root}"),
        format!("<Directory {root}>"),
        "Options FollowSymLinks".to_owned(),
        "AllowOverride All".to_owned(),
        "Require all granted".to_owned(),
        "</Directory>".to_owned(),
        "<FilesMatch \\.php$>".to_owned(),
        format!("SetHandler \"proxy:{}\"", places.php),
        "</FilesMatch>".to_owned(),
        "RewriteEngine On".to_owned(),
    ] {
        text.push(&line);
    }
    let mut htaccess = Text::default();
    htaccess.push("RewriteEngine On");
    let mut placed = Vec::new();
    for _ in 0..=random.below(4) {
        let (place, reach, lines) = SNIPPETS[random.below(SNIPPETS.len())];
        let is_htaccess = match place {
            Where::Host => false,
            Where::Htaccess => true,
            Where::Both => random.is(50),
        };
        let file = if is_htaccess {
            &mut htaccess
        } else {
            &mut *text
        };
        let lines = lines
            .replace("{root}", &root)
            .replace("{users}", &places.users)
            .replace("{origin}", &places.origin);
        // In a folder, patterns of rewrite rules have no leading slash.
        let lines = lines.replace("{/}", if is_htaccess { "" } else { "/" });
        let first = file.line() + 1;
        lines.split('\n').for_each(|line| file.push(line));
        placed.push(Placed {
            is_htaccess,
            lines: (first, file.line()),
            reach,
        });
    }
    text.push("</VirtualHost>");
    WORDPRESS.split('\n').for_each(|line| htaccess.push(line));
    let targets = (0..crate::generator::REQUESTS).map(|_| target(random, &placed));
    VirtualHost {
        host,
        targets: targets.collect(),
        root,
        htaccess: htaccess.text,
        placed,
    }
}

fn target(random: &mut Random, placed: &[Placed]) -> String {
    let own = &placed[random.below(placed.len())];
    let path = match own.reach {
        Reach::Below(path) if random.is(50) => {
            let end = random.one(&["", "/", "/secret.txt", "/a.php", "/x/", "/a.css", "x"]);
            format!("{path}{end}")
        }
        _ => random.one(TARGETS).to_owned(),
    };
    if !path.contains('?') && random.is(15) {
        format!("{path}?a=b")
    } else {
        path
    }
}

impl Reach {
    pub fn has(self, path: &str) -> bool {
        match self {
            Self::All => true,
            Self::Below(own) => path == own || path.starts_with(&format!("{own}/")),
            Self::Path(pattern) => Regex::new(pattern).is_ok_and(|regex| regex.is_match(path)),
        }
    }
}

const WORDPRESS: &str = "RewriteRule ^index\\.php$ - [L]\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_FILENAME} !-d\nRewriteRule . /index.php [L]";

const SNIPPETS: &[Snippet] = &[
    (
        Where::Both,
        Reach::Path("/readme\\.html$"),
        "<Files readme.html>\nRequire all denied\n</Files>",
    ),
    (
        Where::Both,
        Reach::Path("\\.(sql|bak)$"),
        "<FilesMatch \"\\.(sql|bak)$\">\nRequire all denied\n</FilesMatch>",
    ),
    (
        Where::Both,
        Reach::Path("/(readme|license)\\."),
        "<FilesMatch \"^(readme|license)\\.(html|txt)$\">\nOrder allow,deny\nDeny from all\n</FilesMatch>",
    ),
    (
        Where::Both,
        Reach::Path("/xmlrpc\\.php$"),
        "<Files xmlrpc.php>\nOrder deny,allow\nDeny from all\n</Files>",
    ),
    (
        Where::Both,
        Reach::Path("\\.(css|js)$"),
        "<FilesMatch \"\\.(css|js)$\">\nHeader set X-A one\n</FilesMatch>",
    ),
    (
        Where::Both,
        Reach::Path("\\.txt$"),
        "<FilesMatch \"\\.txt$\">\nRequire ip 192.0.2.0/24\n</FilesMatch>",
    ),
    (
        Where::Both,
        Reach::Path("\\.html?$"),
        "<FilesMatch \"\\.html?$\">\nHeader set Cache-Control \"max-age=60\"\n</FilesMatch>",
    ),
    (
        Where::Both,
        Reach::Path("\\.html?$"),
        "<FilesMatch \"\\.html?$\">\nRequire all denied\n</FilesMatch>",
    ),
    (
        Where::Both,
        Reach::Path("/wp-login\\.php$"),
        "<Files wp-login.php>\nAuthType Basic\nAuthName x\nAuthUserFile {users}\nRequire valid-user\n</Files>",
    ),
    (
        Where::Host,
        Reach::Below("/private"),
        "<Location /private>\nRequire all denied\n</Location>",
    ),
    (
        Where::Host,
        Reach::Below("/private"),
        "<Location /private/>\nRequire ip 127.0.0.0/8\n</Location>",
    ),
    (
        Where::Host,
        Reach::Below("/private"),
        "<Location /private/>\nRequire all denied\n</Location>",
    ),
    (
        Where::Host,
        Reach::Below("/docs"),
        "<Location /docs>\nAuthType Basic\nAuthName x\nAuthUserFile {users}\nRequire valid-user\n</Location>",
    ),
    (
        Where::Host,
        Reach::Path("^/(shop|docs)/"),
        "<LocationMatch \"^/(shop|docs)/\">\nHeader always set X-B \"two words\"\n</LocationMatch>",
    ),
    (
        Where::Host,
        Reach::Path("/uploads/.*\\.php$"),
        "<LocationMatch \"/uploads/.*\\.php$\">\nRequire all denied\n</LocationMatch>",
    ),
    (
        Where::Host,
        Reach::Below("/css"),
        "<Location /css/>\nHeader set X-A other\n</Location>",
    ),
    (
        Where::Host,
        Reach::Below("/shop"),
        "<Location /shop>\nOrder allow,deny\nAllow from 192.0.2.0/24\n</Location>",
    ),
    (
        Where::Host,
        Reach::Below("/shop"),
        "<Location /shop>\nOrder deny,allow\nDeny from all\nAllow from 127.0.0.1\n</Location>",
    ),
    (
        Where::Host,
        Reach::Below("/private"),
        "<Directory {root}/private>\nRequire all denied\n</Directory>",
    ),
    (
        Where::Host,
        Reach::Below("/docs"),
        "<Directory {root}/docs>\nHeader set X-A one\n</Directory>",
    ),
    (
        Where::Host,
        Reach::Below("/private"),
        "<Directory {root}/private>\n<FilesMatch \"\\.txt$\">\nRequire all denied\n</FilesMatch>\n</Directory>",
    ),
    (Where::Both, Reach::All, "Header set X-A one"),
    (
        Where::Both,
        Reach::All,
        "Header always set X-B \"two words\"",
    ),
    (
        Where::Both,
        Reach::All,
        "Header set X-Frame-Options SAMEORIGIN",
    ),
    (Where::Both, Reach::All, "Header append X-A more"),
    (Where::Both, Reach::All, "Header unset X-A"),
    (
        Where::Both,
        Reach::All,
        "Header set Cache-Control \"public, no-transform\"",
    ),
    (
        Where::Both,
        Reach::All,
        "Header set X-A one \"expr=%{QUERY_STRING} == 'a=b'\"",
    ),
    (
        Where::Both,
        Reach::All,
        "<IfModule mod_headers.c>\nHeader set X-A other\n</IfModule>",
    ),
    (
        Where::Both,
        Reach::Path("\\.(css|jpe?g)$"),
        "ExpiresActive On\nExpiresByType text/css \"access plus 1 hour\"\nExpiresByType image/jpeg A600",
    ),
    (
        Where::Both,
        Reach::Path("\\.css$"),
        "ExpiresByType text/css A5",
    ),
    (
        Where::Both,
        Reach::All,
        "ExpiresActive On\nExpiresDefault A60",
    ),
    (
        Where::Both,
        Reach::All,
        "ExpiresActive On\nExpiresByType text/html A60",
    ),
    (Where::Both, Reach::All, "ExpiresActive Off"),
    (Where::Both, Reach::Below("/old"), "Redirect 301 /old /new"),
    (
        Where::Both,
        Reach::Below("/old/a"),
        "Redirect /old/a https://b.test/x",
    ),
    (
        Where::Both,
        Reach::Below("/docs/manual.pdf"),
        "Redirect gone /docs/manual.pdf",
    ),
    (
        Where::Both,
        Reach::Below("/shop"),
        "Redirect permanent /shop/ https://b.test/s/",
    ),
    (
        Where::Both,
        Reach::Below("/old"),
        "RedirectMatch 302 ^/old/(.*)$ /new/$1",
    ),
    (
        Where::Both,
        Reach::Path("\\.log$"),
        "RedirectMatch 403 \\.log$",
    ),
    (
        Where::Both,
        Reach::Path("/\\.git"),
        "RedirectMatch 404 \"/\\.git\"",
    ),
    (Where::Both, Reach::Below("/a"), "Redirect 302 /a /x?y=1"),
    (
        Where::Both,
        Reach::Below("/old"),
        "RewriteRule ^{/}old/([a-z]+)/?$ https://b.test/$1 [R=302,L]",
    ),
    (
        Where::Both,
        Reach::Below("/wp-includes"),
        "RewriteRule ^{/}wp-includes/[^/]+\\.php$ - [F,L]",
    ),
    (
        Where::Both,
        Reach::Path("\\.(ini|log)$"),
        "RewriteRule \\.(ini|log)$ - [F]",
    ),
    (
        Where::Both,
        Reach::All,
        "RewriteCond %{QUERY_STRING} a=b\nRewriteRule ^ - [F]",
    ),
    (
        Where::Both,
        Reach::All,
        "RewriteCond %{HTTP_USER_AGENT} bad\nRewriteRule ^ - [F]",
    ),
    (
        Where::Both,
        Reach::Path("^/secret"),
        "RewriteCond %{REQUEST_URI} ^/secret\nRewriteRule ^ - [F]",
    ),
    (
        Where::Both,
        Reach::Below("/shop"),
        "RewriteRule ^{/}shop$ /index.php?p=1 [L,QSA]",
    ),
    (
        Where::Both,
        Reach::Below("/a"),
        "RewriteRule ^{/}a/(.*)$ /new/$1?x=y [R=301,L,QSA]",
    ),
    (
        Where::Both,
        Reach::Below("/health"),
        "RewriteRule ^{/}health$ - [G]",
    ),
    (
        Where::Both,
        Reach::All,
        "RewriteCond %{HTTP_HOST} ^www\\.\nRewriteRule ^(.*)$ http://b.test/$1 [R=301,L]",
    ),
    (
        Where::Both,
        Reach::Path("^/(a|health)"),
        "RewriteRule ^{/}a - [S=1]\nRewriteRule ^{/}health$ /c [R=301,L]",
    ),
    (
        Where::Both,
        Reach::All,
        "RewriteCond %{HTTPS} off\nRewriteCond %{REQUEST_URI} ^/author/\nRewriteRule ^{/}(.*)$ https://%{HTTP_HOST}/$1 [R=301,L]",
    ),
    (
        Where::Host,
        Reach::Below("/api"),
        "ProxyPass /api/ http://{origin}/api/",
    ),
    (
        Where::Host,
        Reach::Below("/api"),
        "ProxyPass /api/ http://{origin}/",
    ),
    (
        Where::Host,
        Reach::Below("/api"),
        "ProxyPass /api http://{origin}/api",
    ),
    (
        Where::Host,
        Reach::Below("/docs"),
        "ProxyPass /docs/ http://{origin}/docs/",
    ),
    (Where::Htaccess, Reach::All, "Require ip 127.0.0.0/8"),
    (Where::Htaccess, Reach::All, "Require ip 192.0.2.0/24"),
    (
        Where::Htaccess,
        Reach::All,
        "Order deny,allow\nDeny from 192.0.2.7",
    ),
    (
        Where::Htaccess,
        Reach::All,
        "<RequireAll>\nRequire all granted\nRequire not ip 192.0.2.7\n</RequireAll>",
    ),
    (
        Where::Both,
        Reach::All,
        "DirectoryIndex index.html index.php",
    ),
    (Where::Both, Reach::All, "DirectoryIndex index.php"),
    (Where::Htaccess, Reach::All, "Options -Indexes"),
    (Where::Both, Reach::All, "ErrorDocument 404 /index.php"),
    (Where::Both, Reach::All, "AddType text/plain .css"),
    (
        Where::Both,
        Reach::All,
        "<If \"%{QUERY_STRING} =~ /a=b/\">\nRequire all denied\n</If>",
    ),
    (
        Where::Both,
        Reach::Below("/health"),
        "RewriteRule ^{/}health$ - [R=503,L]",
    ),
    (
        Where::Both,
        Reach::All,
        "RewriteCond %{REQUEST_URI} ^/secret [OR]\nRewriteCond %{QUERY_STRING} a=b\nRewriteRule ^ - [F]",
    ),
    (
        Where::Host,
        Reach::Below("/private"),
        "<Location /private>\nAuthMerging And\nRequire ip 127.0.0.0/8\n</Location>",
    ),
    (
        Where::Host,
        Reach::Path("\\.txt$"),
        "<Directory {root}>\n<FilesMatch \"\\.txt$\">\nRequire all denied\n</FilesMatch>\n</Directory>",
    ),
    (
        Where::Host,
        Reach::Below("/private"),
        "<Location /private>\n<RequireAll>\nRequire ip 127.0.0.0/8\n<RequireAny>\nRequire ip 192.0.2.0/24\nRequire method GET\n</RequireAny>\n</RequireAll>\n</Location>",
    ),
    (
        Where::Both,
        Reach::All,
        "RewriteCond %{ENV:closed} yes\nRewriteRule ^ - [F]",
    ),
    (
        Where::Htaccess,
        Reach::All,
        "<LimitExcept GET>\nRequire all denied\n</LimitExcept>",
    ),
    (
        Where::Both,
        Reach::All,
        "<IfModule !mod_authz_core.c>\nRequire all denied\n</IfModule>",
    ),
];
