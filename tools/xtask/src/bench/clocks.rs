//! What requests cost: processor time of the contender, the client and the machine, read before and after.

use std::time::{Duration, Instant};

use super::{
    figure::{Figure, Figures},
    processes::{self, Tree},
    stand::Stand,
};

/// Processor time used so far by everybody who matters.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clocks {
    server: Duration,
    database: Duration,
    client: Duration,
    machine: Duration,
    at: Instant,
    /// Of the machine.
    cores: f64,
}

impl Clocks {
    pub(super) fn read(stand: &Stand<'_>, roots: &[u32]) -> Self {
        Self {
            server: Tree::time(roots),
            database: Tree::time(&[stand.site.database()]),
            client: processes::of_this_thread() + processes::of_ended_children(),
            machine: processes::of_machine(),
            at: Instant::now(),
            cores: stand.place.all_cores,
        }
    }

    /// What `requests` answers have cost since.
    pub(super) fn figures(self, now: Self, requests: u64, figures: &mut Figures) {
        let took = now.at.duration_since(self.at).as_secs_f64().max(1e-6);
        let used = |part: fn(&Self) -> Duration| part(&now).saturating_sub(part(&self));
        let (server, client) = (used(|it| it.server), used(|it| it.client));
        let known = server + client + used(|it| it.database);
        let others = used(|it| it.machine).saturating_sub(known);
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
        let requests = requests.max(1) as f64;
        figures.insert(Figure::CpuUs, server.as_secs_f64() * 1e6 / requests);
        figures.insert(Figure::ServerBusy, server.as_secs_f64() / took);
        figures.insert(Figure::ClientBusy, client.as_secs_f64() / took);
        figures.insert(Figure::OthersBusy, others.as_secs_f64() / took / self.cores);
    }
}
