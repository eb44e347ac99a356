//! Interim responses (1xx) from an upstream to the client of that request.
//!
//! A proxy forwards them (RFC 9110 §15.2). The important one is `103 Early Hints` (RFC 8297): a browser fetches what a page needs
//! while PHP still generates the page. Interim responses belong to one exchange: a request that joined a fetch gets none, and
//! none is stored. They promise nothing about the final response and may be dropped: for a slow client, or if an upstream sends
//! too many or too large ones. The final response is not affected.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use galley_policy::purge::PURGE_FIELDS;
use galley_policy::storable;
use galley_sys::Lock;
use http::{HeaderMap, StatusCode};
use tokio::sync::mpsc;

/// One interim response, as it is sent to the client.
#[derive(Debug)]
pub struct Interim {
    /// The status, 102 to 199.
    pub status: StatusCode,
    /// The end-to-end fields.
    pub fields: HeaderMap,
}

/// Receives the interim responses of the exchange for which a front thread waits. Allocates nothing for a request that is not
/// sent to an upstream. Only one task may wait.
#[derive(Clone, Debug, Default)]
pub struct Mailbox(Arc<Lock<Option<mpsc::Receiver<Interim>>>>);

impl Mailbox {
    /// Begins an exchange. From then on, interim responses of an earlier exchange are dropped.
    pub fn open(&self) -> InterimSender {
        let (responses, receiver) = mpsc::channel(MAX_WAITING);
        *self.0.lock() = Some(receiver);
        InterimSender {
            responses,
            left: Arc::new(AtomicUsize::new(MAX_RESPONSES)),
        }
    }

    /// Ends the exchange.
    pub fn close(&self) {
        *self.0.lock() = None;
    }

    /// The next interim response. Waits forever if none arrives, and is woken only for an exchange that had begun at its last poll.
    /// Cancel-safe.
    pub async fn next(&self) -> Interim {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// The next interim response that has already been received.
    pub fn try_next(&self) -> Option<Interim> {
        self.0.lock().as_mut()?.try_recv().ok()
    }

    fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Interim> {
        let mut receiver = self.0.lock();
        match receiver.as_mut().map(|receiver| receiver.poll_recv(cx)) {
            Some(Poll::Ready(Some(interim))) => Poll::Ready(interim),
            Some(Poll::Ready(None) | Poll::Pending) | None => Poll::Pending,
        }
    }
}

/// The sender of one exchange.
#[derive(Clone, Debug)]
pub struct InterimSender {
    responses: mpsc::Sender<Interim>,
    /// The number of interim responses that may still be sent.
    left: Arc<AtomicUsize>,
}

impl InterimSender {
    /// Forwards an interim response, or drops it if its status is 100 or 101, which concern the connection, or a limit is
    /// reached. Never waits.
    pub fn send(&self, status: StatusCode, fields: &HeaderMap) {
        if !(102..=199).contains(&status.as_u16()) || size(fields) > MAX_BYTES {
            return;
        }
        let is_one_left = self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                left.checked_sub(1)
            });
        if is_one_left.is_err() {
            return;
        }
        let mut fields = storable::forwarded_fields(fields);
        for name in PURGE_FIELDS {
            fields.remove(*name);
        }
        let _ = self.responses.try_send(Interim { status, fields });
    }
}

fn size(fields: &HeaderMap) -> usize {
    fields
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len())
        .sum()
}

/// The maximum number of interim responses per exchange.
const MAX_RESPONSES: usize = 8;

/// The maximum number of interim responses that the front thread has not received yet.
const MAX_WAITING: usize = 4;

/// The maximum size of the names and values of one response, in bytes: a few dozen links.
const MAX_BYTES: usize = 8 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use http::header::{CONNECTION, HeaderValue, LINK};

    fn hints(text: &str) -> HeaderMap {
        let mut fields = HeaderMap::new();
        fields.insert(LINK, text.parse().unwrap());
        fields
    }

    #[test]
    fn responses_and_fields_about_the_connection_are_not_forwarded() {
        let mailbox = Mailbox::default();
        let sender = mailbox.open();
        for status in [100, 101, 200] {
            sender.send(StatusCode::from_u16(status).unwrap(), &hints("</a>"));
        }
        assert!(mailbox.try_next().is_none());
        let mut fields = hints("</a>");
        fields.insert(CONNECTION, HeaderValue::from_static("x-hop"));
        fields.insert("x-hop", HeaderValue::from_static("1"));
        fields.insert("galley-purge", HeaderValue::from_static("*"));
        sender.send(StatusCode::EARLY_HINTS, &fields);
        let passed = mailbox.try_next().unwrap();
        assert_eq!(
            (passed.status, passed.fields),
            (StatusCode::EARLY_HINTS, hints("</a>"))
        );
    }

    #[test]
    fn number_and_size_are_limited() {
        let mailbox = Mailbox::default();
        let sender = mailbox.open();
        sender.send(StatusCode::EARLY_HINTS, &hints(&"x".repeat(MAX_BYTES)));
        assert!(mailbox.try_next().is_none());
        for _ in 0..=MAX_WAITING {
            sender.send(StatusCode::EARLY_HINTS, &hints("</a>"));
        }
        let waiting = std::iter::from_fn(|| mailbox.try_next()).count();
        assert_eq!(waiting, MAX_WAITING);
        let mut passed = MAX_WAITING + 1;
        loop {
            sender.send(StatusCode::PROCESSING, &HeaderMap::new());
            if mailbox.try_next().is_none() {
                break;
            }
            passed += 1;
        }
        assert_eq!(passed, MAX_RESPONSES);
    }

    #[test]
    fn an_ended_exchange_sends_nothing_to_the_next_one() {
        let mailbox = Mailbox::default();
        let before = mailbox.open();
        before.send(StatusCode::EARLY_HINTS, &hints("</a>"));
        let now = mailbox.open();
        before.send(StatusCode::EARLY_HINTS, &hints("</a>"));
        assert!(mailbox.try_next().is_none());
        now.send(StatusCode::EARLY_HINTS, &hints("</b>"));
        mailbox.close();
        assert!(mailbox.try_next().is_none());
    }
}
