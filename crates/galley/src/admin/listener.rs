//! Which site a host means, when several sites share the host on different listeners.

use galley_policy::route;

use crate::request::Sites;

/// A listener, and the sites that are reached there.
pub(super) struct ListenerSites {
    /// `http://192.0.2.1:80`, with the scheme that is spoken there, or `unix:/path`.
    pub(super) url: String,
    /// `None`: a socket in the file system.
    pub(super) port: Option<u16>,
    /// By host. No proxy is trusted.
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

    /// Whether `text` names this listener: its URL, or that without the scheme.
    pub(super) fn is_named(&self, text: &str) -> bool {
        let text = text.trim_end_matches('/');
        text == self.url || authority(&self.url) == Some(text)
    }
}

/// The part of a URL behind its scheme.
fn authority(url: &str) -> Option<&str> {
    url.split_once("://").map(|(_, authority)| authority)
}
