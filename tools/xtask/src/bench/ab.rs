//! Runs `ab` (Apache's benchmark tool) with published command lines and parses its output. The percentiles are read from the file that `-e` writes,
//! because it has three decimals; the text output has whole milliseconds.

use std::{
    fs,
    net::SocketAddr,
    path::Path,
    process::{Child, Stdio},
    thread,
    time::{Duration, Instant},
};

use super::pin;
use crate::{error::CommandError, interrupt::Interrupt, program};

/// The results of an `ab` run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AbOutcome {
    /// Number of complete responses.
    pub(crate) requests: u64,
    pub(crate) per_second: f64,
    pub(crate) bytes: u64,
    /// Bytes of response bodies.
    pub(crate) body_bytes: u64,
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
    pub(crate) slowest: Duration,
    /// Failed connections and responses, including statuses other than 2xx.
    pub(crate) failed: u64,
    /// The kinds of failures as printed by ab.
    pub(crate) failure_kinds: Option<String>,
}

/// The arguments of `ab`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AbCommand<'a> {
    /// The arguments of the published command line.
    pub(crate) arguments: &'a [String],
    /// The share of the published number of requests that is sent.
    pub(crate) share: f64,
    pub(crate) addr: SocketAddr,
    pub(crate) host: &'a str,
    pub(crate) target: &'a str,
}

impl AbOutcome {
    /// How many bodies of this length the received bytes are short of (or in excess).
    pub(crate) fn missing_bodies(&self, length: u64) -> u64 {
        let expected = self.requests.saturating_mul(length);
        let difference = expected.abs_diff(self.body_bytes);
        difference.div_ceil(length.max(1))
    }
}

/// Runs `ab` on a core and writes its files to `dir`.
///
/// # Errors
/// When it fails, does not exit in time, or its output cannot be parsed.
pub(crate) fn run(
    command: AbCommand<'_>,
    core: Option<usize>,
    dir: &Path,
    interrupt: &Interrupt,
) -> Result<AbOutcome, CommandError> {
    let csv = dir.join("percentiles.csv");
    let _ = fs::remove_file(&csv);
    // -l: without it, ab compares all lengths with the first response's, even if that was truncated. The caller checks lengths.
    let mut words = ["ab", "-q", "-l"].map(str::to_owned).to_vec();
    words.extend(scaled(command.arguments, command.share));
    words.extend(["-e".to_owned(), csv.display().to_string()]);
    words.extend(["-H".to_owned(), format!("Host: {}", command.host)]);
    words.push(format!("http://{}{}", command.addr, command.target));
    let log = dir.join("ab.log");
    let out = fs::File::create(&log)?;
    let mut process = program::with_parent_death_signal(&words);
    process
        .stdin(Stdio::null())
        .stderr(out.try_clone()?)
        .stdout(out);
    let child = pin::on_core(core, || process.spawn())??;
    let succeeded = wait(child, interrupt)?;
    let lossy =
        |path: &Path| String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned();
    let output = lossy(&log);
    if !succeeded {
        return Err(format!("ab failed:\n{output}").into());
    }
    parse(&output, &lossy(&csv))
        .map_err(|missing| format!("ab's output lacks `{missing}`:\n{output}").into())
}

/// The arguments with a share of the requests of `-n`, but at least one request per connection.
fn scaled(arguments: &[String], share: f64) -> Vec<String> {
    let number = |name: &str| -> Option<f64> {
        let at = arguments.iter().position(|word| word == name)?;
        arguments.get(at + 1)?.parse().ok()
    };
    let mut words = arguments.to_vec();
    if let Some(requests) = number("-n")
        && let Some(at) = words.iter().position(|word| word == "-n")
        && let Some(word) = words.get_mut(at + 1)
    {
        let minimum = number("-c").unwrap_or(1.0);
        *word = format!("{:.0}", (requests * share).max(minimum));
    }
    words
}

/// Waits for the exit; returns whether it succeeded. Kills it at the deadline and when a signal interrupts the run.
fn wait(mut child: Child, interrupt: &Interrupt) -> Result<bool, CommandError> {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.success());
        }
        let outcome = interrupt.check().and_then(|()| {
            if Instant::now() > deadline {
                Err("ab does not exit".into())
            } else {
                Ok(())
            }
        });
        if let Err(error) = outcome {
            let _ = child.kill();
            let _ = child.wait();
            return Err(error);
        }
        thread::sleep(PAUSE);
    }
}

/// Parses the outputs. The error is the name of the missing line.
fn parse(output: &str, csv: &str) -> Result<AbOutcome, &'static str> {
    let requests = count(output, "Complete requests:").ok_or("Complete requests")?;
    let failed = count(output, "Failed requests:").ok_or("Failed requests")?;
    let wrong = count(output, "Non-2xx responses:").unwrap_or(0);
    let kinds = output.lines().find(|line| line.contains("(Connect: "));
    Ok(AbOutcome {
        failure_kinds: kinds.map(|kinds| format!("{}, other statuses: {wrong}", kinds.trim())),
        requests,
        per_second: number(output, "Requests per second:").ok_or("Requests per second")?,
        p50: percentile(csv, 50).ok_or("50 in the file of percentiles")?,
        p99: percentile(csv, 99).ok_or("99 in the file of percentiles")?,
        slowest: percentile(csv, 100).ok_or("100 in the file of percentiles")?,
        bytes: count(output, "Total transferred:").ok_or("Total transferred")?,
        body_bytes: count(output, "HTML transferred:").ok_or("HTML transferred")?,
        // ab prints the line only if there are any.
        failed: failed.saturating_add(wrong),
    })
}

fn value<'a>(output: &'a str, name: &str) -> Option<&'a str> {
    let rest = output.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()
}

fn count(output: &str, name: &str) -> Option<u64> {
    value(output, name)?.parse().ok()
}

fn number(output: &str, name: &str) -> Option<f64> {
    value(output, name)?.parse().ok()
}

/// Finds a percentile in lines of `percent,milliseconds`.
fn percentile(csv: &str, percent: u32) -> Option<Duration> {
    let percent = percent.to_string();
    let (_, milliseconds) = csv
        .lines()
        .filter_map(|line| line.split_once(','))
        .find(|(name, _)| *name == percent)?;
    let milliseconds: f64 = milliseconds.trim().parse().ok()?;
    Duration::try_from_secs_f64(milliseconds / 1000.0).ok()
}

const TIMEOUT: Duration = Duration::from_secs(180);
const PAUSE: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn requests_are_scaled_but_at_least_one_per_connection() {
        let words = |text: &str| -> Vec<String> { text.split(' ').map(str::to_owned).collect() };
        for (command, expected) in [
            ("-c 100 -n 100000", "-c 100 -n 30000"),
            ("-k -c 4000 -n 5000 -s 9", "-k -c 4000 -n 4000 -s 9"),
            ("-c 5 -t 30", "-c 5 -t 30"),
        ] {
            assert_eq!(scaled(&words(command), 0.3), words(expected));
        }
    }

    proptest! {
        /// Any output is parsed or rejected, also if it has parts of the expected lines.
        #[test]
        fn parsing_never_panics(
            words in prop::collection::vec(
                prop_oneof![
                    "\\PC{0,12}",
                    "[0-9.eE+-]{1,25}",
                    prop::sample::select(vec![
                        "Complete requests:", "Failed requests:", "Non-2xx responses:", "Requests per second:",
                        "Total transferred:", "50,", "99,", "100,", "\n", " ",
                    ]).prop_map(str::to_owned),
                ],
                0..40,
            ),
        ) {
            let output = words.concat();
            let _ = parse(&output, &output);
        }
    }

    const OUTPUT: &str = "This is ApacheBench, Version 2.3 <$Revision$>

Benchmarking 127.0.0.1 (be patient).....done


Server Software:        nginx/1.22.1
Document Path:          /x.html
Document Length:        40000 bytes

Concurrency Level:      100
Time taken for tests:   1.000 seconds
Complete requests:      48207
Failed requests:        0
Keep-Alive requests:    48207
Total transferred:      1939897887 bytes
HTML transferred:       1928280000 bytes
Requests per second:    48206.52 [#/sec] (mean)
Time per request:       2.074 [ms] (mean)
Time per request:       0.021 [ms] (mean, across all concurrent requests)
Transfer rate:          1894412.59 [Kbytes/sec] received

Percentage of the requests served within a certain time (ms)
  50%      2
  99%      4
 100%      7 (longest request)
";
    const CSV: &str =
        "Percentage served,Time in ms\n0,1.079\n1,1.456\n50,2.049\n51,2.051\n99,3.956\n100,6.572\n";

    #[test]
    fn a_run_without_failures_is_parsed() {
        let expected = AbOutcome {
            requests: 48_207,
            per_second: 48_206.52,
            p50: Duration::from_micros(2049),
            p99: Duration::from_micros(3956),
            slowest: Duration::from_micros(6572),
            bytes: 1_939_897_887,
            body_bytes: 1_928_280_000,
            failed: 0,
            failure_kinds: None,
        };
        assert_eq!(
            (
                expected.missing_bodies(40_000),
                expected.missing_bodies(39_999)
            ),
            (0, 2)
        );
        assert_eq!(parse(OUTPUT, CSV), Ok(expected));
    }

    #[test]
    fn wrong_statuses_and_lengths_are_failures() {
        let output = OUTPUT.replace(
            "Failed requests:        0\n",
            "Failed requests:        3\n   (Connect: 0, Receive: 1, Length: 2, Exceptions: 0)\nNon-2xx responses:      1000\n",
        );
        let outcome = parse(&output, CSV).unwrap();
        assert_eq!(outcome.failed, 1003);
        assert!(
            outcome
                .failure_kinds
                .unwrap()
                .contains("Length: 2, Exceptions: 0), other statuses: 1000")
        );
    }

    #[test]
    fn a_missing_line_is_named() {
        for (output, csv, expected) in [
            ("", CSV, "Complete requests"),
            ("Complete requests: many\n", CSV, "Complete requests"),
            (OUTPUT, "", "50 in the file of percentiles"),
            (OUTPUT, "50,1.0\n99,-1\n", "99 in the file of percentiles"),
        ] {
            assert_eq!(parse(output, csv), Err(expected));
        }
    }
}
