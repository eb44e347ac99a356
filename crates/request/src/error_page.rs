//! The site's own error pages: one for requests that the upstream cannot answer and that have no stored copy, and optional
//! ones for single statuses. A response of the upstream is never replaced.
//!
//! They are read once at the start, so that they can be sent when the disk cannot be read. They may contain the status and
//! the request's id. They are sent like Galley's own page: with the true status, and not to be stored.

use std::ops::Range;
use std::path::Path;

use bytes::Bytes;
use galley_cache::splice::splice;
use galley_certs::file::{self, FileError};
use galley_config::MAX_ERROR_PAGE;

use crate::fault::Fault;

/// See the module.
#[derive(Clone, Debug)]
pub struct ErrorPage {
    /// The page, which all answers share.
    text: Bytes,
    /// What is filled in, in the order of the text.
    places: Vec<(Range<u32>, Place)>,
}

#[derive(Clone, Copy, Debug)]
enum Place {
    Status,
    Request,
}

impl ErrorPage {
    /// Reads a page.
    ///
    /// Errors: it cannot be read, is not a regular file, is too long, or is not UTF-8.
    pub fn read(path: &Path) -> Result<Self, FileError> {
        file::read_text(path, MAX_ERROR_PAGE).map(Self::new)
    }

    fn new(text: String) -> Self {
        let places_of = |word: &'static str, place| {
            let positions = text.match_indices(word);
            positions.filter_map(move |(at, _)| {
                let range = u32::try_from(at).ok()?..u32::try_from(at + word.len()).ok()?;
                Some((range, place))
            })
        };
        let statuses = places_of("{status}", Place::Status);
        let mut places: Vec<_> = statuses
            .chain(places_of("{request}", Place::Request))
            .collect();
        places.sort_by_key(|(range, _)| range.start);
        Self {
            places,
            text: text.into(),
        }
    }

    /// The pieces of the page for one answer.
    pub fn render(&self, status: u16, request_id: &str) -> Vec<Bytes> {
        let (status, request) = (status.to_string(), request_id.to_owned());
        let (status, request) = (Bytes::from(status), Bytes::from(request));
        let filled = self.places.iter().map(|(range, place)| {
            let text = match place {
                Place::Status => &status,
                Place::Request => &request,
            };
            (range, Some(text.clone()))
        });
        splice(&self.text, filled).map_or_else(Vec::new, |page| page.pieces)
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
    pub fn render(&self, fault: &Fault, request_id: &str) -> Option<Vec<Bytes>> {
        let status = fault.status();
        let of_status = self.by_status.iter().find(|(one, _)| *one == status);
        let of_outages = self.of_outages.as_ref().filter(|_| fault.is_outage());
        let page = of_status.map(|(_, page)| page).or(of_outages)?;
        Some(page.render(status, request_id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_filled_in() {
        let page = ErrorPage::new("{status}: <i>{request}</i> {other} {status}".to_owned());
        let rendered = page.render(503, "ab-1");
        assert_eq!(rendered.concat(), b"503: <i>ab-1</i> {other} 503");
        assert_eq!(rendered[1].as_ptr(), page.text[8..].as_ptr(), "shared");
        let plain = ErrorPage::new("back soon".to_owned());
        assert_eq!(plain.render(502, "x").concat(), b"back soon");
    }
}
