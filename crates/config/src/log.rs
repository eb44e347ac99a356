//! Logs: destinations, formats and fields.

use std::fmt;
use std::path::PathBuf;

use crate::log_field::LogField;
use crate::upstream::HttpUpstream;

/// `[log]`.
#[derive(Clone, Debug)]
pub struct LogConfig {
    /// The destination of access lines: `Stdout`, `Off` or `File`.
    pub access: LogTarget,
    /// The format of access lines.
    pub format: LogFormat,
    /// The fields of access lines after the time; empty: those of the format.
    pub fields: Vec<LogField>,
    /// The destination of messages: `Stderr` or `File`.
    pub error: LogTarget,
    /// The lowest level that is logged.
    pub level: LogLevel,
    /// The collector for spans of requests that are not hits; `None` if there is none.
    pub otlp: Option<OtlpConfig>,
}

/// The export of spans to an OpenTelemetry collector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtlpConfig {
    /// The address of the collector.
    pub collector: HttpUpstream,
    /// The percentage of traces started by Galley that are recorded.
    pub percent: u8,
    /// Whether the traces of all clients are continued, not only those of trusted proxies.
    pub continues_any: bool,
}

/// The destination of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogTarget {
    /// Standard output (access lines only).
    Stdout,
    /// Standard error (messages only).
    Stderr,
    /// No log (access lines only).
    Off,
    /// A file to which lines are appended; its folder exists.
    File(PathBuf),
}

impl fmt::Display for LogTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdout => f.write_str("stdout"),
            Self::Stderr => f.write_str("stderr"),
            Self::Off => f.write_str("off"),
            Self::File(path) => path.display().fmt(f),
        }
    }
}

/// The format of access lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// The NCSA combined line, followed by Galley's fields.
    Combined,
    /// One JSON object per line.
    Json,
    /// JSON with the names of the Elastic Common Schema.
    Ecs,
}

/// The level of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// A request or the service failed.
    Error,
    /// The server recovered; someone should look.
    Warn,
    /// Events in the life cycle of the process.
    Info,
    /// For developers.
    Debug,
    /// Everything.
    Trace,
}
