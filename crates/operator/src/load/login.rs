//! The cookies of a logged-in visitor: from a file, or from WordPress after a login with a password.

use std::path::Path;

use bytes::Bytes;
use galley_certs::file::read_text;
use http::{Request, header};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::fetcher::SiteFetcher;
use super::options::LoadOptions;

/// The `Cookie` field for logged-in requests; empty if there are none.
pub(super) fn cookie(options: &LoadOptions, fetcher: &SiteFetcher<'_>) -> Result<String, String> {
    if options.logged_in <= 0.0 {
        return Ok(String::new());
    }
    if let Some(path) = &options.cookie_file {
        let text = secret(path)?;
        return Ok(text
            .strip_prefix("Cookie:")
            .unwrap_or(&text)
            .trim()
            .to_owned());
    }
    match (&options.user, &options.password_file) {
        (Some(user), Some(path)) => log_in(user, &secret(path)?, fetcher),
        _ => Ok(String::new()),
    }
}

fn secret(path: &Path) -> Result<String, String> {
    let text =
        read_text(path, MAX_BYTES).map_err(|error| format!("`{}`: {error}", path.display()))?;
    Ok(text.trim().to_owned())
}

/// Logs in like the form of wp-login.php.
fn log_in(user: &str, password: &str, fetcher: &SiteFetcher<'_>) -> Result<String, String> {
    let [log, pwd] = [user, password].map(|text| utf8_percent_encode(text, NON_ALPHANUMERIC));
    let form = format!("log={log}&pwd={pwd}&wp-submit=Log+In&testcookie=1&rememberme=forever");
    let request = Request::post("/wp-login.php")
        .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
        .header(header::COOKIE, "wordpress_test_cookie=WP%20Cookie%20check");
    let page = fetcher.fetch(request, Bytes::from(form))?;
    let set = page.fields.get_all(header::SET_COOKIE).iter();
    let cookies: Vec<&str> = set
        .filter_map(|value| value.to_str().ok()?.split(';').next())
        .map(str::trim)
        .filter(|pair| pair.starts_with("wordpress"))
        .collect();
    let is_login = |pair: &&str| pair.starts_with("wordpress_logged_in_");
    if !cookies.iter().any(is_login) {
        return Err(format!(
            "WordPress did not log `{user}` in (status {}): check the user and the password file",
            page.status
        ));
    }
    Ok(cookies.join("; "))
}

const MAX_BYTES: u64 = 64 * 1024;
