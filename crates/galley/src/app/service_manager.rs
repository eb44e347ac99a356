//! Notifications to systemd, if it has started Galley (`sd_notify(3)`).

use sd_notify::NotifyState;

/// Reports that this process serves.
pub(super) fn ready() {
    notify(&[NotifyState::Ready]);
}

/// Reports that another process is the service from now on.
pub(super) fn replaced_by(pid: u32) {
    notify(&[NotifyState::MainPid(pid), NotifyState::Ready]);
}

fn notify(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!(%error, "cannot notify the service manager");
    }
}
