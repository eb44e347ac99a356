//! One measurement: bring the contender into its state, wait for quiet, look at an answer, let the client ask, and read the
//! clocks before and after.

use std::{
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use galley_testkit::client::Connection;
use serde::{Deserialize, Serialize};

use super::{
    ab,
    certificate::Certificate,
    check,
    contender::{Field, Place, Running},
    figure::{Figure, Figures},
    interrupt::Interrupt,
    load::{Client, Lasting, Seen, Spec, Until},
    pin,
    plan::{Contender, Plan, Scenario},
    processes::{self, Tree},
    question::Question,
    secured,
    site::Site,
    stampede,
};
use crate::demo::Complaint;

/// What measurements work with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stand<'a> {
    pub(super) plan: &'a Plan,
    pub(super) site: &'a Site,
    pub(super) place: &'a Place,
    /// What everybody shows over TLS.
    pub(super) certificate: &'a Certificate,
    pub(super) interrupt: &'a Interrupt,
    /// For files of the client.
    pub(super) dir: &'a Path,
}

/// One measurement.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Sample {
    pub(super) round: u32,
    /// How the answer came: `identity`, `gzip`, `br`.
    pub(super) coding: String,
    /// Of one answer's body as it came.
    pub(super) body_bytes: usize,
    pub(super) requests: u64,
    /// Answers that were wrong, and connections that broke.
    pub(super) failed: u64,
    /// What the first of them was.
    pub(super) trouble: Option<String>,
    pub(super) figures: Figures,
}

/// Who is asked what.
#[derive(Debug, Clone)]
pub(super) struct Match<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) contender: &'a Contender,
    pub(super) round: u32,
    /// Another one for each measurement.
    pub(super) batch: u32,
}

/// Processor time used so far by everybody who matters.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clocks {
    server: Duration,
    database: Duration,
    client: Duration,
    machine: Duration,
    at: Instant,
    /// Of the machine.
    cores: f64,
}

impl Clocks {
    pub(super) fn read(stand: &Stand<'_>, roots: &[u32]) -> Self {
        Self {
            server: Tree::time(roots),
            database: Tree::time(&[stand.site.database()]),
            client: processes::of_this_thread() + processes::of_ended_children(),
            machine: processes::of_machine(),
            at: Instant::now(),
            cores: stand.place.all_cores,
        }
    }

    /// What `requests` answers have cost since.
    pub(super) fn figures(self, now: Self, requests: u64, figures: &mut Figures) {
        let took = now.at.duration_since(self.at).as_secs_f64().max(1e-6);
        let used = |part: fn(&Self) -> Duration| part(&now).saturating_sub(part(&self));
        let (server, client) = (used(|it| it.server), used(|it| it.client));
        let known = server + client + used(|it| it.database);
        let others = used(|it| it.machine).saturating_sub(known);
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
        let requests = requests.max(1) as f64;
        figures.insert(Figure::CpuUs, server.as_secs_f64() * 1e6 / requests);
        figures.insert(Figure::ServerBusy, server.as_secs_f64() / took);
        figures.insert(Figure::ClientBusy, client.as_secs_f64() / took);
        figures.insert(Figure::OthersBusy, others.as_secs_f64() / took / self.cores);
    }
}

/// Measures one contender in one scenario.
///
/// # Errors
/// When an answer is not the right page, when the client fails, when nothing was answered.
pub(super) fn measure(
    stand: &Stand<'_>,
    field: &Field,
    one: &Match<'_>,
) -> Result<Sample, Complaint> {
    let question = Question::of(stand.plan, stand.site, one.scenario, one.batch);
    if !one.contender.is_floor {
        let running = field
            .running(&one.contender.name)
            .ok_or("it was not started")?;
        return of(stand, running, one, question);
    }
    let subject = field
        .running(&stand.plan.subject)
        .ok_or("whose answers it sends was not started")?;
    let its = Match {
        contender: stand
            .plan
            .contender(&stand.plan.subject)
            .ok_or("the plan has no subject")?,
        ..one.clone()
    };
    let question = if one.scenario.stampede.is_some() {
        // Its page lives for a second; that it is stored is enough.
        first(stand, subject, &question)?;
        question
    } else {
        ready(stand, subject, &its, question)?
    };
    let answers = capture(stand, subject, &question)?;
    let answers = answers
        .iter()
        .map(|(target, bytes)| (target.as_str(), bytes.as_slice()));
    let floor = field.floor(stand, one.contender, answers)?;
    of(stand, &floor, one, question)
}

fn of(
    stand: &Stand<'_>,
    running: &Running,
    one: &Match<'_>,
    question: Question<'_>,
) -> Result<Sample, Complaint> {
    if let Some(state) = one.scenario.stampede {
        return stampede::measure(stand, running, one, state);
    }
    if let Some(spoken) = one.scenario.tls {
        return secured::measure(stand, running, one, &question, spoken);
    }
    let question = ready(stand, running, one, question)?;
    let answer = first(stand, running, &question)?;
    let roots = running.roots();
    let mut figures = Figures::new();
    let (requests, failed, trouble) = if one.scenario.ab.is_empty() {
        let length = answer.body.len() as u64;
        by_client(stand, running, one, &question, length, &mut figures)?
    } else {
        let before = Clocks::read(stand, &roots);
        let seen = ab::run(
            ab_line(stand, running, one, &question.target(0)),
            stand.place.cores.client,
            stand.dir,
            stand.interrupt,
        )?;
        before.figures(Clocks::read(stand, &roots), seen.requests, &mut figures);
        ab_figures(&seen, &mut figures);
        let missing = seen.missing(answer.body.len() as u64);
        let trouble = (missing > 0).then(|| format!("{missing} bodies are missing or cut"));
        (
            seen.requests,
            seen.failed + missing,
            seen.trouble.or(trouble),
        )
    };
    if requests == 0 {
        return Err("no request was answered in this time".into());
    }
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let memory = Tree::memory(&roots) as f64 / 1e6;
    figures.insert(Figure::MemoryMb, memory);
    Ok(Sample {
        round: one.round,
        coding: answer.coding,
        body_bytes: answer.body.len(),
        requests,
        failed,
        trouble,
        figures,
    })
}

/// Fills its caches, warms it up and waits until it rests; returns the question as it is to be asked then.
fn ready<'a>(
    stand: &Stand<'_>,
    running: &Running,
    one: &Match<'_>,
    question: Question<'a>,
) -> Result<Question<'a>, Complaint> {
    let roots = running.roots();
    wait_for_quiet(stand, &roots)?;
    let answer = first(stand, running, &question)?;
    let core = stand.place.cores.client;
    if question.count() > 1 && !one.contender.is_floor {
        let prime = Spec {
            asks: question.once_each(),
            connections: PRIMING,
            rate: None,
            lasting: Lasting::Kept,
        };
        // Twice: what a compressor could not take at once is offered again at the second time.
        for _ in 0..2 {
            let prime = prime.clone();
            pin::on_core(core, || -> Result<(), Complaint> {
                let mut client = Client::connect(running.addr(), vec![prime], 0, stand.interrupt)?;
                client.run(Until::Answers(question.count() as u64))?;
                Ok(())
            })??;
            wait_for_quiet(stand, &roots)?;
        }
    }
    // The floor has the subject's.
    let question = if one.scenario.conditional && !one.contender.is_floor {
        let condition = answer.condition.ok_or("it names no validator")?;
        question.with_condition(condition)
    } else {
        question
    };
    if one.scenario.ab.is_empty() {
        let spec = spec(one.scenario, &question, None);
        let time = Duration::from_secs_f64(stand.plan.length.warm_up_s);
        pin::on_core(core, || -> Result<(), Complaint> {
            let mut client = Client::connect(running.addr(), vec![spec], 0, stand.interrupt)?;
            client.run(Until::After(time))?;
            Ok(())
        })??;
        wait_for_quiet(stand, &roots)?;
    }
    Ok(question)
}

/// Asks with our client; returns answers, failures and what the first failure was.
fn by_client(
    stand: &Stand<'_>,
    running: &Running,
    one: &Match<'_>,
    question: &Question<'_>,
    length: u64,
    figures: &mut Figures,
) -> Result<(u64, u64, Option<String>), Complaint> {
    let roots = running.roots();
    let scenario = one.scenario;
    let mut specs = vec![spec(scenario, question, Some(length))];
    for beside in &scenario.beside {
        let other = question.beside(beside);
        specs.push(Spec {
            asks: other.asks(None),
            connections: beside.connections,
            rate: Some(beside.rate),
            lasting: Lasting::Kept,
        });
    }
    let time = Duration::from_secs_f64(stand.plan.length.seconds);
    let (seen, lost) = pin::on_core(stand.place.cores.client, || -> Result<_, Complaint> {
        let mut client = Client::connect(running.addr(), specs, scenario.idle, stand.interrupt)?;
        let before = Clocks::read(stand, &roots);
        let seen = client.run(Until::After(time))?;
        let requests = seen.first().map_or(0, |seen| seen.answers);
        before.figures(Clocks::read(stand, &roots), requests, figures);
        Ok((seen, client.idle_lost() as u64))
    })??;
    let (hits, others) = seen.split_first().ok_or("nothing was asked")?;
    client_figures(hits, figures);
    let mut failed = verified(stand, question, hits)? + lost;
    let mut trouble = hits.first_trouble.clone();
    if lost > 0 {
        trouble.get_or_insert_with(|| format!("{lost} idle connections were closed"));
    }
    for other in others {
        figures.insert(Figure::BesidePerSecond, rate(other.answers, other.took));
        figures.insert(Figure::BesideP99Us, us(other.quantile(0.99)));
        failed += other.wrong_status + other.broken;
        trouble = trouble.or_else(|| other.first_trouble.clone());
    }
    Ok((hits.answers, failed, trouble))
}

/// Looks at the answers that were kept; returns how many were wrong.
///
/// # Errors
/// When a body is not the right page: then the measurement says nothing.
pub(super) fn verified(
    stand: &Stand<'_>,
    question: &Question<'_>,
    seen: &Seen,
) -> Result<u64, Complaint> {
    for sample in &seen.samples {
        let expected = question.expected(sample.ask)?;
        check::body(sample.coding, &sample.body, &expected, stand.dir)
            .map_err(|complaint| format!("a wrong answer among many: {complaint}"))?;
    }
    let is_known = |length: u64| {
        let mut samples = seen.samples.iter();
        samples.any(|sample| sample.body.len() as u64 == length)
    };
    let odd = seen.odd_lengths.iter();
    let odd: u64 = odd
        .filter(|(length, _)| !is_known(*length))
        .map(|(_, count)| count)
        .sum();
    Ok(seen.wrong_status + seen.broken + odd)
}

/// One answer, looked at. Asked for twice: the first may fill a cache, the second is what the client will see.
fn first(
    stand: &Stand<'_>,
    running: &Running,
    question: &Question<'_>,
) -> Result<check::Answer, Complaint> {
    let expected = question.expected(0)?;
    let wanted = check::Wanted {
        method: question.method(),
        status: question.status(),
        expected: &expected,
    };
    let head = question.head(0);
    check::ask(running.addr(), &head, wanted, stand.dir)?;
    check::ask(running.addr(), &head, wanted, stand.dir)
}

/// What the subject answers to every request of the question, with its target, for the floor.
fn capture(
    stand: &Stand<'_>,
    subject: &Running,
    question: &Question<'_>,
) -> Result<Vec<(String, Vec<u8>)>, Complaint> {
    let mut connection = Connection::open(subject.addr())?;
    let mut answers = Vec::new();
    for number in 0..question.count() {
        stand.interrupt.check()?;
        let expected = question.expected(number)?;
        let wanted = check::Wanted {
            method: question.method(),
            status: question.status(),
            expected: &expected,
        };
        let head = question.head(number);
        let raw = if number < CHECKED {
            let answer = check::on(&mut connection, &head, wanted, stand.dir)?;
            answer.raw
        } else {
            connection.write(&head)?;
            connection.receive(question.method())?.raw
        };
        answers.push((question.target(number), raw));
    }
    Ok(answers)
}

fn spec(scenario: &Scenario, question: &Question<'_>, length: Option<u64>) -> Spec {
    Spec {
        asks: question.asks(length),
        connections: scenario.connections,
        rate: scenario.rate,
        lasting: if scenario.close {
            Lasting::OneRequest
        } else {
            Lasting::Kept
        },
    }
}

fn ab_line<'a>(
    stand: &'a Stand<'_>,
    running: &Running,
    one: &'a Match<'_>,
    target: &'a str,
) -> ab::Line<'a> {
    ab::Line {
        arguments: &one.scenario.ab,
        share: stand.plan.length.ab_share,
        addr: running.addr(),
        host: &stand.plan.host,
        target,
    }
}

fn ab_figures(seen: &ab::Seen, figures: &mut Figures) {
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let each = seen.bytes as f64 / seen.requests.max(1) as f64;
    figures.insert(Figure::PerSecond, seen.per_second);
    figures.insert(Figure::MegabytesPerSecond, seen.per_second * each / 1e6);
    figures.insert(Figure::P50Us, us(seen.p50));
    figures.insert(Figure::P99Us, us(seen.p99));
    figures.insert(Figure::MaxUs, us(seen.slowest));
}

pub(super) fn client_figures(seen: &Seen, figures: &mut Figures) {
    figures.insert(Figure::PerSecond, rate(seen.answers, seen.took));
    figures.insert(
        Figure::MegabytesPerSecond,
        rate(seen.bytes, seen.took) / 1e6,
    );
    figures.insert(Figure::P50Us, us(seen.quantile(0.5)));
    figures.insert(Figure::P99Us, us(seen.quantile(0.99)));
    figures.insert(Figure::P999Us, us(seen.quantile(0.999)));
    figures.insert(Figure::MaxUs, us(seen.slowest()));
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn rate(count: u64, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64().max(1e-6)
}

fn us(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// A slow contender still works through what the client before has left in its queue, and a good one may still compress.
pub(super) fn wait_for_quiet(stand: &Stand<'_>, roots: &[u32]) -> Result<(), Complaint> {
    let deadline = Instant::now() + QUIET_PATIENCE;
    let mut before = Tree::time(roots);
    loop {
        stand.interrupt.check()?;
        thread::sleep(QUIET);
        let now = Tree::time(roots);
        if now.saturating_sub(before) <= QUIET / 10 {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err("the contender does not come to rest".into());
        }
        before = now;
    }
}

/// The files of a measurement's client.
pub(super) fn client_dir(scratch: &Path) -> Result<PathBuf, Complaint> {
    let dir = scratch.join("client");
    std::fs::create_dir_all(&dir)?;
    Ok(dir)
}

/// Connections that fill a cache: fewer than PHP has workers, so that nobody refuses one.
const PRIMING: usize = 8;
/// So many of the answers that the floor sends are decoded and looked at.
const CHECKED: usize = 8;
const QUIET: Duration = Duration::from_millis(150);
const QUIET_PATIENCE: Duration = Duration::from_secs(60);
