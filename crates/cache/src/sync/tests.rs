//! Replacements for the primitives in tests: the same with scheduling points, and atomics that can be loom's.
//!
//! Threads of an interleaving test are tasks of one system thread, so a test must not block on a held lock: it retries and
//! yields until the lock is free.

use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::sync::{
    LockResult, MutexGuard, PoisonError, RwLockReadGuard, RwLockWriteGuard, TryLockError,
    TryLockResult,
};

use shuttle::rand::Rng as _;

thread_local! {
    /// One of this number of points switches to another thread.
    static POINTS_PER_SWITCH: Cell<u32> = const { Cell::new(1) };
    /// Whether new atomics are loom's.
    static IS_MODELLED: Cell<bool> = const { Cell::new(false) };
}

/// Sets that one of `points` points switches threads. With more of them, threads run longer without interruption.
pub(crate) fn set_points_per_switch(points: u32) {
    POINTS_PER_SWITCH.set(points);
}

/// A scheduling point: in an interleaving test, may switch to another thread.
pub(crate) fn point() {
    if !is_stepped() {
        return;
    }
    let points = POINTS_PER_SWITCH.get();
    if points < 2 || shuttle::rand::thread_rng().gen_range(0..points) == 0 {
        shuttle::thread::yield_now();
    }
}

fn is_stepped() -> bool {
    shuttle::current::try_get_current_task().is_some()
}

/// Retries `attempt` until it locks, and yields to other threads in between. Outside of an interleaving test, calls `wait`.
fn lock_cooperatively<G>(
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
pub(crate) struct Lock<T>(std::sync::Mutex<T>);

impl<T> Lock<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(std::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        let locked = lock_cooperatively(|| self.0.try_lock(), || self.0.lock());
        point();
        locked.unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug, Default)]
pub(crate) struct RwLock<T>(std::sync::RwLock<T>);

impl<T> RwLock<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(std::sync::RwLock::new(value))
    }

    pub(crate) fn read(&self) -> LockResult<RwLockReadGuard<'_, T>> {
        lock_cooperatively(|| self.0.try_read(), || self.0.read())
    }

    pub(crate) fn write(&self) -> LockResult<RwLockWriteGuard<'_, T>> {
        let locked = lock_cooperatively(|| self.0.try_write(), || self.0.write());
        point();
        locked
    }

    pub(crate) fn try_read(&self) -> TryLockResult<RwLockReadGuard<'_, T>> {
        point();
        self.0.try_read()
    }
}

/// An atomic of the processor or, within [`model`], of loom, which explores the effects of weak memory.
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

    pub(crate) fn load(&self, order: Ordering) -> u64 {
        point();
        match self {
            Self::Real(number) => number.load(order),
            Self::Modelled(number) => number.load(order),
        }
    }

    pub(crate) fn store(&self, value: u64, order: Ordering) {
        point();
        match self {
            Self::Real(number) => number.store(value, order),
            Self::Modelled(number) => number.store(value, order),
        }
    }

    pub(crate) fn fetch_max(&self, value: u64, order: Ordering) -> u64 {
        point();
        match self {
            Self::Real(number) => number.fetch_max(value, order),
            Self::Modelled(number) => number.fetch_max(value, order),
        }
    }
}

/// Runs `threads` in every interleaving and with every value that memory ordering permits the atomics to have. Locks are real:
/// a thread must not wait for a lock that another thread holds while it uses an atomic.
pub(crate) fn model(threads: impl Fn() + Send + Sync + 'static) {
    IS_MODELLED.set(true);
    loom::model(threads);
    IS_MODELLED.set(false);
}
