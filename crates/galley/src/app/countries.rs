//! Reads the country database again when it changes, and determines which features besides access control need it.

use std::sync::{Arc, Weak};
use std::time::Duration;

use galley_config::{Config, KnownField, LogField};
use tokio::task::{JoinSet, spawn_blocking};

use galley_access::Countries;

/// Checks the file at intervals until the result is dropped. Must be called within a runtime.
pub(super) fn watch(countries: Option<&Arc<Countries>>) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    if let Some(countries) = countries {
        tasks.spawn(check(Arc::downgrade(countries)));
    }
    tasks
}

async fn check(countries: Weak<Countries>) {
    loop {
        tokio::time::sleep(CHECK_INTERVAL).await;
        let Some(countries) = countries.upgrade() else {
            return;
        };
        if spawn_blocking(move || countries.refresh()).await.is_err() {
            tracing::error!("reading the database of countries ended in a panic");
        }
    }
}

/// The country database, if the access log has a field for the country.
pub(super) fn for_logs(
    config: &Config,
    countries: Option<&Arc<Countries>>,
) -> Option<Arc<Countries>> {
    let country = LogField::Known(KnownField::Country);
    countries
        .filter(|_| config.log.fields.contains(&country))
        .cloned()
}

/// The interval between two checks. A check reads the file's metadata once.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);
