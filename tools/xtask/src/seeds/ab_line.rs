//! Measures a published `ab` command line with all stacks of an article: alternately in slices, in reversed order every second time, so
//! that a disturbance that is longer than a slice affects all stacks.

use galley_testkit::Quartiles;

use super::{
    article::{AbLine, Page, Role},
    clients::visit,
    environment::{HOST, RunMode, SeedsEnvironment},
    results::{AbLineResult, GalleyLead, StackFigures},
    stack::Stack,
};
use crate::{
    bench::{AbCommand, AbOutcome, CpuTimes, CpuUsage, ProcessTree, run_ab, wait_until_idle},
    error::CommandError,
};

/// The figures of one slice of one stack.
#[derive(Debug, Clone, PartialEq)]
struct Slice {
    /// Slices of all stacks with the same number were measured one directly after the other.
    number: u32,
    per_second: f64,
    cpu_us: f64,
    server_busy: f64,
    client_busy: f64,
}

/// A stack that is being measured.
struct StackSession<'s> {
    stack: &'s Stack,
    load: SliceLoad,
    /// Length of the page's body.
    body_bytes: u64,
    slices: Vec<Slice>,
    requests: u64,
    failed: u64,
    first_failure: Option<String>,
    memory_mb: f64,
}

/// The part of the command line's load that a stack receives.
struct SliceLoad {
    /// The arguments of `ab` for one slice.
    arguments: Vec<String>,
    max_slices: u32,
}

/// Measures all stacks. Raises `others_share` to the largest share of the machine that other processes used.
pub(super) fn measure(
    environment: &SeedsEnvironment,
    line: &'static AbLine,
    stacks: &[Stack],
    others_share: &mut f64,
) -> Result<AbLineResult, CommandError> {
    let mut sessions = Vec::new();
    for stack in stacks {
        sessions.push(StackSession::prepare(environment, line, stack)?);
    }
    let count = slice_count(environment.mode, line.slices);
    for number in 0..count {
        for session in &mut sessions {
            environment.interrupt.check()?;
            if number < session.load.max_slices {
                session.slice(environment, line.page, number, others_share)?;
            }
        }
        sessions.reverse();
    }
    if count % 2 == 1 {
        sessions.reverse();
    }
    let ahead = sessions.iter().filter_map(|session| {
        let galley = sessions.iter().find(|it| it.stack.is_galley())?;
        let role = session.stack.plan.role;
        let ratio = Quartiles::of(rate_ratios(&galley.slices, &session.slices))?;
        (role != Role::Galley).then_some(GalleyLead { role, ratio })
    });
    Ok(AbLineResult {
        title: line.title,
        command: format!("ab {}", line.arguments.join(" ")),
        published: line.published,
        ahead: ahead.collect(),
        rows: sessions.iter().map(StackSession::row).collect(),
    })
}

fn slice_count(mode: RunMode, full: u32) -> u32 {
    match mode {
        RunMode::Full => full,
        RunMode::Quick | RunMode::Short => full.min(QUICK_SLICES),
    }
}

/// The rates of Galley divided by those of another stack in the same slices.
fn rate_ratios(galley: &[Slice], others: &[Slice]) -> Vec<f64> {
    let same = |slice: &Slice| {
        let other = others.iter().find(|other| other.number == slice.number)?;
        (other.per_second > 0.0).then_some(slice.per_second / other.per_second)
    };
    galley.iter().filter_map(same).collect()
}

/// The arguments of one slice: a fraction of the requests, but at least one per connection, or of the seconds.
fn arguments_of_slice(arguments: &[&str], parts: u32) -> Vec<String> {
    let number = |name: &str| -> Option<u32> {
        let at = arguments.iter().position(|word| *word == name)?;
        arguments.get(at + 1)?.parse().ok()
    };
    let connections = number("-c").unwrap_or(1);
    let mut words: Vec<String> = Vec::new();
    let mut previous = "";
    for word in arguments {
        let value = word.parse::<u32>().ok().map(|whole| match previous {
            "-n" => (whole / parts).max(connections),
            "-t" => (whole / parts).max(1),
            _ => whole,
        });
        words.push(value.map_or_else(|| (*word).to_owned(), |value| value.to_string()));
        previous = word;
    }
    // -r: `ab` continues after a reset connection and counts it as a failure.
    words.push("-r".to_owned());
    words
}

impl SliceLoad {
    fn of(mode: RunMode, line: &AbLine, role: Role) -> Self {
        if let Some(arguments) = line
            .original_stack_arguments
            .filter(|_| role == Role::Original)
        {
            // They are so few that each slice has all of them.
            return Self {
                arguments: arguments_of_slice(arguments, 1),
                max_slices: SLOW_SLICES,
            };
        }
        let divisor = if mode == RunMode::Full {
            1
        } else {
            QUICK_DIVISOR
        };
        Self {
            arguments: arguments_of_slice(line.arguments, line.parts * divisor),
            max_slices: u32::MAX,
        }
    }
}

impl<'s> StackSession<'s> {
    /// Checks the page, fills the caches, and waits until the stack is idle.
    fn prepare(
        environment: &SeedsEnvironment,
        line: &AbLine,
        stack: &'s Stack,
    ) -> Result<Self, CommandError> {
        let load = SliceLoad::of(environment.mode, line, stack.plan.role);
        let mut session = Self {
            stack,
            load,
            body_bytes: 0,
            slices: Vec::new(),
            requests: 0,
            failed: 0,
            first_failure: None,
            memory_mb: 0.0,
        };
        let (target, mark) = (
            environment.target(line.page),
            SeedsEnvironment::mark(line.page),
        );
        for _ in 0..2 {
            let page = visit(stack, target)?;
            if page.status != 200 || !page.text.contains(mark) {
                return Err(format!(
                    "{}: {target} is not the expected page: status {}\n{}",
                    stack.plan.title,
                    page.status,
                    stack.log_tail()
                )
                .into());
            }
        }
        // The warm-up sends the same requests as the measurement.
        let warm_up = arguments_of_slice(WARM_UP, 1);
        let outcome = session.ab(environment, target, &warm_up)?;
        session.body_bytes = outcome.body_bytes / outcome.requests.max(1);
        wait_until_idle(&environment.interrupt, &stack.roots())?;
        Ok(session)
    }

    fn ab(
        &self,
        environment: &SeedsEnvironment,
        target: &str,
        arguments: &[String],
    ) -> Result<AbOutcome, CommandError> {
        let command = AbCommand {
            arguments,
            share: 1.0,
            addr: self.stack.addr,
            host: HOST,
            target,
        };
        run_ab(
            command,
            environment.cores.client,
            self.stack.dir(),
            &environment.interrupt,
        )
    }

    fn slice(
        &mut self,
        environment: &SeedsEnvironment,
        page: Page,
        number: u32,
        others_share: &mut f64,
    ) -> Result<(), CommandError> {
        let roots = self.stack.roots();
        let before = CpuTimes::read(&roots, environment.database());
        let outcome = self.ab(environment, environment.target(page), &self.load.arguments);
        let usage = CpuTimes::read(&roots, environment.database()).since(&before);
        environment.interrupt.check()?;
        match outcome {
            Ok(outcome) => self.add(&outcome, number, &usage),
            Err(error) => self.fail(1, error.to_string()),
        }
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
        let memory = ProcessTree::memory(&roots) as f64 / 1e6;
        self.memory_mb = self.memory_mb.max(memory);
        *others_share = others_share.max(share_of_others(&usage));
        // Requests that are still in the queue of a slow stack must not slow down the next stack.
        wait_until_idle(&environment.interrupt, &roots)
    }

    fn add(&mut self, outcome: &AbOutcome, number: u32, usage: &CpuUsage) {
        self.requests += outcome.requests;
        let mean = outcome.body_bytes / outcome.requests.max(1);
        if mean.abs_diff(self.body_bytes) * 10 > self.body_bytes {
            let text = format!("pages of {mean} bytes instead of {}", self.body_bytes);
            return self.fail(outcome.requests, text);
        }
        if outcome.failed > 0 {
            let kinds = outcome.failure_kinds.clone();
            self.fail(
                outcome.failed,
                kinds.unwrap_or_else(|| "other statuses".to_owned()),
            );
        }
        // A slice with some failures still has a rate; the table has both.
        self.slices.push(Slice {
            number,
            per_second: outcome.per_second,
            cpu_us: usage.us_per_request(outcome.requests),
            server_busy: usage.server_share(),
            client_busy: usage.client_share(),
        });
    }

    fn fail(&mut self, count: u64, text: String) {
        self.failed += count;
        self.first_failure.get_or_insert(text);
    }

    fn row(&self) -> StackFigures {
        let spread = |figure: fn(&Slice) -> f64| Quartiles::of(self.slices.iter().map(figure));
        StackFigures {
            stack: self.stack.plan.title,
            role: self.stack.plan.role,
            slices: self.slices.len(),
            requests: self.requests,
            failed: self.failed,
            first_failure: self.first_failure.clone(),
            per_second: spread(|slice| slice.per_second),
            cpu_us: spread(|slice| slice.cpu_us),
            server_busy: spread(|slice| slice.server_busy),
            client_busy: spread(|slice| slice.client_busy),
            memory_mb: self.memory_mb,
        }
    }
}

/// The share of the machine that other processes used; zero for a short slice, because the ticks of /proc are too coarse for it.
#[expect(clippy::cast_precision_loss, reason = "few")]
fn share_of_others(usage: &CpuUsage) -> f64 {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as f64;
    if usage.elapsed_s() < 0.5 {
        0.0
    } else {
        usage.others_share(cores)
    }
}

/// The minimum for a median.
const QUICK_SLICES: u32 = 3;
/// The slices of the quick mode are a third as long.
const QUICK_DIVISOR: u32 = 3;
/// For the original stack if it has other arguments.
const SLOW_SLICES: u32 = 3;
const WARM_UP: &[&str] = &["-c", "5", "-n", "10"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_has_a_fraction_of_the_requests_or_seconds() {
        let rows: [(&[&str], u32, &str); 4] = [
            (&["-c", "100", "-n", "100000"], 10, "-c 100 -n 10000 -r"),
            (
                &["-k", "-c", "4000", "-n", "100000", "-s", "3600"],
                40,
                "-k -c 4000 -n 4000 -s 3600 -r",
            ),
            (&["-c", "5", "-t", "30"], 10, "-c 5 -t 3 -r"),
            (&["-c", "5", "-t", "3"], 10, "-c 5 -t 1 -r"),
        ];
        for (arguments, parts, expected) in rows {
            assert_eq!(arguments_of_slice(arguments, parts).join(" "), expected);
        }
    }

    #[test]
    fn rates_are_compared_in_the_same_slices() {
        let slice = |number: u32, per_second: f64| Slice {
            number,
            per_second,
            cpu_us: 1.0,
            server_busy: 1.0,
            client_busy: 1.0,
        };
        let ours = [slice(0, 10.0), slice(1, 20.0), slice(2, 30.0)];
        let others_share = [slice(0, 5.0), slice(2, 10.0), slice(3, 1.0)];
        assert_eq!(rate_ratios(&ours, &others_share), [2.0, 3.0]);
        assert_eq!(rate_ratios(&ours, &[slice(1, 0.0)]), [0.0; 0]);
    }
}
