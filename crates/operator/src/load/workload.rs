//! Turns the options into requests, connections and their rate.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use galley_load::{
    AbRequests, Connections, Limit, LoadError, LoadSetup, Pace, Target, TargetProtocol, TargetTls,
    TrustedCertificates, VisitedPage, VisitorShares, Visitors, Workload,
};

use super::options::LoadOptions;
use super::site::TestedSite;

/// A test that is ready to run.
pub(super) struct PlannedLoad {
    pub(super) target: Target,
    pub(super) workload: Workload,
    pub(super) limit: Limit,
    pub(super) setup: LoadSetup,
}

impl PlannedLoad {
    pub(super) fn new(
        options: &LoadOptions,
        site: &TestedSite,
        pages: Vec<VisitedPage>,
        cookie: String,
        trust: TrustedCertificates,
    ) -> Result<Self, LoadError> {
        let is_closed = options.requests.is_some();
        let connections = if is_closed {
            options.concurrency
        } else {
            options.connections
        };
        let protocol = if options.http2 {
            TargetProtocol::Http2 { streams: STREAMS }
        } else {
            TargetProtocol::Http1
        };
        let target = Target {
            addr: site.addr,
            tls: site.is_tls.then(|| TargetTls {
                name: site.host.clone(),
                trusted: trust,
                protocol,
                resumes: true,
            }),
            connections: if is_closed && !options.keep_alive {
                Connections::PerRequest
            } else {
                Connections::Kept
            },
            watch: Some("cache-status".to_owned()),
        };
        let (pace, limit) = pace(options, &pages);
        let setup = setup(options, site, pace, limit);
        let workload = Workload {
            requests: if is_closed {
                Box::new(AbRequests::new(
                    &site.authority,
                    &pages,
                    options.keep_alive,
                )?)
            } else {
                let shares = VisitorShares {
                    uncached: options.uncached,
                    logged_in: options.logged_in,
                    cookie,
                    tracking: options.tracking,
                };
                let batch = SystemTime::now()
                    .duration_since(UNIX_EPOCH)
                    .unwrap_or_default();
                let batch = u64::try_from(batch.as_millis()).unwrap_or_default();
                let visitors = Visitors::new(&site.authority, pages, shares, batch)?;
                Box::new(if options.replay {
                    visitors.in_order()
                } else {
                    visitors
                })
            },
            connections: connections.clamp(1, MAX_CONNECTIONS),
            pace,
        };
        Ok(Self {
            target,
            workload,
            limit,
            setup,
        })
    }
}

fn pace(options: &LoadOptions, pages: &[VisitedPage]) -> (Pace, Limit) {
    let time = Limit::Time(options.duration);
    match (options.rate, options.ramp, options.requests) {
        (Some(rate), ..) => (Pace::Constant(rate), time),
        (_, Some([from, to]), _) => {
            let over = options.duration;
            (Pace::Ramp { from, to, over }, time)
        }
        (.., Some(requests)) => (Pace::Closed, Limit::Requests(requests)),
        // The limit includes the last request of the log.
        _ => {
            let last = pages.last().map_or(Duration::ZERO, |page| page.due);
            (Pace::Recorded, Limit::Time(last + Duration::from_millis(1)))
        }
    }
}

fn setup(options: &LoadOptions, site: &TestedSite, pace: Pace, limit: Limit) -> LoadSetup {
    let (mode, rates) = match pace {
        Pace::Closed => ("closed", None),
        Pace::Constant(rate) => ("constant", Some([rate, rate])),
        Pace::Ramp { from, to, .. } => ("ramp", Some([from, to])),
        Pace::Recorded => ("replay", None),
    };
    let protocol = match (site.is_tls, options.http2) {
        (_, true) => "HTTP/2 over TLS",
        (true, _) => "HTTP/1.1 over TLS",
        _ => "HTTP/1.1",
    };
    let connections = if mode == "closed" {
        options.concurrency
    } else {
        options.connections
    };
    LoadSetup {
        target: options.urls.first().cloned().unwrap_or_default(),
        mode: mode.to_owned(),
        client: format!("{protocol}, {connections} connections"),
        began: SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_secs(),
        rates,
        planned_s: match limit {
            Limit::Time(time) => Some(time.as_secs_f64()),
            Limit::Requests(_) => None,
        },
    }
}

/// The number of concurrent requests on each HTTP/2 connection.
const STREAMS: usize = 10;
/// The maximum number of connections. Each needs a descriptor and a buffer.
const MAX_CONNECTIONS: usize = 20_000;
