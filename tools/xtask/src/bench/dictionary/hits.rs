//! The processor time of a hit: in each coding, and without a dictionary where the option is on and where it is off.
//!
//! Two processes with the same options differ by some percent, so there are several of each, in turns, and one column compares two that do
//! not differ.

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use galley_load::{
    Connections, Generator, Limit, LoadClient, Pace, RequestOrder, Target, TargetProtocol,
    TargetTls, Template, TrustedCertificates, Workload,
};
use galley_testkit::Quartiles;

use super::{
    super::{idle::wait_until_idle, processes::ProcessTree},
    site::{BR, DCZ, DICTIONARIES, DictionarySite, HOST, Server, ZSTD},
};
use crate::{error::CommandError, interrupt::Interrupt};

/// The measured columns. Others are compared with the first.
pub(super) struct Hits([Column; 5]);

#[derive(Default)]
struct Column {
    title: &'static str,
    /// Processor time of each slice, in microseconds per request.
    costs: Vec<f64>,
    /// Bytes of the body of a response.
    bytes: u64,
    requests: u64,
}

/// A client, and the server that it sends its requests to.
struct Load {
    process: u32,
    client: LoadClient,
}

/// The loads of one server with the option and of one without it.
struct Pair {
    off: Load,
    on: Load,
    dcz: Load,
}

pub(super) fn run(
    site: &DictionarySite,
    quick: bool,
    interrupt: &Interrupt,
) -> Result<Hits, CommandError> {
    eprintln!("dictionary: hits");
    let (pairs, slices) = if quick { (1, 10) } else { (PAIRS, SLICES) };
    // Short posts: each has a difference.
    let (_, paths) = site.kinds.get(1).ok_or("no pages")?;
    let path = paths.get(1).ok_or("no page")?;
    let mut servers = Vec::new();
    for number in 0..pairs {
        servers.push(site.server(&format!("hits-off-{number}"), "br", BR)?);
        servers.push(site.server(&format!("hits-on-{number}"), "dcz", DCZ)?);
    }
    servers.push(site.server("hits-zstd", "zstd", ZSTD)?);
    for server in &servers {
        site.fill(server, paths)?;
    }
    let load = |server: &Server, field: &str| {
        let client = client(site, server, path, field, interrupt)?;
        let process = server.galley.pid();
        Ok::<_, CommandError>(Load { process, client })
    };
    let (zstd, both) = servers.split_last().ok_or("no server")?;
    let mut zstd = load(zstd, "")?;
    let mut loads = Vec::new();
    for both in both.chunks_exact(2) {
        let [off, on] = both else { continue };
        let hash = dictionary_hash(site, on, path)?;
        let known = format!("Available-Dictionary: {hash}\r\n");
        loads.push(Pair {
            off: load(off, "")?,
            on: load(on, "")?,
            dcz: load(on, &known)?,
        });
    }
    let processes: Vec<u32> = servers.iter().map(|server| server.galley.pid()).collect();
    let mut columns = TITLES.map(|title| Column {
        title,
        ..Column::default()
    });
    for number in 0..slices + pairs {
        interrupt.check()?;
        let is_measured = number >= pairs;
        let (at, next) = (number % pairs, (number + 1) % pairs);
        let mut order = [0, 1, 2, 3, 4];
        // Nobody always comes after the same one.
        if number / pairs % 2 == 1 {
            order.reverse();
        }
        for column in order {
            let load = match column {
                0 => &mut loads[at].off,
                1 => &mut loads[next].off,
                2 => &mut loads[at].on,
                3 => &mut zstd,
                _ => &mut loads[at].dcz,
            };
            columns[column].slice(load, is_measured)?;
        }
        if number + 1 == pairs {
            wait_until_idle(interrupt, &processes)?;
        }
    }
    Ok(Hits(columns))
}

fn client(
    site: &DictionarySite,
    server: &Server,
    path: &str,
    field: &str,
    interrupt: &Interrupt,
) -> Result<LoadClient, CommandError> {
    let addr = server.tls_addr()?;
    let head = HEAD
        .replace("{path}", path)
        .replace("{host}", &format!("{HOST}:{}", addr.port()))
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
            name: HOST.to_owned(),
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
    fn slice(&mut self, load: &mut Load, is_measured: bool) -> Result<(), CommandError> {
        let before = ProcessTree::threads(&[load.process]);
        let outcomes = load.client.run(Limit::Requests(SLICE))?;
        let cpu = ProcessTree::threads(&[load.process]).since(&before);
        load.client.acknowledge();
        let outcome = outcomes.first().ok_or("no request was sent")?;
        if outcome.responses == 0 || outcome.unexpected_status + outcome.broken > 0 {
            let error = outcome.first_error.as_deref().unwrap_or("no response");
            return Err(format!("{}: {error}", self.title).into());
        }
        if cpu.is_zero() {
            return Err("the kernel does not report the processor time of threads".into());
        }
        if is_measured {
            #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
            let cost = cpu.as_secs_f64() * 1e6 / outcome.responses as f64;
            self.costs.push(cost);
            self.bytes = outcome.bytes / outcome.responses;
            self.requests += outcome.responses;
        }
        Ok(())
    }

    /// How much more each slice cost than that of another column, in percent.
    fn beside(&self, other: &Self) -> Vec<f64> {
        let pairs = self.costs.iter().zip(&other.costs);
        pairs
            .map(|(one, other)| (one / other - 1.0) * 100.0)
            .collect()
    }
}

impl Hits {
    pub(super) fn print(&self) {
        let [off, _, on, ..] = &self.0;
        println!(
            "One short post over HTTP/2 and TLS; CPU us of Galley for a hit, in {} slices of {SLICE} requests: median, and the quartiles\n",
            off.costs.len()
        );
        println!(
            "| request | requests | bytes of the body | CPU us | beside the first | 95 % interval of that median |\n|---|--:|--:|--:|--:|--:|"
        );
        for column in &self.0 {
            let all = column.beside(off);
            let (lowest, highest) = interval(&all);
            let costs = Quartiles::of(column.costs.iter().copied());
            let Some((cost, all)) = costs.zip(Quartiles::of(all)) else {
                continue;
            };
            println!(
                "| {} | {} | {} | {:.2} ({:.2}-{:.2}) | {:+.1} % ({:+.1} to {:+.1}) | {lowest:+.2} to {highest:+.2} |",
                column.title,
                column.requests,
                column.bytes,
                cost.median,
                cost.lower,
                cost.upper,
                all.median,
                all.lower,
                all.upper
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
    /// When a hit without a dictionary certainly costs more where the option is on, or when two processes without it differ by as much.
    pub(super) fn verdict(&self) -> Result<(), CommandError> {
        let [off, other, on, ..] = &self.0;
        let (least, most) = interval(&other.beside(off));
        if least > MOST || most < -MOST {
            return Err(format!(
                "two processes without the option differ by {least:+.1} to {most:+.1} %: this run says nothing about the goal of {MOST} %"
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
    path: &str,
) -> Result<String, CommandError> {
    let head = site.heads(&[server.url(path)?], &[])?;
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
    "`br`, option off, another process",
    "`br`, option on",
    "`zstd`",
    "`dcz`",
];

/// The goal for hits without a dictionary, in percent.
pub(super) const MOST: f64 = 1.0;

const CONNECTIONS: usize = 16;
/// Servers with the option, and without it.
const PAIRS: usize = 4;
/// Slices that are measured, in each column.
const SLICES: usize = 200;
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
