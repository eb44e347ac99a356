//! Statements with one result wherever they are: those that visitors do not notice, and those without an equivalent. The tables are
//! texts: a line with the result and the reason, then lines with names, or with the beginnings of whole statements.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::directive::Directive;

pub(crate) static NGINX: LazyLock<NamesTable> =
    LazyLock::new(|| NamesTable::of(include_str!("names/nginx.txt")));
pub(crate) static APACHE: LazyLock<NamesTable> =
    LazyLock::new(|| NamesTable::of(include_str!("names/apache.txt")));
pub(crate) static CADDY: LazyLock<NamesTable> =
    LazyLock::new(|| NamesTable::of(include_str!("names/caddy.txt")));
pub(crate) static VARNISH: LazyLock<NamesTable> =
    LazyLock::new(|| NamesTable::of(include_str!("names/varnish.txt")));

/// A result, and its reason.
type NamedResult = (&'static str, &'static str);

/// A table of results.
pub(crate) struct NamesTable {
    /// Names and whole statements.
    whole: HashMap<String, NamedResult>,
    /// Beginnings of statements.
    starts: HashMap<String, NamedResult>,
    /// The length of the longest one, in bytes.
    longest: usize,
}

impl NamesTable {
    fn of(text: &'static str) -> Self {
        let (mut whole, mut starts) = (HashMap::new(), HashMap::new());
        let mut head = ("", "");
        for line in text.lines() {
            let Some(names) = line.strip_prefix("  ") else {
                head = line.split_once(": ").unwrap_or(head);
                continue;
            };
            for one in names.split(',').map(|one| one.trim().to_ascii_lowercase()) {
                match one.strip_suffix('*') {
                    Some(start) => starts.insert(start.to_owned(), head),
                    None => whole.insert(one, head),
                };
            }
        }
        whole.remove("");
        let longest = whole.keys().chain(starts.keys()).map(String::len).max();
        Self {
            longest: longest.unwrap_or(0),
            whole,
            starts,
        }
    }

    /// The result for a statement: that of the longest line that it begins with. A line without `*` is a name, or the whole statement.
    fn find(&self, text: &str) -> Option<NamedResult> {
        let text = text.trim_end().to_ascii_lowercase();
        let name = text.split(' ').next().unwrap_or_default().len();
        let lengths = (1..=text.len().min(self.longest)).rev();
        let mut starts = lengths.filter_map(|length| Some((length, text.get(..length)?)));
        starts.find_map(|(length, start)| {
            let is_whole = length == text.len() || length == name;
            let whole = || is_whole.then(|| self.whole.get(start)).flatten();
            self.starts.get(start).or_else(whole).copied()
        })
    }

    /// Whether nothing is needed for a statement.
    pub fn is_not_needed(&self, one: &Directive) -> bool {
        matches!(self.find(&one.words.join(" ")), Some(("not needed", _)))
    }

    /// Records the result for a statement. The table may not have it: it is not carried.
    pub fn record(&self, one: &Directive) {
        self.record_as(&one.words.join(" "), one);
    }

    /// As [`NamesTable::record`], by another text.
    pub fn record_as(&self, text: &str, one: &Directive) {
        match self.find(text) {
            Some(("not needed", why)) => one.entry.not_needed(why),
            Some(("decides", why)) => one.entry.differs(why, true),
            Some((_, remedy)) => one.entry.not_carried(remedy),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_found() {
        for text in [
            include_str!("names/nginx.txt"),
            include_str!("names/apache.txt"),
            include_str!("names/caddy.txt"),
            include_str!("names/varnish.txt"),
        ] {
            let table = NamesTable::of(text);
            let mut head = "";
            for line in text.lines().filter(|line| !line.is_empty()) {
                let Some(names) = line.strip_prefix("  ") else {
                    head = line;
                    let kinds = ["not needed: ", "not carried: ", "decides: "];
                    assert!(kinds.iter().any(|kind| line.starts_with(kind)), "{line}");
                    continue;
                };
                let names = names
                    .split(',')
                    .map(str::trim)
                    .filter(|one| !one.is_empty());
                for one in names {
                    let found = table.find(one.trim_end_matches('*')).expect(one);
                    assert_eq!(format!("{}: {}", found.0, found.1), head, "{one}");
                }
            }
        }
    }

    #[test]
    fn the_longest_line_counts() {
        let kind = |table: &NamesTable, text| table.find(text).map(|(kind, _)| kind);
        assert_eq!(kind(&APACHE, "rewriteengine On"), Some("not needed"));
        assert_eq!(kind(&APACHE, "rewriteengine Off"), Some("not carried"));
        assert_eq!(
            kind(&NGINX, "fastcgi_param HTTP_PROXY "),
            Some("not needed")
        );
        assert_eq!(
            kind(&NGINX, "fastcgi_param HTTP_PROXY x"),
            Some("not carried")
        );
        assert_eq!(kind(&NGINX, "fastcgi_param HTTPS on"), Some("not carried"));
        assert_eq!(kind(&NGINX, "proxy_cache off"), Some("not carried"));
        assert_eq!(kind(&NGINX, "proxy_cache pages"), Some("not needed"));
        assert_eq!(kind(&NGINX, "ssl_protocols TLSv1.3"), Some("not carried"));
        assert_eq!(kind(&NGINX, "unheard of"), None);
    }
}
