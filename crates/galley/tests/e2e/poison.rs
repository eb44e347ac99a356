//! Cache poisoning: no request of an attacker changes the response of the next visitor. The site has the WordPress preset and a
//! page that prints the whole request.

use galley_testkit::TestkitError;
use galley_testkit::client::{Connection, Request, Response};

use crate::support::{SiteBuilder, TIMEOUT, TestSite, with_host};

/// One attempt to poison the cache.
pub struct Attempt {
    pub kind: Kind,
    /// The line of `poison.txt`.
    pub text: &'static str,
    /// A host name that appears in no other attempt.
    pub canary: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Header,
    Query,
    Cookie,
}

/// All attempts in `poison.txt`.
pub fn attempts() -> Vec<Attempt> {
    let mut kind = None;
    let mut attempts = Vec::new();
    for line in include_str!("poison.txt").lines() {
        match line {
            "" => {}
            "# header" => kind = Some(Kind::Header),
            "# query" => kind = Some(Kind::Query),
            "# cookie" => kind = Some(Kind::Cookie),
            text => attempts.extend(kind.map(|kind| Attempt {
                kind,
                text,
                canary: format!("canary{:04}.evil.test", attempts.len()),
            })),
        }
    }
    assert!(attempts.len() >= 1000, "{} attempts", attempts.len());
    attempts
}

impl Attempt {
    /// The field value, query or cookie with the canary.
    pub fn filled(&self) -> String {
        match self.kind {
            Kind::Header => self.canary.clone(),
            Kind::Query => self.text.replace('@', &self.canary),
            Kind::Cookie => format!("{}={}", self.text, self.canary),
        }
    }

    /// A request for `path` that makes the attempt.
    pub fn request(&self, path: &str) -> Request {
        match self.kind {
            Kind::Header => Request::get(path).field(self.text, self.filled()),
            Kind::Query => Request::get(&format!("{path}?{}", self.filled())),
            Kind::Cookie => Request::get(path).field("Cookie", self.filled()),
        }
    }
}

/// Whether a response contains a canary.
pub fn shows_a_canary(response: &Response) -> bool {
    let text = String::from_utf8_lossy(&response.raw).to_ascii_lowercase();
    text.contains("canary") && text.contains("evil.test")
}

const ECHO: &str = r#"<?php
header('Content-Type: text/html');
header('X-Echo: ' . strtr($_SERVER['QUERY_STRING'] . ($_SERVER['HTTP_COOKIE'] ?? ''), "\r\n", '  '));
echo '<html><body>';
foreach ([$_SERVER, $_GET, $_POST, $_COOKIE, $_ENV] as $all) {
    print_r($all);
}
echo file_get_contents('php://input'), '</body></html>';
"#;

/// A client that keeps its connection and opens another when the server closes it.
struct Client<'s> {
    site: &'s TestSite,
    connection: Option<Connection>,
}

impl Client<'_> {
    fn send(&mut self, request: Request) -> Result<Response, TestkitError> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => Connection::within(self.site.addr(), TIMEOUT)?,
        };
        let response = connection.exchange(&with_host(request))?;
        let closes = response
            .field("connection")
            .is_some_and(|option| option.contains("close"));
        if !closes {
            self.connection = Some(connection);
        }
        Ok(response)
    }
}

#[test]
fn no_canary_of_an_attacker_reaches_the_next_visitor() {
    let site = SiteBuilder::php().file("index.php", ECHO).start();
    let mut client = Client {
        site: &site,
        connection: None,
    };
    // Control: the page prints the canary of a logged-in user, whose requests bypass the cache.
    let authenticated =
        Request::get("/session?a=canary.evil.test").field("Cookie", "wordpress_logged_in_x=1");
    let authenticated = client.send(authenticated).unwrap().expect_status(200);
    assert!(shows_a_canary(&authenticated) && !authenticated.cache_status().contains("stored"));

    let (mut stored, mut hits, mut failures) = (0, 0, Vec::new());
    let attempts = attempts();
    for (number, attempt) in attempts.iter().enumerate() {
        let path = format!("/page-{number}");
        let poisoned_response = client.send(attempt.request(&path)).unwrap();
        stored += usize::from(poisoned_response.cache_status().contains("stored"));
        // The same page for another visitor, for every fifth attempt also with a parameter that every site ignores.
        for target in [path.clone(), format!("{path}?utm_source=other")]
            .iter()
            .take(if number % 5 == 0 { 2 } else { 1 })
        {
            let next_response = client.send(Request::get(target)).unwrap();
            hits += usize::from(next_response.is_hit());
            if next_response.status != 200 || shows_a_canary(&next_response) {
                let (kind, text) = (attempt.kind, attempt.text);
                failures.push(format!("{kind:?} {text}: {}", next_response.excerpt()));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    // Most responses are stored like those of ordinary requests. Otherwise the test would try nothing.
    assert!(stored > attempts.len() * 3 / 4, "{stored} stored");
    assert!(hits > attempts.len() * 3 / 4, "{hits} hits");
}
