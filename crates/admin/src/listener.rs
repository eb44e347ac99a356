//! Finds the site of a host when several sites share the host on different listeners.

use galley_policy::route;

use galley_request::Sites;

/// A listener, and the sites that it serves.
pub(super) struct ListenerSites {
    /// The URL with the protocol of the listener, `http://192.0.2.1:80`, or `unix:/path`.
    pub(super) url: String,
    /// The port; `None`: a socket in the file system.
    pub(super) port: Option<u16>,
    /// The sites by host. No proxy is trusted.
    pub(super) sites: Sites,
}

impl ListenerSites {
    pub(super) fn new(url: String, sites: &Sites) -> Self {
        Self {
            port: authority(&url).and_then(|authority| route::port(authority.as_bytes())),
            sites: sites.without_proxies(),
            url,
        }
    }

    /// Whether `text` names this listener: the URL, or the URL without the scheme.
    pub(super) fn is_named(&self, text: &str) -> bool {
        let text = text.trim_end_matches('/');
        text == self.url || authority(&self.url) == Some(text)
    }
}

/// The part of a URL after the scheme.
fn authority(url: &str) -> Option<&str> {
    url.split_once("://").map(|(_, authority)| authority)
}
