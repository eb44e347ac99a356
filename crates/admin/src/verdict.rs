//! Whether visitors are served, and what is wrong: the verdict that `galley status`, the dashboard and the plugin show.
//!
//! A verdict is computed from the state of the server at the time of the query, so that it changes with the next sample. Each
//! problem says what is wrong, since when unless it is yet to come, and what to do.

use std::cmp::Reverse;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use galley_telemetry::history::{MINUTES, Minute};
use galley_upstream::{ServerEligibility, UpstreamStats};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::health_problem::{HealthProblem, Level, ProblemAge, ProblemKind};
use super::history::recent;
use super::target::AdminView;
use super::tls::certificates_from_files;
use super::{AdminShared, AdminState, disk_problems, objects, plugin_problem};
use galley_request::Site;

/// The verdict on `sites` and, if `view` covers it, on the server.
pub(super) fn value(state: &AdminState, sites: &[Arc<Site>], view: AdminView) -> Value {
    let mut problems = problems(state, sites, view);
    let beginnings = &state.process_state.beginnings;
    beginnings.date(&mut problems, state.services.clock.tick());
    // The worst first; the order of the sites remains.
    problems.sort_by_key(|problem| Reverse(problem.level));
    verdict(&problems)
}

/// Observes all problems, so that a later query knows since when they exist; never returns.
pub(super) async fn watch(shared: &AdminShared) {
    loop {
        observe(&shared.now());
        tokio::time::sleep(OBSERVE_INTERVAL).await;
    }
}

fn observe(state: &AdminState) {
    let mut problems_of_server = problems(state, &state.sites, AdminView::Server);
    for site in state.sites.iter() {
        let figures = state.object_caches.get(&*site.core.name);
        problems_of_server
            .extend(figures.map_or_else(Vec::new, |of| objects::problems(of, &site.core.name)));
    }
    let beginnings = &state.process_state.beginnings;
    beginnings.date(&mut problems_of_server, state.services.clock.tick());
    beginnings.end_others(&problems_of_server);
}

fn problems(state: &AdminState, sites: &[Arc<Site>], view: AdminView) -> Vec<HealthProblem> {
    let of_sites = sites.iter().flat_map(|site| of_site(state, site));
    let mut problems: Vec<HealthProblem> = of_sites.collect();
    if view == AdminView::Server {
        problems.extend(of_server(state));
    }
    problems
}

fn verdict(problems: &[HealthProblem]) -> Value {
    let level = problems.first().map_or(Level::Ok, |worst| worst.level);
    // What is worth a note is no problem.
    let end = problems.partition_point(|problem| problem.level > Level::Ok);
    let summary = match (level, problems.get(..end).unwrap_or_default()) {
        (Level::Ok, _) | (_, []) => "Visitors are served".to_owned(),
        (Level::Degraded, [only]) => format!("Visitors are served, but {}", lowered(&only.text)),
        (Level::Degraded, [first, rest @ ..]) => format!(
            "Visitors are served, but {}, and {} more",
            lowered(&first.text),
            rest.len()
        ),
        (Level::Failing, [worst, ..]) => format!("Visitors get errors: {}", worst.text),
    };
    let listed: Vec<Value> = problems.iter().map(HealthProblem::value).collect();
    json!({ "state": level.word(), "summary": summary, "problems": listed })
}

/// The text within a sentence. Names that begin with several capital letters keep them.
fn lowered(text: &str) -> String {
    let mut letters = text.chars();
    match (letters.next(), letters.clone().next()) {
        (Some(first), Some(second)) if second.is_lowercase() || second == ' ' => {
            first.to_lowercase().chain(letters).collect()
        }
        _ => text.to_owned(),
    }
}

fn of_site(state: &AdminState, site: &Site) -> Vec<HealthProblem> {
    let mut problems = Vec::new();
    let upstreams = site.upstream_stats();
    problems.extend(upstreams.iter().filter_map(|stats| upstream(stats)));
    let minutes = recent(state, site, ERROR_MINUTES);
    problems.extend(errors(&minutes));
    let waiting: usize = upstreams.iter().map(|stats| stats.load().waiting).sum();
    let refused: u64 = minutes.iter().map(|minute| minute.overloaded).sum();
    problems.extend(overload(waiting, refused));
    problems.extend(crawl(state, site, &minutes));
    problems.extend(certificates(state, site));
    let cron = site.cron.as_ref().and_then(|_| site.core.cron.state().last);
    if let Some(Err(trouble)) = cron.map(|last| last.result) {
        problems.push(HealthProblem::degraded(
            ProblemKind::Cron,
            format!("The last run of scheduled tasks failed: {trouble}"),
            "See the site's log of PHP errors, and `cron` of the site; until then scheduled posts and updates are late",
        ));
    }
    for target in state.services.forwarder.stats(site.core.purges.site()) {
        if let (Some(error), pending) = (target.trouble, target.pending) {
            let text = format!("{pending} purges wait for {}: {error}", target.name);
            let remedy = "The cache there may send old pages until it answers; purges are sent again automatically";
            let problem = HealthProblem::degraded(ProblemKind::PurgeForward, text, remedy);
            problems.push(problem.of(&target.name));
        }
    }
    problems.extend(plugin_problem::problem(site, state.services.clock.tick()));
    for problem in &mut problems {
        problem.site = Some(site.core.name.clone());
    }
    problems
}

/// The problem of an upstream of which some servers or all get no requests.
fn upstream(stats: &UpstreamStats) -> Option<HealthProblem> {
    let now = Instant::now();
    let unusable = stats.servers().iter().filter_map(|server| {
        let state = &server.state;
        let failure = state.connect_failure();
        // After an outage, a site whose visitors get stored pages sends no request that would show that the server is back.
        if failure.is_none() && state.may_be_tried(now) {
            return None;
        }
        let since = state.unreachable_for(now);
        let since = since.unwrap_or_else(|| state.unchanged_for(now));
        Some((state, failure, since))
    });
    let unusable: Vec<_> = unusable.collect();
    let (state, failure, since) = unusable.first()?;
    let address = &state.address;
    let (cause, remedy) = match failure {
        Some(failure) => (format!(": {}", failure.cause), failure.remedy),
        None if state.eligibility() == ServerEligibility::Down => (
            ", which failed its health checks".to_owned(),
            "See the server's own log, and `health_check` of the site",
        ),
        None => (
            String::new(),
            "It accepts connections, but does not respond in time: see its own log and `galley doctor`",
        ),
    };
    let problem = if unusable.len() == stats.servers().len() {
        let text = format!("No response from {address}{cause}");
        HealthProblem::failing(ProblemKind::Upstream, text, remedy)
    } else {
        let text = format!(
            "{} of {} servers do not respond, among them {address}{cause}",
            unusable.len(),
            stats.servers().len()
        );
        HealthProblem::degraded(ProblemKind::Upstream, text, remedy)
    };
    Some(problem.aged(Some(*since)))
}

/// The problem of a site whose responses in the last minutes were errors.
fn errors(minutes: &[Minute]) -> Option<HealthProblem> {
    let sum = |of: fn(&Minute) -> u64| minutes.iter().map(of).sum::<u64>();
    let requests = sum(|minute| minute.requests);
    // Rejected requests are the problem of [`overload`].
    let overloaded = sum(|minute| minute.overloaded);
    let errors = sum(|minute| minute.errors).saturating_sub(overloaded);
    let generated = sum(|minute| minute.misses + minute.passes + minute.refused);
    let generated = generated.saturating_sub(overloaded);
    // Of a site whose visitors get stored pages, nearly all responses are fine while PHP fails.
    let has_failed = errors >= MIN_GENERATED && errors * 4 >= generated * 3;
    if errors < MIN_ERRORS || (errors * MAX_HEALTHY < requests && !has_failed) {
        return None;
    }
    let text = format!(
        "{errors} of {requests} responses in the last two minutes were errors (status 500 to 599)"
    );
    let remedy = "The dashboard lists the pages under Not cached; the cause is in the log of PHP or of the upstream";
    Some(
        if errors * 2 >= generated.max(1) && errors * 4 >= requests {
            HealthProblem::failing(ProblemKind::Errors, text, remedy)
        } else {
            HealthProblem::degraded(ProblemKind::Errors, text, remedy)
        },
    )
}

/// The problem of a site whose queue has rejected requests.
fn overload(waiting: usize, refused: u64) -> Option<HealthProblem> {
    let text = format!(
        "PHP is overloaded: {waiting} requests wait, and {refused} were rejected in the last two minutes"
    );
    let remedy = "Stored pages are not affected. `galley dashboard` shows what costs PHP time; docs: how-to/overload";
    (refused > 0).then(|| HealthProblem::degraded(ProblemKind::Overload, text, remedy))
}

/// The note that clients without proof are being refused: as long as nobody else is, that is what the shield is for.
fn crawl(state: &AdminState, site: &Site, minutes: &[Minute]) -> Option<HealthProblem> {
    let refused: u64 = minutes.iter().map(|minute| minute.clients.refused).sum();
    if refused < MIN_CRAWL {
        return None;
    }
    let day = recent(state, site, MINUTES as u64);
    let text = format!(
        "A crawl is in progress: {refused} requests of clients that have not visited the site were refused in the last two minutes"
    );
    let remedy = "Nothing as long as visitors get their pages; docs: how-to/bots.md";
    let mut note = HealthProblem::degraded(ProblemKind::Crawl, text, remedy);
    note.level = Level::Ok;
    Some(note.aged(Some(crawled_for(&day))))
}

/// For how long requests have been refused in every minute, the newest minute last. The current minute may have only begun.
fn crawled_for(day: &[Minute]) -> Duration {
    let mut next = day.last().map_or(0, |row| row.minute);
    let crawled = day.iter().rev().skip_while(|row| row.clients.refused == 0);
    let minutes = crawled.take_while(|row| {
        let is_next = row.clients.refused > 0 && next - row.minute <= 1;
        next = row.minute;
        is_next
    });
    Duration::from_secs(60 * minutes.count() as u64)
}

/// The problems of a site's certificates.
fn certificates(state: &AdminState, site: &Site) -> Vec<HealthProblem> {
    let now = state.services.clock.wall();
    let left = |at: SystemTime| at.duration_since(now).unwrap_or_default();
    let expired = |at: SystemTime| now.duration_since(at).ok();
    let mut problems = Vec::new();
    let acme = state.services.acme.as_ref();
    for one in acme.iter().flat_map(|acme| acme.of_site(site.number)) {
        let Some(trouble) = &one.trouble else {
            continue;
        };
        let names = one.names.join(", ");
        let remedy = "The order is repeated automatically; `galley doctor` checks the name's DNS and the port";
        let problem = match one.not_after.map(left) {
            None | Some(Duration::ZERO) => {
                let text = format!("No valid certificate for {names}: {trouble}");
                HealthProblem::failing(ProblemKind::Certificate, text, remedy)
                    .aged(one.not_after.and_then(expired))
            }
            Some(left) if left < ACME_NOTICE => {
                let text = format!(
                    "The certificate of {names} expires in {} days, and its renewal fails: {trouble}",
                    left.as_secs() / DAY
                );
                HealthProblem::degraded(ProblemKind::Certificate, text, remedy)
            }
            Some(_) => continue,
        };
        problems.push(problem.of(&names));
    }
    for one in certificates_from_files(&state.services, site) {
        let names = one.names.iter().next().unwrap_or("the site");
        let remedy = "Renew it; Galley reads the new file by itself";
        let problem = match left(one.not_after) {
            Duration::ZERO => {
                let text = format!("The certificate of {names} has expired");
                HealthProblem::failing(ProblemKind::Certificate, text, remedy)
                    .aged(expired(one.not_after))
            }
            left if left < FILE_NOTICE => {
                let days = left.as_secs() / DAY;
                let text = format!("The certificate of {names} expires in {days} days");
                HealthProblem {
                    age: ProblemAge::Ahead,
                    ..HealthProblem::degraded(ProblemKind::Certificate, text, remedy)
                }
            }
            _ => continue,
        };
        problems.push(problem.of(names));
    }
    problems
}

/// The problems of the server itself.
fn of_server(state: &AdminState) -> Vec<HealthProblem> {
    let services = &state.services;
    let mut problems = Vec::new();
    if let Some((at, error)) = state.process_state.last_reload.failure() {
        // The rest is an excerpt of the file for a terminal; `galley check` prints it.
        let error: Vec<&str> = error.lines().take(2).map(str::trim).collect();
        let text = format!(
            "The last reload was refused, the configuration before it is in force: {}",
            error.join(" ")
        );
        let problem = HealthProblem::degraded(
            ProblemKind::Reload,
            text,
            "Correct the file, then `galley check` and `galley reload`",
        );
        let now = services.clock.wall();
        problems.push(problem.aged(now.duration_since(at).ok()));
    }
    if services.privileged.word() == Some("gone") {
        let text =
            "The process that keeps root has ended, and with it the PHP of other users".to_owned();
        problems.push(HealthProblem::degraded(
            ProblemKind::Privileged,
            text,
            "Restart galley",
        ));
    }
    problems.extend(disk_problems::problems(state));
    if let Some(cluster) = &services.cluster {
        let status = cluster.status();
        let remedy = "Nodes send no stored pages that they cannot check; look at the Valkey or Redis of `[cluster]`";
        if let (false, Some(error)) = (status.is_connected, &status.error) {
            let mut text = format!("The cluster cannot be reached: {error}");
            if status.unsent > 0 {
                let _ = write!(text, "; {} purges wait for it", status.unsent);
            }
            problems.push(HealthProblem::degraded(ProblemKind::Cluster, text, remedy));
        } else if !services.lease.holds(services.clock.tick()) {
            let text = "Stored pages are not used, because this node does not read the purges of the others".to_owned();
            problems.push(HealthProblem::degraded(ProblemKind::Cluster, text, remedy));
        }
    }
    problems
}

/// The interval in which problems are observed: the ages of problems are exact to this.
const OBSERVE_INTERVAL: Duration = Duration::from_secs(5);

/// The minutes in which errors count, the current one included.
const ERROR_MINUTES: u64 = 2;

/// Fewer errors than this are single failures of a plugin, not a state of the site.
const MIN_ERRORS: u64 = 5;

/// So many failed pages are a problem if nearly all that PHP generates fail, however many stored pages are sent beside.
const MIN_GENERATED: u64 = 20;

/// One error in so many responses is no problem of the site: visitors request broken pages of every site.
const MAX_HEALTHY: u64 = 50;

/// Fewer refusals in two minutes are single programs.
const MIN_CRAWL: u64 = 60;

/// Automatic certificates are renewed 30 days before their end, so that two weeks of failed orders are noticed here.
const ACME_NOTICE: Duration = Duration::from_secs(14 * DAY);

const FILE_NOTICE: Duration = Duration::from_secs(7 * DAY);

const DAY: u64 = 86_400;

#[cfg(test)]
mod tests {
    use super::*;
    use galley_telemetry::history::ByClient;

    fn minute(requests: u64, misses: u64, errors: u64) -> Minute {
        Minute {
            requests,
            misses,
            errors,
            ..Minute::default()
        }
    }

    #[test]
    fn errors_are_a_problem_by_their_number_and_share() {
        for (minutes, wanted) in [
            (vec![], None),
            (vec![minute(4, 4, 4)], None),
            (vec![minute(1_000, 10, 5)], None),
            (vec![minute(10_000, 150, 150)], Some(Level::Degraded)),
            (vec![minute(10_000, 150, 100)], None),
            // A crawl that the full queue rejects.
            (
                vec![Minute {
                    refused: 1_500,
                    overloaded: 1_500,
                    ..minute(2_000, 500, 1_500)
                }],
                None,
            ),
            (
                vec![minute(200, 100, 2), minute(20, 10, 3)],
                Some(Level::Degraded),
            ),
            (vec![minute(20, 10, 5)], Some(Level::Failing)),
            (vec![minute(5, 5, 5)], Some(Level::Failing)),
            // A crawler on one broken page of a site whose other pages are stored.
            (vec![minute(200, 6, 5)], Some(Level::Degraded)),
        ] {
            let seen = errors(&minutes).map(|problem| problem.level);
            assert_eq!(seen, wanted, "{minutes:?}");
        }
    }

    #[test]
    fn a_crawl_lasts_as_long_as_every_minute_has_refusals() {
        let row = |(minute, refused)| Minute {
            minute,
            clients: ByClient {
                refused,
                ..ByClient::default()
            },
            ..Minute::default()
        };
        for (rows, minutes) in [
            (&[][..], 0),
            (&[(7, 0)], 0),
            (&[(5, 9), (6, 9), (7, 0)], 2),
            (&[(1, 9), (4, 9), (5, 0), (6, 9), (7, 9)], 2),
            (&[(1, 9), (4, 9), (6, 9), (7, 9)], 2),
        ] {
            let rows: Vec<Minute> = rows.iter().copied().map(row).collect();
            assert_eq!(crawled_for(&rows).as_secs(), 60 * minutes, "{rows:?}");
        }
    }

    #[test]
    fn the_summary_names_the_worst_problem() {
        let ok = verdict(&[]);
        assert_eq!(
            (&ok["state"], &ok["summary"]),
            (&json!("ok"), &json!("Visitors are served"))
        );
        let disk = || {
            HealthProblem::degraded(
                ProblemKind::Disk,
                "The disk cache is off: no space".to_owned(),
                "a",
            )
        };
        let seen = verdict(&[disk()]);
        assert_eq!(
            seen["summary"],
            "Visitors are served, but the disk cache is off: no space"
        );
        let php =
            || HealthProblem::degraded(ProblemKind::Overload, "PHP is overloaded".to_owned(), "a");
        let mut note =
            HealthProblem::degraded(ProblemKind::Crawl, "A crawl is in progress".to_owned(), "a");
        note.level = Level::Ok;
        let seen = verdict(&[disk(), note]);
        assert!(
            !seen["summary"].to_string().contains("more"),
            "{}",
            seen["summary"]
        );
        assert_eq!(seen["problems"][1]["level"], "ok");
        let seen = verdict(&[php(), disk()]);
        assert_eq!(
            seen["summary"],
            "Visitors are served, but PHP is overloaded, and 1 more"
        );
        let dead = HealthProblem::failing(
            ProblemKind::Upstream,
            "No response from unix:/a".to_owned(),
            "b",
        );
        let seen = verdict(&[dead, disk()]);
        assert_eq!(seen["state"], "failing");
        assert_eq!(
            seen["summary"],
            "Visitors get errors: No response from unix:/a"
        );
        assert_eq!(seen["problems"][0]["remedy"], "b");
    }
}
