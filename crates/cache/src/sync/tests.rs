//! What takes the primitives' place in tests: the same, with points; and numbers that can be loom's.
//!
//! Threads of an interleaving test are tasks of one thread of the system, so a lock that is taken must not be waited for
//! in earnest: it is tried, and given way for, until it is free.

use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::sync::{
    LockResult, MutexGuard, PoisonError, RwLockReadGuard, RwLockWriteGuard, TryLockError,
    TryLockResult,
};

use shuttle::rand::Rng as _;

thread_local! {
    /// Of how many points one lets others go on.
    static STICKS: Cell<u32> = const { Cell::new(1) };
    /// Whether new numbers are loom's.
    static IS_MODELLED: Cell<bool> = const { Cell::new(false) };
}

/// From now on one of `points` lets others go on: with more of them, threads do more in one go.
pub(crate) fn sticks(points: u32) {
    STICKS.set(points);
}

/// Here another thread may go on, if an interleaving test runs.
pub(crate) fn point() {
    if !is_stepped() {
        return;
    }
    let sticks = STICKS.get();
    if sticks < 2 || shuttle::rand::thread_rng().gen_range(0..sticks) == 0 {
        shuttle::thread::yield_now();
    }
}

fn is_stepped() -> bool {
    shuttle::current::try_get_current_task().is_some()
}

/// Takes what `attempt` tries, letting others go on while it is taken.
fn insist<G>(
    attempt: impl Fn() -> TryLockResult<G>,
    wait: impl FnOnce() -> LockResult<G>,
) -> LockResult<G> {
    if !is_stepped() {
        return wait();
    }
    point();
    loop {
        match attempt() {
            Ok(guard) => return Ok(guard),
            Err(TryLockError::Poisoned(poisoned)) => {
                return Err(PoisonError::new(poisoned.into_inner()));
            }
            Err(TryLockError::WouldBlock) => shuttle::thread::yield_now(),
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(std::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        let locked = insist(|| self.0.try_lock(), || self.0.lock());
        point();
        locked
    }
}

#[derive(Debug, Default)]
pub(crate) struct RwLock<T>(std::sync::RwLock<T>);

impl<T> RwLock<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(std::sync::RwLock::new(value))
    }

    pub(crate) fn read(&self) -> LockResult<RwLockReadGuard<'_, T>> {
        insist(|| self.0.try_read(), || self.0.read())
    }

    pub(crate) fn write(&self) -> LockResult<RwLockWriteGuard<'_, T>> {
        let locked = insist(|| self.0.try_write(), || self.0.write());
        point();
        locked
    }

    pub(crate) fn try_read(&self) -> TryLockResult<RwLockReadGuard<'_, T>> {
        point();
        self.0.try_read()
    }
}

/// A number as the processor keeps it or, within [`model`], as loom does: that shows what weak memory may.
#[derive(Debug)]
pub(crate) enum AtomicU64 {
    Real(std::sync::atomic::AtomicU64),
    Modelled(loom::sync::atomic::AtomicU64),
}

impl AtomicU64 {
    pub(crate) fn new(value: u64) -> Self {
        if IS_MODELLED.get() {
            Self::Modelled(loom::sync::atomic::AtomicU64::new(value))
        } else {
            Self::Real(std::sync::atomic::AtomicU64::new(value))
        }
    }

    pub(crate) fn load(&self, purge: Ordering) -> u64 {
        point();
        match self {
            Self::Real(number) => number.load(purge),
            Self::Modelled(number) => number.load(purge),
        }
    }

    pub(crate) fn store(&self, value: u64, purge: Ordering) {
        point();
        match self {
            Self::Real(number) => number.store(value, purge),
            Self::Modelled(number) => number.store(value, purge),
        }
    }

    pub(crate) fn fetch_max(&self, value: u64, purge: Ordering) -> u64 {
        point();
        match self {
            Self::Real(number) => number.fetch_max(value, purge),
            Self::Modelled(number) => number.fetch_max(value, purge),
        }
    }
}

/// Runs `threads` in every order and with everything that its memory purges allow the numbers to be. Locks are real: a
/// thread must not wait for one that another holds at a number's use.
pub(crate) fn model(threads: impl Fn() + Send + Sync + 'static) {
    IS_MODELLED.set(true);
    loom::model(threads);
    IS_MODELLED.set(false);
}
