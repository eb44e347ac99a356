//! The messages between the admin interface and the control thread about reloads and upgrades.

use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tokio::sync::oneshot;

/// A configuration that is to be read.
pub struct ReloadRequest {
    /// Its state.
    pub action: ReloadAction,
    /// Gets the result.
    pub reply: oneshot::Sender<ReloadResult>,
}

/// A command for the control thread.
pub enum ControlRequest {
    /// Another configuration.
    Reload(ReloadRequest),
    /// Another program. Receives the result.
    Upgrade(oneshot::Sender<UpgradeResult>),
}

/// What became of an upgrade; else why the old process continues to serve.
pub type UpgradeResult = Result<UpgradeReport, UpgradeError>;

/// Why the old process continues to serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpgradeError {
    /// No process can take over from this one: only a restart brings the new program.
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

/// What the new process has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpgradeReport {
    /// Its process id.
    pub pid: u32,
    /// Pages that it took over in memory.
    pub pages: u64,
    /// PHP-FPMs that it took over.
    pub pools: usize,
    /// From the order until it answered visitors, in milliseconds.
    pub milliseconds: u64,
}

/// What to do with the configuration that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReloadAction {
    /// Put it into force.
    Apply,
    /// Say what would change.
    Compare,
}

/// What became of it.
pub type ReloadResult = Result<ReloadReport, ReloadError>;

/// What a reload has changed, or would change.
#[derive(Clone, Debug, Default)]
pub struct ReloadReport {
    /// One line each.
    pub changes: Vec<String>,
    /// The options whose values differ, those that need a restart as well.
    pub options: Vec<OptionChange>,
    /// Options that only a restart can change, and which stay as they are.
    pub restart: Vec<String>,
    /// What the operator should look at.
    pub warnings: Vec<String>,
    /// The files that were read.
    pub files: Vec<String>,
}

/// An option with both of its values, secrets masked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionChange {
    /// The section, such as `[cache]`.
    pub section: String,
    /// The site that it belongs to; `None`: all share it.
    pub site: Option<String>,
    /// Its name.
    pub name: String,
    /// What is in effect; `None`: nothing.
    pub before: Option<OptionValue>,
    /// What the file has; `None`: nothing.
    pub after: Option<OptionValue>,
    /// Whether the values differ in what is masked or too long to show.
    pub is_hidden: bool,
}

/// A value as the file writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionValue {
    /// The value.
    pub text: String,
    /// `file:line`; `None`: a default.
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
    /// Adds that `what` of these sites stays until a restart.
    pub fn add_restart(&mut self, what: &str, sites: &[String]) {
        let lines = sites.iter().map(|site| format!("{what} of site `{site}`"));
        self.restart.extend(lines);
    }
}

/// Why nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReloadError {
    /// The configuration is wrong: what, where, and what to do.
    Invalid(String),
    /// It cannot be put into force on this machine now.
    Failed(String),
}

/// What became of the last reload, for `status`.
#[derive(Debug, Default)]
pub struct LastReload(Mutex<Option<(SystemTime, Value)>>);

impl LastReload {
    /// Notes what became of a reload at `now`.
    pub fn note(&self, now: SystemTime, result: &ReloadResult) {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *last = Some((now, value(result)));
    }

    /// `null` before the first.
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

/// As the admin interface shows it.
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
