//! Cache poisoning of a real WordPress: what a stranger says with a request is on no page that others get.

use galley_testkit::client::Request;

use super::stack::Stack;
use crate::poison::{Attempt, Kind, attempts, shows_a_canary};

both! {
    no_canary_is_on_the_next_page,
}

/// Many at once, since each page takes its time; a request has room for a hundred fields. Where one of them keeps the
/// page out of the cache, the others are tried without it.
fn no_canary_is_on_the_next_page(stack: &Stack) {
    stack.publish(["poisoned"]);
    let attempts = attempts();
    let mut tried = Tried {
        stack,
        pages: 0,
        stored: 0,
    };
    for (kind, at_once) in [(Kind::Header, 90), (Kind::Query, 40), (Kind::Cookie, 90)] {
        let of_kind: Vec<&Attempt> = attempts.iter().filter(|one| one.kind == kind).collect();
        for group in of_kind.chunks(at_once) {
            tried.group(kind, group);
        }
    }
    assert!(
        tried.stored > 900,
        "{} of them in a page that was stored",
        tried.stored
    );
}

struct Tried<'s> {
    stack: &'s Stack,
    pages: usize,
    /// Attempts that were part of a request whose page was stored.
    stored: usize,
}

impl Tried<'_> {
    fn group(&mut self, kind: Kind, group: &[&Attempt]) {
        self.pages += 1;
        // A page of its own for each, which nothing was said to before.
        let page = format!("/poisoned/?number={}{kind:?}", self.pages);
        let dirty = self.stack.send(request(&page, kind, group));
        let clean = self.stack.get(&page);
        let names: Vec<&str> = group.iter().map(|one| one.text).collect();
        assert!(!shows_a_canary(&clean), "{names:?}: {}", clean.beginning());
        assert_eq!(clean.status, 200, "{names:?}: {}", clean.beginning());
        // Queries have a page of their own each, so what is stored there is asked for by nobody.
        if kind == Kind::Query || dirty.cache_status().contains("stored") {
            self.stored += group.len();
        } else if group.len() > 1 {
            let (one, other) = group.split_at(group.len() / 2);
            self.group(kind, one);
            self.group(kind, other);
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
