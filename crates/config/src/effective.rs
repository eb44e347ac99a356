//! The effective configuration: every option with its value, and the position where the file sets it.
//!
//! A value that the file sets is shown as written there. Other options have the default of the option table; if a default
//! depends on the machine or on other options, the resulting value is shown if known. Secrets are masked.

use crate::config::{Config, SiteConfig};
use crate::config_files::ConfigFiles;
use crate::effective_option::{EffectiveOption, EffectiveSection};
use crate::listen::Listen;
use crate::options::{Fallback, OptionRow, OptionSection};
use crate::quantity::{write_duration, write_size};
use crate::table::{self, STATUS};
use crate::tree::{SectionTable, StatusTable};

impl Config {
    /// The options that all sites share.
    pub fn effective(&self) -> Vec<EffectiveSection> {
        let Some(origin) = &self.origin else {
            return Vec::new();
        };
        let document = origin.document();
        let own = |row: &OptionRow| computed(self, row);
        let shared = |written: &SectionTable| section(origin, written, &self.kept, own);
        let mut sections = vec![
            shared(&document.server),
            shared(&document.admin),
            shared(&document.cache),
            shared(&document.log),
        ];
        if self.acme.is_some() {
            sections.push(shared(&document.acme));
        }
        if self.cluster.is_some() {
            sections.push(shared(&document.cluster));
        }
        sections
    }

    /// The options of the site with this index.
    pub fn effective_of_site(&self, index: usize) -> Vec<EffectiveSection> {
        let site = self.sites.get(index);
        let (Some(origin), Some(site)) = (&self.origin, site) else {
            return Vec::new();
        };
        let Some(written) = origin.document().sites.get(index) else {
            return Vec::new();
        };
        let own = |row: &OptionRow| computed_of_site(site, row);
        let mut sections = vec![section(origin, &written.options, &[], own)];
        let mut ttl = section(origin, &written.ttl.options, &[], own);
        ttl.options.extend(lifetimes(origin, site, &written.ttl));
        sections.push(ttl);
        for (number, rule) in (1..).zip(&written.rules) {
            let mut rule = section(origin, rule, &[], |_| None);
            // Options that a rule does not set have the values of the site.
            rule.options.retain(|option| option.spot.is_some());
            rule.header = format!("{} {number}", rule.header);
            sections.push(rule);
        }
        let mut pages = section(origin, &written.error_pages.options, &[], |_| None);
        let position = origin.spot(&written.error_pages.options.position);
        pages
            .options
            .extend(site.error_pages.iter().map(|(status, path)| {
                let path = quoted(&path.display().to_string());
                EffectiveOption::new(status.to_string(), &path, Some(position.clone()))
            }));
        sections.push(pages);
        sections.push(section(origin, &written.log, &[], |_| None));
        sections.retain(|section| !section.options.is_empty());
        sections
    }
}

fn section(
    origin: &ConfigFiles,
    section: &SectionTable,
    kept: &[(&OptionRow, Option<EffectiveOption>)],
    computed: impl Fn(&OptionRow) -> Option<String>,
) -> EffectiveSection {
    let rows = table::options();
    let rows = rows.filter(|row| row.section == section.kind && row.name != STATUS);
    let options = rows.filter_map(|row| {
        if let Some((_, value)) = kept
            .iter()
            .find(|(kept, _)| (kept.section, kept.name) == (row.section, row.name))
        {
            return value.clone();
        }
        if section.has_value(row.name) {
            let position = section.position(row.name);
            let spot = Some(origin.spot(position));
            return Some(EffectiveOption::new(row.name, &origin.text(position), spot));
        }
        let value = match row.fallback {
            Fallback::Value(text) => text.to_owned(),
            Fallback::Computed(text) => computed(row).unwrap_or_else(|| text.replace('`', "")),
            Fallback::Absent | Fallback::Required => computed(row)?,
        };
        Some(EffectiveOption::new(row.name, &value, None))
    });
    EffectiveSection {
        header: section.kind.header().to_owned(),
        options: options.collect(),
    }
}

/// The values of defaults that depend on the machine or on other options.
fn computed(config: &Config, row: &OptionRow) -> Option<String> {
    let size = |bytes: u64| Some(quoted(&write_size(bytes)));
    let server = &config.server;
    match (row.section, row.name) {
        (OptionSection::Cache, "memory") => size(config.cache.memory),
        (OptionSection::Cache, "max_object") => size(config.cache.max_object),
        (OptionSection::Server, "spool_size") => size(server.spool.size),
        (OptionSection::Server, "spool_memory") => size(server.spool.memory),
        (OptionSection::Server, "listen_quic") => Some(list(&config.all_quic_listeners())),
        (OptionSection::Admin, "listen") => Some(quoted(&config.admin.listen.to_string())),
        _ => None,
    }
}

fn computed_of_site(site: &SiteConfig, row: &OptionRow) -> Option<String> {
    let time = |duration| Some(quoted(&write_duration(duration)));
    let path = |path: &Option<std::path::PathBuf>| {
        let path = path.as_ref()?;
        Some(quoted(&path.display().to_string()))
    };
    let ttl = &site.policy.ttl;
    match (row.section, row.name) {
        (OptionSection::Site, "name") => Some(quoted(&site.name)),
        (OptionSection::Site, "listen") => Some(list(&site.listen)),
        (OptionSection::Site, "listen_tls") => Some(list(&site.listen_tls)),
        (OptionSection::Site, "request_body") => Some(quoted(&write_size(site.request_body))),
        (OptionSection::Site, "token_file") => path(&site.token_file),
        (OptionSection::SiteTtl, "default") => time(ttl.default),
        (OptionSection::SiteTtl, "stale_while_revalidate") => time(ttl.stale_while_revalidate),
        (OptionSection::SiteTtl, "stale_if_error") => time(ttl.stale_if_error),
        _ => None,
    }
}

/// The lifetimes by status: those of the file and of the preset.
fn lifetimes(
    origin: &ConfigFiles,
    site: &SiteConfig,
    written: &StatusTable,
) -> Vec<EffectiveOption> {
    let spot = origin.spot(&written.options.position);
    let is_set = |status: u16| written.statuses.iter().any(|(one, _)| *one == status);
    let lifetimes = site.policy.ttl.by_status.iter();
    lifetimes
        .map(|(status, lifetime)| {
            let spot = is_set(*status).then(|| spot.clone());
            EffectiveOption::new(
                status.to_string(),
                &quoted(&write_duration(*lifetime)),
                spot,
            )
        })
        .collect()
}

fn list(listeners: &[Listen]) -> String {
    let addresses: Vec<String> = listeners
        .iter()
        .map(|one| quoted(&one.to_string()))
        .collect();
    format!("[{}]", addresses.join(", "))
}

fn quoted(text: &str) -> String {
    format!("\"{text}\"")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::from_text;

    const FILE: &str = "[server]\nlisten = [\"127.0.0.1:8080\"]\n\n[cache]\nmemory = \"64MiB\"\n\n\
        [cluster]\nengine = \"redis://10.0.0.1:6379\"\n\n\
        [[site]]\nhosts = [\"a.test\"]\nupstream = [\n  \"http://127.0.0.1:81\",\n]\n\
        [site.ttl]\n404 = \"5s\"\n[[site.rule]]\npath = \"/x\"\ncache = false\n";

    fn find(sections: &[EffectiveSection], header: &str, name: &str) -> (String, Option<String>) {
        let section = sections.iter().find(|one| one.header == header).unwrap();
        let option = section.options.iter().find(|one| one.name == name);
        let option = option.unwrap_or_else(|| panic!("{header} {name}"));
        (option.value.clone(), option.spot.clone())
    }

    #[test]
    fn options_have_their_value_and_position() {
        let config = from_text("galley.toml", FILE).unwrap();
        let all = config.effective();
        let set =
            |value: &str, line: usize| (value.to_owned(), Some(format!("galley.toml:{line}")));
        let default = |value: &str| (value.to_owned(), None);
        assert_eq!(
            find(&all, "[server]", "listen"),
            set("[\"127.0.0.1:8080\"]", 2)
        );
        assert_eq!(find(&all, "[cache]", "memory"), set("\"64MiB\"", 5));
        assert_eq!(find(&all, "[cache]", "max_object"), default("\"16MiB\""));
        assert_eq!(
            find(&all, "[cluster]", "engine"),
            set("\"redis://10.0.0.1:6379\"", 8)
        );
        assert_eq!(find(&all, "[server]", "listen_quic"), default("[]"));
        let site = config.effective_of_site(0);
        assert_eq!(
            find(&site, "[[site]]", "upstream"),
            set("[ \"http://127.0.0.1:81\", ]", 12)
        );
        assert_eq!(find(&site, "[[site]]", "preset"), default("\"wordpress\""));
        assert_eq!(
            find(&site, "[[site]]", "listen"),
            default("[\"127.0.0.1:8080\"]")
        );
        assert_eq!(find(&site, "[site.ttl]", "404").0, "\"5s\"");
        assert!(find(&site, "[site.ttl]", "404").1.is_some());
        assert_eq!(find(&site, "[[site.rule]] 1", "cache"), set("false", 19));
        assert!(config.effective_of_site(1).is_empty());
    }
}
