//! One sampler for all open pages. While no page is open, the server is not queried.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::json;
use tokio::time::MissedTickBehavior;

use super::state::Dashboard;

/// Samples the server while pages are open; never ends.
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
        // In JSON, strings contain line feeds only as `\n`, and `Value` prints none outside of strings.
        let event = Bytes::from(format!("data: {value}\n\n"));
        let now = Instant::now();
        let sessions = dashboard.sessions();
        dashboard
            .live
            .send(&event, |secrets| sessions.is_open(secrets, now));
    }
}

/// The interval between two samples: short enough to watch, long enough to be cheap.
const INTERVAL: Duration = Duration::from_secs(2);
