//! Reasons in sentences that a site's owner understands, each with a remedy.
//!
//! There is one sentence for each word of `galley_policy::outcome`; a new word does not compile without one.

use galley_policy::cookie::Class;
use galley_policy::outcome::{NotStored, PassWhy, RefusedWhy};
use serde_json::{Value, json};

use super::applying;
use crate::fetch::hit_for_pass::PassReason;
use crate::request::Exchange;

/// A reason, and what to do.
pub(in crate::admin) struct Advice {
    pub(super) why: String,
    /// `None`: nothing, it is as it should be.
    pub(super) what_to_do: Option<&'static str>,
}

impl Advice {
    pub(super) fn new(why: impl Into<String>, what_to_do: &'static str) -> Self {
        Self {
            why: why.into(),
            what_to_do: Some(what_to_do),
        }
    }

    pub(super) fn fine(why: impl Into<String>) -> Self {
        Self {
            why: why.into(),
            what_to_do: None,
        }
    }

    pub(in crate::admin) fn value(&self) -> Value {
        json!({ "why": self.why, "do": self.what_to_do })
    }
}

/// Why a request passes; without one, why some do.
pub(in crate::admin) fn pass(why: PassWhy, exchange: Option<&Exchange<'_>>) -> Advice {
    match why {
        PassWhy::Method => Advice::fine(match exchange {
            Some(exchange) => format!(
                "`{}` is neither GET nor HEAD, so it may change something",
                exchange.info.method_text()
            ),
            None => "its method is neither GET nor HEAD, so it may change something".to_owned(),
        }),
        PassWhy::Authorization => {
            Advice::fine("it carries `Authorization`, so the response may be for one person")
        }
        PassWhy::Cookie => Advice::new(
            format!(
                "{} a person",
                meaning(&exchange.map_or_else(Vec::new, bypassing))
            ),
            "log out, or send the request without the cookie, to see what visitors get; if the cookie identifies nobody, look where its name is listed",
        ),
        PassWhy::Path => {
            Advice::fine("administration, login and scripts called directly are never cached")
        }
        PassWhy::Query => Advice::new(
            "a query parameter asks for a personal or unpublished view",
            "if the parameter means nothing on this site, name it in `ignore_query`",
        ),
        PassWhy::Upgrade => Advice::fine("it asks for another protocol on the connection"),
        PassWhy::Body => Advice::fine("it has a body, which is no part of a page's address"),
        PassWhy::Origin => {
            Advice::fine("`Origin` names another host, and the response may depend on it")
        }
        PassWhy::Nonce => Advice::fine("it carries the REST nonce of a logged-in user"),
        PassWhy::Compared => Advice::fine(
            "the first page of a member, or of a role for this address: it is compared with what visitors get",
        ),
        PassWhy::Differs => Advice::new(
            "pages of this member's role differ from what visitors get, outside of their private parts",
            "have the theme or plugin print these parts with `galley_private()`",
        ),
        PassWhy::Ajax => {
            Advice::fine("a script requests it, and themes send a part of the page to scripts")
        }
        PassWhy::Rule => {
            let rule = exchange.and_then(applying::applying);
            let rule = rule.map_or_else(String::new, |(number, rule)| {
                format!(" number {number}, for `{}`,", rule.path)
            });
            Advice::new(
                format!("the site's rule{rule} says `cache = false`"),
                "look at the site's `[[site.rule]]`: the first that matches applies, alone",
            )
        }
        PassWhy::NoStore => Advice::fine("the client says `no-store`"),
        PassWhy::Remembered => Advice::new(
            "its latest response could not be stored",
            if exchange.is_some() {
                "run the command again after the next request for it"
            } else {
                "look at the pages that were not stored: each has its own reason"
            },
        ),
        PassWhy::Range => Advice::fine("it requests a part, and no stored response contains it"),
        PassWhy::Head => {
            Advice::fine("it requests the head only, and no response is stored for it")
        }
        PassWhy::Partition => Advice::new(
            "this node cannot read the purges of the other nodes, so stored pages may be outdated",
            "make the engine of `[cluster]` reachable: `galley status` has the error",
        ),
    }
}

fn bypassing(exchange: &Exchange<'_>) -> Vec<String> {
    let classes = applying::classes(exchange).into_iter();
    classes
        .filter(|(_, class)| *class == Class::Bypass)
        .map(|(name, _)| name)
        .collect()
}

fn meaning(names: &[String]) -> String {
    match names {
        [] => "a cookie means".to_owned(),
        [one] => format!("the cookie `{one}` means"),
        several => format!("the cookies `{}` mean", several.join("`, `")),
    }
}

/// Why an answer was not stored; `reason` has what of it shows that.
pub(in crate::admin) fn not_stored(why: NotStored, reason: Option<&PassReason>) -> Advice {
    let fields = reason.map_or(&[][..], |reason| &reason.fields);
    let telling = VOICES
        .iter()
        .find_map(|voice| fields.iter().find(|(name, _)| name == voice));
    let says = |otherwise: &str| {
        telling.map_or_else(
            || otherwise.to_owned(),
            |(name, value)| format!("its response has `{name}: {value}`"),
        )
    };
    match why {
        NotStored::SetCookie => Advice::new(
            cookies_set(reason),
            "name it in `harmless_cookies` if it is the same for everyone, or find the plugin that starts a session",
        ),
        NotStored::NoStore => Advice::new(says("its response has `no-store`"), SILENCE),
        NotStored::Private => Advice::new(says("its response has `private`"), SILENCE),
        NotStored::NoCache => Advice::new(says("its response has `no-cache`"), SILENCE),
        NotStored::Vary => {
            let field = reason.and_then(|r| r.fields.iter().find(|(name, _)| name == "vary"));
            let value = field.map_or("*", |(_, value)| value.as_str());
            Advice::new(
                format!(
                    "its response has `vary: {value}`, so it may differ by fields that are not in the key"
                ),
                "if the page does not differ by that, a `[[site.rule]]` with `ignore = [\"vary\"]`",
            )
        }
        NotStored::Status => status_not_stored(reason.map(|reason| reason.status.as_u16())),
        NotStored::NoLifetime if telling.is_some() => Advice::new(
            format!("{}, so it has expired when it arrives", says("")),
            "if the upstream's clock is wrong, correct it; or a `[[site.rule]]` with `ignore = [\"cache-control\", \"expires\"]` and a `ttl`",
        ),
        NotStored::NoLifetime => Advice::new(
            "no field and no option gives its lifetime",
            "name its status in `[site.ttl]`",
        ),
        NotStored::Empty => Advice::new("the page has no content", PHP_LOG),
        NotStored::ErrorPage => {
            Advice::new("the page looks like a message about an error", PHP_LOG)
        }
        NotStored::Incomplete => Advice::new("its response ended before it was complete", PHP_LOG),
        NotStored::Loop => Advice::new(
            "it redirects to its own address",
            "compare the address in WordPress's settings with the one that visitors use, scheme and port included",
        ),
        NotStored::Maintenance => Advice::new(
            "the site is in maintenance mode",
            "wait; if it stays so, remove `.maintenance` from the site's folder",
        ),
        NotStored::TooLarge => Advice::new(
            "the page is larger than `max_object`",
            "raise `max_object`, if the page is worth the memory",
        ),
        NotStored::Memory => Advice::new(
            "the cache had no memory for the page",
            "raise `memory` in `[cache]`",
        ),
        NotStored::Partial => Advice::fine("it is a part of a page"),
        NotStored::Coding => Advice::new(
            "the upstream compressed it with a coding that Galley cannot decode",
            "turn the upstream's compression off, or let it use gzip",
        ),
        NotStored::Purged => Advice::fine("it was purged while PHP generated it"),
        NotStored::Method => Advice::fine("only responses to GET are stored"),
    }
}

/// Why a response with this status was not stored.
fn status_not_stored(status: Option<u16>) -> Advice {
    match status {
        Some(status @ (204 | 302..=304 | 307 | 401 | 407 | 429 | 500..)) => Advice::fine(format!(
            "responses with status {status} are never stored: they are for one client or for a short time"
        )),
        Some(status) => Advice::new(
            format!(
                "responses with status {status} are stored only if `[site.ttl]` names the status"
            ),
            "name the status in `[site.ttl]`",
        ),
        None => Advice::new(
            "responses with its status are not stored",
            "load the page once and run the command again: then the status is known",
        ),
    }
}

fn cookies_set(reason: Option<&PassReason>) -> String {
    match reason.map_or(&[][..], |reason| &reason.cookies) {
        [] => "the page sets a cookie".to_owned(),
        [one] => format!("the page sets the cookie `{one}`"),
        several => format!("the page sets the cookies `{}`", several.join("`, `")),
    }
}

/// Why Galley answers with an error of its own.
pub(super) fn refused(why: RefusedWhy) -> Advice {
    match why {
        RefusedWhy::UnknownHost => Advice::new(
            "no site has this host",
            "add it to a site's `hosts`, with and without `www`; a proxy in front of Galley must forward the host",
        ),
        RefusedWhy::Misdirected => Advice::new(
            "the certificate of this connection is for other hosts",
            "browsers repeat the request on a new connection; other clients must name the host in the handshake (SNI)",
        ),
        RefusedWhy::BadRequest => Advice::fine("it is not a valid HTTP request"),
        RefusedWhy::HeadTooLarge => Advice::new(
            "its head is larger than allowed",
            "raise `head_size` in `[server]`; or find out who sends so many cookies",
        ),
        RefusedWhy::BodyTooLarge => Advice::new(
            "its body is larger than allowed",
            "raise `request_body` in `[server]`, the site or a rule, and PHP's own limits",
        ),
        RefusedWhy::NoRoom => Advice::new(
            "the spool for request bodies is full",
            "raise `spool_size` in `[server]`, and check whether the disk is full",
        ),
        RefusedWhy::Timeout => Advice::fine("the client takes too long"),
        RefusedWhy::ClientGone => Advice::fine("the client has disconnected"),
        RefusedWhy::Denied => Advice::new(
            "files with this name are never sent, or a `.htaccess` denies access",
            "rename the file, or check the `.htaccess` files in its folders",
        ),
        RefusedWhy::Network => Advice::new(
            "this client address may not request it",
            "look at `allow` and `deny` of the site and of the rule that applies",
        ),
        RefusedWhy::Admin => Advice::new(
            "this page is for administrators, and `admin_allow` does not contain the client address",
            "add the network to `admin_allow`; visitors do not need this page",
        ),
        RefusedWhy::NeedsTls => Advice::new(TLS_ONLY, SPEAK_TLS),
        RefusedWhy::Password => Advice::fine("a user name and a password are required"),
        RefusedWhy::Limited => Advice::new(
            "the client exceeds `limit`, `login_limit` or `xmlrpc_limit`",
            "raise the limit, or name networks that share one address in `limit_exempt`",
        ),
        RefusedWhy::XmlRpc => Advice::new(
            "the option `xmlrpc` denies XML-RPC",
            "if a program needs it, set `xmlrpc = \"on\"` for the site",
        ),
        RefusedWhy::Authors => Advice::new(
            "it requests the names of users, and `hide_authors` is on",
            "if an application needs them, it can log in",
        ),
        RefusedWhy::Method => Advice::fine("this method is not served here"),
        RefusedWhy::UnknownMethod => Advice::new(
            "the method is unknown, and no rule for this path names it",
            "if an application needs it, add a `[[site.rule]]` with its path and this method in `methods`",
        ),
        RefusedWhy::NotFound => Advice::new(
            "there is no such file, and no PHP to run",
            "look whether `root` is the folder with WordPress's `index.php`",
        ),
        RefusedWhy::OnlyIfCached => {
            Advice::fine("the client accepts a stored response only, and there is none")
        }
        RefusedWhy::Overload => Advice::fine("the queue in front of the upstream is full"),
        RefusedWhy::UpstreamPaused => Advice::fine(
            "the upstream failed several times in a row; Galley tries one request at a time until it responds",
        ),
        RefusedWhy::UpstreamDown => Advice::fine("the upstream cannot be reached"),
        RefusedWhy::UpstreamTimeout => Advice::fine("the upstream takes too long"),
        RefusedWhy::BadUpstream => Advice::fine("the upstream's response is not valid"),
        RefusedWhy::MustRevalidate => Advice::fine(
            "the stored page must be revalidated before use, and the upstream does not respond",
        ),
        RefusedWhy::Loop => Advice::new(
            "the upstream sends this request back to Galley",
            "look whether the site's `upstream` is an address of Galley itself",
        ),
        RefusedWhy::Internal => Advice::fine("an internal error of Galley: see the error log"),
    }
}

const TLS_ONLY: &str = "the dashboard of a site is sent over TLS only";

const SPEAK_TLS: &str = "open it with `https://`; if a proxy in front of Galley speaks TLS, name the proxy in `trusted_proxies`";

const SILENCE: &str = "find the plugin or the theme that sets it; or a `[[site.rule]]` with `ignore = [\"cache-control\", \"expires\"]` and a `ttl`, if the page is the same for everyone";

const PHP_LOG: &str = "read PHP's error log";

/// Fields about storing, in their order of precedence.
const VOICES: &[&str] = &[
    "galley-cache-control",
    "cdn-cache-control",
    "surrogate-control",
    "x-litespeed-cache-control",
    "x-accel-expires",
    "cache-control",
    "expires",
];
