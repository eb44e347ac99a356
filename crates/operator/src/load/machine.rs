//! Samples the machine during a test, in a separate thread: processor time of the test, of PHP and of the database, and
//! the local Galley's slots for PHP.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use galley_load::MachineSample;
use rustix::time::{ClockId, clock_gettime};
use serde_json::Value;

use super::processes::{InterfaceCounter, ProcessorTicks, interfaces, network_share};
use crate::ask::AdminAddress;

/// The running thread. It ends with [`samples`](Self::samples).
pub(super) struct MachineWatch {
    ends: Arc<AtomicBool>,
    thread: JoinHandle<Vec<MachineSample>>,
}

impl MachineWatch {
    /// Starts the thread. `galley`: the Galley under test, if it runs on this machine.
    pub(super) fn start(galley: Option<AdminAddress>, is_local: bool) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&ends);
        let thread = thread::spawn(move || watch(galley.as_ref(), is_local, &until));
        Self { ends, thread }
    }

    /// Ends the thread and returns the samples.
    pub(super) fn samples(self) -> Vec<MachineSample> {
        self.ends.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_default()
    }
}

/// Returns `admin` if its Galley listens on the port of this address.
pub(super) fn local_galley(admin: AdminAddress, addr: SocketAddr) -> Option<AdminAddress> {
    let status = admin.get("/status").ok()?;
    let listeners = status["listeners"].as_array()?;
    let has_port = |url: &Value| {
        let port = url
            .as_str()
            .and_then(|url| url.trim_end_matches('/').rsplit(':').next());
        port.and_then(|port| port.parse().ok()) == Some(addr.port())
    };
    listeners.iter().any(has_port).then_some(admin)
}

/// The values of all counters at one moment.
struct MachineReading {
    at: Instant,
    client: Duration,
    kernel: Option<ProcessorTicks>,
    interfaces: Vec<InterfaceCounter>,
}

impl MachineReading {
    fn now() -> Self {
        let client = Duration::try_from(clock_gettime(ClockId::ProcessCPUTime));
        Self {
            at: Instant::now(),
            client: client.unwrap_or_default(),
            kernel: ProcessorTicks::read(),
            interfaces: interfaces(),
        }
    }
}

fn watch(galley: Option<&AdminAddress>, is_local: bool, ends: &AtomicBool) -> Vec<MachineSample> {
    let began = Instant::now();
    let mut samples = Vec::new();
    let mut before = MachineReading::now();
    while samples.len() < MAX_SAMPLES {
        let next = before.at + SAMPLE_INTERVAL;
        while Instant::now() < next {
            if ends.load(Ordering::Relaxed) {
                return samples;
            }
            thread::sleep(CHECK_INTERVAL);
        }
        let now = MachineReading::now();
        let mut sample = between(&before, &now, is_local);
        sample.at_s = began.elapsed().as_secs_f64();
        if let Some(status) = galley.and_then(|galley| galley.get("/status").ok()) {
            add_slots(&mut sample, &status);
        }
        samples.push(sample);
        before = now;
    }
    samples
}

#[expect(clippy::cast_precision_loss, reason = "shares")]
fn between(before: &MachineReading, now: &MachineReading, is_local: bool) -> MachineSample {
    let seconds = (now.at - before.at).as_secs_f64().max(1e-3);
    let mut sample = MachineSample {
        client_cores: now.client.saturating_sub(before.client).as_secs_f64() / seconds,
        ..MachineSample::default()
    };
    if !is_local {
        sample.network = network_share(&before.interfaces, &now.interfaces, seconds);
        return sample;
    }
    if let (Some(before), Some(now)) = (&before.kernel, &now.kernel) {
        let ticks = now.all.saturating_sub(before.all).max(1) as f64;
        let cores =
            |before: u64, now: u64| now.saturating_sub(before) as f64 / TICKS_PER_S / seconds;
        let idle = now.idle.saturating_sub(before.idle) as f64;
        sample.busy = Some((1.0 - idle / ticks).clamp(0.0, 1.0));
        sample.database_cores = Some(cores(before.database, now.database));
        sample.php_cores = Some(cores(before.php, now.php));
    }
    sample
}

/// Adds the slots of all sites' upstreams to a sample.
fn add_slots(sample: &mut MachineSample, status: &Value) {
    let sites = status["sites"].as_array().into_iter().flatten();
    let upstreams: Vec<&Value> = sites
        .flat_map(|site| site["upstreams"].as_array().into_iter().flatten())
        .collect();
    let sum = |name: &str| {
        upstreams
            .iter()
            .filter_map(|upstream| upstream[name].as_u64())
            .sum::<u64>()
    };
    if !upstreams.is_empty() {
        sample.php_in_flight = Some(sum("in_flight"));
        sample.php_slots = Some(sum("slots"));
        sample.php_waiting = Some(sum("waiting"));
    }
}

const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);
/// The interval between two checks whether the test has ended.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// `USER_HZ`, which is constant for programs on Linux.
const TICKS_PER_S: f64 = 100.0;
/// The maximum number of samples: more than an hour.
const MAX_SAMPLES: usize = 4000;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn slots_of_all_upstreams_are_added() {
        let mut sample = MachineSample::default();
        add_slots(&mut sample, &json!({ "sites": [] }));
        assert_eq!(sample.php_slots, None);
        let upstream = |in_flight| json!({ "in_flight": in_flight, "slots": 8, "waiting": 1 });
        let sites = [
            json!({ "upstreams": [upstream(3), upstream(4)] }),
            json!({}),
        ];
        add_slots(&mut sample, &json!({ "sites": sites }));
        assert_eq!(
            (sample.php_in_flight, sample.php_slots),
            (Some(7), Some(16))
        );
        assert_eq!(sample.php_waiting, Some(2));
    }
}
