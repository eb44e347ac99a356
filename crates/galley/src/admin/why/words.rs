//! Reasons in sentences that a site's owner understands, each with what to do about it.
//!
//! One sentence for each word of `galley_policy::outcome`; a word more does not compile without one.

use galley_policy::cookie::Class;
use galley_policy::outcome::{NotStored, PassWhy, RefusedWhy};
use serde_json::{Value, json};

use super::applying;
use crate::fetch::hit_for_pass::PassReason;
use crate::request::Exchange;

/// A reason, and what to do.
pub(super) struct Advice {
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

    pub(super) fn value(&self) -> Value {
        json!({ "why": self.why, "do": self.what_to_do })
    }
}

/// Why a request passes.
pub(super) fn pass(why: PassWhy, exchange: &Exchange<'_>) -> Advice {
    match why {
        PassWhy::Method => Advice::fine(format!(
            "`{}` is neither GET nor HEAD, so it may change something",
            exchange.facts.method_text()
        )),
        PassWhy::Authorization => {
            Advice::fine("it carries `Authorization`, so the answer may be for one person")
        }
        PassWhy::Cookie => Advice::new(
            format!("{} a person", meaning(&bypassing(exchange))),
            "log out, or leave the cookie away, to see what visitors get; if the cookie means nobody, look where its name is listed",
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
            Advice::fine("`Origin` names another host, and the answer may depend on it")
        }
        PassWhy::Nonce => Advice::fine("it carries a REST nonce of somebody who is logged in"),
        PassWhy::Ajax => {
            Advice::fine("a script asks for it, and themes answer those with a part of the page")
        }
        PassWhy::Rule => {
            let rule = applying::applying(exchange);
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
            "its answer could not be stored a moment ago",
            "look again after the next request for it",
        ),
        PassWhy::Range => {
            Advice::fine("it asks for a part, and nothing is stored that it could be cut from")
        }
        PassWhy::Head => Advice::fine("it asks for the head only, and nothing stored may answer"),
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
pub(super) fn not_stored(why: NotStored, reason: Option<&PassReason>) -> Advice {
    let fields = reason.map_or(&[][..], |reason| &reason.fields);
    let telling = VOICES
        .iter()
        .find_map(|voice| fields.iter().find(|(name, _)| name == voice));
    let says = |otherwise: &str| {
        telling.map_or_else(
            || otherwise.to_owned(),
            |(name, value)| format!("its answer says `{name}: {value}`"),
        )
    };
    match why {
        NotStored::SetCookie => Advice::new(
            cookies_set(reason),
            "name it in `harmless_cookies` if it is the same for everyone, or find the plugin that starts a session",
        ),
        NotStored::NoStore => Advice::new(says("its answer says `no-store`"), SILENCE),
        NotStored::Private => Advice::new(says("its answer says `private`"), SILENCE),
        NotStored::NoCache => Advice::new(says("its answer says `no-cache`"), SILENCE),
        NotStored::Vary => {
            let field = reason.and_then(|r| r.fields.iter().find(|(name, _)| name == "vary"));
            let value = field.map_or("*", |(_, value)| value.as_str());
            Advice::new(
                format!(
                    "its answer says `vary: {value}`, so it may differ by what is not in the key"
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
            "nothing says how long it may be stored",
            "name its status in `[site.ttl]`",
        ),
        NotStored::Empty => Advice::new("the page has no content", PHP_LOG),
        NotStored::ErrorPage => {
            Advice::new("the page looks like a message about an error", PHP_LOG)
        }
        NotStored::Incomplete => Advice::new("its answer broke off before its end", PHP_LOG),
        NotStored::Loop => Advice::new(
            "it redirects to its own address",
            "compare the address in WordPress's settings with the one that visitors use, scheme and port included",
        ),
        NotStored::Maintenance => Advice::new(
            "the site is in maintenance mode",
            "wait; if it stays so, remove `.maintenance` from the site's folder",
        ),
        NotStored::TooLarge => Advice::new(
            "it is larger than `max_object`",
            "raise `max_object`, if the page is worth the memory",
        ),
        NotStored::Memory => {
            Advice::new("there was no memory for it", "raise `memory` in `[cache]`")
        }
        NotStored::Partial => Advice::fine("it is a part of a page"),
        NotStored::Coding => Advice::new(
            "it was asked for as it is, and came compressed in a way that Galley does not read",
            "turn the upstream's compression off, or let it use gzip",
        ),
        NotStored::Purged => Advice::fine("it was purged while it was being composed"),
        NotStored::Method => Advice::fine("only answers to GET are stored"),
    }
}

/// Why a response with this status was not stored.
fn status_not_stored(status: Option<u16>) -> Advice {
    match status {
        Some(status @ (204 | 302..=304 | 307 | 401 | 407 | 429 | 500..)) => Advice::fine(format!(
            "responses with status {status} are never stored: they are meant for one client or for a moment"
        )),
        Some(status) => Advice::new(
            format!("responses with status {status} are stored only where the file says so"),
            "name the status in `[site.ttl]`",
        ),
        None => Advice::new(
            "its status is not one that is stored",
            "ask for the page once and look again: then the status is known",
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
            "add it to a site's `hosts`, with and without `www`; if a proxy stands in front, it must pass the host on",
        ),
        RefusedWhy::Misdirected => Advice::new(
            "the certificate that the client was shown speaks for other hosts",
            "a browser asks again over a connection of its own; other clients must name the host in the handshake (SNI)",
        ),
        RefusedWhy::BadRequest => Advice::fine("it is not HTTP as Galley reads it"),
        RefusedWhy::HeadTooLarge => Advice::new(
            "its head is larger than allowed",
            "raise `head_size` in `[server]`; or find out who sends so many cookies",
        ),
        RefusedWhy::BodyTooLarge => Advice::new(
            "its body is larger than allowed",
            "raise `request_body` in `[server]`, the site or a rule, and PHP's own limits",
        ),
        RefusedWhy::NoRoom => Advice::new(
            "there is no room left for request bodies",
            "raise `spool_size` in `[server]`, and look whether the disk is full",
        ),
        RefusedWhy::Timeout => Advice::fine("the client takes too long"),
        RefusedWhy::ClientGone => Advice::fine("the client has left"),
        RefusedWhy::Denied => Advice::new(
            "this name is never sent, or a `.htaccess` closes it",
            "rename the file, or look into the `.htaccess` files on its way",
        ),
        RefusedWhy::Network => Advice::new(
            "this address may not ask for it",
            "look at `allow` and `deny` of the site and of the rule that applies",
        ),
        RefusedWhy::Admin => Advice::new(
            "this is for administrators, and the address is in none of the networks of `admin_allow`",
            "add the network to `admin_allow`; visitors need none of this",
        ),
        RefusedWhy::Password => Advice::fine("a name and a password are wanted"),
        RefusedWhy::Limited => Advice::new(
            "the client asks more often than `limit`, `login_limit` or `xmlrpc_limit` lets one",
            "raise the limit, or name networks that share one address in `limit_exempt`",
        ),
        RefusedWhy::XmlRpc => Advice::new(
            "`xmlrpc` says that this is not served",
            "if a program needs it, say `xmlrpc = \"on\"` in the site",
        ),
        RefusedWhy::Authors => Advice::new(
            "it asks for the names of users, and `hide_authors` is on",
            "if an application needs them, it can log in",
        ),
        RefusedWhy::Method => Advice::fine("this method is not served here"),
        RefusedWhy::UnknownMethod => Advice::new(
            "the method is unknown, and no rule for this path names it",
            "if an application needs it, add a `[[site.rule]]` with its path and this method in `methods`",
        ),
        RefusedWhy::NotFound => Advice::new(
            "there is no such file, and no PHP that could answer",
            "look whether `root` is the folder with WordPress's `index.php`",
        ),
        RefusedWhy::OnlyIfCached => {
            Advice::fine("the client wants a stored answer only, and there is none")
        }
        RefusedWhy::Overload => Advice::fine("the queue in front of the upstream is full"),
        RefusedWhy::UpstreamPaused => Advice::fine(
            "the upstream failed several times on end; one request at a time tries whether it answers again",
        ),
        RefusedWhy::UpstreamDown => Advice::fine("the upstream cannot be reached"),
        RefusedWhy::UpstreamTimeout => Advice::fine("the upstream takes too long"),
        RefusedWhy::BadUpstream => Advice::fine("the upstream's answer cannot be read"),
        RefusedWhy::MustRevalidate => Advice::fine(
            "what is stored must not be used without asking, and the upstream does not answer",
        ),
        RefusedWhy::Loop => Advice::new(
            "the upstream sends this request back to Galley",
            "look whether the site's `upstream` is an address of Galley itself",
        ),
        RefusedWhy::Internal => Advice::fine("a fault of Galley: see the error log"),
    }
}

const SILENCE: &str = "find the plugin or the theme that says so; or a `[[site.rule]]` with `ignore = [\"cache-control\", \"expires\"]` and a `ttl`, if the page is the same for everyone";

const PHP_LOG: &str = "look into PHP's error log";

/// Fields that speak about storing, in the order in which they are obeyed.
const VOICES: &[&str] = &[
    "galley-cache-control",
    "cdn-cache-control",
    "surrogate-control",
    "x-litespeed-cache-control",
    "x-accel-expires",
    "cache-control",
    "expires",
];
