//! The text of the configuration for the managed PHP-FPM: one pool, private to Galley. Pure. Values that could end a quoted string
//! or be expanded by PHP-FPM's parser are rejected, not escaped, because the parser has no escapes.

use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use super::PhpStartError;
use super::counted::LAST_RESORT;
use super::watch::PoolSizing;

/// The input for the text.
#[derive(Debug)]
pub(super) struct PoolConfig<'a> {
    pub(super) socket: &'a Path,
    pub(super) reach: SocketAccess,
    pub(super) size: PoolSizing,
    /// The maximum number of workers if their size is measured.
    pub(super) ceiling: usize,
    /// The path of the status page: a name that no script has and that cannot be guessed.
    pub(super) page: &'a str,
    /// The user of the workers; `None`: the user who starts them.
    pub(super) user: Option<&'a str>,
    /// The maximum size of a request body, in bytes.
    pub(super) request_body: u64,
    /// The memory limit of one script, in bytes.
    pub(super) memory_limit: u64,
    /// The time limit until the first byte of the response.
    pub(super) first_byte_timeout: Duration,
    /// The time limit for the whole request.
    pub(super) timeout: Duration,
}

/// Which users may connect to the socket, by its mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SocketAccess {
    /// Only Galley's user, who also runs the master that creates the socket.
    Owner,
    /// Any user: the folder around the socket restricts access.
    Folder,
}

/// The text of the whole file.
pub(super) fn text(pool: &PoolConfig<'_>) -> Result<String, PhpStartError> {
    let socket = quotable(pool.socket)?;
    let user = pool.user.map(user_name).transpose()?;
    let mut text = String::from(GLOBAL);
    let mut line = |name: &str, value: &dyn std::fmt::Display| {
        // Writing into a String cannot fail.
        let _ = writeln!(text, "{name} = {value}");
    };
    if let Some(user) = user {
        // The group is that of the user. The socket belongs to the master that creates it: Galley's user.
        line("user", &user);
    }
    line("listen", &format_args!("\"{socket}\""));
    match pool.size {
        PoolSizing::Named(workers) => {
            line("pm", &"static");
            line("pm.max_children", &workers);
        }
        // A worker starts when a request finds no idle one, and ends after being idle for a while: an idle site uses no
        // memory, and a lower limit of slots soon reduces the number of workers.
        PoolSizing::Measured => {
            line("pm", &"ondemand");
            line("pm.max_children", &pool.ceiling);
            line("pm.process_idle_timeout", &"10s");
        }
    }
    line("pm.max_requests", &LAST_RESORT);
    line("pm.status_path", &pool.page);
    // Rounded up to whole seconds, so that PHP-FPM never ends a request before Galley's own deadline.
    let seconds = |time: Duration| time.as_millis().div_ceil(1000);
    line(
        "request_terminate_timeout",
        &format_args!("{}s", seconds(pool.timeout)),
    );
    // PHP must accept every body that Galley accepts; otherwise the visitor would see an empty form instead of an error.
    line("php_admin_value[post_max_size]", &pool.request_body);
    line("php_admin_value[upload_max_filesize]", &pool.request_body);
    line("php_admin_value[memory_limit]", &pool.memory_limit);
    // CPU time. WordPress raises the limit during updates, which is permitted.
    line(
        "php_value[max_execution_time]",
        &seconds(pool.first_byte_timeout),
    );
    let mode = match pool.reach {
        SocketAccess::Owner => "0600",
        SocketAccess::Folder => "0666",
    };
    line("listen.mode", &mode);
    text.push_str(POOL);
    Ok(text)
}

/// Settings that PHP-FPM needs before it reads the file, because its master creates the opcode cache: `-d` arguments, which
/// override `php.ini`. `opcache` is in bytes.
pub(super) fn arguments(opcache: u64) -> Vec<String> {
    let megabytes = opcache >> 20;
    // The table of scripts needs about 200 bytes per script. WordPress alone has 1,000 scripts, a shop with fifty plugins 15,000.
    let scripts = (megabytes * 125).clamp(4_000, 32_000);
    let settings = [
        ("opcache.enable", 1),
        ("opcache.memory_consumption", megabytes),
        // A part of the opcode cache: names and texts that scripts have in common.
        (
            "opcache.interned_strings_buffer",
            (megabytes / 8).clamp(4, 32),
        ),
        ("opcache.max_accelerated_files", scripts),
        // Compiling to machine code does not help WordPress, which waits for its database, and needs extra memory.
        ("opcache.jit_buffer_size", 0),
        // In each worker: caches about 7,000 paths for two minutes.
        ("realpath_cache_size", 2 << 20),
        ("realpath_cache_ttl", 120),
    ];
    settings
        .iter()
        .flat_map(|(name, value)| ["-d".to_owned(), format!("{name}={value}")])
        .collect()
}

fn quotable(path: &Path) -> Result<&str, PhpStartError> {
    let refused = |why| PhpStartError::Setting {
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
            "it has characters that are not allowed in php-fpm's configuration",
        ));
    }
    Ok(text)
}

fn user_name(user: &str) -> Result<&str, PhpStartError> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if user.is_empty() || user.starts_with('-') || !user.chars().all(is_plain) {
        let why = "a user name has only letters, digits, `_`, `-` and `.`";
        return Err(PhpStartError::Setting {
            what: "user",
            value: user.to_owned(),
            why,
        });
    }
    Ok(user)
}

/// The maximum length of a socket path: `sun_path` has 108 bytes on Linux, including the final NUL.
const SOCKET_PATH_BYTES: usize = 107;

/// The start of the text, up to the lines that depend on the site. `process_control_timeout` is the time for workers to
/// finish their request after SIGQUIT, and again after the SIGTERM that follows; `master::END_TIMEOUT` is longer than both.
const GLOBAL: &str = "\
; Written by Galley at each start; changes are lost.
[global]
daemonize = no
error_log = /proc/self/fd/2
process_control_timeout = 5s

[galley]
";

/// Galley's environment (tokens of the service manager, for example) must not reach a plugin, so it is cleared.
///
/// `track_finished` (PHP 7.3): scheduled tasks, which WordPress starts after its response, can hang as well as pages.
const POOL: &str = "\
request_terminate_timeout_track_finished = yes
catch_workers_output = yes
decorate_workers_output = no
clear_env = yes
security.limit_extensions = .php
";

#[cfg(test)]
mod tests {
    use super::*;

    fn pool<'a>(socket: &'a str, user: Option<&'a str>) -> PoolConfig<'a> {
        PoolConfig {
            socket: Path::new(socket),
            reach: SocketAccess::Owner,
            size: PoolSizing::Measured,
            ceiling: 8,
            page: "/galley-status-1",
            user,
            request_body: 33_554_432,
            memory_limit: 134_217_728,
            first_byte_timeout: Duration::from_millis(1_500),
            timeout: Duration::from_secs(300),
        }
    }

    #[test]
    fn the_configuration_contains_the_settings() {
        let text = text(&pool("/run/galley/php-a/fpm.sock", Some("www-data"))).unwrap();
        let (global, galley) = text.split_once("[galley]\n").unwrap();
        assert!(global.contains("daemonize = no\n"));
        let lines: Vec<&str> = galley.lines().collect();
        assert_eq!(
            lines,
            [
                "user = www-data",
                "listen = \"/run/galley/php-a/fpm.sock\"",
                "pm = ondemand",
                "pm.max_children = 8",
                "pm.process_idle_timeout = 10s",
                "pm.max_requests = 1500",
                "pm.status_path = /galley-status-1",
                "request_terminate_timeout = 300s",
                "php_admin_value[post_max_size] = 33554432",
                "php_admin_value[upload_max_filesize] = 33554432",
                "php_admin_value[memory_limit] = 134217728",
                "php_value[max_execution_time] = 2",
                "listen.mode = 0600",
                "request_terminate_timeout_track_finished = yes",
                "catch_workers_output = yes",
                "decorate_workers_output = no",
                "clear_env = yes",
                "security.limit_extensions = .php",
            ]
        );
    }

    #[test]
    fn a_configured_number_of_workers_is_static() {
        let mut named = pool("/run/a.sock", None);
        named.size = PoolSizing::Named(3);
        let text = text(&named).unwrap();
        assert!(
            text.contains("pm = static\npm.max_children = 3\npm.max_requests"),
            "{text}"
        );
    }

    #[test]
    fn the_opcode_cache_size_follows_the_budget() {
        for (mib, strings, scripts) in [(32, 4, 4000), (103, 12, 12_875), (256, 32, 32_000)] {
            let all = arguments(mib << 20).join(" ");
            for wanted in [
                "-d opcache.enable=1 ".to_owned(),
                format!("opcache.memory_consumption={mib} "),
                format!("opcache.interned_strings_buffer={strings} "),
                format!("opcache.max_accelerated_files={scripts} "),
            ] {
                assert!(all.contains(&wanted), "{wanted} in {all}");
            }
        }
    }

    #[test]
    fn without_a_user_the_configuration_has_none() {
        assert!(!text(&pool("/run/a.sock", None)).unwrap().contains("user ="));
    }

    #[test]
    fn a_socket_in_a_restricted_folder_is_open_to_all_users() {
        let mut other = pool("/run/a.sock", None);
        other.reach = SocketAccess::Folder;
        assert!(text(&other).unwrap().contains("listen.mode = 0666\n"));
    }

    #[test]
    fn values_that_break_the_configuration_are_rejected() {
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
                    Err(PhpStartError::Setting {
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
                    Err(PhpStartError::Setting { what: "user", .. })
                ),
                "{user}"
            );
        }
        assert!(text(&pool(&long[..107], Some("web_1.x-y"))).is_ok());
    }
}
