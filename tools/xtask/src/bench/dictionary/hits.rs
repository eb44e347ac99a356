//! The processor time of a hit: in each coding, and without a dictionary where the option is on and where it is off.
//!
//! Two processes with the same options differ by several percent, by the addresses of their memory. So one process serves all columns, with a
//! site for each, two of them without the option; and there are several processes.

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use galley_load::{
    Connections, Generator, Limit, LoadClient, Pace, RequestOrder, Target, TargetProtocol,
    TargetTls, Template, TrustedCertificates, Workload,
};
use galley_testkit::Quartiles;

use super::{
    super::{idle::wait_until_idle, processes::ProcessTree},
    site::{DICTIONARIES, DictionarySite, HIT_SITES, Server},
};
use crate::{error::CommandError, interrupt::Interrupt};

/// The measured columns. Others are compared with the first.
pub(super) struct Hits([Column; 5]);

#[derive(Default)]
struct Column {
    title: &'static str,
    /// Processor time of the slices of each process, in microseconds per request.
    costs: Vec<Vec<f64>>,
    /// Bytes of the body of a response.
    bytes: u64,
    requests: u64,
}

pub(super) fn run(
    site: &DictionarySite,
    quick: bool,
    interrupt: &Interrupt,
) -> Result<Hits, CommandError> {
    let (processes, slices) = if quick { (2, 10) } else { (PROCESSES, SLICES) };
    let mut columns = TITLES.map(|title| Column {
        title,
        ..Column::default()
    });
    for number in 0..processes {
        eprintln!("dictionary: hits of process {} of {processes}", number + 1);
        let server = site.hit_server(&format!("hits-{number}"))?;
        measure(site, &server, slices, &mut columns, interrupt)?;
    }
    Ok(Hits(columns))
}

/// Adds the slices of one process to the columns.
fn measure(
    site: &DictionarySite,
    server: &Server,
    slices: usize,
    columns: &mut [Column; 5],
    interrupt: &Interrupt,
) -> Result<(), CommandError> {
    // Short posts: each has a difference.
    let (_, paths) = site.kinds.get(1).ok_or("no pages")?;
    let path = paths.get(1).ok_or("no page")?;
    for of in HIT_SITES {
        site.fill(server, of.host, of.coding, paths)?;
    }
    let [off, other, on, zstd] = HIT_SITES.map(|of| of.host);
    let hash = dictionary_hash(site, server, on, path)?;
    let known = format!("Available-Dictionary: {hash}\r\n");
    let mut clients = Vec::new();
    for (host, field) in [(off, ""), (other, ""), (on, ""), (zstd, ""), (on, &known)] {
        clients.push(client(site, server, host, path, field, interrupt)?);
    }
    let process = server.galley.pid();
    for column in &mut *columns {
        column.costs.push(Vec::new());
    }
    for number in 0..=slices {
        interrupt.check()?;
        let mut order = [0, 1, 2, 3, 4];
        // Nobody always comes after the same one.
        order.rotate_left(number % 5);
        if number % 2 == 1 {
            order.reverse();
        }
        for column in order {
            let outcome = slice(&mut clients[column], process, columns[column].title)?;
            if number > 0 {
                columns[column].add(&outcome);
            }
        }
        if number == 0 {
            wait_until_idle(interrupt, &[process])?;
        }
    }
    Ok(())
}

/// What a slice has cost.
struct SliceCost {
    cpu_us: f64,
    bytes: u64,
    requests: u64,
}

fn slice(client: &mut LoadClient, process: u32, title: &str) -> Result<SliceCost, CommandError> {
    let before = ProcessTree::threads(&[process]);
    let outcomes = client.run(Limit::Requests(SLICE))?;
    let cpu = ProcessTree::threads(&[process]).since(&before);
    client.acknowledge();
    let outcome = outcomes.first().ok_or("no request was sent")?;
    if outcome.responses == 0 || outcome.unexpected_status + outcome.broken > 0 {
        let error = outcome.first_error.as_deref().unwrap_or("no response");
        return Err(format!("{title}: {error}").into());
    }
    if cpu.is_zero() {
        return Err("the kernel does not report the processor time of threads".into());
    }
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let cpu_us = cpu.as_secs_f64() * 1e6 / outcome.responses as f64;
    Ok(SliceCost {
        cpu_us,
        bytes: outcome.bytes / outcome.responses,
        requests: outcome.responses,
    })
}

fn client(
    site: &DictionarySite,
    server: &Server,
    host: &str,
    path: &str,
    field: &str,
    interrupt: &Interrupt,
) -> Result<LoadClient, CommandError> {
    let addr = server.tls_addr()?;
    let head = HEAD
        .replace("{path}", path)
        .replace("{host}", &format!("{host}:{}", addr.port()))
        .replace("{field}", field);
    let template = Template::parse(&head, &BTreeMap::new())?;
    let workload = Workload {
        requests: Box::new(Generator::new(template, &RequestOrder::InTurn(1), 200)),
        connections: CONNECTIONS,
        pace: Pace::Closed,
    };
    let target = Target {
        addr,
        tls: Some(TargetTls {
            name: host.to_owned(),
            trusted: TrustedCertificates::Only(site.certificate.trusted.clone()),
            protocol: TargetProtocol::Http2 { streams: 1 },
            resumes: false,
        }),
        connections: Connections::Kept,
        watch: None,
    };
    Ok(LoadClient::connect(
        target,
        vec![workload],
        interrupt.flag(),
    )?)
}

impl Column {
    /// Adds a slice of the latest process.
    fn add(&mut self, slice: &SliceCost) {
        if let Some(costs) = self.costs.last_mut() {
            costs.push(slice.cpu_us);
        }
        self.bytes = slice.bytes;
        self.requests += slice.requests;
    }

    /// How much more a hit cost than in another column, in percent, for each process: the median of its slices.
    fn beside(&self, other: &Self) -> Vec<f64> {
        let processes = self.costs.iter().zip(&other.costs);
        let medians = processes.map(|(costs, others)| {
            let pairs = costs.iter().zip(others);
            Quartiles::of(pairs.map(|(one, other)| (one / other - 1.0) * 100.0))
        });
        medians
            .map(|all| all.map_or(f64::NAN, |all| all.median))
            .collect()
    }
}

impl Hits {
    pub(super) fn print(&self) {
        let [off, _, on, ..] = &self.0;
        println!(
            "One short post over HTTP/2 and TLS; CPU us of Galley for a hit, in {} processes with {} slices of {SLICE} requests each: median, and the \
             quartiles; beside the first: the median of a process, the median of all and their range\n",
            off.costs.len(),
            off.costs.first().map_or(0, Vec::len),
        );
        println!(
            "| request | requests | bytes of the body | CPU us | beside the first | 95 % interval of that median |\n|---|--:|--:|--:|--:|--:|"
        );
        for column in &self.0 {
            let beside = column.beside(off);
            let (lowest, highest) = interval(&beside);
            let least = beside.iter().copied().fold(f64::INFINITY, f64::min);
            let most = beside.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let costs = Quartiles::of(column.costs.iter().flatten().copied());
            let Some((cost, all)) = costs.zip(Quartiles::of(beside)) else {
                continue;
            };
            println!(
                "| {} | {} | {} | {:.2} ({:.2}-{:.2}) | {:+.1} % ({least:+.1} to {most:+.1}) | {lowest:+.2} to {highest:+.2} |",
                column.title,
                column.requests,
                column.bytes,
                cost.median,
                cost.lower,
                cost.upper,
                all.median,
            );
        }
        let (lowest, highest) = interval(&on.beside(off));
        let lies = if lowest >= -MOST && highest <= MOST {
            "lies"
        } else {
            "does not lie"
        };
        println!(
            "\nHits without a dictionary: the interval {lowest:+.2} to {highest:+.2} % {lies} within {MOST} %.\n"
        );
    }

    /// # Errors
    /// When a hit without a dictionary certainly costs more where the option is on, or when two sites without it differ by as much.
    pub(super) fn verdict(&self) -> Result<(), CommandError> {
        let [off, other, on, ..] = &self.0;
        let (least, most) = interval(&other.beside(off));
        if least > MOST || most < -MOST {
            return Err(format!(
                "two sites without the option differ by {least:+.1} to {most:+.1} %: this run says nothing about the goal of {MOST} %"
            )
            .into());
        }
        let (lowest, _) = interval(&on.beside(off));
        if lowest > MOST {
            return Err(format!(
                "a hit without a dictionary costs at least {lowest:+.1} % more with the option: the goal is at most {MOST} %"
            )
            .into());
        }
        Ok(())
    }
}

/// The 95 % confidence interval of the median: the values whose ranks lie 1.96 standard deviations of a binomial distribution around its
/// rank.
fn interval(values: &[f64]) -> (f64, f64) {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let (middle, root) = (values.len() / 2, values.len().isqrt() + 1);
    let value = |at: usize| values.get(at).copied().unwrap_or(f64::NAN);
    let highest = (middle + root).min(values.len().saturating_sub(1));
    (value(middle.saturating_sub(root)), value(highest))
}

/// The value of `Available-Dictionary` for the dictionary that the page names.
fn dictionary_hash(
    site: &DictionarySite,
    server: &Server,
    host: &str,
    path: &str,
) -> Result<String, CommandError> {
    let head = site.heads(&[server.url_of(host, path)?], &[])?;
    let hex = head
        .split_once(DICTIONARIES)
        .and_then(|(_, rest)| rest.get(..64))
        .ok_or_else(|| format!("{path} names no dictionary: {head}"))?;
    let bytes: Result<Vec<u8>, _> = (0..hex.len() / 2)
        .filter_map(|at| hex.get(2 * at..2 * at + 2))
        .map(|pair| u8::from_str_radix(pair, 16))
        .collect();
    Ok(format!(":{}:", STANDARD.encode(bytes?)))
}

/// The request of a browser that follows a link of the same site.
const HEAD: &str = "GET {path} HTTP/1.1\r\nHost: {host}\r\n\
sec-ch-ua: \"Chromium\";v=\"143\", \"Not A(Brand\";v=\"24\"\r\nsec-ch-ua-mobile: ?0\r\nsec-ch-ua-platform: \"Linux\"\r\n\
Upgrade-Insecure-Requests: 1\r\n\
User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/143.0.0.0 Safari/537.36\r\n\
Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8\r\n\
Sec-Fetch-Site: same-origin\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-User: ?1\r\nSec-Fetch-Dest: document\r\n\
Referer: https://{host}/\r\nAccept-Encoding: gzip, deflate, br, zstd, dcb, dcz\r\n{field}\
Accept-Language: en-US,en;q=0.9\r\n\r\n";

const TITLES: [&str; 5] = [
    "`br`, option off",
    "`br`, option off, another site",
    "`br`, option on",
    "`zstd`",
    "`dcz`",
];

/// The goal for hits without a dictionary, in percent.
pub(super) const MOST: f64 = 1.0;

const CONNECTIONS: usize = 16;
const PROCESSES: usize = 8;
/// Slices that are measured of each process, in each column.
const SLICES: usize = 40;
/// Requests of a slice.
const SLICE: u64 = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_lies_around_the_median() {
        let values: Vec<f64> = (0..=100_u8).rev().map(f64::from).collect();
        assert_eq!(interval(&values), (39.0, 61.0));
        assert_eq!(interval(&[7.0]), (7.0, 7.0));
        assert!(interval(&[]).0.is_nan());
    }
}
