//! The client: one page with its resources over one new connection, as a browser loads it.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::PathBuf,
    time::{Duration, Instant},
};

use galley_load::{
    Connections, Generator, Limit, LoadClient, Pace, RequestOrder, Target, TargetProtocol,
    TargetTls, Template, TrustedCertificates, Workload,
};
use rustls::pki_types::{CertificateDer, pem::PemObject};

use crate::error::CommandError;

/// Command-line arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct PageArguments {
    /// The address of the server
    #[arg(long)]
    addr: SocketAddr,
    /// The name of the site
    #[arg(long)]
    host: String,
    /// The certificate of the site
    #[arg(long)]
    certificate: PathBuf,
    /// HTTP/3 instead of HTTP/2
    #[arg(long)]
    http3: bool,
}

/// Loads the page and prints the time that it took, in milliseconds.
pub(crate) fn run(arguments: &PageArguments) -> Result<(), CommandError> {
    let streams = RESOURCES;
    let tls = TargetTls {
        name: arguments.host.clone(),
        trusted: TrustedCertificates::Only(CertificateDer::from_pem_file(&arguments.certificate)?),
        protocol: if arguments.http3 {
            TargetProtocol::Http3 { streams }
        } else {
            TargetProtocol::Http2 { streams }
        },
        resumes: false,
    };
    let target = Target {
        addr: arguments.addr,
        tls: Some(tls),
        connections: Connections::Kept,
        watch: None,
    };
    // The first file is the page; the others are requested when it has arrived.
    let head = format!("GET /{{page}} HTTP/1.1\r\nHost: {}\r\n\r\n", arguments.host);
    let template = Template::parse(&head, &BTreeMap::new())?;
    let order = RequestOrder::InTurn(1 + RESOURCES);
    let workload = Workload {
        requests: Box::new(Generator::new(template, &order, 200)),
        connections: 1,
        pace: Pace::Closed,
    };
    let began = Instant::now();
    let mut client = LoadClient::connect(target, vec![workload], std::sync::Arc::default())?;
    let (mut end, mut bytes) = (Duration::ZERO, 0);
    for requests in [1, RESOURCES] {
        for outcome in client.run(Limit::Requests(requests as u64))? {
            let failed = outcome.broken + outcome.unexpected_status;
            if failed > 0 {
                return Err(format!("{failed} failed: {:?}", outcome.first_error).into());
            }
            end = began.elapsed();
            bytes += outcome.bytes;
        }
    }
    if bytes < (PAGE_BYTES + RESOURCES * RESOURCE_BYTES) as u64 {
        return Err(format!("only {bytes} bytes were received").into());
    }
    println!("{}", end.as_secs_f64() * 1e3);
    Ok(())
}

/// The number of resources of the page: images, scripts and styles.
pub(super) const RESOURCES: usize = 30;

/// The length of the page, in bytes.
pub(super) const PAGE_BYTES: usize = 40_000;

/// The length of a resource, in bytes.
pub(super) const RESOURCE_BYTES: usize = 20_000;
