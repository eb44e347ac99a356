//! The messages between the admin interface and the control thread about reloads and upgrades.

use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tokio::sync::oneshot;

/// A request to read the configuration.
pub struct ReloadRequest {
    /// What to do with the configuration.
    pub action: ReloadAction,
    /// Receives the result.
    pub reply: oneshot::Sender<ReloadResult>,
}

/// A request to the control thread.
pub enum ControlRequest {
    /// Read the configuration.
    Reload(ReloadRequest),
    /// Start the new program and hand over to it; the sender receives the result.
    Upgrade(oneshot::Sender<UpgradeResult>),
}

/// The result of an upgrade.
pub type UpgradeResult = Result<UpgradeReport, UpgradeError>;

/// Why the old process continues to serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpgradeError {
    /// No process can take over from this one: only a restart starts the new program.
    NeedsRestart(String),
    /// The new process did not start.
    Failed(String),
}

impl UpgradeError {
    /// The reason, for people.
    pub fn reason(&self) -> &str {
        match self {
            Self::NeedsRestart(reason) | Self::Failed(reason) => reason,
        }
    }
}

impl From<String> for UpgradeError {
    fn from(reason: String) -> Self {
        Self::Failed(reason)
    }
}

/// The result of a successful upgrade.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpgradeReport {
    /// The process id of the new process.
    pub pid: u32,
    /// The number of pages that it took over in memory.
    pub pages: u64,
    /// The number of PHP-FPMs that it took over.
    pub pools: usize,
    /// The time from the request until the new process served clients, in milliseconds.
    pub milliseconds: u64,
}

/// What to do with a configuration that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReloadAction {
    /// Apply the configuration.
    Apply,
    /// Return what would change.
    Compare,
}

/// The result of a reload.
pub type ReloadResult = Result<ReloadReport, ReloadError>;

/// The changes that a reload has made, or would make.
#[derive(Clone, Debug, Default)]
pub struct ReloadReport {
    /// The changes, one line each.
    pub changes: Vec<String>,
    /// The options whose values differ, including those that need a restart.
    pub options: Vec<OptionChange>,
    /// The changed options that need a restart, and therefore keep their values.
    pub restart: Vec<String>,
    /// Warnings for the operator.
    pub warnings: Vec<String>,
    /// The files that were read.
    pub files: Vec<String>,
}

/// A changed option with both values; secrets are masked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionChange {
    /// The section, such as `[cache]`.
    pub section: String,
    /// The site; `None`: an option that all sites share.
    pub site: Option<String>,
    /// The name of the option.
    pub name: String,
    /// The value in effect; `None`: not set.
    pub before: Option<OptionValue>,
    /// The value in the file; `None`: not set.
    pub after: Option<OptionValue>,
    /// Whether the values differ in a part that is masked or truncated.
    pub is_hidden: bool,
}

/// A value in the notation of the configuration file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionValue {
    /// The value.
    pub text: String,
    /// The location, `file:line`; `None`: a default.
    pub spot: Option<String>,
}

impl OptionChange {
    fn value(&self) -> Value {
        let side = |side: &Option<OptionValue>| {
            let side = side.as_ref();
            side.map(|one| json!({ "value": one.text, "set_at": one.spot }))
        };
        json!({
            "section": self.section, "site": self.site, "name": self.name,
            "before": side(&self.before), "after": side(&self.after), "hidden": self.is_hidden,
        })
    }
}

impl ReloadReport {
    /// Adds that `what` of these sites only changes at a restart.
    pub fn add_restart(&mut self, what: &str, sites: &[String]) {
        let lines = sites.iter().map(|site| format!("{what} of site `{site}`"));
        self.restart.extend(lines);
    }
}

/// Why the configuration was not applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReloadError {
    /// The configuration is invalid: what, where, and what to do.
    Invalid(String),
    /// The configuration cannot be applied on this machine now.
    Failed(String),
}

/// The result of the last reload, for `status`.
#[derive(Debug, Default)]
pub struct LastReload(Mutex<Option<(SystemTime, Value)>>);

impl LastReload {
    /// Stores the result of a reload at `now`.
    pub fn note(&self, now: SystemTime, result: &ReloadResult) {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *last = Some((now, value(result)));
    }

    /// The JSON for `status`; `null` before the first reload.
    pub(super) fn value(&self) -> Value {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.as_ref().map_or(Value::Null, |(at, value)| {
            let at = at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
            let mut value = value.clone();
            value["time"] = json!(at);
            value
        })
    }
}

/// The JSON of a reload's response.
pub(super) fn value(result: &ReloadResult) -> Value {
    match result {
        Ok(report) => json!({
            "ok": true, "changes": report.changes, "restart": report.restart, "warnings": report.warnings,
            "files": report.files, "options": report.options.iter().map(OptionChange::value).collect::<Vec<_>>(),
        }),
        Err(ReloadError::Invalid(error)) => json!({ "ok": false, "invalid": true, "error": error }),
        Err(ReloadError::Failed(error)) => json!({ "ok": false, "invalid": false, "error": error }),
    }
}
