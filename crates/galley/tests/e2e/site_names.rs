//! The name of a site: what belongs to it, and where it is accepted in place of a host.

use std::fs;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};

use galley_testkit::client::Request;

use crate::support::{AssertStatus, SiteBuilder, TestSite, output_text};

/// Writes the default token file for a name, beside the configuration.
fn write_token(builder: &SiteBuilder, name: &str) {
    let tokens = builder.scratch.dir("galley").unwrap().join("tokens");
    let mut folder = fs::DirBuilder::new();
    folder.recursive(true).mode(0o700).create(&tokens).unwrap();
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).mode(0o600);
    let mut file = options.open(tokens.join(format!("{name}.token"))).unwrap();
    std::io::Write::write_all(&mut file, TOKEN.as_bytes()).unwrap();
}

const TOKEN: &str = "a-token-of-the-site-0123456789";

/// Replaces the configuration and reloads it; returns the output of the command.
fn reload(site: &TestSite, from: &str, to: &str) -> String {
    let before = fs::read_to_string(site.galley.config()).unwrap();
    assert!(before.contains(from), "{before}");
    fs::write(site.galley.config(), before.replace(from, to)).unwrap();
    let output = site.galley.cli(&["reload"]).unwrap();
    assert!(output.status.success(), "{}", output_text(&output));
    output_text(&output)
}

fn get(site: &TestSite, host: &str) -> bool {
    let response = site.send(Request::get("/page/").host(host));
    response.assert_status(200);
    response.is_hit()
}

#[test]
fn hosts_in_another_order_keep_pages_and_the_token() {
    let builder = SiteBuilder::php()
        .disk()
        .site("hosts = [\"www.example.test\", \"example.test\"]");
    // The file of a version that named the site after its first host.
    write_token(&builder, "www.example.test");
    let mut site = builder.start();
    let has_token = |site: &TestSite| {
        site.admin("GET /status", Some(TOKEN), "")
            .starts_with("HTTP/1.1 200")
    };
    assert!(has_token(&site));
    get(&site, "example.test");
    site.wait_for_disk(1);
    let swapped = "hosts = [\"example.test\", \"www.example.test\"]";
    let output = reload(
        &site,
        "hosts = [\"www.example.test\", \"example.test\"]",
        swapped,
    );
    assert!(
        output.contains("site `example.test`: hosts changed\n"),
        "{output}"
    );
    assert!(get(&site, "example.test") && has_token(&site));
    site.restart();
    assert!(get(&site, "example.test") && has_token(&site));
    let named =
        "name = \"example.test\"\nhosts = [\"a.test\", \"www.example.test\", \"example.test\"]";
    reload(&site, swapped, named);
    assert!(get(&site, "example.test"), "the name has not changed");
    let check = |to: &str| {
        let before = fs::read_to_string(site.galley.config()).unwrap();
        fs::write(site.galley.config(), before.replace(named, to)).unwrap();
        let output = site.galley.cli(&["check", "--diff"]).unwrap();
        fs::write(site.galley.config(), before).unwrap();
        output_text(&output)
    };
    let output = check("hosts = [\"a.test\", \"example.test\"]");
    for part in [
        "site `a.test`: it was `example.test`, whose stored pages, purges and counters it does not use",
        "and its token is not that of `",
        "`name = \"example.test\"` keeps them",
    ] {
        assert!(output.contains(part), "{part}: {output}");
    }
}

#[test]
fn a_site_for_every_host_is_addressed_by_its_name_and_by_its_hosts() {
    let mut site = SiteBuilder::php().site("hosts = [\"*\"]").start();
    for line in ["", "name = \"shop\"\n"] {
        let before = fs::read_to_string(site.galley.config()).unwrap();
        site.restart_with(&before.replace("[[site]]\n", &format!("[[site]]\n{line}")));
        let name = if line.is_empty() { "any" } else { "shop" };
        let status = site.status();
        assert!(status.contains(&format!("\"name\":\"{name}\"")), "{status}");
        for text in [name, "*", "some.test"] {
            get(&site, "some.test");
            assert!(get(&site, "some.test"));
            site.purge(&["--site", text, "--all"]);
            assert!(!get(&site, "some.test"), "{text}");
            let encoded = text.replace('*', "%2A");
            for view in [
                "history",
                "cache",
                "purges",
                "config",
                "status",
                "not-cached",
            ] {
                let reply = site.admin(&format!("GET /{view}?site={encoded}"), None, "");
                assert!(reply.starts_with("HTTP/1.1 200"), "{view} {text}: {reply}");
            }
            let why = ["why", "http://some.test/page/", "--site", text];
            let why = site.galley.cli(&why).unwrap();
            assert!(why.status.success(), "{text}: {}", output_text(&why));
        }
        let metrics = site.metrics();
        assert!(metrics.contains(&format!("site=\"{name}\"")), "{metrics}");
        let output = site.galley.cli(&["purge", "--site", "nobody", "--all"]);
        let is_any = output_text(&output.unwrap());
        assert!(
            !is_any.contains("no site"),
            "every host is served: {is_any}"
        );
    }
}
