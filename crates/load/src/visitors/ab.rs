//! Requests in the form of Apache's `ab`: HTTP/1.0, with the fields that it sends.

use super::pages::VisitedPage;
use crate::{
    LoadError,
    requests::{ExpectedStatus, Requests, ResponseCheck},
};

/// Requests of `ab` for pages in turn.
#[derive(Debug)]
pub struct AbRequests {
    heads: Vec<Vec<u8>>,
    next: usize,
}

impl AbRequests {
    /// Creates the requests; `keeps`: connections are kept alive, as with its option `-k`.
    ///
    /// # Errors
    /// [`LoadError::Pages`] without a page.
    pub fn new(host: &str, pages: &[VisitedPage], keeps: bool) -> Result<Self, LoadError> {
        if pages.is_empty() {
            return Err(LoadError::Pages("there is no page to ask for".to_owned()));
        }
        let connection = if keeps {
            "Connection: Keep-Alive\r\n"
        } else {
            ""
        };
        let head = |page: &VisitedPage| {
            format!(
                "{} {} HTTP/1.0\r\n{connection}Host: {host}\r\nUser-Agent: ApacheBench/2.3\r\nAccept: */*\r\n\r\n",
                page.method.name(),
                page.target
            )
            .into_bytes()
        };
        Ok(Self {
            heads: pages.iter().map(head).collect(),
            next: 0,
        })
    }
}

impl Requests for AbRequests {
    fn next(&mut self, head: &mut Vec<u8>) -> ResponseCheck {
        let page = self.next;
        self.next = (page + 1) % self.heads.len();
        head.extend(self.heads.get(page).into_iter().flatten());
        ResponseCheck {
            page,
            status: ExpectedStatus::Served,
        }
    }
}
