//! The number of requests that each worker has served, from PHP-FPM's status page, which is requested on the pool's socket like a
//! script.
//!
//! PHP-FPM replaces a worker after a number of requests that is the same for all of them, so that all would be replaced at
//! about the same time. Galley therefore replaces each worker earlier, after a number that depends on its process id
//! ([`is_worn`]). PHP-FPM's limit is the last resort.

use std::path::Path;
use std::time::Duration;

use galley_fastcgi::{FastCgiConnection, FastCgiEvent, FastCgiRequest, NoBody};
use serde_json::Value;
use tokio::net::UnixStream;
use tokio::time::timeout;

/// The process ids of workers with the number of requests that each has served; `None` if the pool does not report them in time.
pub(super) async fn requests(socket: &Path, page: &str) -> Option<Vec<(u32, u64)>> {
    let response = timeout(TIMEOUT, query(socket, page)).await.ok()??;
    read(&response)
}

/// Whether a worker has reached its limit of requests, which depends on its process id and is between [`MIN_REQUESTS`] and [`MAX_REQUESTS`].
pub(super) fn is_worn(pid: u32, requests: u64) -> bool {
    // Fibonacci hashing spreads consecutive ids; the upper half of the product is better distributed.
    let spread = u64::from(pid).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    requests >= MIN_REQUESTS + spread % (MAX_REQUESTS - MIN_REQUESTS)
}

async fn query(socket: &Path, page: &str) -> Option<Vec<u8>> {
    let variables = [
        ("REQUEST_METHOD", "GET"),
        ("SCRIPT_NAME", page),
        ("SCRIPT_FILENAME", page),
        ("QUERY_STRING", "json&full"),
    ]
    .map(|(name, value)| (name.as_bytes().into(), value.as_bytes().into()));
    let mut connection = FastCgiConnection::new(UnixStream::connect(socket).await.ok()?);
    let request = FastCgiRequest {
        variables: &variables,
        body_length: 0,
    };
    connection.send(&request).await.ok()?;
    let mut response = Vec::new();
    loop {
        match connection.event(&mut NoBody).await.ok()? {
            FastCgiEvent::Stdout(bytes) if response.len() + bytes.len() <= MAX_BYTES => {
                response.extend_from_slice(&bytes);
            }
            FastCgiEvent::Stdout(_) => return None,
            FastCgiEvent::Stderr(_) => {}
            FastCgiEvent::End(_) => return Some(response),
        }
    }
}

fn read(response: &[u8]) -> Option<Vec<(u32, u64)>> {
    let head = response.windows(4).position(|four| four == b"\r\n\r\n")?;
    let status: Value = serde_json::from_slice(response.get(head + 4..)?).ok()?;
    let processes = status.get("processes")?.as_array()?;
    let counted = processes.iter().filter_map(|process| {
        let pid = u32::try_from(process.get("pid")?.as_u64()?).ok()?;
        Some((pid, process.get("requests")?.as_u64()?))
    });
    Some(counted.collect())
}

/// Extensions and plugins leak a little memory per request; replacing the worker frees it. With this many requests per process,
/// starting a new one has no measurable cost.
const MIN_REQUESTS: u64 = 750;
const MAX_REQUESTS: u64 = 1250;

/// PHP-FPM's own limit (`pm.max_requests`). A worker reaches it only between two checks, or if the status page is not available.
pub(super) const LAST_RESORT: u64 = 1500;

const TIMEOUT: Duration = Duration::from_secs(2);

/// The maximum size of the status page. A worker needs about 500 bytes.
const MAX_BYTES: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_pages_are_parsed_and_invalid_ones_rejected() {
        let page = b"Content-Type: application/json\r\n\r\n{\"pool\":\"galley\",\"processes\":[{\"pid\":12,\"requests\":3},{\"pid\":-1},{},{\"pid\":13,\"requests\":1000}]}";
        assert_eq!(read(page), Some(vec![(12, 3), (13, 1000)]));
        for nonsense in [
            &b""[..],
            b"\r\n\r\n",
            b"\r\n\r\n[]",
            b"\r\n\r\n{\"processes\":3}",
            b"File not found.\n",
        ] {
            assert_eq!(read(nonsense), None);
        }
    }

    #[test]
    fn workers_have_different_request_limits() {
        let ends = |pid| {
            (0..=MAX_REQUESTS)
                .find(|requests| is_worn(pid, *requests))
                .unwrap_or(0)
        };
        let mut all: Vec<u64> = (5000..5032).map(ends).collect();
        assert!(
            all.iter()
                .all(|end| (MIN_REQUESTS..MAX_REQUESTS).contains(end)),
            "{all:?}"
        );
        all.sort_unstable();
        all.dedup();
        assert!(all.len() > 24, "{all:?}");
    }
}
