//! What a client may use of one connection: the library's settings, each with its reason.

use std::time::Duration;

use galley_http::head::MAX_FIELDS;
use h2::server::Builder;

use crate::server::ClientLimits;

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

/// Every head that `head_size` permits has room, though HTTP/2 counts 32 bytes more for each field (RFC 9113 section 6.5.2);
/// the library answers a larger one with 431, and one that is four times as large ends the connection.
pub(super) fn header_list(head_bytes: usize) -> u32 {
    let all = head_bytes.saturating_add((MAX_FIELDS + 4) * 32);
    u32::try_from(all).unwrap_or(u32::MAX)
}

/// Requests at one time (RFC 9113 section 6.5.2 advises 100 at least). Another is refused, to be sent again later.
const STREAMS: u32 = 100;

/// The least that there may be: larger frames of one stream would keep others waiting.
const FRAME: u32 = 16 * 1024;

/// What a client may send of a request body before Galley has read it. Bodies are read as fast as the disk allows.
const STREAM_WINDOW: u32 = 128 * 1024;

/// The same for all bodies of a connection together, so also their memory.
const CONNECTION_WINDOW: u32 = 256 * 1024;

/// What of an answer waits inside the library for its client to take it.
pub(super) const SEND_BUFFER: usize = 64 * 1024;

/// Streams that were reset and whose late frames are still known to be late.
const RESETS_REMEMBERED: usize = 50;

/// For how long.
const RESETS_REMEMBERED_FOR: Duration = Duration::from_secs(1);

/// Requests that are reset before we have so much as looked at them.
const RESETS_AHEAD: usize = 20;

/// Streams that a client makes us reset, in the connection's whole life.
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
