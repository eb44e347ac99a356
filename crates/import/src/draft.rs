//! The configuration that an import writes: sections with options, each with the positions of its statements.

use crate::expectation::Expectation;
use crate::source::StatementOrigin;

/// The value of an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Text(String),
    Flag(bool),
    List(Vec<String>),
    /// `{ name = "value", ... }`, a number, or another value in TOML syntax.
    Verbatim(String),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

/// An option and its value.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub name: String,
    pub value: Value,
    /// The positions of the statements that it comes from; never empty.
    pub origins: Vec<StatementOrigin>,
}

/// The options of one section, in the order in which they were set.
#[derive(Clone, Debug, Default)]
pub(crate) struct Section {
    pub settings: Vec<Setting>,
}

impl Section {
    /// Sets an option, or replaces its value.
    pub fn set<'o>(
        &mut self,
        name: &str,
        value: impl Into<Value>,
        origin: impl Into<Option<&'o StatementOrigin>>,
    ) {
        let value = value.into();
        let origins: Vec<StatementOrigin> = origin.into().into_iter().cloned().collect();
        match self.find_mut(name) {
            Some(setting) => {
                setting.value = value;
                setting.origins = origins;
            }
            None => self.settings.push(Setting {
                name: name.to_owned(),
                value,
                origins,
            }),
        }
    }

    /// Adds values to a list, unless the list contains them.
    pub fn add<'o>(
        &mut self,
        name: &str,
        values: impl IntoIterator<Item = String>,
        origin: impl Into<Option<&'o StatementOrigin>>,
    ) {
        if self.find_mut(name).is_none() {
            self.set(name, Value::List(Vec::new()), None);
        }
        let Some(setting) = self.find_mut(name) else {
            return;
        };
        if let Value::List(list) = &mut setting.value {
            for value in values {
                push_unique(list, value);
            }
            if let Some(origin) = origin.into() {
                push_unique(&mut setting.origins, origin.clone());
            }
        }
    }

    /// Redirects all requests.
    pub fn redirects(
        &mut self,
        target: String,
        status: &str,
        keeps_query: bool,
        origin: &StatementOrigin,
    ) {
        self.set("redirect", target, origin);
        self.set(
            "redirect_status",
            Value::Verbatim(status.to_owned()),
            origin,
        );
        if !keeps_query {
            self.set("redirect_query", false, origin);
        }
    }

    /// Denies access to all clients.
    pub fn deny_all(&mut self, origin: &StatementOrigin) {
        let everywhere = ["0.0.0.0/0".to_owned(), "::/0".to_owned()];
        self.add("deny", everywhere, origin);
    }

    pub fn get(&self, name: &str) -> Option<&Value> {
        self.settings
            .iter()
            .find(|setting| setting.name == name)
            .map(|setting| &setting.value)
    }

    /// The positions of the statements that an option comes from.
    pub fn origins(&self, name: &str) -> &[StatementOrigin] {
        let setting = self.settings.iter().find(|setting| setting.name == name);
        setting.map_or(&[], |setting| &setting.origins)
    }

    pub fn text(&self, name: &str) -> Option<&str> {
        match self.get(name) {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        }
    }

    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    pub fn list(&self, name: &str) -> &[String] {
        match self.get(name) {
            Some(Value::List(list)) => list,
            _ => &[],
        }
    }

    /// Keeps the values of a list for which `keeps` is true.
    pub fn retain(&mut self, name: &str, keeps: impl Fn(&String) -> bool) {
        if let Some(Setting {
            value: Value::List(list),
            ..
        }) = self.find_mut(name)
        {
            list.retain(keeps);
        }
    }

    /// Removes a field of responses. The list replaces the default, so it contains that, too.
    pub fn hides(&mut self, name: &str, origin: &StatementOrigin) {
        if !self.has("remove_headers") {
            let default = ["X-Powered-By", "X-Pingback", "Server"].map(str::to_owned);
            self.add("remove_headers", default, None);
        }
        self.add("remove_headers", [name.to_owned()], origin);
    }

    /// Takes over the options of another section.
    pub fn take(&mut self, other: Self) {
        for setting in other.settings {
            match setting.value {
                Value::List(list) => {
                    self.add(&setting.name, list, setting.origins.first());
                }
                value => self.set(&setting.name, value, setting.origins.first()),
            }
        }
    }

    pub fn remove(&mut self, name: &str) {
        self.settings.retain(|setting| setting.name != name);
    }

    pub fn is_empty(&self) -> bool {
        self.settings.is_empty()
    }

    fn find_mut(&mut self, name: &str) -> Option<&mut Setting> {
        self.settings
            .iter_mut()
            .find(|setting| setting.name == name)
    }
}

fn push_unique<T: PartialEq>(list: &mut Vec<T>, one: T) {
    if !list.contains(&one) {
        list.push(one);
    }
}

/// The order in which rules are compared with a request. Rules of the same priority have the order of the file, or of `length`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RulePriority {
    Exact,
    FirstPrefix,
    Pattern,
    /// After all patterns: conditions for requests that locations answer.
    Condition,
    Prefix,
}

/// A `[[site.rule]]`.
#[derive(Clone, Debug)]
pub(crate) struct RuleDraft {
    pub section: Section,
    pub priority: RulePriority,
    /// The length of the prefix in bytes: longer ones come first. 0 for other rules.
    pub length: usize,
}

impl RuleDraft {
    /// Whether both have the same paths, methods and priority. The first option of a rule is that of its paths.
    fn has_paths_of(&self, other: &Self) -> bool {
        let paths = |rule: &Self| {
            let first = rule.section.settings.first();
            let methods = rule.section.get("methods").cloned();
            first.map(|setting| (setting.name.clone(), setting.value.clone(), methods))
        };
        self.priority == other.priority && paths(self) == paths(other)
    }

    /// A rule for a prefix of `length` bytes.
    pub fn of_prefix(section: Section, length: usize) -> Self {
        Self {
            section,
            priority: RulePriority::Prefix,
            length,
        }
    }

    /// A rule without a prefix.
    pub fn new(section: Section, priority: RulePriority) -> Self {
        Self {
            section,
            priority,
            length: 0,
        }
    }
}

/// A `[[site]]`.
#[derive(Clone, Debug, Default)]
pub(crate) struct ImportedSite {
    pub section: Section,
    pub ttl: Section,
    pub rules: Vec<RuleDraft>,
    pub log: Section,
    /// `listen` and `listen_tls`: where the other server has these hosts.
    pub listeners: Section,
    /// Answers of the other server, with which the rules are compared.
    pub expected: Vec<Expectation>,
}

impl ImportedSite {
    pub fn hosts(&self) -> &[String] {
        self.section.list("hosts")
    }

    /// Adds a rule. Galley applies one rule to a request, so rules for the same paths are joined. Other servers compare paths only, and
    /// know no other spellings of a page.
    pub fn add_rule(&mut self, mut rule: RuleDraft) {
        if ACCESS.iter().any(|option| rule.section.has(option)) {
            rule.section.set("spellings", false, None);
        }
        let mut rules = self.rules.iter_mut();
        match rules.find(|known| known.has_paths_of(&rule)) {
            Some(known) if !rule.section.has("redirect") => {
                if known.section.has("deny") {
                    rule.section.remove("deny_status");
                }
                join_section(&mut known.section, rule.section);
            }
            _ => self.rules.push(rule),
        }
    }

    /// Gives a site whose rule redirects every request the upstream that every site must have.
    pub fn never_asks_upstream(&mut self, origin: &StatementOrigin) {
        if !["root", "upstream", "php"]
            .iter()
            .any(|option| self.section.has(option))
        {
            self.section
                .add("upstream", ["http://127.0.0.1:9".to_owned()], origin);
        }
    }

    /// Sorts the rules into the order of comparison.
    pub fn sort_rules(&mut self) {
        self.rules
            .sort_by_key(|rule| (rule.priority, std::cmp::Reverse(rule.length)));
    }
}

/// A whole configuration.
#[derive(Clone, Debug, Default)]
pub(crate) struct Draft {
    pub server: Section,
    pub cache: Section,
    pub log: Section,
    pub acme: Section,
    pub sites: Vec<ImportedSite>,
    /// Options of sites that joined others, which have other values.
    pub lost: Vec<Setting>,
    /// The positions of the statements of rules that no site has: those of hosts that redirect.
    pub dropped: Vec<StatementOrigin>,
}

impl Draft {
    /// The site of a host.
    pub fn site_of(&self, host: &str) -> Option<&ImportedSite> {
        let parent = host.split_once('.').map_or("", |(_, parent)| parent);
        let names = [host.to_owned(), format!("*.{parent}"), "*".to_owned()];
        let has = |name: &String| self.sites.iter().find(|site| site.hosts().contains(name));
        names.iter().find_map(has)
    }

    /// Adds another configuration. If both set an option, the existing value is kept; lists are joined.
    pub fn join(&mut self, other: Self) {
        join_section(&mut self.server, other.server);
        join_section(&mut self.cache, other.cache);
        join_section(&mut self.log, other.log);
        join_section(&mut self.acme, other.acme);
        other.sites.into_iter().for_each(|site| self.add(site));
    }

    /// Adds options of a server that are for all sites. Those of the first one count.
    pub fn add_global(&mut self, options: Section) {
        self.lost.extend(join_section(&mut self.server, options));
    }

    /// Gives the sites that are not at all listeners their own ones. Of sites with TLS only, the listeners of
    /// the others redirect.
    pub fn set_listeners(&mut self) {
        for option in ["listen", "listen_tls"] {
            let of_server = self.server.list(option).to_vec();
            for site in &mut self.sites {
                let of_site = site.listeners.list(option);
                let is_meant =
                    !of_site.is_empty() && (option == "listen" || site.section.has("tls"));
                if is_meant && !of_server.iter().all(|one| of_site.contains(one)) {
                    let (of_site, origins) = (of_site.to_vec(), site.listeners.origins(option));
                    let origin = origins.first().cloned();
                    site.section
                        .set(option, Value::List(of_site), origin.as_ref());
                }
            }
        }
        for site in &mut self.sites {
            let is_secure = site.listeners.has("listen_tls") && site.section.has("tls");
            let is_meant = self.server.has("listen") && is_secure;
            if is_meant && !site.listeners.has("listen") && !site.section.has("https_redirect") {
                let origins = site.listeners.origins("listen_tls");
                let origin = origins.first().cloned();
                site.section.set("https_redirect", true, origin.as_ref());
            }
        }
    }

    /// Adds a site, or joins it with a site that has one of its hosts: other servers have a separate host for each port. Options of the
    /// first one count.
    pub fn add(&mut self, site: ImportedSite) {
        let is_same = |known: &&mut ImportedSite| {
            let mut hosts = known.hosts().iter();
            hosts.any(|host| site.hosts().contains(host))
        };
        let Some(known) = self.sites.iter_mut().find(is_same) else {
            return self.sites.push(site);
        };
        for (own, other) in [
            (&mut known.section, site.section),
            (&mut known.ttl, site.ttl),
            (&mut known.log, site.log),
            (&mut known.listeners, site.listeners),
        ] {
            self.lost.extend(join_section(own, other));
        }
        for mut rule in site.rules {
            let mut rules = known.rules.iter_mut();
            match rules.find(|one| one.has_paths_of(&rule)) {
                Some(first) => {
                    // What either server refuses stays closed. Of other options those of the first one count, as in nginx.
                    let mut settings = std::mem::take(&mut rule.section.settings);
                    settings.retain(|one| {
                        ACCESS.contains(&one.name.as_str()) && one.value != "off".into()
                    });
                    join_section(&mut first.section, Section { settings });
                }
                None => known.rules.push(rule),
            }
        }
        known.expected.extend(site.expected);
        known.sort_rules();
    }
}

/// Options of rules that refuse requests.
const ACCESS: [&str; 4] = ["allow", "deny", "basic_auth", "limit"];

/// Adds the options of another section, without those that the section has. Lists are joined, but for `allow`: a client must be in both.
/// Returns the options that have other values.
fn join_section(section: &mut Section, other: Section) -> Vec<Setting> {
    let mut lost = Vec::new();
    for setting in other.settings {
        let known_origins = section.origins(&setting.name).to_vec();
        let origin = setting.origins.first().cloned();
        match (section.find_mut(&setting.name), &setting.value) {
            (None, _) => section.settings.push(setting),
            (
                Some(Setting {
                    value: Value::List(list),
                    ..
                }),
                Value::List(more),
            ) if setting.name == "allow" => {
                if list != more {
                    let mut both = setting.clone();
                    both.origins.extend(known_origins.iter().cloned());
                    lost.push(both);
                }
                list.retain(|one| more.contains(one));
                if let (true, Some(origin)) = (list.is_empty(), origin) {
                    section.remove("allow");
                    section.deny_all(&origin);
                }
            }
            (
                Some(Setting {
                    value: Value::List(list),
                    ..
                }),
                Value::List(more),
            ) if setting.name != "upstream" => {
                for one in more {
                    push_unique(list, one.clone());
                }
            }
            (Some(known), value) if known.value != *value => lost.push(setting),
            (Some(_), _) => {}
        }
    }
    lost
}
