//! `xtask lossy`: the time to a page with its resources over HTTP/2 and over HTTP/3, on a path that delays packets and loses some.
//!
//! Both protocols use the same server, the same files, the same path and the same client library, alternately, each time over a new
//! connection. Progress goes to stderr, the table to stdout. The command fails if HTTP/3 misses its goal.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use galley_testkit::Scratch;

use super::{
    page::{PAGE_BYTES, RESOURCE_BYTES, RESOURCES},
    path::{LossyPath, SERVER, Side},
};
use crate::{bench::Certificate, error::CommandError, interrupt::Interrupt, program::Program};

/// Command-line arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The server binary
    #[arg(long, default_value = "target/release/galley")]
    galley: PathBuf,
    /// The number of pages over each protocol
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// The delay of the path in each direction, in milliseconds
    #[arg(long, default_value_t = 50.0)]
    delay_ms: f64,
    /// The share of packets that are lost in each direction
    #[arg(long, default_value_t = 0.02)]
    loss: f64,
    /// The congestion control of TCP, which the kernel must permit in namespaces: reno, and the default of this machine
    #[arg(long, default_value = "reno")]
    tcp: String,
}

/// A server behind the path.
struct LossySite<'a> {
    path: &'a LossyPath,
    certificate: Certificate,
}

/// Measures, and prints the medians.
pub(crate) fn run(arguments: &Arguments) -> Result<(), CommandError> {
    let galley = crate::bench::existing_program(&arguments.galley)?;
    let interrupt = Interrupt::listen()?;
    let scratch = Scratch::new()?;
    let path = LossyPath::open(
        scratch.path(),
        arguments.delay_ms,
        arguments.loss,
        &arguments.tcp,
    )?;
    let certificate = Certificate::create(scratch.path(), &[HOST])?;
    let site = LossySite {
        path: &path,
        certificate,
    };
    let server = site.start(&galley, scratch.path())?;
    site.wait_until_served(&interrupt)
        .map_err(|error| format!("{error}\n{}", server.log()))?;
    let (mut http2, mut http3) = (Vec::new(), Vec::new());
    for round in 1..=arguments.rounds.max(1) {
        interrupt.check()?;
        http2.push(site.page_ms(false)?);
        http3.push(site.page_ms(true)?);
        eprintln!(
            "lossy: {round}: {:.0} ms over HTTP/2, {:.0} ms over HTTP/3",
            last(&http2),
            last(&http3)
        );
    }
    let (http2, http3) = (median(http2), median(http3));
    let ratio = http3 / http2;
    println!(
        "{} KB in {} files, {} ms and {} % loss in each direction, {} pages each, median: \
         {http2:.0} ms over HTTP/2 ({}), {http3:.0} ms over HTTP/3, {ratio:.2}",
        (PAGE_BYTES + RESOURCES * RESOURCE_BYTES) / 1000,
        1 + RESOURCES,
        arguments.delay_ms,
        arguments.loss * 100.0,
        arguments.rounds,
        arguments.tcp,
    );
    if ratio > MOST {
        return Err(format!("the goal is at most {MOST}").into());
    }
    Ok(())
}

impl LossySite<'_> {
    fn start(&self, galley: &Path, dir: &Path) -> Result<Program, CommandError> {
        let root = dir.join("root");
        fs::create_dir_all(&root)?;
        for number in 1..=1 + RESOURCES {
            let length = if number == 1 {
                PAGE_BYTES
            } else {
                RESOURCE_BYTES
            };
            fs::write(root.join(number.to_string()), vec![b'a'; length])?;
        }
        let Certificate { file, key, .. } = &self.certificate;
        let config = dir.join("galley.toml");
        let text = format!(
            "[server]\nlisten = [\"{SERVER}:80\"]\nlisten_tls = [\"{SERVER}:443\"]\nlisten_quic = [\"{SERVER}:443\"]\n\
             [admin]\nlisten = \"unix:{}\"\n\
             [[site]]\nhosts = [\"{HOST}\"]\nroot = \"{}\"\ntls = {{ cert = \"{}\", key = \"{}\" }}\n",
            dir.join("admin.sock").display(),
            root.display(),
            file.display(),
            key.display(),
        );
        fs::write(&config, text)?;
        let mut command = self.path.command(Side::Server, galley);
        command
            .args(["run", "--config"])
            .arg(&config)
            .env("RUNTIME_DIRECTORY", dir);
        Program::spawn(&command, dir.join("galley.log"))
    }

    /// Loads the page over both protocols until that succeeds.
    fn wait_until_served(&self, interrupt: &Interrupt) -> Result<(), CommandError> {
        let deadline = Instant::now() + START_TIMEOUT;
        for http3 in [false, true] {
            while let Err(error) = self.page_ms(http3) {
                interrupt.check()?;
                if Instant::now() > deadline {
                    return Err(error);
                }
                std::thread::sleep(PAUSE);
            }
        }
        Ok(())
    }

    /// The time to the page, in milliseconds.
    fn page_ms(&self, http3: bool) -> Result<f64, CommandError> {
        let mut command: Command = self.path.command(Side::Client, std::env::current_exe()?);
        command.args([
            "lossy-page",
            "--host",
            HOST,
            "--addr",
            &format!("{SERVER}:443"),
        ]);
        command.arg("--certificate").arg(&self.certificate.file);
        command.args(http3.then_some("--http3"));
        let output = command.output()?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into());
        }
        Ok(String::from_utf8(output.stdout)?.trim().parse()?)
    }
}

fn last(values: &[f64]) -> f64 {
    values.last().copied().unwrap_or_default()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

const HOST: &str = "www.example.com";

/// The goal: HTTP/3's share of the time over HTTP/2.
const MOST: f64 = 0.8;
const START_TIMEOUT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(100);
