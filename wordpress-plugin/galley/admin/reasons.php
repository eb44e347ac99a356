<?php
/**
 * Translations of the server's reasons, by their IDs. Words in braces are placeholders. Words in backticks are names of options, headers and
 * files. For an ID that this file does not contain, as from a newer server, the plugin shows the server's text.
 *
 * @package Galley
 */

namespace Galley;

defined( 'ABSPATH' ) || exit;

/**
 * Returns a reason of the server as a sentence, and what to do.
 *
 * @param mixed  $reason Reason from the server: `id`, `params`, optionally `note`. `do` is the server's recommendation.
 * @param string $words  The server's sentence.
 * @return array{string, string} The sentence, and what to do. The latter is empty if there is nothing to do.
 */
function reason_words( $reason, string $words ): array {
	$id    = is_array( $reason ) && is_string( $reason['id'] ?? null ) ? $reason['id'] : '';
	$known = reason_texts()[ $id ] ?? null;
	if ( null === $known ) {
		return array( $words, is_array( $reason ) && is_string( $reason['do'] ?? null ) ? $reason['do'] : '' );
	}
	$params = array();
	foreach ( (array) ( $reason['params'] ?? array() ) as $name => $value ) {
		if ( 'seconds' === $name && is_numeric( $value ) ) {
			$value = age_in_words( (int) $value );
		}
		$is_unknown                  = 'country' === $name && 'unknown' === $value;
		$params[ '{' . $name . '}' ] = $is_unknown ? __( 'unknown', 'galley' ) : ( is_scalar( $value ) ? (string) $value : '' );
	}
	$note = is_string( $reason['note'] ?? null ) ? $reason['note'] : '';
	$why  = strtr( $known[0], $params );
	return array( '' === $note ? $why : preg_replace( '/。$/u', '', $why ) . ': ' . $note, $known[1] ?? '' );
}

/**
 * Returns all reasons by ID: the reason, and what to do if there is anything to do.
 *
 * @return array<string, string[]>
 */
function reason_texts(): array {
	return array_merge( reason_texts_pass(), reason_texts_missed(), reason_texts_not_stored(), reason_texts_refused(), reason_texts_barred(), reason_texts_now() );
}

/**
 * Returns the reasons why Galley does not answer a request from the cache.
 *
 * @return array<string, string[]>
 */
function reason_texts_pass(): array {
	$cookie  = __( 'log out, or send the request without the cookie, to see what visitors get; if the cookie identifies nobody, look where its name is listed', 'galley' );
	$rule    = __( 'look at the site’s `[[site.rule]]`: the first that matches applies, alone', 'galley' );
	$private = __( 'have the theme or plugin print that part with `galley_private()`', 'galley' );
	return array(
		'pass-method'         => array( __( '`{method}` is neither GET nor HEAD, so it may change something', 'galley' ) ),
		'pass-method-any'     => array( __( 'its method is neither GET nor HEAD, so it may change something', 'galley' ) ),
		'pass-authorization'  => array( __( 'it carries `Authorization`, so the response may be for one person', 'galley' ) ),
		'pass-cookie-any'     => array( __( 'a cookie identifies a visitor', 'galley' ), $cookie ),
		'pass-cookie'         => array( __( 'the cookie `{cookie}` identifies a visitor', 'galley' ), $cookie ),
		'pass-cookies'        => array( __( 'the cookies `{cookies}` identify a visitor', 'galley' ), $cookie ),
		'pass-cookies-seen'   => array( __( 'cookies identify visitors, most often `{cookies}`', 'galley' ), __( 'nothing for members, customers and authors of comments; if a cookie identifies nobody, look for the list that has its name', 'galley' ) ),
		'pass-path'           => array( __( 'administration, login and scripts called directly are never cached', 'galley' ) ),
		'pass-query'          => array( __( 'a query parameter asks for a personal or unpublished view', 'galley' ), __( 'if the parameter means nothing on this site, name it in `ignore_query`', 'galley' ) ),
		'pass-upgrade'        => array( __( 'it asks for another protocol on the connection', 'galley' ) ),
		'pass-body'           => array( __( 'it has a body, which is no part of a page’s address', 'galley' ) ),
		'pass-origin'         => array( __( '`Origin` names another host, and the response may depend on it', 'galley' ) ),
		'pass-nonce'          => array( __( 'it carries the REST nonce of a logged-in user', 'galley' ) ),
		'pass-compared'       => array( __( 'the first page of a member, or of a role for this address: it is compared with what visitors get', 'galley' ) ),
		'pass-differs'        => array( __( 'pages of this member’s role differ from what visitors get, outside of their private parts', 'galley' ), __( 'have the theme or plugin print these parts with `galley_private()`', 'galley' ) ),
		'pass-accept'         => array( __( 'the client prefers a media type for which the page has another form (`Vary: Accept`), and of which no copy is stored', 'galley' ) ),
		'pass-ajax'           => array( __( 'a script requests it, and themes send a part of the page to scripts', 'galley' ) ),
		'pass-rule-any'       => array( __( 'the site’s rule says `cache = false`', 'galley' ), $rule ),
		'pass-rule'           => array( __( 'the site’s rule number {number}, for `{path}`, says `cache = false`', 'galley' ), $rule ),
		'pass-no-store'       => array( __( 'the client says `no-store`', 'galley' ) ),
		'pass-remembered'     => array( __( 'its latest response could not be stored', 'galley' ), __( 'ask again after the next request for the page', 'galley' ) ),
		'pass-remembered-any' => array( __( 'its latest response could not be stored', 'galley' ), __( 'look at the pages that were not stored: each has its own reason', 'galley' ) ),
		'pass-range'          => array( __( 'it requests a part, and no stored response contains it', 'galley' ) ),
		'pass-head'           => array( __( 'it requests the head only, and no response is stored for it', 'galley' ) ),
		'pass-partition'      => array( __( 'this node cannot read the purges of the other nodes, so stored pages may be outdated', 'galley' ), __( 'make the engine of `[cluster]` reachable: `galley status` has the error', 'galley' ) ),
		'differs-fragments'   => array( __( 'the page that PHP generates for `{class}` is another: the private part `{part}` is not in both, or not in the same order', 'galley' ), $private ),
		'differs-repeated'    => array( __( 'the page that PHP generates for `{class}` is another: the name `{part}` stands for several private parts that are not equal', 'galley' ), $private ),
		'differs-cookie'      => array( __( 'the page that PHP generates for `{class}` is another: it sets a cookie', 'galley' ), $private ),
		'differs-status'      => array( __( 'the page that PHP generates for `{class}` is another: its status is {status}', 'galley' ), $private ),
		'differs-content'     => array( __( 'the page that PHP generates for `{class}` is another: from byte {byte} on, where visitors get `{text}`', 'galley' ), $private ),
	);
}

/**
 * Returns the reasons why a page is not stored, or no longer stored.
 *
 * @return array<string, string[]>
 */
function reason_texts_missed(): array {
	return array(
		'missed-purged'      => array( __( 'purge number {number} removed the stored page', 'galley' ) ),
		'missed-soft-purged' => array( __( 'purge number {number} made the stored page stale', 'galley' ) ),
		'missed-or-purged'   => array( __( 'nothing is stored for this address; if a page was, purge number {number} removed it', 'galley' ), __( 'load the page once and ask again; if nothing is stored then, the reason is given here', 'galley' ) ),
		'missed-old'         => array( __( 'the stored page is older than its lifetime of {seconds}', 'galley' ) ),
		'missed-nothing'     => array( __( 'nothing is stored for this address', 'galley' ), __( 'load the page once and ask again; if nothing is stored then, the reason is given here', 'galley' ) ),
		'short-lived-table'  => array( __( 'PHP reads the table `{table}` of another plugin for this page, and no purge covers it, so the page lives for a minute at most', 'galley' ), __( 'the plugin’s author can purge these pages, and name the table with the filter `galley_described_tables`', 'galley' ) ),
		'part-changes'       => array( __( 'a part of the page was purged, and the page cannot be patched: `{part}` changes without a purge', 'galley' ), __( 'find the plugin or theme that prints something there which changes by itself', 'galley' ) ),
		'part-failed'        => array( __( 'a part of the page was purged, and the page cannot be patched: `{part}` could not be rendered without it', 'galley' ), __( 'look into the error log of PHP for what fails in a request with `Galley-Fragment`', 'galley' ) ),
		'part-alone'         => array( __( 'a part of the page was purged that cannot be rendered without the page', 'galley' ) ),
	);
}

/**
 * Returns the reasons why Galley did not store a response.
 *
 * @return array<string, string[]>
 */
function reason_texts_not_stored(): array {
	$sets    = __( 'name it in `harmless_cookies` if it is the same for everyone, or find the plugin that starts a session', 'galley' );
	$counts  = __( 'have it count with JavaScript, if its settings offer that, or switch it off', 'galley' );
	$silence = __( 'find the plugin or the theme that sets it; or a `[[site.rule]]` with `ignore = ["cache-control", "expires"]` and a `ttl`, if the page is the same for everyone', 'galley' );
	$log     = __( 'read PHP’s error log', 'galley' );
	return array(
		'set-cookie-any'             => array( __( 'the page sets a cookie', 'galley' ), $sets ),
		'set-cookie'                 => array( __( 'the page sets the cookie `{cookie}`', 'galley' ), $sets ),
		'set-cookie-of'              => array( __( 'the page sets the cookie `{cookie}`, as {owner} does', 'galley' ), $counts ),
		'set-cookies'                => array( __( 'the page sets the cookies `{cookies}`', 'galley' ), $sets ),
		'not-stored-field'           => array( __( 'its response has `{field}: {value}`', 'galley' ), $silence ),
		'not-stored-no-store'        => array( __( 'its response has `no-store`', 'galley' ), $silence ),
		'not-stored-rest-route'      => array( __( 'a REST route of another plugin answered, without a lifetime and without tags', 'galley' ), __( 'if the response may be stored, the plugin’s author sends `Cache-Control: max-age`, or calls `galley_tag()`', 'galley' ) ),
		'not-stored-donotcachepage'  => array( __( 'a plugin or the theme defines `DONOTCACHEPAGE` for the page', 'galley' ), __( 'find the plugin or the theme that defines it; if it is wrong there, the filter `galley_obey_donotcachepage` overrules it', 'galley' ) ),
		'not-stored-nocache-headers' => array( __( 'WordPress or a plugin calls `nocache_headers()` for the page', 'galley' ), __( 'find the plugin or the theme that calls it, or that starts a session of PHP', 'galley' ) ),
		'not-stored-development'     => array( __( 'development mode is on', 'galley' ), __( 'switch it off with the button of Galley’s plugin, or wait: it ends by itself', 'galley' ) ),
		'not-stored-excluded'        => array( __( 'the settings of Galley’s plugin exclude the page', 'galley' ), __( 'if that is wrong, remove the line from these settings', 'galley' ) ),
		'not-stored-logged-in'       => array( __( 'WordPress generated the page for a logged-in user', 'galley' ) ),
		'not-stored-preview'         => array( __( 'it is a preview', 'galley' ) ),
		'not-stored-password'        => array( __( 'the post has a password', 'galley' ) ),
		'not-stored-shop'            => array( __( 'it is a cart, a checkout or an account, or shows a message of the shop', 'galley' ) ),
		'not-stored-php-error'       => array( __( 'PHP reported an error while it generated the page', 'galley' ), $log ),
		'not-stored-private'         => array( __( 'its response has `private`', 'galley' ), $silence ),
		'not-stored-no-cache'        => array( __( 'its response has `no-cache`', 'galley' ), $silence ),
		'not-stored-vary'            => array( __( 'its response has `vary: {value}`, so it may differ by fields that are not in the key', 'galley' ), __( 'if the page does not differ by that, a `[[site.rule]]` with `ignore = ["vary"]`', 'galley' ) ),
		'not-stored-status-never'    => array( __( 'responses with status {status} are never stored: they are for one client or for a short time', 'galley' ) ),
		'not-stored-status-error'    => array( __( 'PHP or the upstream answered with status {status}, an error', 'galley' ), $log ),
		'not-stored-status'          => array( __( 'responses with status {status} are stored only if `[site.ttl]` names the status', 'galley' ), __( 'name the status in `[site.ttl]`', 'galley' ) ),
		'not-stored-status-any'      => array( __( 'responses with its status are not stored', 'galley' ), __( 'load the page once and ask again: then the status is known', 'galley' ) ),
		'not-stored-expired'         => array( __( 'its response has `{field}: {value}`, so it has expired when it arrives', 'galley' ), __( 'if the upstream’s clock is wrong, correct it; or a `[[site.rule]]` with `ignore = ["cache-control", "expires"]` and a `ttl`', 'galley' ) ),
		'not-stored-no-lifetime'     => array( __( 'no field and no option gives its lifetime', 'galley' ), __( 'name its status in `[site.ttl]`', 'galley' ) ),
		'not-stored-empty'           => array( __( 'the page has no content', 'galley' ), $log ),
		'not-stored-error-page'      => array( __( 'the page looks like a message about an error', 'galley' ), $log ),
		'not-stored-incomplete'      => array( __( 'its response ended before it was complete', 'galley' ), $log ),
		'not-stored-loop'            => array( __( 'it redirects to its own address', 'galley' ), __( 'compare the address in WordPress’s settings with the one that visitors use, scheme and port included', 'galley' ) ),
		'not-stored-maintenance'     => array( __( 'the site is in maintenance mode', 'galley' ), __( 'wait; if it stays so, remove `.maintenance` from the site’s folder', 'galley' ) ),
		'not-stored-too-large'       => array( __( 'the page is larger than `max_object`', 'galley' ), __( 'raise `max_object`, if the page is worth the memory', 'galley' ) ),
		'not-stored-memory'          => array( __( 'the cache had no memory for the page', 'galley' ), __( 'raise `memory` in `[cache]`', 'galley' ) ),
		'not-stored-partial'         => array( __( 'it is a part of a page', 'galley' ) ),
		'not-stored-coding'          => array( __( 'the upstream compressed it with a coding that Galley cannot decode', 'galley' ), __( 'turn the upstream’s compression off, or let it use gzip', 'galley' ) ),
		'not-stored-repaired'        => array( __( 'its response was not valid: a header with a control character, or more than its `Content-Length`', 'galley' ), __( 'read the log of Galley: it names the page and what PHP should not send', 'galley' ) ),
		'not-stored-sent-file'       => array( __( 'its response names a file for Galley to send, for this client alone', 'galley' ) ),
		'not-stored-purged'          => array( __( 'it was purged while PHP generated it', 'galley' ) ),
		'not-stored-method'          => array( __( 'only responses to GET are stored', 'galley' ) ),
	);
}

/**
 * Returns the reasons why Galley answers with an error.
 *
 * @return array<string, string[]>
 */
function reason_texts_refused(): array {
	return array(
		'refused-unseen'           => array( __( 'PHP is busy, and this address has not loaded a style sheet, script or image of the site within the last ten minutes', 'galley' ), __( 'people get the page after they have opened any other; if a program needs it, let it wait for `Retry-After`, or use the REST API', 'galley' ) ),
		'refused-unknown-host'     => array( __( 'no site has this host', 'galley' ), __( 'add it to a site’s `hosts`, with and without `www`; a proxy in front of Galley must forward the host', 'galley' ) ),
		'refused-misdirected'      => array( __( 'the certificate of this connection is for other hosts', 'galley' ), __( 'browsers repeat the request on a new connection; other clients must name the host in the handshake (SNI)', 'galley' ) ),
		'refused-bad-request'      => array( __( 'it is not a valid HTTP request', 'galley' ) ),
		'refused-head-too-large'   => array( __( 'its head is larger than allowed', 'galley' ), __( 'raise `head_size` in `[server]`; or find out who sends so many cookies', 'galley' ) ),
		'refused-body-too-large'   => array( __( 'its body is larger than allowed', 'galley' ), __( 'raise `request_body` in `[server]`, the site or a rule, and PHP’s own limits', 'galley' ) ),
		'refused-no-room'          => array( __( 'the spool for request bodies is full', 'galley' ), __( 'raise `spool_size` in `[server]`, and check whether the disk is full', 'galley' ) ),
		'refused-timeout'          => array( __( 'the client takes too long', 'galley' ) ),
		'refused-client-gone'      => array( __( 'the client has disconnected', 'galley' ) ),
		'refused-denied'           => array( __( 'files with this name are never sent, or a `.htaccess` denies access', 'galley' ), __( 'rename the file, or check the `.htaccess` files in its folders', 'galley' ) ),
		'refused-network'          => array( __( 'this client address may not request it', 'galley' ), __( 'look at `allow` and `deny` of the site and of the rule that applies', 'galley' ) ),
		'refused-admin'            => array( __( 'this page is for administrators, and `admin_allow` does not contain the client address', 'galley' ), __( 'add the network to `admin_allow`; visitors do not need this page', 'galley' ) ),
		'refused-needs-tls'        => array( __( 'the dashboard of a site is sent over TLS only', 'galley' ), __( 'open it with `https://`; if a proxy in front of Galley speaks TLS, name the proxy in `trusted_proxies`', 'galley' ) ),
		'refused-password'         => array( __( 'a user name and a password are required', 'galley' ) ),
		'refused-limited'          => array( __( 'the client exceeds `limit`, `login_limit` or `xmlrpc_limit`', 'galley' ), __( 'raise the limit, or name networks that share one address in `limit_exempt`', 'galley' ) ),
		'refused-xmlrpc'           => array( __( 'the option `xmlrpc` denies XML-RPC', 'galley' ), __( 'if a program needs it, set `xmlrpc = "on"` for the site', 'galley' ) ),
		'refused-authors'          => array( __( 'it requests the names of users, and `hide_authors` is on', 'galley' ), __( 'if an application needs them, it can log in', 'galley' ) ),
		'refused-crawler'          => array( __( '`crawler_rules` refuses the crawler that its `User-Agent` names', 'galley' ), __( 'to let the crawler in, remove its name from `crawler_rules`', 'galley' ) ),
		'refused-crawl-delay'      => array( __( 'the crawler requests pages faster than `crawl_delay`, `crawler_rules` or `Crawl-delay` in `robots.txt` permits', 'galley' ) ),
		'refused-method'           => array( __( 'this method is not served here', 'galley' ) ),
		'refused-unknown-method'   => array( __( 'the method is unknown, and no rule for this path names it', 'galley' ), __( 'if an application needs it, add a `[[site.rule]]` with its path and this method in `methods`', 'galley' ) ),
		'refused-not-found'        => array( __( 'there is no such file, and no PHP to run', 'galley' ), __( 'look whether `root` is the folder with WordPress’s `index.php`', 'galley' ) ),
		'refused-only-if-cached'   => array( __( 'the client accepts a stored response only, and there is none', 'galley' ) ),
		'refused-overload'         => array( __( 'the queue in front of the upstream is full', 'galley' ) ),
		'refused-upstream-paused'  => array( __( 'the upstream failed several times in a row; Galley tries one request at a time until it responds', 'galley' ) ),
		'refused-upstream-down'    => array( __( 'the upstream cannot be reached', 'galley' ) ),
		'refused-upstream-timeout' => array( __( 'the upstream takes too long', 'galley' ) ),
		'refused-bad-upstream'     => array( __( 'the upstream’s response is not valid', 'galley' ) ),
		'refused-must-revalidate'  => array( __( 'the stored page must be revalidated before use, and the upstream does not respond', 'galley' ) ),
		'refused-loop'             => array( __( 'the upstream sends this request back to Galley', 'galley' ), __( 'look whether the site’s `upstream` is an address of Galley itself', 'galley' ) ),
		'refused-internal'         => array( __( 'an internal error of Galley: see the error log', 'galley' ) ),
	);
}

/**
 * Returns the reasons why a list in the configuration denies a request.
 *
 * @return array<string, string[]>
 */
function reason_texts_barred(): array {
	$network = __( 'to let this address in, change that list; lists of a rule replace those of the site', 'galley' );
	$country = __( 'to let this country in, change that list; lists of a rule replace those of the site', 'galley' );
	return array(
		'barred-named'           => array( __( '`{option}` of the site names {client}', 'galley' ), $network ),
		'barred-named-rule'      => array( __( '`{option}` of rule number {number}, for `{path}` names {client}', 'galley' ), $network ),
		'barred-missing'         => array( __( '`{option}` of the site does not name {client}', 'galley' ), $network ),
		'barred-missing-rule'    => array( __( '`{option}` of rule number {number}, for `{path}` does not name {client}', 'galley' ), $network ),
		'barred-country'         => array( __( '`{option}` of the site names the country of {client}, which is {country}', 'galley' ), $country ),
		'barred-country-rule'    => array( __( '`{option}` of rule number {number}, for `{path}` names the country of {client}, which is {country}', 'galley' ), $country ),
		'barred-no-country'      => array( __( '`{option}` of the site does not name the country of {client}, which is {country}', 'galley' ), $country ),
		'barred-no-country-rule' => array( __( '`{option}` of rule number {number}, for `{path}` does not name the country of {client}, which is {country}', 'galley' ), $country ),
		'barred-password'        => array( __( '`basic_auth` of the site requires a user name and a password, and the request has none', 'galley' ) ),
		'barred-password-rule'   => array( __( '`basic_auth` of rule number {number}, for `{path}` requires a user name and a password, and the request has none', 'galley' ) ),
	);
}

/**
 * Returns the descriptions of how Galley handles a request.
 *
 * @return array<string, string[]>
 */
function reason_texts_now(): array {
	return array(
		'now-hit'            => array( __( 'answered from memory, fresh for another {seconds}', 'galley' ) ),
		'now-redirect'       => array( __( 'redirected to {location}, before the cache lookup', 'galley' ) ),
		'now-dashboard'      => array( __( 'the dashboard of the site (`dashboard`), which shows nothing without its password', 'galley' ) ),
		'now-methods'        => array( __( 'answered with the allowed methods', 'galley' ) ),
		'now-patch'          => array( __( 'the stored page is sent after its purged fragments have been rendered again and replaced in it', 'galley' ) ),
		'now-assemble'       => array( __( 'the stored page is sent with this member’s own fragments in it', 'galley' ) ),
		'now-compare'        => array( __( 'the upstream generates the page for this member alone; it is compared with the stored one, and the member’s own fragments are kept', 'galley' ) ),
		'now-purge'          => array( __( 'a purge request: Galley purges the pages that it names', 'galley' ) ),
		'now-revalidate'     => array( __( 'the stale response is sent at once, and one background request fetches it again', 'galley' ) ),
		'now-stale'          => array( __( 'the stale response is sent, because the client accepts it (`max-stale`)', 'galley' ) ),
		'now-fetch-or-stale' => array( __( 'the upstream generates the page; the stale response is sent if that fails', 'galley' ) ),
		'now-fetch'          => array( __( 'the upstream generates the page, once for all who request it meanwhile; it is stored if the response allows it', 'galley' ) ),
		'now-pass'           => array( __( 'forwarded to the upstream as it is, for this visitor alone', 'galley' ) ),
		'now-file-memory'    => array( __( 'a file below the root is sent, from memory', 'galley' ) ),
		'now-file-checked'   => array( __( 'a file below the root is sent, from memory once the disk has been checked again', 'galley' ) ),
		'now-file'           => array( __( 'a file below the root is sent', 'galley' ) ),
		'now-slash'          => array( __( 'redirected to the directory’s address, with its slash', 'galley' ) ),
		'now-shared'         => array( __( 'another node has fetched the page: it is read from the engine of the cluster', 'galley' ) ),
	);
}
