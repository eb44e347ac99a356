//! The requests for a list of purges, for each kind of cache.
//!
//! A purge that a cache does not support becomes a larger one, at most a purge of everything: too much is purged, never too
//! little.
//!
//! - Cloudflare: `POST /client/v4/zones/ZONE/purge_cache`, with up to 30 tags or URLs in one request.
//! - Fastly: `POST /service/ID/purge` with up to 256 surrogate keys, `POST /purge/HOST/PATH`, `POST /service/ID/purge_all`.
//! - Bunny: `POST /pullzone/ID/purgeCache` with a tag or for everything, `POST /purge?url=URL`.
//! - `PURGE`: in the form that the plugin Proxy Cache Purge sends to Varnish, with `X-Purge-Method: regex` for more than one URL;
//!   tags in `xkey-purge`.
//! - `BAN`: all URLs that begin with the path.
//! - Galley: `POST /purge` of the admin interface, which supports every kind of purge.

use galley_config::{ForwardKind, PurgeForward};
use galley_policy::purge::{Purge, Scope, Strength};
use galley_policy::tags::{self, EVERYTHING};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

/// A cache on another machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardTarget {
    /// The cache. Its token file is read for each request.
    pub cache: PurgeForward,
    /// The hosts of the site, without patterns.
    pub hosts: Vec<String>,
    /// Whether the site also has host patterns: `*.example.com` or `*`.
    pub has_other_hosts: bool,
}

/// One request to a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TargetRequest {
    /// The method.
    pub(super) method: &'static str,
    /// The path and query.
    pub(super) target: String,
    /// The host, if it is not that of the address.
    pub(super) host: Option<String>,
    /// The fields other than host, authorization and content type.
    pub(super) fields: Vec<(&'static str, String)>,
    /// The JSON body.
    pub(super) body: Option<Value>,
}

/// The scopes of one strength, sorted by the forms that caches support.
#[derive(Default)]
struct WantedScopes {
    everything: bool,
    tags: Vec<String>,
    urls: Vec<String>,
    prefixes: Vec<String>,
    patterns: Vec<String>,
}

impl ForwardTarget {
    /// The name of the target in status and log, without secrets.
    pub(super) fn name(&self) -> String {
        match &self.cache.kind {
            ForwardKind::Cloudflare(zone) => format!("cloudflare {zone}"),
            ForwardKind::Fastly(service) => format!("fastly {service}"),
            ForwardKind::Bunny(zone) => format!("bunny {zone}"),
            ForwardKind::Purge => format!("purge {}", self.cache.server),
            ForwardKind::Ban => format!("ban {}", self.cache.server),
            ForwardKind::Galley => format!("galley {}", self.cache.server),
        }
    }

    /// Whether the target is a cache behind this one, which has to be purged before a purge here is final.
    pub(super) fn is_behind(&self) -> bool {
        self.cache.kind == ForwardKind::Galley
    }

    /// Whether the target may be a Galley that forwards to this one.
    pub(super) fn may_forward_too(&self) -> bool {
        match self.cache.kind {
            ForwardKind::Purge | ForwardKind::Ban | ForwardKind::Galley => true,
            ForwardKind::Cloudflare(_) | ForwardKind::Fastly(_) | ForwardKind::Bunny(_) => false,
        }
    }

    /// Whether a response with this status means that the page was not stored there.
    pub(super) fn means_absent(&self, call: &TargetRequest, status: u16) -> bool {
        // Squid and nginx respond like this.
        let is_method = matches!(self.cache.kind, ForwardKind::Purge | ForwardKind::Ban);
        let is_exact = call.fields.iter().any(|(_, value)| value == EXACT);
        is_method && is_exact && matches!(status, 404 | 412)
    }

    /// The field that authorizes a request.
    pub(super) fn authorization(&self, token: &str) -> (&'static str, String) {
        match self.cache.kind {
            ForwardKind::Fastly(_) => ("fastly-key", token.to_owned()),
            ForwardKind::Bunny(_) => ("accesskey", token.to_owned()),
            ForwardKind::Cloudflare(_)
            | ForwardKind::Purge
            | ForwardKind::Ban
            | ForwardKind::Galley => ("authorization", format!("Bearer {token}")),
        }
    }

    /// The requests for the given purges.
    pub(super) fn calls(&self, purges: &[Purge]) -> Vec<TargetRequest> {
        let of = |strength: Strength| -> Vec<&Scope> {
            let some = purges.iter().filter(|purge| purge.strength == strength);
            some.map(|purge| &purge.scope).collect()
        };
        let mut calls = self.calls_of(&of(Strength::Hard), Strength::Hard);
        calls.extend(self.calls_of(&of(Strength::Soft), Strength::Soft));
        calls
    }

    fn calls_of(&self, scopes: &[&Scope], strength: Strength) -> Vec<TargetRequest> {
        if scopes.is_empty() {
            return Vec::new();
        }
        let mut sorted = WantedScopes::default();
        for scope in scopes {
            self.sort(scope, &mut sorted);
        }
        match &self.cache.kind {
            ForwardKind::Cloudflare(zone) => cloudflare(zone, &sorted),
            ForwardKind::Fastly(service) => fastly(service, &sorted, strength),
            ForwardKind::Bunny(zone) => bunny(zone, &sorted),
            ForwardKind::Purge => self.purge(&sorted),
            ForwardKind::Ban => self.ban(&sorted),
            ForwardKind::Galley => vec![galley(self.hosts.first(), &sorted, strength)],
        }
    }

    fn sort(&self, scope: &Scope, wanted: &mut WantedScopes) {
        let is_galley = self.is_behind();
        match scope {
            Scope::Tag(tag) if is_galley => push(&mut wanted.tags, tag.clone()),
            Scope::Tag(tag) if self.cache.by_tag && tags::is_portable(tag) => {
                push(&mut wanted.tags, tag.clone());
                // Pages whose tags are unknown have this tag.
                push(&mut wanted.tags, EVERYTHING.to_owned());
            }
            Scope::Url { host, path, query } => {
                match self.urls(host.as_deref(), path, query.as_deref()) {
                    Some(urls) => urls.into_iter().for_each(|url| push(&mut wanted.urls, url)),
                    None => wanted.everything = true,
                }
            }
            Scope::Prefix(path) if is_galley => push(&mut wanted.prefixes, text(path)),
            Scope::Prefix(path) if self.has_prefixes() && path.iter().copied().all(is_plain) => {
                push(&mut wanted.prefixes, text(path));
            }
            Scope::Pattern(pattern) if is_galley => push(&mut wanted.patterns, pattern.to_string()),
            Scope::Site | Scope::Host(_) | Scope::Tag(_) | Scope::Prefix(_) | Scope::Pattern(_) => {
                wanted.everything = true;
            }
        }
    }

    fn has_prefixes(&self) -> bool {
        matches!(self.cache.kind, ForwardKind::Purge | ForwardKind::Ban)
    }

    /// `host/path?query` for every host of the scope; without a host for a Galley, which has its own list. `None`: the hosts
    /// cannot be listed.
    fn urls(&self, host: Option<&str>, path: &[u8], query: Option<&[u8]>) -> Option<Vec<String>> {
        let mut rest = text(path);
        if let Some(query) = query {
            rest.push('?');
            rest.push_str(&text(query));
        }
        if let Some(host) = host {
            return Some(vec![format!("{host}{rest}")]);
        }
        if self.is_behind() {
            return Some(vec![rest]);
        }
        let at = |host: &String| format!("{host}{rest}");
        (!self.has_other_hosts).then(|| self.hosts.iter().map(at).collect())
    }

    fn purge(&self, wanted: &WantedScopes) -> Vec<TargetRequest> {
        if wanted.everything {
            let whole_host =
                |host: &String| by_method("PURGE", host, "/.*".to_owned(), MethodScope::Regex);
            return self.hosts.iter().map(whole_host).collect();
        }
        let below = wanted.prefixes.iter().flat_map(|prefix| {
            let hosts = self.hosts.iter();
            hosts.map(move |host| {
                by_method("PURGE", host, format!("{prefix}.*"), MethodScope::Regex)
            })
        });
        let tags = wanted.tags.chunks(TAGS_PER_FIELD).filter_map(|some| {
            let tags = MethodScope::Tags(some.join(" "));
            let host = self.hosts.first()?;
            Some(by_method("PURGE", host, "/".to_owned(), tags))
        });
        urls_by_method("PURGE", &wanted.urls)
            .chain(below)
            .chain(tags)
            .collect()
    }

    fn ban(&self, wanted: &WantedScopes) -> Vec<TargetRequest> {
        // A purge of tags becomes a purge of everything, because BAN does not support tags.
        let at = |path: &str| -> Vec<TargetRequest> {
            let hosts = self.hosts.iter();
            hosts
                .map(|host| by_method("BAN", host, path.to_owned(), MethodScope::Beginning))
                .collect()
        };
        if wanted.everything || !wanted.tags.is_empty() {
            return at("/");
        }
        let below = wanted.prefixes.iter().flat_map(|path| at(path));
        urls_by_method("BAN", &wanted.urls).chain(below).collect()
    }
}

impl TargetRequest {
    fn with(mut self, name: &'static str, value: &str) -> Self {
        self.fields.push((name, value.to_owned()));
        self
    }
}

fn urls_by_method(method: &'static str, urls: &[String]) -> impl Iterator<Item = TargetRequest> {
    urls.iter().filter_map(move |url| {
        let (host, path) = url.split_at_checked(url.find('/')?)?;
        Some(by_method(method, host, path.to_owned(), MethodScope::Exact))
    })
}

fn by_method(
    method: &'static str,
    host: &str,
    target: String,
    scope: MethodScope,
) -> TargetRequest {
    let field = match scope {
        MethodScope::Exact => (PURGE_METHOD, EXACT.to_owned()),
        MethodScope::Regex => (PURGE_METHOD, "regex".to_owned()),
        MethodScope::Beginning => (PURGE_METHOD, "beginning".to_owned()),
        MethodScope::Tags(tags) => ("xkey-purge", tags),
    };
    TargetRequest {
        method,
        target,
        host: Some(host.to_owned()),
        // Tells a Galley not to forward the purge to another one.
        fields: vec![field, ("galley-forwarded", "1".to_owned())],
        body: None,
    }
}

/// The scope of a `PURGE` or `BAN` request.
enum MethodScope {
    Exact,
    Regex,
    Beginning,
    Tags(String),
}

fn galley(site: Option<&String>, wanted: &WantedScopes, strength: Strength) -> TargetRequest {
    let body = json!({
        "site": site, "soft": strength == Strength::Soft, "all": wanted.everything, "tags": wanted.tags, "urls": wanted.urls,
        "prefixes": wanted.prefixes, "patterns": wanted.patterns, "forwarded": true,
    });
    post("/purge".to_owned(), Some(body))
}

fn cloudflare(zone: &str, wanted: &WantedScopes) -> Vec<TargetRequest> {
    let call = |body: Value| post(format!("/client/v4/zones/{zone}/purge_cache"), Some(body));
    if wanted.everything {
        return vec![call(json!({ "purge_everything": true }))];
    }
    let schemes = |url: &String| [format!("http://{url}"), format!("https://{url}")];
    let files: Vec<String> = wanted.urls.iter().flat_map(schemes).collect();
    let files = files
        .chunks(CLOUDFLARE_ITEMS)
        .map(|some| call(json!({ "files": some })));
    let tags = wanted
        .tags
        .chunks(CLOUDFLARE_ITEMS)
        .map(|some| call(json!({ "tags": some })));
    files.chain(tags).collect()
}

fn fastly(service: &str, wanted: &WantedScopes, strength: Strength) -> Vec<TargetRequest> {
    if wanted.everything {
        // There is no soft form.
        return vec![post(format!("/service/{service}/purge_all"), None)];
    }
    let keys = wanted.tags.chunks(FASTLY_KEYS).map(|some| {
        let body = json!({ "surrogate_keys": some });
        post(format!("/service/{service}/purge"), Some(body))
    });
    let urls = wanted
        .urls
        .iter()
        .map(|url| post(format!("/purge/{url}"), None));
    let calls = keys.chain(urls);
    match strength {
        Strength::Hard => calls.collect(),
        Strength::Soft => calls
            .map(|call| call.with("fastly-soft-purge", "1"))
            .collect(),
    }
}

fn bunny(zone: &str, wanted: &WantedScopes) -> Vec<TargetRequest> {
    let of_zone = |body| post(format!("/pullzone/{zone}/purgeCache"), body);
    if wanted.everything {
        return vec![of_zone(None)];
    }
    let tags = wanted
        .tags
        .iter()
        .map(|tag| of_zone(Some(json!({ "CacheTag": tag }))));
    let urls = wanted.urls.iter().map(|url| {
        let url = format!("https://{url}");
        let url = utf8_percent_encode(&url, QUERY_ENCODED);
        post(format!("/purge?url={url}&async=false"), None)
    });
    tags.chain(urls).collect()
}

fn post(target: String, body: Option<Value>) -> TargetRequest {
    TargetRequest {
        method: "POST",
        target,
        host: None,
        fields: Vec::new(),
        body,
    }
}

fn push(list: &mut Vec<String>, one: String) {
    if !list.contains(&one) {
        list.push(one);
    }
}

/// Whether a byte of a path matches itself in a regular expression. A dot also matches other characters.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"/-_.~%".contains(&byte)
}

/// The text of a path or query; in canonical form they are ASCII.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const PURGE_METHOD: &str = "x-purge-method";
const EXACT: &str = "exact";

/// The maximum number of items in one request, for every plan and version of the API.
const CLOUDFLARE_ITEMS: usize = 30;

/// The maximum number of surrogate keys in one request.
const FASTLY_KEYS: usize = 256;

/// The maximum number of tags in one field: far below the limits on fields, with tags of the usual length.
const TAGS_PER_FIELD: usize = 50;

/// The characters that are encoded in a query value.
const QUERY_ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

#[cfg(test)]
mod tests {
    use galley_config::{HttpUpstream, ServerShare};

    use super::*;

    fn target(kind: ForwardKind, by_tag: bool) -> ForwardTarget {
        ForwardTarget {
            cache: PurgeForward {
                kind,
                server: HttpUpstream {
                    host: "cache.test".to_owned(),
                    port: 443,
                    tls: true,
                    share: ServerShare::default(),
                },
                token_file: None,
                by_tag,
            },
            hosts: vec!["a.test".to_owned(), "b.test".to_owned()],
            has_other_hosts: false,
        }
    }

    fn purge(scope: Scope) -> Purge {
        Purge {
            scope,
            strength: Strength::Hard,
        }
    }

    fn url(host: Option<&str>) -> Purge {
        purge(Scope::Url {
            host: host.map(str::to_owned),
            path: b"/x".to_vec(),
            query: None,
        })
    }

    fn bodies(target: &ForwardTarget, purges: &[Purge]) -> Vec<Value> {
        let calls = target.calls(purges).into_iter();
        calls.filter_map(|call| call.body).collect()
    }

    #[test]
    fn an_unsupported_purge_purges_everything_and_never_nothing() {
        let cloudflare = ForwardKind::Cloudflare("z".to_owned());
        let all = vec![json!({ "purge_everything": true })];
        let tag = |tag: &str| purge(Scope::Tag(tag.to_owned()));
        let by_tag = target(cloudflare.clone(), true);
        assert_eq!(
            bodies(&by_tag, &[tag("p1")]),
            [json!({ "tags": ["p1", "*"] })]
        );
        for strange in ["a b", "a,b", "caf\u{e9}"] {
            assert_eq!(bodies(&by_tag, &[tag(strange)]), all, "{strange}");
        }
        let by_url = target(cloudflare.clone(), false);
        for other in [
            tag("p1"),
            purge(Scope::Site),
            purge(Scope::Host("a.test".to_owned())),
            purge(Scope::Prefix(b"/shop".to_vec())),
        ] {
            assert_eq!(bodies(&by_url, &[url(None), other]), all);
        }
        assert_eq!(
            bodies(&by_url, &[url(None)]),
            [
                json!({ "files": ["http://a.test/x", "https://a.test/x", "http://b.test/x", "https://b.test/x"] })
            ]
        );
        let wild = ForwardTarget {
            has_other_hosts: true,
            ..target(cloudflare, false)
        };
        assert_eq!(bodies(&wild, &[url(None)]), all);
        assert_ne!(bodies(&wild, &[url(Some("a.test"))]), all);
    }

    #[test]
    fn a_path_with_special_characters_purges_all_of_each_host() {
        let varnish = target(ForwardKind::Purge, false);
        let of = |path: &str| -> Vec<String> {
            let purges = [purge(Scope::Prefix(path.as_bytes().to_vec()))];
            let calls = varnish.calls(&purges).into_iter();
            calls
                .map(|call| format!("{} {}", call.host.unwrap_or_default(), call.target))
                .collect()
        };
        assert_eq!(of("/shop"), ["a.test /shop.*", "b.test /shop.*"]);
        assert_eq!(of("/a+b"), ["a.test /.*", "b.test /.*"]);
    }

    #[test]
    fn fastly_purges_softly_only_for_soft_purges() {
        let fastly = target(ForwardKind::Fastly("s".to_owned()), true);
        let soft = Purge {
            strength: Strength::Soft,
            ..url(Some("a.test"))
        };
        let calls = fastly.calls(&[url(Some("b.test")), soft]);
        let soft: Vec<bool> = calls.iter().map(|call| !call.fields.is_empty()).collect();
        let targets: Vec<&str> = calls.iter().map(|call| call.target.as_str()).collect();
        assert_eq!(targets, ["/purge/b.test/x", "/purge/a.test/x"]);
        assert_eq!(soft, [false, true]);
    }
}
