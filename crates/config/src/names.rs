//! The names of sites.
//!
//! A name identifies a site, whatever else changes: its stored pages, purges, counters, token file and PHP belong to the name.
//! No two sites have the same name. A name that the file does not set follows from the hosts, but not from their order.

use std::cmp::Reverse;
use std::collections::HashSet;

use galley_policy::route::HostPattern;

use crate::diagnostic::Diagnostics;
use crate::listen::Listen;
use crate::tree::{SectionTable, SiteTables};

/// The names of all sites, in their order. `server`: the listeners of sites that name none, without and with TLS. Reports names
/// that are invalid, or that belong to another site.
pub(crate) fn names(
    sites: &[SiteTables],
    server: [&[Listen]; 2],
    diagnostics: &mut Diagnostics,
) -> Vec<String> {
    let given: Vec<Option<String>> = sites.iter().map(|site| site.options.get("name")).collect();
    check(sites, &given, diagnostics);
    let mut taken: HashSet<String> = given.iter().flatten().cloned().collect();
    // Two sites may have the same hosts on different listeners. Which one gets a suffix does not depend on their order.
    let mut unnamed: Vec<usize> = (0..sites.len()).collect();
    unnamed.retain(|index| given.get(*index).is_some_and(Option::is_none));
    unnamed.sort_by_cached_key(|index| sites.get(*index).map(|site| shown(site, server)));
    let mut names: Vec<String> = given.into_iter().map(Option::unwrap_or_default).collect();
    for index in unnamed {
        if let (Some(site), Some(name)) = (sites.get(index), names.get_mut(index)) {
            *name = free_name(&hosts(site), &mut taken);
        }
    }
    names
}

/// The name that follows from the hosts, with a number if another site has it.
fn free_name(hosts: &[HostPattern], taken: &mut HashSet<String>) -> String {
    let first_host = in_order(hosts).next().map_or_else(String::new, word);
    let mut name = first_host.clone();
    for number in 2_u32.. {
        if taken.insert(name.clone()) {
            break;
        }
        name = format!("{first_host}#{number}");
    }
    name
}

fn hosts(site: &SiteTables) -> Vec<HostPattern> {
    site.options.get("hosts").unwrap_or_default()
}

/// The listeners of a site without and with TLS, otherwise those of the server.
pub(crate) fn listeners(options: &SectionTable, server: [&[Listen]; 2]) -> [Vec<Listen>; 2] {
    let [plain, secure] = server;
    let listeners_of =
        |name, server: &[Listen]| options.get(name).unwrap_or_else(|| server.to_owned());
    let secure = if options.has("tls") {
        listeners_of("listen_tls", secure)
    } else {
        Vec::new()
    };
    [listeners_of("listen", plain), secure]
}

/// Hosts in an order that does not depend on the file: exact ones first, then the shortest, then by alphabet.
pub fn in_order(hosts: &[HostPattern]) -> impl Iterator<Item = &HostPattern> {
    let mut hosts: Vec<&HostPattern> = hosts.iter().collect();
    hosts.sort_by_cached_key(|host| {
        let is_any = matches!(host, HostPattern::Any);
        let text = host.to_string();
        (Reverse(host.exact().is_some()), is_any, text.len(), text)
    });
    hosts.into_iter()
}

/// A host as a part of a name or a file name: `any` stands for `*`.
pub(crate) fn word(host: &HostPattern) -> String {
    match host {
        HostPattern::Exact(name) => name.clone(),
        HostPattern::Wildcard(suffix) => format!("any{suffix}"),
        HostPattern::Any => "any".to_owned(),
    }
}

fn shown(site: &SiteTables, server: [&[Listen]; 2]) -> Vec<String> {
    let listeners = listeners(&site.options, server);
    listeners
        .iter()
        .flatten()
        .map(ToString::to_string)
        .collect()
}

fn check(sites: &[SiteTables], given: &[Option<String>], diagnostics: &mut Diagnostics) {
    for (index, (site, name)) in sites.iter().zip(given).enumerate() {
        let Some(name) = name else {
            continue;
        };
        if !is_name(name) {
            let why = format!("is `{name}`, which is not a name");
            site.options.report("name", why, ALPHABET, diagnostics);
        }
        let mut earlier = sites.iter().zip(given).take(index);
        if let Some((first, _)) = earlier.find(|(_, other)| other.as_ref() == Some(name)) {
            let first = diagnostics.spot(first.options.position("name"));
            let why = format!("is `{name}`, the name of the site at {first}");
            site.options.report("name", why, ANOTHER, diagnostics);
        }
        let has_host = |site: &SiteTables| hosts(site).iter().any(|host| word(host) == *name);
        if !has_host(site) && sites.iter().any(has_host) {
            let why = format!("is `{name}`, a host of another site");
            site.options.report("name", why, ANOTHER, diagnostics);
        }
    }
}

fn is_name(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_letter = |byte: u8| is_plain(byte) || b"-_.".contains(&byte);
    text.bytes().next().is_some_and(is_plain)
        && text.len() <= MAX_LETTERS
        && text.bytes().all(is_letter)
}

const ANOTHER: &str = "give the site another name";

const ALPHABET: &str =
    "use up to 64 lower-case letters, digits, `-`, `_` and `.`, the first one a letter or a digit";

const MAX_LETTERS: usize = 64;

#[cfg(test)]
mod tests {
    use crate::load::from_text;

    fn names(sites: &[&str]) -> Vec<String> {
        let sections = sites
            .iter()
            .map(|lines| format!("[[site]]\nroot = \"/\"\n{lines}\n"));
        let config = from_text("test.toml", &sections.collect::<String>()).unwrap();
        config.sites.into_iter().map(|site| site.name).collect()
    }

    #[test]
    fn a_name_does_not_depend_on_the_order_of_hosts() {
        for (hosts, name) in [
            (r#"["www.a.test", "a.test"]"#, "a.test"),
            (r#"["a.test", "www.a.test"]"#, "a.test"),
            (r#"["b.test", "a.test"]"#, "a.test"),
            (r#"["*", "shop.a.test"]"#, "shop.a.test"),
            (r#"["*.b.test", "*.a.test", "*"]"#, "any.a.test"),
            (r#"["*"]"#, "any"),
            (r#"["[::1]"]"#, "[::1]"),
        ] {
            assert_eq!(names(&[&format!("hosts = {hosts}")]), [name], "{hosts}");
        }
        let named = "hosts = [\"a.test\"]\nname = \"shop-1\"";
        assert_eq!(names(&[named]), ["shop-1"]);
    }

    #[test]
    fn sites_with_the_same_host_differ_in_any_order() {
        let on = |port| format!("hosts = [\"a.test\"]\nlisten = [\"127.0.0.1:{port}\"]");
        let (one, other) = (on(8001), on(8002));
        assert_eq!(names(&[&one, &other]), ["a.test", "a.test#2"]);
        assert_eq!(names(&[&other, &one]), ["a.test#2", "a.test"]);
        let named = format!("{other}\nname = \"a.test\"");
        assert_eq!(names(&[&one, &named]), ["a.test#2", "a.test"]);
    }
}
