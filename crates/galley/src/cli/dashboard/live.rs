//! Live figures: one sampler for all pages that are open, sent as server-sent events.
//!
//! While no page listens the server is not asked. A page that reads too slowly misses samples; each sample is whole.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::body::{Body, Frame};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;

use super::router::Dashboard;
use super::sessions::SessionSecrets;

/// The pages that listen.
#[derive(Debug, Default)]
pub(super) struct LivePages(Mutex<Vec<LivePage>>);

#[derive(Debug)]
struct LivePage {
    /// It listens as long as this session is open.
    secrets: SessionSecrets,
    events: mpsc::Sender<Bytes>,
}

/// The events of one page.
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
    /// One page more; `None`: there are too many.
    pub(super) fn join(&self, secrets: SessionSecrets) -> Option<Events> {
        let mut pages = self.lock();
        pages.retain(|page| !page.events.is_closed());
        if pages.len() >= MOST_PAGES {
            return None;
        }
        let (events, receiver) = mpsc::channel(1);
        pages.push(LivePage { secrets, events });
        Some(Events(receiver))
    }

    /// Whether anybody listens.
    fn is_empty(&self) -> bool {
        let mut pages = self.lock();
        pages.retain(|page| !page.events.is_closed());
        pages.is_empty()
    }

    /// Sends an event to all; pages for which `is_open` is false are ended.
    fn send(&self, event: &Bytes, is_open: impl Fn(&SessionSecrets) -> bool) {
        self.lock().retain(|page| {
            // A full channel: the page has not read the sample before.
            let sent = page.events.try_send(event.clone());
            is_open(&page.secrets) && !matches!(sent, Err(mpsc::error::TrySendError::Closed(_)))
        });
    }

    fn lock(&self) -> MutexGuard<'_, Vec<LivePage>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Samples the server while pages listen; never ends.
pub(super) async fn sample(dashboard: Arc<Dashboard>) {
    let mut ticks = tokio::time::interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if dashboard.live.is_empty() {
            continue;
        }
        let value = match dashboard.gateway.status().await {
            Ok(status) => json!({ "ok": true, "status": status }),
            Err(trouble) => json!({ "ok": false, "error": trouble.to_string() }),
        };
        // JSON has no line feeds outside of strings, and `\n` within them.
        let event = Bytes::from(format!("data: {value}\n\n"));
        let now = Instant::now();
        let sessions = dashboard.sessions();
        dashboard
            .live
            .send(&event, |secrets| sessions.is_open(secrets, now));
    }
}

/// Often enough to watch, rare enough to cost nothing.
const INTERVAL: Duration = Duration::from_secs(2);

const MOST_PAGES: usize = 16;

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
    fn pages_are_bounded_and_leave() {
        let live = LivePages::default();
        let mut pages: Vec<Events> = (0..MOST_PAGES)
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
