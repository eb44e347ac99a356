//! The processor time of a hit: in each coding, and without a dictionary where the option is on and where it is off.

use std::{collections::BTreeMap, path::Path, process::Command};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use galley_load::{
    Connections, Generator, Limit, LoadClient, Pace, RequestOrder, Target, TargetProtocol,
    TargetTls, Template, TrustedCertificates, Workload,
};
use galley_testkit::Quartiles;

use super::{
    super::{idle::wait_until_idle, processes::ProcessTree},
    site::{DictionarySite, HOST, Server},
};
use crate::{error::CommandError, interrupt::Interrupt};

/// The measured columns; the first two are compared.
pub(super) struct Hits(Vec<Column>);

struct Column {
    title: &'static str,
    /// Processor time of each slice, in microseconds per request.
    costs: Vec<f64>,
    /// Bytes of a response with its head.
    bytes: u64,
    requests: u64,
}

/// A client, and the server that it sends its requests to.
struct Load<'a> {
    server: &'a Server,
    client: LoadClient,
    column: Column,
}

pub(super) fn run(
    site: &DictionarySite,
    quick: bool,
    interrupt: &Interrupt,
) -> Result<Hits, CommandError> {
    eprintln!("dictionary: hits");
    // Short posts: each has a difference.
    let (_, paths) = site.kinds.get(1).ok_or("no pages")?;
    let path = paths.get(1).ok_or("no page")?;
    let (off, zstd, on) = (
        site.server("br")?,
        site.server("zstd")?,
        site.server("dcz")?,
    );
    let hash = dictionary_hash(on, path, &site.certificate.file)?;
    let known = format!("Available-Dictionary: {hash}\r\n");
    let mut loads = Vec::new();
    for (title, server, field) in [
        ("`br`, option off", off, ""),
        ("`br`, option on", on, ""),
        ("`zstd`", zstd, ""),
        ("`dcz`", on, known.as_str()),
    ] {
        loads.push(Load {
            server,
            client: client(site, server, path, field, interrupt)?,
            column: Column {
                title,
                costs: Vec::new(),
                bytes: 0,
                requests: 0,
            },
        });
    }
    let slices = if quick { 5 } else { SLICES };
    for number in 0..slices + WARM {
        interrupt.check()?;
        // In reversed order every second time: nobody always comes after the same one.
        let mut order: Vec<&mut Load<'_>> = loads.iter_mut().collect();
        if number % 2 == 1 {
            order.reverse();
        }
        for load in order {
            load.slice(number >= WARM)?;
        }
        if number < WARM {
            wait_until_idle(interrupt, &[off.galley.pid(), on.galley.pid()])?;
        }
    }
    Ok(Hits(loads.into_iter().map(|load| load.column).collect()))
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

impl Load<'_> {
    fn slice(&mut self, is_measured: bool) -> Result<(), CommandError> {
        let pid = [self.server.galley.pid()];
        let before = ProcessTree::cpu_time(&pid);
        let outcomes = self.client.run(Limit::Requests(SLICE))?;
        let cpu = ProcessTree::cpu_time(&pid).saturating_sub(before);
        self.client.acknowledge();
        let outcome = outcomes.first().ok_or("no request was sent")?;
        if outcome.responses == 0 || outcome.unexpected_status + outcome.broken > 0 {
            let error = outcome.first_error.as_deref().unwrap_or("no response");
            return Err(format!("{}: {error}", self.column.title).into());
        }
        if is_measured {
            #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
            let cost = cpu.as_secs_f64() * 1e6 / outcome.responses as f64;
            self.column.costs.push(cost);
            self.column.bytes = outcome.bytes / outcome.responses;
            self.column.requests += outcome.responses;
        }
        Ok(())
    }
}

impl Hits {
    pub(super) fn print(&self) {
        println!(
            "One short post over HTTP/2 and TLS; CPU us of Galley for a hit, in {} slices: median, and the quartiles\n",
            self.slices()
        );
        println!(
            "| request | requests | bytes with head | CPU us | beside the first |\n|---|--:|--:|--:|--:|"
        );
        for column in &self.0 {
            let Some(cost) = Quartiles::of(column.costs.iter().copied()) else {
                continue;
            };
            print!(
                "| {} | {} | {} | {:.2} ({:.2}-{:.2}) |",
                column.title, column.requests, column.bytes, cost.median, cost.lower, cost.upper
            );
            match self.difference(column) {
                Some(all) => println!(
                    " {:+.1} % ({:+.1} to {:+.1}) |",
                    all.median, all.lower, all.upper
                ),
                None => println!(" |"),
            }
        }
    }

    fn slices(&self) -> usize {
        self.0.first().map_or(0, |column| column.costs.len())
    }

    /// How much more than the first column, in percent, slice by slice.
    fn difference(&self, column: &Column) -> Option<Quartiles> {
        let pairs = column.costs.iter().zip(&self.0.first()?.costs);
        Quartiles::of(pairs.map(|(one, other)| (one / other - 1.0) * 100.0))
    }

    /// # Errors
    /// When a hit without a dictionary costs more where the option is on.
    pub(super) fn verdict(&self) -> Result<(), CommandError> {
        let on = self.0.get(1).and_then(|column| self.difference(column));
        let median = on.ok_or("nothing was measured")?.median;
        if median > MOST {
            return Err(format!(
                "a hit without a dictionary costs {median:+.1} % with the option: the goal is at most {MOST} %"
            )
            .into());
        }
        Ok(())
    }
}

/// The value of `Available-Dictionary` for the dictionary that the page names.
fn dictionary_hash(
    server: &Server,
    path: &str,
    certificate: &Path,
) -> Result<String, CommandError> {
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--show-error", "--head", "--cacert"])
        .arg(certificate)
        .args(["--header", "Accept-Encoding: br"])
        .args(["--connect-to", &format!("{HOST}::127.0.0.1:")])
        .arg(server.url(path)?);
    let output = curl.output()?;
    let head = String::from_utf8_lossy(&output.stdout);
    let hex = head
        .split_once("/galley-dictionary/")
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

/// The goal for hits without a dictionary, in percent.
pub(super) const MOST: f64 = 1.0;

const CONNECTIONS: usize = 16;
/// Slices that are measured.
const SLICES: usize = 20;
/// Slices before that.
const WARM: usize = 2;
/// Requests of a slice: a number, so that a busy machine measures as many.
const SLICE: u64 = 20_000;
