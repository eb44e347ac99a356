//! Tests of the ledger: gaps, heads, and what a start confirms.

use super::*;

const KEY: [u8; 32] = [1; 32];

/// The nodes have begun separately.
const COMPLETE: HeadComparison = HeadComparison::Complete(Lineage::Other);
/// One has taken over what the other one knows.
const SAME: HeadComparison = HeadComparison::Complete(Lineage::Same);

fn ledger(run: u128) -> Ledger {
    let key = Arc::new(ClusterKey::derive(&KEY, "test").unwrap());
    Ledger::new(key, run, None)
}

fn id(number: u64) -> StreamId {
    StreamId::parse(&format!("{number}-0")).unwrap()
}

fn member(run: u128, head: &[u8]) -> MemberHead {
    let key = ClusterKey::derive(&KEY, "test").unwrap();
    MemberHead::open(&key, format!("n{run} {run:032x}"), true, head)
}

/// Two nodes that have read the same entry, and the heads of each until both have named the other.
struct TwoNodes {
    one: Ledger,
    other: Ledger,
    now: Instant,
}

impl TwoNodes {
    fn new() -> Self {
        let mut nodes = Self {
            one: ledger(1),
            other: ledger(2),
            now: Instant::now(),
        };
        for ledger in [&mut nodes.one, &mut nodes.other] {
            let entry = SequenceEnd {
                run: 2,
                sequence: 1,
                id: id(10),
            };
            assert_eq!(ledger.note(entry, StreamId::START), EntryOrder::Follows);
        }
        nodes
    }

    /// The next head of the other node, which has published up to this number.
    fn other_head(&mut self, sequence: u64) -> Vec<u8> {
        self.now += INTERVAL;
        let own = self.one.next_head(None, self.now);
        assert_eq!(self.other.receive(&[member(1, &own)], self.now), None);
        self.other
            .next_head(Some((sequence, id(9 + sequence))), self.now)
    }

    fn compare(&mut self, head: &[u8]) -> HeadComparison {
        assert_eq!(self.one.receive(&[member(2, head)], self.now), None);
        self.one.compare()
    }
}

#[test]
fn only_a_recent_head_confirms() {
    let mut nodes = TwoNodes::new();
    let unrelated = nodes.other.next_head(Some((1, id(10))), nodes.now);
    assert_eq!(nodes.compare(&unrelated), HeadComparison::NoHead);
    assert_eq!(nodes.one.published_until(id(1), None), None);
    let earlier = nodes.other_head(1);
    assert_eq!(nodes.compare(&earlier), COMPLETE);
    assert_eq!(nodes.one.published_until(id(1), None), Some(id(10)));
    // After a restart of what is known, a head from before says nothing.
    nodes.now += INTERVAL;
    nodes.one.restart(nodes.now);
    assert_eq!(nodes.compare(&earlier), HeadComparison::NoHead);
    assert_eq!(nodes.one.published_until(id(1), None), None);
    let later = nodes.other_head(1);
    assert_eq!(nodes.compare(&later), COMPLETE);
    // It counts once.
    assert_eq!(nodes.compare(&later), HeadComparison::NoHead);
    let later = nodes.other_head(1);
    assert_eq!(nodes.compare(&later), SAME);
    let ends: Vec<u128> = (nodes.one.kept.sequences.ends())
        .map(|end| end.run)
        .collect();
    assert_eq!(ends, [2]);
    nodes.now += FRESH;
    assert_eq!(nodes.compare(&later), HeadComparison::NoHead);
    // A head under the name of another member, and a changed one.
    let mut head = nodes.other_head(1);
    nodes.one.receive(&[member(3, &head)], nodes.now);
    assert!(nodes.one.fresh.is_empty());
    head[30] ^= 1;
    assert_eq!(nodes.compare(&head), HeadComparison::NoHead);
}

#[test]
fn nodes_that_start_at_once_do_not_confirm_each_other() {
    let mut nodes = TwoNodes::new();
    let kept = nodes.one.kept.clone();
    let key = Arc::clone(&nodes.one.key);
    nodes.one = Ledger::new(Arc::clone(&key), 1, Some(kept.clone()));
    nodes.other = Ledger::new(key, 2, Some(kept));
    let head = nodes.other_head(1);
    assert_eq!(nodes.compare(&head), HeadComparison::NoHead);
    // What it knows counts all the same.
    let head = nodes.other_head(2);
    assert_eq!(nodes.compare(&head), HeadComparison::Missing);
    nodes.other.start();
    let head = nodes.other_head(1);
    assert_eq!(nodes.compare(&head), SAME);
}

#[test]
fn heads_are_exchanged_at_once_for_a_new_node_only() {
    let mut node = ledger(1);
    let mut others: Vec<Ledger> = (2..302).map(ledger).collect();
    let mut now = Instant::now();
    let mut receive = |now: Instant| {
        let heads = others.iter_mut().map(|other| {
            let run = other.kept.run;
            member(run, &other.next_head(None, now))
        });
        node.receive(&heads.collect::<Vec<_>>(), now);
        node.is_due(now)
    };
    assert!(receive(now));
    for _ in 0..3 {
        now += interval(300);
        assert!(!receive(now));
    }
}

#[test]
fn members_without_a_head_of_a_node_make_nobody_wait() {
    let names = (0..256).map(|run| format!("n{run} {run:032x}"));
    let key = ClusterKey::derive(&KEY, "test").unwrap();
    let fake = names.map(|name| MemberHead::open(&key, name, true, b"head"));
    let mut members: Vec<MemberHead> = fake.collect();
    let mut nodes = TwoNodes::new();
    let head = nodes.other_head(1);
    members.push(member(2, &head));
    assert_eq!(start_wait(&members), START_WAIT + INTERVAL * 3);
    assert_eq!(nodes.one.receive(&members, nodes.now), None);
    nodes.one.receive(&[member(2, &head)], nodes.now);
    assert!(nodes.one.is_due(nodes.now + INTERVAL));
    assert_eq!(nodes.one.heard(), [member(2, &head).member]);
}

#[test]
fn entries_of_earlier_runs_are_of_no_other_node() {
    let entry = |run, at| SequenceEnd {
        run,
        sequence: 1,
        id: id(at),
    };
    let mut first = ledger(1);
    first.note(entry(1, 10), StreamId::START);
    let mut second = Ledger::new(Arc::clone(&first.key), 2, Some(first.kept));
    second.note(entry(2, 20), StreamId::START);
    let mut third = Ledger::new(Arc::clone(&second.key), 3, Some(second.kept));
    third.note(entry(3, 30), StreamId::START);
    // It reads the stream from its start.
    third.restart(Instant::now());
    for (run, at) in [(1, 10), (2, 20), (3, 30)] {
        third.note(entry(run, at), StreamId::START);
    }
    assert!(third.kept.is_alone);
    third.note(entry(4, 40), StreamId::START);
    assert!(!third.kept.is_alone);
}

#[test]
fn a_head_with_more_purges_shows_that_some_are_missing() {
    let mut nodes = TwoNodes::new();
    let head = nodes.other_head(2);
    assert_eq!(nodes.compare(&head), HeadComparison::Missing);
    // Everything was purged, so that those up to there do not matter.
    nodes.one.restart(nodes.now);
    let head = nodes.other_head(2);
    assert_eq!(nodes.compare(&head), COMPLETE);
    let head = nodes.other_head(3);
    assert_eq!(nodes.compare(&head), HeadComparison::Missing);
}

#[test]
fn a_node_whose_head_stands_still_is_noticed_while_its_lease_holds() {
    let mut nodes = TwoNodes::new();
    let head = nodes.other_head(1);
    nodes.compare(&head);
    let mut silent = Vec::new();
    for _ in 0..20 {
        nodes.now += INTERVAL;
        nodes.one.next_head(None, nodes.now);
        silent.extend(nodes.one.receive(&[member(2, &head)], nodes.now));
        assert_eq!(nodes.one.heard(), [member(2, &head).member]);
    }
    assert_eq!(silent, ["n2"]);
    // One that is away is not, nor is anyone after a pause of this node.
    let away = MemberHead {
        is_present: false,
        ..member(2, &head)
    };
    nodes.one.receive(&[away], nodes.now);
    nodes.now += 10 * SILENCE;
    assert_eq!(nodes.one.receive(&[member(2, &head)], nodes.now), None);
}
