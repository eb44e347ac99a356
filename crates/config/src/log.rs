//! Logs: their destinations, and the lines that are written.

use std::fmt;
use std::path::PathBuf;

use crate::log_field::LogField;
use crate::upstream::HttpUpstream;

/// `[log]`.
#[derive(Clone, Debug)]
pub struct LogConfig {
    /// Where access lines go: `Stdout`, `Off` or `File`.
    pub access: LogTarget,
    /// The form of access lines.
    pub format: LogFormat,
    /// The fields of access lines behind the time; empty: those of the form.
    pub fields: Vec<LogField>,
    /// Where messages go: `Stderr` or `File`.
    pub error: LogTarget,
    /// The least severe message that is written.
    pub level: LogLevel,
    /// The collector for spans of requests that no stored page answers; `None`: there is none.
    pub otlp: Option<OtlpConfig>,
}

/// Spans for a collector of OpenTelemetry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtlpConfig {
    /// The collector.
    pub collector: HttpUpstream,
    /// How many of a hundred traces that begin here are recorded.
    pub percent: u8,
    /// Whether the trace of every client is continued, and not only that of trusted proxies.
    pub continues_any: bool,
}

/// Where lines go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogTarget {
    /// Standard output (access lines only).
    Stdout,
    /// Standard error (messages only).
    Stderr,
    /// Nowhere (access lines only).
    Off,
    /// A file, appended to; its folder exists.
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

/// The form of access lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// The NCSA combined line, followed by Galley's fields.
    Combined,
    /// One JSON object a line.
    Json,
    /// The same with the names of the Elastic Common Schema.
    Ecs,
}

/// Severity of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// A request or the service suffered.
    Error,
    /// Recovered; someone should look.
    Warn,
    /// The life of the process.
    Info,
    /// For developers.
    Debug,
    /// Everything.
    Trace,
}
