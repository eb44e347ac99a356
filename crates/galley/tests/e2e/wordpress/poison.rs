//! Cache poisoning with a real WordPress: request data of one client must not appear in the page of the next client.

use galley_testkit::client::Request;

use super::stack::WordPressStack;
use crate::poison::{Attempt, Kind, attempts, shows_a_canary};

test_with_shared_stacks! {
    request_data_does_not_poison_stored_pages,
}

/// Sends many attempts per request, because WordPress needs long for each page. A request may have a hundred fields. If one of
/// the attempts prevents storing, the group is split and sent again.
fn request_data_does_not_poison_stored_pages(stack: &WordPressStack) {
    stack.publish(["poisoned"]);
    let attempts = attempts();
    let mut poisoning = Poisoning {
        stack,
        pages: 0,
        stored: 0,
    };
    for (kind, group_size) in [(Kind::Header, 90), (Kind::Query, 40), (Kind::Cookie, 90)] {
        let of_kind: Vec<&Attempt> = attempts.iter().filter(|one| one.kind == kind).collect();
        for group in of_kind.chunks(group_size) {
            poisoning.send_group(kind, group);
        }
    }
    assert!(
        poisoning.stored > 900,
        "only {} attempts were part of a stored page",
        poisoning.stored
    );
}

struct Poisoning<'s> {
    stack: &'s WordPressStack,
    pages: usize,
    /// Attempts in requests whose page was stored.
    stored: usize,
}

impl Poisoning<'_> {
    fn send_group(&mut self, kind: Kind, group: &[&Attempt]) {
        self.pages += 1;
        // Each group gets a page that was not requested before.
        let page = format!("/poisoned/?number={}{kind:?}", self.pages);
        let poisoned = self.stack.send(request(&page, kind, group));
        let clean = self.stack.get(&page);
        let names: Vec<&str> = group.iter().map(|one| one.text).collect();
        assert!(!shows_a_canary(&clean), "{names:?}: {}", clean.excerpt());
        assert_eq!(clean.status, 200, "{names:?}: {}", clean.excerpt());
        // A query is part of the cache key, so no other client requests the stored page.
        if kind == Kind::Query || poisoned.cache_status().contains("stored") {
            self.stored += group.len();
        } else if group.len() > 1 {
            let (first, second) = group.split_at(group.len() / 2);
            self.send_group(kind, first);
            self.send_group(kind, second);
        }
    }
}

fn request(page: &str, kind: Kind, group: &[&Attempt]) -> Request {
    let filled: Vec<String> = group.iter().map(|one| one.filled()).collect();
    match kind {
        Kind::Header => group.iter().fold(Request::get(page), |request, one| {
            request.field(one.text, one.filled())
        }),
        Kind::Query => Request::get(&format!("{page}&{}", filled.join("&"))),
        Kind::Cookie => Request::get(page).field("Cookie", filled.join("; ")),
    }
}
