//! The form of an access line.
//!
//! *combined*: the line of NCSA httpd and Apache, followed by Galley's own words,
//! `outcome=<word[:detail]> upstream=<seconds|-> time=<seconds> id=<request id>` and, where the client did not take its
//! answer, `vanished=1`. *json*: one object a line with the same and the host. Times are local, formatted once a second.

use std::io::Write as _;
use std::net::IpAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use galley_config::LogFormat;
use galley_policy::outcome::Outcome;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::escape;

/// What is known of one request at its end.
#[derive(Clone, Debug)]
pub struct AccessRecord<'a> {
    /// When it began or ended, by the wall clock.
    pub time: SystemTime,
    /// The client's address.
    pub client: IpAddr,
    /// What the client sent.
    pub words: Words<'a>,
    /// The status that was sent.
    pub status: u16,
    /// Body bytes that were sent.
    pub body_bytes: u64,
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

/// What a line tells of a request's head. Texts are as the client sent them; nothing needs to be valid.
#[derive(Clone, Copy, Debug)]
pub struct Words<'a> {
    /// The method; `-` if the head could not be read.
    pub method: &'a str,
    /// The target, raw.
    pub target: &'a [u8],
    /// `HTTP/1.1`.
    pub version: &'static str,
    /// The host that was asked for.
    pub host: &'a [u8],
    /// `Referer`, raw.
    pub referer: Option<&'a [u8]>,
    /// `User-Agent`, raw.
    pub user_agent: Option<&'a [u8]>,
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
    pub(super) fn line(&mut self, record: &AccessRecord<'_>, out: &mut Vec<u8>) {
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

    /// What stands between the address and the status.
    fn asked(&self, words: &Words<'_>, out: &mut Vec<u8>) {
        match self.format {
            LogFormat::Combined => {
                escape::quoted(out, words.method.as_bytes());
                out.push(b' ');
                escape::quoted(out, words.target);
                out.push(b' ');
                out.extend_from_slice(words.version.as_bytes());
                out.extend_from_slice(b"\" ");
            }
            LogFormat::Json => {
                text(out, "method", Some(words.method.as_bytes()));
                text(out, "target", Some(words.target));
                text(out, "version", Some(words.version.as_bytes()));
                let host = std::str::from_utf8(words.host).unwrap_or("-");
                text(out, "host", Some(host.as_bytes()));
            }
        }
    }

    /// What stands between the length and the outcome.
    fn from(&self, words: &Words<'_>, out: &mut Vec<u8>) {
        match self.format {
            LogFormat::Combined => {
                out.extend_from_slice(b" \"");
                escape::quoted(out, words.referer.unwrap_or(b"-"));
                out.extend_from_slice(b"\" \"");
                escape::quoted(out, words.user_agent.unwrap_or(b"-"));
            }
            LogFormat::Json => {
                text(out, "referer", words.referer);
                text(out, "user_agent", words.user_agent);
            }
        }
    }

    fn combined(&self, record: &AccessRecord<'_>, out: &mut Vec<u8>) {
        address(out, record.client);
        out.extend_from_slice(self.stamp.as_bytes());
        self.asked(&record.words, out);
        number(out, record.status);
        out.push(b' ');
        number(out, record.body_bytes);
        self.from(&record.words, out);
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

    fn json(&self, record: &AccessRecord<'_>, millis: u32, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"time\":\"");
        out.extend_from_slice(self.stamp.as_bytes());
        out.push(b'.');
        digits::<3>(out, millis);
        out.extend_from_slice(self.offset.as_bytes());
        out.extend_from_slice(b"\",\"client\":\"");
        address(out, record.client);
        out.push(b'"');
        self.asked(&record.words, out);
        out.extend_from_slice(b",\"status\":");
        number(out, record.status);
        out.extend_from_slice(b",\"body_bytes\":");
        number(out, record.body_bytes);
        self.from(&record.words, out);
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
        out.extend_from_slice(b",\"vanished\":");
        let vanished = if record.vanished { "true}" } else { "false}" };
        out.extend_from_slice(vanished.as_bytes());
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
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
    match value {
        Some(value) => escape::json(out, value),
        None => out.extend_from_slice(b"null"),
    }
}

/// Microseconds, because a hit takes some tens of them.
fn seconds(out: &mut Vec<u8>, time: Duration) {
    match time.as_secs() {
        0 => out.extend_from_slice(b"0."),
        seconds => {
            number(out, seconds);
            out.push(b'.');
        }
    }
    digits::<6>(out, time.subsec_micros());
}

/// The last `COUNT` digits of a number, with zeros in front.
fn digits<const COUNT: usize>(out: &mut Vec<u8>, mut number: u32) {
    let mut text = [b'0'; COUNT];
    for digit in text.iter_mut().rev() {
        *digit += u8::try_from(number % 10).unwrap_or_default();
        number /= 10;
    }
    out.extend_from_slice(&text);
}

fn number(out: &mut Vec<u8>, number: impl itoa::Integer) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// The formatting machinery of the standard library costs twenty times as much as these four numbers.
fn address(out: &mut Vec<u8>, address: IpAddr) {
    let IpAddr::V4(address) = address else {
        // Writing to memory cannot fail.
        let _ = write!(out, "{address}");
        return;
    };
    // Each octet with its dot over the room that the one before did not need.
    let (mut text, mut end) = ([0; 16], 0);
    for octet in address.octets() {
        let (digits, count) = OCTETS.get(usize::from(octet)).copied().unwrap_or_default();
        if let Some(room) = text.get_mut(end..end + digits.len()) {
            room.copy_from_slice(&digits);
        }
        end += count;
    }
    out.extend_from_slice(text.get(..end - 1).unwrap_or_default());
}

/// Each octet in decimal with a dot behind it, and their length.
const OCTETS: [([u8; 4], usize); 256] = {
    let mut all = [([0; 4], 0); 256];
    let mut value = 0_u8;
    loop {
        let digits = [value / 100, value / 10 % 10, value % 10];
        let [hundreds, tens, ones] = [b'0' + digits[0], b'0' + digits[1], b'0' + digits[2]];
        all[value as usize] = match value {
            0..10 => ([ones, b'.', 0, 0], 2),
            10..100 => ([tens, ones, b'.', 0], 3),
            100.. => ([hundreds, tens, ones, b'.'], 4),
        };
        if value == u8::MAX {
            break all;
        }
        value += 1;
    }
};

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use galley_policy::outcome::{PassWhy, RefusedWhy};
    use proptest::prelude::*;

    fn words() -> Words<'static> {
        Words {
            method: "GET",
            target: b"/a/?b=c",
            version: "HTTP/1.1",
            host: b"example.com",
            referer: None,
            user_agent: Some(b"Mozilla/5.0"),
        }
    }

    /// A request of an ordinary browser.
    pub(crate) fn record() -> AccessRecord<'static> {
        AccessRecord {
            time: UNIX_EPOCH + Duration::from_millis(1_700_000_000_123),
            client: [192, 0, 2, 7].into(),
            words: words(),
            status: 200,
            body_bytes: 47_000,
            outcome: Outcome::Hit,
            upstream_time: None,
            total_time: Duration::from_micros(42),
            request_id: "ab0-1",
            vanished: false,
        }
    }

    fn shown(format: LogFormat, record: &AccessRecord<'_>) -> String {
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
        let passed = AccessRecord {
            client: "2001:db8::1".parse().unwrap(),
            words: Words {
                target: b"/\"\n\xff",
                referer: Some(b"http://example.com/\" 200"),
                ..words()
            },
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
        let refused = AccessRecord {
            outcome: Outcome::Refused(RefusedWhy::Timeout),
            words: Words {
                user_agent: None,
                ..words()
            },
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
                &AccessRecord {
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

    #[test]
    fn addresses_are_written_as_by_the_library() {
        for octet in 0..=255 {
            let mut out = Vec::new();
            let shown = std::net::Ipv4Addr::new(octet, 255 - octet, 7, octet / 2);
            address(&mut out, shown.into());
            assert_eq!(out, shown.to_string().as_bytes());
        }
    }

    proptest! {
        #[test]
        fn any_request_is_one_line(
            method in any::<String>(),
            host in any::<String>(),
            bytes in prop::collection::vec(any::<u8>(), 0..3000),
            seconds in any::<u64>(),
        ) {
            let words = Words {
                method: &method,
                host: host.as_bytes(),
                target: &bytes,
                referer: Some(&bytes),
                ..words()
            };
            let record = AccessRecord {
                time: UNIX_EPOCH.checked_add(Duration::from_secs(seconds)).unwrap_or(UNIX_EPOCH),
                words,
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
