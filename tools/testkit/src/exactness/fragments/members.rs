//! How often a member gets the front page: from its stored form with the member's private fragments, and from PHP.

use std::{thread, time::Duration};

use super::{MemberLoad, MemberRates, stage::Stage};
use crate::{
    TestkitError, client,
    client::{Connection, Request, Response},
    exactness::site::{FRESH, HOST},
};

impl Stage {
    pub(super) fn members(&self, load: MemberLoad<'_>) -> Result<MemberRates, TestkitError> {
        self.site.wordpress.php(&format!(
            "wp_create_user('{MEMBER}', '{PASSWORD}', '{MEMBER}@example.org');"
        ))?;
        let jar = client::login(self.site.addr(), HOST, MEMBER, PASSWORD)?;
        let cookies = jar.field("/").unwrap_or_default();
        let request = |host: &str| {
            Request::get("/")
                .host(host)
                .field("User-Agent", "galley-fragments")
                .cookie(&cookies)
        };
        self.assembled(&request(HOST))?;
        let addr = self.site.addr();
        let mut rate = |host: &str| load(addr, request(host).to_bytes(host));
        let (php, assembled) = (rate(FRESH)?, rate(HOST)?);
        Ok(MemberRates { php, assembled })
    }

    /// Requests the page until the member gets a stored one.
    fn assembled(&self, request: &Request) -> Result<Response, TestkitError> {
        let mut connection = Connection::open(self.site.addr())?;
        let mut seen = Vec::new();
        for _ in 0..ATTEMPTS {
            let response = connection.exchange(request)?.expect_status(200);
            if response.cache_status() == ASSEMBLED {
                return Ok(response);
            }
            seen.push(response.cache_status().to_owned());
            thread::sleep(PAUSE);
        }
        Err(TestkitError::Refused(format!(
            "a member got no stored page: {}",
            seen.join(", ")
        )))
    }
}

const MEMBER: &str = "shipmate";
const PASSWORD: &str = "one for the fragments";
const ASSEMBLED: &str = "galley; hit; detail=assembled";
/// The public page is fetched first, then one page is compared.
const ATTEMPTS: usize = 20;
const PAUSE: Duration = Duration::from_millis(250);
