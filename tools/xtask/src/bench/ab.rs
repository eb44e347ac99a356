//! ab, for the lines that articles about WordPress's speed use: runs it, and reads its output. The summary comes from
//! its text, the percentiles from the file of `-e`, which has three decimals where the text has whole milliseconds.

use std::{
    fs,
    net::SocketAddr,
    path::Path,
    process::{Child, Stdio},
    thread,
    time::{Duration, Instant},
};

use super::{interrupt::Interrupt, pin, program};
use crate::demo::CommandError;

/// What ab has seen.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Seen {
    /// Answers that came whole.
    pub(crate) requests: u64,
    pub(crate) per_second: f64,
    pub(crate) bytes: u64,
    /// Of bodies alone.
    pub(crate) body_bytes: u64,
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
    pub(crate) slowest: Duration,
    /// Connections and answers that went wrong, and statuses other than success.
    pub(crate) failed: u64,
    /// The kinds of failures, in ab's words.
    pub(crate) trouble: Option<String>,
}

/// How ab is to ask.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line<'a> {
    /// The arguments of the published line.
    pub(crate) arguments: &'a [String],
    /// Of its requests so many are sent.
    pub(crate) share: f64,
    pub(crate) addr: SocketAddr,
    pub(crate) host: &'a str,
    pub(crate) target: &'a str,
}

impl Seen {
    /// How many bodies of this length are missing from what came.
    pub(crate) fn missing(&self, length: u64) -> u64 {
        let wanted = self.requests.saturating_mul(length);
        let difference = wanted.abs_diff(self.body_bytes);
        difference.div_ceil(length.max(1))
    }
}

/// Runs ab on the core; `dir` takes its files.
///
/// # Errors
/// When it fails, does not end, or prints what is not understood.
pub(crate) fn run(
    line: Line<'_>,
    core: Option<usize>,
    dir: &Path,
    interrupt: &Interrupt,
) -> Result<Seen, CommandError> {
    let csv = dir.join("percentiles.csv");
    let _ = fs::remove_file(&csv);
    // -l: ab takes the first answer's length for the right one, also where that answer was cut; lengths are looked at here.
    let mut words = ["ab", "-q", "-l"].map(str::to_owned).to_vec();
    words.extend(scaled(line.arguments, line.share));
    words.extend(["-e".to_owned(), csv.display().to_string()]);
    words.extend(["-H".to_owned(), format!("Host: {}", line.host)]);
    words.push(format!("http://{}{}", line.addr, line.target));
    let said = dir.join("ab.log");
    let out = fs::File::create(&said)?;
    let mut command = program::ending_with_us(&words);
    command
        .stdin(Stdio::null())
        .stderr(out.try_clone()?)
        .stdout(out);
    let child = pin::on_core(core, || command.spawn())??;
    let is_well = wait(child, interrupt)?;
    let lossy =
        |path: &Path| String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned();
    let said = lossy(&said);
    if !is_well {
        return Err(format!("ab failed:\n{said}").into());
    }
    read(&said, &lossy(&csv))
        .map_err(|missing| format!("ab's output has no `{missing}`:\n{said}").into())
}

/// The arguments with so many of the requests of `-n`, but one for each connection at least.
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
        let least = number("-c").unwrap_or(1.0);
        *word = format!("{:.0}", (requests * share).max(least));
    }
    words
}

/// True if it ended well. It is killed at the deadline, and when a signal asks this process to end.
fn wait(mut child: Child, interrupt: &Interrupt) -> Result<bool, CommandError> {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.success());
        }
        let outcome = interrupt.check().and_then(|()| {
            if Instant::now() > deadline {
                Err("ab does not end".into())
            } else {
                Ok(())
            }
        });
        if let Err(complaint) = outcome {
            let _ = child.kill();
            let _ = child.wait();
            return Err(complaint);
        }
        thread::sleep(PAUSE);
    }
}

/// The error is the name of the line that is missing.
fn read(said: &str, csv: &str) -> Result<Seen, &'static str> {
    let requests = count(said, "Complete requests:").ok_or("Complete requests")?;
    let failed = count(said, "Failed requests:").ok_or("Failed requests")?;
    let wrong = count(said, "Non-2xx responses:").unwrap_or(0);
    let kinds = said.lines().find(|line| line.contains("(Connect: "));
    Ok(Seen {
        trouble: kinds.map(|kinds| format!("{}, other statuses: {wrong}", kinds.trim())),
        requests,
        per_second: number(said, "Requests per second:").ok_or("Requests per second")?,
        p50: percentile(csv, 50).ok_or("50 in the file of percentiles")?,
        p99: percentile(csv, 99).ok_or("99 in the file of percentiles")?,
        slowest: percentile(csv, 100).ok_or("100 in the file of percentiles")?,
        bytes: count(said, "Total transferred:").ok_or("Total transferred")?,
        body_bytes: count(said, "HTML transferred:").ok_or("HTML transferred")?,
        // The line is there only when there are any.
        failed: failed.saturating_add(wrong),
    })
}

fn value<'a>(said: &'a str, name: &str) -> Option<&'a str> {
    let rest = said.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()
}

fn count(said: &str, name: &str) -> Option<u64> {
    value(said, name)?.parse().ok()
}

fn number(said: &str, name: &str) -> Option<f64> {
    value(said, name)?.parse().ok()
}

/// Lines of `percent,milliseconds`.
fn percentile(csv: &str, percent: u32) -> Option<Duration> {
    let wanted = percent.to_string();
    let (_, milliseconds) = csv
        .lines()
        .filter_map(|line| line.split_once(','))
        .find(|(name, _)| *name == wanted)?;
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
    fn a_share_of_the_requests_but_one_for_each_connection() {
        let words = |text: &str| -> Vec<String> { text.split(' ').map(str::to_owned).collect() };
        for (line, wanted) in [
            ("-c 100 -n 100000", "-c 100 -n 30000"),
            ("-k -c 4000 -n 5000 -s 9", "-k -c 4000 -n 4000 -s 9"),
            ("-c 5 -t 30", "-c 5 -t 30"),
        ] {
            assert_eq!(scaled(&words(line), 0.3), words(wanted));
        }
    }

    proptest! {
        /// Whatever is printed, also around the words that are looked for, it is read or refused.
        #[test]
        fn nothing_printed_panics(
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
            let said = words.concat();
            let _ = read(&said, &said);
        }
    }

    const FINE: &str = "This is ApacheBench, Version 2.3 <$Revision$>

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
    fn a_run_without_failures() {
        let wanted = Seen {
            requests: 48_207,
            per_second: 48_206.52,
            p50: Duration::from_micros(2049),
            p99: Duration::from_micros(3956),
            slowest: Duration::from_micros(6572),
            bytes: 1_939_897_887,
            body_bytes: 1_928_280_000,
            failed: 0,
            trouble: None,
        };
        assert_eq!((wanted.missing(40_000), wanted.missing(39_999)), (0, 2));
        assert_eq!(read(FINE, CSV), Ok(wanted));
    }

    #[test]
    fn wrong_statuses_and_lengths_are_failures() {
        let said = FINE.replace(
            "Failed requests:        0\n",
            "Failed requests:        3\n   (Connect: 0, Receive: 1, Length: 2, Exceptions: 0)\nNon-2xx responses:      1000\n",
        );
        let seen = read(&said, CSV).unwrap();
        assert_eq!(seen.failed, 1003);
        assert!(
            seen.trouble
                .unwrap()
                .contains("Length: 2, Exceptions: 0), other statuses: 1000")
        );
    }

    #[test]
    fn what_is_missing_is_named() {
        for (said, csv, wanted) in [
            ("", CSV, "Complete requests"),
            ("Complete requests: many\n", CSV, "Complete requests"),
            (FINE, "", "50 in the file of percentiles"),
            (FINE, "50,1.0\n99,-1\n", "99 in the file of percentiles"),
        ] {
            assert_eq!(read(said, csv), Err(wanted));
        }
    }
}
