//! The open pages that receive live figures, as server-sent events.
//!
//! Their number is limited, and nothing is buffered for them. A page that reads too slowly misses samples; each sample is
//! complete.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame};
use tokio::sync::mpsc;

use galley_dashboard::SessionSecrets;
use galley_sys::Lock;

/// The open pages.
#[derive(Debug, Default)]
pub(super) struct LivePages(Lock<Vec<LivePage>>);

#[derive(Debug)]
struct LivePage {
    /// The page receives events as long as this session is open.
    secrets: SessionSecrets,
    events: mpsc::Sender<Bytes>,
}

/// The event stream of one page.
pub(super) struct Events(mpsc::Receiver<Bytes>);

impl Body for Events {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let event = self.0.poll_recv(context);
        event.map(|event| event.map(|bytes| Ok(Frame::data(bytes))))
    }
}

impl LivePages {
    /// Adds a page; `None` if there are too many.
    pub(super) fn join(&self, secrets: SessionSecrets) -> Option<Events> {
        let mut pages = self.0.lock();
        pages.retain(|page| !page.events.is_closed());
        if pages.len() >= MAX_PAGES {
            return None;
        }
        let (events, receiver) = mpsc::channel(1);
        pages.push(LivePage { secrets, events });
        Some(Events(receiver))
    }

    /// Whether no page is open.
    pub(super) fn is_empty(&self) -> bool {
        let mut pages = self.0.lock();
        pages.retain(|page| !page.events.is_closed());
        pages.is_empty()
    }

    /// Sends an event to all pages. Ends pages for which `is_open` is false.
    pub(super) fn send(&self, event: &Bytes, is_open: impl Fn(&SessionSecrets) -> bool) {
        self.0.lock().retain(|page| {
            // If the channel is full, the page has not read the previous sample.
            let sent = page.events.try_send(event.clone());
            is_open(&page.secrets) && !matches!(sent, Err(mpsc::error::TrySendError::Closed(_)))
        });
    }
}

const MAX_PAGES: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets(cookie: &str) -> SessionSecrets {
        SessionSecrets {
            cookie: cookie.to_owned(),
            key: String::new(),
        }
    }

    #[test]
    fn the_number_of_pages_is_limited_and_closed_sessions_end() {
        let live = LivePages::default();
        let mut pages: Vec<Events> = (0..MAX_PAGES)
            .map(|_| live.join(secrets("a")).unwrap())
            .collect();
        assert!(live.join(secrets("a")).is_none());
        pages.pop();
        let last = live.join(secrets("b")).unwrap();
        live.send(&Bytes::from_static(b"data: 1\n\n"), |page| {
            page.cookie == "b"
        });
        drop(last);
        assert!(live.is_empty());
    }

    #[test]
    fn a_slow_page_misses_samples_and_stays() {
        let live = LivePages::default();
        let mut page = live.join(secrets("a")).unwrap();
        for _ in 0..3 {
            live.send(&Bytes::from_static(b"data: 1\n\n"), |_| true);
        }
        assert!(page.0.try_recv().is_ok() && page.0.try_recv().is_err());
        assert!(!live.is_empty());
    }
}
