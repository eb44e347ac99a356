//! The limits of one connection: the library's settings, each with its reason.

use std::time::Duration;

use galley_http::head::MAX_FIELDS;
use h2::server::Builder;

use crate::ClientLimits;

/// A builder with every limit set.
pub(super) fn builder(limits: &ClientLimits) -> Builder {
    let mut builder = Builder::new();
    builder
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(header_list(limits.head_bytes))
        .max_frame_size(FRAME)
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buffer_size(SEND_BUFFER)
        .max_concurrent_reset_streams(RESETS_REMEMBERED)
        .reset_stream_duration(RESETS_REMEMBERED_FOR)
        .max_pending_accept_reset_streams(RESETS_AHEAD)
        .max_local_error_reset_streams(Some(ERRORS));
    builder
}

/// The header list size for every head that `head_size` permits, though HTTP/2 counts 32 bytes more for each field (RFC 9113
/// section 6.5.2). The library answers a larger head with 431, and one that is four times as large ends the connection.
pub(crate) fn header_list(head_bytes: usize) -> u32 {
    let all = head_bytes.saturating_add((MAX_FIELDS + 4) * 32);
    u32::try_from(all).unwrap_or(u32::MAX)
}

/// The maximum number of concurrent requests (RFC 9113 section 6.5.2 advises 100 at least). More are refused; the client may send
/// them again later.
const STREAMS: u32 = 100;

/// The smallest permitted frame size: larger frames of one stream would delay others.
const FRAME: u32 = 16 * 1024;

/// The bytes of a request body that a client may send before Galley has read them. Bodies are read as fast as the disk permits.
const STREAM_WINDOW: u32 = 128 * 1024;

/// The same limit for all bodies of a connection together, which also limits their memory.
const CONNECTION_WINDOW: u32 = 256 * 1024;

/// The bytes of a response that wait inside the library for its client.
pub(super) const SEND_BUFFER: usize = 64 * 1024;

/// The maximum number of reset streams whose late frames are still recognized.
const RESETS_REMEMBERED: usize = 50;

/// The time for which late frames of reset streams are recognized.
const RESETS_REMEMBERED_FOR: Duration = Duration::from_secs(1);

/// The maximum number of requests that the client resets before Galley has accepted them.
const RESETS_AHEAD: usize = 20;

/// The maximum number of streams on a connection that Galley resets because of errors of the client.
const ERRORS: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_within_its_limit_fits_the_header_list() {
        let fields = [100, 32 * 1024 - 100].map(|bytes| bytes + 32);
        assert!(fields.iter().sum::<usize>() < usize::try_from(header_list(32 * 1024)).unwrap());
        assert_eq!(header_list(usize::MAX), u32::MAX);
    }
}
