//! The protocol against a model: a database, processes that die, lose messages or deliver them late, and a store that restarts.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

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
    sites: ObjectSites,
    restarts: u64,
    fence: u64,
    database: [u64; KEYS],
    /// The last write of each key that is complete.
    complete: [u64; KEYS],
    processes: Vec<Process>,
    late: VecDeque<(usize, Vec<u8>)>,
    /// Sessions whose process has given up, but whose connection the store still has.
    left: Vec<Option<PhpSession>>,
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
    fn new() -> Self {
        let mut world = Self {
            sites: ObjectSites::new(0),
            restarts: 0,
            fence: 0,
            database: [0; KEYS],
            complete: [0; KEYS],
            processes: Vec::new(),
            late: VecDeque::new(),
            left: Vec::new(),
        };
        world.processes.resize_with(PROCESSES, Process::default);
        world.configure();
        world
    }

    fn configure(&mut self) {
        self.sites.configure(&[ObjectCacheSite {
            name: "site".to_owned(),
            token: "token".to_owned(),
            limit: 8000,
            figures: Arc::default(),
        }]);
    }

    fn send(&mut self, process: usize, message: &[u8]) -> Vec<u8> {
        let session = self.processes[process].session.as_mut();
        let session = session.expect("the process has begun");
        session
            .receive(&mut self.sites, message, 0)
            .expect("a valid message")
    }

    fn begin(&mut self, process: usize) {
        self.end(process);
        self.processes[process] = Process {
            session: Some(PhpSession::default()),
            complete: self.complete,
            ..Process::default()
        };
        let fence = self.fence.to_string();
        let mut answer = self.send(process, &start(false, &fence));
        if answer[4] == wire::BEHIND {
            answer = self.send(process, &start(true, &fence));
        }
        assert_eq!(answer[4], wire::STARTED);
        self.processes[process].counter = number(&answer[13..]);
        let size = usize::try_from(u32::from_le_bytes([
            answer[21], answer[22], answer[23], answer[24],
        ]))
        .expect("small");
        let filter = &answer[25..25 + size];
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
                    self.send(process, &message);
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
        self.left.push(self.processes[process].session.take());
        let place = self.left.len() - 1;
        self.late.extend(messages.into_iter().map(|it| (place, it)));
    }

    fn finish(&mut self, process: usize) {
        for (key, value, _) in std::mem::take(&mut self.processes[process].written) {
            self.complete[key] = self.complete[key].max(value);
        }
    }

    fn end(&mut self, process: usize) {
        if self.processes[process].session.is_none() {
            return self.lose(process);
        }
        self.announce(process, Announce::Delete);
        if self.processes[process].session.is_some() {
            self.send(process, &[7, 0, 0, 0, 0, 0]);
        }
        self.kill(process);
    }

    fn kill(&mut self, process: usize) {
        if let Some(session) = self.processes[process].session.take() {
            session.close(&mut self.sites);
        }
        // What a process wrote before it died has to be visible to all who begin now.
        self.finish(process);
    }

    fn restart(&mut self) {
        for process in 0..PROCESSES {
            self.lose(process);
            self.processes[process].session = None;
        }
        self.late.clear();
        self.left.clear();
        self.restarts += 1;
        self.sites = ObjectSites::new(self.restarts);
        self.configure();
    }

    fn step(&mut self, process: usize, step: Step) {
        let has_session = self.processes[process].session.is_some();
        match step {
            Step::Begin => self.begin(process),
            Step::Restart => self.restart(),
            Step::Late => {
                if let Some((place, message)) = self.late.pop_front()
                    && let Some(session) = &mut self.left[place]
                {
                    let _ = session.receive(&mut self.sites, &message, 0);
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
            Step::FlushGroup => drop(self.send(process, &flush_group())),
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

fn start(adopt: bool, fence: &str) -> Vec<u8> {
    let mut bytes = vec![1, wire::VERSION, u8::from(adopt)];
    for text in ["token", "stamp", fence] {
        bytes.push(u8::try_from(text.len()).expect("short"));
        bytes.extend(text.as_bytes());
    }
    bytes.extend([1; 48]);
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
        2 => Just(Step::Late),
    ];
    prop::collection::vec((0..PROCESSES, step), 1..120)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn no_process_reads_a_value_older_than_a_write_that_was_complete_when_it_began(steps in steps()) {
        let mut world = World::new();
        for (process, step) in steps {
            world.step(process, step);
        }
    }
}

#[test]
fn values_are_stored_and_found() {
    let mut world = World::new();
    world.begin(0);
    world.step(0, Step::Write(0));
    world.step(0, Step::Announce(Announce::Delete));
    world.begin(1);
    world.read(1, 0);
    world.fill(1, 0, Fill::Add);
    world.begin(2);
    let answer = world.send(2, &get(0));
    assert_eq!(value(&answer), Some(1));
}

#[test]
fn a_row_that_a_statement_read_before_the_question_is_not_stored_after_a_change() {
    let mut world = World::new();
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
    let mut world = World::new();
    for (process, step) in [
        (0, Step::Begin),
        (1, Step::Begin),
        (1, Step::Query(0)),
        (0, Step::Write(0)),
        (1, Step::Fill(0, Fill::Add)),
        (0, Step::Announce(Announce::Set)),
        (2, Step::Begin),
        (2, Step::Read(0)),
    ] {
        world.step(process, step);
    }
}

#[test]
fn of_many_that_fill_a_missing_key_the_first_one_stays() {
    let mut world = World::new();
    for process in 0..PROCESSES {
        world.step(process, Step::Begin);
        world.step(process, Step::Read(0));
    }
    for process in 0..PROCESSES {
        world.processes[process].read[0] = Some((process as u64 + 7, 0));
        world.step(process, Step::Fill(0, Fill::Add));
        assert_eq!(value(&world.send(process, &get(0))), Some(7));
    }
}

#[test]
fn a_process_without_the_token_gets_nothing() {
    let mut world = World::new();
    let mut session = PhpSession::default();
    let mut bytes = start(true, "");
    bytes[4] = b'T';
    let answer = session.receive(&mut world.sites, &bytes, 0);
    assert_eq!(answer, Ok(wire::status(wire::REFUSED)));
    assert_eq!(
        session.receive(&mut world.sites, &get(0), 0),
        Err(SessionRefused)
    );
}

#[test]
fn what_a_request_read_is_sent_to_the_next_one_of_its_url() {
    let mut world = World::new();
    world.begin(0);
    world.read(0, 0);
    world.fill(0, 0, Fill::Add);
    let mut report = vec![7, 0, 0, 0, 0, 1];
    report.extend(&get(0)[1..]);
    world.send(0, &report);
    world.begin(1);
    let fence = world.fence.to_string();
    let answer = world.send(1, &start(false, &fence));
    assert!(answer.ends_with(&[&name(0)[..], &0_u64.to_le_bytes()].concat()));
}
