//! Upstreams that hang, break off, send too little, too much or rubbish, over HTTP and FastCGI, drawn at random.
//!
//! Each step: a page is stored, its content changes, the upstream breaks, and visitors ask together. After a soft purge, or
//! when the copy's lifetime is over, every one of them must get the old copy whole; after a hard purge they may get an error
//! that can be seen, and never an answer that looks whole and is not, or is older.

use std::{
    fmt::Write as _,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread::{self, ScopedJoinHandle},
    time::Duration,
};

use super::{
    Form, Setting,
    dice::Dice,
    orders::{Editor, Way},
    stage::{HOST, Plan, Stage, Visitor, get},
    tally::{Tally, Verdict},
    truth::{Lengths, Scope, Truth, VERSION_FIELD, number, path},
};
use crate::{
    Scratch, TestkitError,
    client::Request,
    origin::{FastCgiOrigin, FastCgiWriter, Origin, ResponseWriter},
    wait::pause,
};

pub(super) fn run(setting: &Setting) -> Result<Tally, TestkitError> {
    let steps = match setting.form {
        Form::Short => 30,
        Form::Long => 500,
    };
    let mut sum = Tally::default();
    for speech in [Speech::Http, Speech::FastCgi] {
        sum += one(setting, speech, steps)?;
    }
    Ok(sum)
}

/// What the upstream speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Speech {
    Http,
    FastCgi,
}

/// How an answer goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    Status,
    Closes,
    Resets,
    HalfHead,
    /// Part of the body, by length.
    Short,
    /// Part of the body, in chunks or records.
    ShortPieces,
    TooMuch,
    Rubbish,
    BadHead,
    HangsFirst,
    HangsMidway,
    /// The connection ends where only the end of the answer is missing.
    NoEnd,
}

impl Fault {
    const ALL: [Self; 13] = [
        Self::None,
        Self::Status,
        Self::Closes,
        Self::Resets,
        Self::HalfHead,
        Self::Short,
        Self::ShortPieces,
        Self::TooMuch,
        Self::Rubbish,
        Self::BadHead,
        Self::HangsFirst,
        Self::HangsMidway,
        Self::NoEnd,
    ];
}

/// The upstream's pages and how each fails now, by its place in [`Fault::ALL`].
struct Script {
    truth: Truth,
    faults: Vec<AtomicUsize>,
}

impl Script {
    fn set(&self, page: usize, fault: usize) {
        if let Some(place) = self.faults.get(page) {
            place.store(fault, Ordering::SeqCst);
        }
    }

    fn fault(&self, page: usize) -> Fault {
        let place = self.faults.get(page);
        let fault = place.map_or(0, |place| place.load(Ordering::SeqCst));
        Fault::ALL.get(fault).copied().unwrap_or(Fault::None)
    }

    fn answer(&self, page: usize) -> (String, Vec<u8>) {
        let version = self.truth.version(page);
        let lifetime = if is_brief(page) { 1 } else { 86_400 };
        let mut head = format!(
            "Content-Type: text/plain\r\n{VERSION_FIELD}: {version}\r\n\
             Cache-Control: max-age={lifetime}, stale-if-error=864000"
        );
        if page % 3 == 2 {
            head.push_str(", stale-while-revalidate=86400");
        }
        head.push_str("\r\n");
        (head, self.truth.compose(page, version))
    }
}

/// Kept alive as long as the steps run.
enum Upstream {
    Http(Origin),
    FastCgi(FastCgiOrigin),
}

impl Upstream {
    /// Ends it; a script that panicked fails the run.
    fn end(self) {
        match self {
            Self::Http(origin) => drop(origin),
            Self::FastCgi(responder) => drop(responder),
        }
    }
}

fn one(setting: &Setting, speech: Speech, steps: usize) -> Result<Tally, TestkitError> {
    let lengths = Lengths {
        usual: 300..20_000,
        long_every: 6,
        long: 100_000..600_000,
        last: Vec::new(),
    };
    let script = Arc::new(Script {
        truth: Truth::new(PAGES, setting.seed, &lengths),
        faults: (0..PAGES).map(|_| AtomicUsize::new(0)).collect(),
    });
    let folder = Scratch::new()?;
    folder.write("index.php", "")?;
    let (upstream, behind) = upstream(speech, &script, &folder)?;
    let plan = Plan {
        site: "first_byte_timeout = \"250ms\"\nread_timeout = \"250ms\"".to_owned(),
        behind: Some(behind),
        ..Plan::default()
    };
    let own = Truth::new(0, 0, &lengths);
    let mut stage = Stage::new(&setting.galley, own, &plan)?;
    stage.start()?;
    let dice = Dice::new(setting.seed).fork(steps as u64);
    let sum = Mutex::new(Tally::default());
    thread::scope(|scope| {
        for worker in 0..WORKERS {
            let (dice, stage, script, sum) = (dice.fork(worker as u64), &stage, &script, &sum);
            scope.spawn(move || {
                let tally = work(stage, script, worker, steps, dice);
                let mut sum = sum.lock().unwrap_or_else(PoisonError::into_inner);
                match tally {
                    Ok(tally) => *sum += tally,
                    Err(trouble) => sum.broken(&format!("{speech:?}: {trouble}")),
                }
            });
        }
    });
    let mut sum = sum.into_inner().unwrap_or_else(PoisonError::into_inner);
    sum.require(
        !stage.galley()?.log().contains("panicked"),
        "the server panicked",
    );
    stage.stop();
    upstream.end();
    Ok(sum)
}

fn upstream(
    speech: Speech,
    script: &Arc<Script>,
    folder: &Scratch,
) -> Result<(Upstream, String), TestkitError> {
    let script = Arc::clone(script);
    match speech {
        Speech::Http => {
            let origin = Origin::start_unrecorded(move |seen, writer| {
                let page = number(seen.path()).unwrap_or(0);
                http(&script, page, writer);
            })?;
            let line = format!("upstream = [\"{}\"]", origin.url());
            Ok((Upstream::Http(origin), line))
        }
        Speech::FastCgi => {
            let responder = FastCgiOrigin::start(move |asked, app| {
                let target = asked.param("REQUEST_URI").split('?').next();
                let page = number(target.unwrap_or_default()).unwrap_or(0);
                fastcgi(&script, page, app);
            })?;
            let line = format!(
                "php = \"{}\"\nroot = \"{}\"",
                responder.address(),
                folder.path().display()
            );
            Ok((Upstream::FastCgi(responder), line))
        }
    }
}

/// Steps with the pages of one worker.
fn work(
    stage: &Stage,
    script: &Script,
    worker: usize,
    steps: usize,
    mut dice: Dice,
) -> Result<Tally, TestkitError> {
    let mut tally = Tally::default();
    let mut editor = Editor::new(stage)?;
    let mut visitor = Visitor::new(stage.addr()?);
    for _ in 0..steps {
        let page = dice.below(PAGES / WORKERS) * WORKERS + worker;
        script.set(page, 0);
        store(&mut visitor, script, page, &mut tally)?;
        let fault = dice.below(Fault::ALL.len());
        script.set(page, fault);
        let changed = script.truth.change(Scope::Url(page));
        let is_soft = !page.is_multiple_of(3);
        if is_brief(page) && dice.once_in(4) {
            // Age, not an order, makes it stale: nothing refreshes it beside the visitors.
            pause(BRIEF);
        } else if is_soft {
            soften(&mut visitor, page)?;
        } else {
            editor.order(Scope::Url(page), Way::Request)?;
            script.truth.acknowledge(&changed);
        }
        tally.purges += 1;
        tally.rounds += 1;
        ask(stage, script, page, is_soft, &mut tally)?;
    }
    Ok(tally)
}

/// Until it is in the cache.
fn store(
    visitor: &mut Visitor,
    script: &Script,
    page: usize,
    tally: &mut Tally,
) -> Result<(), TestkitError> {
    // A purge that a slow end of an exchange still has to bring may take a copy away once more.
    let mut said = Vec::new();
    for _ in 0..20 {
        let floor = script.truth.floor(page);
        let answer = visitor.ask(&get(page))?;
        let verdict = script.truth.judge(page, floor, &answer);
        tally.judge(verdict, || {
            format!(
                "{} while the upstream was well: {}",
                path(page),
                answer.beginning()
            )
        });
        let is_newest = script.truth.version_in(page, &answer) == Some(script.truth.version(page));
        if answer.is_hit() && is_newest {
            return Ok(());
        }
        said.push(answer.cache_status().to_owned());
        if answer.is_hit() {
            // The old copy, while or after a refresh that failed: what is newer is asked for by force.
            let request = Request::new("PURGE", &path(page)).host(HOST);
            visitor.ask(&request)?;
        }
    }
    said.dedup();
    let said = said.join(" / ");
    tally.broken(&format!("{} was not stored: {said}", path(page)));
    Ok(())
}

/// Whether a page's lifetime is over soon.
fn is_brief(page: usize) -> bool {
    page % 3 == 1
}

fn soften(visitor: &mut Visitor, page: usize) -> Result<(), TestkitError> {
    let request = Request::new("PURGE", &path(page))
        .host(HOST)
        .field("X-Purge-Soft", "1");
    let answer = visitor.ask(&request)?;
    if answer.status == 200 {
        Ok(())
    } else {
        Err(TestkitError::Malformed(format!(
            "a soft purge was refused: {}",
            answer.beginning()
        )))
    }
}

/// Some ask together. With an old copy everybody gets a whole page; without one an error that is seen is no failure.
fn ask(
    stage: &Stage,
    script: &Script,
    page: usize,
    has_copy: bool,
    tally: &mut Tally,
) -> Result<(), TestkitError> {
    let addr = stage.addr()?;
    let floor = script.truth.floor(page);
    let answers: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..TOGETHER)
            .map(|_| scope.spawn(move || Visitor::new(addr).ask(&get(page))))
            .collect();
        threads.into_iter().map(ScopedJoinHandle::join).collect()
    });
    for answer in answers.into_iter().flatten() {
        let said = || format!("{} with {:?}", path(page), script.fault(page));
        match answer {
            Ok(answer) if answer.status == 200 => {
                tally.hits += u64::from(answer.is_hit());
                tally.judge(script.truth.judge(page, floor, &answer), || {
                    let length = answer.body.len();
                    let status = answer.cache_status().to_owned();
                    format!("{}: {length} bytes, `{status}`", said())
                });
            }
            Ok(answer) if has_copy => {
                tally.judge(Verdict::Failed, || {
                    format!(
                        "{}: status {} although there was a copy",
                        said(),
                        answer.status
                    )
                });
            }
            Err(trouble) if has_copy => {
                tally.judge(Verdict::Failed, || {
                    format!("{}: {trouble} although there was a copy", said())
                });
            }
            Ok(_) | Err(_) => tally.pages += 1,
        }
    }
    Ok(())
}

fn http(script: &Script, page: usize, writer: &mut ResponseWriter<'_>) {
    let (fields, body) = script.answer(page);
    let head = |more: &str| format!("HTTP/1.1 200 OK\r\n{fields}{more}\r\n").into_bytes();
    let whole = head(&format!("Content-Length: {}\r\n", body.len()));
    let half = body.get(..body.len() / 2).unwrap_or_default();
    let send = |writer: &mut ResponseWriter<'_>, parts: &[&[u8]]| {
        let _ = writer.write(&parts.concat());
    };
    match script.fault(page) {
        Fault::None => return send(writer, &[&whole, &body]),
        Fault::Status => {
            let _ = writer.answer(500, &[], b"database error");
            return;
        }
        Fault::TooMuch => send(
            writer,
            &[&whole, &body, b"HTTP/1.1 200 OK\r\n\r\nmore of it"],
        ),
        Fault::Closes => {}
        Fault::Resets => return writer.reset(),
        Fault::HalfHead => send(writer, &[&whole[..whole.len() / 2]]),
        Fault::Short => send(writer, &[&whole, half]),
        Fault::ShortPieces => {
            let mut size = String::new();
            let _ = write!(size, "{:x}\r\n", half.len());
            let chunked = head("Transfer-Encoding: chunked\r\n");
            send(writer, &[&chunked, size.as_bytes(), half, b"\r\n"]);
        }
        Fault::Rubbish => send(writer, &[b"\x00\x01\x02 what is this\r\n\r\n", half]),
        Fault::BadHead => send(
            writer,
            &[&head("Content-Length: 5\r\nContent-Length: 6\r\n"), &body],
        ),
        Fault::HangsFirst => writer.wait_for_close(),
        Fault::HangsMidway => {
            send(writer, &[&whole, half]);
            writer.wait_for_close();
        }
        Fault::NoEnd => {
            let mut size = String::new();
            let _ = write!(size, "{:x}\r\n", body.len());
            let chunked = head("Transfer-Encoding: chunked\r\n");
            send(writer, &[&chunked, size.as_bytes(), &body, b"\r\n"]);
        }
    }
    writer.close();
}

fn fastcgi(script: &Script, page: usize, app: &mut FastCgiWriter<'_>) {
    let (fields, body) = script.answer(page);
    let sized = format!("{fields}Content-Length: {}", body.len());
    let half = body.get(..body.len() / 2).unwrap_or_default();
    let sent = match script.fault(page) {
        Fault::None => {
            app.stderr(b"a word\n");
            app.answer(&fields, &body);
            return;
        }
        Fault::Status => {
            app.answer(
                "Status: 500 Database Error\r\nContent-Type: text/plain",
                b"oops",
            );
            return;
        }
        Fault::TooMuch => app.answer(&sized, &[&body[..], b"more of it"].concat()),
        Fault::Closes => true,
        Fault::Resets => return app.reset(),
        Fault::HalfHead => app.stdout(fields.get(..20).unwrap_or_default().as_bytes()),
        Fault::Short => {
            // It ends in order, and is too short.
            app.answer(&sized, half);
            return;
        }
        Fault::ShortPieces => app.answer(&fields, half),
        Fault::Rubbish => app.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"),
        Fault::BadHead => {
            app.answer("Content-Type: text/plain\r\nno colon here", &body);
            return;
        }
        Fault::HangsFirst => {
            app.wait_for_abort();
            true
        }
        Fault::HangsMidway => {
            app.answer(&fields, half);
            app.wait_for_abort();
            true
        }
        Fault::NoEnd => app.answer(&fields, &body),
    };
    let _ = sent;
    app.close();
}

const PAGES: usize = 48;
const WORKERS: usize = 4;
const TOGETHER: usize = 3;
/// A little longer than a brief page's lifetime.
const BRIEF: Duration = Duration::from_millis(1_100);
