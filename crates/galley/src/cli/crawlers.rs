//! `crawlers`: shows the lists of crawlers that the configuration names, and whether a client is one. Asks DNS itself, so it
//! needs no running server.

use std::net::IpAddr;
use std::path::Path;
use std::process::ExitCode;

use galley_access::NameCheck;
use galley_config::{Config, RunInterval, SiteConfig, write_duration};
use galley_policy::crawlers::{CrawlerTreatment, KNOWN, known, rule_of};
use serde_json::{Value, json};

use super::options::CrawlersOptions;
use galley_operator::outcome::{DEFAULT_CONFIG, print_diagnostics};
use galley_operator::show;

pub(super) fn crawlers(options: &CrawlersOptions) -> ExitCode {
    let path = options.config.as_deref();
    let config = match galley_config::load(path.unwrap_or(Path::new(DEFAULT_CONFIG))) {
        Ok(config) => config,
        Err(diagnostics) => return print_diagnostics(&diagnostics),
    };
    let agent = options.agent.as_deref();
    let client = options
        .address
        .map(|address| client(&config, address, agent));
    if options.json {
        let mut shown = client
            .as_ref()
            .map_or_else(|| lists(&config), ClientVerdict::json);
        if let (Some(agent), Value::Object(shown)) = (agent, &mut shown) {
            let sites = config
                .sites
                .iter()
                .filter_map(|site| treatment(site, agent));
            shown.insert("sites".to_owned(), sites.collect());
        }
        show::data(&shown);
    } else {
        match &client {
            Some(client) => show::line(&client.why),
            None => show_lists(&config),
        }
        for found in agent.iter().flat_map(|agent| {
            let sites = config.sites.iter();
            sites.filter_map(|site| treatment(site, agent))
        }) {
            let [site, rule, gets] = ["site", "name", "gets"].map(|key| show::text(&found[key]));
            show::line(&format!(
                "site `{site}`: `crawler_rules` has `{rule}`: {gets}"
            ));
        }
    }
    match client {
        Some(client) if client.crawler.is_none() => ExitCode::FAILURE,
        _ => ExitCode::SUCCESS,
    }
}

/// What Galley thinks of a client.
struct ClientVerdict {
    /// The crawler that the client is proven to be.
    crawler: Option<String>,
    /// `list` or `dns`.
    by: Option<&'static str>,
    why: String,
}

impl ClientVerdict {
    fn json(&self) -> Value {
        json!({ "crawler": self.crawler, "by": self.by, "why": self.why })
    }

    fn unproven(why: String) -> Self {
        Self {
            crawler: None,
            by: None,
            why,
        }
    }
}

fn client(config: &Config, address: IpAddr, agent: Option<&str>) -> ClientVerdict {
    let lists = &config.server.crawlers;
    if let Some(name) = lists.ranges.find(address) {
        return ClientVerdict {
            crawler: Some(name.to_owned()),
            by: Some("list"),
            why: format!("{address} is {name}: the address is on a list of `server.crawlers`"),
        };
    }
    let Some(agent) = agent else {
        return ClientVerdict::unproven(format!(
            "{address} is on no list of `server.crawlers`; with `--agent` the name of its address is looked up, too"
        ));
    };
    let Some(crawler) = known(agent.as_bytes()) else {
        return ClientVerdict::unproven(format!(
            "{address} is on no list of `server.crawlers`, and its `User-Agent` names no crawler that DNS can prove"
        ));
    };
    let name = crawler.name;
    let domains = crawler.domains.join("`, `");
    match NameCheck::of(crawler, address) {
        NameCheck::Proven(host) => ClientVerdict {
            crawler: Some(name.to_owned()),
            by: Some("dns"),
            why: format!(
                "{address} is {name}: its name is `{host}`, below `{domains}`, and leads back to it"
            ),
        },
        NameCheck::Foreign(host) => ClientVerdict::unproven(format!(
            "{address} is not {name}: its name is `{host}`, which is not below `{domains}`"
        )),
        NameCheck::Unconfirmed(host) => ClientVerdict::unproven(format!(
            "{address} is not {name}: its name is `{host}`, but this name does not lead back to the address"
        )),
        NameCheck::NoName(error) => ClientVerdict::unproven(format!(
            "{address} is not proven to be {name}: the name of the address cannot be looked up: {error}"
        )),
    }
}

/// What the rules of a site give a `User-Agent`; `None`: no rule names it.
fn treatment(site: &SiteConfig, agent: &str) -> Option<Value> {
    let rule = rule_of(&site.policy.access.crawlers, Some(agent.as_bytes()))?;
    let gets = match rule.treatment {
        CrawlerTreatment::Refuse => "403, except for `robots.txt`".to_owned(),
        CrawlerTreatment::Delay(delay) => {
            format!("one generated page in {}", write_duration(delay))
        }
    };
    Some(json!({ "site": site.name, "name": rule.name, "gets": gets }))
}

fn lists(config: &Config) -> Value {
    let files = config.server.crawlers.files.iter();
    let files = files
        .map(|file| json!({ "crawler": file.name, "file": file.path, "networks": file.networks }));
    let dns = KNOWN.iter();
    let dns = dns.map(
        |known| json!({ "crawler": known.name, "domains": known.domains, "source": known.source }),
    );
    json!({ "lists": files.collect::<Vec<_>>(), "dns": dns.collect::<Vec<_>>() })
}

fn show_lists(config: &Config) {
    for file in &config.server.crawlers.files {
        let (name, path) = (&file.name, file.path.display());
        show::line(&format!("{name}: {} networks in {path}", file.networks));
    }
    if config.server.crawlers.files.is_empty() {
        show::line("no lists: `crawlers` in `[server]` names none");
    }
    for crawler in KNOWN {
        let domains = crawler.domains.join(", ");
        show::line(&format!("{}: names in DNS below {domains}", crawler.name));
    }
    for site in &config.sites {
        let pace = match (site.crawl_delay, &site.root) {
            (Some(RunInterval::Every(delay)), _) => {
                format!("one generated page in {}", write_duration(delay))
            }
            (None, Some(root)) => format!("`Crawl-delay` of {}", root.join("robots.txt").display()),
            (Some(RunInterval::Off), _) | (None, None) => "none".to_owned(),
        };
        show::line(&format!(
            "site `{}`: pace of proven crawlers: {pace}",
            site.name
        ));
    }
}
