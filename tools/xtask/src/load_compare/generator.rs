//! The load generators: their command lines, and the latencies in their output.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::Value;

use super::browser::BROWSER_FIELDS;
use super::reference;
use super::settings::{LatencyPercentiles, LoadSettings};
use crate::{
    bench::{Cores, on_core},
    error::CommandError,
};

/// A load generator with an open loop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LoadGenerator {
    Galley(PathBuf),
    Oha(PathBuf),
    /// The built-in generator in `reference.rs`.
    Reference,
}

impl LoadGenerator {
    pub(super) fn title(&self) -> &'static str {
        match self {
            Self::Galley(_) => "galley load",
            Self::Oha(_) => "oha",
            Self::Reference => "as wrk2 does",
        }
    }

    /// Runs the generator on the client's core.
    pub(super) fn run(
        &self,
        settings: &LoadSettings,
        addr: SocketAddr,
        cores: Cores,
    ) -> Result<LatencyPercentiles, CommandError> {
        let LoadSettings {
            rate,
            seconds,
            connections,
        } = settings;
        let (program, words) = match self {
            Self::Reference => return on_core(cores.client, || reference::run(settings, addr))?,
            Self::Galley(program) => (
                program,
                format!(
                    "load --rate {rate} --duration {seconds}s --connections {connections} --json"
                ),
            ),
            Self::Oha(program) => (
                program,
                format!(
                    "--no-tui --latency-correction -w -q {rate} -z {seconds}s -c {connections} --output-format json"
                ),
            ),
        };
        let mut command = Command::new(program);
        if matches!(self, Self::Oha(_)) {
            let fields = BROWSER_FIELDS.iter();
            command.args(fields.flat_map(|field| ["-H", field]));
        }
        command
            .args(words.split(' '))
            .arg(format!("http://{addr}/"))
            .stdin(Stdio::null());
        let output = on_core(cores.client, || command.output())??;
        let stdout = String::from_utf8_lossy(&output.stdout);
        let latencies = match self {
            Self::Galley(_) => parse_galley(&stdout),
            _ => parse_oha(&stdout),
        };
        latencies.ok_or_else(|| {
            let stderr = String::from_utf8_lossy(&output.stderr);
            format!("{}: {}: {stdout}{stderr}", self.title(), output.status).into()
        })
    }
}

/// The given path of oha, or the one in `PATH`.
pub(super) fn oha(given: Option<&Path>) -> Option<PathBuf> {
    if let Some(path) = given {
        return Some(path.to_owned());
    }
    let path = std::env::var_os("PATH")?;
    let mut files = std::env::split_paths(&path).map(|folder| folder.join("oha"));
    files.find(|file| file.is_file())
}

fn parse_galley(stdout: &str) -> Option<LatencyPercentiles> {
    let report: Value = serde_json::from_str(stdout).ok()?;
    let all = report["latency"].as_array()?;
    let ms = |percent: f64| {
        let entry = all
            .iter()
            .find(|entry| entry["percent"].as_f64() == Some(percent));
        entry?["ms"].as_f64()
    };
    Some(LatencyPercentiles {
        requests: report["responses"].as_u64()?,
        ms: [ms(50.0)?, ms(90.0)?, ms(99.0)?],
    })
}

fn parse_oha(stdout: &str) -> Option<LatencyPercentiles> {
    let report: Value = serde_json::from_str(stdout).ok()?;
    let seconds = |name: &str| report["latencyPercentiles"][name].as_f64();
    let statuses = report["statusCodeDistribution"].as_object()?;
    Some(LatencyPercentiles {
        requests: statuses.values().filter_map(Value::as_u64).sum(),
        ms: [seconds("p50")?, seconds("p90")?, seconds("p99")?].map(|time| time * 1e3),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_of_generators_are_parsed() {
        let galley = r#"{"responses": 7, "latency": [{"percent": 50.0, "ms": 1.5}, {"percent": 90.0, "ms": 2.0}, {"percent": 99.0, "ms": 9.0}]}"#;
        let expected = LatencyPercentiles {
            requests: 7,
            ms: [1.5, 2.0, 9.0],
        };
        assert_eq!(parse_galley(galley), Some(expected));
        let oha = r#"{"latencyPercentiles": {"p50": 0.0015, "p90": 0.002, "p99": 0.009}, "statusCodeDistribution": {"200": 6, "404": 1}}"#;
        assert_eq!(parse_oha(oha), Some(expected));
        assert_eq!(
            (parse_galley("{}"), parse_oha("no"), parse_oha("{}")),
            (None, None, None)
        );
    }
}
