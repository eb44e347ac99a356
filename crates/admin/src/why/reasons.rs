//! The texts of all reasons and their advice, each with a stable id.
//!
//! The texts are English. Programs that show them in other languages, such as the WordPress plugin, translate by id and insert the
//! parameters; for an unknown id they show the server's text. An id never changes its meaning: a new meaning gets a new id.
//! `wordpress-plugin/galley/tests/reasons.json` lists all of them, and the plugin's tests check that list.

use super::advice::ReasonText;

/// Defines the constants, and a list of them.
macro_rules! reasons {
    ($($name:ident: $id:literal, $why:literal, $what_to_do:expr;)+) => {
        $(pub(crate) const $name: &ReasonText = &ReasonText {
            id: $id,
            why: $why,
            what_to_do: $what_to_do,
        };)+

        #[cfg(test)]
        const ALL: &[&ReasonText] = &[$($name),+];
    };
}

reasons! {
    PASS_METHOD: "pass-method", "`{method}` is neither GET nor HEAD, so it may change something", None;
    PASS_METHOD_ANY: "pass-method-any", "its method is neither GET nor HEAD, so it may change something", None;
    PASS_AUTHORIZATION: "pass-authorization", "it carries `Authorization`, so the response may be for one person", None;
    PASS_COOKIE_ANY: "pass-cookie-any", "a cookie identifies a visitor", Some(COOKIE);
    PASS_COOKIE: "pass-cookie", "the cookie `{cookie}` identifies a visitor", Some(COOKIE);
    PASS_COOKIES: "pass-cookies", "the cookies `{cookies}` identify a visitor", Some(COOKIE);
    PASS_COOKIES_SEEN: "pass-cookies-seen", "cookies identify visitors, most often `{cookies}`", Some("nothing for members, customers and authors of comments; if a cookie identifies nobody, look for the list that has its name");
    PASS_PATH: "pass-path", "administration, login and scripts called directly are never cached", None;
    PASS_QUERY: "pass-query", "a query parameter asks for a personal or unpublished view", Some("if the parameter means nothing on this site, name it in `ignore_query`");
    PASS_UPGRADE: "pass-upgrade", "it asks for another protocol on the connection", None;
    PASS_BODY: "pass-body", "it has a body, which is no part of a page's address", None;
    PASS_ORIGIN: "pass-origin", "`Origin` names another host, and the response may depend on it", None;
    PASS_NONCE: "pass-nonce", "it carries the REST nonce of a logged-in user", None;
    PASS_COMPARED: "pass-compared", "the first page of a member, or of a role for this address: it is compared with what visitors get", None;
    PASS_DIFFERS: "pass-differs", "pages of this member's role differ from what visitors get, outside of their private parts", Some("have the theme or plugin print these parts with `galley_private()`");
    PASS_ACCEPT: "pass-accept", "the client prefers a media type for which the page has another form (`Vary: Accept`), and of which no copy is stored", None;
    PASS_AJAX: "pass-ajax", "a script requests it, and themes send a part of the page to scripts", None;
    PASS_RULE_ANY: "pass-rule-any", "the site's rule says `cache = false`", Some(RULE);
    PASS_RULE: "pass-rule", "the site's rule number {number}, for `{path}`, says `cache = false`", Some(RULE);
    PASS_NO_STORE: "pass-no-store", "the client says `no-store`", None;
    PASS_REMEMBERED: "pass-remembered", "its latest response could not be stored", Some("run the command again after the next request for it");
    PASS_REMEMBERED_ANY: "pass-remembered-any", "its latest response could not be stored", Some("look at the pages that were not stored: each has its own reason");
    PASS_RANGE: "pass-range", "it requests a part, and no stored response contains it", None;
    PASS_HEAD: "pass-head", "it requests the head only, and no response is stored for it", None;
    PASS_PARTITION: "pass-partition", "this node cannot read the purges of the other nodes, so stored pages may be outdated", Some("make the engine of `[cluster]` reachable: `galley status` has the error");
    DIFFERS_FRAGMENTS: "differs-fragments", "the page that PHP generates for `{class}` is another: the private part `{part}` is not in both, or not in the same order", Some(PRIVATE);
    DIFFERS_REPEATED: "differs-repeated", "the page that PHP generates for `{class}` is another: the name `{part}` stands for several private parts that are not equal", Some(PRIVATE);
    DIFFERS_COOKIE: "differs-cookie", "the page that PHP generates for `{class}` is another: it sets a cookie", Some(PRIVATE);
    DIFFERS_STATUS: "differs-status", "the page that PHP generates for `{class}` is another: its status is {status}", Some(PRIVATE);
    DIFFERS_CONTENT: "differs-content", "the page that PHP generates for `{class}` is another: from byte {byte} on, where visitors get `{text}`", Some(PRIVATE);
    MISSED_PURGED: "missed-purged", "purge number {number} (by {kind}) removed the stored page", None;
    MISSED_SOFT_PURGED: "missed-soft-purged", "purge number {number} (by {kind}) made the stored page stale", None;
    MISSED_OR_PURGED: "missed-or-purged", "nothing is stored for this address; if a page was, purge number {number} (by {kind}) removed it", Some(LOAD_ONCE);
    MISSED_OLD: "missed-old", "the stored page is older than its lifetime of {seconds}", None;
    MISSED_NOTHING: "missed-nothing", "nothing is stored for this address", Some(LOAD_ONCE);
    SHORT_LIVED_TABLE: "short-lived-table", "PHP reads the table `{table}` of another plugin for this page, and no purge covers it, so the page lives for a minute at most", Some("the plugin's author can purge these pages, and name the table with the filter `galley_described_tables`");
    PART_CHANGES: "part-changes", "a part of the page was purged, and the page cannot be patched: `{part}` changes without a purge", Some("find the plugin or theme that prints something there which changes by itself");
    PART_FAILED: "part-failed", "a part of the page was purged, and the page cannot be patched: `{part}` could not be rendered without it", Some("look into the error log of PHP for what fails in a request with `Galley-Fragment`");
    PART_ALONE: "part-alone", "a part of the page was purged that cannot be rendered without the page", None;
    SET_COOKIE_ANY: "set-cookie-any", "the page sets a cookie", Some(SETS);
    SET_COOKIE: "set-cookie", "the page sets the cookie `{cookie}`", Some(SETS);
    SET_COOKIE_OF: "set-cookie-of", "the page sets the cookie `{cookie}`, as {owner} does", Some(COUNTS);
    SET_COOKIES: "set-cookies", "the page sets the cookies `{cookies}`", Some(SETS);
    STORED_FIELD: "not-stored-field", "its response has `{field}: {value}`", Some(SILENCE);
    STORED_NO_STORE: "not-stored-no-store", "its response has `no-store`", Some(SILENCE);
    STORED_REST_ROUTE: "not-stored-rest-route", "a REST route of another plugin answered, without a lifetime and without tags", Some("if the response may be stored, the plugin's author sends `Cache-Control: max-age`, or calls `galley_tag()`");
    STORED_DONOTCACHEPAGE: "not-stored-donotcachepage", "a plugin or the theme defines `DONOTCACHEPAGE` for the page", Some("find the plugin or the theme that defines it; if it is wrong there, the filter `galley_obey_donotcachepage` overrules it");
    STORED_NOCACHE_HEADERS: "not-stored-nocache-headers", "WordPress or a plugin calls `nocache_headers()` for the page", Some("find the plugin or the theme that calls it, or that starts a session of PHP");
    STORED_DEVELOPMENT: "not-stored-development", "development mode is on", Some("switch it off with the button of Galley's plugin, or wait: it ends by itself");
    STORED_EXCLUDED: "not-stored-excluded", "the settings of Galley's plugin exclude the page", Some("if that is wrong, remove the line from these settings");
    STORED_LOGGED_IN: "not-stored-logged-in", "WordPress generated the page for a logged-in user", None;
    STORED_PREVIEW: "not-stored-preview", "it is a preview", None;
    STORED_PASSWORD: "not-stored-password", "the post has a password", None;
    STORED_SHOP: "not-stored-shop", "it is a cart, a checkout or an account, or shows a message of the shop", None;
    STORED_PHP_ERROR: "not-stored-php-error", "PHP reported an error while it generated the page", Some(PHP_LOG);
    STORED_PRIVATE: "not-stored-private", "its response has `private`", Some(SILENCE);
    STORED_NO_CACHE: "not-stored-no-cache", "its response has `no-cache`", Some(SILENCE);
    STORED_VARY: "not-stored-vary", "its response has `vary: {value}`, so it may differ by fields that are not in the key", Some("if the page does not differ by that, a `[[site.rule]]` with `ignore = [\"vary\"]`");
    STORED_STATUS_NEVER: "not-stored-status-never", "responses with status {status} are never stored: they are for one client or for a short time", None;
    STORED_STATUS_ERROR: "not-stored-status-error", "PHP or the upstream answered with status {status}, an error", Some(PHP_LOG);
    STORED_STATUS: "not-stored-status", "responses with status {status} are stored only if `[site.ttl]` names the status", Some("name the status in `[site.ttl]`");
    STORED_STATUS_ANY: "not-stored-status-any", "responses with its status are not stored", Some("load the page once and run the command again: then the status is known");
    STORED_EXPIRED: "not-stored-expired", "its response has `{field}: {value}`, so it has expired when it arrives", Some("if the upstream's clock is wrong, correct it; or a `[[site.rule]]` with `ignore = [\"cache-control\", \"expires\"]` and a `ttl`");
    STORED_NO_LIFETIME: "not-stored-no-lifetime", "no field and no option gives its lifetime", Some("name its status in `[site.ttl]`");
    STORED_EMPTY: "not-stored-empty", "the page has no content", Some(PHP_LOG);
    STORED_ERROR_PAGE: "not-stored-error-page", "the page looks like a message about an error", Some(PHP_LOG);
    STORED_INCOMPLETE: "not-stored-incomplete", "its response ended before it was complete", Some(PHP_LOG);
    STORED_LOOP: "not-stored-loop", "it redirects to its own address", Some("compare the address in WordPress's settings with the one that visitors use, scheme and port included");
    STORED_MAINTENANCE: "not-stored-maintenance", "the site is in maintenance mode", Some("wait; if it stays so, remove `.maintenance` from the site's folder");
    STORED_TOO_LARGE: "not-stored-too-large", "the page is larger than `max_object`", Some("raise `max_object`, if the page is worth the memory");
    STORED_MEMORY: "not-stored-memory", "the cache had no memory for the page", Some("raise `memory` in `[cache]`");
    STORED_PARTIAL: "not-stored-partial", "it is a part of a page", None;
    STORED_CODING: "not-stored-coding", "the upstream compressed it with a coding that Galley cannot decode", Some("turn the upstream's compression off, or let it use gzip");
    STORED_REPAIRED: "not-stored-repaired", "its response was not valid: a header with a control character, or more than its `Content-Length`", Some("read the log of Galley: it names the page and what PHP should not send");
    STORED_SENT_FILE: "not-stored-sent-file", "its response names a file for Galley to send, for this client alone", None;
    STORED_PURGED: "not-stored-purged", "it was purged while PHP generated it", None;
    STORED_METHOD: "not-stored-method", "only responses to GET are stored", None;
    REFUSED_UNKNOWN_HOST: "refused-unknown-host", "no site has this host", Some("add it to a site's `hosts`, with and without `www`; a proxy in front of Galley must forward the host");
    REFUSED_MISDIRECTED: "refused-misdirected", "the certificate of this connection is for other hosts", Some("browsers repeat the request on a new connection; other clients must name the host in the handshake (SNI)");
    REFUSED_BAD_REQUEST: "refused-bad-request", "it is not a valid HTTP request", None;
    REFUSED_HEAD: "refused-head-too-large", "its head is larger than allowed", Some("raise `head_size` in `[server]`; or find out who sends so many cookies");
    REFUSED_BODY: "refused-body-too-large", "its body is larger than allowed", Some("raise `request_body` in `[server]`, the site or a rule, and PHP's own limits");
    REFUSED_NO_ROOM: "refused-no-room", "the spool for request bodies is full", Some("raise `spool_size` in `[server]`, and check whether the disk is full");
    REFUSED_TIMEOUT: "refused-timeout", "the client takes too long", None;
    REFUSED_CLIENT_GONE: "refused-client-gone", "the client has disconnected", None;
    REFUSED_DENIED: "refused-denied", "files with this name are never sent, or a `.htaccess` denies access", Some("rename the file, or check the `.htaccess` files in its folders");
    REFUSED_NETWORK: "refused-network", "this client address may not request it", Some("look at `allow` and `deny` of the site and of the rule that applies");
    REFUSED_ADMIN: "refused-admin", "this page is for administrators, and `admin_allow` does not contain the client address", Some("add the network to `admin_allow`; visitors do not need this page");
    REFUSED_NEEDS_TLS: "refused-needs-tls", "the dashboard of a site is sent over TLS only", Some("open it with `https://`; if a proxy in front of Galley speaks TLS, name the proxy in `trusted_proxies`");
    REFUSED_PASSWORD: "refused-password", "a user name and a password are required", None;
    REFUSED_LIMITED: "refused-limited", "the client exceeds `limit`, `login_limit` or `xmlrpc_limit`", Some("raise the limit, or name networks that share one address in `limit_exempt`");
    REFUSED_UNSEEN: "refused-unseen", "PHP is busy, and this address has not loaded a style sheet, script or image of the site within the last ten minutes", Some("people get the page after they have opened any other; if a program needs it, let it wait for `Retry-After`, or use the REST API");
    REFUSED_XMLRPC: "refused-xmlrpc", "the option `xmlrpc` denies XML-RPC", Some("if a program needs it, set `xmlrpc = \"on\"` for the site");
    REFUSED_AUTHORS: "refused-authors", "it requests the names of users, and `hide_authors` is on", Some("if an application needs them, it can log in");
    REFUSED_CRAWLER: "refused-crawler", "`crawler_rules` refuses the crawler that its `User-Agent` names", Some("to let the crawler in, remove its name from `crawler_rules`");
    REFUSED_CRAWL_DELAY: "refused-crawl-delay", "the crawler requests pages faster than `crawl_delay`, `crawler_rules` or `Crawl-delay` in `robots.txt` permits", None;
    REFUSED_METHOD: "refused-method", "this method is not served here", None;
    REFUSED_UNKNOWN_METHOD: "refused-unknown-method", "the method is unknown, and no rule for this path names it", Some("if an application needs it, add a `[[site.rule]]` with its path and this method in `methods`");
    REFUSED_NOT_FOUND: "refused-not-found", "there is no such file, and no PHP to run", Some("look whether `root` is the folder with WordPress's `index.php`");
    REFUSED_ONLY_IF_CACHED: "refused-only-if-cached", "the client accepts a stored response only, and there is none", None;
    REFUSED_OVERLOAD: "refused-overload", "the queue in front of the upstream is full", None;
    REFUSED_PAUSED: "refused-upstream-paused", "the upstream failed several times in a row; Galley tries one request at a time until it responds", None;
    REFUSED_DOWN: "refused-upstream-down", "the upstream cannot be reached", None;
    REFUSED_UPSTREAM_TIMEOUT: "refused-upstream-timeout", "the upstream takes too long", None;
    REFUSED_BAD_UPSTREAM: "refused-bad-upstream", "the upstream's response is not valid", None;
    REFUSED_MUST_REVALIDATE: "refused-must-revalidate", "the stored page must be revalidated before use, and the upstream does not respond", None;
    REFUSED_LOOP: "refused-loop", "the upstream sends this request back to Galley", Some("look whether the site's `upstream` is an address of Galley itself");
    REFUSED_INTERNAL: "refused-internal", "an internal error of Galley: see the error log", None;
    BARRED_NAMED: "barred-named", "`{option}` of the site names {client}", Some(NETWORK);
    BARRED_NAMED_RULE: "barred-named-rule", "`{option}` of rule number {number}, for `{path}` names {client}", Some(NETWORK);
    BARRED_MISSING: "barred-missing", "`{option}` of the site does not name {client}", Some(NETWORK);
    BARRED_MISSING_RULE: "barred-missing-rule", "`{option}` of rule number {number}, for `{path}` does not name {client}", Some(NETWORK);
    BARRED_COUNTRY: "barred-country", "`{option}` of the site names the country of {client}, which is {country}", Some(COUNTRY);
    BARRED_COUNTRY_RULE: "barred-country-rule", "`{option}` of rule number {number}, for `{path}` names the country of {client}, which is {country}", Some(COUNTRY);
    BARRED_NO_COUNTRY: "barred-no-country", "`{option}` of the site does not name the country of {client}, which is {country}", Some(COUNTRY);
    BARRED_NO_COUNTRY_RULE: "barred-no-country-rule", "`{option}` of rule number {number}, for `{path}` does not name the country of {client}, which is {country}", Some(COUNTRY);
    BARRED_PASSWORD: "barred-password", "`basic_auth` of the site requires a user name and a password, and the request has none", None;
    BARRED_PASSWORD_RULE: "barred-password-rule", "`basic_auth` of rule number {number}, for `{path}` requires a user name and a password, and the request has none", None;
    NOW_HIT: "now-hit", "answered from memory, fresh for another {seconds}", None;
    NOW_REDIRECT: "now-redirect", "redirected to {location}, before the cache lookup", None;
    NOW_DASHBOARD: "now-dashboard", "the dashboard of the site (`dashboard`), which shows nothing without its password", None;
    NOW_METHODS: "now-methods", "answered with the allowed methods", None;
    NOW_PATCH: "now-patch", "the stored page is sent after its purged fragments have been rendered again and replaced in it", None;
    NOW_ASSEMBLE: "now-assemble", "the stored page is sent with this member's own fragments in it", None;
    NOW_COMPARE: "now-compare", "the upstream generates the page for this member alone; it is compared with the stored one, and the member's own fragments are kept", None;
    NOW_PURGE: "now-purge", "a purge request: Galley purges the pages that it names", None;
    NOW_REVALIDATE: "now-revalidate", "the stale response is sent at once, and one background request fetches it again", None;
    NOW_STALE: "now-stale", "the stale response is sent, because the client accepts it (`max-stale`)", None;
    NOW_FETCH_OR_STALE: "now-fetch-or-stale", "the upstream generates the page; the stale response is sent if that fails", None;
    NOW_FETCH: "now-fetch", "the upstream generates the page, once for all who request it meanwhile; it is stored if the response allows it", None;
    NOW_PASS: "now-pass", "forwarded to the upstream as it is, for this visitor alone", None;
    NOW_FILE_TRUSTED: "now-file-memory", "a file below the root is sent, from memory", None;
    NOW_FILE_CHECKED: "now-file-checked", "a file below the root is sent, from memory once the disk has been checked again", None;
    NOW_FILE: "now-file", "a file below the root is sent", None;
    NOW_SLASH: "now-slash", "redirected to the directory's address, with its slash", None;
    NOW_SHARED: "now-shared", "another node has fetched the page: it is read from the engine of the cluster", None;
}

const COOKIE: &str = "log out, or send the request without the cookie, to see what visitors get; if the cookie identifies nobody, look where its name is listed";

const LOAD_ONCE: &str =
    "load the page once and run the command again; if nothing is stored then, it prints the reason";

const RULE: &str = "look at the site's `[[site.rule]]`: the first that matches applies, alone";

const PRIVATE: &str = "have the theme or plugin print that part with `galley_private()`";

const COUNTS: &str = "have it count with JavaScript, if its settings offer that, or switch it off";
const SETS: &str = "name it in `harmless_cookies` if it is the same for everyone, or find the plugin that starts a session";

const SILENCE: &str = "find the plugin or the theme that sets it; or a `[[site.rule]]` with `ignore = [\"cache-control\", \"expires\"]` and a `ttl`, if the page is the same for everyone";

const PHP_LOG: &str = "read PHP's error log";

const NETWORK: &str =
    "to let this address in, change that list; lists of a rule replace those of the site";

const COUNTRY: &str =
    "to let this country in, change that list; lists of a rule replace those of the site";

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use std::collections::HashSet;
    use std::fs;
    use std::path::Path;

    const LIST: &str = "../../wordpress-plugin/galley/tests/reasons.json";

    #[test]
    fn ids_of_reasons_are_unique() {
        let ids: HashSet<&str> = ALL.iter().map(|one| one.id).collect();
        assert_eq!(ids.len(), ALL.len());
        for one in ALL {
            let is_id = |sign: char| sign.is_ascii_lowercase() || sign == '-';
            assert!(one.id.chars().all(is_id), "{}", one.id);
        }
    }

    /// The list is for the plugin's tests. `UPDATE_GOLDEN=1` writes it.
    #[test]
    fn the_plugins_list_has_every_reason() {
        let list =
            |one: &&ReasonText| json!({ "id": one.id, "why": one.why, "do": one.what_to_do });
        let all: Vec<Value> = ALL.iter().map(list).collect();
        let text = serde_json::to_string_pretty(&all).unwrap() + "\n";
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(LIST);
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(&file, &text).unwrap();
        }
        let written = fs::read_to_string(&file).unwrap_or_default();
        assert!(
            written == text,
            "{LIST} is not the list: UPDATE_GOLDEN=1 writes it"
        );
    }
}
