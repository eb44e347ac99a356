//! `galley dashboard`: listens, prints the address, and serves until it is stopped.

use std::future::pending;
use std::io::{self, BufRead};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use tempfile::NamedTempFile;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use super::address::DashboardAddress;
use super::forward::AdminGateway;
use super::opener;
use super::router::router;
use super::sampler::sample;
use super::state::Dashboard;
use crate::cli::options::DashboardOptions;
use galley_admin::operator_http::{self, OperatorLimits, OperatorListener};
use galley_operator::ask::{self, AdminAddress};
use galley_operator::outcome::{fail, runtime, talk};
use galley_operator::show;
use galley_sys::raise_descriptor_limit;

/// Runs `galley dashboard`.
pub(in crate::cli) fn dashboard(options: &DashboardOptions) -> ExitCode {
    let admin = match ask::admin(&options.admin) {
        Ok(admin) => admin,
        Err(trouble) => return trouble.report(),
    };
    // Reports problems here and not in the browser.
    if let Err(trouble) = admin.get("/status") {
        return fail(&trouble.to_string());
    }
    let served = runtime().and_then(|runtime| {
        let served = runtime.block_on(serve(options, admin));
        // Does not wait for the thread that reads standard input.
        runtime.shutdown_background();
        served.map_err(|error| error.to_string())
    });
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

async fn serve(options: &DashboardOptions, admin: AdminAddress) -> io::Result<()> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, options.port));
    let listener = TcpListener::bind(address).map_err(|error| {
        let message = format!("cannot listen on {address}: {error}; choose another --port");
        io::Error::new(error.kind(), message)
    })?;
    let address = DashboardAddress::new(listener.local_addr()?);
    let dashboard = Arc::new(Dashboard::new(address, AdminGateway::new(admin)));
    let first = invite(&dashboard)?;
    talk(
        "the address works once, for five minutes; Enter prints another, Ctrl-C ends the dashboard",
    );
    let _file = if options.no_open { None } else { open(&first) };
    let router = router(&dashboard);
    let listener = OperatorListener::tcp(listener)?;
    let limits = OperatorLimits {
        connections: operator_http::max_connections(raise_descriptor_limit()),
        // Live figures have no end.
        response_time: None,
    };
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        served = operator_http::serve(listener, limits, router, pending()) => served,
        () = sample(Arc::clone(&dashboard)) => Ok(()),
        invited = invite_again(&dashboard) => invited,
        stopped = tokio::signal::ctrl_c() => stopped,
        _ = terminate.recv() => Ok(()),
    }
}

/// Prints a URL with a login token.
fn invite(dashboard: &Dashboard) -> io::Result<String> {
    let token = dashboard.sessions().issue(Instant::now())?;
    let address = dashboard.address.login(&token);
    show::line(&address);
    Ok(address)
}

/// Prints another URL for each line of standard input; waits forever after its end.
async fn invite_again(dashboard: &Dashboard) -> io::Result<()> {
    let (lines, mut read) = mpsc::channel(1);
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines() {
            if line.is_err() || lines.blocking_send(()).is_err() {
                return;
            }
        }
    });
    while read.recv().await.is_some() {
        invite(dashboard)?;
    }
    pending().await
}

fn open(address: &str) -> Option<NamedTempFile> {
    match opener::open(address) {
        Ok(file) => file,
        Err(error) => {
            talk(&format!("no browser was opened: {error}"));
            None
        }
    }
}
