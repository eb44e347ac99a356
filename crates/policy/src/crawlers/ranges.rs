//! From an address to the crawler on whose list it is: a look-up for each length of prefix that occurs, without a lock or an
//! allocation. The narrowest network decides; of two equal ones, the first.

use std::collections::HashMap;
use std::net::IpAddr;

use ipnet::IpNet;

/// The addresses of crawlers, by the names of their lists.
#[derive(Debug, Default)]
pub struct CrawlerRanges {
    names: Vec<String>,
    /// The list of each network, by its place in `names`.
    owners: HashMap<IpNet, usize>,
    /// The lengths of prefixes that occur, the longest first: those of IPv4, and those of IPv6.
    lengths: [Vec<u8>; 2],
}

impl CrawlerRanges {
    /// The ranges of named lists. Lists of the same name are one.
    pub fn new(lists: impl IntoIterator<Item = (String, Vec<IpNet>)>) -> Self {
        let mut new = Self::default();
        for (name, networks) in lists {
            let position = new.names.iter().position(|one| *one == name);
            let owner = position.unwrap_or(new.names.len());
            if position.is_none() {
                new.names.push(name);
            }
            for network in networks {
                let [v4, v6] = &mut new.lengths;
                let lengths = if network.addr().is_ipv4() { v4 } else { v6 };
                lengths.push(network.prefix_len());
                lengths.sort_unstable_by(|one, other| other.cmp(one));
                lengths.dedup();
                new.owners.entry(network.trunc()).or_insert(owner);
            }
        }
        new
    }

    /// The name of the crawler on whose list an address is.
    pub fn find(&self, address: IpAddr) -> Option<&str> {
        let address = address.to_canonical();
        let [v4, v6] = &self.lengths;
        let lengths = if address.is_ipv4() { v4 } else { v6 };
        let mut around = lengths
            .iter()
            .filter_map(|length| Some(IpNet::new(address, *length).ok()?.trunc()));
        let owner = around.find_map(|network| self.owners.get(&network))?;
        self.names.get(*owner).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cmp::Reverse;
    use std::net::{Ipv4Addr, Ipv6Addr};

    fn ranges(lists: &[(&str, &[&str])]) -> CrawlerRanges {
        let networks = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        CrawlerRanges::new(
            lists
                .iter()
                .map(|(name, texts)| ((*name).to_owned(), networks(texts))),
        )
    }

    #[test]
    fn addresses_belong_to_the_narrowest_network() {
        let found = ranges(&[
            ("a", &["192.0.2.0/24", "2001:db8::/32", "255.255.255.0/24"]),
            ("b", &["192.0.2.128/25", "192.0.2.0/24"]),
            ("a", &["192.0.2.255/32"]),
        ]);
        for (address, name) in [
            ("192.0.1.255", None),
            ("192.0.2.0", Some("a")),
            ("::ffff:192.0.2.127", Some("a")),
            ("192.0.2.128", Some("b")),
            ("192.0.2.254", Some("b")),
            ("192.0.2.255", Some("a")),
            ("192.0.3.0", None),
            ("255.255.255.255", Some("a")),
            ("2001:db8:ffff::1", Some("a")),
            ("2001:db9::", None),
            ("::", None),
        ] {
            assert_eq!(found.find(address.parse().unwrap()), name, "{address}");
        }
        assert_eq!(ranges(&[]).find(Ipv4Addr::LOCALHOST.into()), None);
    }

    /// The narrowest network that contains an address; of equal ones the first.
    fn naive(lists: &[(String, Vec<IpNet>)], address: IpAddr) -> Option<&str> {
        let all = lists
            .iter()
            .flat_map(|(name, networks)| networks.iter().map(move |network| (name, network)));
        let around = all.filter(|(_, network)| network.contains(&address));
        let narrowest = around.min_by_key(|(_, network)| Reverse(network.prefix_len()));
        narrowest.map(|(name, _)| name.as_str())
    }

    /// Networks among few addresses, so that they are often nested, equal and adjacent.
    fn network() -> impl Strategy<Value = IpNet> {
        let v4 = (0..512_u32, 22..=32_u8).prop_map(|(low, length)| {
            IpNet::new(Ipv4Addr::from_bits(!511 | low).into(), length).unwrap()
        });
        let v6 = (0..512_u128, 118..=128_u8).prop_map(|(low, length)| {
            IpNet::new(Ipv6Addr::from_bits(!511 | low).into(), length).unwrap()
        });
        prop_oneof![v4, v6].prop_map(|network| network.trunc())
    }

    proptest! {
        #[test]
        fn the_lookup_equals_a_search_of_all_networks(
            lists in proptest::collection::vec(("[a-c]", proptest::collection::vec(network(), 0..12)), 0..5),
        ) {
            let ranges = CrawlerRanges::new(lists.clone());
            for low in 0..1024_u32 {
                for address in [
                    IpAddr::V4(Ipv4Addr::from_bits(!1023 | low)),
                    IpAddr::V6(Ipv6Addr::from_bits(!1023 | u128::from(low))),
                ] {
                    prop_assert_eq!(ranges.find(address), naive(&lists, address), "{}", address);
                }
            }
        }
    }
}
