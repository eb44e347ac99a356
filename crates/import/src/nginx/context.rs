//! Statements that define names for other ones: upstreams, zones of limits, maps.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use crate::directive::Directive;
use crate::draft::{Section, Value};
use crate::known;
use crate::report::StatementOutcome;
use crate::source::Source;
use crate::units;
use crate::words::WordList;

/// The named parts of a configuration.
pub(super) struct Context<'l> {
    pub source: &'l dyn Source,
    /// The server that is being converted.
    pub server: ServerFacts,
    /// The variables that make requests bypass a cache.
    pub cache_variables: HashSet<String>,
    /// The variables that statements set.
    pub set_variables: HashSet<String>,
    /// The hosts of the servers that serve some requests.
    pub served_hosts: HashSet<String>,
    pub upstreams: HashMap<String, Vec<String>>,
    /// Rates of `limit_req_zone` by the name of the zone.
    pub rates: HashMap<String, String>,
    /// The options of the first disk cache.
    pub cache: Section,
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
    /// Whether another server serves a host of this one.
    pub is_served: bool,
    /// Whether HTTP servers get the host of the visitor, unless a location says otherwise.
    pub sends_host: bool,
    /// The number of statements that pass requests on.
    pub passes: usize,
    /// The field from which nginx takes the addresses of clients, in lower case.
    pub client_field: String,
    /// Whether the page of a folder is `index.php`.
    pub has_index: bool,
}

impl<'l> Context<'l> {
    pub fn new(source: &'l dyn Source) -> Self {
        Self {
            source,
            server: ServerFacts::default(),
            cache_variables: HashSet::new(),
            set_variables: HashSet::new(),
            served_hosts: HashSet::new(),
            upstreams: HashMap::new(),
            rates: HashMap::new(),
            cache: Section::default(),
            bypass_cookies: Vec::new(),
        }
    }

    /// Whether a folder has a WordPress of its own.
    pub fn is_wordpress(&self, folder: &str) -> bool {
        let matching = |name: &str| self.source.matching(&Path::new(folder).join(name));
        let has = |name: &str| !matching(name).is_empty();
        has("wp-blog-header.php") && has("index.php")
    }

    /// Finds the variables that make requests bypass a cache, and those that statements set.
    pub fn find_variables(&mut self, block: &[Directive]) {
        for directive in block {
            let name = directive.name();
            if SKIPS.iter().any(|end| name.ends_with(end)) {
                let words = directive.arguments().iter();
                let variables = words.filter(|word| word.starts_with('$'));
                self.cache_variables.extend(variables.cloned());
            }
            let target = match name {
                "set" => directive.arguments().first(),
                "map" | "geo" => directive.arguments().last(),
                _ => None,
            };
            self.set_variables.extend(target.cloned());
            self.find_variables(directive.inner());
        }
    }

    /// Records the definition in a statement outside of servers. False if it defines nothing.
    pub fn define(&mut self, directive: &Directive) -> bool {
        match directive.name() {
            "upstream" => self.upstream(directive),
            "limit_req_zone" => self.rate(directive),
            "fastcgi_cache_path" | "proxy_cache_path" => self.cache_path(directive),
            "map" => self.map(directive),
            "geo" => {
                let remedy =
                    "name the networks in `allow`, `deny`, `admin_allow` or `server.limit_exempt`";
                directive.not_carried(remedy);
                for inner in directive.inner() {
                    inner.not_carried(remedy);
                }
            }
            _ => return false,
        }
        true
    }

    fn upstream(&mut self, directive: &Directive) {
        let mut servers = Vec::new();
        for inner in directive.inner() {
            match inner.name() {
                "server" if inner.arguments().iter().any(|word| word == "down") => {
                    inner.not_needed("the server is marked as down");
                }
                "server" => {
                    servers.push(inner.argument(0).to_owned());
                    server_of_upstream(inner);
                }
                "keepalive" | "keepalive_requests" | "keepalive_timeout" | "zone" => {
                    inner.not_needed("Galley keeps connections by itself (`idle_share`)");
                }
                _ => {
                    let remedy = "choose the method of load balancing in the options of `upstream`";
                    inner.not_carried(remedy);
                }
            }
        }
        directive.entry.carried("upstream or php");
        self.upstreams
            .insert(directive.argument(0).to_owned(), servers);
    }

    fn rate(&mut self, directive: &Directive) {
        let zone = directive
            .option("zone=")
            .map(|zone| zone.split(':').next().unwrap_or(zone));
        let counts_addresses = matches!(
            directive.argument(0),
            "$binary_remote_addr" | "$remote_addr"
        );
        match (zone, directive.option("rate=").and_then(units::rate)) {
            (Some(zone), Some(rate)) if counts_addresses => {
                self.rates.insert(zone.to_owned(), rate);
                directive.carried("limit");
            }
            _ => directive.not_carried("set `limit`: Galley counts requests by address"),
        }
    }

    fn cache_path(&mut self, directive: &Directive) {
        if self.cache.is_empty() {
            let (cache, origin) = (&mut self.cache, &directive.origin);
            cache.set("disk", "/var/cache/galley", origin);
            let size = directive.option("max_size=").and_then(units::size);
            let inactive = directive.option("inactive=").and_then(units::duration);
            for (option, value) in [("disk_size", size), ("inactive", inactive)] {
                if let Some(value) = value {
                    cache.set(option, value, origin);
                }
            }
        }
        // Plugins that compute names of cache files expect these levels.
        let outcome = match directive.option("levels=") {
            Some("1:2") => CACHE_OF_PLUGINS,
            _ => "cache.disk",
        };
        directive.carried(outcome);
    }

    /// Converts a map. One of cookies or addresses is a list of conditions; others are not needed or lost.
    fn map(&mut self, directive: &Directive) {
        let variable = directive.argument(0);
        let target = directive.argument(1);
        if variable != "$http_cookie" || !self.cache_variables.contains(target) {
            let outcome = map_fate(variable);
            directive.entry.record(outcome.clone());
            for inner in directive.inner() {
                inner.entry.record(outcome.clone());
            }
            return;
        }
        directive.entry.carried("bypass_cookies");
        for inner in directive.inner() {
            let (pattern, is_off) = (inner.name(), matches!(inner.argument(0), "" | "0"));
            match pattern
                .strip_prefix('~')
                .and_then(|text| known::cookies(text.trim_start_matches('*')))
            {
                _ if pattern == "default" && is_off => {
                    inner.not_needed("pages are stored by default");
                }
                Some(cookies) if !is_off && cookies.is_empty() => {
                    inner.not_needed("the preset knows these cookies");
                }
                Some(cookies) if !is_off => {
                    let cookies = cookies
                        .into_iter()
                        .map(|cookie| (cookie, inner.origin.clone()));
                    self.bypass_cookies.extend(cookies);
                    inner.carried("bypass_cookies");
                }
                _ => inner.not_carried("name the cookies in `bypass_cookies`"),
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
        let servers = self.upstreams.get(host);
        let servers = servers.map_or_else(|| vec![host.to_owned()], Clone::clone);
        servers
            .iter()
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

/// Ends of the names of statements whose variables make requests bypass a cache.
const SKIPS: WordList = WordList("_no_cache _cache_bypass srcache_fetch_skip srcache_store_skip");

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

fn server_of_upstream(directive: &Directive) {
    if directive.arguments().len() > 1 {
        let remedy = "set `weight`, `backup` and `max` in the options of `upstream` or `php`";
        return directive.not_carried(remedy);
    }
    directive.entry.carried("upstream or php");
}
