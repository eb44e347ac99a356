//! Probes for pictures, many connections, many visitors of one page, a rising load, and a failure of PHP.

use std::{
    fmt::Write as _,
    thread::{self, ScopedJoinHandle},
    time::Duration,
};

use galley_load::{
    AbRequests, Connections, Limit, LoadClient, LoadOutcome, Pace, PageMethod, Target, Timeouts,
    VisitedPage, Workload,
};

use super::visitors::{post, require};
use crate::{
    bench::{AbCommand, on_core, run_ab, wait_until_idle},
    error::CommandError,
    seeds::{
        article::Page,
        clients::{status, visit},
        environment::{HOST, RunMode, SeedsEnvironment},
        results::ProbeVerdict,
        stack::Stack,
    },
};

/// Of several requests for a picture, at most one may reach the server behind the front server.
pub(super) fn pictures(
    environment: &SeedsEnvironment,
    stack: &Stack,
) -> Result<ProbeVerdict, CommandError> {
    let path = &environment.picture;
    let before = stack.requests_behind_front(path);
    for _ in 0..PICTURE_REQUESTS {
        let page = visit(stack, path)?;
        if page.status != 200 {
            return Err(format!("{path}: status {}", page.status).into());
        }
    }
    Ok(match (before, stack.requests_behind_front(path)) {
        (Some(before), Some(after)) => {
            let reached = after.saturating_sub(before);
            let detail =
                format!("{reached} of {PICTURE_REQUESTS} requests reached the server behind");
            ProbeVerdict::of(reached <= 1, detail)
        }
        _ => ProbeVerdict::of(true, "the front server reads files itself"),
    })
}

/// More connections than the soft limit of descriptors with which the programs were started.
pub(super) fn connections(
    environment: &SeedsEnvironment,
    stack: &Stack,
) -> Result<ProbeVerdict, CommandError> {
    let arguments = CONNECTIONS.map(str::to_owned);
    let command = AbCommand {
        arguments: &arguments,
        share: 1.0,
        addr: stack.addr,
        host: HOST,
        target: environment.target(Page::Thirteen),
    };
    let outcome = run_ab(
        command,
        environment.cores.client,
        stack.dir(),
        &environment.interrupt,
    )?;
    let after = visit(stack, environment.target(Page::Thirteen))?;
    require(
        &after,
        SeedsEnvironment::mark(Page::Thirteen),
        "after the load",
    )?;
    let detail = format!("{} of {} requests failed", outcome.failed, outcome.requests);
    Ok(ProbeVerdict::of(outcome.failed == 0, detail))
}

/// A stored page is requested while PHP is down.
pub(super) fn php_outage(
    environment: &SeedsEnvironment,
    stack: &mut Stack,
) -> Result<ProbeVerdict, CommandError> {
    let target = post(environment, 6)?;
    for _ in 0..2 {
        require(&visit(stack, target)?, "</html>", target)?;
    }
    stack.kill_php();
    let result = visit(stack, target);
    stack.restart_php(environment)?;
    Ok(match result {
        Ok(page) if page.status == 200 && page.text.contains("</html>") => {
            ProbeVerdict::of(true, "served")
        }
        Ok(page) => ProbeVerdict::of(false, format!("status {}", page.status)),
        Err(_) => ProbeVerdict::of(false, "no response"),
    })
}

pub(super) fn hidden_file(stack: &Stack) -> Result<ProbeVerdict, CommandError> {
    let page = visit(stack, "/.htaccess")?;
    let is_hidden = page.status != 200 && !page.text.contains("RewriteEngine");
    Ok(ProbeVerdict::of(
        is_hidden,
        format!("status {}", page.status),
    ))
}

/// Many visitors request a page at the same time while it is not stored.
pub(super) fn stampede(environment: &SeedsEnvironment, stack: &Stack) -> ProbeVerdict {
    let name = environment.probe_name();
    let target = format!("/?seeds-probe={name}");
    let served = thread::scope(|scope| {
        let visit = || status(stack, &target).is_ok_and(|status| status == 200);
        let visitors: Vec<_> = (0..VISITORS).map(|_| scope.spawn(visit)).collect();
        let served = visitors.into_iter().map(ScopedJoinHandle::join);
        served.filter(|served| matches!(served, Ok(true))).count()
    });
    let generation_count = environment.generation_count(&name);
    let detail =
        format!("{served} of {VISITORS} visitors served; PHP generated it {generation_count} x");
    ProbeVerdict::of(served == VISITORS && generation_count == 1, detail)
}

/// Visitors arrive at a rising rate and wait five seconds at most.
pub(super) fn rising_load(
    environment: &SeedsEnvironment,
    stack: &Stack,
) -> Result<ProbeVerdict, CommandError> {
    let target = environment.target(Page::Post);
    for _ in 0..2 {
        require(&visit(stack, target)?, "</html>", target)?;
    }
    let duration = match environment.mode {
        RunMode::Full => RISE_TIME,
        RunMode::Quick | RunMode::Short => RISE_TIME / 4,
    };
    let result = on_core(environment.cores.client, || {
        ramp(environment, stack, target, duration)
    })?;
    wait_until_idle(&environment.interrupt, &stack.roots())?;
    let outcome = result?;
    // Requests that were due but could not be sent count with the time for which they waited.
    let failed = outcome.broken + outcome.unexpected_status;
    let slowest = outcome.quantile(1.0);
    let mut detail = format!(
        "{failed} of {} requests failed, the slowest took {:.2} s",
        outcome.responses + outcome.broken + outcome.unsent,
        slowest.as_secs_f64()
    );
    if let Some(first) = outcome.first_error.filter(|_| failed > 0) {
        let _ = write!(detail, " ({first})");
    }
    Ok(ProbeVerdict::of(
        failed == 0 && slowest < VISITOR_TIMEOUT,
        detail,
    ))
}

fn ramp(
    environment: &SeedsEnvironment,
    stack: &Stack,
    target: &str,
    duration: Duration,
) -> Result<LoadOutcome, CommandError> {
    let page = VisitedPage::new(PageMethod::Get, target).ok_or("an invalid path")?;
    let workload = Workload {
        requests: Box::new(AbRequests::new(HOST, &[page], false)?),
        connections: MAX_VISITORS,
        pace: Pace::Ramp {
            from: 1.0,
            to: 250.0,
            over: duration,
        },
    };
    let target = Target {
        addr: stack.addr,
        tls: None,
        connections: Connections::PerRequest,
        watch: None,
    };
    let mut client = LoadClient::connect(target, vec![workload], environment.interrupt.flag())?;
    client.set_timeouts(Timeouts {
        responses: VISITOR_TIMEOUT,
        ..Timeouts::default()
    });
    let outcome = client.run(Limit::Time(duration))?;
    Ok(outcome.into_iter().next().ok_or("no request was sent")?)
}

const PICTURE_REQUESTS: usize = 5;
const CONNECTIONS: [&str; 5] = ["-c", "1200", "-n", "3600", "-r"];
const VISITORS: usize = 20;
const RISE_TIME: Duration = Duration::from_secs(20);
/// Concurrent visitors: as many as arrive per second at the end.
const MAX_VISITORS: usize = 250;
const VISITOR_TIMEOUT: Duration = Duration::from_secs(5);
