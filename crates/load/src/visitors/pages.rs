//! A page that visitors request.

use std::time::Duration;

/// The method of a request for a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageMethod {
    /// GET.
    Get,
    /// HEAD.
    Head,
}

/// A page that visitors request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VisitedPage {
    /// The method.
    pub method: PageMethod,
    /// Path and query, valid in a request line.
    pub target: String,
    /// In a replay, the time since the first request.
    pub due: Duration,
}

impl PageMethod {
    /// The name in a request line.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
        }
    }
}

impl VisitedPage {
    /// Creates a page; `None` if the text is not a path, or cannot be sent unchanged.
    pub fn new(method: PageMethod, target: &str) -> Option<Self> {
        let is_fit = target.starts_with('/')
            && target.len() <= MAX_BYTES
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

/// The maximum length of a path with its query: as long as servers accept in a request line.
const MAX_BYTES: usize = 8000;
