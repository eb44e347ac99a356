//! Visitors: requests at a constant rate, whether or not responses come, for pages by Zipf's law. A member: one request again and again.

use std::{
    net::SocketAddr,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use galley_load::{
    Connections, Expected, ExpectedStatus, Limit, LoadClient, LoadOutcome, Pace, Requests, Target,
    Workload,
};
use galley_testkit::{
    TestkitError,
    exactness::fragments::{Site, Visits},
};

/// Requests pages of `site` at this rate for this time.
pub(super) fn visits(site: Site<'_>, rate: f64, time: Duration) -> Result<Visits, TestkitError> {
    if time.is_zero() {
        return Ok(Visits::default());
    }
    let workload = Workload {
        requests: Box::new(Visitors::new(site)),
        connections: CONNECTIONS,
        pace: Pace::Constant(rate),
    };
    let outcome = sent(site.addr, workload, time)?;
    let counted = |is_meant: &dyn Fn(&str) -> bool| {
        let lines = outcome.watched.iter();
        let meant = lines.filter(|((_, line), _)| is_meant(line));
        meant.map(|(_, count)| count).sum()
    };
    Ok(Visits {
        responses: outcome.responses,
        hits: counted(&|line| line.contains("; hit")),
        patched: counted(&|line| line.contains("detail=patched")),
        failed: outcome.unexpected_status + outcome.broken + outcome.unsent,
        p99: outcome.quantile(0.99),
    })
}

/// Responses per second to one request that is repeated on some connections for this time, which must be the pages that are wanted.
pub(super) fn rate(addr: SocketAddr, head: Vec<u8>, time: Duration) -> Result<f64, TestkitError> {
    let workload = Workload {
        requests: Box::new(Repeated(head)),
        connections: MEMBER_CONNECTIONS,
        pace: Pace::Closed,
    };
    let outcome = sent(addr, workload, time)?;
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

fn sent(addr: SocketAddr, workload: Workload, time: Duration) -> Result<LoadOutcome, TestkitError> {
    let refused = |error: galley_load::LoadError| TestkitError::Refused(error.to_string());
    let target = Target {
        addr,
        tls: None,
        connections: Connections::Kept,
        watch: Some("cache-status".to_owned()),
    };
    let stop = Arc::new(AtomicBool::new(false));
    let mut client = LoadClient::connect(target, vec![workload], stop).map_err(refused)?;
    let mut outcomes = client.run(Limit::Time(time)).map_err(refused)?;
    outcomes
        .pop()
        .ok_or_else(|| TestkitError::Refused("the load has no outcome".to_owned()))
}

/// The same request each time.
struct Repeated(Vec<u8>);

impl Requests for Repeated {
    fn next(&mut self, head: &mut Vec<u8>) -> Expected {
        head.extend_from_slice(&self.0);
        Expected {
            page: 0,
            status: ExpectedStatus::Exactly(200),
        }
    }
}

/// Chooses pages: the n-th is requested an n-th as often as the first.
struct Visitors {
    heads: Vec<Vec<u8>>,
    sums: Vec<f64>,
    random: u64,
}

impl Visitors {
    fn new(site: Site<'_>) -> Self {
        let head = |target: &String| {
            format!(
                "GET {target} HTTP/1.1\r\nHost: {}\r\nUser-Agent: galley-fragments\r\nAccept-Encoding: gzip\r\n\r\n",
                site.host
            )
            .into_bytes()
        };
        let mut sum = 0.0;
        let mut place = 0.0;
        let sums = site.targets.iter().map(|_| {
            place += 1.0;
            sum += 1.0 / place;
            sum
        });
        Self {
            sums: sums.collect(),
            heads: site.targets.iter().map(head).collect(),
            random: 0x9E37_79B9_7F4A_7C15,
        }
    }
}

impl Requests for Visitors {
    fn next(&mut self, head: &mut Vec<u8>) -> Expected {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        let random = self.random.wrapping_mul(0x2545_F491_4F6C_DD1D);
        #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
        let share = (random >> 11) as f64 / (1_u64 << 53) as f64;
        let point = share * self.sums.last().copied().unwrap_or_default();
        let page = self.sums.partition_point(|sum| *sum <= point);
        if let Some(bytes) = self.heads.get(page).or_else(|| self.heads.last()) {
            head.extend_from_slice(bytes);
        }
        Expected {
            page,
            status: ExpectedStatus::Exactly(200),
        }
    }
}

const CONNECTIONS: usize = 16;
/// As many as PHP has workers for.
const MEMBER_CONNECTIONS: usize = 4;
