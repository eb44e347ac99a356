//! The settings of a run.

use std::path::PathBuf;
use std::time::Duration;

/// What is run, and how much of it.
#[derive(Debug, Clone)]
pub struct Setting {
    /// The server.
    pub galley: PathBuf,
    /// How much.
    pub form: Form,
    /// Requests of the soak instead of the form's.
    pub requests: Option<u64>,
    /// Connections of the soak instead of the form's.
    pub connections: Option<usize>,
    /// How long PHP is killed, instead of the form's.
    pub killed_for: Option<Duration>,
    /// Hears what is going on.
    pub progress: fn(&str),
}

/// How much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// For the tests: times are not judged.
    Short,
    /// Hours: 5,000,000 requests, 4,000 connections, ten minutes of dying PHP.
    Long,
}

impl Form {
    pub(super) fn pick<T>(self, short: T, long: T) -> T {
        match self {
            Self::Short => short,
            Self::Long => long,
        }
    }
}
