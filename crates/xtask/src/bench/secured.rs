//! A measurement over TLS: the same as in plain, with the client that speaks it.

use std::time::Duration;

use super::{
    check,
    contender::Running,
    figure::{Figure, Figures},
    load::{Door, Lasting, Secured, Seen, Spoken},
    measure::{self, Clocks, Match, Sample, Stand},
    pin,
    processes::Tree,
    question::Question,
};
use crate::demo::Complaint;

/// Warms the contender up, looks at an answer, asks, and reads the clocks before and after.
///
/// # Errors
/// When an answer is not the right page, when nothing was answered, when there is no TLS.
pub(super) fn measure(
    stand: &Stand<'_>,
    running: &Running,
    one: &Match<'_>,
    question: &Question<'_>,
    spoken: Spoken,
) -> Result<Sample, Complaint> {
    let roots = running.roots();
    let scenario = one.scenario;
    let door = Door {
        addr: running.tls_addr(),
        host: stand.plan.host.clone(),
        trusted: stand.certificate.trusted.clone(),
        spoken,
        lasting: if scenario.close {
            Lasting::OneRequest
        } else {
            Lasting::Kept
        },
        resumes: scenario.resumed,
        connections: scenario.connections,
        streams: scenario.streams,
    };
    measure::wait_for_quiet(stand, &roots)?;
    let length = &stand.plan.length;
    let warm_up = Duration::from_secs_f64(length.warm_up_s);
    let time = Duration::from_secs_f64(length.seconds);
    let mut figures = Figures::new();
    let asked = pin::on_core(stand.place.cores.client, || -> Result<_, Complaint> {
        let mut client = Secured::connect(door, stand.interrupt)?;
        // The first fills caches, and leaves tickets.
        let seen = client.run(question.asks(None), warm_up)?;
        let first = looked_at(stand, question, &seen)?;
        measure::wait_for_quiet(stand, &roots)?;
        let before = Clocks::read(stand, &roots);
        let seen = client.run(question.asks(Some(first.1 as u64)), time)?;
        before.figures(Clocks::read(stand, &roots), seen.answers, &mut figures);
        Ok((first, seen))
    })?;
    let ((coding, body_bytes), seen) = asked?;
    if seen.answers == 0 {
        return Err("no request was answered in this time".into());
    }
    measure::client_figures(&seen, &mut figures);
    let failed = measure::verified(stand, question, &seen)?;
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let memory = Tree::memory(&roots) as f64 / 1e6;
    figures.insert(Figure::MemoryMb, memory);
    Ok(Sample {
        round: one.round,
        coding,
        body_bytes,
        requests: seen.answers,
        failed,
        trouble: seen.first_trouble,
        figures,
    })
}

/// How the last of the answers that were kept came, and its length; all of them are looked at.
fn looked_at(
    stand: &Stand<'_>,
    question: &Question<'_>,
    seen: &Seen,
) -> Result<(String, usize), Complaint> {
    let trouble = || {
        let first = seen.first_trouble.as_deref().unwrap_or("no answer");
        format!("nothing to look at: {first}")
    };
    for sample in &seen.samples {
        let expected = question.expected(sample.ask)?;
        check::body(sample.coding, &sample.body, &expected, stand.dir)?;
    }
    let last = seen.samples.last().ok_or_else(trouble)?;
    Ok((last.coding.name().to_owned(), last.body.len()))
}
