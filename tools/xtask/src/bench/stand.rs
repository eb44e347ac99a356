//! What a measurement needs and gives: the place, who is asked what, and the figures.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::{
    certificate::Certificate,
    figure::Figures,
    interrupt::Interrupt,
    pin::Cores,
    plan::{Contender, Plan, Scenario},
    site::Site,
};

/// What is the same for all contenders of a run.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) galley: PathBuf,
    pub(super) xtask: PathBuf,
    /// The folder with the scenarios.
    pub(super) here: PathBuf,
    pub(super) cores: Cores,
    /// How many the machine has.
    pub(super) all_cores: f64,
}

/// What measurements work with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stand<'a> {
    pub(super) plan: &'a Plan,
    pub(super) site: &'a Site,
    pub(super) place: &'a Place,
    /// What everybody shows over TLS.
    pub(super) certificate: &'a Certificate,
    pub(super) interrupt: &'a Interrupt,
    /// For files of the client.
    pub(super) dir: &'a Path,
}

/// One measurement.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Sample {
    /// Its number: what has the same in one scenario was measured one right after the other.
    pub(super) slice: u32,
    /// How the answer came: `identity`, `gzip`, `br`.
    pub(super) coding: String,
    /// Of one answer's body as it came.
    pub(super) body_bytes: usize,
    pub(super) requests: u64,
    /// Answers that were wrong, and connections that broke.
    pub(super) failed: u64,
    /// What the first of them was.
    pub(super) trouble: Option<String>,
    pub(super) figures: Figures,
}

/// Who is asked what.
#[derive(Debug, Clone)]
pub(super) struct Match<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) contender: &'a Contender,
    /// Another one for each measurement.
    pub(super) batch: u32,
}

/// Where a contender is asked, and the processes that all of its processes hang below.
#[derive(Debug, Clone)]
pub(super) struct Server {
    pub(super) addr: SocketAddr,
    pub(super) tls_addr: SocketAddr,
    pub(super) roots: Vec<u32>,
}
