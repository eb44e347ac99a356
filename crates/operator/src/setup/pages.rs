//! The parts of an HTML page that a comparison needs: its title, and links to other pages of the site.

/// The text of the first `<title>`, on one line.
pub(super) fn title(html: &str) -> Option<String> {
    let lower = html.to_ascii_lowercase();
    let start = lower.find("<title")?;
    let open = start + lower.get(start..)?.find('>')? + 1;
    let close = open + lower.get(open..)?.find("</title")?;
    let words: Vec<&str> = html.get(open..close)?.split_whitespace().collect();
    Some(words.join(" ").chars().take(MAX_TITLE).collect())
}

/// Paths of linked pages on this host, each once, in order. Excludes files, the administration, and URLs with a query.
pub fn links(html: &str, host: &str, most: usize) -> Vec<String> {
    let mut links: Vec<String> = Vec::new();
    let mut rest = html;
    while let Some((_, after)) = rest.split_once("href=")
        && links.len() < most
    {
        rest = after;
        let Some(quote) = after.chars().next().filter(|c| matches!(c, '"' | '\'')) else {
            continue;
        };
        let Some((target, _)) = after[1..].split_once(quote) else {
            break;
        };
        if let Some(path) = page(target, host)
            && !links.contains(&path)
        {
            links.push(path);
        }
    }
    links
}

fn page(target: &str, host: &str) -> Option<String> {
    let path = match target.split_once("://") {
        Some(("http" | "https", rest)) => rest.strip_prefix(host)?,
        Some(_) => return None,
        None => target,
    };
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"/-_%".contains(&b);
    let is_page = path.starts_with('/')
        && !path.starts_with("//")
        && path.len() > 1
        && path.len() <= MAX_PATH
        && path.bytes().all(is_plain)
        && !path.starts_with("/wp-")
        && !path.split('/').any(|part| part == "feed");
    is_page.then(|| path.to_owned())
}

const MAX_TITLE: usize = 200;
const MAX_PATH: usize = 300;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn title_and_links() {
        let html = "<TITLE lang=en>A\n  page</TITLE><a href=\"http://e.com/one/\">1</a><a href='/two/'><a href=\"/wp-login.php\">\
            <link href=\"https://other.com/x/\"><a href=\"/one/\"><a href=\"/feed/\"><a href=\"//x/\"><a href=/bare/><a href=\"https://e.com/three\">";
        assert_eq!(title(html).as_deref(), Some("A page"));
        assert_eq!(links(html, "e.com", 9), ["/one/", "/two/", "/three"]);
        assert_eq!(links(html, "e.com", 1), ["/one/"]);
        assert_eq!(title("<title>open"), None);
    }

    proptest! {
        #[test]
        fn any_page_is_parsed_without_panic(html in "(?s).{0,200}", tags in "(<title>|</title>|href=|[\"'/aé:< ]){0,60}") {
            for html in [html, tags] {
                let _ = title(&html);
                let _ = links(&html, "e.com", 5);
            }
        }
    }
}
