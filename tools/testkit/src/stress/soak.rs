//! A long plain load: every tenth request is composed by PHP over FastCGI, all others are stored pages.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use super::resources::Held;
use super::visitors::{Counted, Visitor, Wanted, round};
use super::{Row, Setting};
use crate::wait::came_true;
use crate::{FpmOptions, Galley, PhpFpm, Scratch, Trouble};

pub(super) fn run(setting: &Setting) -> Result<Row, Trouble> {
    let requests = setting
        .requests
        .unwrap_or(setting.form.pick(200_000, 5_000_000));
    let connections = setting.connections.unwrap_or(250);
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
    let galley = Galley::start_config(&setting.galley, &scratch.dir("run")?, &file)?;
    let mut row = Row {
        title: format!("{requests} requests over {connections} connections, a tenth uncached"),
        ..Row::default()
    };
    let next = AtomicU64::new(0);
    let over = AtomicBool::new(false);
    let counted = thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let share = connections / CLIENTS + usize::from(client < connections % CLIENTS);
                let visitors = Visitor::many(galley.addr(), HOST, share.max(1));
                let next = &next;
                scope.spawn(move || load(visitors, next, requests))
            })
            .collect();
        let watch = scope.spawn(|| watch(setting, &galley, (&next, &over), requests));
        let mut counted = Counted::default();
        let mut panicked = false;
        // The connections stay open until the server has been looked at.
        let mut still_open = Vec::new();
        for client in clients {
            match client.join() {
                Ok((own, visitors)) => {
                    counted.add(own);
                    still_open.extend(visitors);
                }
                Err(_) => panicked = true,
            }
        }
        over.store(true, Ordering::Relaxed);
        let first = watch.join().ok();
        let last = Held::by(galley.pid());
        drop(still_open);
        first
            .filter(|_| !panicked)
            .map(|first| (counted, [first, last]))
    });
    let (counted, held) =
        counted.ok_or_else(|| Trouble::Malformed("a client has panicked".to_owned()))?;
    row.held = held;
    row.count(counted, Counted::default());
    if row.refused > 0 {
        row.broken
            .push(format!("{} requests were refused", row.refused));
    }
    if galley.has_ended() {
        row.broken.push("the server has ended".to_owned());
    }
    Ok(row)
}

/// Asks until all requests are taken; gives its visitors back with their connections open.
fn load(mut visitors: Vec<Visitor>, next: &AtomicU64, requests: u64) -> (Counted, Vec<Visitor>) {
    let mut counted = Counted::default();
    let batch = visitors.len() as u64;
    loop {
        let from = next.fetch_add(batch, Ordering::Relaxed);
        let Some(left) = requests.checked_sub(from).filter(|left| *left > 0) else {
            return (counted, visitors);
        };
        let some = usize::try_from(left.min(batch)).unwrap_or(usize::MAX);
        let mut number = from;
        let mut path = || {
            let now = number;
            number += 1;
            if now.is_multiple_of(10) {
                (format!("/u/{}", now / 10 % UNCACHED), Wanted::Composed)
            } else {
                (format!("/e/{}", now % STORED), Wanted::Stored)
            }
        };
        if let Some(some) = visitors.get_mut(..some) {
            round(some, &mut path, &mut counted);
        }
    }
}

/// Tells how far it is, and what the server held when a twentieth was done: by then every page has been composed.
fn watch(
    setting: &Setting,
    galley: &Galley,
    (next, over): (&AtomicU64, &AtomicBool),
    requests: u64,
) -> Held {
    let done = || over.load(Ordering::Relaxed) || galley.has_ended();
    let part = (requests / 20).max(1);
    let mut first = None;
    for step in 1..=20 {
        came_true(Duration::from_secs(86_400), || {
            done() || next.load(Ordering::Relaxed) >= part * step
        });
        let held = Held::by(galley.pid());
        let (mb, open) = (held.memory / 1_000_000, held.descriptors);
        (setting.progress)(&format!("{} %, {mb} MB, {open} descriptors", step * 5));
        first = first.or(Some(held));
        if done() {
            break;
        }
    }
    first.unwrap_or_default()
}

/// Says what it was asked for, behind a kilobyte; below `/u/` nothing is to be stored.
const PAGE: &str = r"<?php
$path = explode( '?', $_SERVER['REQUEST_URI'] )[0];
header( 0 === strpos( $path, '/u/' ) ? 'Cache-Control: no-store, private' : 'Galley-Cache-Control: max-age=604800' );
header( 'Content-Type: text/plain' );
echo str_repeat( '0123456789abcdef', 64 ), $path;
";

const HOST: &str = "soak.test";
const CLIENTS: usize = 4;
const STORED: u64 = 1_000;
const UNCACHED: u64 = 50;
