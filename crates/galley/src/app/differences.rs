//! Compares two configurations, in lines for people, and determines which options only a restart can change.

use galley_config::{
    ChangedOption, Config, EffectiveOption, Listen, ServerConfig, SiteConfig, changed_options,
};

use super::durable::site_fingerprint;
use super::site_states::names;
use crate::admin::{OptionChange, OptionValue};

/// The names of fields whose values differ. The values are compared as text: every type has `Debug`, but most have no `PartialEq`.
macro_rules! differing {
    ($before:expr, $after:expr, $($field:ident => $name:literal),+ $(,)?) => {{
        let (before, after) = (&$before, &$after);
        let mut names: Vec<&'static str> = Vec::new();
        $(if format!("{:?}", before.$field) != format!("{:?}", after.$field) && !names.contains(&$name) {
            names.push($name);
        })+
        names
    }};
}

/// Like `differing`, but then copies the values of these fields from the first value to the second.
macro_rules! keep {
    ($running:expr, $new:expr, $($field:ident => $name:literal),+ $(,)?) => {{
        let names = differing!($running, $new, $($field => $name),+);
        $($new.$field.clone_from(&$running.$field);)+
        names
    }};
}

/// Copies the options that were fixed at the start from the current configuration to the new one. Returns the names of those that
/// differ.
pub(super) fn keep_fixed(running: &Config, new: &mut Config) -> Vec<String> {
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
        fixed.retain(|name| !matches!(*name, "server.spool_memory" | "cache.max_object"));
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
    let (old, new) = (names(&before.sites), names(&after.sites));
    let gone = old.iter().filter(|name| !new.contains(name));
    lines.extend(gone.map(|name| format!("site `{name}`: removed")));
    for (name, site) in new.iter().zip(&after.sites) {
        let known = old.iter().zip(&before.sites).find(|(old, _)| *old == name);
        match known {
            None => lines.push(format!("site `{name}`: added")),
            Some((_, known)) => lines.extend(site_change(name, known, site)),
        }
    }
    lines
}

/// The options with other values in `after`, of sites that both configurations have. A value that is only written in another
/// way counts, because values are compared as text.
pub(super) fn options(before: &Config, after: &Config) -> Vec<OptionChange> {
    let shared = changed_options(&before.effective(), &after.effective());
    let mut all: Vec<OptionChange> = shared.iter().map(|one| of_option(None, one)).collect();
    let (old, new) = (names(&before.sites), names(&after.sites));
    for (number, name) in new.iter().enumerate() {
        let Some(known) = old.iter().position(|old| old == name) else {
            continue;
        };
        let known = before.effective_of_site(known);
        let changed = changed_options(&known, &after.effective_of_site(number));
        all.extend(changed.iter().map(|one| of_option(Some(name), one)));
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

fn of_server(before: &ServerConfig, after: &ServerConfig) -> Vec<&'static str> {
    differing!(before, after,
        tls_min_version => "tls_min_version",
        request_body => "request_body",
        head_size => "head_size",
        head_timeout => "head_timeout",
        idle_timeout => "idle_timeout",
        body_timeout => "body_timeout",
        write_timeout => "write_timeout",
        drain_timeout => "drain_timeout",
        max_connections => "max_connections",
        fast_path => "fast_path",
        h2c => "h2c",
        connections_per_address => "connections_per_address",
        limit_exempt => "limit_exempt",
        geoip => "geoip",
        min_rate => "min_rate",
        proxies => "proxies",
        proxy_protocol => "proxy_protocol",
        sandbox => "sandbox",
        watch => "watch",
        max_upgrades => "max_upgrades",
        upgrade_timeout => "upgrade_timeout",
    )
}

fn sections(before: &Config, after: &Config) -> Vec<String> {
    let server = of_server(&before.server, &after.server);
    let admin = differing!(before.admin, after.admin, token_file => "token_file");
    let cache = differing!(before.cache, after.cache, memory_per_site => "memory_per_site");
    let log = differing!(before.log, after.log,
        access => "access", format => "format", fields => "fields", error => "error", level => "level", otlp => "otlp",
    );
    let acme = format!("{:?}", before.acme) != format!("{:?}", after.acme);
    let named = [
        ("server", server),
        ("admin", admin),
        ("cache", cache),
        ("log", log),
    ];
    let mut lines: Vec<String> = named
        .into_iter()
        .filter(|(_, names)| !names.is_empty())
        .map(|(section, names)| format!("[{section}]: {} changed", names.join(", ")))
        .collect();
    if acme {
        lines.push("[acme]: changed".to_owned());
    }
    lines
}

fn site_change(name: &str, before: &SiteConfig, after: &SiteConfig) -> Option<String> {
    let changed = differing!(before, after,
        hosts => "hosts",
        listen => "listeners",
        listen_tls => "listeners",
        certificates => "certificates",
        has_auto_tls => "certificates",
        root => "root",
        allow_files => "allow_files",
        image_siblings => "image_siblings",
        internal => "internal",
        link_targets => "link_targets",
        multisite => "multisite",
        upstream => "upstream",
        further => "upstream",
        upstream_tls => "upstream",
        balancing => "upstream",
        upgrade => "upgrade",
        early_hints => "early_hints",
        error_page => "error pages",
        error_pages => "error pages",
        request_body => "request_body",
        rules => "rules",
        compress => "compression",
        token_file => "token_file",
        dashboard_auth => "dashboard",
        purge_allow => "purging",
        purge_secret_file => "purging",
        purge_get => "purging",
        purge_directory => "purging",
        nginx_cache_path => "purging",
        purge_forward => "purging",
        cron => "cron",
        limits => "limits",
        managed => "PHP",
        access => "access log",
        errors => "error log",
    );
    if changed.is_empty() {
        return None;
    }
    let changed = changed.join(", ");
    let is_new_cache = site_fingerprint(before) != site_fingerprint(after);
    let cache = if is_new_cache {
        "; its stored pages are not used any longer, because the rules for cache keys have changed"
    } else {
        ""
    };
    Some(format!("site `{name}`: {changed} changed{cache}"))
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
                "[server]: head_timeout changed",
                "listener `http://127.0.0.1:8080`: removed",
                "listener `http://127.0.0.1:8081`: added",
                "site `b.test`: removed",
                "site `c.test`: added",
                "site `a.test`: listeners, rules, limits changed; its stored pages are not used any longer, because the rules for cache keys have changed",
            ]
        );
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
        assert_eq!(
            keep_fixed(&running, &mut new),
            ["server.workers", "cache.memory"]
        );
        assert_eq!(new.cache.memory, running.cache.memory);
        assert!(changes(&running, &new).is_empty() && keep_fixed(&running, &mut new).is_empty());
    }
}
