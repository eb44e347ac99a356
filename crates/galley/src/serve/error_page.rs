//! The site's own page for visitors whom the upstream cannot answer and for whom there is no copy.
//!
//! Read once at start, so that it can be shown when the disk cannot be read. It may show the status and the request's id.
//! It is sent like Galley's own page: with the true status, never to be stored.

use std::io;
use std::path::Path;

use bytes::Bytes;

/// See the module.
#[derive(Clone, Debug)]
pub struct ErrorPage {
    /// The page; shared where nothing is filled in.
    text: Bytes,
    has_places: bool,
}

impl ErrorPage {
    /// Reads a page. Its size has been looked at.
    ///
    /// Errors: it cannot be read, or is not UTF-8.
    pub fn read(path: &Path) -> io::Result<Self> {
        std::fs::read_to_string(path).map(Self::new)
    }

    fn new(text: String) -> Self {
        Self {
            has_places: text.contains(STATUS) || text.contains(REQUEST),
            text: text.into(),
        }
    }

    /// The page for one answer.
    pub fn render(&self, status: u16, request_id: &str) -> Bytes {
        if !self.has_places {
            return self.text.clone();
        }
        // It was read as text.
        let text = String::from_utf8_lossy(&self.text);
        let text = text.replace(STATUS, &status.to_string());
        text.replace(REQUEST, request_id).into()
    }
}

const STATUS: &str = "{status}";
const REQUEST: &str = "{request}";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_filled_in() {
        let page = ErrorPage::new("{status}: <i>{request}</i> {other} {status}".to_owned());
        assert_eq!(page.render(503, "ab-1"), "503: <i>ab-1</i> {other} 503");
        let plain = ErrorPage::new("back soon".to_owned());
        assert_eq!(plain.render(502, "x"), "back soon");
    }
}
