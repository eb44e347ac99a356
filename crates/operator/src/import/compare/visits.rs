//! The requests that need no log: typical paths of WordPress and typical requests of visitors, for each host.

use super::endpoints::VisitedHost;
use super::files::RootFiles;
use super::visit::TryVisit;

/// The requests for the usual paths of a host.
pub(super) fn of_host(host: &VisitedHost, files: &RootFiles) -> Vec<TryVisit> {
    let get = |target: &str| TryVisit::get(&host.name, host.is_tls(), target);
    if !host.has_content {
        return names(host);
    }
    let mut visits: Vec<TryVisit> = DEFAULT_PATHS.iter().map(|target| get(target)).collect();
    for folder in &files.folders {
        visits.push(get(folder));
        visits.push(get(&format!("{folder}/")));
    }
    let files_too = files.kinds.iter().chain(files.all.iter().take(MAX_FILES));
    visits.extend(files_too.map(|file| get(file)));
    let mut varied: Vec<TryVisit> = ["/", "/?galley-try=1", MISSING].map(get).to_vec();
    varied.extend(files.kinds.iter().take(MAX_VARIED).map(|file| get(file)));
    for visit in varied {
        visits.extend(variations(&visit));
    }
    visits.extend(names(host));
    visits
}

/// The request with the fields that browsers, crawlers and members send.
pub(super) fn variations(visit: &TryVisit) -> Vec<TryVisit> {
    vec![
        visit.head(),
        visit.with("accept-encoding", "gzip"),
        visit.with("accept-encoding", "gzip, deflate, br, zstd"),
        visit.with("range", "bytes=0-9"),
        visit.with("if-modified-since", "Thu, 01 Jan 1970 00:00:01 GMT"),
        visit.with("user-agent", PHONE),
        visit.with("user-agent", CRAWLER),
        visit.with(
            "cookie",
            "wordpress_logged_in_galley=try; wordpress_sec_galley=try",
        ),
        visit.with("cookie", "comment_author_galley=try"),
        visit.with(
            "cookie",
            "woocommerce_items_in_cart=1; wp_woocommerce_session_galley=try",
        ),
        visit.with("origin", "https://galley-try.example"),
        visit.with("referer", "https://galley-try.example/"),
    ]
}

/// Every name of the host with both schemes, for the canonical host and the redirect to TLS.
fn names(host: &VisitedHost) -> Vec<TryVisit> {
    let schemes = [(false, host.has_plain), (true, host.has_tls)];
    let schemes = schemes
        .into_iter()
        .filter_map(|(is_tls, is_there)| is_there.then_some(is_tls));
    schemes
        .flat_map(|is_tls| {
            let names = host.names.iter();
            names.flat_map(move |name| {
                ["/", "/galley-try/?a=b"].map(|target| TryVisit::get(name, is_tls, target))
            })
        })
        .collect()
}

/// A request for a host that no site has (RFC 6761).
pub(super) fn unknown_host(is_tls: bool) -> TryVisit {
    TryVisit::get("galley-try.invalid", is_tls, "/")
}

/// The path of a page that does not exist.
pub(super) const MISSING: &str = "/galley-try-missing/";

/// The usual paths. Excludes `wp-cron.php`, which executes tasks.
const DEFAULT_PATHS: &[&str] = &[
    "/",
    "/?galley-try=1",
    "/?s=galley",
    "/?author=1",
    "/?utm_source=galley",
    "/index.php",
    "/index.html",
    "/index.php/galley-try/",
    MISSING,
    "/galley-try-missing",
    "/galley-try-missing.php",
    "/galley-try-missing.html",
    "/galley-try-missing.jpg",
    "/galley-try-missing.css",
    "/galley-try-missing.js",
    "/galley-try-missing.zip",
    "//galley-try-missing/",
    "/galley%20try",
    "/wp-admin",
    "/wp-admin/",
    "/wp-admin/admin-ajax.php",
    "/wp-admin/install.php",
    "/wp-login.php",
    "/wp-login.php?action=lostpassword",
    "/xmlrpc.php",
    "/wp-config.php",
    "/wp-config.php.bak",
    "/wp-config-sample.php",
    "/wp-content",
    "/wp-content/",
    "/wp-content/debug.log",
    "/wp-content/uploads",
    "/wp-content/uploads/",
    "/wp-content/uploads/x.php",
    "/wp-content/uploads/x.phtml",
    "/wp-content/cache/x.php",
    "/wp-includes/",
    "/wp-includes/version.php",
    "/wp-json/",
    "/wp-json/wp/v2/users",
    "/feed/",
    "/comments/feed/",
    "/robots.txt",
    "/favicon.ico",
    "/sitemap.xml",
    "/wp-sitemap.xml",
    "/readme.html",
    "/license.txt",
    "/.htaccess",
    "/.htpasswd",
    "/.env",
    "/.git/config",
    "/.user.ini",
    "/.well-known/security.txt",
    "/backup.sql",
    "/error_log",
    "/server-status",
    "/nginx_status",
];

/// The maximum number of files that are requested once.
const MAX_FILES: usize = 200;

/// The maximum number of files that are requested with all variations.
const MAX_VARIED: usize = 16;

const PHONE: &str = "Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.0 Mobile/15E148 Safari/604.1";

const CRAWLER: &str = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)";
