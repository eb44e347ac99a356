//! The sources of requests: a trait, and a generator that writes requests from a template.

use std::time::Duration;

use crate::template::{Random, Template, Values};

/// A source of requests. It is called for each request in turn, before its intended start; the last one of a run may not be sent.
pub trait Requests {
    /// Writes the head of the next request, in the format of HTTP/1.1, into `head`, which is empty. Returns the expected response.
    fn next(&mut self, head: &mut Vec<u8>) -> ResponseCheck;

    /// The intended start of the request with this number, counted from 0, since the start of the run; `None` ends the run.
    fn due(&self, _number: u64) -> Option<Duration> {
        None
    }
}

/// The expected response to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponseCheck {
    /// The number of the page, from 0, for samples.
    pub page: usize,
    /// The status code.
    pub status: ExpectedStatus,
}

/// The status codes that count as success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpectedStatus {
    /// Only this one.
    Exactly(u16),
    /// All that mean that the server does its work: neither 429 nor 5xx.
    Served,
}

impl ExpectedStatus {
    pub(crate) fn permits(self, status: u16) -> bool {
        match self {
            Self::Exactly(wanted) => status == wanted,
            Self::Served => status < 500 && status != TOO_MANY_REQUESTS,
        }
    }
}

const TOO_MANY_REQUESTS: u16 = 429;

/// The order in which pages are requested.
#[derive(Debug, Clone)]
pub enum RequestOrder {
    /// This number of pages, one after the other, and again from the first.
    InTurn(usize),
    /// This number of pages by Zipf's law with exponent 1: the n-th is requested 1/n times as often as the first.
    Zipf(usize),
}

/// Writes requests from a template.
#[derive(Debug)]
pub struct Generator {
    template: Template,
    status: u16,
    pages: usize,
    /// For Zipf's law: the sum of 1/n up to each page.
    sums: Vec<f64>,
    values: Values,
}

impl Generator {
    /// Creates requests for pages that are expected to respond with `status`.
    pub fn new(template: Template, order: &RequestOrder, status: u16) -> Self {
        let (pages, sums) = match *order {
            RequestOrder::InTurn(pages) => (pages, Vec::new()),
            RequestOrder::Zipf(pages) => (pages, sums(pages)),
        };
        Self {
            template,
            status,
            pages: pages.max(1),
            sums,
            values: Values {
                count: 0,
                page: 0,
                random: Random::new(),
            },
        }
    }

    fn page(&mut self) -> usize {
        let Some(all) = self.sums.last() else {
            let turn = (self.values.count - 1) % self.pages as u64;
            return usize::try_from(turn).unwrap_or_default();
        };
        let point = self.values.random.share() * all;
        let at = self.sums.partition_point(|sum| *sum <= point);
        at.min(self.pages - 1)
    }
}

impl Requests for Generator {
    fn next(&mut self, head: &mut Vec<u8>) -> ResponseCheck {
        self.values.count += 1;
        self.values.page = self.page();
        self.template.write(head, &mut self.values);
        ResponseCheck {
            page: self.values.page,
            status: ExpectedStatus::Exactly(self.status),
        }
    }
}

fn sums(pages: usize) -> Vec<f64> {
    let mut sum = 0.0;
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let sums = (1..=pages).map(|n| {
        sum += 1.0 / n as f64;
        sum
    });
    sums.collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn generator(order: &RequestOrder) -> Generator {
        let template = Template::parse("GET /{page}?n={count}", &BTreeMap::new()).unwrap();
        Generator::new(template, order, 200)
    }

    #[test]
    fn pages_in_turn_repeat() {
        let mut generator = generator(&RequestOrder::InTurn(2));
        for (page, wanted) in [
            (0, "GET /1?n=0000000001"),
            (1, "GET /2?n=0000000002"),
            (0, "GET /1?n=0000000003"),
        ] {
            let mut head = Vec::new();
            let expected = generator.next(&mut head);
            assert_eq!((expected.page, head.as_slice()), (page, wanted.as_bytes()));
        }
    }

    #[test]
    fn zipf_prefers_the_first_and_reaches_the_last() {
        let mut generator = generator(&RequestOrder::Zipf(1000));
        let mut counts = vec![0_u32; 1000];
        for _ in 0..200_000 {
            counts[generator.next(&mut Vec::new()).page] += 1;
        }
        // 1/H(1000) is 0.1336; a standard deviation of these counts is below 160.
        assert!((25_500..28_000).contains(&counts[0]), "{}", counts[0]);
        assert!((12_500..14_300).contains(&counts[1]), "{}", counts[1]);
        assert!(counts[999] > 0);
    }
}
