//! The handle by which fetches create markers.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use galley_policy::purge::nginx_keys;
use galley_policy::request_info::RequestInfo;
use galley_policy::site::Policy;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::owner::FolderOwner;
use super::thread::{self, PutRequest};
use crate::SitePurges;
use galley_telemetry::errors::LogInterval;

/// A handle on the thread that owns the markers of a site. The thread ends with the last handle.
pub struct PageMarkers {
    requests: mpsc::Sender<PutRequest>,
    warnings: LogInterval,
    site: String,
}

impl PageMarkers {
    /// Opens the folder, purges the pages whose markers were removed while Galley was stopped, and starts the thread.
    pub fn start(
        path: &Path,
        owner: Option<FolderOwner>,
        policy: &Policy,
        purges: &Arc<SitePurges>,
    ) -> io::Result<Self> {
        let (requests, incoming) = mpsc::channel(MAX_WAITING);
        thread::start(path, owner, policy, purges, incoming)?;
        Ok(Self {
            requests,
            warnings: LogInterval::new(WARNING_EVERY_S),
            site: purges.site().to_owned(),
        })
    }

    /// Creates the markers of a request's page, so that removing them purges the page. If that fails or is slow, the page is
    /// stored all the same.
    pub async fn put(&self, info: &RequestInfo) {
        let (done, put) = oneshot::channel();
        let request = PutRequest {
            keys: nginx_keys(info),
            done,
        };
        let exchange = async {
            let sent = self.requests.send(request).await.is_ok();
            sent && put.await.unwrap_or(false)
        };
        if !timeout(PUT_TIMEOUT, exchange).await.unwrap_or(false) && self.warnings.admit() {
            tracing::warn!(
                site = self.site,
                "cannot write to `nginx_cache_path`: plugins cannot purge new pages by removing files"
            );
        }
    }
}

/// The maximum number of fetches that wait for a marker. Fewer fetches run at a time.
const MAX_WAITING: usize = 1024;

/// The timeout for a marker. It takes microseconds, unless the disk does not respond.
const PUT_TIMEOUT: Duration = Duration::from_millis(500);

const WARNING_EVERY_S: u32 = 60;
