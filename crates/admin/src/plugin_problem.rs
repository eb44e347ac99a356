//! WordPress without Galley's plugin: visitors get old pages after an edit.

use galley_fetch::plugin_contact::SilentPlugin;
use galley_policy::time::Tick;
use galley_request::Site;

use super::health_problem::{HealthProblem, ProblemKind};

/// The problem of a site whose pages no longer come with the plugin, or never did while nothing else has purged a page.
pub(super) fn problem(site: &Site, now: Tick) -> Option<HealthProblem> {
    let silent = site.core.counters.plugin.silent()?;
    let purges = &site.core.purges;
    judge(silent, purges.has_earlier() || purges.published() > 0, now)
}

fn judge(silent: SilentPlugin, is_purged: bool, now: Tick) -> Option<HealthProblem> {
    let text = match (silent.was_heard, is_purged) {
        (true, _) => {
            "The pages of WordPress come without Galley's plugin now, so edits purge nothing"
        }
        (false, false) => "WordPress runs without Galley's plugin, so edits purge nothing",
        // Another program purges, such as a plugin for another cache.
        (false, true) => return None,
    };
    let remedy = "Activate the plugin in WordPress, or install it with `galley plugin install` and the folder of WordPress; \
                  until then visitors may get old pages until these expire";
    let problem = HealthProblem::degraded(ProblemKind::Plugin, text.to_owned(), remedy);
    Some(problem.aged(Some(now.since(silent.since))))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::health_problem::ProblemAge;

    #[test]
    fn other_purgers_replace_a_plugin_that_was_never_there() {
        for (was_heard, is_purged, is_problem) in [
            (true, true, true),
            (true, false, true),
            (false, false, true),
            (false, true, false),
        ] {
            let silent = SilentPlugin {
                was_heard,
                since: Tick(1_000),
            };
            let found = judge(silent, is_purged, Tick(61_000));
            assert_eq!(found.is_some(), is_problem, "{was_heard} {is_purged}");
            let age = found.map(|problem| problem.age);
            let minute = ProblemAge::For(Duration::from_secs(60));
            assert_eq!(age, is_problem.then_some(minute));
        }
    }
}
