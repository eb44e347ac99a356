//! The mutex of everything that threads share.

use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

/// A mutex that stays usable after a panic of a thread that had it locked: what it protects is valid after every statement, so that
/// one failed request does not fail all later ones.
#[derive(Debug, Default)]
pub struct Lock<T>(Mutex<T>);

impl<T> Lock<T> {
    /// Creates an unlocked mutex.
    pub const fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    /// Locks the mutex. Blocks while another thread has it locked.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the mutex; `None` if a thread has it locked. Never blocks.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// The value, without locking.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}
