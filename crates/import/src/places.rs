//! Where servers get their requests. Galley has one site for a host, so servers of one host become one site only if nobody reaches one of
//! them who could not reach the other one before: otherwise what only some listener had would be served at all of them.

use std::collections::BTreeSet;

use crate::directive::Directive;
use crate::words::WordList;

/// A server that answers requests for its hosts with more than refusals and redirects.
pub(crate) struct PlacedServer<'d> {
    /// The statement with the block of the server.
    pub head: &'d Directive,
    /// `*` for hosts that no other server has.
    pub hosts: Vec<String>,
    /// Those of [`places`].
    pub places: BTreeSet<String>,
}

/// The places of listeners: an address with its port, without one of the two ports that every visitor uses. All addresses of the machine
/// are one place.
pub(crate) fn places<'l>(listeners: impl Iterator<Item = &'l String>) -> BTreeSet<String> {
    let place = |listener: &String| {
        let listener = listener.replace("[::]:", "0.0.0.0:");
        let usual = [":80", ":443"].iter();
        let mut bare = usual.filter_map(|end| listener.strip_suffix(end));
        bare.next().unwrap_or(&listener).to_owned()
    };
    listeners.map(place).collect()
}

/// The servers that become no site, because another one has a host of theirs at other places, and answers otherwise. Those at the usual
/// ports of all addresses come first.
pub(crate) fn left_out<'d>(mut servers: Vec<PlacedServer<'d>>) -> Vec<&'d Directive> {
    servers.sort_by_key(|one| !one.places.contains(EVERYWHERE));
    let (mut kept, mut left): (Vec<PlacedServer<'d>>, Vec<_>) = (Vec::new(), Vec::new());
    for one in servers {
        let is_other = |known: &PlacedServer<'_>| {
            let shares = known.hosts.iter().any(|host| one.hosts.contains(host));
            shares && known.places != one.places && shape(known.head) != shape(one.head)
        };
        if kept.iter().any(is_other) {
            one.head.not_carried(OTHER_LISTENERS);
            left.push(one.head);
        } else {
            kept.push(one);
        }
    }
    left
}

/// The statements of a server, without those about its listeners, certificates and logs.
fn shape(head: &Directive) -> Vec<&[String]> {
    let is_meant = |one: &&Directive| {
        !OF_LISTENERS
            .iter()
            .any(|start| one.name().starts_with(start))
    };
    let mut pieces = Vec::new();
    for one in head.inner().iter().filter(is_meant) {
        pieces.push(one.words.as_slice());
        pieces.extend(shape(one));
        // The end of a block.
        pieces.push(&[]);
    }
    pieces
}

/// Beginnings of statements that two servers with the same answers may have differently.
const OF_LISTENERS: WordList = WordList(
    "listen http2 ssl_certificate ssl_protocols ssl_ciphers ssl_session ssl_prefer ssl_dhparam ssl_stapling access_log error_log
    sslengine sslcertificate sslprotocol sslcipher errorlog customlog",
);

const EVERYWHERE: &str = "0.0.0.0";

/// Why a server becomes no site.
pub(crate) const OTHER_LISTENERS: &str = "another server has this host at other listeners, and Galley has one site for a host: nothing of this one is served, so that nobody \
     gets what only its listener had. Give it a host of its own";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_ports_of_all_addresses_are_one_place() {
        let of = |all: &[&str]| {
            let all: Vec<String> = all.iter().map(|one| (*one).to_owned()).collect();
            places(all.iter())
        };
        assert_eq!(of(&["0.0.0.0:80", "[::]:443"]), of(&["0.0.0.0:443"]));
        for other in ["0.0.0.0:8080", "127.0.0.1:80", "[::1]:443", "unix:/a:80"] {
            assert_ne!(of(&[other]), of(&["0.0.0.0:80"]), "{other}");
        }
    }
}
