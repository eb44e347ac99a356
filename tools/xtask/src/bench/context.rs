//! The types that measurements share: the context of a run, one measurement, and its result.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::{
    certificate::Certificate,
    cpu::CpuTimes,
    figure::Figures,
    pin::Cores,
    plan::BenchPlan,
    settings::{Contender, Scenario},
    site::Site,
};
use crate::interrupt::Interrupt;

/// The programs, folders and cores of a run.
#[derive(Debug)]
pub(super) struct Environment {
    pub(super) galley: PathBuf,
    pub(super) xtask: PathBuf,
    /// The folder with the scenarios.
    pub(super) bench_dir: PathBuf,
    /// The folder with servers of HTTP/3 that `scripts/setup` has unpacked.
    pub(super) quic: PathBuf,
    pub(super) cores: Cores,
    /// Number of cores of the machine.
    pub(super) core_count: f64,
}

/// What all measurements of a run use.
#[derive(Debug, Clone, Copy)]
pub(super) struct RunContext<'a> {
    pub(super) plan: &'a BenchPlan,
    pub(super) site: &'a Site,
    pub(super) environment: &'a Environment,
    /// The TLS certificate of all contenders.
    pub(super) certificate: &'a Certificate,
    pub(super) interrupt: &'a Interrupt,
    /// The folder for files of the client.
    pub(super) dir: &'a Path,
}

impl RunContext<'_> {
    /// The processor time used so far by the process trees below `roots` and by everything else.
    pub(super) fn cpu_times(&self, roots: &[u32]) -> CpuTimes {
        CpuTimes::read(roots, self.site.database())
    }
}

/// The figures of one slice.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Sample {
    /// Number of the slice. Samples of a scenario with the same number were measured one directly after the other.
    pub(super) slice: u32,
    /// The content coding of the responses: `identity`, `gzip`, `br`.
    pub(super) coding: String,
    /// Length of a response body as received.
    pub(super) body_bytes: usize,
    pub(super) requests: u64,
    /// Number of wrong responses and broken connections.
    pub(super) failed: u64,
    /// Description of the first failure.
    #[serde(rename = "trouble")]
    pub(super) first_failure: Option<String>,
    pub(super) figures: Figures,
}

/// The measurement of one contender in one scenario.
#[derive(Debug, Clone)]
pub(super) struct Measurement<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) contender: &'a Contender,
    /// Unique for each measurement.
    pub(super) batch: u32,
}

/// The addresses of a contender, and the roots of its process trees.
#[derive(Debug, Clone)]
pub(super) struct Server {
    pub(super) addr: SocketAddr,
    pub(super) tls_addr: SocketAddr,
    pub(super) roots: Vec<u32>,
}
