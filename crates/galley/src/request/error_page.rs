//! The site's own error pages: one for requests that the upstream cannot answer and that have no stored copy, and optional
//! ones for single statuses. A response of the upstream is never replaced.
//!
//! They are read once at the start, so that they can be sent when the disk cannot be read. They may contain the status and
//! the request's id. They are sent like Galley's own page: with the true status, and not to be stored.

use std::path::Path;

use bytes::Bytes;
use galley_certs::file::{self, FileError};
use galley_config::MAX_ERROR_PAGE;

use crate::fault::Fault;

/// See the module.
#[derive(Clone, Debug)]
pub struct ErrorPage {
    /// The page; shared if nothing is filled in.
    text: Bytes,
    has_places: bool,
}

impl ErrorPage {
    /// Reads a page.
    ///
    /// Errors: it cannot be read, is not a regular file, is too long, or is not UTF-8.
    pub fn read(path: &Path) -> Result<Self, FileError> {
        file::read_text(path, MAX_ERROR_PAGE).map(Self::new)
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

/// All of a site's.
#[derive(Clone, Debug, Default)]
pub struct ErrorPages {
    /// For outages of any kind.
    pub of_outages: Option<ErrorPage>,
    /// By status.
    pub by_status: Vec<(u16, ErrorPage)>,
}

impl ErrorPages {
    /// The page that tells a visitor of this site about a fault; `None`: Galley's own.
    pub fn render(&self, fault: &Fault, request_id: &str) -> Option<Bytes> {
        let status = fault.status();
        let of_status = self.by_status.iter().find(|(one, _)| *one == status);
        let of_outages = self.of_outages.as_ref().filter(|_| fault.is_outage());
        let page = of_status.map(|(_, page)| page).or(of_outages)?;
        Some(page.render(status, request_id))
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
