//! Runs the steps: each request is predicted once and sent once.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use galley_testkit::client::{Request, Response};
use galley_testkit::origin::{FastCgiOrigin, Origin};
use galley_testkit::{Galley, Scratch, wait_for};
use serde_json::{Value, json};

use super::compare::{is_as_predicted, observed, predicted};
use super::pages;
use super::random::Random;
use super::sites::{self, GeneratedSite, SiteResources};
use super::steps::{self, GeneratedRequest, Step};
use crate::http2_client::Client;
use crate::support::{SERVER_TOKEN, TIMEOUT};

/// A server with generated sites.
struct GeneratedServer {
    galley: Galley,
    http2: Client,
    config: String,
    sites: Vec<(GeneratedSite, Vec<String>)>,
    _upstreams: (Origin, FastCgiOrigin),
    scratch: Scratch,
}

/// Result of comparing a prediction with its response.
enum Outcome {
    /// The response has the predicted outcome.
    Predicted(String),
    /// The server changed the entry between prediction and request, as its counters show, so the two cannot be compared.
    Disturbed,
    Wrong(String),
}

impl GeneratedServer {
    fn start(random: &mut Random) -> Self {
        let upstreams = (
            pages::start_http_upstream().unwrap(),
            pages::start_fastcgi_upstream().unwrap(),
        );
        let scratch = Scratch::new().unwrap();
        for (name, text) in FILES {
            scratch.write(name, text).unwrap();
        }
        scratch.dir("root/folder").unwrap();
        let token = scratch.join("server.token");
        fs::write(&token, SERVER_TOKEN).unwrap();
        fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).unwrap();
        let resources = SiteResources {
            http: &upstreams.0.url(),
            fastcgi: &upstreams.1.address(),
            root: &scratch.join("root").display().to_string(),
            password_file: &scratch.join("passwords").display().to_string(),
        };
        let sites = sites::generate_sites(random, &resources);
        let head = format!(
            "[server]\nlisten = [\"127.0.0.1:0\"]\nh2c = true\n[admin]\nlisten = \"127.0.0.1:0\"\ntoken_file = \"{}\"\n\
             [cache]\nmemory = \"64MiB\"\ndisk = \"{}\"\n[log]\naccess = \"off\"\nlevel = \"warn\"\n",
            token.display(),
            scratch.dir("disk").unwrap().display()
        );
        let texts: Vec<&str> = sites.iter().map(|site| site.text.as_str()).collect();
        let config = format!("{head}{}", texts.concat());
        let (galley, http2) = open(&scratch, &config);
        let with_paths = |site| (site, steps::generate_paths(random));
        Self {
            galley,
            http2,
            config,
            sites: sites.into_iter().map(with_paths).collect(),
            _upstreams: upstreams,
            scratch,
        }
    }

    /// Restarts the server, which reads pages and purges from the disk.
    fn restart(&mut self) {
        assert!(self.galley.stop().success());
        (self.galley, self.http2) = open(&self.scratch, &self.config);
    }

    fn admin(&self, request: Request) -> Response {
        let address = self.galley.admin().unwrap();
        let address = address.trim_start_matches("http://").parse().unwrap();
        let request = request.field("Authorization", format!("Bearer {SERVER_TOKEN}"));
        request.send(address).unwrap()
    }

    fn json(&self, request: Request) -> Value {
        let response = self.admin(request);
        assert_eq!(response.status, 200, "{}", response.text());
        serde_json::from_slice(&response.body).unwrap()
    }

    /// Waits enough the server has finished the fetches that earlier requests caused.
    fn wait_for_fetches(&self) {
        wait_for("the end of all fetches", TIMEOUT, || {
            self.status()["upstream"]["fetches_in_progress"] == 0
        });
    }

    fn status(&self) -> Value {
        self.json(Request::get("/status"))
    }

    /// Counts background work of the server: pages patched, and purged or expired pages removed.
    fn maintenance_counts(&self) -> MaintenanceCounts {
        let status = self.status();
        let removed = |part: &str| status[part]["swept"].as_u64().unwrap();
        MaintenanceCounts {
            patched: self.patched(),
            removed: removed("memory") + removed("disk"),
        }
    }

    fn why(&self, host: &str, request: &GeneratedRequest) -> Value {
        let url = format!("http://{host}{}", request.target);
        let body = json!({ "url": url, "method": request.method, "headers": request.all_fields() });
        self.json(Request::post("/why", "application/json", body.to_string()))
    }

    fn send(&self, host: &str, generated: &GeneratedRequest) -> Response {
        let mut request = Request::new(generated.method, &generated.target).host(host);
        for (name, value) in generated.all_fields() {
            request = request.field(name, value);
        }
        if generated.is_http2 {
            self.http2.send(&request)
        } else {
            request.send(self.galley.addr()).unwrap()
        }
    }

    fn purge(&self, body: &Value) {
        self.json(Request::post(
            "/purge",
            "application/json",
            body.to_string(),
        ));
    }

    /// The number of patched pages, for visitors and in the background.
    fn patched(&self) -> u64 {
        let text = self.admin(Request::get("/metrics")).text();
        let lines = text
            .lines()
            .filter(|line| line.starts_with("galley_pages_patched_total{"));
        let counts = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
        counts.sum()
    }

    /// The prediction for a request, made when no freshness or stale window is about to end.
    fn predict(&self, host: &str, request: &GeneratedRequest) -> Value {
        self.wait_for_fetches();
        let why = self.why(host, request);
        match pause_before_window_end(&why, request) {
            Some(pause) => {
                std::thread::sleep(pause);
                self.why(host, request)
            }
            None => why,
        }
    }

    fn check(&self, host: &str, request: &GeneratedRequest) -> Outcome {
        let mut why = self.predict(host, request);
        let mut maintenance = MaintenanceCounts::default();
        if CHANGED_BY_MAINTENANCE.contains(&&*predicted(&why)) {
            maintenance = self.maintenance_counts();
            why = self.why(host, request);
        }
        let sent_at = Instant::now();
        let response = self.send(host, request);
        let outcome = predicted(&why);
        if is_as_predicted(&why, &response) {
            return Outcome::Predicted(outcome);
        }
        // On a slow machine, a window may have ended since the prediction.
        let is_late = sent_at.elapsed() > MARGIN;
        let actual = observed(&response);
        let was_maintained = match (&*outcome, &*actual) {
            ("hit patched", "hit") => self.maintenance_counts().patched > maintenance.patched,
            ("miss purged" | "miss stale", "miss uri-miss") => {
                self.maintenance_counts().removed > maintenance.removed
            }
            _ => false,
        };
        // A purge that an earlier POST caused is published after five seconds.
        let published = |why: &Value| why["purges"]["published"].as_u64();
        let was_purged = matches!(request.method, "GET" | "HEAD")
            && published(&self.why(host, request)) != published(&why);
        if is_late || was_maintained || was_purged {
            return Outcome::Disturbed;
        }
        Outcome::Wrong(format!(
            "{request:?}: why predicts `{outcome}`, the response is `{actual}` ({} {}): {why:#}",
            response.status,
            response.cache_status()
        ))
    }
}

/// Background work of the server between requests.
#[derive(Default)]
struct MaintenanceCounts {
    patched: u64,
    removed: u64,
}

fn open(scratch: &Scratch, config: &str) -> (Galley, Client) {
    let binary = Path::new(env!("CARGO_BIN_EXE_galley"));
    let galley = Galley::start_binary(binary, &scratch.join("galley"), config).unwrap();
    let http2 = Client::open(galley.addr());
    (galley, http2)
}

impl GeneratedRequest {
    fn all_fields(&self) -> Vec<(&'static str, &'static str)> {
        let mut fields = self.fields.clone();
        if fields.iter().any(|(name, _)| *name == "Upgrade") {
            fields.push(("Connection", "upgrade"));
        }
        fields
    }
}

/// How long to wait if a window of the entry ends within [`MARGIN`], or if its age is still 0 and the request limits the age.
fn pause_before_window_end(why: &Value, request: &GeneratedRequest) -> Option<Duration> {
    let entry = &why["entry"];
    let number = |name: &str| entry[name].as_u64();
    let (age, fresh) = (number("age_s")?, number("lifetime_s")?);
    let ends = [
        fresh,
        fresh + number("stale_while_revalidate_s")?,
        fresh + number("stale_if_error_s")?,
    ];
    if ends.contains(&(age + 1)) {
        return Some(Duration::from_secs(1) + SHORT_PAUSE);
    }
    let limits_age = request
        .fields
        .iter()
        .any(|(name, _)| *name == "Cache-Control");
    (age == 0 && limits_age).then_some(SHORT_PAUSE)
}

/// Results of a run.
#[derive(Default)]
struct RunResults {
    predicted: BTreeMap<String, usize>,
    disturbed: usize,
    requests: usize,
}

impl RunResults {
    fn missing_decision(&self) -> Option<&'static str> {
        let is_missing = |decision: &&&str| !self.predicted.contains_key(**decision);
        REQUIRED_DECISIONS.iter().find(is_missing).copied()
    }
}

/// Runs the steps of one server, half of them after a restart.
fn run_steps(
    server: &mut GeneratedServer,
    random: &mut Random,
    results: &mut RunResults,
    until: Instant,
) {
    let mut trace = Vec::new();
    for number in 0..STEPS {
        if number == STEPS / 2 {
            server.restart();
            trace.push("restart".to_owned());
        }
        let (site, paths) = &server.sites[random.below(server.sites.len())];
        let step = steps::generate_step(random, &site.host, paths);
        trace.push(format!("{} {step:?}", site.host));
        let request = match step {
            Step::Purge(body, request) => {
                server.purge(&body);
                request
            }
            Step::Request(request) => request,
        };
        // `galley why` compares no passwords.
        let sends_password = request
            .fields
            .iter()
            .any(|(name, _)| *name == "Authorization");
        if site.has_password && sends_password {
            continue;
        }
        results.requests += 1;
        match server.check(&site.host, &request) {
            Outcome::Predicted(outcome) => *results.predicted.entry(outcome).or_insert(0) += 1,
            Outcome::Disturbed => results.disturbed += 1,
            Outcome::Wrong(difference) => {
                let is_of_site =
                    |line: &&String| line.starts_with(&site.host) || *line == "restart";
                let steps: Vec<&str> = trace
                    .iter()
                    .filter(is_of_site)
                    .map(String::as_str)
                    .collect();
                let last = &steps[steps.len().saturating_sub(STEPS_SHOWN)..];
                panic!("{}\n{}\n\n{difference}", site.text, last.join("\n"));
            }
        }
        if Instant::now() >= until {
            return;
        }
    }
}

#[test]
fn why_predicts_the_next_response() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let now = u64::try_from(now.as_millis()).unwrap();
    let seed = env::var("GALLEY_EXACT_SEED").map_or(now, |text| text.parse().unwrap());
    let seconds = env::var("GALLEY_EXACT_SECONDS").map_or(SECONDS, |text| text.parse().unwrap());
    println!("GALLEY_EXACT_SEED={seed}");
    let mut random = Random::new(seed);
    let mut results = RunResults::default();
    let began = Instant::now();
    let (planned_end, deadline) = (
        began + Duration::from_secs(seconds),
        began + Duration::from_secs(seconds.max(MAX_SECONDS)),
    );
    // A slow machine takes longer to reach every decision.
    while Instant::now() < planned_end
        || (results.missing_decision().is_some() && Instant::now() < deadline)
    {
        let until = if results.missing_decision().is_some() {
            deadline
        } else {
            planned_end
        };
        run_steps(
            &mut GeneratedServer::start(&mut random),
            &mut random,
            &mut results,
            until,
        );
    }
    let RunResults {
        requests,
        disturbed,
        ref predicted,
    } = results;
    println!("{requests} requests, {disturbed} disturbed: {predicted:#?}");
    assert!(
        disturbed * 50 <= requests,
        "{disturbed} of {requests} were disturbed"
    );
    // The property is not tested for decisions that the steps do not reach.
    assert_eq!(
        results.missing_decision(),
        None,
        "never predicted: {predicted:#?}"
    );
}

/// Predictions that background work of the server may change: it patches pages, and removes purged and expired pages.
const CHANGED_BY_MAINTENANCE: &[&str] = &["hit patched", "miss purged", "miss stale"];

/// Decisions that each run must reach.
const REQUIRED_DECISIONS: &[&str] = &[
    "hit",
    "hit patched",
    "stale revalidating",
    "miss uri-miss",
    "miss stale",
    "miss purged",
    "pass cookie",
    "pass method",
    "pass remembered",
    "file",
    "purge",
    "refused method",
    "refused unknown-method",
];

const FILES: &[(&str, &str)] = &[
    ("root/index.php", "<?php"),
    ("root/style.css", "body{}"),
    ("root/.env", "SECRET=1"),
    (
        "passwords",
        "myName:$apr1$r31.....$HqJZimcKQFAMYayBlzkrA/\n",
    ),
];

/// Steps per server. Each server has other sites.
const STEPS: usize = 400;

/// Duration of a run in seconds, unless `GALLEY_EXACT_SECONDS` is set.
const SECONDS: u64 = 30;

/// Maximum duration in seconds, if a decision has not been reached.
const MAX_SECONDS: u64 = 120;

/// Maximum time for a prediction and its request, so that no window ends between them.
const MARGIN: Duration = Duration::from_millis(900);

/// Longer than a tick of the server's clock.
const SHORT_PAUSE: Duration = Duration::from_millis(30);

/// Number of steps that a failure shows.
const STEPS_SHOWN: usize = 25;
