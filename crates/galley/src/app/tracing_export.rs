//! The trace collector of a configuration.
//!
//! An exporter outlives a configuration: the next one with the same collector and settings continues to use it. An exporter that no
//! configuration names any more ends with the last generation that uses its tracer.

use std::sync::Arc;

use galley_config::OtlpConfig;

use crate::otlp::{self, Exporter};
use galley_telemetry::trace::{Tracer, TracerSettings};

/// The exporter of the current configuration. Owned by the control thread.
#[derive(Default)]
pub(super) struct Tracing(Option<NamedExporter>);

struct NamedExporter {
    config: OtlpConfig,
    exporter: Exporter,
}

impl Tracing {
    /// The tracer for a configuration; `None` if it has no collector.
    pub(super) fn tracer(&mut self, config: Option<&OtlpConfig>) -> Option<Arc<Tracer>> {
        let Some(config) = config else {
            self.0 = None;
            return None;
        };
        if self.0.as_ref().is_none_or(|named| named.config != *config) {
            self.0 = start(config);
        }
        let export = self.0.as_ref()?;
        Some(Arc::clone(export.exporter.tracer()))
    }

    /// Sends the last spans. Blocks for a short time.
    pub(super) fn close(&mut self) {
        if let Some(named) = self.0.take() {
            named.exporter.close();
        }
    }
}

fn start(config: &OtlpConfig) -> Option<NamedExporter> {
    let settings = TracerSettings {
        percent: config.percent,
        continues_any: config.continues_any,
    };
    match otlp::start(&config.collector, settings) {
        Ok(exporter) => Some(NamedExporter {
            config: config.clone(),
            exporter,
        }),
        Err(cause) => {
            tracing::error!(%cause, "requests are not traced: no thread can be started");
            None
        }
    }
}
