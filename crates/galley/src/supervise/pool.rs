//! The configuration text of the managed PHP-FPM: one pool, private to Galley. Pure; values that could end a quoted
//! string or be expanded by the configuration's reader are refused, not escaped, because its reader has no escapes.

use std::fmt::Write;
use std::path::Path;

use super::StartError;

/// What the text depends on.
#[derive(Debug)]
pub(super) struct Pool<'a> {
    pub(super) socket: &'a Path,
    pub(super) workers: usize,
    /// Whom the workers run as; `None` leaves them as they are started.
    pub(super) user: Option<&'a str>,
    /// Bytes.
    pub(super) request_body: u64,
}

/// The whole file.
pub(super) fn text(pool: &Pool<'_>) -> Result<String, StartError> {
    let socket = quotable(pool.socket)?;
    let user = pool.user.map(user_name).transpose()?;
    let mut text = String::from(GLOBAL);
    let mut line = |name: &str, value: &dyn std::fmt::Display| {
        // Writing into a String cannot fail.
        let _ = writeln!(text, "{name} = {value}");
    };
    if let Some(user) = user {
        // The group is the user's own. The socket stays with who creates it, the master: that is who Galley is.
        line("user", &user);
    }
    line("listen", &format_args!("\"{socket}\""));
    line("pm.max_children", &pool.workers);
    // What Galley lets through must not fail in PHP, where the visitor would see an empty form instead of an answer.
    line("php_admin_value[post_max_size]", &pool.request_body);
    line("php_admin_value[upload_max_filesize]", &pool.request_body);
    text.push_str(POOL);
    Ok(text)
}

fn quotable(path: &Path) -> Result<&str, StartError> {
    let refused = |why| StartError::Setting {
        what: "socket path",
        value: path.display().to_string(),
        why,
    };
    let text = path.to_str().ok_or_else(|| refused("it is not UTF-8"))?;
    if text.len() > SOCKET_PATH_BYTES {
        return Err(refused(
            "it is too long for a unix socket; choose a shorter runtime directory",
        ));
    }
    if text
        .chars()
        .any(|c| c.is_control() || matches!(c, '"' | '\\' | '$'))
    {
        return Err(refused(
            "it has characters that php-fpm's configuration cannot carry",
        ));
    }
    Ok(text)
}

fn user_name(user: &str) -> Result<&str, StartError> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if user.is_empty() || user.starts_with('-') || !user.chars().all(is_plain) {
        let why = "only letters, digits, `_`, `-` and `.` make a user name";
        return Err(StartError::Setting {
            what: "user",
            value: user.to_owned(),
            why,
        });
    }
    Ok(user)
}

/// `sun_path` has 108 bytes on Linux, one for the final NUL.
const SOCKET_PATH_BYTES: usize = 107;

/// Up to the lines that depend on the site. `process_control_timeout` is what workers get for finishing their request on
/// SIGQUIT, and again on the SIGTERM that follows; `master::END_PATIENCE` is longer than both.
const GLOBAL: &str = "\
; Written by Galley at each start; changes are lost.
[global]
daemonize = no
error_log = /proc/self/fd/2
process_control_timeout = 5s

[galley]
";

/// `max_requests`: extensions and plugins leak a little per request; a worker that is replaced now and then gives it back,
/// and at a thousand requests the new process costs nothing that could be measured. The environment of Galley (tokens of
/// the service manager, say) is no business of a plugin: it stays cleared.
const POOL: &str = "\
listen.mode = 0600
pm = static
pm.max_requests = 1000
catch_workers_output = yes
decorate_workers_output = no
clear_env = yes
security.limit_extensions = .php
";

#[cfg(test)]
mod tests {
    use super::*;

    fn pool<'a>(socket: &'a str, user: Option<&'a str>) -> Pool<'a> {
        Pool {
            socket: Path::new(socket),
            workers: 8,
            user,
            request_body: 33_554_432,
        }
    }

    #[test]
    fn the_text_carries_the_settings() {
        let text = text(&pool("/run/galley/php-a/fpm.sock", Some("www-data"))).unwrap();
        let (global, galley) = text.split_once("[galley]\n").unwrap();
        assert!(global.contains("daemonize = no\n"));
        let lines: Vec<&str> = galley.lines().collect();
        assert_eq!(
            lines,
            [
                "user = www-data",
                "listen = \"/run/galley/php-a/fpm.sock\"",
                "pm.max_children = 8",
                "php_admin_value[post_max_size] = 33554432",
                "php_admin_value[upload_max_filesize] = 33554432",
                "listen.mode = 0600",
                "pm = static",
                "pm.max_requests = 1000",
                "catch_workers_output = yes",
                "decorate_workers_output = no",
                "clear_env = yes",
                "security.limit_extensions = .php",
            ]
        );
    }

    #[test]
    fn without_a_user_none_is_named() {
        assert!(!text(&pool("/run/a.sock", None)).unwrap().contains("user ="));
    }

    #[test]
    fn values_that_break_the_text_are_refused() {
        let long = format!("/run/{}", "x".repeat(103));
        for socket in [
            "/run/\"\nuser = root",
            "/run/${HOME}",
            "/run/a\\",
            "/run/a\n",
            &long,
        ] {
            assert!(
                matches!(
                    text(&pool(socket, None)),
                    Err(StartError::Setting {
                        what: "socket path",
                        ..
                    })
                ),
                "{socket}"
            );
        }
        for user in ["", "root\nuser = x", "a b", "-x", "ä", "a;b", "\"a\""] {
            assert!(
                matches!(
                    text(&pool("/run/a", Some(user))),
                    Err(StartError::Setting { what: "user", .. })
                ),
                "{user}"
            );
        }
        assert!(text(&pool(&long[..107], Some("web_1.x-y"))).is_ok());
    }
}
