//! The access logs of a configuration.
//!
//! A log outlives a configuration: the next one with the same target and format continues to use it. A log that no
//! configuration names any more is closed when the last generation that writes to it has ended.

use galley_config::{Config, LogTarget};

use super::ServerStartError;
use galley_telemetry::access::{AccessLog, LineForm};

/// The access logs: the server's first, then those of sites with a separate one, in the order of the sites.
pub(super) struct AccessLogs(Vec<NamedLog>);

struct NamedLog {
    target: LogTarget,
    form: LineForm,
    log: AccessLog,
}

/// The logs of another configuration, prepared while the current logs are in use.
pub(super) struct LogChange {
    logs: AccessLogs,
    /// Whether each of the current logs continues.
    stays: Vec<bool>,
}

impl AccessLogs {
    /// Opens the logs of the first configuration.
    pub(super) fn open(config: &Config) -> Result<Self, ServerStartError> {
        Self(Vec::new()).prepare(config).map(|change| change.logs)
    }

    /// Opens the logs of another configuration that are not open yet.
    pub(super) fn prepare(&self, config: &Config) -> Result<LogChange, ServerStartError> {
        let of_sites = config.sites.iter().filter_map(|site| site.access.as_ref());
        let form = LineForm::from(&config.log);
        let mut stays = vec![false; self.0.len()];
        let mut logs = Vec::new();
        for target in std::iter::once(&config.log.access).chain(of_sites) {
            let mut open = self.0.iter().zip(&mut stays);
            let unchanged =
                open.find(|(log, stays)| !**stays && log.target == *target && log.form == form);
            let log = match unchanged {
                Some((known, stays)) => {
                    *stays = true;
                    known.log.clone()
                }
                None => open_log(target, form.clone())?,
            };
            let target = target.clone();
            let form = form.clone();
            logs.push(NamedLog { target, form, log });
        }
        Ok(LogChange {
            logs: Self(logs),
            stays,
        })
    }

    /// Replaces the current logs; returns those to close when no generation writes to them any more.
    pub(super) fn replace(&mut self, change: LogChange) -> Vec<AccessLog> {
        let before = std::mem::replace(self, change.logs);
        let gone = before.0.into_iter().zip(change.stays);
        gone.filter(|(_, stays)| !stays)
            .map(|(gone, _)| gone.log)
            .collect()
    }

    /// Handles of all logs.
    pub(super) fn all(&self) -> Vec<AccessLog> {
        self.0.iter().map(|named| named.log.clone()).collect()
    }

    pub(super) fn reopen(&self) {
        self.0.iter().for_each(|named| named.log.reopen());
    }

    pub(super) fn close(self) {
        self.0.into_iter().for_each(|named| named.log.close());
    }
}

impl LogChange {
    /// Handles of all logs.
    pub(super) fn all(&self) -> Vec<AccessLog> {
        self.logs.all()
    }
}

fn open_log(target: &LogTarget, form: LineForm) -> Result<AccessLog, ServerStartError> {
    AccessLog::open(target, form).map_err(|cause| ServerStartError::Log {
        target: target.clone(),
        cause,
    })
}
