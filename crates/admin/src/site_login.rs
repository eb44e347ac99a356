//! The sessions at the dashboards of sites, which a name and a password of the site's password file open.
//!
//! A site's sessions end when its password file changes, so a name that is removed from the file is signed out at once.

use std::collections::HashMap;
use std::io;
use std::time::Instant;

use galley_access::PasswordsStamp;
use galley_dashboard::{SessionSecrets, Sessions};
use galley_request::SiteDashboard;
use galley_sys::Lock;

/// The sessions of all sites, by their rows in the counters.
#[derive(Default)]
pub(super) struct SiteLogins(Lock<HashMap<u32, SiteSessions>>);

#[derive(Default)]
struct SiteSessions {
    /// The stamp of the password file.
    stamp: Option<PasswordsStamp>,
    sessions: Sessions,
}

impl SiteLogins {
    /// Opens a session.
    pub(super) fn open(&self, row: u32, dashboard: &SiteDashboard) -> io::Result<SessionSecrets> {
        self.with(row, dashboard, |sessions| sessions.open(Instant::now()))
    }

    /// Whether both secrets are those of an open session.
    pub(super) fn is_open(
        &self,
        row: u32,
        dashboard: &SiteDashboard,
        secrets: &SessionSecrets,
    ) -> bool {
        self.with(row, dashboard, |sessions| {
            sessions.is_open(secrets, Instant::now())
        })
    }

    /// Ends a session.
    pub(super) fn end(&self, row: u32, dashboard: &SiteDashboard, secrets: &SessionSecrets) {
        self.with(row, dashboard, |sessions| sessions.end(secrets));
    }

    fn with<T>(
        &self,
        row: u32,
        dashboard: &SiteDashboard,
        then: impl FnOnce(&mut Sessions) -> T,
    ) -> T {
        let stamp = dashboard.passwords.stamp();
        let mut sessions = self.0.lock();
        let site = sessions.entry(row).or_default();
        if site.stamp != stamp || stamp.is_none() {
            *site = SiteSessions {
                stamp,
                sessions: Sessions::default(),
            };
        }
        then(&mut site.sessions)
    }
}
