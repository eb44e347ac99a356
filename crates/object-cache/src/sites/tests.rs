//! The protocol against a model: a database, processes that die, lose messages or deliver them late, stores that restart, and nodes of a
//! cluster that are cut off.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;
use crate::site::ObjectCacheSite;

const KEYS: usize = 3;
const PROCESSES: usize = 3;

#[derive(Clone, Copy, Debug)]
enum Step {
    Begin,
    /// Asks the store, then the database.
    Read(usize),
    /// Reads the database without asking the store, as `WP_Query` does.
    Query(usize),
    Fill(usize, Fill),
    Write(usize),
    /// Announces all writes.
    Announce(Announce),
    End,
    Kill,
    FlushGroup,
    Evict,
    Restart,
    /// The node of the process hears nothing of the others any more, nor they of it.
    Cut,
    /// The lease of a node that was cut off ends.
    Expire,
    Heal,
    /// Delivers the oldest message that was late.
    Late,
}

#[derive(Clone, Copy, Debug)]
enum Fill {
    Add,
    Set,
    /// The process gives up before the message arrives.
    LateAdd,
    LateSet,
}

#[derive(Clone, Copy, Debug)]
enum Announce {
    Delete,
    Set,
    /// No answer comes in time: the process raises the fence.
    Lost,
    /// The same, and the message arrives later.
    LostAndLate,
}

struct World {
    nodes: Vec<Node>,
    /// What nodes have announced, in its order.
    stream: Vec<(usize, Vec<u8>)>,
    fence: u64,
    database: [u64; KEYS],
    /// The last write of each key that is complete.
    complete: [u64; KEYS],
    processes: Vec<Process>,
    late: VecDeque<(usize, Vec<u8>)>,
    /// Sessions whose process has given up, but whose connection the store of the node still has.
    left: Vec<(usize, Option<PhpSession>)>,
}

struct Node {
    sites: ObjectSites,
    /// Entries of the stream that it has applied.
    applied: usize,
    is_cut: bool,
    has_lease: bool,
    /// What it could not announce.
    outbox: Vec<Vec<u8>>,
}

impl Node {
    fn state(&self) -> NodeState {
        if self.has_lease {
            NodeState::Current
        } else {
            NodeState::Behind
        }
    }
}

#[derive(Default)]
struct Process {
    session: Option<PhpSession>,
    counter: u64,
    complete: [u64; KEYS],
    /// Keys that had no value when it began.
    absent: [bool; KEYS],
    /// A row or value, and the counter of the answer.
    read: [Option<(u64, u64)>; KEYS],
    /// Key, value, and the lease from before the write.
    written: Vec<(usize, u64, u64)>,
}

impl World {
    fn new(nodes: usize) -> Self {
        let mut world = Self {
            nodes: Vec::new(),
            stream: Vec::new(),
            fence: 0,
            database: [0; KEYS],
            complete: [0; KEYS],
            processes: Vec::new(),
            late: VecDeque::new(),
            left: Vec::new(),
        };
        world.processes.resize_with(PROCESSES, Process::default);
        let node = |_| Node {
            sites: sites(),
            applied: 0,
            is_cut: false,
            has_lease: true,
            outbox: Vec::new(),
        };
        world.nodes = (0..nodes).map(node).collect();
        world
    }

    /// The node of a process.
    fn node(&self, process: usize) -> usize {
        process % self.nodes.len()
    }

    /// Sends a message. `None`: not all nodes have acknowledged it, so the process gets no answer.
    fn try_send(&mut self, process: usize, message: &[u8]) -> Option<Vec<u8>> {
        let at = self.node(process);
        let mut session = self.processes[process].session.take();
        let state = session.as_mut().expect("the process has begun");
        let answer = self.receive(at, state, message).expect("a valid message");
        self.processes[process].session = session;
        let is_final = answer.announcement.is_none_or(|one| self.publish(at, one));
        if is_final {
            return Some(answer.bytes);
        }
        self.lose(process);
        self.kill(process);
        None
    }

    fn send(&mut self, process: usize, message: &[u8]) -> Vec<u8> {
        let answer = self.try_send(process, message);
        answer.expect("an answer that needs no other node")
    }

    fn receive(
        &mut self,
        at: usize,
        session: &mut PhpSession,
        message: &[u8],
    ) -> Result<PhpAnswer, SessionRefused> {
        let (is_alone, node) = (self.nodes.len() == 1, &mut self.nodes[at]);
        let state = if is_alone {
            NodeState::None
        } else {
            node.state()
        };
        node.sites.set_nodes(state);
        session.receive(&mut node.sites, message, 0)
    }

    /// Returns whether all other nodes have applied it, or have no lease.
    fn publish(&mut self, at: usize, announcement: Vec<u8>) -> bool {
        if self.nodes[at].is_cut {
            self.nodes[at].outbox.push(announcement);
            return false;
        }
        self.stream.push((at, announcement));
        self.deliver();
        let has = |node: &Node| node.applied == self.stream.len() || !node.has_lease;
        self.nodes.iter().all(has)
    }

    fn deliver(&mut self) {
        for (at, node) in self.nodes.iter_mut().enumerate() {
            while !node.is_cut
                && let Some((from, announcement)) = self.stream.get(node.applied)
            {
                node.applied += 1;
                if *from != at {
                    node.sites.apply(Some(("site", announcement)));
                }
            }
        }
    }

    fn heal(&mut self, at: usize) {
        self.nodes[at].is_cut = false;
        for announcement in std::mem::take(&mut self.nodes[at].outbox) {
            self.publish(at, announcement);
        }
        self.deliver();
        self.nodes[at].has_lease = true;
    }

    fn begin(&mut self, process: usize) {
        self.end(process);
        self.processes[process] = Process {
            session: Some(PhpSession::default()),
            complete: self.complete,
            ..Process::default()
        };
        let fence = self.fence.to_string();
        // Without other nodes, one process reaches the database under another name of its host.
        let host = u8::from(self.nodes.len() == 1 && process == 2);
        let mut answer = self.send(process, &start(false, &fence, host));
        if answer[4] & !wire::AMONG_NODES == wire::BEHIND {
            answer = self.send(process, &start(true, &fence, host));
        }
        assert_eq!(answer[4] & !wire::AMONG_NODES, wire::STARTED);
        self.processes[process].counter = number(&answer[5..]);
        let size = usize::try_from(u32::from_le_bytes([
            answer[13], answer[14], answer[15], answer[16],
        ]))
        .expect("small");
        let filter = &answer[17..17 + size];
        for key in 0..KEYS {
            let is_absent = !crate::filter::may_have(filter, &name(key));
            self.processes[process].absent[key] = is_absent;
            let value = value(&self.send(process, &get(key)));
            assert!(!is_absent || value.is_none(), "the filter hides key {key}");
        }
    }

    fn read(&mut self, process: usize, key: usize) {
        let (mut lease, mut found) = (self.processes[process].counter, None);
        if !self.processes[process].absent[key] {
            let answer = self.send(process, &get(key));
            lease = number(&answer[4..]);
            found = value(&answer);
        }
        let own = &mut self.processes[process];
        if let Some(value) = found {
            assert!(
                value >= own.complete[key],
                "key {key} is {value}, although {} was complete before the process began",
                own.complete[key]
            );
        }
        // A statement before this question may have read the row.
        let row = own.read[key].map_or(self.database[key], |(row, _)| row);
        own.read[key] = Some((found.unwrap_or(row), lease));
    }

    fn fill(&mut self, process: usize, key: usize, fill: Fill) {
        let Some((value, _)) = self.processes[process].read[key] else {
            return;
        };
        let lease = self.processes[process].counter;
        let kind = match fill {
            Fill::Add | Fill::LateAdd => 2,
            Fill::Set | Fill::LateSet => 1,
        };
        let message = change(5, kind, lease, key, &value.to_le_bytes());
        match fill {
            Fill::Add | Fill::Set => drop(self.send(process, &message)),
            Fill::LateAdd | Fill::LateSet => {
                self.lose(process);
                self.leave(process, vec![message]);
            }
        }
    }

    fn announce(&mut self, process: usize, how: Announce) {
        let written = self.processes[process].written.clone();
        if written.is_empty() {
            return;
        }
        let messages = written.iter().map(|(key, value, lease)| match how {
            Announce::Set | Announce::LostAndLate => {
                change(8, 1, *lease, *key, &value.to_le_bytes())
            }
            Announce::Delete | Announce::Lost => change(4, 4, 0, *key, b""),
        });
        let messages: Vec<_> = messages.collect();
        match how {
            Announce::Delete | Announce::Set => {
                for message in messages {
                    if self.try_send(process, &message).is_none() {
                        return;
                    }
                }
                self.finish(process);
            }
            Announce::Lost => self.lose(process),
            Announce::LostAndLate => {
                self.lose(process);
                self.leave(process, messages);
            }
        }
    }

    /// The process no longer uses the store, and raises the fence after its writes.
    fn lose(&mut self, process: usize) {
        if !self.processes[process].written.is_empty() {
            self.fence += 1;
        }
        self.finish(process);
    }

    fn leave(&mut self, process: usize, messages: Vec<Vec<u8>>) {
        let session = self.processes[process].session.take();
        self.left.push((self.node(process), session));
        let place = self.left.len() - 1;
        self.late.extend(messages.into_iter().map(|it| (place, it)));
    }

    fn finish(&mut self, process: usize) {
        for (key, value, _) in std::mem::take(&mut self.processes[process].written) {
            // What it read before is not what it wrote: it never sends that again.
            self.processes[process].read[key] = None;
            self.complete[key] = self.complete[key].max(value);
        }
    }

    fn end(&mut self, process: usize) {
        if self.processes[process].session.is_none() {
            return self.lose(process);
        }
        self.announce(process, Announce::Delete);
        if self.processes[process].session.is_some() {
            self.send(process, &[&[7][..], &[0; 13]].concat());
        }
        self.kill(process);
    }

    fn kill(&mut self, process: usize) {
        let at = self.node(process);
        if let Some(session) = self.processes[process].session.take()
            && let Some((_, announcement)) = session.close(&mut self.nodes[at].sites)
            && self.nodes.len() > 1
            && !self.publish(at, announcement)
        {
            // Its writes never were complete.
            self.processes[process].written.clear();
        }
        // What a process wrote before it died has to be visible to all who begin now.
        self.finish(process);
    }

    fn restart(&mut self, at: usize) {
        for process in (at..PROCESSES).step_by(self.nodes.len()) {
            self.lose(process);
            self.processes[process].session = None;
        }
        for (_, session) in self.left.iter_mut().filter(|(node, _)| *node == at) {
            *session = None;
        }
        self.nodes[at].sites = sites();
        self.nodes[at].has_lease &= !self.nodes[at].is_cut;
    }

    fn step(&mut self, process: usize, step: Step) {
        let has_session = self.processes[process].session.is_some();
        match step {
            Step::Begin => self.begin(process),
            Step::Restart => self.restart(self.node(process)),
            Step::Cut => {
                let at = self.node(process);
                self.nodes[at].is_cut = self.nodes.len() > 1;
            }
            Step::Expire => {
                let at = self.node(process);
                self.nodes[at].has_lease &= !self.nodes[at].is_cut;
            }
            Step::Heal => self.heal(self.node(process)),
            Step::Late => {
                if let Some((place, message)) = self.late.pop_front()
                    && let (at, Some(mut session)) = (self.left[place].0, self.left[place].1.take())
                {
                    if let Ok(answer) = self.receive(at, &mut session, &message)
                        && let Some(announcement) = answer.announcement
                    {
                        self.publish(at, announcement);
                    }
                    self.left[place].1 = Some(session);
                }
            }
            Step::Kill => self.kill(process),
            _ if !has_session => {}
            Step::Read(key) => self.read(process, key),
            Step::Query(key) => {
                let value = self.database[key];
                let lease = self.processes[process].counter;
                self.processes[process].read[key] = Some((value, lease));
            }
            Step::Fill(key, fill) => self.fill(process, key, fill),
            Step::Write(key) => {
                self.send(process, &[6]);
                self.database[key] += 1;
                let own = &mut self.processes[process];
                let lease = own.read[key].take().map_or(own.counter, |(_, lease)| lease);
                own.written.push((key, self.database[key], lease));
            }
            Step::Announce(how) => self.announce(process, how),
            Step::End => self.end(process),
            Step::FlushGroup => drop(self.try_send(process, &flush_group())),
            Step::Evict => {
                for filler in 10..40 {
                    let message = change(5, 1, u64::MAX >> 1, filler, &[0; 400]);
                    self.send(process, &message);
                    let lease = self.processes[process].counter;
                    let message = change(5, 1, lease, filler, &[0; 400]);
                    self.send(process, &message);
                }
            }
        }
    }
}

fn sites() -> ObjectSites {
    let mut sites = ObjectSites::default();
    sites.configure(&ObjectCacheSettings {
        sites: vec![ObjectCacheSite {
            name: "site".to_owned(),
            token: "token".to_owned(),
            limit: 8000,
            figures: Arc::default(),
        }],
        limit: 12_000,
    });
    sites
}

/// `host`: the end of the namespace.
fn start(adopt: bool, fence: &str, host: u8) -> Vec<u8> {
    let mut bytes = vec![1, wire::VERSION, u8::from(adopt)];
    for text in ["token", "stamp", fence] {
        bytes.push(u8::try_from(text.len()).expect("short"));
        bytes.extend(text.as_bytes());
    }
    bytes.extend([1; 8]);
    bytes.extend([host; 8]);
    bytes.extend([1; 32]);
    bytes
}

fn name(key: usize) -> Vec<u8> {
    format!("\u{1}g{key}").into_bytes()
}

fn get(key: usize) -> Vec<u8> {
    let name = name(key);
    let mut bytes = vec![3, 1, 0, 0, 0];
    bytes.extend(u32::try_from(name.len()).expect("short").to_le_bytes());
    bytes.extend(name);
    bytes
}

fn change(operation: u8, kind: u8, lease: u64, key: usize, value: &[u8]) -> Vec<u8> {
    let name = name(key);
    let mut bytes = vec![operation, 1, 0, 0, 0, kind];
    bytes.extend(lease.to_le_bytes());
    bytes.extend([0; 4]);
    for part in [&name, value] {
        bytes.extend(u32::try_from(part.len()).expect("short").to_le_bytes());
    }
    bytes.extend(name);
    bytes.extend(value);
    bytes
}

fn flush_group() -> Vec<u8> {
    let mut bytes = vec![4, 1, 0, 0, 0, 6];
    bytes.extend([0; 12]);
    bytes.extend(1_u32.to_le_bytes());
    bytes.extend(0_u32.to_le_bytes());
    bytes.push(b'g');
    bytes
}

/// The value in the answer to `get`.
fn value(answer: &[u8]) -> Option<u64> {
    let is_absent = answer[12..16] == wire::ABSENT.to_le_bytes();
    (!is_absent).then(|| number(&answer[16..]))
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"))
}

fn steps() -> impl Strategy<Value = Vec<(usize, Step)>> {
    let key = || 0..KEYS;
    let fill = prop_oneof![
        3 => Just(Fill::Add), 3 => Just(Fill::Set), 1 => Just(Fill::LateAdd), 1 => Just(Fill::LateSet)
    ];
    let announce = prop_oneof![
        4 => Just(Announce::Delete), 4 => Just(Announce::Set),
        1 => Just(Announce::Lost), 1 => Just(Announce::LostAndLate)
    ];
    let step = prop_oneof![
        6 => Just(Step::Begin),
        8 => key().prop_map(Step::Read),
        3 => key().prop_map(Step::Query),
        8 => (key(), fill).prop_map(|(key, fill)| Step::Fill(key, fill)),
        6 => key().prop_map(Step::Write),
        6 => announce.prop_map(Step::Announce),
        2 => Just(Step::End),
        1 => Just(Step::Kill),
        1 => Just(Step::FlushGroup),
        1 => Just(Step::Evict),
        1 => Just(Step::Restart),
        1 => Just(Step::Cut),
        2 => Just(Step::Expire),
        1 => Just(Step::Heal),
        2 => Just(Step::Late),
    ];
    prop::collection::vec((0..PROCESSES, step), 1..120)
}

/// Steps of nodes that are cut off, without the faults that empty all stores.
fn partitions() -> impl Strategy<Value = Vec<(usize, Step)>> {
    let step = prop_oneof![
        6 => Just(Step::Begin),
        6 => Just(Step::Read(0)),
        6 => Just(Step::Fill(0, Fill::Add)),
        3 => Just(Step::Write(0)),
        3 => Just(Step::Announce(Announce::Delete)),
        1 => Just(Step::Announce(Announce::Set)),
        1 => Just(Step::Kill),
        2 => Just(Step::Cut),
        4 => Just(Step::Expire),
        1 => Just(Step::Heal),
    ];
    prop::collection::vec((0..PROCESSES, step), 1..120)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn no_process_reads_a_value_older_than_a_write_that_was_complete_when_it_began(steps in steps(), nodes in 1..4_usize) {
        let mut world = World::new(nodes);
        for (process, step) in steps {
            world.step(process, step);
        }
    }

    #[test]
    fn no_node_reads_a_value_older_than_a_write_that_was_acknowledged(steps in partitions(), nodes in 2..4_usize) {
        let mut world = World::new(nodes);
        for (process, step) in steps {
            world.step(process, step);
        }
    }
}

#[test]
fn values_are_stored_and_found() {
    let mut world = World::new(1);
    world.begin(0);
    world.step(0, Step::Write(0));
    world.step(0, Step::Announce(Announce::Delete));
    world.begin(1);
    world.read(1, 0);
    world.fill(1, 0, Fill::Add);
    world.begin(0);
    let answer = world.send(0, &get(0));
    assert_eq!(value(&answer), Some(1));
}

#[test]
fn a_row_that_a_statement_read_before_the_question_is_not_stored_after_a_change() {
    let mut world = World::new(1);
    for step in [Step::Begin, Step::Read(0), Step::Fill(0, Fill::Add)] {
        world.step(0, step);
    }
    for step in [Step::Begin, Step::Query(0)] {
        world.step(1, step);
    }
    for step in [
        Step::Begin,
        Step::Write(0),
        Step::Announce(Announce::Delete),
    ] {
        world.step(2, step);
    }
    for step in [Step::Read(0), Step::Fill(0, Fill::Add)] {
        world.step(1, step);
    }
    for step in [Step::Begin, Step::Read(0)] {
        world.step(0, step);
    }
}

#[test]
fn a_change_that_fills_a_missing_key_removes_what_was_read_before_it() {
    let mut world = World::new(1);
    for (process, step) in [
        (0, Step::Begin),
        (1, Step::Begin),
        (1, Step::Query(0)),
        (0, Step::Write(0)),
        (1, Step::Fill(0, Fill::Add)),
        (0, Step::Announce(Announce::Set)),
        (0, Step::Begin),
        (0, Step::Read(0)),
    ] {
        world.step(process, step);
    }
}

#[test]
fn of_many_that_fill_a_missing_key_the_first_one_stays() {
    let mut world = World::new(1);
    for process in 0..2 {
        world.step(process, Step::Begin);
        world.step(process, Step::Read(0));
    }
    for process in 0..2 {
        world.processes[process].read[0] = Some((process as u64 + 7, 0));
        world.step(process, Step::Fill(0, Fill::Add));
        assert_eq!(value(&world.send(process, &get(0))), Some(7));
    }
}

#[test]
fn a_process_without_the_token_gets_nothing() {
    let mut world = World::new(1);
    let mut session = PhpSession::default();
    let mut bytes = start(true, "", 0);
    bytes[4] = b'T';
    let answer = world.receive(0, &mut session, &bytes);
    assert_eq!(answer, Ok(wire::status(wire::REFUSED).into()));
    assert_eq!(world.receive(0, &mut session, &get(0)), Err(SessionRefused));
}

#[test]
fn what_a_request_read_is_sent_to_the_next_one_of_its_url() {
    let mut world = World::new(1);
    world.begin(0);
    world.read(0, 0);
    world.fill(0, 0, Fill::Add);
    let mut report = [&[7][..], &[0; 12], &[1]].concat();
    report.extend(&get(0)[1..]);
    world.send(0, &report);
    world.begin(1);
    let fence = world.fence.to_string();
    let answer = world.send(1, &start(false, &fence, 0));
    assert!(answer.ends_with(&[&name(0)[..], &0_u64.to_le_bytes()].concat()));
}

#[test]
fn a_node_without_a_lease_answers_that_nothing_is_there() {
    let mut world = World::new(2);
    world.begin(0);
    world.read(0, 0);
    world.fill(0, 0, Fill::Add);
    assert_eq!(world.send(0, &get(0)).len(), 28);
    world.step(0, Step::Cut);
    assert_eq!(world.send(0, &get(0)).len(), 28);
    world.step(0, Step::Expire);
    assert_eq!(world.send(0, &get(0)).len(), 20);
    // A write that the other node has acknowledged.
    world.begin(1);
    world.step(1, Step::Write(0));
    world.step(1, Step::Announce(Announce::Delete));
    assert_eq!(world.complete[0], 1);
    world.begin(0);
    world.read(0, 0);
    world.step(0, Step::Heal);
    assert_eq!(world.send(0, &get(0)).len(), 20);
}

#[test]
fn all_sites_together_stay_below_the_limit() {
    let mut sites = ObjectSites::default();
    let site = |name: &str| ObjectCacheSite {
        name: name.to_owned(),
        token: format!("token{name}"),
        limit: 80_000,
        figures: Arc::default(),
    };
    let all = ["a", "b", "c"].map(site);
    sites.configure(&ObjectCacheSettings {
        sites: all.to_vec(),
        limit: 60_000,
    });
    let mut sessions = all.each_ref().map(|site| {
        let mut message = vec![1, wire::VERSION, 1, 6];
        message.extend(site.token.as_bytes());
        message.extend([0; 50]);
        let mut session = PhpSession::default();
        let answer = session.receive(&mut sites, &message, 0).expect("a start");
        assert_eq!(number(&answer.bytes[5..]), 2);
        session
    });
    // The first one has more than the others want.
    for (at, count) in [(0, 70), (1, 10), (2, 60)] {
        for key in 0..count {
            let message = change(5, 1, 2, key, &[0; 800]);
            let answer = sessions[at].receive(&mut sites, &message, 0);
            assert_eq!(answer, Ok(Vec::new().into()));
        }
    }
    let bytes = all.map(|site| site.figures.read().bytes);
    assert!(bytes.iter().sum::<u64>() <= 60_000, "{bytes:?}");
    assert!(bytes[1] > 9000, "a small site keeps its values: {bytes:?}");
    assert!(bytes[0].abs_diff(bytes[2]) < 3000, "{bytes:?}");
}
