//! A page that visitors ask for.

use std::time::Duration;

/// How a page is requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageMethod {
    /// The page.
    Get,
    /// Its head only.
    Head,
}

/// A page that visitors ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VisitedPage {
    /// How.
    pub method: PageMethod,
    /// Path and query; fit for a request line.
    pub target: String,
    /// In a replay, the time after the first request.
    pub due: Duration,
}

impl PageMethod {
    /// As the request line names it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
        }
    }
}

impl VisitedPage {
    /// `None` if the text is not a path, or cannot be sent unchanged.
    pub fn new(method: PageMethod, target: &str) -> Option<Self> {
        let is_fit = target.starts_with('/')
            && target.len() <= MOST_BYTES
            && target
                .bytes()
                .all(|byte| byte.is_ascii_graphic() && byte != b'#');
        is_fit.then(|| Self {
            method,
            target: target.to_owned(),
            due: Duration::ZERO,
        })
    }
}

/// The maximum length of a path with its query: what servers accept in a request line.
const MOST_BYTES: usize = 8000;
