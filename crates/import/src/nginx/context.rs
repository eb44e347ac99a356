//! Statements that define names for other ones: upstreams, zones of limits, maps.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use crate::directive::ParsedDirective;
use crate::draft::Value;
use crate::known;
use crate::report::{Report, StatementOutcome};
use crate::source::Source;
use crate::units;

/// The named parts of a configuration.
pub(super) struct Context<'l> {
    pub report: &'l mut Report,
    source: &'l dyn Source,
    /// The server that is being converted.
    pub server: ServerFacts,
    /// The variables that make requests bypass a cache.
    pub cache_variables: HashSet<String>,
    /// The arguments of `expires` outside of locations.
    expires_variables: HashSet<String>,
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

/// The properties of a server on which the meaning of its statements depends.
#[derive(Clone, Debug, Default)]
pub(super) struct ServerFacts {
    /// The ports without TLS.
    pub plain_ports: Vec<String>,
    /// Whether `location /` gets all requests of the server that are not refused.
    pub is_sole: bool,
    /// Whether the server passes no request on.
    pub is_files_only: bool,
    /// Whether the server sends no files: it passes every request on that it does not refuse or redirect.
    pub is_proxy: bool,
    /// Whether the page of a folder is `index.php`.
    pub has_index: bool,
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
    pub fn new(source: &'l dyn Source, report: &'l mut Report) -> Self {
        Self {
            report,
            source,
            server: ServerFacts::default(),
            cache_variables: HashSet::new(),
            expires_variables: HashSet::new(),
            upstreams: HashMap::new(),
            rates: HashMap::new(),
            cache: None,
            expires: Vec::new(),
            bypass_cookies: Vec::new(),
        }
    }

    /// Whether a path exists, as far as this machine shows.
    pub fn exists(&self, path: &str) -> bool {
        !self.source.matching(Path::new(path)).is_empty()
    }

    /// Whether a folder has a WordPress of its own.
    pub fn is_wordpress(&self, folder: &str) -> bool {
        let has = |name: &str| {
            !self
                .source
                .matching(&Path::new(folder).join(name))
                .is_empty()
        };
        has("wp-blog-header.php") && has("index.php")
    }

    /// Finds the variables that make requests bypass a cache, and those of lifetimes for whole servers.
    pub fn find_variables(&mut self, block: &[ParsedDirective], is_location: bool) {
        for directive in block {
            let name = directive.name();
            if name == "expires" && !is_location {
                self.expires_variables
                    .insert(directive.argument(0).to_owned());
            }
            if [
                "_no_cache",
                "_cache_bypass",
                "srcache_fetch_skip",
                "srcache_store_skip",
            ]
            .iter()
            .any(|end| name.ends_with(end))
            {
                let variables = directive
                    .arguments()
                    .iter()
                    .filter(|word| word.starts_with('$'));
                self.cache_variables.extend(variables.cloned());
            }
            self.find_variables(directive.inner(), is_location || name == "location");
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
                    self.server_of_upstream(inner);
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

    fn server_of_upstream(&mut self, directive: &ParsedDirective) {
        if directive.arguments().len() > 1 {
            let remedy = "set `weight`, `backup` and `max` in the options of `upstream` or `php`";
            return self.not_carried(directive, remedy);
        }
        self.carried(directive, "upstream or php");
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
        if variable == "$sent_http_content_type"
            && self.expires_variables.contains(directive.argument(1))
        {
            return self.map_of_types(directive);
        }
        let target = directive.argument(1);
        if variable != "$http_cookie" || !self.cache_variables.contains(target) {
            let outcome = map_fate(variable);
            self.report.record(directive.id, outcome.clone());
            for inner in directive.inner() {
                self.report.record(inner.id, outcome.clone());
            }
            return;
        }
        self.carried(directive, "bypass_cookies");
        for inner in directive.inner() {
            let (pattern, is_off) = (inner.name(), matches!(inner.argument(0), "" | "0"));
            match pattern
                .strip_prefix('~')
                .and_then(|text| known::cookies(text.trim_start_matches('*')))
            {
                _ if pattern == "default" && is_off => {
                    self.not_needed(inner, "pages are stored by default");
                }
                Some(cookies) if !is_off && cookies.is_empty() => {
                    self.not_needed(inner, "the preset knows these cookies");
                }
                Some(cookies) if !is_off => {
                    let cookies = cookies
                        .into_iter()
                        .map(|cookie| (cookie, inner.origin.clone()));
                    self.bypass_cookies.extend(cookies);
                    self.carried(inner, "bypass_cookies");
                }
                _ => self.not_carried(inner, "name the cookies in `bypass_cookies`"),
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
                _ if matches!(value, "epoch" | "off" | "0") => {
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

    /// The servers for a target of `fastcgi_pass`, as a value of `php`.
    pub fn fastcgi_servers(&self, target: &str) -> Option<Value> {
        let Some(servers) = self.upstreams.get(target) else {
            return units::fastcgi(target).map(Value::Text);
        };
        let servers: Option<Vec<String>> = servers
            .iter()
            .map(|server| units::fastcgi(server))
            .collect();
        match servers?.as_slice() {
            [one] => Some(Value::Text(one.clone())),
            all => Some(Value::List(all.to_vec())),
        }
    }
}

/// The result for a map of a variable.
fn map_fate(variable: &str) -> StatementOutcome {
    match variable {
        "$http_upgrade" => {
            StatementOutcome::NotNeeded("Galley forwards WebSockets (`upgrade`)".to_owned())
        }
        _ => StatementOutcome::NotCarried(MAP.to_owned()),
    }
}

const MAP: &str = "Galley has no maps: write rules for the paths, or decide in PHP";

/// A plugin's settings are in its database, so the import cannot determine whether it removes files.
const CACHE_OF_PLUGINS: &str = "cache.disk. If a plugin purges pages by removing files from this folder (Nginx Helper, SpinupWP), \
     also set `nginx_cache_path` of its site";
