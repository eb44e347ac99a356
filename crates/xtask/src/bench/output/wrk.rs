//! wrk's output, with `--latency`.

use std::time::Duration;

use super::Seen;

/// The error is the name of the line that is missing.
pub(super) fn read(said: &str) -> Result<Seen, &'static str> {
    let lines = || said.lines().map(str::trim);
    let requests = lines()
        .find_map(|line| line.split_once(" requests in "))
        .and_then(|(count, _)| count.parse().ok())
        .ok_or("requests in")?;
    let per_second = lines()
        .find_map(|line| line.strip_prefix("Requests/sec:"))
        .and_then(|number| number.trim().parse().ok())
        .ok_or("Requests/sec")?;
    let percentile = |name: &str| {
        let text = lines().find_map(|line| line.strip_prefix(name))?;
        duration(text.trim())
    };
    // Both lines are there only when there is something to say.
    let socket_errors: u64 = lines()
        .find_map(|line| line.strip_prefix("Socket errors:"))
        .map_or(0, |text| {
            text.split([' ', ','])
                .filter_map(|word| word.parse::<u64>().ok())
                .fold(0, u64::saturating_add)
        });
    let wrong_status = lines()
        .find_map(|line| line.strip_prefix("Non-2xx or 3xx responses:"))
        .map_or(Some(0), |text| text.trim().parse().ok())
        .ok_or("Non-2xx or 3xx responses")?;
    Ok(Seen {
        requests,
        per_second,
        p50: percentile("50%").ok_or("50%")?,
        p99: percentile("99%").ok_or("99%")?,
        failed: socket_errors.saturating_add(wrong_status),
        kept_alive: None,
    })
}

/// `63.00us`, `2.49ms`, `1.05s`, `1.20m`.
fn duration(text: &str) -> Option<Duration> {
    let at = text.find(|c: char| c.is_ascii_alphabetic())?;
    let (number, unit) = text.split_at_checked(at)?;
    let factor = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(number.parse::<f64>().ok()? * factor).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FINE: &str = "Running 1s test @ http://127.0.0.1:20999/x.html
  1 threads and 100 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     2.58ms    1.29ms  11.04ms   76.54%
    Req/Sec    32.93k     6.02k   49.06k    90.00%
  Latency Distribution
     50%    2.49ms
     75%    3.04ms
     90%    4.09ms
     99%    6.96ms
  32905 requests in 1.01s, 1.23GB read
Requests/sec:  32628.25
Transfer/sec:      1.22GB
";

    #[test]
    fn a_run_without_failures() {
        let wanted = Seen {
            requests: 32_905,
            per_second: 32_628.25,
            p50: Duration::from_micros(2490),
            p99: Duration::from_micros(6960),
            failed: 0,
            kept_alive: None,
        };
        assert_eq!(read(FINE), Ok(wanted));
    }

    #[test]
    fn all_kinds_of_failures_are_added() {
        let said = FINE.replace(
            "Requests/sec:",
            "  Socket errors: connect 1, read 20, write 0, timeout 300\n  Non-2xx or 3xx responses: 4000\nRequests/sec:",
        );
        assert_eq!(read(&said).unwrap().failed, 4321);
    }

    #[test]
    fn durations_have_their_unit() {
        for (text, wanted) in [
            ("63.00us", Some(63)),
            ("2.49ms", Some(2490)),
            ("1.05s", Some(1_050_000)),
            ("1.50m", Some(90_000_000)),
            ("1.50", None),
            ("ms", None),
            ("", None),
            ("1.5µs", None),
        ] {
            assert_eq!(duration(text), wanted.map(Duration::from_micros), "{text}");
        }
    }

    #[test]
    fn what_is_missing_is_named() {
        assert_eq!(read("unable to connect"), Err("requests in"));
        assert_eq!(read(&FINE.replace("99%", "98%")), Err("99%"));
    }
}
