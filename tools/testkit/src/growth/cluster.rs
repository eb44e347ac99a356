//! Hits of a node of a cluster, and of a server without one: what a lease and shared pages add to a hit.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use super::asker::Asker;
use super::entries::wrong;
use super::slices::{CLIENTS, Side, Slice, SlicePairs, warm};
use super::stage::Stage;
use super::{Figure, Promise, Setting, amount};
use crate::error::Context;
use crate::{Redis, Scratch, TestkitError};

pub(super) fn run(setting: &Setting) -> Result<Vec<Figure>, TestkitError> {
    let scratch = Scratch::new()?;
    let redis = Redis::start(&scratch.join("redis"))?;
    let key = scratch.write("cluster.key", "0123456789abcdef0123456789abcdef")?;
    let only_for_us = Permissions::from_mode(0o600);
    fs::set_permissions(&key, only_for_us).context("protect the key")?;
    let cache = "memory = \"64MiB\"\n";
    let lines = format!(
        "{cache}[cluster]\nengine = \"{}\"\nnode = \"n1\"\nkey_file = \"{}\"\n",
        redis.url(),
        key.display()
    );
    let plain = Stage::start(setting, cache, Vec::new())?;
    let node = Stage::start(setting, &lines, Vec::new())?;
    let mut of_plain = Asker::many(plain.addr(), CLIENTS)?;
    let mut of_node = Asker::many(node.addr(), CLIENTS)?;
    warm(&mut of_plain)?;
    warm(&mut of_node)?;
    let count = setting.form.pick(1, PAIRS);
    let pairs = SlicePairs::measure(count, setting.progress, |side| match side {
        Side::Plain => Slice::of_hits(&plain, &mut of_plain, SLICE),
        Side::Changed => Slice::of_hits(&node, &mut of_node, SLICE),
    })?;
    let all = pairs.all();
    let case = format!("with `[cluster]`, {} pairs of slices", pairs.count());
    let more = |what, percent: f64| {
        Figure::new(what, &case, percent, "%").promised(Promise::TimeAtMost(MOST_PERCENT))
    };
    Ok(vec![
        wrong(&case, all.wrong),
        Figure::new("answers that were no hit", &case, amount(all.missed), "")
            .promised(Promise::Exactly(0.0)),
        Figure::new("hits", &case, amount(all.requests), ""),
        more(
            "more processor time for a hit",
            pairs.more_percent(Slice::processor_of_a_hit),
        ),
        more(
            "more time from one hit to the next",
            pairs.more_percent(Slice::time_of_a_hit),
        ),
    ])
}

/// What the cluster may cost.
const MOST_PERCENT: f64 = 2.0;

/// A lease is renewed twice a second. Many short pairs, because other work on the machine comes and goes.
const SLICE: Duration = Duration::from_millis(500);
const PAIRS: usize = 121;
