//! The question of `POST /why`.

use std::net::IpAddr;

use serde::Deserialize;

/// The question.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::admin) struct WhyRequest {
    pub(super) url: String,
    #[serde(default = "get")]
    pub(super) method: String,
    #[serde(default)]
    pub(super) headers: Vec<(String, String)>,
    /// One of the site's hosts or one of its listeners, where the URL alone is ambiguous.
    #[serde(default)]
    pub(super) site: Option<String>,
    /// The client; by default this machine.
    #[serde(default)]
    pub(super) client: Option<IpAddr>,
}

/// Several URLs with the same fields.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::admin) struct WhyBatch {
    pub(in crate::admin) urls: Vec<String>,
    #[serde(default)]
    headers: Vec<(String, String)>,
}

impl WhyBatch {
    /// A question for each.
    pub(in crate::admin) fn requests(self) -> Vec<WhyRequest> {
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
