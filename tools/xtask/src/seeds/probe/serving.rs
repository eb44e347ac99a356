//! How a stack serves: pictures, many connections, many visitors of one page, a rush, and PHP that is down.

use std::{
    fmt::Write as _,
    thread::{self, ScopedJoinHandle},
    time::Duration,
};

use galley_load::{
    AbRequests, Connections, Limit, LoadClient, LoadOutcome, Pace, PageMethod, Target, Timeouts,
    VisitedPage, Workload,
};

use super::visitors::{page, require};
use crate::{
    bench::{Line, on_core, run_ab, wait_for_quiet},
    demo::CommandError,
    seeds::{
        article::Page,
        editor::{status, visit},
        outcome::Verdict,
        stack::Stack,
        stage::{Form, HOST, Stage},
    },
};

/// Of several requests for a picture at most the first may reach the server behind the front.
pub(super) fn pictures(stage: &Stage, stack: &Stack) -> Result<Verdict, CommandError> {
    let path = &stage.picture;
    let before = stack.behind_front(path);
    for _ in 0..PICTURES {
        let seen = visit(stack, path)?;
        if seen.status != 200 {
            return Err(format!("{path}: status {}", seen.status).into());
        }
    }
    Ok(match (before, stack.behind_front(path)) {
        (Some(before), Some(after)) => {
            let reached = after.saturating_sub(before);
            let detail = format!("{reached} of {PICTURES} requests reached the server behind");
            Verdict::of(reached <= 1, detail)
        }
        _ => Verdict::of(true, "the front reads files itself"),
    })
}

/// More connections than the descriptors that the programs were started with.
pub(super) fn connections(stage: &Stage, stack: &Stack) -> Result<Verdict, CommandError> {
    let arguments = CONNECTIONS.map(str::to_owned);
    let line = Line {
        arguments: &arguments,
        share: 1.0,
        addr: stack.addr,
        host: HOST,
        target: stage.target(Page::Thirteen),
    };
    let seen = run_ab(line, stage.cores.client, stack.dir(), &stage.interrupt)?;
    let after = visit(stack, stage.target(Page::Thirteen))?;
    require(&after, Stage::mark(Page::Thirteen), "after it")?;
    let detail = format!("{} of {} requests failed", seen.failed, seen.requests);
    Ok(Verdict::of(seen.failed == 0, detail))
}

/// A page that is stored, while PHP is down.
pub(super) fn outage(stage: &Stage, stack: &mut Stack) -> Result<Verdict, CommandError> {
    let target = page(stage, 6)?;
    for _ in 0..2 {
        require(&visit(stack, target)?, "</html>", target)?;
    }
    stack.kill_php();
    let seen = visit(stack, target);
    stack.restart_php(stage)?;
    Ok(match seen {
        Ok(seen) if seen.status == 200 && seen.text.contains("</html>") => {
            Verdict::of(true, "served")
        }
        Ok(seen) => Verdict::of(false, format!("status {}", seen.status)),
        Err(_) => Verdict::of(false, "no response"),
    })
}

pub(super) fn hidden(stack: &Stack) -> Result<Verdict, CommandError> {
    let seen = visit(stack, "/.htaccess")?;
    let is_hidden = seen.status != 200 && !seen.text.contains("RewriteEngine");
    Ok(Verdict::of(is_hidden, format!("status {}", seen.status)))
}

/// Many visitors at the same time of a page that is not stored.
pub(super) fn stampede(stage: &Stage, stack: &Stack) -> Verdict {
    let name = stage.probe_name();
    let target = format!("/?seeds-probe={name}");
    let served = thread::scope(|scope| {
        let visit = || status(stack, &target).is_ok_and(|status| status == 200);
        let visitors: Vec<_> = (0..VISITORS).map(|_| scope.spawn(visit)).collect();
        let served = visitors.into_iter().map(ScopedJoinHandle::join);
        served.filter(|served| matches!(served, Ok(true))).count()
    });
    let generated = stage.generated(&name);
    let detail = format!("{served} of {VISITORS} visitors served; PHP generated it {generated} x");
    Verdict::of(served == VISITORS && generated == 1, detail)
}

/// Visitors that come faster and faster, and leave after five seconds.
pub(super) fn rush(stage: &Stage, stack: &Stack) -> Result<Verdict, CommandError> {
    let target = stage.target(Page::Post);
    for _ in 0..2 {
        require(&visit(stack, target)?, "</html>", target)?;
    }
    let over = match stage.form {
        Form::Full => RUSH,
        Form::Quick | Form::Short => RUSH / 4,
    };
    let outcome = on_core(stage.cores.client, || ramp(stage, stack, target, over))?;
    wait_for_quiet(&stage.interrupt, &stack.roots())?;
    let seen = outcome?;
    // What was due and could not be sent counts with the time that it waited.
    let lost = seen.broken + seen.unexpected_status;
    let worst = seen.quantile(1.0);
    let mut detail = format!(
        "{lost} of {} requests failed, the slowest took {:.2} s",
        seen.responses + seen.broken + seen.unsent,
        worst.as_secs_f64()
    );
    if let Some(first) = seen.first_error.filter(|_| lost > 0) {
        let _ = write!(detail, " ({first})");
    }
    Ok(Verdict::of(lost == 0 && worst < LEAVES, detail))
}

fn ramp(
    stage: &Stage,
    stack: &Stack,
    target: &str,
    over: Duration,
) -> Result<LoadOutcome, CommandError> {
    let page = VisitedPage::new(PageMethod::Get, target).ok_or("an odd path")?;
    let workload = Workload {
        requests: Box::new(AbRequests::new(HOST, &[page], false)?),
        connections: RUSH_VISITORS,
        pace: Pace::Ramp {
            from: 1.0,
            to: 250.0,
            over,
        },
    };
    let target = Target {
        addr: stack.addr,
        tls: None,
        connections: Connections::PerRequest,
        watch: None,
    };
    let mut client = LoadClient::connect(target, vec![workload], stage.interrupt.flag())?;
    client.set_timeouts(Timeouts {
        responses: LEAVES,
        ..Timeouts::default()
    });
    let seen = client.run(Limit::Time(over))?;
    Ok(seen.into_iter().next().ok_or("nothing was asked")?)
}

const PICTURES: usize = 5;
const CONNECTIONS: [&str; 5] = ["-c", "1200", "-n", "3600", "-r"];
const VISITORS: usize = 20;
const RUSH: Duration = Duration::from_secs(20);
/// At a time: as many as ask in a second at the end.
const RUSH_VISITORS: usize = 250;
const LEAVES: Duration = Duration::from_secs(5);
