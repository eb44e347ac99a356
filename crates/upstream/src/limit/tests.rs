//! The concurrency limit under a paused clock: waits, rejections, and that no slot is ever lost.

use super::*;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::{BalancedServer, PoolSpec, ServerStates, UpstreamAddress};
use galley_config::{BalanceMethod, LoadBalancing, PhpAddress, ServerShare, UpstreamLimits};
use galley_policy::class::{Class, Network};
use proptest::prelude::*;
use tokio::task::LocalSet;

/// A pool of one server.
pub(crate) fn spec(slots: usize, queue: usize, queue_timeout: Duration) -> PoolSpec {
    PoolSpec {
        site: "example.com".to_owned(),
        target: UpstreamAddress::FastCgi(vec![PhpAddress::Tcp("127.0.0.1:9000".to_owned())]),
        servers: vec![BalancedServer {
            state: ServerStates::default().of("example.com", "127.0.0.1:9000"),
            share: ServerShare::default(),
        }],
        balancing: LoadBalancing {
            method: BalanceMethod::RoundRobin,
            slow_start: Duration::ZERO,
            check: None,
        },
        limits: UpstreamLimits {
            in_flight: slots,
            queue,
            queue_timeout,
            lock_age: TEN,
            waiters: 1,
            connect_timeout: TEN,
            first_byte_timeout: TEN,
            read_timeout: TEN,
            idle_share: 25,
            idle_age: TEN,
        },
        slots: None,
        end: crate::ExchangeEnd::Response,
    }
}

const TEN: Duration = Duration::from_secs(10);

fn limit(slots: usize, queue: usize) -> ConcurrencyLimit {
    of(&spec(slots, queue, TEN))
}

fn of(spec: &PoolSpec) -> ConcurrencyLimit {
    let stats = Arc::new(UpstreamStats::new(spec));
    ConcurrencyLimit::new(spec, &stats)
}

fn visitor(client: u32) -> QueueIdentity {
    QueueIdentity {
        class: Class::Visitor,
        trust: Trust::Proven,
        client: Network::V4(client),
    }
}

async fn acquire(limit: &ConcurrencyLimit, client: u32) -> Result<Slot, FillError> {
    limit
        .acquire(visitor(client), &QueuePosition::default())
        .await
}

/// A writer may use every slot.
async fn save(limit: &ConcurrencyLimit) -> Result<Slot, FillError> {
    let identity = QueueIdentity {
        class: Class::Editor,
        trust: Trust::Proven,
        client: Network::V4(1),
    };
    limit.acquire(identity, &QueuePosition::default()).await
}

fn load(limit: &ConcurrencyLimit) -> (usize, usize) {
    let (taken, waiting, _) = limit.load();
    let published = limit.0.stats.load();
    assert_eq!((published.in_flight, published.waiting), (taken, waiting));
    (taken, waiting)
}

#[tokio::test(start_paused = true)]
async fn requests_are_rejected_by_a_full_queue_and_after_a_long_wait() {
    let limit = limit(1, 1);
    let first = acquire(&limit, 1).await;
    assert!(first.is_ok());
    let began = Instant::now();
    let (second, third) = tokio::join!(acquire(&limit, 1), acquire(&limit, 1));
    assert!(
        matches!(second, Err(FillError::Overload)),
        "waited ten seconds"
    );
    assert_eq!(began.elapsed().as_secs(), 10);
    assert!(
        matches!(third, Err(FillError::Overload)),
        "found the queue full"
    );
    assert_eq!(load(&limit), (1, 0));
    let rejected: u64 = limit.0.stats.classes().map(|class| class.rejected).sum();
    assert_eq!(rejected, 2);
}

#[tokio::test(start_paused = true)]
async fn a_released_slot_goes_to_a_queued_request() {
    let limit = limit(1, 5);
    let first = acquire(&limit, 1).await;
    let (second, ()) = tokio::join!(acquire(&limit, 2), async { drop(first) });
    assert!(second.is_ok());
    drop(second);
    assert_eq!(load(&limit), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn an_evicted_request_is_rejected_at_once() {
    let limit = limit(1, 2);
    let _taken = acquire(&limit, 1).await;
    let began = Instant::now();
    let (first, second, other) = tokio::join!(
        acquire(&limit, 1),
        async { (acquire(&limit, 1).await, began.elapsed()) },
        acquire(&limit, 2)
    );
    assert!(matches!(second.0, Err(FillError::Overload)));
    assert_eq!(second.1, Duration::ZERO);
    assert!(first.is_err() && other.is_err(), "no slot became free");
}

#[tokio::test(start_paused = true)]
async fn a_standing_queue_is_rejected_early_and_no_slot_remains_free() {
    let limit = Rc::new(limit(2, 1000));
    let local = LocalSet::new();
    let longest = Rc::new(Cell::new(Duration::ZERO));
    let (served, refused) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    // Four times the capacity: 40 requests a second; each takes 200 ms of one of two slots.
    for number in 0_u32..1600 {
        let (limit, longest) = (Rc::clone(&limit), Rc::clone(&longest));
        let (served, refused) = (Rc::clone(&served), Rc::clone(&refused));
        local.spawn_local(async move {
            tokio::time::sleep(Duration::from_millis(25) * number).await;
            let began = Instant::now();
            let slot = acquire(&limit, number).await;
            // The first seconds may be a burst.
            if number > 400 {
                longest.set(longest.get().max(began.elapsed()));
            }
            if slot.is_ok() {
                tokio::time::sleep(Duration::from_millis(200)).await;
                served.set(served.get() + 1);
            } else {
                refused.set(refused.get() + 1);
            }
        });
    }
    local.await;
    assert!(longest.get() <= Duration::from_millis(1500), "{longest:?}");
    // 40 seconds at ten a second.
    assert!(served.get() >= 395, "{served:?}");
    assert_eq!(served.get() + refused.get(), 1600);
    assert_eq!(load(&limit), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_stood_long_ago_does_not_shorten_the_waits_of_a_burst() {
    let limit = Rc::new(limit(1, 1000));
    let _busy = acquire(&limit, 0).await.unwrap();
    let local = LocalSet::new();
    let earliest = Rc::new(Cell::new(TEN));
    local
        .run_until(async {
            for _ in 0..3 {
                earliest.set(TEN);
                let burst = (1..=5).map(|client| {
                    let (limit, earliest) = (Rc::clone(&limit), Rc::clone(&earliest));
                    tokio::task::spawn_local(async move {
                        let began = Instant::now();
                        assert!(acquire(&limit, client).await.is_err());
                        earliest.set(earliest.get().min(began.elapsed()));
                    })
                });
                for request in burst.collect::<Vec<_>>() {
                    request.await.unwrap();
                }
                // The target and the interval.
                assert!(earliest.get() >= Duration::from_secs(4), "{earliest:?}");
                tokio::time::sleep(Duration::from_secs(3600)).await;
            }
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn the_maximum_may_change_at_run_time() {
    let live = Arc::new(AtomicUsize::new(9));
    let spec = PoolSpec {
        slots: Some(Arc::clone(&live)),
        ..spec(3, 10, TEN)
    };
    let limit = of(&spec);
    let slots = [save(&limit).await, save(&limit).await, save(&limit).await];
    assert_eq!(
        limit.load(),
        (3, 0, 3),
        "the configured maximum is not exceeded"
    );
    live.store(1, Ordering::Relaxed);
    let [first, second, third] = slots;
    drop((first, second));
    assert_eq!(load(&limit), (1, 0));
    let (fourth, ()) = tokio::join!(save(&limit), async {
        assert_eq!(load(&limit), (1, 1), "one is allowed, and it is taken");
        drop(third);
    });
    assert!(fourth.is_ok());
    live.store(2, Ordering::Relaxed);
    let fifth = save(&limit).await;
    assert!(fifth.is_ok());
    // A queued request is admitted as well, although no slot is released.
    let (sixth, ()) = tokio::join!(save(&limit), async {
        live.store(3, Ordering::Relaxed);
    });
    assert!(sixth.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_crawler_never_takes_the_last_slot() {
    let limit = limit(3, 100);
    let crawl = [acquire(&limit, 1).await, acquire(&limit, 1).await];
    assert!(crawl.iter().all(Result::is_ok));
    let began = Instant::now();
    let (third, saved) = tokio::join!(acquire(&limit, 1), async {
        (save(&limit).await, began.elapsed())
    });
    assert!(third.is_err(), "it waits to the end");
    assert!(saved.0.is_ok());
    assert_eq!(saved.1, Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn the_statistics_identify_the_client_that_a_full_queue_rejects() {
    let limit = limit(1, 2);
    let taken = acquire(&limit, 1).await;
    let is_full = |identity| limit.0.stats.is_full_for(identity);
    let editor = QueueIdentity {
        class: Class::Editor,
        trust: Trust::Proven,
        client: Network::V4(1),
    };
    assert!(!is_full(visitor(1)), "nobody waits");
    let (first, second, ()) = tokio::join!(acquire(&limit, 1), acquire(&limit, 1), async {
        assert!(is_full(visitor(1)));
        assert!(!is_full(visitor(2)), "it would evict one of the two");
        assert!(!is_full(editor));
        drop(taken);
        assert!(!is_full(visitor(1)), "one of the two has left the queue");
    });
    assert!(first.is_ok() && second.is_err(), "the second times out");
    assert!(!is_full(visitor(1)));
}

#[tokio::test(start_paused = true)]
async fn the_statistics_identify_the_class_that_a_full_queue_rejects() {
    let limit = limit(1, 2);
    let taken = acquire(&limit, 1).await;
    let is_full = |identity| limit.0.stats.is_full_for(identity);
    let editor = QueueIdentity {
        class: Class::Editor,
        trust: Trust::Proven,
        client: Network::V4(9),
    };
    let (first, second, ()) = tokio::join!(acquire(&limit, 1), acquire(&limit, 2), async {
        for newcomer in 1..5 {
            assert!(is_full(visitor(newcomer)), "each has one: {newcomer}");
        }
        assert!(!is_full(editor), "it would evict a visitor");
        let refused = acquire(&limit, 3).await;
        assert!(refused.is_err(), "as the queue itself says");
        drop(taken);
        assert!(!is_full(visitor(3)), "one of the two has left the queue");
    });
    assert!(first.is_ok() && second.is_err(), "the second times out");
    assert!(!is_full(visitor(3)));
}

#[tokio::test(start_paused = true)]
async fn a_promoted_request_is_served_under_the_other_identity() {
    let limit = limit(1, 100);
    let taken = acquire(&limit, 1).await;
    let order = RefCell::new(Vec::new());
    let turn = QueuePosition::default();
    let crawler = QueueIdentity {
        class: Class::Crawler,
        trust: Trust::Proven,
        client: Network::V4(1),
    };
    let wait = async |name: &'static str, turn: &QueuePosition| {
        let slot = limit.acquire(crawler, turn).await;
        order.borrow_mut().push(name);
        drop(slot);
    };
    let (a, b) = (QueuePosition::default(), QueuePosition::default());
    tokio::join!(wait("a", &a), wait("b", &b), wait("wanted", &turn), async {
        limit.promote(&turn, visitor(2));
        drop(taken);
    });
    assert_eq!(order.into_inner(), ["wanted", "a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn retry_after_follows_the_length_of_the_queue() {
    let limit = limit(1, 40);
    let slot = acquire(&limit, 0).await.unwrap();
    // Two responses a second.
    for _ in 0..30 {
        slot.request_sent();
        tokio::time::advance(Duration::from_millis(500)).await;
        slot.response_arrived();
    }
    let waiting: Vec<_> = (1..=40).map(|client| acquire(&limit, client)).collect();
    let all = LocalSet::new();
    let retry_after_s = all
        .run_until(async {
            let mut waiting = waiting.into_iter().map(Box::pin).collect::<Vec<_>>();
            for one in &mut waiting {
                assert!(tokio::time::timeout(Duration::ZERO, one).await.is_err());
            }
            assert!(acquire(&limit, 41).await.is_err());
            limit.0.stats.retry_after_s()
        })
        .await;
    assert_eq!(retry_after_s, 21);
    drop(slot);
}

#[derive(Clone, Debug)]
enum Step {
    Enter(usize, u32),
    Cancel(usize),
    Release(usize),
    Allow(usize),
    Wait(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        5 => (0..Class::ALL.len(), 0_u32..4).prop_map(|(class, client)| Step::Enter(class, client)),
        2 => any::<usize>().prop_map(Step::Cancel),
        4 => any::<usize>().prop_map(Step::Release),
        1 => (0_usize..5).prop_map(Step::Allow),
        1 => (0_u64..3000).prop_map(Step::Wait),
    ];
    proptest::collection::vec(step, 0..120)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// No slot is lost or granted twice, and the limits are kept, for any order of arrivals, cancellations, releases and timeouts.
    #[test]
    fn no_slot_is_lost_and_limits_are_kept(steps in steps(), queue in 0_usize..8) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let local = LocalSet::new();
        local.block_on(&runtime, async move {
            let live = Arc::new(AtomicUsize::new(3));
            let spec = PoolSpec { slots: Some(Arc::clone(&live)), ..spec(5, queue, TEN) };
            let limit = Rc::new(of(&spec));
            let held: Rc<RefCell<Vec<Slot>>> = Rc::default();
            let mut tasks = Vec::new();
            let mut most = 3;
            for step in steps {
                match step {
                    Step::Enter(class, client) => {
                        let (limit, held) = (Rc::clone(&limit), Rc::clone(&held));
                        let identity = QueueIdentity {
                            class: Class::ALL[class],
                            trust: Trust::ALL[client as usize % Trust::ALL.len()],
                            client: Network::V4(client),
                        };
                        tasks.push(tokio::task::spawn_local(async move {
                            if let Ok(slot) = limit.acquire(identity, &QueuePosition::default()).await {
                                held.borrow_mut().push(slot);
                            }
                        }));
                    }
                    Step::Cancel(at) if !tasks.is_empty() => {
                        let at = at % tasks.len();
                        tasks.swap_remove(at).abort();
                    }
                    Step::Release(at) if !held.borrow().is_empty() => {
                        let mut all = held.borrow_mut();
                        let at = at % all.len();
                        let slot = all.swap_remove(at);
                        drop(all);
                        drop(slot);
                    }
                    Step::Allow(slots) => {
                        live.store(slots, Ordering::Relaxed);
                        most = most.max(slots);
                    }
                    Step::Wait(ms) => tokio::time::sleep(Duration::from_millis(ms)).await,
                    Step::Cancel(_) | Step::Release(_) => {}
                }
                // Sometimes the tasks run to their next wait, sometimes only partly.
                if tasks.len() % 3 == 0 {
                    for _ in 0..5 {
                        tokio::task::yield_now().await;
                    }
                }
                let (taken, waiting) = load(&limit);
                prop_assert!(taken <= most && waiting <= queue, "{taken} {waiting}");
                prop_assert!(held.borrow().len() <= taken);
                let held = held.borrow();
                let bounded = held.iter().filter(|slot| slot.identity.class.is_bounded());
                prop_assert!(bounded.count() <= (most / 2).max(1));
            }
            // All requests end.
            live.store(3, Ordering::Relaxed);
            for _ in 0..400 {
                let slots: Vec<Slot> = held.borrow_mut().drain(..).collect();
                drop(slots);
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
            prop_assert_eq!(load(&limit), (0, 0));
            Ok(())
        })?;
    }
}

#[tokio::test(start_paused = true)]
async fn without_proof_a_rest_follows_each_page_while_people_use_the_slots() {
    let limit = limit(2, 10);
    let unseen = QueueIdentity {
        class: Class::Unseen,
        trust: Trust::Plain,
        client: Network::V4(9),
    };
    let page = async |identity| {
        let slot = limit.acquire(identity, &QueuePosition::default()).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        slot.is_ok()
    };
    let is_full = || limit.0.stats.is_full_for(unseen);
    assert!(page(unseen).await && page(unseen).await, "nobody else");
    assert!(page(visitor(1)).await);
    let (other, beside) = tokio::join!(page(visitor(1)), async { (is_full(), page(unseen).await) });
    assert_eq!((other, beside), (true, (false, true)), "a few are no crawl");
    while page(unseen).await {}
    assert!(page(visitor(1)).await);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (other, beside) = tokio::join!(page(visitor(1)), async { (is_full(), page(unseen).await) });
    assert_eq!((other, beside), (true, (true, false)), "beside a visitor");
    assert!(page(unseen).await);
    for _ in 0..6 {
        assert!(!limit.0.stats.is_full_for(visitor(1)));
        page(unseen).await;
    }
    assert!(is_full());
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!is_full(), "the rest ends by itself");
    assert!(page(unseen).await);
}

#[tokio::test(start_paused = true)]
async fn passwords_without_proof_wait_until_they_are_many() {
    let limit = limit(2, 10);
    let login = QueueIdentity {
        class: Class::Login,
        trust: Trust::Plain,
        client: Network::V4(9),
    };
    let page = async |identity| {
        let slot = limit.acquire(identity, &QueuePosition::default()).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        slot.is_ok()
    };
    assert!(page(visitor(1)).await);
    assert_eq!(
        tokio::join!(page(login), page(login)),
        (true, true),
        "the second one waits"
    );
    while page(login).await {}
    assert!(limit.0.stats.is_full_for(login), "they rest");
    let started = tokio::time::Instant::now();
    assert!(page(visitor(1)).await);
    assert_eq!(started.elapsed(), Duration::from_millis(100));
    while limit.0.stats.is_full_for(login) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(
        tokio::join!(page(login), page(login)),
        (true, false),
        "none waits"
    );
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(
        tokio::join!(page(login), page(login)),
        (true, true),
        "it is over"
    );
}
