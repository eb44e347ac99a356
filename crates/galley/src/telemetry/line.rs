//! The form of an access line.
//!
//! *combined*: the line of NCSA httpd and Apache, followed by Galley's own words,
//! `outcome=<word[:detail]> upstream=<seconds|-> time=<seconds> id=<request id>` and, where the client did not take its
//! answer, `vanished=1`. *json*: one object a line with the same and the host. Times are local, formatted once a second.

use std::io::Write as _;
use std::net::IpAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use galley_config::LogFormat;
use galley_rules::outcome::Outcome;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::escape;

/// What is known of one request at its end. Texts are as the client sent them; nothing needs to be valid.
#[derive(Clone, Debug)]
pub struct Record<'a> {
    /// When it began or ended, by the wall clock.
    pub time: SystemTime,
    /// The client's address.
    pub client: IpAddr,
    /// The method; `-` if the head could not be read.
    pub method: &'a str,
    /// The target, raw.
    pub target: &'a [u8],
    /// `HTTP/1.1`.
    pub version: &'static str,
    /// The host that was asked for.
    pub host: &'a [u8],
    /// The status that was sent.
    pub status: u16,
    /// Body bytes that were sent.
    pub body_bytes: u64,
    /// `Referer`, raw.
    pub referer: Option<&'a [u8]>,
    /// `User-Agent`, raw.
    pub user_agent: Option<&'a [u8]>,
    /// The way it went.
    pub outcome: Outcome,
    /// How long the upstream took, if it was asked.
    pub upstream_time: Option<Duration>,
    /// From the first byte of the head to the last of the answer.
    pub total_time: Duration,
    /// The id that the answer and the messages about it carry.
    pub request_id: &'a str,
    /// Whether the client was gone before the end.
    pub vanished: bool,
}

/// Writes lines of one form; keeps the formatted second.
#[derive(Debug)]
pub(super) struct Formatter {
    format: LogFormat,
    zone: TimeZone,
    second: Option<i64>,
    /// The second as the form has it: with all that stands between address and method for combined, up to the fraction for
    /// json.
    stamp: String,
    /// What comes behind the fraction.
    offset: String,
}

impl Formatter {
    pub(super) fn new(format: LogFormat, zone: TimeZone) -> Self {
        Self {
            format,
            zone,
            second: None,
            stamp: String::new(),
            offset: String::new(),
        }
    }

    /// Appends the line of `record`, with its line end. Allocates only when a new second begins.
    pub(super) fn line(&mut self, record: &Record<'_>, out: &mut Vec<u8>) {
        let since = record.time.duration_since(UNIX_EPOCH).unwrap_or_default();
        self.turn_to(i64::try_from(since.as_secs()).unwrap_or(i64::MAX));
        match self.format {
            LogFormat::Combined => self.combined(record, out),
            LogFormat::Json => self.json(record, since.subsec_millis(), out),
        }
        out.push(b'\n');
    }

    fn turn_to(&mut self, second: i64) {
        if self.second == Some(second) {
            return;
        }
        self.second = Some(second);
        let time = Timestamp::from_second(second)
            .unwrap_or(Timestamp::MAX)
            .to_zoned(self.zone.clone());
        match self.format {
            LogFormat::Combined => {
                self.stamp = time.strftime(" - - [%d/%b/%Y:%H:%M:%S %z] \"").to_string();
            }
            LogFormat::Json => {
                self.stamp = time.strftime("%Y-%m-%dT%H:%M:%S").to_string();
                self.offset = time.strftime("%:z").to_string();
            }
        }
    }

    fn combined(&self, record: &Record<'_>, out: &mut Vec<u8>) {
        address(out, record.client);
        out.extend_from_slice(self.stamp.as_bytes());
        escape::quoted(out, record.method.as_bytes());
        out.push(b' ');
        escape::quoted(out, record.target);
        out.push(b' ');
        out.extend_from_slice(record.version.as_bytes());
        out.extend_from_slice(b"\" ");
        number(out, record.status);
        out.push(b' ');
        number(out, record.body_bytes);
        out.extend_from_slice(b" \"");
        escape::quoted(out, record.referer.unwrap_or(b"-"));
        out.extend_from_slice(b"\" \"");
        escape::quoted(out, record.user_agent.unwrap_or(b"-"));
        match (record.outcome, record.upstream_time) {
            // Most of all lines, in one piece.
            (Outcome::Hit, None) => out.extend_from_slice(b"\" outcome=hit upstream=- time="),
            (outcome, upstream_time) => way(out, outcome, upstream_time),
        }
        seconds(out, record.total_time);
        out.extend_from_slice(b" id=");
        escape::bare(out, record.request_id.as_bytes());
        if record.vanished {
            out.extend_from_slice(b" vanished=1");
        }
    }

    fn json(&self, record: &Record<'_>, millis: u32, out: &mut Vec<u8>) {
        put(
            out,
            format_args!("{{\"time\":\"{}.{millis:03}{}\"", self.stamp, self.offset),
        );
        put(out, format_args!(",\"client\":\"{}\"", record.client));
        text(out, "method", Some(record.method.as_bytes()));
        text(out, "target", Some(record.target));
        text(out, "version", Some(record.version.as_bytes()));
        let host = std::str::from_utf8(record.host).unwrap_or("-");
        text(out, "host", Some(host.as_bytes()));
        put(
            out,
            format_args!(
                ",\"status\":{},\"body_bytes\":{}",
                record.status, record.body_bytes
            ),
        );
        text(out, "referer", record.referer);
        text(out, "user_agent", record.user_agent);
        text(out, "outcome", Some(record.outcome.word().as_bytes()));
        text(out, "detail", record.outcome.detail().map(str::as_bytes));
        out.extend_from_slice(b",\"upstream_time\":");
        match record.upstream_time {
            Some(time) => seconds(out, time),
            None => out.extend_from_slice(b"null"),
        }
        out.extend_from_slice(b",\"total_time\":");
        seconds(out, record.total_time);
        text(out, "id", Some(record.request_id.as_bytes()));
        put(out, format_args!(",\"vanished\":{}}}", record.vanished));
    }
}

/// What became of the request and how long the upstream took.
fn way(out: &mut Vec<u8>, outcome: Outcome, upstream_time: Option<Duration>) {
    out.extend_from_slice(b"\" outcome=");
    out.extend_from_slice(outcome.word().as_bytes());
    if let Some(detail) = outcome.detail() {
        out.push(b':');
        out.extend_from_slice(detail.as_bytes());
    }
    out.extend_from_slice(b" upstream=");
    match upstream_time {
        Some(time) => seconds(out, time),
        None => out.push(b'-'),
    }
    out.extend_from_slice(b" time=");
}

fn text(out: &mut Vec<u8>, name: &str, value: Option<&[u8]>) {
    put(out, format_args!(",\"{name}\":"));
    match value {
        Some(value) => escape::json(out, value),
        None => out.extend_from_slice(b"null"),
    }
}

/// Microseconds, because a hit takes some tens of them.
fn seconds(out: &mut Vec<u8>, time: Duration) {
    number(out, time.as_secs());
    let mut rest = time.subsec_micros();
    let mut fraction = *b".000000";
    for digit in fraction.iter_mut().skip(1).rev() {
        *digit += u8::try_from(rest % 10).unwrap_or_default();
        rest /= 10;
    }
    out.extend_from_slice(&fraction);
}

fn number(out: &mut Vec<u8>, number: impl itoa::Integer) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// The formatting machinery of the standard library costs twenty times as much as these four numbers.
fn address(out: &mut Vec<u8>, address: IpAddr) {
    let IpAddr::V4(address) = address else {
        return put(out, format_args!("{address}"));
    };
    let [first, rest @ ..] = address.octets();
    octet(out, first);
    for value in rest {
        out.push(b'.');
        octet(out, value);
    }
}

fn octet(out: &mut Vec<u8>, value: u8) {
    let digits = [value / 100, value / 10 % 10, value % 10].map(|digit| b'0' + digit);
    let zeros = usize::from(value < 100) + usize::from(value < 10);
    out.extend_from_slice(digits.get(zeros..).unwrap_or_default());
}

/// Writing to memory cannot fail.
fn put(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    let _ = out.write_fmt(text);
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use galley_rules::outcome::{PassWhy, RefusedWhy};
    use proptest::prelude::*;

    /// A request of an ordinary browser.
    pub(crate) fn record() -> Record<'static> {
        Record {
            time: UNIX_EPOCH + Duration::from_millis(1_700_000_000_123),
            client: [192, 0, 2, 7].into(),
            method: "GET",
            target: b"/a/?b=c",
            version: "HTTP/1.1",
            host: b"example.com",
            status: 200,
            body_bytes: 47_000,
            referer: None,
            user_agent: Some(b"Mozilla/5.0"),
            outcome: Outcome::Hit,
            upstream_time: None,
            total_time: Duration::from_micros(42),
            request_id: "ab0-1",
            vanished: false,
        }
    }

    fn shown(format: LogFormat, record: &Record<'_>) -> String {
        let mut out = Vec::new();
        Formatter::new(format, TimeZone::fixed(jiff::tz::offset(2))).line(record, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn combined_lines() {
        assert_eq!(
            shown(LogFormat::Combined, &record()),
            "192.0.2.7 - - [15/Nov/2023:00:13:20 +0200] \"GET /a/?b=c HTTP/1.1\" 200 47000 \"-\" \"Mozilla/5.0\" \
             outcome=hit upstream=- time=0.000042 id=ab0-1\n"
        );
        let passed = Record {
            client: "2001:db8::1".parse().unwrap(),
            target: b"/\"\n\xff",
            referer: Some(b"http://example.com/\" 200"),
            outcome: Outcome::Pass(PassWhy::Cookie),
            upstream_time: Some(Duration::from_millis(1_250)),
            request_id: "a b",
            vanished: true,
            ..record()
        };
        assert_eq!(
            shown(LogFormat::Combined, &passed),
            "2001:db8::1 - - [15/Nov/2023:00:13:20 +0200] \"GET /\\x22\\x0a\\xff HTTP/1.1\" 200 47000 \
             \"http://example.com/\\x22 200\" \"Mozilla/5.0\" \
             outcome=pass:cookie upstream=1.250000 time=0.000042 id=a\\x20b vanished=1\n"
        );
    }

    #[test]
    fn json_lines() {
        let refused = Record {
            outcome: Outcome::Refused(RefusedWhy::Timeout),
            user_agent: None,
            ..record()
        };
        assert_eq!(
            shown(LogFormat::Json, &refused),
            "{\"time\":\"2023-11-15T00:13:20.123+02:00\",\"client\":\"192.0.2.7\",\"method\":\"GET\",\
             \"target\":\"/a/?b=c\",\"version\":\"HTTP/1.1\",\"host\":\"example.com\",\"status\":200,\
             \"body_bytes\":47000,\"referer\":null,\"user_agent\":null,\"outcome\":\"refused\",\"detail\":\"timeout\",\
             \"upstream_time\":null,\"total_time\":0.000042,\"id\":\"ab0-1\",\"vanished\":false}\n"
        );
    }

    #[test]
    fn the_second_is_kept_and_turned() {
        let mut formatter = Formatter::new(LogFormat::Combined, TimeZone::UTC);
        let mut out = Vec::new();
        for seconds in [0, 0, 1, 0] {
            formatter.line(
                &Record {
                    time: UNIX_EPOCH + Duration::from_secs(seconds),
                    ..record()
                },
                &mut out,
            );
        }
        let text = String::from_utf8(out).unwrap();
        let stamps: Vec<&str> = text.lines().filter_map(|line| line.get(27..35)).collect();
        assert_eq!(stamps, ["00:00:00", "00:00:00", "00:00:01", "00:00:00"]);
    }

    proptest! {
        #[test]
        fn any_request_is_one_line(
            method in any::<String>(),
            host in any::<String>(),
            bytes in prop::collection::vec(any::<u8>(), 0..3000),
            seconds in any::<u64>(),
        ) {
            let record = Record {
                time: UNIX_EPOCH.checked_add(Duration::from_secs(seconds)).unwrap_or(UNIX_EPOCH),
                method: &method,
                host: host.as_bytes(),
                target: &bytes,
                referer: Some(&bytes),
                request_id: &host,
                ..record()
            };
            let combined = shown(LogFormat::Combined, &record);
            prop_assert_eq!(combined.lines().count(), 1);
            prop_assert_eq!(combined.matches('"').count(), 6);
            let json = shown(LogFormat::Json, &record);
            prop_assert_eq!(json.matches('\n').count(), 1);
            let read: serde_json::Value = serde_json::from_str(&json).unwrap();
            prop_assert_eq!(&read["status"], 200);
        }
    }
}
