//! The object cache in an upgrade: values survive it, and PHP notices nothing.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use galley_testkit::wait_for;
use serde_json::Value;

use super::super::stack::TIMEOUT;
use super::object_cache::{EndsAll, ObjectStack, assert_not_older, connected, probe, start};
use crate::serving::{Serving, is_alive};

fn figure(stack: &ObjectStack, name: &str) -> u64 {
    let output = stack.stack.galley.cli(&["status", "--json"]).unwrap();
    let status: Value = serde_json::from_slice(&output.stdout).unwrap();
    status["sites"][0]["object_cache"][name]
        .as_u64()
        .unwrap_or(0)
}

fn upgrade(serving: &Serving<'_>) {
    let before = serving.pid.get();
    serving.upgrade();
    wait_for("the old process to exit", TIMEOUT, || !is_alive(before));
}

#[test]
fn values_and_connections_survive_an_upgrade() {
    let stack = start();
    let serving = Serving::of(&stack.stack.galley);
    let (address, query) = (stack.other.addr(), format!("who=a&post={}", stack.posts[0]));
    let write = |number: u64| probe(address, &format!("do=write&number={number}&{query}"));
    write(1);
    // A busy machine may let PHP wait too long, which empties the object cache: then the next upgrade shows it.
    let mut number = 1;
    let kept = (0..5).any(|_| {
        for _ in 0..3 {
            connected(&stack);
        }
        let before = figure(&stack, "entries");
        upgrade(&serving);
        let after = figure(&stack, "entries");
        let seen = connected(&stack);
        assert_not_older(&seen, number);
        number += 1;
        write(number);
        assert_not_older(&connected(&stack), number);
        eprintln!("{before} values before the upgrade, {after} after it");
        before > 20 && after * 10 > before * 9
    });
    assert!(kept, "no upgrade has kept the values");
    // Requests of PHP are in progress during the next ones.
    let ended = &AtomicBool::new(false);
    thread::scope(|scope| {
        let guard = EndsAll(ended);
        scope.spawn(|| {
            let _guard = EndsAll(ended);
            let mut number = number;
            while !ended.load(Ordering::Relaxed) {
                number += 1;
                assert_not_older(&write(number), number);
                assert_not_older(&probe(address, &query), number);
            }
        });
        for _ in 0..3 {
            upgrade(&serving);
        }
        drop(guard);
    });
}
