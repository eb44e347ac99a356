//! From an address to the crawler on whose list it is: one binary search, without a lock or an allocation.
//!
//! ```text
//! starts: | 192.0.2.0 | 192.0.3.0 | 198.51.100.8 | ...   the first addresses of segments, ascending
//! owners: |     0     |   NOBODY  |       1      | ...   the list of each segment
//! ```
//!
//! Networks are nested or disjoint, so a sweep over them with a stack gives segments. The narrowest network decides; of two
//! equal ones, the first.

use std::cmp::Reverse;
use std::net::IpAddr;

use ipnet::IpNet;

/// The addresses of crawlers, by the names of their lists. Six bytes for each end of an IPv4 range, eighteen for IPv6.
#[derive(Debug, Default)]
pub struct CrawlerRanges {
    names: Vec<String>,
    v4: RangeSegments<u32>,
    v6: RangeSegments<u128>,
}

#[derive(Debug, Default)]
struct RangeSegments<T> {
    starts: Box<[T]>,
    owners: Box<[u16]>,
}

impl CrawlerRanges {
    /// The ranges of named lists. Lists of the same name are one; beyond 65,535 names, lists are ignored.
    pub fn new(lists: impl IntoIterator<Item = (String, Vec<IpNet>)>) -> Self {
        let (mut names, mut v4, mut v6) = (Vec::<String>::new(), Vec::new(), Vec::new());
        for (name, networks) in lists {
            let known = names.iter().position(|one| *one == name);
            let index = known.unwrap_or_else(|| {
                names.push(name);
                names.len() - 1
            });
            let Some(owner) = u16::try_from(index).ok().filter(|owner| *owner != NOBODY) else {
                break;
            };
            for network in networks {
                match network {
                    IpNet::V4(one) => v4.push((
                        u128::from(one.network().to_bits()),
                        u128::from(one.broadcast().to_bits()),
                        owner,
                    )),
                    IpNet::V6(one) => {
                        v6.push((one.network().to_bits(), one.broadcast().to_bits(), owner));
                    }
                }
            }
        }
        Self {
            names,
            v4: RangeSegments::new(v4),
            v6: RangeSegments::new(v6),
        }
    }

    /// The name of the crawler on whose list an address is.
    pub fn find(&self, address: IpAddr) -> Option<&str> {
        let owner = match address.to_canonical() {
            IpAddr::V4(address) => self.v4.find(&address.to_bits()),
            IpAddr::V6(address) => self.v6.find(&address.to_bits()),
        };
        self.names.get(usize::from(owner?)).map(String::as_str)
    }

    /// Whether there is no address.
    pub fn is_empty(&self) -> bool {
        self.v4.starts.is_empty() && self.v6.starts.is_empty()
    }
}

impl<T: Copy + Ord + TryFrom<u128>> RangeSegments<T> {
    /// The segments of networks: the first address, the last one, the owner.
    fn new(mut networks: Vec<(u128, u128, u16)>) -> Self {
        // The outer networks first. The sort is stable, so the first of equal ones stays.
        networks.sort_by_key(|&(first, last, _)| (first, Reverse(last)));
        networks.dedup_by_key(|&mut (first, last, _)| (first, last));
        let mut sweep = RangeSweep::default();
        for (first, last, owner) in networks {
            sweep.close(|end| end < first);
            sweep.open.push((last, owner));
            sweep.mark(first, owner);
        }
        sweep.close(|_| true);
        // The address after the last one of IPv4 is no address.
        let marks = sweep.marks.into_iter();
        let marks = marks.filter_map(|(start, owner)| Some((T::try_from(start).ok()?, owner)));
        let (starts, owners): (Vec<T>, Vec<u16>) = marks.unzip();
        Self {
            starts: starts.into(),
            owners: owners.into(),
        }
    }

    fn find(&self, address: &T) -> Option<u16> {
        let after = self.starts.partition_point(|start| start <= address);
        let owner = *self.owners.get(after.checked_sub(1)?)?;
        (owner != NOBODY).then_some(owner)
    }
}

/// The state of a sweep over networks in ascending order.
#[derive(Default)]
struct RangeSweep {
    /// The networks around the current address, by their last address; the narrowest one last.
    open: Vec<(u128, u16)>,
    /// Where segments begin.
    marks: Vec<(u128, u16)>,
}

impl RangeSweep {
    /// Ends the open networks with such last addresses; the one around them goes on.
    fn close(&mut self, ends: impl Fn(u128) -> bool) {
        while let Some((last, _)) = self.open.pop_if(|(last, _)| ends(*last)) {
            let owner = self.open.last().map_or(NOBODY, |(_, owner)| *owner);
            if let Some(next) = last.checked_add(1) {
                self.mark(next, owner);
            }
        }
    }

    fn mark(&mut self, start: u128, owner: u16) {
        match self.marks.last_mut() {
            Some(mark) if mark.0 == start => mark.1 = owner,
            Some(mark) if mark.1 == owner => {}
            _ => self.marks.push((start, owner)),
        }
    }
}

/// The owner of addresses that are on no list.
const NOBODY: u16 = u16::MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
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
        assert!(ranges(&[]).is_empty() && !found.is_empty());
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
