//! The default settings on a machine with 256 MB, simulated by a control group: more pages than fit, and many connections.

use super::load::{connect_many, send_all};
use super::site::GrowthSite;
use super::{Goal, GrowthSettings, MB, Measurement, count_as_f64};
use crate::TestkitError;
use crate::control_group::ControlGroup;

pub(super) fn run(settings: &GrowthSettings) -> Result<Vec<Measurement>, TestkitError> {
    let group = match ControlGroup::create("growth", LIMIT) {
        Ok(group) => group,
        Err(why) => return Ok(vec![Measurement::skipped("256 MB", why)]),
    };
    let case = "256 MB, defaults";
    let site = GrowthSite::start(settings, "", group.command_prefix())?;
    let mut measurements = Vec::new();
    let limit = site.stored("limit")?;
    let quarter_of_machine = count_as_f64(LIMIT) / 4.0 / MB;
    measurements.push(
        Measurement::new(
            "memory limit by default",
            case,
            count_as_f64(limit) / MB,
            "MB",
        )
        .with_goal(Goal::AtMost(quarter_of_machine)),
    );
    let (pages, connections) = settings.length.pick((2_000, 200), (300_000, 8_000));
    (settings.progress)(&format!(
        "{pages} pages over {connections} connections in 256 MB"
    ));
    let mut connections = connect_many(site.addr(), connections)?;
    let small = send_all(&mut connections, pages, &mut |number| {
        format!("/e/{number}")
    })?;
    measurements.push(Measurement::wrong_responses(case, small.wrong));
    let large = send_all(&mut connections, pages / 20, &mut |number| {
        format!("/c/{number}")
    })?;
    measurements.push(Measurement::wrong_responses(case, large.wrong));
    let peak = count_as_f64(site.memory("VmHWM")) / MB;
    measurements.push(
        Measurement::new("peak memory", case, peak, "MB")
            .with_goal(Goal::AtMost(count_as_f64(LIMIT) / MB)),
    );
    let exits = u64::from(site.galley.has_ended());
    measurements.push(
        Measurement::new("server exits", case, count_as_f64(exits), "")
            .with_goal(Goal::Exactly(0.0)),
    );
    drop(site);
    Ok(measurements)
}

const LIMIT: u64 = 256 << 20;
