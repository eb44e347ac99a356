//! Order and bounds of the admission queue, and its properties under arbitrary operations.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn identity(class: Class, client: u32) -> QueueIdentity {
    QueueIdentity {
        class,
        trust: Trust::Plain,
        client: Network::V4(client),
    }
}

fn proven(class: Class, client: u32) -> QueueIdentity {
    QueueIdentity {
        trust: Trust::Proven,
        ..identity(class, client)
    }
}

/// Clients of all trusts, by their number.
fn any_trust(class: Class, client: u32) -> QueueIdentity {
    QueueIdentity {
        trust: standing(class, client).trust,
        ..identity(class, client)
    }
}

fn served(queue: &mut AdmissionQueue<&'static str>) -> Vec<&'static str> {
    std::iter::from_fn(|| queue.pop(|_, _| true).map(|(_, _, name)| name)).collect()
}

#[test]
fn clients_take_turns_and_their_own_requests_stay_in_order() {
    let mut queue = AdmissionQueue::new(100);
    for (client, name) in [
        (1, "a1"),
        (1, "a2"),
        (1, "a3"),
        (2, "b1"),
        (3, "c1"),
        (2, "b2"),
    ] {
        queue.join(identity(Class::Visitor, client), name);
    }
    assert_eq!(served(&mut queue), ["a1", "b1", "c1", "a2", "b2", "a3"]);
}

#[test]
fn a_new_client_waits_for_other_clients_not_for_all_their_requests() {
    let mut queue = AdmissionQueue::new(1000);
    for _ in 0..500 {
        queue.join(identity(Class::Visitor, 1), "crawl");
    }
    queue.pop(|_, _| true);
    queue.join(identity(Class::Visitor, 2), "reader");
    queue.join(identity(Class::Editor, 3), "save");
    let first: Vec<_> = (0..3)
        .filter_map(|_| queue.pop(|_, _| true))
        .map(|(_, _, name)| name)
        .collect();
    assert!(
        first.contains(&"save") && first.contains(&"reader"),
        "{first:?}"
    );
}

/// A class that was held back at its bound and is served at last does not hand the time that it missed to another class.
#[test]
fn a_class_that_was_held_back_gives_no_other_class_an_advantage() {
    let mut queue = AdmissionQueue::new(10_000);
    for _ in 0..1_000 {
        queue.join(identity(Class::Visitor, 1), "visitor");
        queue.join(identity(Class::Login, 2), "login");
    }
    // Logins are at their bound meanwhile.
    for _ in 0..500 {
        queue
            .pop(|identity, _| identity.class != Class::Login)
            .unwrap();
    }
    let (_, _, name) = queue.pop(|_, _| true).unwrap();
    assert_eq!(name, "login");
    for _ in 0..500 {
        queue.join(identity(Class::Crawler, 3), "crawler");
    }
    let next = (0..60).map(|_| {
        queue
            .pop(|identity, _| identity.class != Class::Login)
            .unwrap()
    });
    let visitors = next.filter(|(_, _, name)| *name == "visitor").count();
    assert!(visitors >= 35, "{visitors} of 60");
}

#[test]
fn classes_get_their_shares_and_gain_nothing_from_an_absence() {
    let mut queue = AdmissionQueue::new(10_000);
    let fill = |queue: &mut AdmissionQueue<&'static str>, class: Class, count| {
        for _ in 0..count {
            queue.join(identity(class, 1), class.word());
        }
    };
    fill(&mut queue, Class::Visitor, 500);
    for _ in 0..300 {
        queue.pop(|_, _| true);
    }
    // A flood of (possibly forged) editors gets no more than its share.
    fill(&mut queue, Class::Editor, 500);
    fill(&mut queue, Class::Crawler, 500);
    let mut counts = BTreeMap::new();
    for _ in 0..250 {
        let (_, identity, _) = queue.pop(|_, _| true).unwrap();
        *counts.entry(identity.class.word()).or_insert(0) += 1;
    }
    for (class, wanted) in [("crawler", 50), ("editor", 100), ("visitor", 100)] {
        let count: i32 = counts[class];
        assert!((count - wanted).abs() <= 1, "{counts:?}");
    }
}

#[test]
fn a_full_queue_evicts_the_newest_request_of_the_largest_client() {
    let mut queue = AdmissionQueue::new(4);
    for name in ["a1", "a2", "a3", "a4"] {
        assert!(matches!(
            queue.join(identity(Class::Visitor, 1), name),
            JoinResult::Waits(_)
        ));
    }
    assert_eq!(
        queue.join(identity(Class::Visitor, 1), "a5"),
        JoinResult::Refused
    );
    let joined = queue.join(identity(Class::Visitor, 2), "b1");
    assert!(
        matches!(joined, JoinResult::Evicting(_, "a4")),
        "{joined:?}"
    );
    let joined = queue.join(identity(Class::Editor, 3), "e1");
    assert!(
        matches!(joined, JoinResult::Evicting(_, "a3")),
        "{joined:?}"
    );
    // Now no client exceeds its share.
    assert_eq!(
        queue.join(identity(Class::Visitor, 2), "b2"),
        JoinResult::Refused
    );
    assert_eq!(served(&mut queue), ["e1", "a1", "b1", "a2"]);
}

#[test]
fn many_clients_of_one_class_do_not_starve_another_class() {
    let mut queue = AdmissionQueue::new(40);
    for client in 0..100 {
        queue.join(identity(Class::Editor, client), "forged");
    }
    let joined = queue.join(identity(Class::Visitor, 1000), "reader");
    assert!(
        matches!(joined, JoinResult::Evicting(_, "forged")),
        "{joined:?}"
    );
    let first: Vec<_> = (0..2)
        .filter_map(|_| queue.pop(|_, _| true))
        .map(|(_, _, name)| name)
        .collect();
    assert!(first.contains(&"reader"), "{first:?}");
}

#[test]
fn a_promoted_request_is_served_before_the_crawl() {
    let mut queue = AdmissionQueue::new(100);
    let mut last = None;
    for number in 0..50 {
        let name = if number == 49 { "wanted" } else { "crawl" };
        if let JoinResult::Waits(ticket) = queue.join(identity(Class::Crawler, 1), name) {
            last = Some(ticket);
        }
    }
    let last = last.unwrap();
    queue.promote(last, identity(Class::Visitor, 2));
    // A longer queue of another client does not delay a request.
    queue.promote(last, identity(Class::Crawler, 1));
    let held = queue.identity_of(last).map(|identity| identity.class);
    assert_eq!(held, Some(Class::Visitor));
    let first: Vec<_> = (0..2)
        .filter_map(|_| queue.pop(|_, _| true))
        .map(|(_, _, name)| name)
        .collect();
    assert!(first.contains(&"wanted"), "{first:?}");
    assert_eq!(served(&mut queue).len(), 48);
}

#[test]
fn a_request_is_moved_only_if_it_is_served_sooner() {
    let mut queue = AdmissionQueue::new(100);
    let mut tickets = Vec::new();
    for name in ["a0", "a1", "a2", "a3"] {
        if let JoinResult::Waits(ticket) = queue.join(identity(Class::Visitor, 1), name) {
            tickets.push(ticket);
        }
    }
    queue.join(identity(Class::Visitor, 2), "b0");
    // It would be second in the other queue as well.
    queue.promote(tickets[1], identity(Class::Visitor, 2));
    queue.promote(tickets[3], identity(Class::Visitor, 2));
    assert_eq!(served(&mut queue), ["a0", "b0", "a1", "a3", "a2"]);
}

#[test]
fn canceled_requests_use_no_memory() {
    let mut queue = AdmissionQueue::new(100);
    for client in 0..10_000 {
        if let JoinResult::Waits(ticket) = queue.join(identity(Class::Visitor, client % 5000), "x")
        {
            queue.leave(ticket);
        }
    }
    let JoinResult::Waits(_stays) = queue.join(identity(Class::Visitor, 1), "stays") else {
        panic!("there is room");
    };
    for _ in 0..10_000 {
        if let JoinResult::Waits(ticket) = queue.join(identity(Class::Visitor, 1), "x") {
            queue.leave(ticket);
        }
    }
    let class = queue.class_queue(Class::Visitor).unwrap();
    let (clients, tickets) = class.of(Trust::Plain).unwrap().entries();
    assert!(clients <= 2 && tickets <= 2, "{class:?}");
    assert_eq!(queue.len(), 1);
}

#[derive(Clone, Debug)]
enum Step {
    Join(usize, u32),
    Cancel(usize),
    Promote(usize, usize, u32),
    Pop,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let class = 0..Class::ALL.len();
    let step = prop_oneof![
        4 => (class.clone(), 0_u32..4).prop_map(|(class, client)| Step::Join(class, client)),
        1 => any::<usize>().prop_map(Step::Cancel),
        1 => (any::<usize>(), class, 0_u32..4).prop_map(|(at, class, client)| Step::Promote(at, class, client)),
        2 => Just(Step::Pop),
    ];
    proptest::collection::vec(step, 0..200)
}

fn standing(class: Class, client: u32) -> Standing {
    Standing {
        class,
        trust: Trust::ALL[client as usize % Trust::ALL.len()],
    }
}

#[test]
fn proven_clients_go_first_and_do_not_starve_the_others() {
    let mut queue = AdmissionQueue::new(100);
    for client in 0..8 {
        queue.join(identity(Class::Visitor, client), "new");
    }
    for client in 10..16 {
        queue.join(proven(Class::Visitor, client), "seen");
    }
    let order = served(&mut queue);
    assert_eq!(
        order[..8],
        ["seen", "seen", "seen", "new", "seen", "seen", "seen", "new"]
    );
    assert_eq!(order.len(), 14);
}

#[test]
fn plain_clients_go_before_doubtful_ones_after_the_proven() {
    let of = |trust, client| QueueIdentity {
        trust,
        ..identity(Class::Visitor, client)
    };
    let mut queue = AdmissionQueue::new(200);
    for client in 0..40 {
        queue.join(of(Trust::Doubtful, client), "doubtful");
        queue.join(of(Trust::Plain, client), "plain");
        queue.join(of(Trust::Proven, client), "proven");
    }
    let order = served(&mut queue);
    let of_32 = |name| order[..32].iter().filter(|one| **one == name).count();
    assert_eq!(
        [of_32("proven"), of_32("plain"), of_32("doubtful")],
        [24, 6, 2]
    );
    assert_eq!(order.len(), 120);
}

#[test]
fn a_network_without_proof_is_one_client() {
    let new = |trust, address: &str| {
        let standing = Standing {
            class: Class::Visitor,
            trust,
        };
        QueueIdentity::new(standing, Network::of(address.parse().unwrap()))
    };
    let mut queue = AdmissionQueue::new(4);
    for host in 1..=4 {
        let joined = queue.join(new(Trust::Plain, &format!("192.0.2.{host}")), "crawl");
        assert!(matches!(joined, JoinResult::Waits(_)));
    }
    let again = queue.join(new(Trust::Plain, "192.0.2.9"), "crawl");
    assert_eq!(again, JoinResult::Refused);
    // A person from elsewhere has a turn of their own, also if somebody in the crawl's network has proved a visit.
    for (trust, address, name) in [
        (Trust::Plain, "198.51.100.1", "person"),
        (Trust::Proven, "192.0.2.5", "neighbor"),
    ] {
        let joined = queue.join(new(trust, address), name);
        assert!(matches!(joined, JoinResult::Evicting(_, "crawl")), "{name}");
    }
    assert_eq!(served(&mut queue), ["neighbor", "crawl", "person", "crawl"]);
    let ranges = ["2001:db8:1:2::1", "2001:db8:1:3::1", "2001:db8:2::1"];
    let [one, same, other] = ranges.map(|address| new(Trust::Plain, address));
    assert!(one == same && one != other);
}

#[test]
fn a_proven_client_gets_a_place_in_a_queue_full_of_unproven_ones() {
    let mut queue = AdmissionQueue::new(40);
    for client in 0..40 {
        queue.join(identity(Class::Visitor, client), "crawl");
    }
    let new = identity(Class::Visitor, 50);
    assert!(queue.is_full_for(new), "unproven");
    assert_eq!(queue.join(new, "new"), JoinResult::Refused);
    assert!(!queue.is_full_for_class(standing(Class::Visitor, 0)));
    let joined = queue.join(proven(Class::Visitor, 51), "seen");
    assert!(
        matches!(joined, JoinResult::Evicting(_, "crawl")),
        "{joined:?}"
    );
    // Only with its first request: a proven client cannot fill the queue at the expense of others.
    assert_eq!(
        queue.join(proven(Class::Visitor, 51), "seen"),
        JoinResult::Refused
    );
}

proptest! {
    #[test]
    fn no_request_is_lost_or_served_twice_and_limits_are_kept(steps in steps(), most in 1_usize..20) {
        let mut queue = AdmissionQueue::new(most);
        let mut waiting: BTreeMap<u64, QueueTicket> = BTreeMap::new();
        for (number, step) in (0_u64..).zip(steps) {
            match step {
                Step::Join(class, client) => {
                  let class = Class::ALL[class];
                  let (is_full, is_full_for_class) = (queue.is_full_for(any_trust(class, client)), queue.is_full_for_class(standing(class, client)));
                  prop_assert!(is_full || !is_full_for_class);
                  prop_assert_eq!(queue.is_full_for(any_trust(class, 999 + client % 3)), is_full_for_class, "a client without queued requests");
                  let joined = queue.join(any_trust(class, client), number);
                  prop_assert_eq!(matches!(joined, JoinResult::Refused), is_full);
                  match joined {
                    JoinResult::Waits(ticket) => {
                        prop_assert!(waiting.len() < most);
                        waiting.insert(number, ticket);
                    }
                    JoinResult::Evicting(ticket, evicted) => {
                        prop_assert!(waiting.remove(&evicted).is_some());
                        waiting.insert(number, ticket);
                    }
                    JoinResult::Refused => prop_assert_eq!(waiting.len(), most),
                  }
                }
                Step::Cancel(at) if !waiting.is_empty() => {
                    let number = *waiting.keys().nth(at % waiting.len()).unwrap();
                    let ticket = waiting.remove(&number).unwrap();
                    prop_assert_eq!(queue.leave(ticket).unwrap().1, number);
                    prop_assert!(queue.leave(ticket).is_none());
                }
                Step::Promote(at, class, client) if !waiting.is_empty() => {
                    let ticket = *waiting.values().nth(at % waiting.len()).unwrap();
                    queue.promote(ticket, any_trust(Class::ALL[class], client));
                }
                Step::Cancel(_) | Step::Promote(..) => {}
                Step::Pop => match queue.pop(|_, _| true) {
                    Some((_, _, number)) => prop_assert!(waiting.remove(&number).is_some()),
                    None => prop_assert!(waiting.is_empty()),
                },
            }
            prop_assert_eq!(queue.len(), waiting.len());
            let sum: usize = Class::ALL.iter().map(|class| queue.len_of(*class)).sum();
            prop_assert_eq!(sum, waiting.len());
        }
        while let Some((_, _, number)) = queue.pop(|_, _| true) {
            prop_assert!(waiting.remove(&number).is_some());
        }
        prop_assert!(waiting.is_empty());
    }

    /// A request is served within as many slots as there are classes times queued clients, whatever the lengths of
    /// their queues: no starvation.
    #[test]
    fn a_new_client_is_served_within_a_limited_number_of_slots(
        classes in proptest::collection::vec((0..Class::ALL.len(), 0_u32..6, 1_usize..60), 0..20),
        already in 0_usize..40,
        class in 0..Class::ALL.len(),
    ) {
        let mut queue = AdmissionQueue::new(usize::MAX);
        let mut clients = std::collections::BTreeSet::new();
        for (class, client, count) in classes {
            clients.insert((class, client));
            for _ in 0..count {
                queue.join(any_trust(Class::ALL[class], client), false);
            }
        }
        for _ in 0..already {
            queue.pop(|_, _| true);
        }
        let class = Class::ALL[class];
        queue.join(any_trust(class, 99), true);
        let of_class = clients.iter().filter(|(c, _)| Class::ALL[*c] == class).count() as u64;
        let all: u64 = Class::ALL.iter().map(|class| class.share()).sum();
        // The least trusted have one of sixteen turns of their class.
        let turns = u64::from((FIRST_TURNS + 1).pow(2)) * (of_class + 1);
        let bound = turns * all.div_ceil(class.share()) + Class::ALL.len() as u64;
        let mut position = 0;
        while let Some((_, _, is_ours)) = queue.pop(|_, _| true) {
            position += 1;
            if is_ours {
                break;
            }
        }
        prop_assert!(position <= bound, "{position} of at most {bound}");
    }
}
