//! The access logs of a configuration.

use galley_config::{Config, LogTarget};

use super::ServerStartError;
use crate::telemetry::access::AccessLog;

/// The access logs: the server's first, then those of sites with one of their own, in the order of the sites.
pub(super) struct Logs {
    pub(super) all: Vec<AccessLog>,
}

impl Logs {
    pub(super) fn open(config: &Config) -> Result<Self, ServerStartError> {
        let own = config.sites.iter().filter_map(|site| site.access.as_ref());
        let all = std::iter::once(&config.log.access)
            .chain(own)
            .map(|target| open_log(target, config))
            .collect::<Result<_, _>>()?;
        Ok(Self { all })
    }

    pub(super) fn reopen(&self) {
        self.all.iter().for_each(AccessLog::reopen);
    }

    pub(super) fn close(self) {
        self.all.into_iter().for_each(AccessLog::close);
    }
}

fn open_log(target: &LogTarget, config: &Config) -> Result<AccessLog, ServerStartError> {
    AccessLog::open(target, config.log.format).map_err(|cause| ServerStartError::Log {
        target: target.clone(),
        cause,
    })
}
