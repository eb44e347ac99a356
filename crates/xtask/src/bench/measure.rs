//! One measurement: wait for quiet, look at an answer, let the client ask, and read the clocks before and after.

use std::{
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use serde::Serialize;

use super::{
    answer,
    client::Cell,
    contender::{Place, Running},
    cpu,
    interrupt::Interrupt,
    plan::Plan,
    site::Site,
};
use crate::demo::Complaint;

/// What a turn works with.
#[derive(Debug, Clone)]
pub(super) struct Stand<'a> {
    pub(super) plan: &'a Plan,
    pub(super) site: &'a Site,
    pub(super) place: &'a Place,
    pub(super) interrupt: &'a Interrupt,
    /// The turn's own folder.
    pub(super) dir: PathBuf,
}

/// One measurement.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Sample {
    pub(super) round: u32,
    /// How the answer came: `identity` or `gzip`.
    pub(super) coding: String,
    /// Of one answer, head and body.
    pub(super) bytes: usize,
    pub(super) requests: u64,
    pub(super) failed: u64,
    pub(super) kept_alive: Option<u64>,
    pub(super) per_second: f64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    /// Processor time of the contender's processes for each answered request.
    pub(super) cpu_us: f64,
    /// The database's.
    pub(super) database_cpu_us: f64,
    /// Share of the measurement's time that the contender's processes were running; 1 is one core.
    pub(super) server_busy: f64,
    pub(super) client_busy: f64,
    /// Share of the whole machine that was busy with neither contender, database nor client.
    pub(super) others_busy: f64,
}

impl Sample {
    /// For the talk on stderr.
    pub(super) fn in_short(&self) -> String {
        format!(
            "{:.0} requests/s, p99 {:.2} ms, {:.1} us CPU each, {} failed, {}",
            self.per_second, self.p99_ms, self.cpu_us, self.failed, self.coding
        )
    }
}

/// Processor time used so far by everybody who matters.
#[derive(Debug, Clone, Copy)]
struct Clocks {
    server: Duration,
    database: Duration,
    client: Duration,
    machine: Duration,
}

impl Clocks {
    fn read(stand: &Stand<'_>, groups: &[u32]) -> Self {
        Self {
            server: cpu::of_groups(groups),
            database: cpu::of_groups(&[stand.site.database()]),
            client: cpu::of_ended_children(),
            machine: cpu::of_machine(),
        }
    }

    fn since(self, before: Self) -> Self {
        Self {
            server: self.server.saturating_sub(before.server),
            database: self.database.saturating_sub(before.database),
            client: self.client.saturating_sub(before.client),
            machine: self.machine.saturating_sub(before.machine),
        }
    }
}

/// Lets PHP compile and the caches fill, by asking as `cell` does for a moment.
pub(super) fn warm_up(
    stand: &Stand<'_>,
    running: &Running,
    cell: &Cell<'_>,
) -> Result<(), Complaint> {
    check(stand, running, cell)?;
    cell.run(stand, &running.addr().to_string(), WARM_UP_S)?;
    Ok(())
}

/// Asks as `cell` says for as long as the plan says.
///
/// # Errors
/// When the answer is not the right page, when the client fails or understands nothing, when nothing was answered.
pub(super) fn measure(
    stand: &Stand<'_>,
    running: &Running,
    cell: &Cell<'_>,
    round: u32,
) -> Result<Sample, Complaint> {
    let groups = running.groups();
    wait_for_quiet(stand, &groups)?;
    // Twice: the first may fill a cache, the second is what the client will see.
    check(stand, running, cell)?;
    let answer = check(stand, running, cell)?;
    let before = Clocks::read(stand, &groups);
    let address = running.addr().to_string();
    let ran = cell.run(stand, &address, stand.plan.length.seconds)?;
    let used = Clocks::read(stand, &groups).since(before);
    let seen = ran.seen;
    if seen.requests == 0 {
        return Err("no request was answered in this time".into());
    }
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let each = |time: Duration| time.as_secs_f64() * 1e6 / seen.requests as f64;
    let share = |time: Duration| time.as_secs_f64() / ran.took.as_secs_f64();
    let known = used.server + used.database + used.client;
    Ok(Sample {
        round,
        coding: answer.coding,
        bytes: answer.bytes,
        requests: seen.requests,
        failed: seen.failed,
        kept_alive: seen.kept_alive,
        per_second: seen.per_second,
        p50_ms: seen.p50.as_secs_f64() * 1e3,
        p99_ms: seen.p99.as_secs_f64() * 1e3,
        cpu_us: each(used.server),
        database_cpu_us: each(used.database),
        server_busy: share(used.server),
        client_busy: share(used.client),
        others_busy: share(used.machine.saturating_sub(known)) / cores(),
    })
}

fn check(
    stand: &Stand<'_>,
    running: &Running,
    cell: &Cell<'_>,
) -> Result<answer::Answer, Complaint> {
    let head = cell.head(stand.site.path(cell.page));
    answer::ask(
        running.addr(),
        &head,
        stand.site.marks(cell.page),
        &stand.dir,
    )
}

/// A slow contender still works through what the client before has left in its queue.
fn wait_for_quiet(stand: &Stand<'_>, groups: &[u32]) -> Result<(), Complaint> {
    let deadline = Instant::now() + QUIET_PATIENCE;
    let mut before = cpu::of_groups(groups);
    loop {
        stand.interrupt.check()?;
        thread::sleep(QUIET);
        let now = cpu::of_groups(groups);
        if now.saturating_sub(before) <= QUIET / 20 {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err("the contender does not come to rest".into());
        }
        before = now;
    }
}

fn cores() -> f64 {
    std::thread::available_parallelism().map_or(1.0, |count| {
        f64::from(u32::try_from(count.get()).unwrap_or(1))
    })
}

const WARM_UP_S: u32 = 2;
const QUIET: Duration = Duration::from_millis(300);
const QUIET_PATIENCE: Duration = Duration::from_secs(120);
