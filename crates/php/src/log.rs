//! Reads PHP-FPM's own log (its stderr): each line is logged by Galley at the same level, and the last few are kept to
//! explain why a start failed. Workers that were killed after their deadline are counted, and logged with the name of the
//! script. Messages of scripts are received over FastCGI with the response, not here.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

use super::numbers::{PoolNumbers, count};
use galley_sys::Lock;

/// The last lines of a program's output.
#[derive(Clone, Debug, Default)]
pub(super) struct RecentLines {
    lines: Arc<Lock<VecDeque<String>>>,
}

impl RecentLines {
    /// All lines as one, the oldest first.
    pub(super) fn text(&self) -> String {
        let lines = self.lines.lock();
        if lines.is_empty() {
            return "it printed nothing".to_owned();
        }
        lines
            .iter()
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join("; ")
    }

    fn push(&self, line: String) {
        let mut lines = self.lines.lock();
        if lines.len() == KEPT_LINES {
            lines.pop_front();
        }
        lines.push_back(line);
    }
}

/// The source of the lines.
#[derive(Clone, Debug)]
pub(super) struct LogSource {
    pub(super) site: String,
    /// The program's name.
    pub(super) program: String,
    pub(super) numbers: Arc<PoolNumbers>,
}

/// Logs the lines until the last process has closed the pipe.
pub(super) async fn forward(pipe: impl AsyncRead + Unpin, source: LogSource, recent: RecentLines) {
    let mut pipe = BufReader::new(pipe);
    let mut line = Vec::new();
    loop {
        // The length of a line is limited: a longer line continues in pieces.
        let (taken, is_whole) = match pipe.fill_buf().await {
            Ok([]) | Err(_) => break,
            Ok(bytes) => {
                let bytes = bytes
                    .get(..LINE_BYTES.saturating_sub(line.len()))
                    .unwrap_or(bytes);
                let end = bytes.iter().position(|&byte| byte == b'\n');
                line.extend_from_slice(end.and_then(|end| bytes.get(..end)).unwrap_or(bytes));
                match end {
                    Some(end) => (end + 1, true),
                    None => (bytes.len(), line.len() >= LINE_BYTES),
                }
            }
        };
        pipe.consume(taken);
        if is_whole {
            pass_on(&line, &source, &recent);
            line.clear();
        }
    }
    if !line.is_empty() {
        pass_on(&line, &source, &recent);
    }
}

fn pass_on(line: &[u8], source: &LogSource, recent: &RecentLines) {
    let text = String::from_utf8_lossy(line);
    let entry = parse(&text);
    let LogSource {
        site,
        program,
        numbers,
    } = source;
    if let Some(KilledRequest { script, request }) = overdue(entry.message) {
        count(&numbers.overdue);
        tracing::warn!(
            site,
            script,
            request,
            "{program}: a request exceeded `php_timeout`, so its worker was ended"
        );
        return;
    }
    match entry.level {
        FpmLevel::Error => tracing::error!(site, "{program}: {}", entry.message),
        FpmLevel::Warning => tracing::warn!(site, "{program}: {}", entry.message),
        FpmLevel::Notice => tracing::debug!(site, "{program}: {}", entry.message),
    }
    if entry.level != FpmLevel::Notice {
        recent.push(entry.message.to_owned());
    }
}

/// The request of a worker that PHP-FPM has killed.
#[derive(Debug, PartialEq, Eq)]
struct KilledRequest<'a> {
    script: &'a str,
    /// The method and the path.
    request: &'a str,
}

/// Parses `[pool a] child 1, script '/x.php' (request: "GET /x.php") execution timed out (2.1 sec), terminating`: the wording of
/// `fpm_request_check_timed_out` since PHP 5.4.
fn overdue(message: &str) -> Option<KilledRequest<'_>> {
    let (rest, _) = message.rsplit_once("\") execution timed out (")?;
    let (_, rest) = rest.split_once(", script '")?;
    let (script, request) = rest.split_once("' (request: \"")?;
    Some(KilledRequest { script, request })
}

/// One line, `[date] LEVEL: message`. A line with another format is a warning as a whole.
#[derive(Debug, PartialEq, Eq)]
struct FpmLogLine<'a> {
    level: FpmLevel,
    message: &'a str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FpmLevel {
    Error,
    Warning,
    /// Starts and ends of processes, which Galley reports itself.
    Notice,
}

fn parse(line: &str) -> FpmLogLine<'_> {
    let whole = FpmLogLine {
        level: FpmLevel::Warning,
        message: line.trim(),
    };
    let Some((_, rest)) = line
        .strip_prefix('[')
        .and_then(|line| line.split_once("] "))
    else {
        return whole;
    };
    let Some((level, message)) = rest.split_once(": ") else {
        return whole;
    };
    let level = match level {
        "ALERT" | "ERROR" => FpmLevel::Error,
        "WARNING" => FpmLevel::Warning,
        "NOTICE" | "DEBUG" => FpmLevel::Notice,
        _ => return whole,
    };
    FpmLogLine {
        level,
        message: message.trim(),
    }
}

const KEPT_LINES: usize = 5;

/// The maximum length of a line. PHP-FPM itself truncates its lines at 1,024 bytes.
const LINE_BYTES: usize = 8 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_levels_are_parsed() {
        for (line, level, message) in [
            (
                "[21-Nov-2026 07:56:32] NOTICE: fpm is running, pid 1",
                FpmLevel::Notice,
                "fpm is running, pid 1",
            ),
            (
                "[21-Nov-2026 07:56:32] ERROR: FPM initialization failed",
                FpmLevel::Error,
                "FPM initialization failed",
            ),
            (
                "[21-Nov-2026 07:56:32] ALERT: [pool a] x: y",
                FpmLevel::Error,
                "[pool a] x: y",
            ),
            (
                "[21-Nov-2026 07:56:32] WARNING: a\r",
                FpmLevel::Warning,
                "a",
            ),
            (
                "[21-Nov-2026 07:56:32] OTHER: a",
                FpmLevel::Warning,
                "[21-Nov-2026 07:56:32] OTHER: a",
            ),
            (
                "error while loading shared libraries: x",
                FpmLevel::Warning,
                "error while loading shared libraries: x",
            ),
            ("", FpmLevel::Warning, ""),
        ] {
            assert_eq!(parse(line), FpmLogLine { level, message });
        }
    }

    #[test]
    fn killed_workers_are_reported_with_their_script() {
        let line = r#"[pool galley] child 12332, script '/r/it's hang.php' (request: "GET /hang.php?a=") execution timed out (2.1 sec), terminating"#;
        let seen = KilledRequest {
            script: "/r/it's hang.php",
            request: "GET /hang.php?a=",
        };
        assert_eq!(overdue(line), Some(seen));
        for other in [
            "",
            "[pool galley] child 12332 exited on signal 15 (SIGTERM) after 4.6 seconds from start",
            r#"") execution timed out ("#,
            r#", script '/a" ") execution timed out (2"#,
        ] {
            assert_eq!(overdue(other), None, "{other}");
        }
    }

    #[tokio::test]
    async fn long_lines_are_cut_and_the_last_ones_kept() {
        let recent = RecentLines::default();
        assert_eq!(recent.text(), "it printed nothing");
        let mut log = vec![b'x'; LINE_BYTES + 10];
        log.extend_from_slice(b"\n[now] NOTICE: left out\none\ntwo\nthree\nfour");
        let source = LogSource {
            site: "site".to_owned(),
            program: "php-fpm".to_owned(),
            numbers: Arc::new(PoolNumbers::new(1, 0)),
        };
        forward(&log[..], source, recent.clone()).await;
        assert_eq!(
            recent.text(),
            format!("{}; one; two; three; four", "x".repeat(10))
        );
    }
}
