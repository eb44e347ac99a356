//! Measurements: bring a contender into its state, wait for quiet, look at its answers; then, slice by slice in turns with others, let
//! the client ask, and read the clocks before and after.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    time::Duration,
};

use galley_load::{
    Connections, Limit, LoadClient, LoadOutcome, Pace, Target, TargetProtocol, TargetTls, Trust,
};
use galley_testkit::client::Connection;

use super::{
    ab, check,
    clocks::Clocks,
    contender::{Field, Running},
    figure::{Figure, Figures},
    pin,
    plan::{Scenario, Spoken},
    processes::Tree,
    question::Question,
    quiet::wait_for_quiet,
    seen::{self, us},
    stampede,
    stand::{Match, Sample, Server, Stand},
};
use crate::demo::CommandError;

/// One contender in one scenario: warmed up, its connections open, ready to be measured again and again.
pub(super) struct Session<'a> {
    pub(super) one: Match<'a>,
    server: Server,
    question: Question<'a>,
    client: Option<LoadClient>,
    coding: String,
    body_bytes: usize,
    /// Bodies that were looked at already.
    verified: HashSet<u64>,
    /// The floor that was started for it.
    _floor: Option<Running>,
}

impl<'a> Session<'a> {
    /// Fills the contender's caches, warms it up, looks at its responses and waits until it rests.
    ///
    /// # Errors
    /// When a response is not the right page, when the client fails.
    pub(super) fn prepare(
        stand: &Stand<'a>,
        field: &Field,
        one: Match<'a>,
    ) -> Result<Self, CommandError> {
        let question = Question::of(stand.plan, stand.site, one.scenario, one.batch);
        let name = if one.contender.is_floor {
            &stand.plan.subject
        } else {
            &one.contender.name
        };
        let running = field.running(name).ok_or("it was not started")?;
        let mut server = Server::of(running);
        let question = ready(stand, &server, one.scenario, question)?;
        let mut floor = None;
        if one.contender.is_floor {
            let answers = capture(stand, &server, &question)?;
            let answers = answers
                .iter()
                .map(|(target, raw)| (target.as_str(), raw.as_slice()));
            let running = field.floor(stand, one.contender, answers)?;
            server = Server::of(&running);
            floor = Some(running);
        }
        let mut session = Self {
            one,
            server,
            question,
            client: None,
            coding: String::new(),
            body_bytes: 0,
            verified: HashSet::new(),
            _floor: floor,
        };
        if !session.is_single() {
            session.warm_up(stand)?;
        }
        Ok(session)
    }

    /// It is measured once in a round, as a whole.
    pub(super) fn is_single(&self) -> bool {
        self.one.scenario.stampede.is_some() || !self.one.scenario.ab.is_empty()
    }

    fn warm_up(&mut self, stand: &Stand<'a>) -> Result<(), CommandError> {
        let (scenario, question) = (self.one.scenario, &self.question);
        let mut workloads = vec![question.workload(scenario.connections, pace(scenario.rate))?];
        for beside in &scenario.beside {
            let other = question.beside(beside);
            workloads.push(other.workload(beside.connections, Pace::Constant(beside.rate))?);
        }
        let target = target(stand, &self.server, scenario);
        let time = Duration::from_secs_f64(stand.plan.length.warm_up_s);
        let (client, seen) =
            pin::on_core(stand.place.cores.client, || -> Result<_, CommandError> {
                let mut client = LoadClient::connect(target, workloads, stand.interrupt.flag())?;
                client.hold_idle(scenario.idle)?;
                let seen = client.run(Limit::Time(time))?;
                Ok((client, seen))
            })??;
        self.client = Some(client);
        let seen = seen.first().ok_or("nothing was asked")?;
        self.verified(stand, seen)?;
        let last = seen.samples.last().ok_or_else(|| {
            let first = seen.first_error.as_deref().unwrap_or("no response");
            format!("nothing to look at: {first}")
        })?;
        last.coding.name().clone_into(&mut self.coding);
        self.body_bytes = last.body.len();
        wait_for_quiet(stand.interrupt, &self.server.roots)
    }

    /// Measures for one slice; `number` is that of the slice, the same for all who are measured in turns with it.
    ///
    /// # Errors
    /// When a response is not the right page, when the client fails, when nothing was answered.
    pub(super) fn slice(&mut self, stand: &Stand<'a>, number: u32) -> Result<Sample, CommandError> {
        let mut sample = if let Some(state) = self.one.scenario.stampede {
            stampede::measure(stand, &self.server, &self.one, state)?
        } else if self.one.scenario.ab.is_empty() {
            self.by_client(stand)?
        } else {
            self.by_ab(stand)?
        };
        sample.slice = number;
        if sample.requests == 0 {
            return Err("no request was answered in this time".into());
        }
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
        let memory = Tree::memory(&self.server.roots) as f64 / 1e6;
        sample.figures.insert(Figure::MemoryMb, memory);
        Ok(sample)
    }

    fn by_client(&mut self, stand: &Stand<'a>) -> Result<Sample, CommandError> {
        let client = self.client.as_mut().ok_or("it is not warmed up")?;
        let roots = &self.server.roots;
        let time = Duration::from_secs_f64(stand.plan.length.slice_s);
        let mut figures = Figures::new();
        let seen = pin::on_core(stand.place.cores.client, || -> Result<_, CommandError> {
            let before = Clocks::read(stand, roots);
            let seen = client.run(Limit::Time(time))?;
            let requests = seen.first().map_or(0, |seen| seen.responses);
            before.figures(Clocks::read(stand, roots), requests, &mut figures);
            Ok(seen)
        })??;
        let lost = client.idle_closed() as u64;
        let (hits, others) = seen.split_first().ok_or("nothing was asked")?;
        seen::client_figures(hits, &mut figures);
        let mut failed = self.verified(stand, hits)? + lost;
        let mut trouble = hits.first_error.clone();
        if lost > 0 {
            trouble.get_or_insert_with(|| format!("{lost} idle connections were closed"));
        }
        for other in others {
            figures.insert(Figure::BesidePerSecond, other.per_second());
            figures.insert(Figure::BesideP99Us, us(other.quantile(0.99)));
            failed += other.unexpected_status + other.broken;
            trouble = trouble.or_else(|| other.first_error.clone());
        }
        Ok(self.sample(hits.responses, failed, trouble, figures))
    }

    fn by_ab(&mut self, stand: &Stand<'a>) -> Result<Sample, CommandError> {
        let answer = first(stand, &self.server, &self.question)?;
        self.coding = answer.coding;
        self.body_bytes = answer.body.len();
        let target = self.question.target(0);
        let line = ab::Line {
            arguments: &self.one.scenario.ab,
            share: stand.plan.length.ab_share,
            addr: self.server.addr,
            host: &stand.plan.host,
            target: &target,
        };
        let mut figures = Figures::new();
        let before = Clocks::read(stand, &self.server.roots);
        let seen = ab::run(line, stand.place.cores.client, stand.dir, stand.interrupt)?;
        let now = Clocks::read(stand, &self.server.roots);
        before.figures(now, seen.requests, &mut figures);
        ab_figures(&seen, &mut figures);
        let missing = seen.missing(answer.body.len() as u64);
        let trouble = (missing > 0).then(|| format!("{missing} bodies are missing or cut"));
        let trouble = seen.trouble.or(trouble);
        Ok(self.sample(seen.requests, seen.failed + missing, trouble, figures))
    }

    fn sample(
        &self,
        requests: u64,
        failed: u64,
        trouble: Option<String>,
        figures: Figures,
    ) -> Sample {
        Sample {
            slice: 0,
            coding: self.coding.clone(),
            body_bytes: self.body_bytes,
            requests,
            failed,
            trouble,
            figures,
        }
    }

    fn verified(&mut self, stand: &Stand<'_>, outcome: &LoadOutcome) -> Result<u64, CommandError> {
        seen::verified(stand, &self.question, outcome, &mut self.verified)
    }
}

impl Server {
    fn of(running: &Running) -> Self {
        Self {
            addr: running.addr(),
            tls_addr: running.tls_addr(),
            roots: running.roots(),
        }
    }
}

/// Fills its caches and waits until it rests; returns the question as it is to be asked then.
fn ready<'a>(
    stand: &Stand<'_>,
    server: &Server,
    scenario: &Scenario,
    question: Question<'a>,
) -> Result<Question<'a>, CommandError> {
    if scenario.stampede.is_some() {
        // Its page lives for a second; that it is stored is enough.
        first(stand, server, &question)?;
        return Ok(question);
    }
    wait_for_quiet(stand.interrupt, &server.roots)?;
    if question.count() > 1 {
        let target = target(stand, server, scenario);
        let all = question.once_each()?;
        pin::on_core(stand.place.cores.client, || -> Result<(), CommandError> {
            let mut client = LoadClient::connect(target, vec![all], stand.interrupt.flag())?;
            // Twice: what a compressor could not take at once is offered again at the second time.
            for _ in 0..2 {
                client.run(Limit::Requests(question.count() as u64))?;
                wait_for_quiet(stand.interrupt, &server.roots)?;
            }
            Ok(())
        })??;
    }
    if scenario.tls.is_none() && !scenario.unique {
        let answer = first(stand, server, &question)?;
        if scenario.conditional {
            let condition = answer.condition.ok_or("it names no validator")?;
            return Ok(question.with_condition(condition));
        }
    }
    Ok(question)
}

fn target(stand: &Stand<'_>, server: &Server, scenario: &Scenario) -> Target {
    let tls = scenario.tls.map(|spoken| TargetTls {
        name: stand.plan.host.clone(),
        trusted: Trust::Only(stand.certificate.trusted.clone()),
        protocol: match spoken {
            Spoken::Http1 => TargetProtocol::Http1,
            Spoken::H2 => TargetProtocol::Http2 {
                streams: scenario.streams,
            },
        },
        resumes: scenario.resumed,
    });
    Target {
        addr: tls.as_ref().map_or(server.addr, |_| server.tls_addr),
        tls,
        connections: if scenario.close {
            Connections::PerRequest
        } else {
            Connections::Kept
        },
        watch: None,
    }
}

fn pace(rate: Option<f64>) -> Pace {
    rate.map_or(Pace::Closed, Pace::Constant)
}

/// One answer, looked at. Asked for twice: the first may fill a cache, the second is what the client will see.
fn first(
    stand: &Stand<'_>,
    server: &Server,
    question: &Question<'_>,
) -> Result<check::Answer, CommandError> {
    let expected = question.expected(0)?;
    let wanted = check::Wanted {
        method: question.method(),
        status: question.status(),
        expected: &expected,
    };
    let head = question.head(0);
    check::ask(server.addr, &head, wanted, stand.dir)?;
    check::ask(server.addr, &head, wanted, stand.dir)
}

/// What the subject answers to every request of the question, with its target, for the floor.
fn capture(
    stand: &Stand<'_>,
    subject: &Server,
    question: &Question<'_>,
) -> Result<Vec<(String, Vec<u8>)>, CommandError> {
    let mut connection = Connection::open(subject.addr)?;
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
            check::on(&mut connection, &head, wanted, stand.dir)?.raw
        } else {
            connection.write(&head)?;
            connection.receive(question.method())?.raw
        };
        answers.push((question.target(number), raw));
    }
    Ok(answers)
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

/// The files of a measurement's client.
pub(super) fn client_dir(scratch: &Path) -> Result<PathBuf, CommandError> {
    let dir = scratch.join("client");
    std::fs::create_dir_all(&dir)?;
    Ok(dir)
}

/// So many of the answers that the floor sends are decoded and looked at.
const CHECKED: usize = 8;
