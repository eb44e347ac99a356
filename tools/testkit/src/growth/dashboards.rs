//! Hits while ten dashboards are open: what a watched server costs more than one that nobody watches.
//!
//! In pairs of slices, one with open pages of `galley dashboard` and one without, first the one and then the other, so that what the
//! machine does meanwhile falls on both. The pages are of one dashboard, as tabs of a browser are; all of them get every sample.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::asker::{Asker, ask_all};
use super::entries::wrong;
use super::stage::Stage;
use super::{Figure, Promise, Setting, amount};
use crate::Trouble;
use crate::client::{Connection, Request};
use crate::trouble::During;

/// `galley dashboard`; ends with its handle.
struct Dashboard {
    child: Child,
    addr: SocketAddr,
    cookie: String,
    key: String,
}

/// One slice.
#[derive(Clone, Copy, Default)]
struct Slice {
    requests: u64,
    processor: Duration,
    missed: u64,
    wrong: u64,
}

pub(super) fn run(setting: &Setting) -> Result<Vec<Figure>, Trouble> {
    let stage = Stage::start(setting, "memory = \"64MiB\"", Vec::new())?;
    let dashboard = Dashboard::start(setting, &stage)?;
    let length = setting.form.pick(SHORT_SLICE, LONG_SLICE);
    let mut askers = Asker::many(stage.addr(), CLIENTS)?;
    ask_all(&mut askers, 2_000, &mut path)?;
    let (mut processor, mut all) = (Vec::new(), Slice::default());
    for pair in 0..setting.form.pick(1, PAIRS) {
        (setting.progress)(&format!("pair {} of slices", pair + 1));
        let mut measure = |is_watched: bool| {
            let pages = is_watched.then(|| dashboard.pages()).transpose()?;
            let slice = slice(&stage, &mut askers, length)?;
            drop(pages);
            all.requests += slice.requests;
            all.missed += slice.missed;
            all.wrong += slice.wrong;
            Ok::<_, Trouble>(slice.processor.as_secs_f64() / amount(slice.requests.max(1)))
        };
        let is_watched_first = pair % 2 == 0;
        let first = measure(is_watched_first)?;
        let second = measure(!is_watched_first)?;
        let (watched, alone) = if is_watched_first {
            (first, second)
        } else {
            (second, first)
        };
        processor.push((watched / alone - 1.0) * 100.0);
    }
    let case = format!("{PAGES} dashboards, {} pairs of slices", processor.len());
    let more = median(&mut processor);
    Ok(vec![
        wrong(&case, all.wrong),
        Figure::new("answers that were no hit", &case, amount(all.missed), "")
            .promised(Promise::Exactly(0.0)),
        Figure::new("hits", &case, amount(all.requests), ""),
        Figure::new("more processor time for a hit", &case, more, "%")
            .promised(Promise::TimeAtMost(MOST_PERCENT)),
    ])
}

fn path(number: u64) -> String {
    format!("/e/{}", number % 100)
}

/// Hits without a pause.
fn slice(stage: &Stage, askers: &mut [Asker], length: Duration) -> Result<Slice, Trouble> {
    let (began, before) = (Instant::now(), stage.processor());
    let mut slice = Slice::default();
    while began.elapsed() < length {
        let asked = ask_all(askers, 500, &mut path)?;
        slice.requests += asked.answers;
        slice.missed += asked.answers - asked.hits;
        slice.wrong += asked.wrong;
    }
    slice.processor = stage.processor().saturating_sub(before);
    Ok(slice)
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

impl Dashboard {
    fn start(setting: &Setting, stage: &Stage) -> Result<Self, Trouble> {
        let admin = stage.galley.admin();
        let admin = admin.ok_or_else(|| malformed("the server has no admin interface"))?;
        let mut child = Command::new(&setting.galley)
            .args(["dashboard", "--no-open", "--admin", &admin])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .during("start a dashboard")?;
        let mut line = String::new();
        if let Some(output) = child.stdout.take() {
            let read = BufReader::new(output).read_line(&mut line);
            read.during("read the dashboard's address")?;
        }
        let parsed = line.trim().strip_prefix("http://").and_then(|rest| {
            let (addr, login) = rest.split_once("/#login=")?;
            Some((addr.parse::<SocketAddr>().ok()?, login.to_owned()))
        });
        let mut dashboard = Self {
            child,
            addr: SocketAddr::from(([127, 0, 0, 1], 0)),
            cookie: String::new(),
            key: String::new(),
        };
        let (addr, login) = parsed.ok_or_else(|| malformed("the dashboard has no address"))?;
        dashboard.addr = addr;
        dashboard.log_in(&login)?;
        Ok(dashboard)
    }

    fn log_in(&mut self, login: &str) -> Result<(), Trouble> {
        let body = json!({ "token": login }).to_string();
        let request = Request::post("/login", "application/json", body);
        let request = request.field("Origin", format!("http://{}", self.addr));
        let answer = request.send(self.addr)?;
        let said: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        let cookie = answer.field("set-cookie").unwrap_or_default();
        cookie
            .split(';')
            .next()
            .unwrap_or_default()
            .clone_into(&mut self.cookie);
        let key = said["key"]
            .as_str()
            .ok_or_else(|| malformed("no session"))?;
        key.clone_into(&mut self.key);
        Ok(())
    }

    /// Pages that listen, each of which has got its first sample.
    fn pages(&self) -> Result<Vec<Connection>, Trouble> {
        let open = || {
            let mut page = Connection::open(self.addr)?;
            let request = Request::get("/api/live").cookie(&self.cookie);
            page.send(&request.field("X-Galley-Key", &self.key))?;
            Ok(page)
        };
        let pages = (0..PAGES)
            .map(|_| open())
            .collect::<Result<Vec<_>, Trouble>>()?;
        for page in &pages {
            let mut piece = [0; 16 * 1024];
            let mut heard = Vec::new();
            while !heard.windows(DATA.len()).any(|part| part == DATA) {
                let count = page.stream().read(&mut piece).during("hear a sample")?;
                if count == 0 {
                    return Err(malformed("the dashboard has left"));
                }
                heard.extend_from_slice(piece.get(..count).unwrap_or_default());
            }
        }
        Ok(pages)
    }
}

impl Drop for Dashboard {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn malformed(what: &str) -> Trouble {
    Trouble::Malformed(what.to_owned())
}

const PAGES: usize = 10;

/// What ten of them may cost.
const MOST_PERCENT: f64 = 2.0;

/// A sample comes every two seconds: a long slice has three.
const SHORT_SLICE: Duration = Duration::from_millis(500);
const LONG_SLICE: Duration = Duration::from_secs(6);
const PAIRS: usize = 11;

/// Enough that the server never waits for a client.
const CLIENTS: usize = 8;

const DATA: &[u8] = b"data: ";
