//! The processor time of server, database, client and machine, read before and after a measurement.

use std::time::{Duration, Instant};

use super::processes::{
    ProcessTree, ended_children_cpu_time, machine_cpu_time, this_thread_cpu_time,
};

/// The processor time used so far, and when it was read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CpuTimes {
    server: Duration,
    database: Duration,
    client: Duration,
    machine: Duration,
    at: Instant,
}

/// The processor time used between two readings.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CpuUsage {
    server: Duration,
    client: Duration,
    /// Used by neither server, database nor client.
    others: Duration,
    elapsed_s: f64,
}

impl CpuTimes {
    /// Reads the clocks. `roots` are those of the server's process trees, `database` is a process id.
    pub(crate) fn read(roots: &[u32], database: u32) -> Self {
        Self {
            server: ProcessTree::cpu_time(roots),
            database: ProcessTree::cpu_time(&[database]),
            client: this_thread_cpu_time() + ended_children_cpu_time(),
            machine: machine_cpu_time(),
            at: Instant::now(),
        }
    }

    /// The usage from `before` to this reading.
    pub(crate) fn since(&self, before: &Self) -> CpuUsage {
        let server = self.server.saturating_sub(before.server);
        let client = self.client.saturating_sub(before.client);
        let database = self.database.saturating_sub(before.database);
        let machine = self.machine.saturating_sub(before.machine);
        let elapsed = self.at.duration_since(before.at);
        CpuUsage {
            server,
            client,
            others: machine.saturating_sub(server + client + database),
            elapsed_s: elapsed.as_secs_f64().max(1e-6),
        }
    }
}

impl CpuUsage {
    /// Processor time of the server per request, in microseconds.
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    pub(crate) fn us_per_request(&self, requests: u64) -> f64 {
        self.server.as_secs_f64() * 1e6 / requests.max(1) as f64
    }

    /// Share of one core that the server used.
    pub(crate) fn server_share(&self) -> f64 {
        self.server.as_secs_f64() / self.elapsed_s
    }

    /// Share of one core that the client used.
    pub(crate) fn client_share(&self) -> f64 {
        self.client.as_secs_f64() / self.elapsed_s
    }

    /// Share of a machine with `cores` cores that other processes used.
    pub(crate) fn others_share(&self, cores: f64) -> f64 {
        self.others.as_secs_f64() / self.elapsed_s / cores
    }

    pub(crate) fn elapsed_s(&self) -> f64 {
        self.elapsed_s
    }
}
