//! Fetches in progress under a paused clock: silence, notified waiters, replaced fetches, and disconnected waiters.

use super::*;
use galley_cache::testing;

use galley_cache::entry::EntryParts;
use galley_cache::fill;
use std::future::pending;

const LIMITS: FetchLimits = FetchLimits {
    lock_age: Duration::from_secs(5),
    waiters: 10,
};

fn in_progress(overtaken: Option<&InProgressFetch>) -> (fill::FillWriter, Rc<InProgressFetch>) {
    let (writer, fill) = fill::fill(1, None);
    let in_progress = InProgressFetch::new(fill, Vec::new(), &LIMITS, overtaken);
    (writer, Rc::new(in_progress))
}

#[tokio::test(start_paused = true)]
async fn silence_is_measured_from_the_last_progress_and_not_in_the_queue() {
    let (_writer, in_progress) = in_progress(None);
    tokio::time::advance(Duration::from_secs(60)).await;
    assert!(!in_progress.is_silent(), "not sent yet");
    in_progress.note_progress();
    tokio::time::advance(Duration::from_secs(4)).await;
    assert!(!in_progress.is_silent());
    in_progress.note_progress();
    tokio::time::advance(Duration::from_secs(4)).await;
    assert!(!in_progress.is_silent());
    tokio::time::advance(Duration::from_secs(1)).await;
    assert!(in_progress.is_silent());
}

#[tokio::test(start_paused = true)]
async fn waiters_are_notified_of_silence_once_and_each_next_fetch_has_twice_the_limit() {
    let (_writer, first) = in_progress(None);
    let (reply, _response) = oneshot::channel();
    let mut wait = WaitingRequest::new(reply);
    assert!(wait.join(&first, WaitRole::Joined));
    let began = Instant::now();
    let sent_late = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        first.note_progress();
        pending::<()>().await;
    };
    let event = tokio::select! {
        () = first.watch(sent_late) => unreachable!("nothing came"),
        event = wait.event() => event,
    };
    assert!(matches!(event, WaiterEvent::Changed));
    assert_eq!(began.elapsed().as_secs(), 8);
    assert!(first.is_silent());
    let (_writer, second) = in_progress(Some(&first));
    let (_writer, third) = in_progress(Some(&second));
    assert_eq!(third.silence_limit, Duration::from_secs(20));
}

#[test]
fn a_replaced_fetch_does_not_overwrite_a_newer_page() {
    let stored = |tick| {
        Entry::new(EntryParts {
            stored_at: Tick(tick),
            ..testing::page()
        })
    };
    let (_writer, in_progress) = in_progress(None);
    in_progress.start_request(0, Tick(100));
    assert!(
        in_progress.may_replace(Some(&stored(200))),
        "nobody overtook it"
    );
    in_progress.set_overtaken("");
    assert!(in_progress.may_replace(None));
    assert!(in_progress.may_replace(Some(&stored(90))));
    assert!(!in_progress.may_replace(Some(&stored(200))));
}

#[tokio::test]
async fn the_first_head_is_used_and_one_failure_of_two_is_ignored() {
    let (first_writer, first) = in_progress(None);
    let (second_writer, second) = in_progress(Some(&first));
    let (reply, mut response) = oneshot::channel();
    let mut wait = WaitingRequest::new(reply);
    assert!(wait.join(&first, WaitRole::Joined) && wait.join(&second, WaitRole::Joined));
    second_writer.fail(FillError::Timeout);
    let WaiterEvent::Head(index, Err(failure)) = wait.event().await else {
        panic!("the failure of the second comes first");
    };
    let wait = wait.take(index, &HeadUse::Failed(failure), None).unwrap();
    assert!(!wait.may_lead() && wait.is_at(&first) && !wait.is_at(&second));
    assert!(response.try_recv().is_err(), "the first may still answer");
    first_writer.fail(FillError::Closed);
    let verdict = HeadUse::Failed(FillError::Closed);
    assert!(wait.take(0, &verdict, None).is_none());
    assert!(matches!(response.await, Ok(Err(FillError::Closed))));
}

#[tokio::test]
async fn a_disconnected_client_waits_no_longer() {
    let (_writer, in_progress) = in_progress(None);
    let (reply, response) = oneshot::channel();
    let mut wait = WaitingRequest::new(reply);
    wait.join(&in_progress, WaitRole::Joined);
    assert_eq!(in_progress.fill.readers(), 1);
    drop(response);
    assert!(matches!(wait.event().await, WaiterEvent::Disconnected));
    tokio::join!(in_progress.abandoned(), async { wait.cancel() });
    assert_eq!(in_progress.fill.readers(), 0);
}

#[tokio::test]
async fn a_fetch_is_abandoned_when_its_last_waiter_has_disconnected() {
    let (_writer, in_progress) = in_progress(None);
    let wait = || {
        let (reply, _) = oneshot::channel();
        let mut wait = WaitingRequest::new(reply);
        wait.join(&in_progress, WaitRole::Joined);
        wait
    };
    let (first, second) = (wait(), wait());
    first.cancel();
    tokio::select! {
        biased;
        () = in_progress.abandoned() => unreachable!("one waits"),
        () = std::future::ready(()) => {}
    }
    second.cancel();
    in_progress.abandoned().await;
}
