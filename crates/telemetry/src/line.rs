//! The formats of an access line.
//!
//! *combined*: the line of NCSA httpd and Apache, followed by Galley's fields, `outcome=<word[:detail]>
//! upstream=<seconds|-> time=<seconds> id=<request id>` and, if the client did not receive the whole response,
//! `vanished=1`. *json*: one object per line with the same values and the host. *ecs*: the same with the names of the
//! Elastic Common Schema (`ecs`). Times are local, formatted once a second.

use std::time::{Duration, UNIX_EPOCH};

use galley_config::{LogConfig, LogField, LogFormat};
use galley_policy::outcome::Outcome;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::fields::FieldPlan;
use super::record::AccessRecord;
use super::write::{address, digits, number, seconds, text};
use super::{ecs, escape};

/// The format of the lines of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineForm {
    /// The format.
    pub format: LogFormat,
    /// The selected fields; empty: the standard fields of the format.
    pub fields: Vec<LogField>,
}

impl From<LogFormat> for LineForm {
    fn from(format: LogFormat) -> Self {
        let fields = Vec::new();
        Self { format, fields }
    }
}

impl From<&LogConfig> for LineForm {
    fn from(log: &LogConfig) -> Self {
        Self {
            format: log.format,
            fields: log.fields.clone(),
        }
    }
}

/// Writes lines of one format, and caches the formatted second.
#[derive(Debug)]
pub(super) struct Formatter {
    format: LogFormat,
    /// The selected fields; `None`: the standard fields of the format.
    plan: Option<FieldPlan>,
    zone: TimeZone,
    second: Option<i64>,
    /// The formatted second: for combined, with all text between the address and the method; for json, up to the fraction.
    stamp: String,
    /// The text after the fraction.
    offset: String,
}

impl Formatter {
    pub(super) fn new(form: &LineForm, zone: TimeZone) -> Self {
        Self {
            format: form.format,
            plan: FieldPlan::new(form.format, &form.fields),
            zone,
            second: None,
            stamp: String::new(),
            offset: String::new(),
        }
    }

    /// Appends the line of `record`, including the line end. Allocates only when a new second begins.
    pub(super) fn line(&mut self, record: &AccessRecord<'_>, out: &mut Vec<u8>) {
        let since = record.time.duration_since(UNIX_EPOCH).unwrap_or_default();
        self.set_second(i64::try_from(since.as_secs()).unwrap_or(i64::MAX));
        match self.format {
            LogFormat::Combined => self.combined(record, out),
            LogFormat::Json => {
                self.timestamp("time", since.subsec_millis(), out);
                match &self.plan {
                    Some(plan) => plan.write(record, out),
                    None => Self::json(record, out),
                }
            }
            LogFormat::Ecs => {
                self.timestamp("@timestamp", since.subsec_millis(), out);
                out.extend_from_slice(ecs::CONSTANT);
                match &self.plan {
                    Some(plan) => plan.write(record, out),
                    None => ecs::members(record, out),
                }
            }
        }
        out.push(b'\n');
    }

    fn set_second(&mut self, second: i64) {
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
            LogFormat::Json | LogFormat::Ecs => {
                self.stamp = time.strftime("%Y-%m-%dT%H:%M:%S").to_string();
                self.offset = time.strftime("%:z").to_string();
            }
        }
    }

    fn combined(&self, record: &AccessRecord<'_>, out: &mut Vec<u8>) {
        let words = &record.words;
        address(out, record.client);
        out.extend_from_slice(self.stamp.as_bytes());
        escape::quoted(out, words.method.as_bytes());
        out.push(b' ');
        escape::quoted(out, words.target);
        out.push(b' ');
        out.extend_from_slice(words.version.as_bytes());
        out.extend_from_slice(b"\" ");
        number(out, record.status);
        out.push(b' ');
        number(out, record.body_bytes);
        out.extend_from_slice(b" \"");
        escape::quoted(out, words.referer.unwrap_or(b"-"));
        out.extend_from_slice(b"\" \"");
        escape::quoted(out, words.user_agent.unwrap_or(b"-"));
        match (record.outcome, record.upstream_time) {
            // The most frequent case, in one piece.
            (Outcome::Hit, None) => out.extend_from_slice(b"\" outcome=hit upstream=- time="),
            (outcome, upstream_time) => outcome_and_time(out, outcome, upstream_time),
        }
        seconds(out, record.total_time);
        out.extend_from_slice(b" id=");
        escape::bare(out, record.request_id.as_bytes());
        if record.vanished {
            out.extend_from_slice(b" vanished=1");
        }
    }

    /// Writes the beginning of a JSON object, with its first member.
    fn timestamp(&self, name: &str, millis: u32, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"");
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"\":\"");
        out.extend_from_slice(self.stamp.as_bytes());
        out.push(b'.');
        digits::<3>(out, millis);
        out.extend_from_slice(self.offset.as_bytes());
        out.push(b'"');
    }

    /// Writes the members after the time.
    fn json(record: &AccessRecord<'_>, out: &mut Vec<u8>) {
        let words = &record.words;
        out.extend_from_slice(b",\"client\":\"");
        address(out, record.client);
        out.push(b'"');
        text(out, "method", Some(words.method.as_bytes()));
        text(out, "target", Some(words.target));
        text(out, "version", Some(words.version.as_bytes()));
        let host = std::str::from_utf8(words.host).unwrap_or("-");
        text(out, "host", Some(host.as_bytes()));
        out.extend_from_slice(b",\"status\":");
        number(out, record.status);
        out.extend_from_slice(b",\"body_bytes\":");
        number(out, record.body_bytes);
        text(out, "referer", words.referer);
        text(out, "user_agent", words.user_agent);
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

/// Writes the outcome and the time of the upstream.
fn outcome_and_time(out: &mut Vec<u8>, outcome: Outcome, upstream_time: Option<Duration>) {
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

#[cfg(test)]
pub(super) mod tests {
    use galley_config::KnownField;
    use http::HeaderValue;

    use super::*;
    use crate::record::LoggedHeadParts;
    use galley_policy::outcome::{PassWhy, RefusedWhy};
    use proptest::prelude::*;

    fn words() -> LoggedHeadParts<'static> {
        LoggedHeadParts {
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
            country: None,
            tls_version: None,
            trace_id: None,
            request_fields: &[],
            response_fields: &[],
        }
    }

    fn shown(format: LogFormat, record: &AccessRecord<'_>) -> String {
        shown_as(&format.into(), record)
    }

    fn shown_as(form: &LineForm, record: &AccessRecord<'_>) -> String {
        let mut out = Vec::new();
        Formatter::new(form, TimeZone::fixed(jiff::tz::offset(2))).line(record, &mut out);
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
            words: LoggedHeadParts {
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
            words: LoggedHeadParts {
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
    fn ecs_lines() {
        let passed = AccessRecord {
            outcome: Outcome::Pass(PassWhy::Cookie),
            upstream_time: Some(Duration::from_millis(1_250)),
            words: LoggedHeadParts {
                referer: Some(b"https://example.com/\""),
                user_agent: None,
                ..words()
            },
            status: 502,
            vanished: true,
            ..record()
        };
        assert_eq!(
            shown(LogFormat::Ecs, &passed),
            "{\"@timestamp\":\"2023-11-15T00:13:20.123+02:00\",\"ecs.version\":\"8.17.0\",\"event.dataset\":\"galley.access\",\
             \"client.ip\":\"192.0.2.7\",\"http.request.method\":\"GET\",\"url.original\":\"/a/?b=c\",\"http.version\":\"1.1\",\
             \"url.domain\":\"example.com\",\"http.response.status_code\":502,\"http.response.body.bytes\":47000,\
             \"http.request.referrer\":\"https://example.com/\\\"\",\"event.outcome\":\"failure\",\"event.duration\":42000,\
             \"http.request.id\":\"ab0-1\",\"galley.outcome\":\"pass\",\"galley.detail\":\"cookie\",\
             \"galley.upstream.duration\":1250000000,\"galley.vanished\":true}\n"
        );
        let hit = shown(LogFormat::Ecs, &record());
        let hit: serde_json::Value = serde_json::from_str(&hit).unwrap();
        assert_eq!(hit["user_agent.original"], "Mozilla/5.0");
        assert_eq!(hit["event.outcome"], "success");
        assert_eq!(hit.get("http.request.referrer"), None);
        assert_eq!(hit.get("galley.upstream.duration"), None);
    }

    /// The lines of a request with these values of `traceparent` and `accept-language`, in json and ecs.
    fn selected(traceparent: &[u8], language: Option<&[u8]>) -> [serde_json::Value; 2] {
        let name = http::HeaderName::from_static;
        let fields = [
            LogField::RequestHeader(name("accept-language")),
            LogField::Known(KnownField::TraceId),
            LogField::Known(KnownField::Status),
            LogField::Known(KnownField::UpstreamTime),
            LogField::Known(KnownField::TlsVersion),
            LogField::ResponseHeader(name("content-type")),
            LogField::RequestHeader(name("traceparent")),
        ];
        let response = [Some(HeaderValue::from_static("text/html"))];
        let record = AccessRecord {
            upstream_time: language.map(|_| Duration::from_millis(1_250)),
            tls_version: language.map(|_| "1.3"),
            request_fields: &[language, Some(traceparent)],
            response_fields: &response,
            ..record()
        };
        [LogFormat::Json, LogFormat::Ecs].map(|format| {
            let fields = fields.to_vec();
            let line = shown_as(&LineForm { format, fields }, &record);
            serde_json::from_str(&line).unwrap()
        })
    }

    #[test]
    fn selected_fields() {
        let parent = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let [json, ecs] = selected(parent, Some(b"de\"\n"));
        assert_eq!(
            json,
            serde_json::json!({
                "time": "2023-11-15T00:13:20.123+02:00", "request_header:accept-language": "de\"\n",
                "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736", "status": 200, "upstream_time": 1.25, "tls_version": "1.3",
                "response_header:content-type": "text/html",
                "request_header:traceparent": std::str::from_utf8(parent).unwrap(),
            })
        );
        assert_eq!(
            ecs,
            serde_json::json!({
                "@timestamp": "2023-11-15T00:13:20.123+02:00", "ecs.version": "8.17.0", "event.dataset": "galley.access",
                "galley.request.header.accept-language": "de\"\n", "trace.id": "4bf92f3577b34da6a3ce929d0e0e4736",
                "http.response.status_code": 200, "galley.upstream.duration": 1_250_000_000, "tls.version": "1.3",
                "galley.response.header.content-type": "text/html",
                "galley.request.header.traceparent": std::str::from_utf8(parent).unwrap(),
            })
        );
        let [json, ecs] = selected(b"00-none", None);
        let without = json
            .as_object()
            .unwrap()
            .values()
            .filter(|value| value.is_null());
        assert_eq!(without.count(), 4);
        assert_eq!(ecs.as_object().unwrap().len(), 6, "{ecs}");
    }

    /// A selection of all fields gives the same line as no selection, plus the fields that are only written on request.
    #[test]
    fn all_fields_have_a_value_and_a_name_in_both_forms() {
        let fields: Vec<LogField> = KnownField::ALL
            .iter()
            .copied()
            .map(LogField::Known)
            .collect();
        for format in [LogFormat::Json, LogFormat::Ecs] {
            let fields = fields.clone();
            let all = shown_as(&LineForm { format, fields }, &record());
            let all: serde_json::Value = serde_json::from_str(&all).unwrap();
            let usual = shown(format, &record());
            let usual: serde_json::Value = serde_json::from_str(&usual).unwrap();
            for (name, value) in usual.as_object().unwrap() {
                if name != "event.outcome" {
                    assert_eq!(&all[name], value, "{name}");
                }
            }
        }
    }

    #[test]
    fn the_formatted_second_is_cached_and_replaced() {
        let mut formatter = Formatter::new(&LogFormat::Combined.into(), TimeZone::UTC);
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

    proptest! {
        #[test]
        fn any_request_is_one_line(
            method in any::<String>(),
            host in any::<String>(),
            bytes in prop::collection::vec(any::<u8>(), 0..3000),
            seconds in any::<u64>(),
        ) {
            let words = LoggedHeadParts {
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
            for (format, status) in [(LogFormat::Json, "status"), (LogFormat::Ecs, "http.response.status_code")] {
                let json = shown(format, &record);
                prop_assert_eq!(json.matches('\n').count(), 1);
                let read: serde_json::Value = serde_json::from_str(&json).unwrap();
                prop_assert_eq!(&read[status], 200);
            }
        }
    }
}
