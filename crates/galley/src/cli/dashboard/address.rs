//! The address of the dashboard, and the hosts and origins that a browser may send for it.

use std::net::SocketAddr;

/// The loopback address on which the dashboard listens.
#[derive(Clone, Copy, Debug)]
pub(super) struct DashboardAddress(SocketAddr);

impl DashboardAddress {
    pub(super) fn new(bound: SocketAddr) -> Self {
        Self(bound)
    }

    /// The URL with a login token after `#`: browsers never send that part, and no log contains it.
    pub(super) fn login(self, token: &str) -> String {
        format!("http://{}/#login={token}", self.0)
    }

    /// Whether `Host` names this listener. Rejects other names that resolve to this machine (DNS rebinding).
    fn is_host(self, host: &str) -> bool {
        let port = self.0.port();
        host == self.0.to_string() || host == format!("localhost:{port}")
    }

    /// The origin of this listener's pages under `host`; `None` if `host` is not a name of this listener.
    pub(super) fn origin(self, host: &str) -> Option<String> {
        self.is_host(host).then(|| format!("http://{host}"))
    }

    /// The name of the session cookie. It contains the port, because browsers send cookies to all ports of a host, and two
    /// dashboards may run.
    pub(super) fn cookie(self) -> String {
        format!("galley-dashboard-{}", self.0.port())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_origins_are_those_of_the_listener() {
        let address = DashboardAddress::new("127.0.0.1:8078".parse().unwrap());
        for host in ["127.0.0.1:8078", "localhost:8078"] {
            let origin = address.origin(host);
            assert_eq!(origin, Some(format!("http://{host}")), "{host}");
        }
        for host in [
            "",
            "127.0.0.1",
            "127.0.0.1:80",
            "localhost",
            "evil.test:8078",
            "127.0.0.1:8078.evil.test",
            "localhost.:8078",
        ] {
            assert_eq!(address.origin(host), None, "{host}");
        }
    }
}
