//! An editor who saves a post again and again, as the block editor does.

use std::time::{Duration, Instant};

use super::stage::{HOST, Stage};
use crate::TestkitError;
use crate::client::{Browser, Request};

/// Logged in.
pub(super) struct Editor {
    browser: Browser,
    key: String,
    post: String,
}

impl Editor {
    /// How long a save is waited for.
    pub(super) const TIMEOUT: Duration = Duration::from_secs(60);

    pub(super) fn log_in(stage: &Stage) -> Result<Self, TestkitError> {
        let mut browser = Browser::new(stage.addr(), HOST);
        browser.login(&stage.wordpress.user, &stage.wordpress.password)?;
        let key = browser.get("/wp-admin/admin-ajax.php?action=rest-nonce")?;
        let post = stage.wordpress.php(
            "echo wp_insert_post(['post_title' => 'Stress', 'post_content' => 'x', 'post_status' => 'publish', 'post_author' => 1]);",
        )?;
        Ok(Self {
            browser,
            key: key.text().trim().to_owned(),
            post: post.trim().to_owned(),
        })
    }

    /// How long a save took; errors say what became of it.
    pub(super) fn save(&mut self, number: u64) -> Result<Duration, String> {
        let target = format!("/wp-json/wp/v2/posts/{}", self.post);
        let body = format!("{{\"content\":\"<p>Version {number}</p>\"}}");
        let request = Request::post(&target, "application/json", body)
            .field("X-WP-Nonce", &self.key)
            .timeout(Self::TIMEOUT);
        let began = Instant::now();
        let answer = self
            .browser
            .send(request)
            .map_err(|trouble| trouble.to_string())?;
        if answer.status == 200 {
            return Ok(began.elapsed());
        }
        Err(format!("status {}", answer.status))
    }
}
