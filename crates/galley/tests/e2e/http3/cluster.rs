//! Nodes of a cluster share the keys of HTTP/3: one ends the connections of another one whose datagrams it gets.

use serde_json::json;

use super::client::{get, quic_port, run, start};
use crate::support::{SiteBuilder, TestSite, token_file};

/// A node without an engine, which it would need for pages and purges.
fn node(secret: &str) -> TestSite {
    let builder = SiteBuilder::files().file("page.html", "a page");
    let file = token_file(&builder, "secret", secret);
    start(builder.more(&format!(
        "[cluster]\nengine = \"redis://127.0.0.1:9\"\nkey_file = \"{file}\""
    )))
}

#[test]
fn a_node_resets_the_connections_of_another_one() {
    let secret = "a secret of all nodes, 32 bytes and more";
    let (one, two) = (node(secret), node(secret));
    let stranger = node("another secret, of 32 bytes and more, too");
    for (other, expected) in [(&two, true), (&stranger, false)] {
        let plan = json!({ "streams": [get("/page.html")], "stray": quic_port(other) });
        let found = run(&one, plan).result();
        assert_eq!(found["streams"][0]["status"], 200, "{found}");
        assert_eq!(found["was_reset"], expected, "{found}");
    }
}
