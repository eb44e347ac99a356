//! Lists of addresses that operators of crawlers publish.
//!
//! Google, Bing, `OpenAI`, Apple, Perplexity and others publish one form,
//! `{"prefixes": [{"ipv4Prefix": "192.0.2.0/24"}, {"ipv6Prefix": "2001:db8::/64"}]}`, with further members that do not matter.
//! A text with an address or a network in each line is the other form; `#` begins a comment. A list is refused as a whole if
//! any part of it is wrong, because half of a list is more likely a failed download than a list.

use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::Value;

/// The networks of a list, at least one and at most [`MAX_PREFIXES`]. The error says why the list is refused, and where.
pub fn parse_list(text: &str) -> Result<Vec<IpNet>, String> {
    let text = text.trim_start_matches('\u{feff}');
    let networks = if text.trim_start().starts_with(['{', '[']) {
        of_json(text)?
    } else {
        of_lines(text)?
    };
    if networks.is_empty() {
        return Err("it contains no address".to_owned());
    }
    Ok(networks)
}

fn of_json(text: &str) -> Result<Vec<IpNet>, String> {
    let value: Value =
        serde_json::from_str(text).map_err(|cause| format!("it is not JSON: {cause}"))?;
    let Some(entries) = value.get("prefixes").and_then(Value::as_array) else {
        return Err("it has no list `prefixes`".to_owned());
    };
    let mut networks = Vec::new();
    for (number, entry) in (1_usize..).zip(entries) {
        let here = |why: String| format!("entry {number} of `prefixes`: {why}");
        let given = ["ipv4Prefix", "ipv6Prefix"].map(|key| entry.get(key));
        let (is_v6, text) = match given {
            [Some(Value::String(text)), None] => (false, text),
            [None, Some(Value::String(text))] => (true, text),
            _ => {
                let why = "it has not exactly one text `ipv4Prefix` or `ipv6Prefix`";
                return Err(here(why.to_owned()));
            }
        };
        let parsed = network(text).map_err(here)?;
        if matches!(parsed, IpNet::V6(_)) != is_v6 {
            let why = format!("`{}` is of the other IP version", cut(text));
            return Err(here(why));
        }
        push(&mut networks, parsed)?;
    }
    Ok(networks)
}

fn of_lines(text: &str) -> Result<Vec<IpNet>, String> {
    let mut networks = Vec::new();
    for (number, line) in (1_usize..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or_default().trim();
        if !line.is_empty() {
            let parsed = network(line).map_err(|why| format!("line {number}: {why}"))?;
            push(&mut networks, parsed)?;
        }
    }
    Ok(networks)
}

fn push(networks: &mut Vec<IpNet>, network: IpNet) -> Result<(), String> {
    if networks.len() == MAX_PREFIXES {
        return Err(format!("it contains more than {MAX_PREFIXES} networks"));
    }
    networks.push(network);
    Ok(())
}

fn network(text: &str) -> Result<IpNet, String> {
    let parsed = text.parse::<IpNet>().ok();
    let parsed = parsed.or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from));
    let Some(network) = parsed else {
        return Err(format!(
            "`{}` is neither an address nor a network",
            cut(text)
        ));
    };
    let least = match network {
        IpNet::V4(_) => MIN_V4,
        IpNet::V6(_) => MIN_V6,
    };
    if network.prefix_len() < least {
        return Err(format!(
            "`{network}` is wider than the network of any crawler (`/{least}`)"
        ));
    }
    Ok(network.trunc())
}

/// The beginning of a text from a file, for a message.
fn cut(text: &str) -> String {
    let shown = text.chars().take(MAX_SHOWN);
    shown
        .map(|sign| if sign.is_control() { '?' } else { sign })
        .collect()
}

const MAX_SHOWN: usize = 60;

/// The maximum size of a list. The largest ones have 1,500 networks in 100 KiB.
pub const MAX_LIST_BYTES: u64 = 4 << 20;

/// The maximum number of networks of a list.
pub const MAX_PREFIXES: usize = 50_000;

/// The widest networks. Those of operators are narrower; `0.0.0.0/0` would make a crawler of every client.
const MIN_V4: u8 = 8;
const MIN_V6: u8 = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    fn parsed(text: &str) -> Vec<String> {
        let networks = parse_list(text).unwrap_or_else(|error| panic!("{error}: {text}"));
        networks.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn both_forms_are_read() {
        let json = r#"{ "creationTime": "2026-11-01T00:00:00.000000",
            "prefixes": [ { "ipv6Prefix": "2001:db8:10::/64" }, { "ipv4Prefix": "192.0.2.7/24", "service": "x" } ] }"#;
        assert_eq!(parsed(json), ["2001:db8:10::/64", "192.0.2.0/24"]);
        let lines = "# published list\r\n192.0.2.0/27 # one\n\n  2001:db8::1\n198.51.100.9\n";
        assert_eq!(
            parsed(lines),
            ["192.0.2.0/27", "2001:db8::1/128", "198.51.100.9/32"]
        );
        assert_eq!(parsed("\u{feff}192.0.2.1"), ["192.0.2.1/32"]);
    }

    #[test]
    fn errors_say_where_and_why() {
        for (text, wanted) in [
            ("", "it contains no address"),
            ("# nothing\n", "it contains no address"),
            (r#"{"prefixes": []}"#, "it contains no address"),
            (r#"{"ranges": []}"#, "it has no list `prefixes`"),
            ("[]", "it has no list `prefixes`"),
            (
                "{\"prefixes\": [\n{,",
                "it is not JSON: key must be a string at line 2 column 2",
            ),
            (
                r#"{"prefixes": [{"ipv4Prefix": "192.0.2.0/24"}, {"ip": "x"}]}"#,
                "entry 2 of `prefixes`: it has not exactly one text",
            ),
            (
                r#"{"prefixes": [{"ipv4Prefix": "192.0.2.0/33"}]}"#,
                "entry 1 of `prefixes`: `192.0.2.0/33` is neither",
            ),
            (
                r#"{"prefixes": [{"ipv4Prefix": "2001:db8::/32"}]}"#,
                "entry 1 of `prefixes`: `2001:db8::/32` is of the other IP version",
            ),
            ("192.0.2.1\n<html>\n", "line 2: `<html>` is neither"),
            ("0.0.0.0/0", "line 1: `0.0.0.0/0` is wider"),
            ("::/8", "line 1: `::/8` is wider"),
        ] {
            let error = parse_list(text).unwrap_err();
            assert!(error.starts_with(wanted), "{text}: {error}");
        }
        let many = "192.0.2.1\n".repeat(MAX_PREFIXES + 1);
        let error = parse_list(&many).unwrap_err();
        assert_eq!(error, "it contains more than 50000 networks");
    }

    fn networks() -> impl Strategy<Value = Vec<IpNet>> {
        let v4 = (any::<u32>(), MIN_V4..=32).prop_map(|(bits, length)| {
            IpNet::new(Ipv4Addr::from_bits(bits).into(), length).unwrap()
        });
        let v6 = (any::<u128>(), MIN_V6..=128).prop_map(|(bits, length)| {
            IpNet::new(Ipv6Addr::from_bits(bits).into(), length).unwrap()
        });
        proptest::collection::vec(prop_oneof![v4, v6], 1..40)
    }

    fn written(networks: &[IpNet]) -> String {
        let entries = networks.iter().map(|network| match network {
            IpNet::V4(network) => serde_json::json!({ "ipv4Prefix": network.to_string() }),
            IpNet::V6(network) => serde_json::json!({ "ipv6Prefix": network.to_string() }),
        });
        let entries: Vec<Value> = entries.collect();
        serde_json::json!({ "creationTime": "now", "prefixes": entries }).to_string()
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(networks in networks()) {
            let wanted: Vec<IpNet> = networks.iter().map(IpNet::trunc).collect();
            prop_assert_eq!(parse_list(&written(&networks)).unwrap(), wanted.clone());
            let lines: Vec<String> = networks.iter().map(ToString::to_string).collect();
            prop_assert_eq!(parse_list(&lines.join("\n")).unwrap(), wanted);
        }

        // A list that was cut off is refused, never half of it accepted.
        #[test]
        fn a_list_that_was_cut_off_is_refused(networks in networks(), share in 0.0..1.0_f64) {
            let text = written(&networks);
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "a share of a length")]
            let cut = (text.len() as f64 * share) as usize;
            prop_assert!(parse_list(&text[..cut]).is_err());
        }

        #[test]
        fn a_damaged_list_never_panics(networks in networks(), at in any::<prop::sample::Index>(), byte: u8) {
            let mut bytes = written(&networks).into_bytes();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            if let Ok(read) = parse_list(&String::from_utf8_lossy(&bytes)) {
                prop_assert!(read.len() <= networks.len() && read.iter().all(|network| network.prefix_len() >= MIN_V4));
            }
        }

        #[test]
        fn any_text_is_accepted_or_refused(text in "\\PC{0,200}") {
            if let Err(error) = parse_list(&text) {
                prop_assert!(!error.contains('\n'));
            }
        }
    }
}
