//! The load. Visitors request pages, chosen by Zipf's law, at a constant rate that does not depend on the responses. A member
//! repeats one request.

use std::{
    net::SocketAddr,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use galley_load::{
    Connections, ExpectedStatus, Limit, LoadClient, LoadOutcome, Pace, Requests, ResponseCheck,
    Target, Workload,
};
use galley_testkit::{
    TestkitError,
    exactness::fragments::{LoadTarget, VisitCounts},
};

/// Requests pages of the target at this rate for this time.
pub(super) fn visits(
    target: LoadTarget<'_>,
    rate: f64,
    time: Duration,
) -> Result<VisitCounts, TestkitError> {
    if time.is_zero() {
        return Ok(VisitCounts::default());
    }
    let workload = Workload {
        requests: Box::new(ZipfRequests::new(target)),
        connections: CONNECTIONS,
        pace: Pace::Constant(rate),
    };
    let outcome = run_load(target.addr, workload, time)?;
    let count = |matches: &dyn Fn(&str) -> bool| {
        let lines = outcome.watched.iter();
        let matching = lines.filter(|((_, line), _)| matches(line));
        matching.map(|(_, count)| count).sum()
    };
    Ok(VisitCounts {
        responses: outcome.responses,
        hits: count(&|line| line.contains("; hit")),
        patched: count(&|line| line.contains("detail=patched")),
        failed: outcome.unexpected_status + outcome.broken + outcome.unsent,
        p99: outcome.quantile(0.99),
    })
}

/// Repeats one request on [`MEMBER_CONNECTIONS`] connections for this time; returns the responses per second, all of which
/// must have status 200.
pub(super) fn rate(addr: SocketAddr, head: Vec<u8>, time: Duration) -> Result<f64, TestkitError> {
    let workload = Workload {
        requests: Box::new(RepeatedRequest(head)),
        connections: MEMBER_CONNECTIONS,
        pace: Pace::Closed,
    };
    let outcome = run_load(addr, workload, time)?;
    let failed = outcome.unexpected_status + outcome.broken + outcome.unsent;
    if failed > 0 {
        return Err(TestkitError::Refused(format!(
            "{failed} requests of a member failed"
        )));
    }
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let responses = outcome.responses as f64;
    Ok(responses / time.as_secs_f64())
}

fn run_load(
    addr: SocketAddr,
    workload: Workload,
    time: Duration,
) -> Result<LoadOutcome, TestkitError> {
    let to_testkit_error = |error: galley_load::LoadError| TestkitError::Refused(error.to_string());
    let target = Target {
        addr,
        tls: None,
        connections: Connections::Kept,
        watch: Some("cache-status".to_owned()),
    };
    let stop = Arc::new(AtomicBool::new(false));
    let mut client = LoadClient::connect(target, vec![workload], stop).map_err(to_testkit_error)?;
    let mut outcomes = client.run(Limit::Time(time)).map_err(to_testkit_error)?;
    outcomes
        .pop()
        .ok_or_else(|| TestkitError::Refused("the load has no outcome".to_owned()))
}

pub(crate) struct RepeatedRequest(pub(crate) Vec<u8>);

impl Requests for RepeatedRequest {
    fn next(&mut self, head: &mut Vec<u8>) -> ResponseCheck {
        head.extend_from_slice(&self.0);
        ResponseCheck {
            page: 0,
            status: ExpectedStatus::Exactly(200),
        }
    }
}

/// Random requests for pages: the n-th page is requested 1/n times as often as the first.
pub(crate) struct ZipfRequests {
    heads: Vec<Vec<u8>>,
    /// Sums of the weights of the pages up to each one.
    cumulative_weights: Vec<f64>,
    /// State of the generator (xorshift64*).
    random: u64,
}

impl ZipfRequests {
    pub(crate) fn new(target: LoadTarget<'_>) -> Self {
        let head = |page: &String| {
            format!(
                "GET {page} HTTP/1.1\r\nHost: {}\r\nUser-Agent: galley-fragments\r\nAccept-Encoding: gzip\r\n\r\n",
                target.host
            )
            .into_bytes()
        };
        let mut sum = 0.0;
        let mut rank = 0.0;
        let cumulative_weights = target.targets.iter().map(|_| {
            rank += 1.0;
            sum += 1.0 / rank;
            sum
        });
        Self {
            cumulative_weights: cumulative_weights.collect(),
            heads: target.targets.iter().map(head).collect(),
            random: 0x9E37_79B9_7F4A_7C15,
        }
    }
}

impl Requests for ZipfRequests {
    fn next(&mut self, head: &mut Vec<u8>) -> ResponseCheck {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        let random = self.random.wrapping_mul(0x2545_F491_4F6C_DD1D);
        #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
        let share = (random >> 11) as f64 / (1_u64 << 53) as f64;
        let weights = &self.cumulative_weights;
        let point = share * weights.last().copied().unwrap_or_default();
        let page = weights.partition_point(|sum| *sum <= point);
        if let Some(bytes) = self.heads.get(page).or_else(|| self.heads.last()) {
            head.extend_from_slice(bytes);
        }
        ResponseCheck {
            page,
            status: ExpectedStatus::Exactly(200),
        }
    }
}

const CONNECTIONS: usize = 16;
/// As many as PHP has workers.
const MEMBER_CONNECTIONS: usize = 4;
