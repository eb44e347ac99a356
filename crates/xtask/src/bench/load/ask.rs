//! What is asked, in which order: request heads as bytes, and what their answers must be.

use std::ops::Range;

/// One request.
#[derive(Debug, Clone)]
pub(in super::super) struct Ask {
    /// The whole head.
    pub(in super::super) bytes: Vec<u8>,
    /// Digits in it that count up from one request to the next, so that no two are the same.
    pub(in super::super) counter: Option<Range<usize>>,
    pub(in super::super) wanted: Wanted,
}

/// What an answer must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Wanted {
    pub(in super::super) status: u16,
    /// Of the body as it is sent; `None`: any. Answers of another length are kept for a closer look.
    pub(in super::super) length: Option<u64>,
}

/// Requests and the order in which they are sent.
#[derive(Debug, Clone)]
pub(in super::super) struct Asks {
    all: Vec<Ask>,
    order: Order,
    sent: u64,
}

#[derive(Debug, Clone)]
pub(in super::super) enum Order {
    /// One after the other, and again from the first.
    InTurn,
    /// The first most often, the n-th an n-th as often.
    Zipf(Zipf),
}

/// Numbers below a bound by Zipf's law with exponent 1, the same in every run.
#[derive(Debug, Clone)]
pub(in super::super) struct Zipf {
    /// Sum of 1/n up to each number.
    sums: Vec<f64>,
    state: u64,
}

impl Ask {
    /// A request whose head has no counter.
    pub(in super::super) fn new(bytes: Vec<u8>, wanted: Wanted) -> Self {
        Self {
            bytes,
            counter: None,
            wanted,
        }
    }
}

impl Asks {
    /// `asks` must not be empty.
    pub(in super::super) fn new(asks: Vec<Ask>, order: Order) -> Self {
        Self {
            all: asks,
            order,
            sent: 0,
        }
    }

    pub(super) fn at(&self, number: usize) -> Option<&Ask> {
        self.all.get(number)
    }

    /// The number of the request that is sent next.
    pub(super) fn next(&mut self) -> usize {
        let count = self.sent;
        self.sent += 1;
        match &mut self.order {
            Order::InTurn => {
                usize::try_from(count % self.all.len().max(1) as u64).unwrap_or_default()
            }
            Order::Zipf(zipf) => zipf.next(),
        }
    }

    /// Whether the request about to be sent is one of those whose answers are looked at as a whole.
    pub(super) fn is_sampled(&self) -> bool {
        self.sent % SAMPLED == 1
    }

    /// The request as it is sent now; `None`: as it stands.
    pub(super) fn counted(&self, number: usize, into: &mut Vec<u8>) {
        into.clear();
        let Some(ask) = self.at(number) else { return };
        let Some(digits) = &ask.counter else { return };
        into.extend_from_slice(&ask.bytes);
        let mut rest = self.sent;
        let digits = into.get_mut(digits.clone()).unwrap_or_default();
        for digit in digits.iter_mut().rev() {
            // A remainder of ten fits a byte.
            *digit = b'0' + u8::try_from(rest % 10).unwrap_or(0);
            rest /= 10;
        }
    }
}

impl Zipf {
    pub(in super::super) fn new(count: usize) -> Self {
        let mut sum = 0.0;
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
        let sums = (1..=count).map(|n| {
            sum += 1.0 / n as f64;
            sum
        });
        Self {
            sums: sums.collect(),
            state: 0x9E37_79B9_7F4A_7C15,
        }
    }

    /// xorshift64*: enough to choose pages by, and the same everywhere.
    fn next(&mut self) -> usize {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        let random = self.state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11;
        #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
        let share = random as f64 / (1_u64 << 53) as f64;
        let point = share * self.sums.last().copied().unwrap_or(0.0);
        let at = self.sums.partition_point(|sum| *sum <= point);
        at.min(self.sums.len().saturating_sub(1))
    }
}

/// One body of so many is kept and looked at: a prime, so that it falls on every page in time.
const SAMPLED: u64 = 997;

#[cfg(test)]
mod tests {
    use super::*;

    const FINE: Wanted = Wanted {
        status: 200,
        length: None,
    };

    #[test]
    fn counters_make_every_request_its_own() {
        let mut ask = Ask::new(b"GET /?n=0000 HTTP/1.1\r\n\r\n".to_vec(), FINE);
        ask.counter = Some(8..12);
        let mut asks = Asks::new(vec![ask], Order::InTurn);
        let mut out = Vec::new();
        for wanted in ["n=0001 ", "n=0002 "] {
            let number = asks.next();
            asks.counted(number, &mut out);
            assert!(String::from_utf8_lossy(&out).contains(wanted));
        }
    }

    #[test]
    fn in_turn_goes_round() {
        let ask = || Ask::new(Vec::new(), FINE);
        let mut asks = Asks::new(vec![ask(), ask()], Order::InTurn);
        assert_eq!([asks.next(), asks.next(), asks.next()], [0, 1, 0]);
    }

    #[test]
    fn zipf_favours_the_first_and_reaches_the_last() {
        let mut zipf = Zipf::new(1000);
        let mut counts = vec![0_u32; 1000];
        for _ in 0..200_000 {
            counts[zipf.next()] += 1;
        }
        // 1/H(1000) is 0.1336; a standard deviation of these counts is below 160.
        assert!((25_500..28_000).contains(&counts[0]), "{}", counts[0]);
        assert!((12_500..14_300).contains(&counts[1]), "{}", counts[1]);
        assert!(counts[999] > 0);
    }
}
