//! Content codings: those that a client accepts, and the best of those that are available.
//!
//! Parses `Accept-Encoding` (RFC 9110 §12.5.3) with its weights, `q=0`, `*` and the implied identity. A request without
//! the field gets identity only: the RFC would permit any coding, but a client that does not send the field may not be able
//! to decode any. This module does not decide whether a body is worth compressing. It never fails: an invalid member is
//! ignored.

/// A content coding that Galley stores or sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Coding {
    /// No coding.
    Identity,
    /// RFC 1952, also named `x-gzip`.
    Gzip,
    /// RFC 7932.
    Brotli,
    /// RFC 8878.
    Zstd,
    /// The difference to a dictionary that the client has (RFC 9842). Never the result of [`AcceptedCodings`]: see
    /// [`crate::dictionary`].
    Dcz,
}

impl Coding {
    /// All codings that clients choose by weight, beginning with the one that is usually the smallest for text; this order breaks ties.
    pub const BY_DENSITY: [Self; 4] = [Self::Brotli, Self::Zstd, Self::Gzip, Self::Identity];

    /// The token of `Content-Encoding`; `identity` is never sent.
    pub const fn token(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Gzip => "gzip",
            Self::Brotli => "br",
            Self::Zstd => "zstd",
            Self::Dcz => "dcz",
        }
    }

    /// The coding of a token, in any case; `None` if Galley does not know it, or it needs a dictionary.
    pub fn parse(token: &[u8]) -> Option<Self> {
        let is = |word: &[u8]| token.eq_ignore_ascii_case(word);
        match token.len() {
            2 if is(b"br") => Some(Self::Brotli),
            4 if is(b"gzip") => Some(Self::Gzip),
            4 if is(b"zstd") => Some(Self::Zstd),
            6 if is(b"x-gzip") => Some(Self::Gzip),
            8 if is(b"identity") => Some(Self::Identity),
            _ => None,
        }
    }
}

/// The codings that a client accepts. The default, a request without `Accept-Encoding`, is identity only.
///
/// Weights are thousandths; several lines form one list (RFC 9110 §5.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AcceptedCodings {
    identity: Option<u16>,
    gzip: Option<u16>,
    brotli: Option<u16>,
    zstd: Option<u16>,
    others: Option<u16>,
}

impl AcceptedCodings {
    /// Adds one `Accept-Encoding` line. If a coding occurs twice, the smaller weight counts.
    pub fn read(&mut self, accept_encoding_line: &[u8]) {
        if *self == Self::default()
            && let Some(codings) = Self::of_browser(accept_encoding_line)
        {
            *self = codings;
            return;
        }
        // Few clients send weights.
        let is_weighted = accept_encoding_line.contains(&b';');
        for member in accept_encoding_line.split(|&byte| byte == b',') {
            let weighed = if is_weighted {
                weighted(member)
            } else {
                Some((member.trim_ascii(), FULL_WEIGHT))
            };
            let Some((token, weight)) = weighed else {
                continue;
            };
            let slot = if token == b"*" {
                &mut self.others
            } else if let Some(slot) = Coding::parse(token).and_then(|coding| self.slot(coding)) {
                slot
            } else {
                continue;
            };
            *slot = Some(slot.map_or(weight, |before| before.min(weight)));
        }
    }

    /// The result for the usual lines of browsers, without parsing: without TLS, and those of older and newer browsers over TLS.
    fn of_browser(line: &[u8]) -> Option<Self> {
        let (brotli, zstd) = match line {
            b"gzip, deflate" => (None, None),
            b"gzip, deflate, br" => (Some(FULL_WEIGHT), None),
            b"gzip, deflate, br, zstd" => (Some(FULL_WEIGHT), Some(FULL_WEIGHT)),
            _ => return None,
        };
        Some(Self {
            gzip: Some(FULL_WEIGHT),
            brotli,
            zstd,
            ..Self::default()
        })
    }

    /// The best of `available`: by weight, then by [`Coding::BY_DENSITY`]. `None`: the client accepts none of them.
    pub fn best(self, available: &[Coding]) -> Option<Coding> {
        let order = Coding::BY_DENSITY.iter();
        self.best_weighted(order.filter(|coding| available.contains(coding)))
    }

    /// As [`Self::best`], for the codings for which `is_available` returns true.
    pub fn best_of(self, is_available: impl Fn(Coding) -> bool) -> Option<Coding> {
        let order = Coding::BY_DENSITY.iter();
        // The costly check is last: most clients do not accept most codings.
        self.best_weighted(order.filter(|coding| self.accepts(**coding) && is_available(**coding)))
    }

    /// The best of `order`, which also breaks ties. `None`: the client accepts none of them.
    pub fn first_best(self, order: &[Coding]) -> Option<Coding> {
        self.best_weighted(order.iter())
    }

    fn best_weighted<'c>(self, order: impl Iterator<Item = &'c Coding>) -> Option<Coding> {
        let mut best: Option<(u16, Coding)> = None;
        for coding in order {
            let weight = self.weight(*coding);
            if weight > best.map_or(0, |(most, _)| most) {
                best = Some((weight, *coding));
            }
        }
        best.map(|(_, coding)| coding)
    }

    /// Whether the client accepts `coding`.
    pub fn accepts(self, coding: Coding) -> bool {
        self.weight(coding) > 0
    }

    /// The weight in thousandths, times two; 0: not accepted. Identity that is not listed has the lowest weight above 0.
    fn weight(self, coding: Coding) -> u16 {
        let weight = match coding {
            Coding::Identity => self.identity,
            Coding::Gzip => self.gzip,
            Coding::Brotli => self.brotli,
            Coding::Zstd => self.zstd,
            // `*` does not include it.
            Coding::Dcz => Some(0),
        };
        match (weight.or(self.others), coding) {
            (Some(0), _) => 0,
            // Times two, so that the implied identity is below the lowest weight that a client can send.
            (Some(weight), _) => weight.saturating_mul(2),
            (None, Coding::Identity) => 1,
            (None, _) => 0,
        }
    }

    fn slot(&mut self, coding: Coding) -> Option<&mut Option<u16>> {
        match coding {
            Coding::Identity => Some(&mut self.identity),
            Coding::Gzip => Some(&mut self.gzip),
            Coding::Brotli => Some(&mut self.brotli),
            Coding::Zstd => Some(&mut self.zstd),
            Coding::Dcz => None,
        }
    }
}

/// The weight of a coding that is named without one.
const FULL_WEIGHT: u16 = 1000;

/// Parses `token [;q=0.5]` into token and thousandths; `None` if the member is empty or its weight is invalid.
pub(crate) fn weighted(member: &[u8]) -> Option<(&[u8], u16)> {
    let mut parts = member.split(|&byte| byte == b';');
    let token = parts.next()?.trim_ascii();
    let mut weight = FULL_WEIGHT;
    for parameter in parts {
        let parameter = parameter.trim_ascii();
        let (name, value) = parameter.split_at_checked(2)?;
        if !name.eq_ignore_ascii_case(b"q=") {
            return None;
        }
        weight = crate::fields::thousandths(value)?;
    }
    (!token.is_empty()).then_some((token, weight))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: &[Coding] = &[Coding::Identity, Coding::Gzip, Coding::Brotli, Coding::Zstd];

    fn codings(lines: &[&str]) -> AcceptedCodings {
        let mut codings = AcceptedCodings::default();
        for line in lines {
            codings.read(line.as_bytes());
        }
        codings
    }

    #[test]
    fn best_follows_weights_then_density() {
        let table: &[(&[&str], Option<Coding>)] = &[
            (&[], Some(Coding::Identity)),
            (&[""], Some(Coding::Identity)),
            (&["gzip"], Some(Coding::Gzip)),
            (&["GZip"], Some(Coding::Gzip)),
            (&["x-gzip"], Some(Coding::Gzip)),
            (&["gzip, deflate, br, zstd"], Some(Coding::Brotli)),
            (&["gzip, deflate, zstd"], Some(Coding::Zstd)),
            (&["gzip", "br"], Some(Coding::Brotli)),
            (&["gzip;q=1.0, br;q=0.9"], Some(Coding::Gzip)),
            (&["gzip ; q=0.001"], Some(Coding::Gzip)),
            (&["identity;q=0.5, gzip;q=0.4"], Some(Coding::Identity)),
            (&["gzip, identity"], Some(Coding::Gzip)),
            (&["br;q=0, gzip"], Some(Coding::Gzip)),
            (&["br, br;q=0, gzip"], Some(Coding::Gzip)),
            (&["*"], Some(Coding::Brotli)),
            (&["*;q=0"], None),
            (&["*;q=0, identity"], Some(Coding::Identity)),
            (&["gzip;q=0, *;q=0.1"], Some(Coding::Brotli)),
            (&["identity;q=0"], None),
            (&["gzip;q=2"], Some(Coding::Identity)),
            (&["gzip;q=0.1234"], Some(Coding::Identity)),
            (&["gzip;q=1.001"], Some(Coding::Identity)),
            (&["gzip;level=9"], Some(Coding::Identity)),
            (&["gzip;q=-1, br;q=0,1"], Some(Coding::Identity)),
            (&["compress, deflate"], Some(Coding::Identity)),
        ];
        for (lines, wanted) in table {
            assert_eq!(codings(lines).best(ALL), *wanted, "{lines:?}");
        }
    }

    #[test]
    fn the_lines_of_browsers_give_the_same_as_parsing() {
        for line in [
            "gzip, deflate",
            "gzip, deflate, br",
            "gzip, deflate, br, zstd",
        ] {
            assert!(AcceptedCodings::of_browser(line.as_bytes()).is_some());
            // Insignificant white space.
            assert_eq!(codings(&[line]), codings(&[&format!("{line} ")]), "{line}");
            assert_eq!(
                codings(&["gzip;q=0.5", line]),
                codings(&[line, "gzip;q=0.5"])
            );
        }
    }

    #[test]
    fn best_is_one_of_the_available() {
        let browser = codings(&["gzip, deflate, br, zstd"]);
        assert_eq!(
            browser.best(&[Coding::Identity, Coding::Gzip]),
            Some(Coding::Gzip)
        );
        assert_eq!(browser.best(&[Coding::Identity]), Some(Coding::Identity));
        assert_eq!(browser.best(&[]), None);
        assert_eq!(AcceptedCodings::default().best(&[Coding::Gzip]), None);
        assert!(!AcceptedCodings::default().accepts(Coding::Gzip));
        assert!(codings(&["gzip;q=0.2"]).accepts(Coding::Identity));
    }

    proptest! {
        #[test]
        fn never_panics_and_never_selects_a_refused_coding(line in proptest::collection::vec(any::<u8>(), 0..80)) {
            let mut codings = AcceptedCodings::default();
            codings.read(&line);
            prop_assert_eq!(codings.best(ALL), codings.best_of(|_| true));
            prop_assert_eq!(codings.best(&[Coding::Gzip]), codings.best_of(|coding| coding == Coding::Gzip));
            if let Some(coding) = codings.best(ALL) {
                prop_assert!(codings.accepts(coding));
            }
        }

        #[test]
        fn never_panics_on_near_misses(line in "([a-z*-]{0,5}(; ?[qQ]=[0-9.]{0,6})?,? ?){0,6}") {
            let mut codings = AcceptedCodings::default();
            codings.read(line.as_bytes());
            prop_assert!(codings.best(&[]).is_none());
        }
    }
}
