//! Measures one contender in one scenario: fills its caches, checks its responses and warms it up; then, slice by slice and
//! alternately with the other contenders, runs the client and reads the clocks before and after.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    time::Duration,
};

use galley_load::{
    Connections, Limit, LoadClient, LoadOutcome, Pace, Target, TargetProtocol, TargetTls,
    TrustedCertificates,
};
use galley_testkit::client::Connection;

use super::{
    ab, check,
    contender::{RunningContender, RunningContenders},
    context::{Measurement, RunContext, Sample, Server},
    figure::{Figure, Figures},
    idle::wait_until_idle,
    outcome::{add_client_figures, add_cpu_figures, count_wrong_responses, microseconds},
    pin,
    processes::ProcessTree,
    requests::ScenarioRequests,
    settings::{Scenario, TlsProtocol},
    stampede,
};
use crate::error::CommandError;

/// One contender in one scenario, warmed up and with open connections, so that its slices can be measured.
pub(super) struct ContenderSession<'a> {
    pub(super) measurement: Measurement<'a>,
    server: Server,
    requests: ScenarioRequests<'a>,
    client: Option<LoadClient>,
    coding: String,
    body_bytes: usize,
    /// Hashes of the bodies that were checked already.
    checked_bodies: HashSet<u64>,
    /// The floor that was started for this session.
    _floor: Option<RunningContender>,
}

impl<'a> ContenderSession<'a> {
    /// Fills the contender's caches, warms it up, checks its responses and waits until it is idle.
    ///
    /// # Errors
    /// When a response is not the expected page, or the client fails.
    pub(super) fn prepare(
        context: &RunContext<'a>,
        contenders: &RunningContenders,
        measurement: Measurement<'a>,
    ) -> Result<Self, CommandError> {
        let requests = ScenarioRequests::new(
            context.plan,
            context.site,
            measurement.scenario,
            measurement.batch,
        );
        let name = if measurement.contender.is_floor {
            &context.plan.subject
        } else {
            &measurement.contender.name
        };
        let running = contenders.running(name).ok_or("it was not started")?;
        let mut server = Server::of(running);
        let requests = fill_caches(context, &server, measurement.scenario, requests)?;
        let mut floor = None;
        if measurement.contender.is_floor {
            let responses = capture_responses(context, &server, &requests)?;
            let responses = responses
                .iter()
                .map(|(target, raw)| (target.as_str(), raw.as_slice()));
            let running = contenders.start_floor(context, measurement.contender, responses)?;
            server = Server::of(&running);
            floor = Some(running);
        }
        let mut session = Self {
            measurement,
            server,
            requests,
            client: None,
            coding: String::new(),
            body_bytes: 0,
            checked_bodies: HashSet::new(),
            _floor: floor,
        };
        if !session.is_single() {
            session.warm_up(context)?;
        }
        Ok(session)
    }

    /// Whether the scenario is measured once per round, and not in slices.
    pub(super) fn is_single(&self) -> bool {
        let scenario = self.measurement.scenario;
        scenario.stampede.is_some() || !scenario.ab.is_empty()
    }

    fn warm_up(&mut self, context: &RunContext<'a>) -> Result<(), CommandError> {
        let (scenario, requests) = (self.measurement.scenario, &self.requests);
        let mut workloads = vec![requests.workload(scenario.connections, pace(scenario.rate))?];
        for load in &scenario.background {
            let background = requests.background(load);
            workloads.push(background.workload(load.connections, Pace::Constant(load.rate))?);
        }
        let target = target(context, &self.server, scenario);
        let time = Duration::from_secs_f64(context.plan.length.warm_up_s);
        let (client, outcomes) = pin::on_core(
            context.environment.cores.client,
            || -> Result<_, CommandError> {
                let mut client = LoadClient::connect(target, workloads, context.interrupt.flag())?;
                client.hold_idle(scenario.idle)?;
                let outcomes = client.run(Limit::Time(time))?;
                client.acknowledge();
                Ok((client, outcomes))
            },
        )??;
        self.client = Some(client);
        let outcome = outcomes.first().ok_or("no request was sent")?;
        self.count_wrong_responses(context, outcome)?;
        let last = outcome.samples.last().ok_or_else(|| {
            let first = outcome.first_error.as_deref().unwrap_or("no response");
            format!("no response was sampled: {first}")
        })?;
        last.coding.name().clone_into(&mut self.coding);
        self.body_bytes = last.body.len();
        wait_until_idle(context.interrupt, &self.server.roots)
    }

    /// Measures one slice. Contenders that are measured alternately have the same `number` in the same slice.
    ///
    /// # Errors
    /// When a response is not the expected page, the client fails, or there was no response.
    pub(super) fn slice(
        &mut self,
        context: &RunContext<'a>,
        number: u32,
    ) -> Result<Sample, CommandError> {
        let mut sample = if let Some(state) = self.measurement.scenario.stampede {
            stampede::measure(context, &self.server, &self.measurement, state)?
        } else if self.measurement.scenario.ab.is_empty() {
            self.measure_with_client(context)?
        } else {
            self.measure_with_ab(context)?
        };
        sample.slice = number;
        if sample.requests == 0 {
            return Err("there was no response in this slice".into());
        }
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
        let memory = ProcessTree::memory(&self.server.roots) as f64 / 1e6;
        sample.figures.insert(Figure::MemoryMb, memory);
        Ok(sample)
    }

    fn measure_with_client(&mut self, context: &RunContext<'a>) -> Result<Sample, CommandError> {
        let client = self.client.as_mut().ok_or("it is not warmed up")?;
        let roots = &self.server.roots;
        let time = Duration::from_secs_f64(context.plan.length.slice_s);
        let mut figures = Figures::new();
        let outcomes = pin::on_core(
            context.environment.cores.client,
            || -> Result<_, CommandError> {
                let before = context.cpu_times(roots);
                let outcomes = client.run(Limit::Time(time))?;
                let usage = context.cpu_times(roots).since(&before);
                let responses = outcomes.first().map_or(0, |outcome| outcome.responses);
                add_cpu_figures(context, &usage, responses, &mut figures);
                client.acknowledge();
                Ok(outcomes)
            },
        )??;
        let closed = client.idle_closed() as u64;
        let (measured, background) = outcomes.split_first().ok_or("no request was sent")?;
        add_client_figures(measured, &mut figures);
        let mut failed = self.count_wrong_responses(context, measured)? + closed;
        let mut first_failure = measured.first_error.clone();
        if closed > 0 {
            first_failure.get_or_insert_with(|| format!("{closed} idle connections were closed"));
        }
        for outcome in background {
            figures.insert(Figure::BackgroundPerSecond, outcome.per_second());
            figures.insert(
                Figure::BackgroundP99Us,
                microseconds(outcome.quantile(0.99)),
            );
            failed += outcome.unexpected_status + outcome.broken;
            first_failure = first_failure.or_else(|| outcome.first_error.clone());
        }
        Ok(self.sample(measured.responses, failed, first_failure, figures))
    }

    fn measure_with_ab(&mut self, context: &RunContext<'a>) -> Result<Sample, CommandError> {
        let response = request_twice(context, &self.server, &self.requests)?;
        self.coding = response.coding;
        self.body_bytes = response.body.len();
        let target = self.requests.target(0);
        let command = ab::AbCommand {
            arguments: &self.measurement.scenario.ab,
            share: context.plan.length.ab_share,
            addr: self.server.addr,
            host: &context.plan.host,
            target: &target,
        };
        let mut figures = Figures::new();
        let before = context.cpu_times(&self.server.roots);
        let outcome = ab::run(
            command,
            context.environment.cores.client,
            context.dir,
            context.interrupt,
        )?;
        let usage = context.cpu_times(&self.server.roots).since(&before);
        add_cpu_figures(context, &usage, outcome.requests, &mut figures);
        add_ab_figures(&outcome, &mut figures);
        let missing = outcome.missing_bodies(response.body.len() as u64);
        let truncated = (missing > 0).then(|| format!("{missing} bodies are missing or truncated"));
        let first_failure = outcome.failure_kinds.or(truncated);
        Ok(self.sample(
            outcome.requests,
            outcome.failed + missing,
            first_failure,
            figures,
        ))
    }

    fn sample(
        &self,
        requests: u64,
        failed: u64,
        first_failure: Option<String>,
        figures: Figures,
    ) -> Sample {
        Sample {
            slice: 0,
            coding: self.coding.clone(),
            body_bytes: self.body_bytes,
            requests,
            failed,
            first_failure,
            figures,
        }
    }

    fn count_wrong_responses(
        &mut self,
        context: &RunContext<'_>,
        outcome: &LoadOutcome,
    ) -> Result<u64, CommandError> {
        count_wrong_responses(context, &self.requests, outcome, &mut self.checked_bodies)
    }
}

impl Server {
    fn of(running: &RunningContender) -> Self {
        Self {
            addr: running.addr(),
            tls_addr: running.tls_addr(),
            roots: running.roots(),
        }
    }
}

/// Fills the contender's caches and waits until it is idle. Returns the requests, with a validator if they are conditional.
fn fill_caches<'a>(
    context: &RunContext<'_>,
    server: &Server,
    scenario: &Scenario,
    requests: ScenarioRequests<'a>,
) -> Result<ScenarioRequests<'a>, CommandError> {
    if scenario.stampede.is_some() {
        // The page is fresh for only one second; it is enough that it was stored once.
        request_twice(context, server, &requests)?;
        return Ok(requests);
    }
    wait_until_idle(context.interrupt, &server.roots)?;
    if requests.count() > 1 {
        let target = target(context, server, scenario);
        let workload = requests.each_page_once()?;
        pin::on_core(
            context.environment.cores.client,
            || -> Result<(), CommandError> {
                let mut client =
                    LoadClient::connect(target, vec![workload], context.interrupt.flag())?;
                // Twice: pages that did not fit into the compressor's queue are queued again at the second request.
                for _ in 0..2 {
                    client.run(Limit::Requests(requests.count() as u64))?;
                    wait_until_idle(context.interrupt, &server.roots)?;
                }
                Ok(())
            },
        )??;
    }
    if scenario.tls.is_none() && !scenario.unique {
        let response = request_twice(context, server, &requests)?;
        if scenario.conditional {
            let condition = response.condition.ok_or("the response has no validator")?;
            return Ok(requests.with_condition(condition));
        }
    }
    Ok(requests)
}

fn target(context: &RunContext<'_>, server: &Server, scenario: &Scenario) -> Target {
    let tls = scenario.tls.map(|protocol| TargetTls {
        name: context.plan.host.clone(),
        trusted: TrustedCertificates::Only(context.certificate.trusted.clone()),
        protocol: match protocol {
            TlsProtocol::Http1 => TargetProtocol::Http1,
            TlsProtocol::H2 => TargetProtocol::Http2 {
                streams: scenario.streams,
            },
            TlsProtocol::H3 => TargetProtocol::Http3 {
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

/// Sends the same request twice and returns the second response: the first may fill a cache, the second is what the client
/// will receive.
fn request_twice(
    context: &RunContext<'_>,
    server: &Server,
    requests: &ScenarioRequests<'_>,
) -> Result<check::CheckedResponse, CommandError> {
    let body = requests.expected_body(0)?;
    let expected = requests.expected_response(&body);
    let head = requests.head(0);
    check::request(server.addr, &head, expected, context.dir)?;
    check::request(server.addr, &head, expected, context.dir)
}

/// The subject's response to each request, with its target, for the floor.
fn capture_responses(
    context: &RunContext<'_>,
    subject: &Server,
    requests: &ScenarioRequests<'_>,
) -> Result<Vec<(String, Vec<u8>)>, CommandError> {
    let mut connection = Connection::open(subject.addr)?;
    let mut responses = Vec::new();
    for number in 0..requests.count() {
        context.interrupt.check()?;
        let body = requests.expected_body(number)?;
        let head = requests.head(number);
        let raw = if number < CHECKED_RESPONSES {
            let expected = requests.expected_response(&body);
            check::request_on(&mut connection, &head, expected, context.dir)?.raw
        } else {
            connection.write(&head)?;
            connection.receive(requests.method())?.raw
        };
        responses.push((requests.target(number), raw));
    }
    Ok(responses)
}

fn add_ab_figures(outcome: &ab::AbOutcome, figures: &mut Figures) {
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let response_bytes = outcome.bytes as f64 / outcome.requests.max(1) as f64;
    figures.insert(Figure::PerSecond, outcome.per_second);
    figures.insert(
        Figure::MegabytesPerSecond,
        outcome.per_second * response_bytes / 1e6,
    );
    figures.insert(Figure::P50Us, microseconds(outcome.p50));
    figures.insert(Figure::P99Us, microseconds(outcome.p99));
    figures.insert(Figure::MaxUs, microseconds(outcome.slowest));
}

/// Creates the folder for files of the client.
pub(super) fn client_dir(scratch: &Path) -> Result<PathBuf, CommandError> {
    let dir = scratch.join("client");
    std::fs::create_dir_all(&dir)?;
    Ok(dir)
}

/// Number of responses for the floor that are decoded and checked.
const CHECKED_RESPONSES: usize = 8;
