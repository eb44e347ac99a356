//! Compares the responses of two servers for one path.

use super::fetch::PageSummary;

/// One path at the current server and at Galley.
#[derive(Clone, Debug)]
pub struct PageComparison {
    /// The host in the request.
    pub host: String,
    /// The path.
    pub path: String,
    /// The response of the current server; `None` without such a server.
    pub current: Option<PageSummary>,
    /// The response of Galley.
    pub galley: PageSummary,
}

/// A difference between two responses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// `status`, `redirect`, `type` or `title`.
    pub what: &'static str,
    /// The value in the response of the current server.
    pub current: String,
    /// The value in Galley's response.
    pub galley: String,
}

impl PageComparison {
    /// The differences. Without a current server: an error status for a page that must exist.
    pub fn differences(&self) -> Vec<Difference> {
        let Some(current) = &self.current else {
            let is_fine =
                self.galley.status < 400 || (self.galley.status == 404 && self.path != "/");
            let missing = Difference {
                what: "status",
                current: "below 400".to_owned(),
                galley: self.galley.status.to_string(),
            };
            return if is_fine { Vec::new() } else { vec![missing] };
        };
        let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
        let properties = [
            (
                "status",
                current.status.to_string(),
                self.galley.status.to_string(),
            ),
            (
                "redirect",
                text(&current.location),
                text(&self.galley.location),
            ),
            (
                "type",
                text(&current.media_type),
                text(&self.galley.media_type),
            ),
            ("title", text(&current.title), text(&self.galley.title)),
        ];
        let html = Some("text/html");
        let is_page = [current, &self.galley].map(|page| page.media_type.as_deref() == html);
        let different = properties.into_iter().filter(|(what, current, galley)| {
            let counts = match *what {
                // Servers use different names for media types of files, and different texts in redirects.
                "type" => is_page[0] != is_page[1] && self.galley.location.is_none(),
                "title" => self.galley.location.is_none(),
                _ => true,
            };
            counts && current != galley
        });
        different
            .map(|(what, current, galley)| Difference {
                what,
                current,
                galley,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(status: u16, title: &str) -> PageSummary {
        PageSummary {
            status,
            location: None,
            media_type: Some("text/html".to_owned()),
            title: Some(title.to_owned()),
            cache_status: None,
            links: Vec::new(),
        }
    }

    fn differences(
        path: &str,
        current: Option<PageSummary>,
        galley: PageSummary,
    ) -> Vec<&'static str> {
        let comparison = PageComparison {
            host: "e.com".to_owned(),
            path: path.to_owned(),
            current,
            galley,
        };
        comparison
            .differences()
            .iter()
            .map(|one| one.what)
            .collect()
    }

    #[test]
    fn differences_are_found() {
        assert!(differences("/", Some(page(200, "a")), page(200, "a")).is_empty());
        assert_eq!(
            differences("/", Some(page(200, "a")), page(200, "b")),
            ["title"]
        );
        assert_eq!(
            differences("/", Some(page(200, "a")), page(502, "b")),
            ["status", "title"]
        );
        let moved = |to: &str| PageSummary {
            location: Some(to.to_owned()),
            ..page(301, to)
        };
        assert!(
            differences("/", Some(page(301, "x")).map(|_| moved("/a")), moved("/a")).is_empty()
        );
        assert_eq!(
            differences("/", Some(moved("/a")), moved("/b")),
            ["redirect"]
        );
        let script = |name: &str| PageSummary {
            media_type: Some(name.to_owned()),
            ..page(200, "")
        };
        assert!(differences("/a.js", Some(script("text/x")), script("text/y")).is_empty());
        assert_eq!(
            differences("/a.js", Some(script("text/x")), page(200, "")),
            ["type"]
        );
        assert_eq!(differences("/", None, page(500, "")), ["status"]);
        assert_eq!(differences("/", None, page(404, "")), ["status"]);
        assert!(differences("/none/", None, page(404, "")).is_empty());
    }
}
