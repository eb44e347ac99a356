//! Closes a connection: gracefully, so that the last response arrives, or with a reset.

use std::time::Duration;

use tokio::io::AsyncWriteExt;

use super::io::ClientConnection;

impl ClientConnection {
    /// Closes a connection without a request in progress.
    pub(super) fn part(mut self) {
        self.stream.send_close_notify();
        self.return_buffers();
    }

    /// Closes the connection with a reset. An incomplete response must not look complete to a client that detects its end
    /// by the end of the connection, and a client that has disconnected needs no graceful close.
    pub(super) fn reset(self) {
        self.stream.reset_at_end();
    }

    /// Whether the connection of a client that requested `Connection: close`, and so sends nothing more (RFC 9112 section 9.6), may be
    /// closed at once because nothing is unread. Saves a half-close, a read and a wait.
    pub(super) fn may_close_at_once(&self) -> bool {
        let is_unread = !self.input.is_empty() || self.stream.has_unread();
        !is_unread && self.stream.is_plain()
    }

    /// Closes the connection so that the last response arrives: half-closes, then reads on for a moment, because closing with
    /// unread bytes makes the kernel send a reset that can overtake the response.
    pub(super) async fn lingering_close(mut self) {
        let deadline = self.timer.deadline(LINGER);
        // Over TLS this writes the close notification, which a client that reads nothing could delay forever.
        let ending = self.stream.shutdown();
        if !matches!(self.timer.before(deadline, ending).await, Ok(Ok(()))) {
            return;
        }
        let mut drained = 0;
        while drained < LINGER_BYTES {
            self.input.clear();
            if self.fill_before(deadline).await.is_err() {
                return;
            }
            drained += self.input.len();
        }
    }
}

/// How long unread bytes are drained on closing.
const LINGER: Duration = Duration::from_secs(1);

/// Maximum number of drained bytes.
const LINGER_BYTES: usize = 256 * 1024;
