//! ab's output: the summary from its text, the percentiles from the file of `-e`, which has three decimals where the
//! text has whole milliseconds.

use std::time::Duration;

use super::Seen;

/// The error is the name of the line that is missing.
pub(super) fn read(said: &str, csv: &str) -> Result<Seen, &'static str> {
    let requests = count(said, "Complete requests:").ok_or("Complete requests")?;
    let failed = count(said, "Failed requests:").ok_or("Failed requests")?;
    Ok(Seen {
        requests,
        per_second: number(said, "Requests per second:").ok_or("Requests per second")?,
        p50: percentile(csv, 50).ok_or("50 in the file of percentiles")?,
        p99: percentile(csv, 99).ok_or("99 in the file of percentiles")?,
        // The line is there only when there are any.
        failed: failed.saturating_add(count(said, "Non-2xx responses:").unwrap_or(0)),
        kept_alive: count(said, "Keep-Alive requests:"),
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

#[cfg(test)]
mod tests {
    use super::*;

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
            failed: 0,
            kept_alive: Some(48_207),
        };
        assert_eq!(read(FINE, CSV), Ok(wanted));
    }

    #[test]
    fn wrong_statuses_and_lengths_are_failures() {
        let said = FINE.replace(
            "Failed requests:        0\n",
            "Failed requests:        3\n   (Connect: 0, Receive: 1, Length: 2, Exceptions: 0)\nNon-2xx responses:      1000\n",
        );
        assert_eq!(read(&said, CSV).unwrap().failed, 1003);
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
