//! The country of a client, as a database of addresses names it.

use std::fmt;
use std::net::IpAddr;

/// A country by its two letters in ISO 3166-1, upper case.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CountryCode([u8; 2]);

impl CountryCode {
    /// The country of a code of two letters, in either case.
    pub fn parse(text: &str) -> Option<Self> {
        let letters: [u8; 2] = text.as_bytes().try_into().ok()?;
        let is_code = letters.iter().all(u8::is_ascii_alphabetic);
        is_code.then(|| Self(letters.map(|letter| letter.to_ascii_uppercase())))
    }

    /// The two letters, in upper case.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl fmt::Debug for CountryCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for CountryCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The properties of a client on which access depends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessClient {
    /// The address.
    pub address: IpAddr,
    /// The country; `None`: the database has none for the address, or no setting depends on it.
    pub country: Option<CountryCode>,
}

impl From<IpAddr> for AccessClient {
    fn from(address: IpAddr) -> Self {
        Self {
            address,
            country: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_two_letters() {
        assert_eq!(CountryCode::parse("de").unwrap().as_str(), "DE");
        assert_eq!(CountryCode::parse("DE"), CountryCode::parse("de"));
        for wrong in ["", "D", "DEU", "D1", "ä", "D "] {
            assert_eq!(CountryCode::parse(wrong), None, "{wrong}");
        }
    }
}
