//! Hits while ten dashboards are open: the processor time that they cost the server per hit.
//!
//! In pairs of slices ([`super::slices`]), one with open pages of `galley dashboard` and one without. All pages belong to one dashboard
//! process, like tabs of a browser, and each of them gets every sample.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use super::load::connect_many;
use super::site::GrowthSite;
use super::slices::{CLIENTS, Side, Slice, SlicePairs, warm_up};
use super::{Goal, GrowthSettings, Measurement, count_as_f64};
use crate::TestkitError;
use crate::client::{Connection, Request};
use crate::error::Context;

/// A running `galley dashboard`, killed on drop.
struct Dashboard {
    child: Child,
    addr: SocketAddr,
    cookie: String,
    key: String,
}

pub(super) fn run(settings: &GrowthSettings) -> Result<Vec<Measurement>, TestkitError> {
    let site = GrowthSite::start(settings, "memory = \"64MiB\"", Vec::new())?;
    let dashboard = Dashboard::start(settings, &site)?;
    let mut connections = connect_many(site.addr(), CLIENTS)?;
    warm_up(&mut connections)?;
    let length = settings.length.pick(SHORT_SLICE, LONG_SLICE);
    let count = settings.length.pick(1, PAIRS);
    let pairs = SlicePairs::measure(count, settings.progress, |side| {
        let pages = (side == Side::Changed).then(|| dashboard.open_pages());
        let pages = pages.transpose()?;
        let slice = Slice::of_hits(&site, &mut connections, length)?;
        drop(pages);
        Ok(slice)
    })?;
    let total = pairs.total();
    let case = format!("{PAGES} dashboards, {} pairs of slices", pairs.count());
    let increase = pairs.increase_percent(Slice::processor_per_hit);
    Ok(vec![
        Measurement::wrong_responses(&case, total.wrong),
        Measurement::misses(&case, total.misses()),
        Measurement::new("hits", &case, count_as_f64(total.responses), ""),
        Measurement::new("more processor time for a hit", &case, increase, "%")
            .with_goal(Goal::TimeAtMost(MAX_PERCENT)),
    ])
}

impl Dashboard {
    fn start(settings: &GrowthSettings, site: &GrowthSite) -> Result<Self, TestkitError> {
        let admin = site.galley.admin();
        let admin = admin.ok_or_else(|| malformed("the server has no admin interface"))?;
        let mut child = Command::new(&settings.galley)
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
        let (addr, login) = parsed.ok_or_else(|| malformed("the dashboard printed no address"))?;
        dashboard.addr = addr;
        dashboard.log_in(&login)?;
        Ok(dashboard)
    }

    fn log_in(&mut self, login: &str) -> Result<(), TestkitError> {
        let body = json!({ "token": login }).to_string();
        let request = Request::post("/login", "application/json", body);
        let request = request.field("Origin", format!("http://{}", self.addr));
        let response = request.send(self.addr)?;
        let session: Value = serde_json::from_slice(&response.body).unwrap_or_default();
        let cookie = response.field("set-cookie").unwrap_or_default();
        cookie
            .split(';')
            .next()
            .unwrap_or_default()
            .clone_into(&mut self.cookie);
        let key = session["key"]
            .as_str()
            .ok_or_else(|| malformed("the login returned no session key"))?;
        key.clone_into(&mut self.key);
        Ok(())
    }

    /// Opens [`PAGES`] pages; each has received its first sample.
    fn open_pages(&self) -> Result<Vec<Connection>, TestkitError> {
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
            let mut buffer = [0; 16 * 1024];
            let mut received = Vec::new();
            while !received.windows(DATA.len()).any(|part| part == DATA) {
                let count = page.stream().read(&mut buffer).context("read a sample")?;
                if count == 0 {
                    return Err(malformed("the dashboard closed the connection"));
                }
                received.extend_from_slice(buffer.get(..count).unwrap_or_default());
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

/// The highest acceptable cost of ten dashboards.
const MAX_PERCENT: f64 = 2.0;

/// A sample comes every two seconds: a long slice has three.
const SHORT_SLICE: Duration = Duration::from_millis(500);
const LONG_SLICE: Duration = Duration::from_secs(6);
const PAIRS: usize = 11;

const DATA: &[u8] = b"data: ";
