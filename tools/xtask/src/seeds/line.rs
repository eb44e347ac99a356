//! A published line of ab, measured with all stacks of an article: in slices, alternately, every second time in the other order,
//! so that what disturbs the machine for longer than a slice disturbs all of them.

use std::time::{Duration, Instant};

use galley_testkit::Spread;

use super::{
    article::{LinePlan, Page, Role},
    editor::visit,
    outcome::{Ahead, LineOutcome, Row},
    stack::Stack,
    stage::{Form, HOST, Stage},
};
use crate::{
    bench::{
        Line, Seen, Tree, of_ended_children, of_machine, of_this_thread, run_ab, wait_for_quiet,
    },
    demo::CommandError,
};

/// One slice of one stack.
#[derive(Debug, Clone, PartialEq)]
struct Slice {
    /// Its number: slices with the same number were measured one right after the other.
    number: u32,
    per_second: f64,
    cpu_us: f64,
    server_busy: f64,
    client_busy: f64,
}

/// A stack while it is measured.
struct Session<'s> {
    stack: &'s Stack,
    part: Part,
    /// Of the page, without its head.
    body_bytes: u64,
    slices: Vec<Slice>,
    requests: u64,
    failed: u64,
    trouble: Option<String>,
    memory_mb: f64,
}

/// What a stack gets of a line.
struct Part {
    /// Of one slice.
    arguments: Vec<String>,
    most_slices: u32,
}

/// Measures; adds the largest share of other work to `others`.
pub(super) fn measure(
    stage: &Stage,
    plan: &'static LinePlan,
    stacks: &[Stack],
    others: &mut f64,
) -> Result<LineOutcome, CommandError> {
    let mut sessions = Vec::new();
    for stack in stacks {
        sessions.push(Session::prepare(stage, plan, stack)?);
    }
    let count = slices(stage.form, plan.slices);
    for number in 0..count {
        for session in &mut sessions {
            stage.interrupt.check()?;
            if number < session.part.most_slices {
                session.slice(stage, plan.page, number, others)?;
            }
        }
        sessions.reverse();
    }
    if count % 2 == 1 {
        sessions.reverse();
    }
    let ahead = sessions.iter().filter_map(|session| {
        let ours = sessions.iter().find(|one| one.stack.is_galley())?;
        let role = session.stack.plan.role;
        let ratio = Spread::of(ratios(&ours.slices, &session.slices))?;
        (role != Role::Galley).then_some(Ahead { role, ratio })
    });
    Ok(LineOutcome {
        title: plan.title,
        command: format!("ab {}", plan.arguments.join(" ")),
        published: plan.published,
        ahead: ahead.collect(),
        rows: sessions.iter().map(Session::row).collect(),
    })
}

fn slices(form: Form, full: u32) -> u32 {
    match form {
        Form::Full => full,
        Form::Quick | Form::Short => full.min(QUICK_SLICES),
    }
}

/// Our rates by those of another stack in the same slices.
fn ratios(ours: &[Slice], others: &[Slice]) -> Vec<f64> {
    let same = |slice: &Slice| {
        let other = others.iter().find(|other| other.number == slice.number)?;
        (other.per_second > 0.0).then_some(slice.per_second / other.per_second)
    };
    ours.iter().filter_map(same).collect()
}

/// The arguments of one of so many slices: a part of the requests (but one for each connection), a part of the seconds.
fn arguments_of_slice(arguments: &[&str], parts: u32) -> Vec<String> {
    let number = |name: &str| -> Option<u32> {
        let at = arguments.iter().position(|word| *word == name)?;
        arguments.get(at + 1)?.parse().ok()
    };
    let connections = number("-c").unwrap_or(1);
    let mut words: Vec<String> = Vec::new();
    let mut before = "";
    for word in arguments {
        let part = word.parse::<u32>().ok().map(|whole| match before {
            "-n" => (whole / parts).max(connections),
            "-t" => (whole / parts).max(1),
            _ => whole,
        });
        words.push(part.map_or_else(|| (*word).to_owned(), |part| part.to_string()));
        before = word;
    }
    // A connection that the server resets is a failure of the server, and the run goes on.
    words.push("-r".to_owned());
    words
}

impl Part {
    fn of(form: Form, plan: &LinePlan, role: Role) -> Self {
        if let Some(arguments) = plan.before.filter(|_| role == Role::Before) {
            // So few that each slice can have all.
            return Self {
                arguments: arguments_of_slice(arguments, 1),
                most_slices: SLOW_SLICES,
            };
        }
        let share = if form == Form::Full { 1 } else { QUICK_PART };
        Self {
            arguments: arguments_of_slice(plan.arguments, plan.parts * share),
            most_slices: u32::MAX,
        }
    }
}

impl<'s> Session<'s> {
    /// Looks at the page, fills the caches, and waits until the stack rests.
    fn prepare(stage: &Stage, plan: &LinePlan, stack: &'s Stack) -> Result<Self, CommandError> {
        let part = Part::of(stage.form, plan, stack.plan.role);
        let mut session = Self {
            stack,
            part,
            body_bytes: 0,
            slices: Vec::new(),
            requests: 0,
            failed: 0,
            trouble: None,
            memory_mb: 0.0,
        };
        let (target, mark) = (stage.target(plan.page), Stage::mark(plan.page));
        for _ in 0..2 {
            let seen = visit(stack, target)?;
            if seen.status != 200 || !seen.text.contains(mark) {
                return Err(format!(
                    "{}: {target} is not the right page: status {}\n{}",
                    stack.plan.title,
                    seen.status,
                    stack.said()
                )
                .into());
            }
        }
        // As ab asks, with as many connections as it opens.
        let warm_up = arguments_of_slice(WARM_UP, 1);
        let seen = session.ab(stage, target, &warm_up)?;
        session.body_bytes = seen.body_bytes / seen.requests.max(1);
        wait_for_quiet(&stage.interrupt, &stack.roots())?;
        Ok(session)
    }

    fn ab(&self, stage: &Stage, target: &str, arguments: &[String]) -> Result<Seen, CommandError> {
        let line = Line {
            arguments,
            share: 1.0,
            addr: self.stack.addr,
            host: HOST,
            target,
        };
        run_ab(line, stage.cores.client, self.stack.dir(), &stage.interrupt)
    }

    fn slice(
        &mut self,
        stage: &Stage,
        page: Page,
        number: u32,
        others: &mut f64,
    ) -> Result<(), CommandError> {
        let roots = self.stack.roots();
        let before = Used::read(stage, &roots);
        let outcome = self.ab(stage, stage.target(page), &self.part.arguments);
        let used = Used::read(stage, &roots).since(&before);
        stage.interrupt.check()?;
        match outcome {
            Ok(seen) => self.count(&seen, number, &used),
            Err(complaint) => self.fail(1, complaint.to_string()),
        }
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
        let memory = Tree::memory(&roots) as f64 / 1e6;
        self.memory_mb = self.memory_mb.max(memory);
        *others = others.max(used.others_share());
        // What a slow stack has in its queue must not cost the next one time.
        wait_for_quiet(&stage.interrupt, &roots)
    }

    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    fn count(&mut self, seen: &Seen, number: u32, used: &Used) {
        self.requests += seen.requests;
        let mean = seen.body_bytes / seen.requests.max(1);
        if mean.abs_diff(self.body_bytes) * 10 > self.body_bytes {
            let what = format!("pages of {mean} bytes in place of {}", self.body_bytes);
            return self.fail(seen.requests, what);
        }
        if seen.failed > 0 {
            let words = seen.trouble.clone();
            self.fail(
                seen.failed,
                words.unwrap_or_else(|| "other statuses".to_owned()),
            );
        }
        // With some failures there is a rate as well; the table names both.
        self.slices.push(Slice {
            number,
            per_second: seen.per_second,
            cpu_us: used.server.as_secs_f64() * 1e6 / seen.requests.max(1) as f64,
            server_busy: used.server.as_secs_f64() / used.seconds(),
            client_busy: used.client.as_secs_f64() / used.seconds(),
        });
    }

    fn fail(&mut self, count: u64, what: String) {
        self.failed += count;
        self.trouble.get_or_insert(what);
    }

    fn row(&self) -> Row {
        let spread = |part: fn(&Slice) -> f64| Spread::of(self.slices.iter().map(part));
        Row {
            stack: self.stack.plan.title,
            role: self.stack.plan.role,
            slices: self.slices.len(),
            requests: self.requests,
            failed: self.failed,
            trouble: self.trouble.clone(),
            per_second: spread(|slice| slice.per_second),
            cpu_us: spread(|slice| slice.cpu_us),
            server_busy: spread(|slice| slice.server_busy),
            client_busy: spread(|slice| slice.client_busy),
            memory_mb: self.memory_mb,
        }
    }
}

/// Processor time used by everybody who matters.
struct Used {
    server: Duration,
    client: Duration,
    database: Duration,
    machine: Duration,
    at: Instant,
    took: Duration,
}

impl Used {
    fn read(stage: &Stage, roots: &[u32]) -> Self {
        let server = Tree::time(roots);
        Self {
            server,
            client: of_this_thread() + of_ended_children(),
            database: Tree::time(&[stage.database()]),
            machine: of_machine(),
            at: Instant::now(),
            took: Duration::ZERO,
        }
    }

    fn since(&self, before: &Self) -> Self {
        Self {
            server: self.server.saturating_sub(before.server),
            client: self.client.saturating_sub(before.client),
            database: self.database.saturating_sub(before.database),
            machine: self.machine.saturating_sub(before.machine),
            at: self.at,
            took: self.at.duration_since(before.at),
        }
    }

    fn seconds(&self) -> f64 {
        self.took.as_secs_f64().max(1e-6)
    }

    /// Of the whole machine.
    #[expect(clippy::cast_precision_loss, reason = "few")]
    fn others_share(&self) -> f64 {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as f64;
        let known = self.server + self.client + self.database;
        let others = self.machine.saturating_sub(known).as_secs_f64();
        // The ticks of /proc are too coarse for less.
        let took = self.seconds();
        if took < 0.5 {
            0.0
        } else {
            others / took / cores
        }
    }
}

/// Enough for a median.
const QUICK_SLICES: u32 = 3;
/// The slices of the quick form are a third as long.
const QUICK_PART: u32 = 3;
const SLOW_SLICES: u32 = 3;
const WARM_UP: &[&str] = &["-c", "5", "-n", "10"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_have_a_part_of_the_requests_or_seconds() {
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
        for (arguments, parts, wanted) in rows {
            assert_eq!(arguments_of_slice(arguments, parts).join(" "), wanted);
        }
    }

    #[test]
    fn ratios_are_those_of_the_same_slices() {
        let slice = |number: u32, per_second: f64| Slice {
            number,
            per_second,
            cpu_us: 1.0,
            server_busy: 1.0,
            client_busy: 1.0,
        };
        let ours = [slice(0, 10.0), slice(1, 20.0), slice(2, 30.0)];
        let others = [slice(0, 5.0), slice(2, 10.0), slice(3, 1.0)];
        assert_eq!(ratios(&ours, &others), [2.0, 3.0]);
        assert_eq!(ratios(&ours, &[slice(1, 0.0)]), [0.0; 0]);
    }
}
