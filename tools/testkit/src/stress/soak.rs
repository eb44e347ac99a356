//! A long plain load: PHP generates every tenth response over FastCGI, all other responses are stored pages.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use super::resources::ResourceUsage;
use super::visitor::{Expected, Visitor, VisitorCounts, request_all};
use super::{PartReport, StressSettings};
use crate::wait::poll_until;
use crate::{FpmOptions, Galley, PhpFpm, Scratch, TestkitError};

pub(super) fn run(settings: &StressSettings) -> Result<PartReport, TestkitError> {
    let requests = settings
        .requests
        .unwrap_or(settings.length.pick(200_000, 5_000_000));
    let connections = settings.connections.unwrap_or(250);
    let scratch = Scratch::new()?;
    scratch.write("root/index.php", PAGE)?;
    let fpm = PhpFpm::start(&scratch.join("fpm"), &FpmOptions::default())?;
    let dir = scratch.path().display();
    let text = format!(
        "[server]\nlisten = [\"127.0.0.1:0\"]\n[admin]\nlisten = \"unix:{dir}/admin.sock\"\n[log]\naccess = \"{dir}/access.log\"\n\
         [[site]]\nhosts = [\"{HOST}\"]\nroot = \"{dir}/root\"\nphp = \"{}\"\nin_flight = 2\nqueue = 1000\nqueue_timeout = \"1h\"\ncron = \"off\"\n",
        fpm.address()
    );
    let file = scratch.write("galley.toml", text)?;
    let galley = Galley::start_config(&settings.galley, &scratch.dir("run")?, &file)?;
    let mut report = PartReport {
        title: format!("{requests} requests over {connections} connections, a tenth uncached"),
        ..PartReport::default()
    };
    let (counts, usage) = load(settings, &galley, (requests, connections))
        .ok_or_else(|| TestkitError::Malformed("a client panicked".to_owned()))?;
    report.usage = usage;
    report.add(counts);
    if report.rejected > 0 {
        report
            .violations
            .push(format!("{} requests were rejected", report.rejected));
    }
    if galley.has_ended() {
        report.violations.push("the server has ended".to_owned());
    }
    Ok(report)
}

/// Sends all requests; returns the counts and the resource usage of the server first and last. `None` if a client panicked.
fn load(
    settings: &StressSettings,
    galley: &Galley,
    (requests, connections): (u64, usize),
) -> Option<(VisitorCounts, [ResourceUsage; 2])> {
    let next = AtomicU64::new(0);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let share = connections / CLIENTS + usize::from(client < connections % CLIENTS);
                let visitors = Visitor::many(galley.addr(), HOST, share.max(1));
                let next = &next;
                scope.spawn(move || send_requests(visitors, next, requests))
            })
            .collect();
        let watch = scope.spawn(|| watch(settings, galley, (&next, &is_over), requests));
        let mut counts = VisitorCounts::default();
        let mut has_panicked = false;
        // The connections stay open until the resource usage of the server has been read.
        let mut still_open = Vec::new();
        for client in clients {
            match client.join() {
                Ok((of_client, visitors)) => {
                    counts.merge(of_client);
                    still_open.extend(visitors);
                }
                Err(_) => has_panicked = true,
            }
        }
        is_over.store(true, Ordering::Relaxed);
        let first = watch.join().ok();
        let last = ResourceUsage::of(galley.pid());
        drop(still_open);
        first
            .filter(|_| !has_panicked)
            .map(|first| (counts, [first, last]))
    })
}

/// Sends requests until all numbers are taken; returns the visitors with their open connections.
fn send_requests(
    mut visitors: Vec<Visitor>,
    next: &AtomicU64,
    requests: u64,
) -> (VisitorCounts, Vec<Visitor>) {
    let mut counts = VisitorCounts::default();
    let batch = visitors.len() as u64;
    loop {
        let first = next.fetch_add(batch, Ordering::Relaxed);
        let Some(left) = requests.checked_sub(first).filter(|left| *left > 0) else {
            return (counts, visitors);
        };
        let count = usize::try_from(left.min(batch)).unwrap_or(usize::MAX);
        let mut number = first;
        let mut next_page = || {
            let current = number;
            number += 1;
            if current.is_multiple_of(10) {
                (
                    format!("/u/{}", current / 10 % UNCACHED_PAGES),
                    Expected::Generated,
                )
            } else {
                (format!("/e/{}", current % STORED_PAGES), Expected::Stored)
            }
        };
        if let Some(batch) = visitors.get_mut(..count) {
            request_all(batch, &mut next_page, &mut counts);
        }
    }
}

/// Reports progress; returns the resource usage of the server after a twentieth of the requests, when every page has been generated.
fn watch(
    settings: &StressSettings,
    galley: &Galley,
    (next, is_over): (&AtomicU64, &AtomicBool),
    requests: u64,
) -> ResourceUsage {
    let is_done = || is_over.load(Ordering::Relaxed) || galley.has_ended();
    let twentieth = (requests / 20).max(1);
    let mut first = None;
    for step in 1..=20 {
        poll_until(Duration::from_secs(86_400), || {
            is_done() || next.load(Ordering::Relaxed) >= twentieth * step
        });
        let usage = ResourceUsage::of(galley.pid());
        let (mb, open) = (usage.memory / 1_000_000, usage.descriptors);
        (settings.progress)(&format!("{} %, {mb} MB, {open} descriptors", step * 5));
        first = first.or(Some(usage));
        if is_done() {
            break;
        }
    }
    first.unwrap_or_default()
}

/// Sends a kilobyte and the path of the request; pages below `/u/` are not stored.
const PAGE: &str = r"<?php
$path = explode( '?', $_SERVER['REQUEST_URI'] )[0];
header( 0 === strpos( $path, '/u/' ) ? 'Cache-Control: no-store, private' : 'Galley-Cache-Control: max-age=604800' );
header( 'Content-Type: text/plain' );
echo str_repeat( '0123456789abcdef', 64 ), $path;
";

const HOST: &str = "soak.test";
const CLIENTS: usize = 4;
const STORED_PAGES: u64 = 1_000;
const UNCACHED_PAGES: u64 = 50;
