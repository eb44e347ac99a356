//! Finds the pages of a site by its sitemaps and links.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    TestkitError,
    exactness::{
        fetch_pages::fetch_pages,
        test_site::{ExactnessSite, HOST, UNCACHED_HOST, target_of},
    },
};

/// Returns at most `max` addresses of pages: in turn one of each part of the site, the first part of the path.
pub(super) fn find_pages(site: &ExactnessSite, max: usize) -> Result<Vec<String>, TestkitError> {
    let mut known: BTreeSet<String> = STARTS.iter().map(|start| (*start).to_owned()).collect();
    let mut waiting: Vec<String> = STARTS.iter().map(|start| (*start).to_owned()).collect();
    let mut found = Vec::new();
    let mut fetched = 0;
    while !waiting.is_empty() && fetched < max.saturating_mul(FETCHED_PER_PAGE) {
        let batch: Vec<String> = waiting.drain(..waiting.len().min(BATCH)).collect();
        fetched += batch.len();
        let targets: Vec<&str> = batch.iter().map(String::as_str).collect();
        let pages = fetch_pages(site.addr(), UNCACHED_HOST, &targets)?;
        for (target, page) in batch.into_iter().zip(pages) {
            let is_page = ["200\n", "301\n"]
                .iter()
                .any(|status| page.content.starts_with(status));
            if !is_page {
                continue;
            }
            for link in links(&page.content) {
                if known.insert(link.clone()) {
                    waiting.push(link);
                }
            }
            found.push(target);
        }
    }
    Ok(one_of_each_part(found, max))
}

/// The addresses of this site that the page links to.
fn links(page: &str) -> Vec<String> {
    let mut links = Vec::new();
    for (start, end) in LINKS {
        for part in page.split(start).skip(1) {
            let link = part.split_once(end).map(|(link, _)| link);
            links.extend(link.and_then(target));
        }
    }
    links
}

/// Path and query of a link to a page of this site that visitors follow.
fn target(link: &str) -> Option<String> {
    let link = link.replace("&#038;", "&").replace("&amp;", "&");
    let link = link.trim().split('#').next().unwrap_or_default();
    let target = if link.starts_with('/') && !link.starts_with("//") {
        link.to_owned()
    } else {
        let rest = link.strip_prefix(&format!("http://{HOST}"))?;
        if !rest.is_empty() && !rest.starts_with(['/', '?']) {
            return None;
        }
        target_of(link)?
    };
    let is_plain = target
        .bytes()
        .all(|byte| byte.is_ascii_graphic() && byte != b'"');
    let path = target.split('?').next().unwrap_or_default();
    let is_file = FILES.iter().any(|end| path.ends_with(end));
    let is_action = NEVER.iter().any(|part| target.contains(part));
    (is_plain && !is_file && !is_action).then_some(target)
}

fn one_of_each_part(found: Vec<String>, max: usize) -> Vec<String> {
    let mut parts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for target in found.into_iter().rev() {
        let path = target.split('?').next().unwrap_or_default();
        let mut names = path.split('/').filter(|name| !name.is_empty());
        let first = names.next().unwrap_or_default().to_owned();
        // Posts and pages have the whole path as their first part.
        let part = match (names.next(), target.contains('?')) {
            (_, true) => format!("{first}?"),
            (Some(_), false) => format!("{first}/"),
            (None, false) if path.contains('.') => "files".to_owned(),
            (None, false) => "pages".to_owned(),
        };
        parts.entry(part).or_default().push(target);
    }
    let mut chosen = Vec::new();
    while chosen.len() < max && !parts.is_empty() {
        for list in parts.values_mut() {
            if chosen.len() < max {
                chosen.extend(list.pop());
            }
        }
        parts.retain(|_, list| !list.is_empty());
    }
    chosen
}

const STARTS: &[&str] = &[
    "/",
    "/robots.txt",
    "/wp-sitemap.xml",
    "/sitemap_index.xml",
    "/sitemap.xml",
    "/feed/",
];
/// What surrounds a link in HTML, in sitemaps, and in robots.txt.
const LINKS: &[(&str, &str)] = &[
    ("href=\"", "\""),
    ("href='", "'"),
    ("<loc>", "</loc>"),
    ("Sitemap: ", "\n"),
];
/// Links that log in, change something, or are not pages.
const NEVER: &[&str] = &[
    "/wp-admin",
    "/wp-login",
    "/wp-content/",
    "/wp-includes/",
    "/xmlrpc",
    "add-to-cart",
    "add_to_cart",
    "remove_item",
    "_wpnonce",
    "replytocom",
    "action=",
    "exact_script",
    "oembed",
    "?p=",
];
const FILES: &[&str] = &[
    ".css", ".js", ".png", ".jpg", ".jpeg", ".gif", ".webp", ".svg", ".ico", ".woff2", ".xsl",
    ".zip", ".pdf",
];
const BATCH: usize = 40;
/// Pages that are fetched for each that is chosen.
const FETCHED_PER_PAGE: usize = 6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_this_site_are_found() {
        let page = "<a href=\"http://exact.test/a/?x=1&#038;y=2#top\"><a href='/b/'><loc>http://exact.test/c.xml</loc>\nSitemap: http://exact.test/s.xml\n\
                    <a href=\"http://exact.test.example/\"><a href=\"//cdn.test/\"><a href=\"/wp-admin/\"><a href=\"/shop/?add-to-cart=5\"><link href=\"/style.css?ver=1\">\
                    <a href=\"http://exact.test\"><a href=\"mailto:a@b\">";
        assert_eq!(links(page), ["/a/?x=1&y=2", "/", "/b/", "/c.xml", "/s.xml"]);
    }

    #[test]
    fn each_part_of_the_site_is_chosen_in_turn() {
        let found = [
            "/", "/a/", "/b/", "/c/", "/shop/x/", "/shop/y/", "/?s=1", "/s.xml",
        ];
        let found: Vec<String> = found.map(str::to_owned).to_vec();
        assert_eq!(
            one_of_each_part(found.clone(), 5),
            ["/?s=1", "/s.xml", "/", "/shop/x/", "/a/"]
        );
        assert_eq!(one_of_each_part(found, 99).len(), 8);
    }
}
