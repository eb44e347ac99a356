//! The result of a workload in one run: the number of responses, their latency, and the failures.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

use hdrhistogram::Histogram;

use crate::{
    requests::ResponseCheck,
    response::{BodyCoding, ReceivedResponse},
    slices::{self, LoadSlice, RequestResult},
};

/// The results of one workload in one run, or the sum of several.
#[derive(Debug, Clone)]
pub struct LoadOutcome {
    /// The number of complete responses, with any status.
    pub responses: u64,
    /// The size of these responses in bytes, including heads and framing; over HTTP/2 and TLS only the bodies.
    pub bytes: u64,
    /// The time from the start of the run to the last response.
    pub elapsed: Duration,
    /// The times in nanoseconds from the intended start of a request to the last byte of a response with the expected status. A
    /// request without a response at the end of the run counts with the time that it waited.
    pub latency: Histogram<u64>,
    /// The same times for responses with another status, so that a server that refuses requests quickly does not look fast.
    pub error_latency: Histogram<u64>,
    /// The times from the intended start of a request to the failure of its connection.
    pub broken_latency: Histogram<u64>,
    /// The number of responses with another status than expected.
    pub unexpected_status: u64,
    /// The number of broken or refused connections, invalid responses, and missing responses.
    pub broken: u64,
    /// The number of requests that were never sent because all connections were busy until the end. Their latency is the time
    /// from their intended start to the end.
    pub unsent: u64,
    /// The number of connections that were reopened because the server had closed them gracefully.
    pub reconnects: u64,
    /// The first error.
    pub first_error: Option<String>,
    /// The first eight lengths of bodies, and their counts.
    pub lengths: BTreeMap<u64, u64>,
    /// The number of bodies with other lengths.
    pub other_lengths: u64,
    /// The first 64 pairs of status and watched field, and their counts.
    pub watched: BTreeMap<(u16, String), u64>,
    /// Samples of bodies: about one in a thousand, and one of each of `lengths`.
    pub samples: Vec<BodySample>,
    /// Requests by status; 0: without a response. Only in a watched run.
    pub statuses: BTreeMap<u16, u64>,
    /// Responses by the word of the watched Cache-Status, `none` without one. Only in a watched run.
    pub cache_words: BTreeMap<String, u64>,
    /// The requests by the second of their intended start. Only in a watched run.
    pub slices: Vec<LoadSlice>,
    /// Whether the run ended early.
    pub is_stopped: bool,
    is_watched: bool,
    begun: u64,
    keeps_next: bool,
}

/// The body of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BodySample {
    /// The requested page.
    pub page: usize,
    /// The coding of the body.
    pub coding: BodyCoding,
    /// The body as received.
    pub body: Vec<u8>,
    /// A hash of page, coding and body, to find equal samples.
    pub hash: u64,
}

impl LoadOutcome {
    pub(crate) fn new(is_watched: bool) -> Self {
        Self {
            responses: 0,
            bytes: 0,
            elapsed: Duration::ZERO,
            latency: histogram(),
            error_latency: histogram(),
            broken_latency: histogram(),
            unexpected_status: 0,
            broken: 0,
            unsent: 0,
            reconnects: 0,
            first_error: None,
            lengths: BTreeMap::new(),
            other_lengths: 0,
            watched: BTreeMap::new(),
            samples: Vec::new(),
            statuses: BTreeMap::new(),
            cache_words: BTreeMap::new(),
            slices: Vec::new(),
            is_stopped: false,
            is_watched,
            begun: 0,
            keeps_next: false,
        }
    }

    /// Adds the results of another client.
    pub fn merge(&mut self, other: Self) {
        self.merge_watched(&other);
        self.responses += other.responses;
        self.bytes += other.bytes;
        self.elapsed = self.elapsed.max(other.elapsed);
        // All histograms have the same bounds.
        let _ = self.latency.add(&other.latency);
        let _ = self.error_latency.add(&other.error_latency);
        let _ = self.broken_latency.add(&other.broken_latency);
        self.unexpected_status += other.unexpected_status;
        self.broken += other.broken;
        self.unsent += other.unsent;
        self.reconnects += other.reconnects;
        self.first_error = self.first_error.take().or(other.first_error);
        for (length, count) in other.lengths {
            *self.lengths.entry(length).or_default() += count;
        }
        self.other_lengths += other.other_lengths;
        for (line, count) in other.watched {
            *self.watched.entry(line).or_default() += count;
        }
        self.samples.extend(other.samples);
    }

    /// The latency that `share` (0 to 1) of the requests did not exceed. Responses with another status than expected are omitted. A
    /// request whose connection failed counts as slower than every response, so that dropping the slowest requests does not
    /// improve the result.
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    pub fn quantile(&self, share: f64) -> Duration {
        let (responses, broken) = (self.latency.len() as f64, self.broken_latency.len() as f64);
        let rank = (share.clamp(0.0, 1.0) * (responses + broken)).ceil();
        let nanoseconds = if rank <= responses {
            self.latency.value_at_quantile(rank / responses.max(1.0))
        } else {
            let broken = self
                .broken_latency
                .value_at_quantile((rank - responses) / broken);
            broken.max(self.latency.max())
        };
        Duration::from_nanos(nanoseconds)
    }

    /// Responses per second.
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    pub fn per_second(&self) -> f64 {
        self.responses as f64 / self.elapsed.as_secs_f64().max(1e-6)
    }

    /// Whether to keep the body of the next response.
    pub(crate) fn wants_body(&mut self) -> bool {
        self.begun += 1;
        std::mem::take(&mut self.keeps_next) || self.begun % SAMPLED == 1
    }

    /// Counts a complete response.
    pub(crate) fn record(
        &mut self,
        expected: ResponseCheck,
        response: &mut ReceivedResponse,
        latency: Duration,
    ) {
        self.responses += 1;
        self.bytes += response.bytes;
        if self.is_watched {
            let word = response.watched().map_or("none", slices::cache_word);
            self.count_word(word);
        } else if let Some(value) = response.watched() {
            self.watch(response.status, value);
        }
        if !expected.status.permits(response.status) {
            self.unexpected_status += 1;
            record(&mut self.error_latency, latency);
            let status = response.status;
            self.error(|| format!("status {status}"));
            return;
        }
        record(&mut self.latency, latency);
        if let Some(body) = response.body.take() {
            self.keep(expected.page, response.coding, body);
        }
        let length = response.length;
        if self.lengths.len() < MAX_LENGTHS || self.lengths.contains_key(&length) {
            *self.lengths.entry(length).or_default() += 1;
            let mut samples = self.samples.iter();
            let has_sample = samples.any(|sample| sample.body.len() as u64 == length);
            self.keeps_next |= !has_sample && self.samples.len() < MAX_SAMPLES;
        } else {
            self.other_lengths += 1;
        }
    }

    /// Counts a request that was not sent before the end of the run.
    pub(crate) fn record_unsent(&mut self, waited: Duration) {
        self.unsent += 1;
        record(&mut self.latency, waited);
    }

    /// Counts a request without a response at the end of the run.
    pub(crate) fn record_unanswered(&mut self, waited: Duration) {
        self.broken += 1;
        self.error(|| "no response in time".to_owned());
        record(&mut self.latency, waited);
    }

    /// Counts a request whose connection failed after `elapsed`.
    pub(crate) fn record_broken(&mut self, elapsed: Duration, what: impl FnOnce() -> String) {
        self.broken += 1;
        self.error(what);
        record(&mut self.broken_latency, elapsed);
    }

    /// Counts a handshake of the wrong kind; its connection was used nevertheless.
    pub(crate) fn record_wrong_handshake(&mut self) {
        self.broken += 1;
        self.error(|| "a handshake of the wrong kind".to_owned());
    }

    /// Adds the results that only watched runs have.
    fn merge_watched(&mut self, other: &Self) {
        self.is_stopped |= other.is_stopped;
        for (status, count) in &other.statuses {
            *self.statuses.entry(*status).or_default() += count;
        }
        for (word, count) in &other.cache_words {
            *self.cache_words.entry(word.clone()).or_default() += count;
        }
        slices::merge(&mut self.slices, &other.slices);
    }

    /// Counts a request in the second of its intended start.
    pub(crate) fn record_slice(&mut self, due: Duration, ended: RequestResult) {
        if self.is_watched {
            *self.statuses.entry(ended.status).or_default() += 1;
            slices::record(&mut self.slices, due, ended);
        }
    }

    fn count_word(&mut self, word: &str) {
        if let Some(count) = self.cache_words.get_mut(word) {
            *count += 1;
        } else if self.cache_words.len() < MAX_WATCHED {
            self.cache_words.insert(word.to_owned(), 1);
        }
    }

    fn error(&mut self, what: impl FnOnce() -> String) {
        self.first_error.get_or_insert_with(what);
    }

    fn watch(&mut self, status: u16, value: &str) {
        let line = (status, value.to_owned());
        if let Some(count) = self.watched.get_mut(&line) {
            *count += 1;
        } else if self.watched.len() < MAX_WATCHED {
            self.watched.insert(line, 1);
        }
    }

    fn keep(&mut self, page: usize, coding: BodyCoding, body: Vec<u8>) {
        let mut hasher = DefaultHasher::new();
        (page, coding, &body).hash(&mut hasher);
        let hash = hasher.finish();
        let is_known = self.samples.iter().any(|sample| sample.hash == hash);
        if !is_known && self.samples.len() < MAX_SAMPLES {
            self.samples.push(BodySample {
                page,
                coding,
                body,
                hash,
            });
        }
    }
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, MAX_NS, 3)
        .expect("the bounds are in order and 3 digits are allowed")
}

fn record(histogram: &mut Histogram<u64>, time: Duration) {
    histogram.saturating_record(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
}

/// The maximum latency, ten minutes; longer times count as this.
const MAX_NS: u64 = 600_000_000_000;
/// One body of this number is kept: a prime, so that over time every page is sampled.
const SAMPLED: u64 = 997;
/// Limited because each may be a large file.
const MAX_SAMPLES: usize = 12;
const MAX_LENGTHS: usize = 8;
const MAX_WATCHED: usize = 64;
