//! An editor who saves a post again and again, as the block editor does.

use std::time::{Duration, Instant};

use super::site::{HOST, StressSite};
use crate::TestkitError;
use crate::client::{Browser, Request};

/// A logged-in editor with a post.
pub(super) struct Editor {
    browser: Browser,
    nonce: String,
    post: String,
}

impl Editor {
    /// For one save.
    pub(super) const TIMEOUT: Duration = Duration::from_secs(60);

    pub(super) fn log_in(site: &StressSite) -> Result<Self, TestkitError> {
        let mut browser = Browser::new(site.addr(), HOST);
        browser.login(&site.wordpress.user, &site.wordpress.password)?;
        let nonce = browser.get("/wp-admin/admin-ajax.php?action=rest-nonce")?;
        let post = site.wordpress.php(
            "echo wp_insert_post(['post_title' => 'Stress', 'post_content' => 'x', 'post_status' => 'publish', 'post_author' => 1]);",
        )?;
        Ok(Self {
            browser,
            nonce: nonce.text().trim().to_owned(),
            post: post.trim().to_owned(),
        })
    }

    /// Saves the post; returns the time that it took, or why it failed.
    pub(super) fn save(&mut self, number: u64) -> Result<Duration, String> {
        let target = format!("/wp-json/wp/v2/posts/{}", self.post);
        let body = format!("{{\"content\":\"<p>Version {number}</p>\"}}");
        let request = Request::post(&target, "application/json", body)
            .field("X-WP-Nonce", &self.nonce)
            .timeout(Self::TIMEOUT);
        let started = Instant::now();
        let response = self
            .browser
            .send(request)
            .map_err(|error| error.to_string())?;
        if response.status == 200 {
            return Ok(started.elapsed());
        }
        Err(format!("status {}", response.status))
    }
}
