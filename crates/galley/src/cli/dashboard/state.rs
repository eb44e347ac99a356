//! The state of a running dashboard: its address, its connection to the admin interface, open pages and sessions.

use std::sync::MutexGuard;
use std::time::Instant;

use axum::http::HeaderMap;

use super::address::DashboardAddress;
use super::forward::AdminGateway;
use super::live::LivePages;
use galley_dashboard::{SessionSecrets, Sessions, secrets};
use galley_sys::Lock;

/// The state that the handlers share.
pub(super) struct Dashboard {
    pub(super) address: DashboardAddress,
    pub(super) gateway: AdminGateway,
    pub(super) live: LivePages,
    sessions: Lock<Sessions>,
}

impl Dashboard {
    pub(super) fn new(address: DashboardAddress, gateway: AdminGateway) -> Self {
        Self {
            address,
            gateway,
            live: LivePages::default(),
            sessions: Lock::default(),
        }
    }

    pub(super) fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock()
    }

    /// The secrets of a request whose session is open.
    pub(super) fn session(&self, fields: &HeaderMap) -> Option<SessionSecrets> {
        let secrets = secrets(&self.address.cookie(), fields)?;
        let is_open = self.sessions().is_open(&secrets, Instant::now());
        is_open.then_some(secrets)
    }
}
