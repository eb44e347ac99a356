//! Sites that share a host on different listeners: `why` and `purge` select the site that responds to the URL.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Output};

use galley_testkit::client::{Request, Response};
use galley_testkit::origin::{Origin, ReceivedRequest, ResponseWriter};
use galley_testkit::{Galley, Scratch, wait_for};
use serde_json::Value;

use crate::support::{TIMEOUT, outcome};

/// A server with two sites for the host `a.test`, each with its own upstream and listener.
struct TwoListeners {
    galley: Galley,
    scratch: Scratch,
    _origins: [Origin; 2],
}

fn page(
    text: &'static str,
) -> impl Fn(&ReceivedRequest, &mut ResponseWriter<'_>) + Send + Sync + 'static {
    move |_, writer| {
        let fields = [
            ("Content-Type", "text/html"),
            ("Cache-Control", "max-age=600"),
        ];
        let body = format!("<html><body>{text}</body></html>");
        writer.respond(200, &fields, body.as_bytes());
    }
}

impl TwoListeners {
    fn start() -> Self {
        let origins = [
            Origin::start(page("first")).unwrap(),
            Origin::start(page("second")).unwrap(),
        ];
        let scratch = Scratch::new().unwrap();
        let socket = scratch.join("admin/admin.sock");
        let [one, two] = origins.each_ref().map(Origin::url);
        let text = format!(
            "[server]\nlisten = [\"127.0.0.1:0\"]\n[admin]\nlisten = \"unix:{}\"\n[cache]\nmemory = \"64MiB\"\n\
             [log]\naccess = \"off\"\n\
             [[site]]\nhosts = [\"a.test\"]\nlisten = [\"127.0.0.1:0\"]\nupstream = [\"{one}\"]\n\
             [[site]]\nhosts = [\"a.test\", \"b.test\"]\nlisten = [\"127.0.0.2:0\"]\nupstream = [\"{two}\"]\n",
            socket.display()
        );
        let binary = Path::new(env!("CARGO_BIN_EXE_galley"));
        let galley = Galley::start_binary(binary, &scratch.join("galley"), &text).unwrap();
        Self {
            galley,
            scratch,
            _origins: origins,
        }
    }

    /// Addresses of the sites, in the order of the configuration.
    fn addresses(&self) -> [SocketAddr; 2] {
        ["127.0.0.1", "127.0.0.2"].map(|ip| {
            let urls = self.galley.urls();
            let text = urls.iter().find(|url| url.contains(ip)).unwrap();
            text.trim_start_matches("http://").parse().unwrap()
        })
    }

    fn get(at: SocketAddr, target: &str) -> Response {
        let host = format!("a.test:{}", at.port());
        Request::get(target).host(&host).send(at).unwrap()
    }

    /// Sends the request of a proxy in front of Galley whose `Host` has no port.
    fn get_through_a_proxy(at: SocketAddr, target: &str) -> Response {
        Request::get(target).host("a.test").send(at).unwrap()
    }

    /// Requests a page until it is a hit.
    fn store(at: SocketAddr, target: &str) {
        wait_for("the page in memory", TIMEOUT, || {
            outcome(&Self::get(at, target)) == "hit"
        });
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let socket = self.scratch.join("admin/admin.sock");
        Command::new(env!("CARGO_BIN_EXE_galley"))
            .args(arguments)
            .arg("--admin")
            .arg(format!("unix:{}", socket.display()))
            .output()
            .unwrap()
    }

    #[track_caller]
    fn why(&self, arguments: &[&str]) -> Value {
        let output = self.run(&[&["why", "--json"], arguments].concat());
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {error}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    #[track_caller]
    fn error_of(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }
}

#[test]
fn why_explains_the_site_at_the_port_of_the_url() {
    let server = TwoListeners::start();
    let [one, two] = server.addresses();
    TwoListeners::store(two, "/page/");
    let at = |address: SocketAddr| format!("http://a.test:{}/page/", address.port());
    let why = server.why(&[&at(two)]);
    assert_eq!(why["now"]["what"], "hit", "{why}");
    assert_eq!(why["site"]["listener"], format!("http://{two}"));
    let why = server.why(&[&at(one)]);
    assert_eq!(why["now"]["what"], "miss", "{why}");
    assert_eq!(why["site"]["listener"], format!("http://{one}"));
    TwoListeners::store(one, "/page/");
    assert_eq!(server.why(&[&at(one)])["now"]["what"], "hit");
    // Only one site has this host, so the port of a proxy in front of Galley does not matter.
    let why = server.why(&["http://b.test/"]);
    assert_eq!(why["site"]["host_pattern"], "b.test", "{why}");
    // This listener exists, but none of its sites has the host.
    let url = format!("http://b.test:{}/", one.port());
    let why = server.why(&[&url]);
    assert_eq!(why["now"]["what"], "refused", "{why}");
    let advice = why["advice"]["why"].as_str().unwrap();
    assert!(advice.contains(&format!("http://{two}")), "{advice}");
}

#[test]
fn why_names_the_sites_that_an_ambiguous_url_may_mean() {
    let server = TwoListeners::start();
    let [one, two] = server.addresses();
    wait_for("the page in memory", TIMEOUT, || {
        outcome(&TwoListeners::get_through_a_proxy(two, "/page/")) == "hit"
    });
    let error = server.error_of(&["why", "http://a.test/page/"]);
    for part in [one.to_string(), two.to_string(), "--site".to_owned()] {
        assert!(error.contains(&part), "{part}: {error}");
    }
    for (site, what) in [(one, "miss"), (two, "hit")] {
        for spelling in [site.to_string(), format!("http://{site}")] {
            let why = server.why(&["http://a.test/page/", "--site", &spelling]);
            assert_eq!(why["now"]["what"], what, "{spelling}: {why}");
        }
    }
    let why = server.why(&["http://a.test/page/", "--site", "b.test"]);
    assert_eq!(why["now"]["what"], "hit", "{why}");
    let error = server.error_of(&["why", "http://a.test/page/", "--site", "a.test"]);
    assert!(error.contains(&two.to_string()), "{error}");
    let error = server.error_of(&["why", "http://a.test/page/", "--site", "nobody.test"]);
    assert!(error.contains("no site `nobody.test`"), "{error}");
}

#[test]
fn a_purge_by_url_reaches_every_site_of_its_host() {
    let server = TwoListeners::start();
    for more in [&[][..], &["--site", "a.test"]] {
        for at in server.addresses() {
            TwoListeners::store(at, "/page/");
        }
        for at in server.addresses() {
            let url = format!("http://a.test:{}/page/", at.port());
            let output = server.run(&[&["purge", "--url", &url], more].concat());
            assert!(output.status.success(), "{output:?}");
            assert_eq!(
                outcome(&TwoListeners::get(at, "/page/")),
                "miss",
                "{url} {more:?}"
            );
            TwoListeners::store(at, "/page/");
        }
    }
}
