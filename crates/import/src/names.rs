//! Statements with one result wherever they are: those that visitors do not notice, and those without an equivalent. The tables are
//! texts: a line with the result and the reason, then lines with names, or with the beginnings of whole statements.

use crate::directive::Directive;

pub(crate) const NGINX: NamesTable = NamesTable(include_str!("names/nginx.txt"));
pub(crate) const APACHE: NamesTable = NamesTable(include_str!("names/apache.txt"));
pub(crate) const CADDY: NamesTable = NamesTable(include_str!("names/caddy.txt"));
pub(crate) const VARNISH: NamesTable = NamesTable(include_str!("names/varnish.txt"));

/// A table of results.
#[derive(Clone, Copy)]
pub(crate) struct NamesTable(&'static str);

impl NamesTable {
    /// The result and the reason for a statement: those of the longest line that it begins with. A line without `*` is a name, or
    /// the whole statement.
    fn find(self, text: &str) -> Option<(&'static str, &'static str)> {
        let text = text.trim_end().to_ascii_lowercase();
        let name = text.split(' ').next().unwrap_or_default();
        let (mut head, mut best) = (None, (0, None));
        for line in self.0.lines() {
            let Some(names) = line.strip_prefix("  ") else {
                head = line.split_once(": ");
                continue;
            };
            for one in names.split(',').map(|one| one.trim().to_ascii_lowercase()) {
                let is_match = match one.strip_suffix('*') {
                    Some(start) => text.starts_with(start),
                    None => !one.is_empty() && (one == text || one == name),
                };
                if is_match && one.len() > best.0 {
                    best = (one.len(), head);
                }
            }
        }
        best.1
    }

    /// Whether nothing is needed for a statement.
    pub fn is_not_needed(self, one: &Directive) -> bool {
        matches!(self.find(&one.words.join(" ")), Some(("not needed", _)))
    }

    /// Records the result for a statement. The table may not have it: it is not carried.
    pub fn record(self, one: &Directive) {
        self.record_as(&one.words.join(" "), one);
    }

    /// As [`NamesTable::record`], by another text.
    pub fn record_as(self, text: &str, one: &Directive) {
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
        for table in [NGINX, APACHE, CADDY, VARNISH] {
            let mut head = "";
            for line in table.0.lines().filter(|line| !line.is_empty()) {
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
        let kind = |table: NamesTable, text| table.find(text).map(|(kind, _)| kind);
        assert_eq!(kind(APACHE, "rewriteengine On"), Some("not needed"));
        assert_eq!(kind(APACHE, "rewriteengine Off"), Some("not carried"));
        assert_eq!(kind(NGINX, "fastcgi_param HTTP_PROXY "), Some("not needed"));
        assert_eq!(
            kind(NGINX, "fastcgi_param HTTP_PROXY x"),
            Some("not carried")
        );
        assert_eq!(kind(NGINX, "fastcgi_param HTTPS on"), Some("not carried"));
        assert_eq!(kind(NGINX, "unheard of"), None);
    }
}
