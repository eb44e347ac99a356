//! Hits while ten dashboards are open: what a watched server costs more than one that nobody watches.
//!
//! In pairs of slices, one with open pages of `galley dashboard` and one without ([`super::slices`]). The pages are of one dashboard, as tabs of a browser are; all of them get every sample.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use super::asker::Asker;
use super::entries::wrong;
use super::slices::{CLIENTS, Side, Slice, SlicePairs, warm};
use super::stage::Stage;
use super::{Figure, Promise, Setting, amount};
use crate::TestkitError;
use crate::client::{Connection, Request};
use crate::error::Context;

/// `galley dashboard`; ends with its handle.
struct Dashboard {
    child: Child,
    addr: SocketAddr,
    cookie: String,
    key: String,
}

pub(super) fn run(setting: &Setting) -> Result<Vec<Figure>, TestkitError> {
    let stage = Stage::start(setting, "memory = \"64MiB\"", Vec::new())?;
    let dashboard = Dashboard::start(setting, &stage)?;
    let mut askers = Asker::many(stage.addr(), CLIENTS)?;
    warm(&mut askers)?;
    let length = setting.form.pick(SHORT_SLICE, LONG_SLICE);
    let count = setting.form.pick(1, PAIRS);
    let pairs = SlicePairs::measure(count, setting.progress, |side| {
        let pages = (side == Side::Changed).then(|| dashboard.pages());
        let pages = pages.transpose()?;
        let slice = Slice::of_hits(&stage, &mut askers, length)?;
        drop(pages);
        Ok(slice)
    })?;
    let all = pairs.all();
    let case = format!("{PAGES} dashboards, {} pairs of slices", pairs.count());
    let more = pairs.more_percent(Slice::processor_of_a_hit);
    Ok(vec![
        wrong(&case, all.wrong),
        Figure::new("answers that were no hit", &case, amount(all.missed), "")
            .promised(Promise::Exactly(0.0)),
        Figure::new("hits", &case, amount(all.requests), ""),
        Figure::new("more processor time for a hit", &case, more, "%")
            .promised(Promise::TimeAtMost(MOST_PERCENT)),
    ])
}

impl Dashboard {
    fn start(setting: &Setting, stage: &Stage) -> Result<Self, TestkitError> {
        let admin = stage.galley.admin();
        let admin = admin.ok_or_else(|| malformed("the server has no admin interface"))?;
        let mut child = Command::new(&setting.galley)
            .args(["dashboard", "--no-open", "--admin", &admin])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("start a dashboard")?;
        let mut line = String::new();
        if let Some(output) = child.stdout.take() {
            let read = BufReader::new(output).read_line(&mut line);
            read.context("read the dashboard's address")?;
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

    fn log_in(&mut self, login: &str) -> Result<(), TestkitError> {
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
    fn pages(&self) -> Result<Vec<Connection>, TestkitError> {
        let open = || {
            let mut page = Connection::open(self.addr)?;
            let request = Request::get("/api/live").cookie(&self.cookie);
            page.send(&request.field("X-Galley-Key", &self.key))?;
            Ok(page)
        };
        let pages = (0..PAGES)
            .map(|_| open())
            .collect::<Result<Vec<_>, TestkitError>>()?;
        for page in &pages {
            let mut piece = [0; 16 * 1024];
            let mut heard = Vec::new();
            while !heard.windows(DATA.len()).any(|part| part == DATA) {
                let count = page.stream().read(&mut piece).context("hear a sample")?;
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

fn malformed(what: &str) -> TestkitError {
    TestkitError::Malformed(what.to_owned())
}

const PAGES: usize = 10;

/// What ten of them may cost.
const MOST_PERCENT: f64 = 2.0;

/// A sample comes every two seconds: a long slice has three.
const SHORT_SLICE: Duration = Duration::from_millis(500);
const LONG_SLICE: Duration = Duration::from_secs(6);
const PAIRS: usize = 11;

const DATA: &[u8] = b"data: ";
