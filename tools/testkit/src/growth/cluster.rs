//! Hits of a node of a cluster and of a standalone server: the cost of a lease and of shared pages per hit.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use super::load::connect_many;
use super::site::GrowthSite;
use super::slices::{CLIENTS, Side, Slice, SlicePairs, warm_up};
use super::{Goal, GrowthSettings, Measurement, count_as_f64};
use crate::error::Context;
use crate::{Redis, Scratch, TestkitError};

pub(super) fn run(settings: &GrowthSettings) -> Result<Vec<Measurement>, TestkitError> {
    let scratch = Scratch::new()?;
    let redis = Redis::start(&scratch.join("redis"))?;
    let key = scratch.write("cluster.key", "0123456789abcdef0123456789abcdef")?;
    let owner_only = Permissions::from_mode(0o600);
    fs::set_permissions(&key, owner_only).context("protect the key")?;
    let cache = "memory = \"64MiB\"\n";
    let with_cluster = format!(
        "{cache}[cluster]\nengine = \"{}\"\nnode = \"n1\"\nkey_file = \"{}\"\n",
        redis.url(),
        key.display()
    );
    let standalone = GrowthSite::start(settings, cache, Vec::new())?;
    let node = GrowthSite::start(settings, &with_cluster, Vec::new())?;
    let mut to_standalone = connect_many(standalone.addr(), CLIENTS)?;
    let mut to_node = connect_many(node.addr(), CLIENTS)?;
    warm_up(&mut to_standalone)?;
    warm_up(&mut to_node)?;
    let count = settings.length.pick(1, PAIRS);
    let pairs = SlicePairs::measure(count, settings.progress, |side| match side {
        Side::Plain => Slice::of_hits(&standalone, &mut to_standalone, SLICE),
        Side::Changed => Slice::of_hits(&node, &mut to_node, SLICE),
    })?;
    let total = pairs.total();
    let case = format!("with `[cluster]`, {} pairs of slices", pairs.count());
    let increase = |what, percent: f64| {
        Measurement::new(what, &case, percent, "%").with_goal(Goal::TimeAtMost(MAX_PERCENT))
    };
    Ok(vec![
        Measurement::wrong_responses(&case, total.wrong),
        Measurement::misses(&case, total.misses()),
        Measurement::new("hits", &case, count_as_f64(total.responses), ""),
        increase(
            "more processor time for a hit",
            pairs.increase_percent(Slice::processor_per_hit),
        ),
        increase(
            "more time from one hit to the next",
            pairs.increase_percent(Slice::time_per_hit),
        ),
    ])
}

/// The highest acceptable cost of a cluster.
const MAX_PERCENT: f64 = 2.0;

/// A lease is renewed twice a second. Many short pairs, because other work on the machine comes and goes.
const SLICE: Duration = Duration::from_millis(500);
const PAIRS: usize = 121;
