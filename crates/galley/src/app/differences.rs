//! Compares two configurations, in lines for people.
//!
//! The options that differ follow from the option table. A value that is only written in another way counts as another value.

use galley_admin::OptionChange;
use galley_config::{Config, EffectiveSection, Listen, SiteConfig, changed_options};

use super::durable::key_shape;

/// The changes from `before` to `after`, one line for each site, listener and section.
pub(super) fn changes(before: &Config, after: &Config) -> Vec<String> {
    let mut lines = sections(before, after);
    let (old, new) = (listeners(before), listeners(after));
    let gone = old.iter().filter(|one| !new.contains(one));
    lines.extend(gone.map(|one| format!("listener `{one}`: removed")));
    let added = new.iter().filter(|one| !old.contains(one));
    lines.extend(added.map(|one| format!("listener `{one}`: added")));
    lines.extend(sites(before, after));
    lines
}

fn sites(before: &Config, after: &Config) -> Vec<String> {
    let (old, new) = (Place::all(before), Place::all(after));
    let mut gone: Vec<&Place<'_>> = old.iter().collect();
    gone.retain(|one| one.find(&new).is_none());
    let mut lines = Vec::new();
    for site in &new {
        let name = &site.site.name;
        if let Some(known) = site.find(&old) {
            lines.extend(site_change(known, site));
        } else if let Some(known) = gone.iter().position(|one| one.shares_host(site)) {
            let known = gone.swap_remove(known);
            lines.push(renamed(known.site, site.site));
            lines.extend(site_change(known, site));
        } else {
            lines.push(format!("site `{name}`: added"));
        }
    }
    let removed = gone.iter();
    let removed = removed.map(|one| format!("site `{}`: removed", one.site.name));
    removed.chain(lines).collect()
}

/// What a site loses that goes on under another name.
fn renamed(before: &SiteConfig, after: &SiteConfig) -> String {
    let token = match &before.token_file {
        Some(file) if before.token_file != after.token_file => {
            format!(", and its token is not that of `{}`", file.display())
        }
        _ => String::new(),
    };
    format!(
        "site `{}`: it was `{old}`, whose stored pages, purges and counters it does not use{token}; `name = \"{old}\"` keeps them",
        after.name,
        old = before.name,
    )
}

/// The options with other values in `after`, of sites that both configurations have.
pub(super) fn options(before: &Config, after: &Config) -> Vec<OptionChange> {
    let change = |site: Option<&String>, option| OptionChange {
        site: site.cloned(),
        option,
    };
    let shared = changed_options(&before.effective(), &after.effective());
    let mut changes: Vec<_> = shared.into_iter().map(|one| change(None, one)).collect();
    let old = Place::all(before);
    for site in Place::all(after) {
        if let Some(known) = site.find(&old) {
            let changed = changed_options(&known.options, &site.options).into_iter();
            changes.extend(changed.map(|one| change(Some(&site.site.name), one)));
        }
    }
    changes
}

/// One line for each section that all sites share.
fn sections(before: &Config, after: &Config) -> Vec<String> {
    let changed = changed_options(&before.effective(), &after.effective());
    let sections = changed.chunk_by(|one, next| one.header == next.header);
    let lines = sections.filter_map(|options| {
        let names: Vec<&str> = options.iter().map(|one| one.name.as_str()).collect();
        let header = &options.first()?.header;
        Some(format!("{header}: {} changed", names.join(", ")))
    });
    lines.collect()
}

/// A site with its options.
struct Place<'c> {
    site: &'c SiteConfig,
    options: Vec<EffectiveSection>,
}

impl<'c> Place<'c> {
    fn all(config: &'c Config) -> Vec<Self> {
        let sites = config.sites.iter().enumerate();
        let places = sites.map(|(index, site)| Self {
            site,
            options: config.effective_of_site(index),
        });
        places.collect()
    }

    /// The site with the same name.
    fn find<'p>(&self, all: &'p [Self]) -> Option<&'p Self> {
        all.iter().find(|one| one.site.name == self.site.name)
    }

    fn shares_host(&self, other: &Self) -> bool {
        let hosts = &other.site.hosts;
        self.site.hosts.iter().any(|host| hosts.contains(host))
    }
}

fn site_change(before: &Place<'_>, after: &Place<'_>) -> Option<String> {
    let mut names: Vec<String> = Vec::new();
    for one in changed_options(&before.options, &after.options) {
        // `[site.ttl]` as `ttl`, `[[site.rule]] 2` as `rule 2`.
        let section = one.header.replace(['[', ']'], "");
        let part = section.strip_prefix("site.").map(str::to_owned);
        let name = part.unwrap_or(one.name);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let (before, after) = (before.site, after.site);
    let token = "token_file".to_owned();
    // A file at the default path that was created or removed.
    if before.token_file != after.token_file && !names.contains(&token) {
        names.push(token);
    }
    let shaping = key_shape(after).differing(&key_shape(before));
    if names.is_empty() && shaping.is_empty() {
        return None;
    }
    let cache = if shaping.is_empty() {
        String::new()
    } else {
        format!(
            "; its stored pages are not used any longer, because they depend on `{}`",
            shaping.join("`, `")
        )
    };
    let (name, names) = (&after.name, names.join(", "));
    Some(format!("site `{name}`: {names} changed{cache}"))
}

/// Each listener once, with its protocols.
fn listeners(config: &Config) -> Vec<String> {
    let url = |scheme: &str, listen: &Listen| match listen {
        Listen::Tcp(address) => format!("{scheme}://{address}"),
        Listen::Unix(_) | Listen::Passed(_) => listen.to_string(),
    };
    let mut urls: Vec<String> = Vec::new();
    for site in &config.sites {
        let plain = site.listen.iter().map(|listen| url("http", listen));
        let secure = site.listen_tls.iter().map(|listen| url("https", listen));
        for one in plain.chain(secure) {
            if !urls.contains(&one) {
                urls.push(one);
            }
        }
    }
    urls
}

#[cfg(test)]
mod tests {
    use galley_config::EffectiveOption;

    use super::*;

    fn config(text: &str) -> Config {
        galley_config::from_text("test.toml", text).unwrap()
    }

    #[test]
    fn changes_are_listed_one_per_line() {
        let before = config(
            "[server]\nlisten = [\"127.0.0.1:8080\"]\n[[site]]\nhosts = [\"a.test\"]\nroot = \"/\"\n\
             [[site]]\nhosts = [\"b.test\"]\nroot = \"/\"\n",
        );
        assert!(changes(&before, &before).is_empty());
        let after = config(
            "[server]\nlisten = [\"127.0.0.1:8081\"]\nhead_timeout = \"9s\"\n[[site]]\nhosts = [\"c.test\"]\nroot = \"/\"\n\
             [[site]]\nhosts = [\"a.test\"]\nroot = \"/\"\nqueue = 7\nignore_query = [\"x\"]\n",
        );
        assert_eq!(
            changes(&before, &after),
            [
                "[server]: listen, head_timeout changed",
                "listener `http://127.0.0.1:8080`: removed",
                "listener `http://127.0.0.1:8081`: added",
                "site `b.test`: removed",
                "site `c.test`: added",
                "site `a.test`: queue, ignore_query changed; its stored pages are not used any longer, because they depend on `ignore_query`",
            ]
        );
    }

    #[test]
    fn a_site_under_another_name_is_reported_with_what_it_loses() {
        let site = |lines: &str| config(&format!("[[site]]\nroot = \"/\"\n{lines}\n"));
        let before = site("hosts = [\"www.a.test\"]");
        let after = site("hosts = [\"a.test\", \"www.a.test\"]");
        assert_eq!(
            changes(&before, &after),
            [
                "site `a.test`: it was `www.a.test`, whose stored pages, purges and counters it does not use; `name = \"www.a.test\"` keeps them",
                "site `a.test`: hosts changed",
            ]
        );
        let kept = site("hosts = [\"a.test\", \"www.a.test\"]\nname = \"www.a.test\"");
        assert_eq!(
            changes(&before, &kept),
            ["site `www.a.test`: hosts changed"]
        );
        let swapped = site("hosts = [\"www.a.test\", \"a.test\"]");
        assert_eq!(changes(&after, &swapped), ["site `a.test`: hosts changed"]);
    }

    #[test]
    fn changed_options_are_listed_with_both_values() {
        let before = config(
            "[server]\nhead_timeout = \"9s\"\n[[site]]\nhosts = [\"a.test\"]\nroot = \"/\"\nqueue = 7\n",
        );
        // The sites in another order, and one value written in another way.
        let after = config(
            "[server]\nhead_timeout = \"9000ms\"\n[[site]]\nhosts = [\"b.test\"]\nroot = \"/\"\n\
             [[site]]\nhosts = [\"a.test\"]\nroot = \"/\"\nqueue = 8\n[[site.rule]]\npath = \"/x\"\ncache = false\n",
        );
        let shown = |one: &OptionChange| {
            let text = |side: &Option<EffectiveOption>| side.as_ref().map(|one| one.value.clone());
            let (site, one) = (one.site.clone().unwrap_or_default(), &one.option);
            let (before, after) = (text(&one.before), text(&one.after));
            format!("{site} {} {} {before:?} {after:?}", one.header, one.name)
        };
        let all: Vec<String> = options(&before, &after).iter().map(shown).collect();
        assert_eq!(
            all,
            [
                r#" [server] head_timeout Some("\"9s\"") Some("\"9000ms\"")"#,
                r#"a.test [[site]] queue Some("7") Some("8")"#,
                r#"a.test [[site.rule]] 1 path None Some("\"/x\"")"#,
                r#"a.test [[site.rule]] 1 cache None Some("false")"#,
            ]
        );
        assert!(options(&after, &after).is_empty());
    }
}
