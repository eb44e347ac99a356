//! The published lists of addresses of crawlers (`server.crawlers`).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use galley_certs::file;
use galley_policy::crawlers::{CrawlerRanges, MAX_LIST_BYTES, parse_list};
use ipnet::IpNet;

use crate::diagnostic::Diagnostics;
use crate::tree::SectionTable;

/// The lists of `server.crawlers`, read once with the configuration.
#[derive(Clone, Debug, Default)]
pub struct CrawlerLists {
    /// The files, in the order of their names.
    pub files: Vec<CrawlerFile>,
    /// The addresses of all files.
    pub ranges: Arc<CrawlerRanges>,
}

/// A file that proves a crawler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrawlerFile {
    /// The name of the crawler.
    pub name: String,
    /// The file.
    pub path: PathBuf,
    /// The number of networks in it.
    pub networks: usize,
}

/// Reads the lists that `server.crawlers` names.
pub(crate) fn lists(section: &SectionTable, diagnostics: &mut Diagnostics) -> CrawlerLists {
    const OPTION: &str = "crawlers";
    let files: Vec<(String, PathBuf)> = section.get(OPTION).unwrap_or_default();
    let mut lists = CrawlerLists::default();
    let mut networks_by_name: Vec<(String, Vec<IpNet>)> = Vec::new();
    let mut count = 0;
    for (name, path) in files {
        let shown_path = path.display();
        match read(&path) {
            Ok(networks) => {
                count += networks.len();
                lists.files.push(CrawlerFile {
                    name: name.clone(),
                    path,
                    networks: networks.len(),
                });
                networks_by_name.push((name, networks));
            }
            Err(why) => {
                let why = format!("names `{shown_path}` for `{name}`, {why}");
                section.report(OPTION, why, DOWNLOAD, diagnostics);
            }
        }
    }
    if count > MAX_NETWORKS {
        let why = format!("names files with {count} networks; the maximum is {MAX_NETWORKS}");
        let help = "remove lists of clouds, and keep those of crawlers";
        section.report(OPTION, why, help, diagnostics);
        return CrawlerLists::default();
    }
    lists.ranges = Arc::new(CrawlerRanges::new(networks_by_name));
    lists
}

/// The networks of a file; the error continues after its name.
fn read(path: &Path) -> Result<Vec<IpNet>, String> {
    let text = file::read_text(path, MAX_LIST_BYTES).map_err(|unread| unread.to_string())?;
    parse_list(&text).map_err(|error| format!("which is no list of addresses: {error}"))
}

const DOWNLOAD: &str = "download it again from the operator of the crawler: JSON with `prefixes` as Google publishes it, or an address or network in each line";

/// The maximum of all lists together: 9 MiB of memory.
const MAX_NETWORKS: usize = 200_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::load::from_text;

    fn config(server: &str) -> Result<Config, Diagnostics> {
        let text = format!("[server]\n{server}\n[[site]]\nhosts = [\"a.test\"]\nroot = \"/\"\n");
        from_text("test.toml", &text)
    }

    #[test]
    fn lists_are_read_with_the_configuration() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        let (json, plain) = (
            file(
                "a.json",
                r#"{"prefixes": [{"ipv4Prefix": "192.0.2.0/24"}]}"#,
            ),
            file("b.txt", "198.51.100.1\n198.51.100.2\n"),
        );
        let line =
            format!("crawlers = {{ Googlebot = \"{json}\", GPTBot = [\"{plain}\", \"{json}\"] }}");
        let lists = config(&line).unwrap().server.crawlers;
        let found = |address: &str| {
            lists
                .ranges
                .find(address.parse().unwrap())
                .map(str::to_owned)
        };
        assert_eq!(found("198.51.100.2").as_deref(), Some("GPTBot"));
        assert_eq!(found("198.51.100.3"), None);
        let counts: Vec<usize> = lists.files.iter().map(|file| file.networks).collect();
        assert_eq!(counts.iter().sum::<usize>(), 4);
        let broken = file("c.json", "<html>");
        for (value, wanted) in [
            (
                format!("{{ Bot = \"{broken}\" }}"),
                "for `Bot`, which is no list of addresses: line 1: `<html>` is neither",
            ),
            (
                "{ Bot = \"/nonexistent\" }".to_owned(),
                "for `Bot`, which cannot be read",
            ),
            ("{ Bot = 1 }".to_owned(), "whose `Bot` names no file"),
            (
                "{ \"a b\" = \"x\" }".to_owned(),
                "not the name of a crawler",
            ),
            (
                "\"googlebot.json\"".to_owned(),
                "a string, which this option does not accept",
            ),
        ] {
            let errors = config(&format!("crawlers = {value}")).unwrap_err();
            assert!(errors.to_string().contains(wanted), "{value}: {errors}");
        }
    }
}
