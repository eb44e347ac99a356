//! The body of `POST /why`.

use std::net::IpAddr;

use serde::Deserialize;

/// The body of a query.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WhyRequest {
    pub(super) url: String,
    #[serde(default = "get")]
    pub(super) method: String,
    #[serde(default)]
    pub(super) headers: Vec<(String, String)>,
    /// A host or a listener of the site, if the URL is ambiguous.
    #[serde(default)]
    pub(super) site: Option<String>,
    /// The address of the client; by default this machine.
    #[serde(default)]
    pub(super) client: Option<IpAddr>,
}

/// The body of a query about several URLs with the same header fields.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WhyBatch {
    pub(crate) urls: Vec<String>,
    #[serde(default)]
    headers: Vec<(String, String)>,
}

impl WhyBatch {
    /// Returns a query for each URL.
    pub(crate) fn requests(self) -> Vec<WhyRequest> {
        let headers = self.headers;
        let requests = self.urls.into_iter().map(|url| WhyRequest {
            url,
            method: get(),
            headers: headers.clone(),
            site: None,
            client: None,
        });
        requests.collect()
    }
}

fn get() -> String {
    "GET".to_owned()
}
