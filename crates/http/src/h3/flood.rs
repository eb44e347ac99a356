//! Counts what a client causes without purpose on one connection, as `http2::flood` of the server does for HTTP/2.
//!
//! There are two allowances. One is spent by resets: requests that the client cancels (CVE-2023-44487), and streams that a
//! client makes Galley reset. The other is spent by frames without use: those of unknown types, priorities, settings, small or
//! empty DATA frames, instructions for a dynamic table that does not exist, and by field
//! sections of which not everything has arrived, by their bytes. Useful work refills the second, time both. A
//! connection that overdraws one ends with `H3_EXCESSIVE_LOAD`.

use super::code::{H3Code, H3Error};
use crate::token_bucket::{Rate, TokenBucket};

/// The detector of one connection.
#[derive(Debug)]
pub struct H3Flood {
    resets: TokenBucket,
    idle: TokenBucket,
    now_ms: u64,
    is_overdrawn: bool,
}

impl H3Flood {
    /// A detector for a connection that begins at `now_ms`, on any clock that never goes back.
    pub fn new(now_ms: u64) -> Self {
        Self {
            resets: TokenBucket::new(RESETS, now_ms),
            idle: TokenBucket::new(IDLE_FRAMES, now_ms),
            now_ms,
            is_overdrawn: false,
        }
    }

    /// Sets the time of what follows. Once for each batch of datagrams is enough.
    pub fn set_time(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
    }

    /// Whether an allowance was overdrawn: the connection has to end.
    pub fn is_overdrawn(&self) -> bool {
        self.is_overdrawn
    }

    /// Counts a stream that either side has reset or stopped early.
    pub fn reset(&mut self) -> Result<(), H3Error> {
        self.take_resets(1)
    }

    /// Counts streams whose responses the client requested and did not read: they hold memory for a long time.
    pub fn starve(&mut self, streams: u32) -> Result<(), H3Error> {
        self.take_resets(streams.saturating_mul(STARVED_COST))
    }

    /// Counts useful output: a DATA frame with `bytes` of a response.
    pub fn sent(&mut self, bytes: usize) {
        if bytes as u64 >= MIN_DATA {
            self.idle.add(2);
        }
    }

    /// Counts a request.
    pub(super) fn request(&mut self) {
        self.idle.add(REQUEST_REFILL);
    }

    /// Gives tokens of [`Self::idle`] back.
    pub(super) fn refund(&mut self, tokens: u32) {
        self.idle.add(tokens);
    }

    /// Counts a DATA frame of the client. Small ones are without use.
    pub(super) fn data(&mut self, bytes: u64) -> Result<(), H3Error> {
        if bytes >= MIN_DATA {
            self.idle.add(1);
            return Ok(());
        }
        self.idle(1)
    }

    /// Counts a frame, a stream or an instruction without use.
    pub fn idle(&mut self, cost: u32) -> Result<(), H3Error> {
        let has_tokens = self.idle.take(cost, self.now_ms);
        self.judge(has_tokens)
    }

    fn take_resets(&mut self, cost: u32) -> Result<(), H3Error> {
        let has_tokens = self.resets.take(cost, self.now_ms);
        self.judge(has_tokens)
    }

    fn judge(&mut self, has_tokens: bool) -> Result<(), H3Error> {
        self.is_overdrawn |= !has_tokens;
        if self.is_overdrawn {
            return Err(H3Error::Connection(H3Code::ExcessiveLoad));
        }
        Ok(())
    }
}

/// As over HTTP/2: a browser that leaves a page resets its requests in progress.
const RESETS: Rate = Rate {
    most: 200,
    per_s: 5,
};

/// A browser begins with a few frames of reserved types and a priority for each request.
const IDLE_FRAMES: Rate = Rate {
    most: 1000,
    per_s: 20,
};

/// The minimum length of a useful DATA frame, in bytes.
const MIN_DATA: u64 = 256;

/// A request is accompanied by a priority, a frame of a reserved type and a small last DATA frame.
pub(super) const REQUEST_REFILL: u32 = 4;

/// A paused player starves one stream, and does not start twenty within a minute.
const STARVED_COST: u32 = 10;
