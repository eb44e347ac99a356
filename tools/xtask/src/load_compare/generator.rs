//! The generators: their command lines, and what they say about latencies.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::Value;

use super::browser::BROWSER_FIELDS;
use super::reference;
use crate::{
    bench::{Cores, on_core},
    demo::CommandError,
};

/// What all generators send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LoadLine {
    /// Requests per second.
    pub(super) rate: u32,
    pub(super) seconds: u32,
    pub(super) connections: u32,
}

/// What one of them has seen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct SeenLatency {
    pub(super) requests: u64,
    /// The 50th, 90th and 99th percentile in milliseconds.
    pub(super) ms: [f64; 3],
}

/// A generator with an open loop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LoadGenerator {
    Galley(PathBuf),
    Oha(PathBuf),
    /// One that is built in, in the file `reference.rs`.
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

    /// Runs it on the client's core.
    pub(super) fn run(
        &self,
        line: &LoadLine,
        addr: SocketAddr,
        cores: Cores,
    ) -> Result<SeenLatency, CommandError> {
        let LoadLine {
            rate,
            seconds,
            connections,
        } = line;
        let (program, words) = match self {
            Self::Reference => return on_core(cores.client, || reference::run(line, addr))?,
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
        let said = String::from_utf8_lossy(&output.stdout);
        let read = match self {
            Self::Galley(_) => of_galley(&said),
            _ => of_oha(&said),
        };
        read.ok_or_else(|| {
            let complaint = String::from_utf8_lossy(&output.stderr);
            format!("{}: {}: {said}{complaint}", self.title(), output.status).into()
        })
    }
}

/// `oha` in `PATH`, or where the command line says.
pub(super) fn oha(named: Option<&Path>) -> Option<PathBuf> {
    if let Some(path) = named {
        return Some(path.to_owned());
    }
    let path = std::env::var_os("PATH")?;
    let mut places = std::env::split_paths(&path).map(|folder| folder.join("oha"));
    places.find(|place| place.is_file())
}

fn of_galley(said: &str) -> Option<SeenLatency> {
    let report: Value = serde_json::from_str(said).ok()?;
    let all = report["latency"].as_array()?;
    let ms = |percent: f64| {
        let found = all
            .iter()
            .find(|one| one["percent"].as_f64() == Some(percent));
        found?["ms"].as_f64()
    };
    Some(SeenLatency {
        requests: report["responses"].as_u64()?,
        ms: [ms(50.0)?, ms(90.0)?, ms(99.0)?],
    })
}

fn of_oha(said: &str) -> Option<SeenLatency> {
    let report: Value = serde_json::from_str(said).ok()?;
    let seconds = |name: &str| report["latencyPercentiles"][name].as_f64();
    let statuses = report["statusCodeDistribution"].as_object()?;
    Some(SeenLatency {
        requests: statuses.values().filter_map(Value::as_u64).sum(),
        ms: [seconds("p50")?, seconds("p90")?, seconds("p99")?].map(|time| time * 1e3),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_generators_print_is_read() {
        let galley = r#"{"responses": 7, "latency": [{"percent": 50.0, "ms": 1.5}, {"percent": 90.0, "ms": 2.0}, {"percent": 99.0, "ms": 9.0}]}"#;
        let wanted = SeenLatency {
            requests: 7,
            ms: [1.5, 2.0, 9.0],
        };
        assert_eq!(of_galley(galley), Some(wanted));
        let oha = r#"{"latencyPercentiles": {"p50": 0.0015, "p90": 0.002, "p99": 0.009}, "statusCodeDistribution": {"200": 6, "404": 1}}"#;
        assert_eq!(of_oha(oha), Some(wanted));
        assert_eq!(
            (of_galley("{}"), of_oha("no"), of_oha("{}")),
            (None, None, None)
        );
    }
}
