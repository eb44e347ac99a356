//! Compares two configurations, in lines for people, and determines which options only a restart can change.
//!
//! The options that differ follow from the option table. A value that is only written in another way counts as another value.

use galley_config::{
    ChangedOption, Config, EffectiveOption, EffectiveSection, Listen, SiteConfig, changed_options,
};

use super::durable::key_shape;
use galley_admin::{OptionChange, OptionValue};

/// Copies fields from the first value to the second. Returns the names of those whose values differed.
macro_rules! keep {
    ($running:expr, $new:expr, $($field:ident => $name:literal),+ $(,)?) => {{
        let mut names: Vec<&'static str> = Vec::new();
        $(if $new.$field != $running.$field {
            $new.$field.clone_from(&$running.$field);
            names.push($name);
        })+
        names
    }};
}

/// Copies the options that were fixed at the start from the current configuration to the new one. Returns the names of those that
/// differ.
pub(super) fn keep_fixed(running: &Config, new: &mut Config) -> Vec<String> {
    let changed = changed_options(&running.effective(), &new.effective());
    let has_root = |config: &Config| config.sites.iter().any(|site| site.root.is_some());
    // There is memory for small files only if the first configuration had some.
    let needs_memory = new.cache.max_file > 0 && has_root(new) && !has_root(running);
    let server = keep!(running.server, new.server,
        workers => "server.workers",
        user => "server.user",
        group => "server.group",
        spool => "server.spool",
        spool_size => "server.spool_size",
        spool_response => "server.spool_response",
        spool_memory => "server.spool_memory",
        socket_mode => "server.socket_mode",
    );
    let cache = keep!(running.cache, new.cache,
        memory => "cache.memory",
        max_object => "cache.max_object",
        max_file => "cache.max_file",
        disk => "cache.disk",
    );
    let admin = keep!(running.admin, new.admin, listen => "admin.listen");
    let cluster = keep!(running, new, cluster => "[cluster]");
    let mut fixed = [server, cache, admin, cluster].concat();
    if fixed.contains(&"cache.memory") {
        // The defaults of these two are fractions of `cache.memory`.
        fixed.retain(|path| {
            let is_fraction = matches!(*path, "server.spool_memory" | "cache.max_object");
            !is_fraction
                || changed
                    .iter()
                    .any(|one| path.rsplit('.').next() == Some(&one.name))
        });
    }
    if needs_memory && !fixed.contains(&"cache.max_file") {
        fixed.push("cache.max_file");
    }
    fixed.into_iter().map(str::to_owned).collect()
}

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
    let is_in = |all: &[Place<'_>], name: &str| all.iter().any(|one| one.site.name == name);
    let mut gone: Vec<Place<'_>> = old.clone();
    gone.retain(|one| !is_in(&new, &one.site.name));
    let mut lines = Vec::new();
    for site in new {
        let name = &site.site.name;
        if let Some(known) = old.iter().find(|one| one.site.name == *name) {
            lines.extend(site_change(*known, site));
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
    let shared = changed_options(&before.effective(), &after.effective());
    let mut all: Vec<OptionChange> = shared.iter().map(|one| of_option(None, one)).collect();
    let old = Place::all(before);
    for site in Place::all(after) {
        let name = &site.site.name;
        if let Some(known) = old.iter().find(|one| one.site.name == *name) {
            let changed = changed_options(&known.options(), &site.options());
            all.extend(changed.iter().map(|one| of_option(Some(name), one)));
        }
    }
    all
}

fn of_option(site: Option<&String>, changed: &ChangedOption) -> OptionChange {
    let value = |option: &EffectiveOption| OptionValue {
        text: option.value.clone(),
        spot: option.spot.clone(),
    };
    OptionChange {
        section: changed.header.clone(),
        site: site.cloned(),
        name: changed.name.clone(),
        before: changed.before.as_ref().map(value),
        after: changed.after.as_ref().map(value),
        is_hidden: changed.differs_in_hidden_part(),
    }
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

/// A site in its configuration.
#[derive(Clone, Copy)]
struct Place<'c> {
    config: &'c Config,
    index: usize,
    site: &'c SiteConfig,
}

impl<'c> Place<'c> {
    fn all(config: &'c Config) -> Vec<Self> {
        let sites = config.sites.iter().enumerate();
        let places = sites.map(|(index, site)| Self {
            config,
            index,
            site,
        });
        places.collect()
    }

    fn options(self) -> Vec<EffectiveSection> {
        self.config.effective_of_site(self.index)
    }

    fn shares_host(self, other: Self) -> bool {
        let hosts = &other.site.hosts;
        self.site.hosts.iter().any(|host| hosts.contains(host))
    }
}

fn site_change(before: Place<'_>, after: Place<'_>) -> Option<String> {
    let mut names: Vec<String> = Vec::new();
    for one in changed_options(&before.options(), &after.options()) {
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
    let mut all: Vec<String> = Vec::new();
    for site in &config.sites {
        let plain = site.listen.iter().map(|listen| url("http", listen));
        let secure = site.listen_tls.iter().map(|listen| url("https", listen));
        for one in plain.chain(secure) {
            if !all.contains(&one) {
                all.push(one);
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
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
            let text = |side: &Option<OptionValue>| side.as_ref().map(|one| one.text.clone());
            let site = one.site.clone().unwrap_or_default();
            let (before, after) = (text(&one.before), text(&one.after));
            format!("{site} {} {} {before:?} {after:?}", one.section, one.name)
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

    #[test]
    fn options_that_need_a_restart_are_listed_and_keep_their_values() {
        let site = "[[site]]\nhosts = [\"a.test\"]\nroot = \"/\"\n";
        let running = config(site);
        let mut new = config(&format!(
            "[server]\nworkers = 7\n[cache]\nmemory = \"99MiB\"\n{site}"
        ));
        let fixed = keep_fixed(&running, &mut new);
        assert_eq!(fixed, ["server.workers", "cache.memory"]);
        assert_eq!(new.cache.memory, running.cache.memory);
        new.show_as_kept(&running, &fixed);
        assert!(changes(&running, &new).is_empty() && keep_fixed(&running, &mut new).is_empty());
    }
}
