//! Fills step by step on one thread; then random steps with several readers; then readers on other threads and runtimes.

use galley_policy::outcome::NotStored;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};

use proptest::prelude::*;

use super::*;
use crate::budget::MemoryBudget;
use crate::includes::IncludedResponses;
use crate::testing::lifetime;
use bytes::Bytes;
use http::HeaderMap;
use http::StatusCode;
use std::sync::Arc;
use std::sync::Mutex;
use std::task::Context;
use std::task::Poll;

fn shared_head(length: Option<u64>) -> FillHead {
    let share = FillSharing::Shared {
        lifetime: lifetime(),
        tags: vec![1],
        inclusions: IncludedResponses::default(),
    };
    FillHead {
        status: StatusCode::OK,
        fields: HeaderMap::new(),
        share,
        length,
    }
}

fn private_head() -> FillHead {
    FillHead {
        share: FillSharing::Private,
        ..shared_head(None)
    }
}

fn keep(limit: u64) -> Option<BodyRetention> {
    keep_of(&MemoryBudget::new(limit))
}

#[expect(clippy::unnecessary_wraps, reason = "as `fill` takes it")]
fn keep_of(budget: &MemoryBudget) -> Option<BodyRetention> {
    Some(BodyRetention {
        budget: budget.clone(),
        max_bytes: budget.limit(),
    })
}

/// Polls a future once.
fn once<F: Future>(future: F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

fn push(writer: &mut FillWriter, bytes: &'static str) -> Poll<Result<(), NoReaders>> {
    once(writer.push(Bytes::from_static(bytes.as_bytes())))
}

const TAKEN: Poll<Result<(), NoReaders>> = Poll::Ready(Ok(()));
const UNREAD: Poll<Result<(), NoReaders>> = Poll::Ready(Err(NoReaders));

#[expect(clippy::unnecessary_wraps, reason = "as `try_next` gives it")]
fn chunk(bytes: &'static str) -> Result<FillRead, FillError> {
    Ok(FillRead::Chunk(Bytes::from_static(bytes.as_bytes())))
}

/// Counts its wakeups.
#[derive(Default)]
struct Bell(AtomicUsize);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Bell {
    fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

#[test]
fn delayed_wakeups_wake_readers_once() {
    let bell = Arc::new(Bell::default());
    let waker = Waker::from(Arc::clone(&bell));
    let cx = &mut Context::from_waker(&waker);
    for end in ["release", "wait", "finish", "fail", "drop"] {
        let before = bell.count();
        let (mut writer, fill) = fill(4, None);
        let mut reader = fill.reader().unwrap();
        assert!(reader.poll_head(cx).is_pending());
        writer.hold();
        writer.head(private_head());
        writer.put(Bytes::from_static(b"abcd")).unwrap();
        assert_eq!(bell.count(), before, "{end}");
        assert!(fill.has_head(), "it is there for who looks");
        match end {
            "release" => writer.release(),
            "wait" => assert!(once(writer.below(1)).is_pending()),
            "finish" => drop(writer.finish()),
            "fail" => writer.fail(FillError::Closed),
            _ => drop(writer),
        }
        assert_eq!(bell.count(), before + 1, "{end}");
    }
}

#[test]
fn a_writer_may_limit_its_backlog() {
    let (mut writer, fill) = fill(1_000, None);
    let mut reader = fill.reader().unwrap();
    writer.head(private_head());
    assert_eq!(writer.put(Bytes::from_static(b"abcd")), Ok(()));
    assert_eq!(writer.put(Bytes::from_static(b"ef")), Ok(()));
    assert_eq!(writer.backlog(), 6);
    assert_eq!(once(writer.below(7)), TAKEN);
    let bell = Arc::new(Bell::default());
    let waker = Waker::from(Arc::clone(&bell));
    {
        let mut waiting = pin!(writer.below(1));
        let mut cx = Context::from_waker(&waker);
        assert!(waiting.as_mut().poll(&mut cx).is_pending());
        assert_eq!(reader.try_next(), chunk("abcd"));
        assert_eq!(bell.count(), 0, "two bytes are left");
        assert_eq!(reader.try_next(), chunk("ef"));
        assert_eq!(bell.count(), 1);
        assert_eq!(waiting.as_mut().poll(&mut cx), TAKEN);
    }
    drop(reader);
    assert_eq!(once(writer.below(1)), UNREAD);
    assert_eq!(writer.put(Bytes::from_static(b"g")), Err(NoReaders));
}

#[test]
fn everyone_reads_all_of_a_shared_fill_whenever_they_join() {
    let (mut writer, fill) = fill(4, keep(1_000));
    let mut early = fill.reader().unwrap();
    assert!(once(early.head()).is_pending());
    assert_eq!(early.try_next(), Ok(FillRead::Pending));
    writer.head(shared_head(Some(12)));
    assert!(matches!(once(early.head()), Poll::Ready(Ok(head)) if head.length == Some(12)));
    assert_eq!(
        push(&mut writer, "hello "),
        TAKEN,
        "nobody holds a kept fill back"
    );
    assert_eq!(early.try_next(), chunk("hello "));
    let mut later = fill.reader().unwrap();
    assert_eq!(push(&mut writer, "world!"), TAKEN);
    let finished = writer.finish();
    assert_eq!(finished.unwrap().bytes(), "hello world!");
    assert_eq!(
        early.try_next(),
        chunk("world!"),
        "a joined body continues where the reader was"
    );
    assert_eq!(early.try_next(), Ok(FillRead::End));
    assert_eq!(later.try_next(), chunk("hello world!"));
    let mut last = fill.reader().unwrap();
    drop(fill);
    assert_eq!(last.try_next(), chunk("hello world!"));
    assert_eq!(once(last.next()), Poll::Ready(Ok(None)));
}

#[test]
fn readers_of_a_whole_kept_body_share_its_buffer() {
    let budget = MemoryBudget::new(1_000);
    let (mut writer, fill) = fill(4, keep_of(&budget));
    let whole = || {
        Box::pin(
            fill.reader()
                .unwrap()
                .whole(budget.try_reserve(0).unwrap(), 100),
        )
    };
    let (mut early, mut later) = (whole(), whole());
    assert!(once(&mut early).is_pending());
    writer.head(shared_head(None));
    assert_eq!(push(&mut writer, "whole "), TAKEN);
    assert!(once(&mut early).is_pending() && once(&mut later).is_pending());
    assert_eq!(push(&mut writer, "page"), TAKEN);
    let stored = writer.finish().unwrap();
    let mut last = whole();
    for reader in [&mut early, &mut later, &mut last] {
        let Poll::Ready(Ok(body)) = once(reader) else {
            panic!("the body is complete");
        };
        assert_eq!(
            (&body[..], body.as_ptr()),
            (&b"whole page"[..], stored.bytes().as_ptr())
        );
    }
    drop((early, later, last, fill));
    assert_eq!(budget.used(), 10);
}

#[test]
fn a_body_that_is_not_kept_is_received_into_reserved_memory() {
    // The memory, the maximum length, and what happens.
    let rows = [
        (1_000, 100, Ok("whole page")),
        (1_000, 9, Err(FillError::Unstorable(NotStored::TooLarge))),
        (19, 100, Err(FillError::Memory)),
    ];
    for (memory, most, expected) in rows {
        let budget = MemoryBudget::new(memory);
        let (mut writer, fill) = fill(100, None);
        let room = budget.try_reserve(0).unwrap();
        let mut whole = Box::pin(fill.reader().unwrap().whole(room, most));
        writer.head(private_head());
        assert_eq!(push(&mut writer, "whole "), TAKEN);
        assert!(once(&mut whole).is_pending());
        assert_eq!((budget.used(), push(&mut writer, "page")), (6, TAKEN));
        writer.finish();
        let Poll::Ready(received) = once(&mut whole) else {
            panic!("the body is complete");
        };
        drop(whole);
        let expected = expected.map(|text: &str| Bytes::from(text.to_owned()));
        assert_eq!(received, expected);
        let held = received.as_ref().map_or(0, |body| body.len() as u64);
        assert_eq!(budget.used(), held);
        drop(received);
        assert_eq!(budget.used(), 0);
    }
    let budget = MemoryBudget::new(1_000);
    let (mut writer, fill) = fill(100, keep_of(&budget));
    let room = budget.try_reserve(0).unwrap();
    let mut whole = Box::pin(fill.reader().unwrap().whole(room, 100));
    writer.head(shared_head(None));
    assert_eq!(push(&mut writer, "a part"), TAKEN);
    writer.fail(FillError::Closed);
    assert_eq!(once(&mut whole), Poll::Ready(Err(FillError::Closed)));
}

#[test]
fn a_shared_fill_goes_on_without_readers() {
    let (mut writer, fill) = fill(4, keep(1_000));
    drop(fill.reader());
    writer.head(shared_head(None));
    drop(fill);
    assert!(!writer.has_readers() && writer.is_kept());
    assert_eq!(push(&mut writer, "whole page"), TAKEN);
    assert!(once(writer.all_readers_dropped()).is_pending());
    assert_eq!(writer.finish().unwrap().bytes(), "whole page");
}

#[test]
fn a_private_fill_has_one_reader_and_a_window() {
    let (mut writer, fill) = fill(8, keep(1_000));
    let (mut first, mut second) = (fill.reader().unwrap(), fill.reader().unwrap());
    writer.head(private_head());
    let refused = FillError::Unstorable(NotStored::Private);
    assert!(matches!(once(second.head()), Poll::Ready(Err(failure)) if failure == refused));
    assert_eq!(second.try_next(), Err(refused));
    assert!(fill.reader().is_none(), "joining is closed");
    assert_eq!(push(&mut writer, "12345"), TAKEN);
    assert_eq!(second.try_next(), Err(refused), "not one byte");
    assert_eq!(
        push(&mut writer, "6789"),
        Poll::Pending,
        "the slow reader holds the writer back"
    );
    assert_eq!(first.try_next(), chunk("12345"));
    assert_eq!(
        push(&mut writer, "0"),
        TAKEN,
        "the pending bytes were taken, and there is room again"
    );
    assert_eq!(first.try_next(), chunk("6789"));
    assert_eq!(first.try_next(), chunk("0"));
    assert!(writer.finish().is_none());
    assert_eq!(first.try_next(), Ok(FillRead::End));
}

#[test]
fn the_reader_of_a_private_fill_may_join_late() {
    let (mut writer, fill) = fill(8, None);
    writer.head(private_head());
    assert_eq!(push(&mut writer, "12345"), TAKEN);
    assert!(
        once(writer.all_readers_dropped()).is_pending(),
        "it may still come"
    );
    let mut reader = fill.reader().unwrap();
    assert!(fill.reader().is_none());
    assert_eq!(reader.try_next(), chunk("12345"));
    drop(reader);
    assert!(
        fill.reader().is_none(),
        "nobody takes up what another has left"
    );
    assert_eq!(once(writer.all_readers_dropped()), Poll::Ready(()));
}

#[test]
fn the_writer_of_a_private_fill_notices_that_its_reader_left() {
    let (mut writer, fill) = fill(2, None);
    let reader = fill.reader().unwrap();
    writer.head(private_head());
    let bell = Arc::new(Bell::default());
    let waker = Waker::from(Arc::clone(&bell));
    assert!(
        pin!(writer.all_readers_dropped())
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
    );
    assert!(
        pin!(writer.push(Bytes::from_static(b"full")))
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
    );
    drop(reader);
    assert_eq!(bell.count(), 2, "once for the room, once for the readers");
    assert_eq!(once(writer.all_readers_dropped()), Poll::Ready(()));
    assert_eq!(push(&mut writer, "more"), UNREAD);
    assert!(!writer.has_readers());
}

#[test]
fn a_slow_reader_that_leaves_wakes_the_writer() {
    let (mut writer, fill) = fill(4, keep(2));
    let (mut quick, slow) = (fill.reader().unwrap(), fill.reader().unwrap());
    writer.head(shared_head(None));
    let bell = Arc::new(Bell::default());
    let waker = Waker::from(Arc::clone(&bell));
    let bytes = Bytes::from_static(b"longer than the window");
    let mut pushing = pin!(writer.push(bytes));
    assert!(
        pushing
            .as_mut()
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
    );
    assert_eq!(quick.try_next(), chunk("longer than the window"));
    assert_eq!(bell.count(), 0);
    drop(slow);
    assert_eq!(bell.count(), 1);
    assert_eq!(once(pushing), TAKEN);
}

#[test]
fn the_writer_notices_that_every_handle_was_dropped_before_a_reader_joined() {
    let (mut writer, fill) = fill(8, None);
    let bell = Arc::new(Bell::default());
    let waker = Waker::from(Arc::clone(&bell));
    assert!(
        pin!(writer.all_readers_dropped())
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
    );
    let other = Arc::clone(&fill);
    drop(fill);
    assert_eq!(bell.count(), 0);
    drop(other);
    assert_eq!(bell.count(), 1);
    writer.head(private_head());
    assert_eq!(push(&mut writer, "x"), UNREAD);
}

#[test]
fn a_fill_that_outgrows_its_limit_becomes_a_window() {
    let budget = MemoryBudget::new(10);
    let (mut writer, fill) = fill(
        4,
        Some(BodyRetention {
            budget: budget.clone(),
            max_bytes: 10,
        }),
    );
    let (mut quick, mut slow) = (fill.reader().unwrap(), fill.reader().unwrap());
    writer.head(shared_head(None));
    assert_eq!(push(&mut writer, "12345678"), TAKEN);
    assert_eq!(budget.used(), 8);
    assert_eq!(
        push(&mut writer, "9012"),
        Poll::Pending,
        "above the limit: from here on the readers set the pace"
    );
    assert!(!writer.is_kept());
    assert!(fill.reader().is_none(), "joining is closed");
    assert_eq!(quick.try_next(), chunk("12345678"));
    assert_eq!(quick.try_next(), chunk("9012"));
    assert_eq!(quick.try_next(), Ok(FillRead::Pending));
    assert_eq!(
        push(&mut writer, "34"),
        Poll::Pending,
        "the slow one holds it back"
    );
    assert_eq!(budget.used(), 8, "and its backlog stays paid for");
    drop(slow.try_next());
    drop(slow);
    assert!(budget.used() < 8);
    assert_eq!(
        push(&mut writer, "5"),
        TAKEN,
        "a reader that leaves frees the writer"
    );
    assert_eq!(quick.try_next(), chunk("34"));
    assert_eq!(quick.try_next(), chunk("5"));
    assert_eq!(budget.used(), 0);
    drop(quick);
    assert_eq!(push(&mut writer, "6"), UNREAD);
    assert!(writer.finish().is_none());
}

#[test]
fn a_known_length_is_reserved_at_the_head_or_not_kept_at_all() {
    let budget = MemoryBudget::new(10);
    let keep = BodyRetention {
        budget: budget.clone(),
        max_bytes: 10,
    };
    let (mut fits, _fill) = fill(4, Some(keep.clone()));
    fits.head(shared_head(Some(7)));
    assert_eq!(budget.used(), 7);
    for length in [4, 11] {
        let (mut too_long, _fill) = fill(4, Some(keep.clone()));
        too_long.head(shared_head(Some(length)));
        assert!(!too_long.is_kept());
    }
    drop(fits);
    assert_eq!(budget.used(), 0);
}

#[test]
fn a_kept_body_stays_reserved_until_its_last_clone_is_dropped() {
    let budget = MemoryBudget::new(100);
    let (mut writer, fill) = fill(
        4,
        Some(BodyRetention {
            budget: budget.clone(),
            max_bytes: 100,
        }),
    );
    let mut reader = fill.reader().unwrap();
    writer.head(shared_head(None));
    assert_eq!(push(&mut writer, "0123456789"), TAKEN);
    let finished = writer.finish();
    assert_eq!(
        budget.used(),
        10,
        "chunks were given back when the body took their place"
    );
    let held = reader.try_next().unwrap();
    drop((reader, fill, finished));
    assert_eq!(budget.used(), 10);
    drop(held);
    assert_eq!(budget.used(), 0);
}

#[test]
fn without_budget_for_the_joined_body_it_is_served_and_not_kept() {
    let (mut writer, fill) = fill(4, keep(15));
    let mut reader = fill.reader().unwrap();
    writer.head(shared_head(None));
    assert_eq!(push(&mut writer, "0123456789"), TAKEN);
    assert!(writer.finish().is_none());
    assert_eq!(reader.try_next(), chunk("0123456789"));
    assert_eq!(reader.try_next(), Ok(FillRead::End));
}

#[test]
fn a_shared_body_of_another_length_than_announced_fails() {
    for said in [4, 6] {
        let (mut writer, fill) = fill(4, keep(100));
        let mut reader = fill.reader().unwrap();
        writer.head(shared_head(Some(said)));
        assert_eq!(push(&mut writer, "12345"), TAKEN);
        assert!(writer.finish().is_none());
        assert_eq!(reader.try_next(), Err(FillError::Closed));
    }
}

#[test]
fn failures_reach_every_reader_at_once() {
    let (mut writer, fill) = fill(4, keep(100));
    let (mut waiting, mut reading) = (fill.reader().unwrap(), fill.reader().unwrap());
    writer.head(shared_head(None));
    assert_eq!(push(&mut writer, "half"), TAKEN);
    assert_eq!(reading.try_next(), chunk("half"));
    writer.fail(FillError::Closed);
    assert_eq!(once(reading.next()), Poll::Ready(Err(FillError::Closed)));
    assert!(
        matches!(once(waiting.head()), Poll::Ready(Err(FillError::Closed))),
        "nothing left yet: it may still ask anew"
    );
    assert_eq!(fill.reader().unwrap().try_next(), Err(FillError::Closed));
    assert!(fill.has_ended());
}

#[test]
fn dropping_the_writer_or_wrong_order_fails_the_fill() {
    let table: [(fn(FillWriter), FillError); 3] = [
        (drop, FillError::Aborted),
        (|writer| drop(writer.finish()), FillError::Malformed),
        (
            |mut writer| assert_eq!(push(&mut writer, "no head yet"), TAKEN),
            FillError::Malformed,
        ),
    ];
    for (end, expected) in table {
        let (writer, fill) = fill(4, keep(100));
        let mut reader = fill.reader().unwrap();
        end(writer);
        assert_eq!(reader.try_next(), Err(expected));
    }
}

#[test]
fn a_waiting_reader_has_one_waker_and_is_woken_by_its_event() {
    let (mut writer, fill) = fill(4, keep(100));
    let mut reader = fill.reader().unwrap();
    let bells = [Arc::new(Bell::default()), Arc::new(Bell::default())];
    let wakers = bells.clone().map(Waker::from);
    for waker in [&wakers[0], &wakers[0], &wakers[1], &wakers[1]] {
        assert!(
            reader
                .poll_head(&mut Context::from_waker(waker))
                .is_pending()
        );
    }
    writer.head(shared_head(None));
    assert_eq!(
        [bells[0].count(), bells[1].count()],
        [0, 1],
        "the last context, once"
    );
    let mut cx = Context::from_waker(&wakers[0]);
    assert!(reader.poll_next(&mut cx).is_pending());
    assert_eq!(push(&mut writer, "a"), TAKEN);
    assert_eq!(push(&mut writer, "b"), TAKEN);
    assert_eq!(bells[0].count(), 1, "not again before it waits again");
    while reader.poll_next(&mut cx).is_ready() {}
    drop(writer.finish());
    assert_eq!(bells[0].count(), 2);
}

/// A waker whose drop drops a reader of the same fill, as the last reference of a task may.
#[test]
fn a_waker_that_owns_a_reader_does_not_deadlock() {
    struct Task {
        _reader: Mutex<Option<FillReader>>,
    }
    impl Wake for Task {
        fn wake(self: Arc<Self>) {}
    }
    let (mut writer, fill) = fill(4, keep(100));
    let mut reader = fill.reader().unwrap();
    let waker = Waker::from(Arc::new(Task {
        _reader: Mutex::new(fill.reader()),
    }));
    assert!(
        reader
            .poll_head(&mut Context::from_waker(&waker))
            .is_pending()
    );
    drop(waker);
    assert!(
        reader
            .poll_head(&mut Context::from_waker(Waker::noop()))
            .is_pending()
    );
    writer.head(shared_head(None));
    assert!(writer.has_readers());
}

#[derive(Clone, Debug)]
enum Step {
    Push(usize),
    Join,
    /// The reader with this index (modulo their number) reads the available bytes.
    Read(usize),
    Leave(usize),
}

#[derive(Clone, Copy, Debug)]
enum End {
    Finish,
    Fail,
    Drop,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..200_usize).prop_map(Step::Push),
        2 => Just(Step::Join),
        4 => (0..8_usize).prop_map(Step::Read),
        1 => (0..8_usize).prop_map(Step::Leave),
    ]
}

/// Reads the available bytes. Returns the result if the fill has ended.
fn drain(reader: &mut FillReader, seen: &mut Vec<u8>) -> Option<Result<(), FillError>> {
    loop {
        match reader.try_next() {
            Ok(FillRead::Chunk(bytes)) => seen.extend_from_slice(&bytes),
            Ok(FillRead::Pending) => return None,
            Ok(FillRead::End) => return Some(Ok(())),
            Err(failure) => return Some(Err(failure)),
        }
    }
}

proptest! {
    /// Whether or not the body can be kept, each reader reads exactly the whole body, or the failure.
    #[test]
    fn readers_see_the_whole_or_the_failure(
        steps in prop::collection::vec(step(), 1..60),
        end in prop::sample::select(vec![End::Finish, End::Fail, End::Drop]),
        limit in prop::sample::select(vec![0, 300, 2_000, 1_000_000]),
    ) {
        let budget = MemoryBudget::new(limit);
        let (mut writer, fill) = fill(256, Some(BodyRetention { budget: budget.clone(), max_bytes: limit }));
        let mut readers = vec![(fill.reader().unwrap(), Vec::new())];
        writer.head(shared_head(None));
        let mut sent = Vec::new();
        for step in steps {
            match step {
                Step::Push(size) => {
                    let bytes: Vec<u8> = (0..size).map(|n| u8::try_from((sent.len() + n) % 251).unwrap()).collect();
                    sent.extend_from_slice(&bytes);
                    let _ = once(writer.push(Bytes::from(bytes)));
                }
                Step::Join => readers.extend(fill.reader().map(|reader| (reader, Vec::new()))),
                Step::Read(at) if !readers.is_empty() => {
                    let at = at % readers.len();
                    let (reader, seen) = &mut readers[at];
                    prop_assert_eq!(drain(reader, seen), None);
                    prop_assert_eq!(&*seen, &sent);
                }
                Step::Leave(at) if readers.len() > 1 => drop(readers.remove(at % readers.len())),
                Step::Read(_) | Step::Leave(_) => {}
            }
            prop_assert!(budget.used() <= limit);
        }
        let body = match end {
            End::Finish => writer.finish(),
            End::Fail => { writer.fail(FillError::Timeout); None }
            End::Drop => { drop(writer); None }
        };
        if let Some(body) = &body {
            prop_assert_eq!(body.bytes(), &sent);
        }
        for (reader, seen) in &mut readers {
            match (drain(reader, seen), end) {
                (Some(Ok(())), End::Finish) => prop_assert_eq!(&*seen, &sent),
                (Some(Err(FillError::Timeout)), End::Fail) | (Some(Err(FillError::Aborted)), End::Drop) => {}
                (other, _) => prop_assert!(false, "{:?} after {:?}", other, end),
            }
        }
        drop((readers, fill, body));
        prop_assert_eq!(budget.used(), 0);
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(future)
}

async fn read_all(mut reader: FillReader) -> Result<Vec<u8>, FillError> {
    reader.head().await?;
    let mut seen = Vec::new();
    while let Some(bytes) = reader.next().await? {
        seen.extend_from_slice(&bytes);
        tokio::task::yield_now().await;
    }
    Ok(seen)
}

/// Each reader on a separate thread and runtime, some joining late; the writer on another one. A lost wakeup makes the test hang.
#[test]
fn readers_on_other_threads_and_runtimes_lose_no_wake_up() {
    for round in 0..60_usize {
        let limit = if round % 2 == 0 { 1_000_000 } else { 500 };
        let (mut writer, fill) = fill(300, keep(limit));
        let body: Vec<u8> = (0..20_000 + round)
            .map(|n| u8::try_from(n % 251).unwrap())
            .collect();
        std::thread::scope(|scope| {
            let early = [fill.reader().unwrap(), fill.reader().unwrap()];
            let readers = early.map(|reader| scope.spawn(|| block_on(read_all(reader))));
            let late = scope.spawn(|| fill.reader().map(|reader| block_on(read_all(reader))));
            scope.spawn(|| {
                block_on(async {
                    writer.head(shared_head(None));
                    for chunk in body.chunks(97 + round) {
                        writer.push(Bytes::copy_from_slice(chunk)).await.unwrap();
                    }
                    drop(writer.finish());
                });
            });
            for reader in readers {
                assert_eq!(reader.join().unwrap(), Ok(body.clone()));
            }
            assert!(
                late.join()
                    .unwrap()
                    .is_none_or(|seen| seen == Ok(body.clone()))
            );
        });
    }
}

/// Dropping a pending future loses nothing: only the poll that returns bytes consumes them.
#[test]
fn waiting_is_cancel_safe() {
    let (mut writer, fill) = fill(4, None);
    let mut reader = fill.reader().unwrap();
    assert!(once(reader.head()).is_pending());
    writer.head(private_head());
    assert!(once(reader.next()).is_pending());
    assert_eq!(
        push(&mut writer, "12345"),
        Poll::Pending,
        "given up, but taken"
    );
    assert_eq!(
        once(reader.next()),
        Poll::Ready(Ok(Some(Bytes::from_static(b"12345"))))
    );
    assert!(once(reader.next()).is_pending());
    assert!(once(writer.all_readers_dropped()).is_pending());
    assert_eq!(push(&mut writer, "6"), TAKEN);
    assert_eq!(reader.try_next(), chunk("6"));
}
