//! The options of `galley load`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args};
use galley_config::parse_duration;

use crate::admin_options::AdminOptions;

/// One of `--rate`, `--ramp`, `--requests` and `--replay` is needed.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("pace").required(true).args(["rate", "ramp", "requests", "replay"]))]
pub struct LoadOptions {
    /// A URL of the site; repeatable for several pages of one host
    #[arg(value_name = "URL", required = true)]
    pub(super) urls: Vec<String>,
    /// Connect to this address, whatever the host of the URL resolves to
    #[arg(long, value_name = "ADDRESS")]
    pub(super) connect_to: Option<SocketAddr>,
    /// Constant request rate per second (open loop)
    #[arg(long, value_name = "NUMBER", value_parser = rate)]
    pub(super) rate: Option<f64>,
    /// Raise the rate evenly from one number of requests per second to the other
    #[arg(long, value_name = "FROM:TO", value_parser = ramp)]
    pub(super) ramp: Option<[f64; 2]>,
    /// Number of requests in a closed loop, as ab sends them: each connection waits for its response
    #[arg(
        short = 'n',
        long,
        value_name = "NUMBER",
        value_parser = clap::value_parser!(u64).range(1..),
        conflicts_with_all = ["duration", "connections", "uncached", "tracking", "logged_in"]
    )]
    pub(super) requests: Option<u64>,
    /// Replay the requests of `--access-log` in their order and with their intervals
    #[arg(long, requires = "access_log", conflicts_with = "duration")]
    pub(super) replay: bool,
    /// How long a rate or a ramp lasts, at most 1h
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    pub(super) duration: Duration,
    /// How many connections send requests with `--requests`
    #[arg(short = 'c', long, value_name = "NUMBER", default_value_t = 1)]
    pub(super) concurrency: usize,
    /// Keep connections open with `--requests`
    #[arg(short = 'k', long)]
    pub(super) keep_alive: bool,
    /// How many connections send requests at a rate
    #[arg(long, value_name = "NUMBER", default_value_t = 200)]
    pub(super) connections: usize,
    /// Take the pages from this sitemap of the site, such as `/wp-sitemap.xml`
    #[arg(long, value_name = "PATH")]
    pub(super) sitemap: Option<String>,
    /// Take the pages from this access log in the combined format; GET and HEAD only
    #[arg(long, value_name = "FILE", conflicts_with = "sitemap")]
    pub(super) access_log: Option<PathBuf>,
    /// The share of requests with a query that no cache has seen
    #[arg(long, value_name = "PERCENT", default_value = "0%", value_parser = share)]
    pub(super) uncached: f64,
    /// The share of requests with tracking parameters of campaigns
    #[arg(long, value_name = "PERCENT", default_value = "0%", value_parser = share)]
    pub(super) tracking: f64,
    /// The share of requests of a logged-in visitor
    #[arg(long, value_name = "PERCENT", default_value = "0%", value_parser = share)]
    pub(super) logged_in: f64,
    /// File with the Cookie field of a logged-in visitor
    #[arg(long, value_name = "FILE", conflicts_with = "user")]
    pub(super) cookie_file: Option<PathBuf>,
    /// Log in to WordPress as this user
    #[arg(long, value_name = "NAME", requires = "password_file")]
    pub(super) user: Option<String>,
    /// File with the password of that user
    #[arg(long, value_name = "FILE", requires = "user")]
    pub(super) password_file: Option<PathBuf>,
    /// Speak HTTP/2, over TLS only
    #[arg(long, conflicts_with = "requests")]
    pub(super) http2: bool,
    /// Trust every certificate
    #[arg(long)]
    pub(super) insecure: bool,
    /// A ramp holds while 99 % of the requests take no longer
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = duration)]
    pub(super) limit_p99: Duration,
    /// Test this host although it is not in the configuration; a file on it must prove that it is yours
    #[arg(long, value_name = "HOST")]
    pub(super) i_own: Option<String>,
    /// Write the seconds of the run to this file
    #[arg(long, value_name = "FILE")]
    pub(super) csv: Option<PathBuf>,
    /// Write a report with charts to this file
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,
    /// Compare with an earlier run, which `--json` printed to this file
    #[arg(long, value_name = "FILE")]
    pub(super) compare: Option<PathBuf>,
    #[command(flatten)]
    pub(super) admin: AdminOptions,
    /// Print the report as JSON on stdout
    #[arg(long)]
    pub(super) json: bool,
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = text.trim().parse().ok();
    rate.filter(|rate| *rate > 0.0 && *rate <= HIGHEST_RATE)
        .ok_or_else(|| format!("a rate is above 0 and at most {HIGHEST_RATE}"))
}

fn ramp(text: &str) -> Result<[f64; 2], String> {
    let (from, to) = text.split_once(':').ok_or("write it as `1:500`")?;
    Ok([rate(from)?, rate(to)?])
}

fn share(text: &str) -> Result<f64, String> {
    let number: Option<f64> = text.strip_suffix('%').unwrap_or(text).trim().parse().ok();
    match number {
        Some(percent) if (0.0..=100.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err("write it as `5%`, up to 100%".to_owned()),
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    match parse_duration(text) {
        Some(time) if !time.is_zero() && time <= MAX_DURATION => Ok(time),
        _ => Err("write it as `500ms`, `30s` or `5m`, up to `1h`".to_owned()),
    }
}

/// The highest rate in requests per second; one thread sends no more.
const HIGHEST_RATE: f64 = 1_000_000.0;
/// The longest test: the report has one row per second.
const MAX_DURATION: Duration = Duration::from_secs(3600);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_parsed_or_rejected() {
        assert_eq!(ramp("1:500"), Ok([1.0, 500.0]));
        for text in ["500", "0:5", "a:b", "-1:5", "1:inf", "1:NaN", ":"] {
            assert!(ramp(text).is_err(), "{text}");
        }
        assert_eq!(share("5%"), Ok(0.05));
        assert_eq!(share("100"), Ok(1.0));
        for text in ["101%", "-1%", "NaN", "", "5%%"] {
            assert!(share(text).is_err(), "{text}");
        }
        assert_eq!(duration("90s"), Ok(Duration::from_secs(90)));
        for text in ["0s", "2h", "30", ""] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
