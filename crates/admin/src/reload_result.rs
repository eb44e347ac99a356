//! The messages between the admin interface and the control thread about reloads and upgrades.

use std::time::{SystemTime, UNIX_EPOCH};

use galley_config::{ChangedOption, EffectiveOption};
use galley_sys::Lock;
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

/// An option with another value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionChange {
    /// The site; `None`: an option that all sites share.
    pub site: Option<String>,
    /// The option with the value in effect and the value in the file; secrets are masked.
    pub option: ChangedOption,
}

impl OptionChange {
    fn value(&self) -> Value {
        let option = &self.option;
        let side = |side: &Option<EffectiveOption>| {
            let side = side.as_ref();
            side.map(|one| json!({ "value": one.value, "set_at": one.spot }))
        };
        json!({
            "section": option.header, "site": self.site, "name": option.name,
            "before": side(&option.before), "after": side(&option.after),
            "hidden": option.differs_in_hidden_part(),
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
pub struct LastReload(Lock<Option<(SystemTime, Value)>>);

impl LastReload {
    /// Stores the result of a reload at `now`.
    pub fn note(&self, now: SystemTime, result: &ReloadResult) {
        let mut last = self.0.lock();
        *last = Some((now, value(result)));
    }

    /// The time and the error of the last reload, if it failed.
    pub(super) fn failure(&self) -> Option<(SystemTime, String)> {
        let last = self.0.lock();
        let (at, value) = last.as_ref()?;
        Some((*at, value["error"].as_str()?.to_owned()))
    }

    /// The JSON for `status`; `null` before the first reload.
    pub(super) fn value(&self) -> Value {
        let last = self.0.lock();
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
