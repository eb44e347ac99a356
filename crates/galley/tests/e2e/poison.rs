//! Cache poisoning: whatever a stranger sends, the next visitor sees nothing of it. Behind the WordPress preset stands a page
//! that shows all that it gets.

use galley_testkit::TestkitError;
use galley_testkit::client::{Connection, Request, Response};

use crate::support::{SiteBuilder, TIMEOUT, TestSite, with_host};

/// What a stranger tries.
pub struct Attempt {
    pub kind: Kind,
    /// As it stands in the list.
    pub text: &'static str,
    /// Found nowhere else.
    pub canary: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Header,
    Query,
    Cookie,
}

/// The list.
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
    /// A field or the part of a query, with the canary.
    pub fn filled(&self) -> String {
        match self.kind {
            Kind::Header => self.canary.clone(),
            Kind::Query => self.text.replace('@', &self.canary),
            Kind::Cookie => format!("{}={}", self.text, self.canary),
        }
    }

    /// A request for a path that says it.
    pub fn request(&self, path: &str) -> Request {
        match self.kind {
            Kind::Header => Request::get(path).field(self.text, self.filled()),
            Kind::Query => Request::get(&format!("{path}?{}", self.filled())),
            Kind::Cookie => Request::get(path).field("Cookie", self.filled()),
        }
    }
}

/// Whether any canary is anywhere in an answer.
pub fn shows_a_canary(answer: &Response) -> bool {
    let text = String::from_utf8_lossy(&answer.raw).to_ascii_lowercase();
    text.contains("canary") && text.contains("evil.test")
}

const ECHO: &str = r#"<?php
header('Content-Type: text/html');
header('X-Said: ' . strtr($_SERVER['QUERY_STRING'] . ($_SERVER['HTTP_COOKIE'] ?? ''), "\r\n", '  '));
echo '<html><body>';
foreach ([$_SERVER, $_GET, $_POST, $_COOKIE, $_ENV] as $all) {
    print_r($all);
}
echo file_get_contents('php://input'), '</body></html>';
"#;

/// One connection after another, whichever side closes.
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
        let answer = connection.exchange(&with_host(request))?;
        let closes = answer
            .field("connection")
            .is_some_and(|option| option.contains("close"));
        if !closes {
            self.connection = Some(connection);
        }
        Ok(answer)
    }
}

#[test]
fn a_page_that_shows_all_it_gets_shows_the_next_visitor_no_canary() {
    let site = SiteBuilder::php().file("index.php", ECHO).start();
    let mut client = Client {
        site: &site,
        connection: None,
    };
    // It does show what it gets: from who has a session, whose requests bypass the cache.
    let own = Request::get("/own?a=canary.evil.test").field("Cookie", "wordpress_logged_in_x=1");
    let own = client.send(own).unwrap().expect_status(200);
    assert!(shows_a_canary(&own) && !own.cache_status().contains("stored"));

    let (mut stored, mut hits, mut complaints) = (0, 0, Vec::new());
    let attempts = attempts();
    for (number, attempt) in attempts.iter().enumerate() {
        let path = format!("/page-{number}");
        let dirty = client.send(attempt.request(&path)).unwrap();
        stored += usize::from(dirty.cache_status().contains("stored"));
        // The same again from somebody else, now and then with a parameter that every site ignores.
        for target in [path.clone(), format!("{path}?utm_source=other")]
            .iter()
            .take(if number % 5 == 0 { 2 } else { 1 })
        {
            let clean = client.send(Request::get(target)).unwrap();
            hits += usize::from(clean.is_hit());
            if clean.status != 200 || shows_a_canary(&clean) {
                let (kind, text) = (attempt.kind, attempt.text);
                complaints.push(format!("{kind:?} {text}: {}", clean.beginning()));
            }
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    // Most are stored as if nothing had been page_value, or else nothing would have been tried.
    assert!(stored > attempts.len() * 3 / 4, "{stored} stored");
    assert!(hits > attempts.len() * 3 / 4, "{hits} hits");
}
