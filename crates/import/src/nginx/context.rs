//! Statements that define names for other ones: upstreams, zones of limits, maps.

use std::collections::HashMap;

use crate::known;
use crate::report::{Report, StatementOutcome};
use crate::tree::ParsedDirective;
use crate::units;

/// The named parts of a configuration.
pub(super) struct Context<'l> {
    pub report: &'l mut Report,
    pub upstreams: HashMap<String, Vec<String>>,
    /// Rates of `limit_req_zone` by the name of the zone.
    pub rates: HashMap<String, String>,
    /// The folder and size of the first disk cache.
    pub cache: Option<CacheFolder>,
    /// Lifetimes in browsers by media type, from a map for `expires`.
    pub expires: Vec<ExpiryOfType>,
    /// Cookies in conditions that exclude pages from the cache, unless the preset covers them.
    pub bypass_cookies: Vec<(String, crate::source::StatementOrigin)>,
}

/// An entry such as `text/css 1y` of a map.
#[derive(Clone, Debug)]
pub(super) struct ExpiryOfType {
    /// A pattern for the paths of this type.
    pub pattern: &'static str,
    pub seconds: u64,
    pub origin: crate::source::StatementOrigin,
}

/// A `fastcgi_cache_path` or `proxy_cache_path`.
#[derive(Clone, Debug)]
pub(super) struct CacheFolder {
    pub size: Option<String>,
    pub inactive: Option<String>,
    pub origin: crate::source::StatementOrigin,
}

impl<'l> Context<'l> {
    pub fn new(report: &'l mut Report) -> Self {
        Self {
            report,
            upstreams: HashMap::new(),
            rates: HashMap::new(),
            cache: None,
            expires: Vec::new(),
            bypass_cookies: Vec::new(),
        }
    }

    /// See [`Report::carried`].
    pub fn carried(&mut self, directive: &ParsedDirective, option: impl Into<String>) {
        self.report.carried(directive.id, option);
    }

    /// See [`Report::not_needed`].
    pub fn not_needed(&mut self, directive: &ParsedDirective, why: impl Into<String>) {
        self.report.not_needed(directive.id, why);
    }

    /// See [`Report::not_carried`].
    pub fn not_carried(&mut self, directive: &ParsedDirective, remedy: impl Into<String>) {
        self.report.not_carried(directive.id, remedy);
    }

    /// Records the definition in a statement outside of servers. False if it defines nothing.
    pub fn define(&mut self, directive: &ParsedDirective) -> bool {
        match directive.name() {
            "upstream" => self.upstream(directive),
            "limit_req_zone" => self.rate(directive),
            "fastcgi_cache_path" | "proxy_cache_path" => self.cache_path(directive),
            "map" => self.map(directive),
            "geo" => {
                let remedy =
                    "name the networks in `allow`, `deny`, `admin_allow` or `server.limit_exempt`";
                self.report.not_carried(directive.id, remedy);
                for inner in directive.inner() {
                    self.report.not_carried(inner.id, remedy);
                }
            }
            _ => return false,
        }
        true
    }

    fn upstream(&mut self, directive: &ParsedDirective) {
        let mut servers = Vec::new();
        for inner in directive.inner() {
            match inner.name() {
                "server" if inner.arguments().iter().any(|word| word == "down") => {
                    self.not_needed(inner, "the server is marked as down");
                }
                "server" => {
                    servers.push(inner.argument(0).to_owned());
                    self.carried(inner, "upstream or php");
                }
                "keepalive" | "keepalive_requests" | "keepalive_timeout" | "zone" => {
                    self.not_needed(inner, "Galley keeps connections by itself (`idle_share`)");
                }
                _ => {
                    let remedy = "choose the method of load balancing in the options of `upstream`";
                    self.not_carried(inner, remedy);
                }
            }
        }
        self.report.carried(directive.id, "upstream or php");
        self.upstreams
            .insert(directive.argument(0).to_owned(), servers);
    }

    fn rate(&mut self, directive: &ParsedDirective) {
        let option = |name: &str| {
            let mut all = directive.arguments().iter();
            all.find_map(|argument| argument.strip_prefix(name))
        };
        let zone = option("zone=").map(|zone| zone.split(':').next().unwrap_or(zone));
        match (zone, option("rate=").and_then(units::rate)) {
            (Some(zone), Some(rate)) => {
                self.rates.insert(zone.to_owned(), rate);
                self.report.carried(directive.id, "limit");
            }
            _ => self.report.not_carried(directive.id, "set `limit`"),
        }
    }

    fn cache_path(&mut self, directive: &ParsedDirective) {
        let option = |name: &str| {
            let mut all = directive.arguments().iter();
            all.find_map(|argument| argument.strip_prefix(name))
        };
        if self.cache.is_none() {
            self.cache = Some(CacheFolder {
                size: option("max_size=").and_then(units::size),
                inactive: option("inactive=").and_then(units::duration),
                origin: directive.origin.clone(),
            });
        }
        // Plugins that compute names of cache files expect these levels.
        let outcome = match option("levels=") {
            Some("1:2") => CACHE_OF_PLUGINS,
            _ => "cache.disk",
        };
        self.report.carried(directive.id, outcome);
    }

    /// Converts a map. One of cookies or addresses is a list of conditions; others are not needed or lost.
    fn map(&mut self, directive: &ParsedDirective) {
        let variable = directive.argument(0);
        if variable == "$sent_http_content_type" {
            return self.map_of_types(directive);
        }
        let target = directive.argument(1);
        let skips = ["skip", "no_cache", "nocache", "bypass"]
            .iter()
            .any(|word| target.contains(word));
        let outcome = map_fate(variable, skips);
        self.report.record(directive.id, outcome.clone());
        for inner in directive.inner() {
            let is_condition = inner.argument(0) != "0" && inner.name() != "default";
            let pattern = inner.name().trim_start_matches(['~', '*']);
            let unknown = known::cookies(pattern).unknown;
            if variable == "$http_cookie" && skips && is_condition && !unknown.is_empty() {
                let cookies = unknown.into_iter();
                let cookies = cookies.map(|cookie| (cookie, inner.origin.clone()));
                self.bypass_cookies.extend(cookies);
                self.report.carried(inner.id, "bypass_cookies");
            } else {
                self.report.record(inner.id, outcome.clone());
            }
        }
    }

    /// Converts `map $sent_http_content_type $expires`: lifetimes in browsers.
    fn map_of_types(&mut self, directive: &ParsedDirective) {
        self.carried(directive, "rules for the media types");
        for inner in directive.inner() {
            let media_type = inner.name().trim_start_matches(['~', '*']);
            let value = inner.argument(0);
            let seconds = match value {
                "max" => Some(315_360_000),
                value => units::seconds(value),
            };
            match (known::paths_of_type(media_type), seconds) {
                _ if inner.name() == "default" || matches!(value, "epoch" | "off" | "0") => {
                    self.not_needed(inner, known::ASKS_AGAIN);
                }
                (Some(pattern), Some(seconds)) => {
                    self.expires.push(ExpiryOfType {
                        pattern,
                        seconds,
                        origin: inner.origin.clone(),
                    });
                    self.carried(inner, "a rule with set_headers");
                }
                _ => self.not_carried(inner, "write a rule with `pattern` and `set_headers`"),
            }
        }
    }

    /// The servers for a target of `proxy_pass`, as values of `upstream`. Empty if the target depends on the request.
    pub fn http_servers(&self, target: &str) -> Vec<String> {
        let Some((scheme, rest)) = target.split_once("://") else {
            return Vec::new();
        };
        let host = rest.split('/').next().unwrap_or_default();
        let port = if scheme == "https" { 443 } else { 80 };
        let named = self.upstreams.get(host);
        let all = named.map_or_else(|| vec![host.to_owned()], Clone::clone);
        all.iter()
            .filter(|server| {
                !server.is_empty() && !server.contains('$') && !server.starts_with("unix:")
            })
            .map(|server| {
                let has_port = server
                    .rsplit_once(':')
                    .is_some_and(|(_, port)| port.parse::<u16>().is_ok());
                if has_port {
                    format!("{scheme}://{server}")
                } else {
                    format!("{scheme}://{server}:{port}")
                }
            })
            .collect()
    }

    /// The server for a target of `fastcgi_pass`, as a value of `php`.
    pub fn fastcgi_server(&self, target: &str) -> Option<String> {
        match self.upstreams.get(target) {
            Some(servers) => servers.first().and_then(|server| units::fastcgi(server)),
            None => units::fastcgi(target),
        }
    }
}

/// The result for a map of a variable. `skips`: whether it is about the cache.
fn map_fate(variable: &str, skips: bool) -> StatementOutcome {
    let why = match variable {
        "$http_upgrade" => "Galley forwards WebSockets (`upgrade`)",
        "$http_cookie" | "$request_uri" | "$request_method" | "$args" | "$query_string"
            if skips =>
        {
            "the preset knows these conditions of WordPress"
        }
        "$http_x_requested_with" => {
            "Galley knows requests by scripts (admin-ajax.php and the REST API)"
        }
        "$http_accept" => known::PICTURES,
        "$http_host" | "$host" | "$scheme" | "$https" => "Galley sends host and scheme itself",
        _ => return StatementOutcome::NotCarried(MAP.to_owned()),
    };
    StatementOutcome::NotNeeded(why.to_owned())
}

const MAP: &str = "Galley has no maps: write rules for the paths, or decide in PHP";

/// A plugin's settings are in its database, so the import cannot determine whether it removes files.
const CACHE_OF_PLUGINS: &str = "cache.disk. If a plugin purges pages by removing files from this folder (Nginx Helper, SpinupWP), \
     also set `nginx_cache_path` of its site";
