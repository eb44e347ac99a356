//! Visitors: requests at a constant rate, whether or not responses come, for pages by Zipf's law.

use std::{
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use galley_load::{
    Connections, Expected, ExpectedStatus, Limit, LoadClient, Pace, Requests, Target, Workload,
};
use galley_testkit::{
    Trouble,
    exactness::fragments::{Site, Visits},
};

/// Requests pages of `site` at this rate for this time.
pub(super) fn visits(site: Site<'_>, rate: f64, time: Duration) -> Result<Visits, Trouble> {
    if time.is_zero() {
        return Ok(Visits::default());
    }
    let refused = |error: galley_load::LoadError| Trouble::Refused(error.to_string());
    let workload = Workload {
        requests: Box::new(Visitors::new(site)),
        connections: CONNECTIONS,
        pace: Pace::Constant(rate),
    };
    let target = Target {
        addr: site.addr,
        tls: None,
        connections: Connections::Kept,
        watch: Some("cache-status".to_owned()),
    };
    let stop = Arc::new(AtomicBool::new(false));
    let mut client = LoadClient::connect(target, vec![workload], stop).map_err(refused)?;
    let mut outcomes = client.run(Limit::Time(time)).map_err(refused)?;
    let outcome = outcomes
        .pop()
        .ok_or_else(|| Trouble::Refused("the load has no outcome".to_owned()))?;
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
