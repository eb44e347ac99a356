//! The listener against processes that take more than their part.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::*;
use crate::connection::{MAX_MOVING_OF_SITE, MAX_OF_SITE, MAX_UNKNOWN};
use crate::site::ObjectCacheSite;
use crate::wire::{self, MAX_START};

struct Running {
    cache: ObjectCache,
    settings: ObjectCacheSettings,
    folder: tempfile::TempDir,
}

impl Running {
    fn start() -> Self {
        // Both ends of each connection are in this process.
        galley_sys::raise_descriptor_limit();
        let folder = tempfile::tempdir().expect("a folder");
        let site = |name: &str| ObjectCacheSite {
            name: name.to_owned(),
            token: name.to_owned(),
            limit: 128 << 20,
            figures: Arc::default(),
        };
        let settings = ObjectCacheSettings {
            sites: ["a", "b"].map(site).to_vec(),
            limit: 256 << 20,
        };
        let socket = folder.path().join("objects.sock");
        let cache = ObjectCache::start(&socket, settings.clone(), None, None);
        Self {
            cache: cache.expect("a listener"),
            settings,
            folder,
        }
    }

    /// Another process takes over, which is prepared before this one ends.
    fn replace(self) -> Self {
        let Self {
            cache,
            settings,
            folder,
        } = self;
        let (sender, receiver) = oneshot::channel();
        let socket = folder.path().join("objects.sock");
        let next = ObjectCache::start(&socket, settings.clone(), None, Some(receiver));
        let next = next.expect("a thread");
        if let Some(handover) = cache.hand_over() {
            sender.send(handover).expect("a thread that waits");
        }
        Self {
            cache: next,
            settings,
            folder,
        }
    }

    fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(self.cache.socket()).expect("a connection");
        let patience = Some(Duration::from_secs(30));
        stream.set_read_timeout(patience).expect("a time limit");
        stream
    }

    /// Connects, and shows the token of a site. `None`: the connection was closed.
    fn begin(&self, token: &str) -> Option<UnixStream> {
        let mut stream = self.connect();
        let mut body = vec![1, wire::VERSION, 1, 1];
        body.extend(token.as_bytes());
        body.extend([0; 50]);
        send(&mut stream, &body);
        let answer = receive(&mut stream)?;
        (answer[0] == wire::STARTED).then_some(stream)
    }
}

fn send(stream: &mut UnixStream, body: &[u8]) {
    let length = u32::try_from(body.len()).expect("short").to_le_bytes();
    // The other end may have closed the connection.
    let _ = stream.write_all(&[&length[..], body].concat());
}

fn receive(stream: &mut UnixStream) -> Option<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).ok()?;
    let length = usize::try_from(u32::from_le_bytes(length)).expect("short");
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    Some(body)
}

fn change(key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut body = vec![4, 1, 0, 0, 0, 1];
    body.extend((u64::MAX >> 1).to_le_bytes());
    body.extend([0; 4]);
    for part in [key, value] {
        body.extend(u32::try_from(part.len()).expect("short").to_le_bytes());
    }
    [&body, key, value].concat()
}

fn get(key: &[u8]) -> Vec<u8> {
    let length = u32::try_from(key.len()).expect("short").to_le_bytes();
    [&[3, 1, 0, 0, 0], &length[..], key].concat()
}

/// Stores a value under the lease that the answer before named.
fn store(stream: &mut UnixStream, key: &[u8], value: &[u8]) {
    send(stream, &get(key));
    let lease = receive(stream).expect("an answer");
    let mut body = change(key, value);
    body[6..14].copy_from_slice(&lease[..8]);
    send(stream, &body);
    let outcome = receive(stream).expect("an answer");
    assert_eq!(outcome[8], 1, "it is not stored");
}

#[test]
fn a_site_cannot_take_the_connections_of_another() {
    let running = Running::start();
    let open: Vec<_> = (0..MAX_OF_SITE).map(|_| running.begin("a")).collect();
    assert!(open.iter().all(Option::is_some));
    assert!(running.begin("a").is_none(), "one more than the limit");
    assert!(running.begin("b").is_some());
    drop(open);
    let again = (0..1000).any(|_| running.begin("a").is_some());
    assert!(again, "closed connections still count");
}

#[test]
fn who_shows_no_token_holds_few_connections_for_a_moment() {
    let running = Running::start();
    let mut silent: Vec<_> = (0..=MAX_UNKNOWN).map(|_| running.connect()).collect();
    // Connections are accepted in their order.
    let mut byte = [0];
    let mut last = silent.pop().expect("one more than the limit");
    assert_eq!(last.read(&mut byte).expect("the end"), 0);
    for mut stream in silent {
        assert_eq!(stream.read(&mut byte).expect("the end"), 0);
    }
    assert!(running.begin("a").is_some());
    let mut stream = running.connect();
    send(&mut stream, &vec![1; MAX_START + 1]);
    assert_eq!(receive(&mut stream), None, "a long message without a token");
}

#[test]
fn a_site_that_reads_no_answers_cannot_take_the_memory_of_another() {
    let running = Running::start();
    let value = vec![b'v'; 7 << 20];
    for site in ["a", "b"] {
        let mut stream = running.begin(site).expect("a connection");
        store(&mut stream, b"\x01gk", &value);
    }
    let mut slow: Vec<_> = (0..12).filter_map(|_| running.begin("a")).collect();
    for stream in &mut slow {
        send(stream, &get(b"\x01gk"));
    }
    // Three answers of 7 MiB are on their way; the other connections end at once.
    let mut other = running.begin("b").expect("a connection");
    send(&mut other, &get(b"\x01gk"));
    let answer = receive(&mut other).expect("the answer of another site");
    assert!(answer.len() > value.len());
    let whole = slow.iter_mut().filter_map(receive).count();
    assert_eq!(whole, MAX_MOVING_OF_SITE / value.len());
}

#[test]
fn values_and_processes_survive_a_handover() {
    let mut running = Running::start();
    let mut first = running.begin("a").expect("a connection");
    store(&mut first, b"\x01gk", b"kept");
    store(&mut first, b"\x01gd", b"deleted later");
    for round in 0..3 {
        // A process that has asked, one that writes, and one that only waits in the queue of the socket.
        let mut reader = running.begin("a").expect("a connection");
        send(&mut reader, &get(b"\x01gk"));
        let lease = receive(&mut reader).expect("an answer");
        let mut writer = running.begin("a").expect("a connection");
        send(&mut writer, &[6]);
        running = running.replace();
        let mut late = change(b"\x01gk", b"read before");
        late[6..14].copy_from_slice(&lease[..8]);
        send(&mut reader, &get(b"\x01gk"));
        let answer = receive(&mut reader).expect("the same connection goes on");
        assert!(
            answer.ends_with(b"kept\0\0\0\0"),
            "round {round}: {answer:?}"
        );
        let mut deletion = change(b"\x01gd", b"");
        deletion[5] = 4;
        send(&mut writer, &deletion);
        assert!(receive(&mut writer).is_some(), "an acknowledgement");
        send(&mut writer, &[&[7][..], &[0; 13]].concat());
        send(&mut reader, &get(b"\x01gd"));
        let gone = receive(&mut reader).expect("an answer");
        assert!(
            gone.ends_with(&[&wire::ABSENT.to_le_bytes()[..], &[0; 4]].concat()),
            "{gone:?}"
        );
    }
    // A process that dies in the middle of its writes, before or after.
    let mut writer = running.begin("a").expect("a connection");
    send(&mut writer, &[6]);
    send(&mut writer, &get(b"\x01gk"));
    assert!(
        receive(&mut writer)
            .expect("an answer")
            .ends_with(b"kept\0\0\0\0")
    );
    running = running.replace();
    drop(writer);
    let lost = (0..1000).any(|_| {
        let mut reader = running.begin("a").expect("a connection");
        send(&mut reader, &get(b"\x01gk"));
        !receive(&mut reader)
            .expect("an answer")
            .ends_with(b"kept\0\0\0\0")
    });
    assert!(lost, "what it has changed is unknown");
}

#[test]
fn half_a_message_ends_its_connection_and_not_the_handover() {
    for (writes, end) in [
        (false, &b"kept\0\0\0\0"[..]),
        (true, &[255, 255, 255, 255, 0, 0, 0, 0]),
    ] {
        let running = Running::start();
        let mut first = running.begin("a").expect("a connection");
        store(&mut first, b"\x01gk", b"kept");
        if writes {
            // A process that has announced its writes: what it has changed is unknown.
            send(&mut first, &[6]);
        }
        first.write_all(&[9, 0]).expect("a connection");
        let mut reader = running.begin("a").expect("a connection");
        send(&mut reader, &get(b"\x01gk"));
        let before = receive(&mut reader).expect("an answer");
        assert!(before.ends_with(b"kept\0\0\0\0"), "{before:?}");
        let _running = running.replace();
        assert_eq!(receive(&mut first), None, "half a message was kept");
        send(&mut reader, &get(b"\x01gk"));
        let after = receive(&mut reader).expect("the same connection goes on");
        assert!(after.ends_with(end), "{writes} {after:?}");
    }
}
