//! The error log: `2026-01-01T00:00:00.000+00:00 level message key=value`.
//!
//! Times are local with their offset, as in the access log; so messages of several machines can be merged, too. The thread with a message writes it immediately: messages
//! are rare, and the last one before a crash is the important one. Messages that a client can cause are limited by
//! [`RateLimited`]. Values are quoted if they are ambiguous otherwise.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::io;
use std::sync::Arc;

use galley_config::{Config, LogLevel, LogTarget, SiteConfig};
use galley_sys::Lock;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::{Layer, Registry, reload};

use super::sink::LogSink;

pub use super::rate::{LogInterval, RateLimited};

/// A handle to the error log.
#[derive(Clone, Debug)]
pub struct ErrorLog {
    output: Output,
    level: reload::Handle<LevelFilter, Registry>,
}

/// The targets of messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorTargets {
    /// The target of messages without a site, and of those about sites without a separate target.
    pub common: LogTarget,
    /// The targets of messages about sites, by the site's name.
    pub sites: BTreeMap<String, LogTarget>,
}

impl ErrorTargets {
    /// The targets in a configuration.
    pub fn of(config: &Config) -> Self {
        let log_of = |site: &SiteConfig| Some((site.name.clone(), site.errors.clone()?));
        Self {
            common: config.log.error.clone(),
            sites: config.sites.iter().filter_map(log_of).collect(),
        }
    }
}

/// A target that cannot be opened.
#[derive(Debug)]
pub struct UnopenedTarget {
    /// The target.
    pub target: LogTarget,
    /// The error.
    pub cause: io::Error,
}

/// Opens the error log and sends all messages of the process to it, from `level` up.
///
/// Errors: a file cannot be opened, or the process has an error log already.
pub fn start(targets: &ErrorTargets, level: LogLevel) -> Result<ErrorLog, UnopenedTarget> {
    let output = Output(Arc::new(Lock::new(OpenTargets::open(targets)?)));
    let (subscriber, level) = subscriber(output.clone(), level);
    tracing::subscriber::set_global_default(subscriber).map_err(|cause| UnopenedTarget {
        target: targets.common.clone(),
        cause: io::Error::other(cause),
    })?;
    Ok(ErrorLog { output, level })
}

/// The open targets.
#[derive(Debug)]
pub struct OpenTargets {
    common: LogSink,
    sites: BTreeMap<String, LogSink>,
}

impl OpenTargets {
    /// Opens targets that will replace others. Nothing is written to them yet.
    pub fn open(targets: &ErrorTargets) -> Result<Self, UnopenedTarget> {
        let open = |target: &LogTarget| match LogSink::open(target) {
            Ok(sink) => Ok(sink.unwrap_or(LogSink::Stderr)),
            Err(cause) => Err(UnopenedTarget {
                target: target.clone(),
                cause,
            }),
        };
        let mut sites = BTreeMap::new();
        for (name, target) in &targets.sites {
            sites.insert(name.clone(), open(target)?);
        }
        Ok(Self {
            common: open(&targets.common)?,
            sites,
        })
    }

    /// Writes a line to the target of its site, or to the common target if that fails.
    fn write(&mut self, site: Option<&str>, line: &str) {
        if let Some(own) = site.and_then(|site| self.sites.get_mut(site))
            && own.write(line.as_bytes()).is_ok()
        {
            return;
        }
        // There is no other log to report this error.
        let _ = self.common.write(line.as_bytes());
    }

    fn reopen(&mut self) -> io::Result<()> {
        let sites = self.sites.values_mut();
        let results: Vec<_> = sites.map(LogSink::reopen).collect();
        self.common.reopen()?;
        results.into_iter().collect()
    }
}

impl ErrorLog {
    /// Replaces the targets, if given, and the level.
    pub fn replace(&self, targets: Option<OpenTargets>, level: LogLevel) {
        if let Some(targets) = targets {
            *self.output.0.lock() = targets;
        }
        if let Err(cause) = self.level.reload(filter(level)) {
            tracing::error!(%cause, "cannot change the level of the error log");
        }
    }

    /// Reopens the files, after they were renamed. If a file cannot be opened, the old file stays in use, and an error is logged.
    pub fn reopen(&self) {
        let reopened = self.output.0.lock().reopen();
        if let Err(cause) = reopened {
            tracing::error!(%cause, "cannot reopen the error log; the old file remains in use");
        }
    }
}

fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}

fn subscriber(
    output: Output,
    level: LogLevel,
) -> (
    impl Subscriber + Send + Sync,
    reload::Handle<LevelFilter, Registry>,
) {
    let (level, handle) = reload::Layer::new(filter(level));
    let messages = MessageLayer {
        output,
        zone: TimeZone::system(),
    };
    let subscriber = tracing_subscriber::registry().with(level).with(messages);
    (subscriber, handle)
}

/// The shared targets. The lock is held during one write.
#[derive(Clone, Debug)]
struct Output(Arc<Lock<OpenTargets>>);

/// Writes each message as a line.
struct MessageLayer {
    output: Output,
    /// Read at the start: later a thread may not open files.
    zone: TimeZone,
}

impl<S: Subscriber> Layer<S> for MessageLayer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if is_foreign(event.metadata()) {
            return;
        }
        let mut fields = MessageFields::default();
        event.record(&mut fields);
        let level = match *event.metadata().level() {
            tracing::Level::ERROR => "error",
            tracing::Level::WARN => "warn",
            tracing::Level::INFO => "info",
            tracing::Level::DEBUG => "debug",
            tracing::Level::TRACE => "trace",
        };
        let now = Timestamp::now().to_zoned(self.zone.clone());
        let (now, message, rest) = (now.strftime(TIME), &fields.message, &fields.rest);
        let line = format!("{now} {level} {message}{rest}\n");
        self.output.0.lock().write(fields.site.as_deref(), &line);
    }
}

/// With milliseconds and the offset from UTC (RFC 3339).
const TIME: &str = "%Y-%m-%dT%H:%M:%S.%3f%:z";

/// Whether the message is from the library of HTTP/2 or QUIC about what a client has sent, which can cause any number of them. The
/// front thread logs noteworthy events of a connection.
fn is_foreign(metadata: &tracing::Metadata<'_>) -> bool {
    let library = metadata.target().split("::").next();
    *metadata.level() <= tracing::Level::INFO && matches!(library, Some("h2" | "quinn_proto"))
}

#[derive(Default)]
struct MessageFields {
    message: String,
    /// ` key=value` for each field.
    rest: String,
    /// The site in the fields.
    site: Option<String>,
}

impl Visit for MessageFields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.take(field, &format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.take(field, value);
    }
}

impl MessageFields {
    fn take(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            // Unprintable characters are escaped; quotes and letters of all languages are not.
            for c in value.chars() {
                match c {
                    '"' | '\'' | '\\' => self.message.push(c),
                    c => self.message.extend(c.escape_debug()),
                }
            }
            return;
        }
        if field.name() == "site" {
            self.site = Some(value.to_owned());
        }
        let is_plain = |c: char| c.is_ascii_graphic() && !matches!(c, '"' | '=' | '\\');
        let written = if !value.is_empty() && value.chars().all(is_plain) {
            write!(self.rest, " {}={value}", field.name())
        } else {
            write!(self.rest, " {}={value:?}", field.name())
        };
        debug_assert!(written.is_ok(), "writing to a string cannot fail");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn common(common: LogTarget) -> ErrorTargets {
        ErrorTargets {
            common,
            sites: BTreeMap::new(),
        }
    }

    fn output(target: LogTarget) -> Output {
        let targets = OpenTargets::open(&common(target)).unwrap();
        Output(Arc::new(Lock::new(targets)))
    }

    #[test]
    fn a_message_about_a_site_is_written_to_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str| LogTarget::File(dir.path().join(name));
        let sites = [("a.test".to_owned(), file("a.log"))].into();
        let targets = ErrorTargets {
            common: file("all.log"),
            sites,
        };
        let output = Output(Arc::new(Lock::new(OpenTargets::open(&targets).unwrap())));
        let (log, subscriber) = log(output, LogLevel::Info);
        tracing::subscriber::with_default(subscriber, || {
            tracing::warn!(site = "a.test", "first");
            tracing::warn!(site = %"a.test", "second");
            tracing::warn!(site = "b.test", "third");
            tracing::warn!("fourth");
            fs::rename(dir.path().join("a.log"), dir.path().join("a.log.1")).unwrap();
            log.reopen();
            tracing::warn!(site = "a.test", "fifth");
        });
        let words = |name: &str| {
            let text = fs::read_to_string(dir.path().join(name)).unwrap();
            let word = |line: &str| line.split(' ').nth(2).unwrap().to_owned();
            text.lines().map(word).collect::<Vec<_>>()
        };
        assert_eq!(words("a.log.1"), ["first", "second"]);
        assert_eq!(words("a.log"), ["fifth"]);
        assert_eq!(words("all.log"), ["third", "fourth"]);
    }

    fn log(output: Output, level: LogLevel) -> (ErrorLog, impl Subscriber + Send + Sync) {
        let (subscriber, level) = subscriber(output.clone(), level);
        (ErrorLog { output, level }, subscriber)
    }

    fn lines(level: LogLevel, act: impl FnOnce(&ErrorLog)) -> Vec<String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("error.log");
        let output = output(LogTarget::File(path.clone()));
        let (log, subscriber) = log(output, level);
        tracing::subscriber::with_default(subscriber, || act(&log));
        fs::read_to_string(path)
            .unwrap()
            .lines()
            .map(str::to_owned)
            .collect()
    }

    #[test]
    fn format_of_a_line() {
        let lines = lines(LogLevel::Info, |_| {
            tracing::info!(site = "example.com", count = 3, path = %"/a b", empty = "", "it's up");
            tracing::error!(note = "a\n2026 error \"forged\"", "a\nb\u{1b}[31m ä");
        });
        assert_eq!(lines.len(), 2, "{lines:?}");
        let (time, rest) = lines[0].split_once(' ').unwrap();
        assert!(
            time.len() == "2026-01-01T00:00:00.000+00:00".len(),
            "{time}"
        );
        assert!(time.parse::<Timestamp>().is_ok(), "{time}");
        assert_eq!(
            rest,
            "info it's up site=example.com count=3 path=\"/a b\" empty=\"\""
        );
        let (_, rest) = lines[1].split_once(' ').unwrap();
        assert_eq!(
            rest,
            r#"error a\nb\u{1b}[31m ä note="a\n2026 error \"forged\"""#
        );
    }

    #[test]
    fn messages_of_the_libraries_about_clients_are_not_written() {
        let written = lines(LogLevel::Debug, |_| {
            tracing::warn!(target: "h2::proto::ping_pong", "a frame");
            tracing::debug!(target: "h2::codec", "for us");
            tracing::warn!(target: "quinn_proto::connection", "a packet");
            tracing::warn!(target: "h2o", "ours");
        });
        assert_eq!(written.len(), 2, "{written:?}");
    }

    #[test]
    fn messages_below_the_level_are_not_written() {
        for (level, count) in [
            (LogLevel::Error, 1),
            (LogLevel::Warn, 2),
            (LogLevel::Info, 3),
            (LogLevel::Debug, 4),
            (LogLevel::Trace, 5),
        ] {
            let lines = lines(level, |_| {
                tracing::error!("e");
                tracing::warn!("w");
                tracing::info!("i");
                tracing::debug!("d");
                tracing::trace!("t");
            });
            assert_eq!(lines.len(), count, "{level:?}");
        }
    }

    #[test]
    fn reopening_replaces_a_renamed_file() {
        let dir = tempfile::tempdir().unwrap();
        let (path, moved) = (dir.path().join("error.log"), dir.path().join("error.log.1"));
        let output = output(LogTarget::File(path.clone()));
        let (log, subscriber) = log(output, LogLevel::Info);
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!("old");
            fs::rename(&path, &moved).unwrap();
            log.reopen();
            tracing::info!("new");
        });
        assert!(fs::read_to_string(&path).unwrap().ends_with("info new\n"));
        assert!(fs::read_to_string(&moved).unwrap().ends_with("info old\n"));
    }

    #[test]
    fn target_and_level_are_replaced_immediately() {
        let dir = tempfile::tempdir().unwrap();
        let target = |name: &str| LogTarget::File(dir.path().join(name));
        let output = output(target("one.log"));
        let (log, subscriber) = log(output, LogLevel::Warn);
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!("quiet");
            tracing::warn!("first");
            log.replace(None, LogLevel::Info);
            tracing::info!("second");
            let other = OpenTargets::open(&common(target("other.log"))).unwrap();
            log.replace(Some(other), LogLevel::Error);
            tracing::warn!("quiet");
            tracing::error!("third");
        });
        let words = |name: &str| {
            let text = fs::read_to_string(dir.path().join(name)).unwrap();
            let last = |line: &str| line.rsplit(' ').next().unwrap().to_owned();
            text.lines().map(last).collect::<Vec<_>>()
        };
        assert_eq!(words("one.log"), ["first", "second"]);
        assert_eq!(words("other.log"), ["third"]);
    }

    #[test]
    fn a_file_that_cannot_be_reopened_stays_in_use() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("logs");
        fs::create_dir(&folder).unwrap();
        let path = folder.join("error.log");
        let output = output(LogTarget::File(path));
        let (log, subscriber) = log(output, LogLevel::Info);
        let moved = dir.path().join("moved");
        tracing::subscriber::with_default(subscriber, || {
            fs::rename(&folder, &moved).unwrap();
            log.reopen();
        });
        let text = fs::read_to_string(moved.join("error.log")).unwrap();
        assert!(text.contains("error cannot reopen the error log"), "{text}");
    }

    #[test]
    fn suppressed_lines_are_counted() {
        let lines = lines(LogLevel::Info, |_| {
            let limit = RateLimited::new("tests", 1);
            limit.report(limit.admit_at(0).1);
            limit.report(limit.admit_at(0).1);
            limit.report(limit.settle_at(1));
        });
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(
            lines[0].ends_with("warn suppressed more messages of this kind about=tests count=1"),
            "{lines:?}"
        );
    }
}
