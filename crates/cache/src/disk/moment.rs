//! Ages that survive a restart and a stepped clock.
//!
//! A file contains two clock readings of the time at which it was stored: the time since boot, with the id of that boot, and the
//! wall clock. Until the machine boots again, the first one gives the elapsed time, whatever happens to the wall clock.
//! After a boot only the wall clock is available. If it is before the time of storing, the elapsed time is unknown, and
//! the entry counts as at the end of its freshness: it is revalidated, but can still be sent when the upstream fails.
//!
//! This module reads no clock after [`BootClock::current`].

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use galley_policy::storable::Lifetime;
use galley_policy::time::Tick;

/// The current time on both clocks.
#[derive(Clone, Copy, Debug)]
pub struct DiskClock {
    /// The monotonic clock, for ages in this process.
    pub tick: Tick,
    /// The wall clock, the only clock that is valid after a boot.
    pub wall: SystemTime,
}

/// The time at which a file was stored, as written in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StoredTime {
    /// The id of the machine's boot.
    pub(super) boot: [u8; 16],
    /// Milliseconds since that boot, including suspended time as far as it was known when the process started.
    pub(super) boot_ms: u64,
    /// Milliseconds since 1970.
    pub(super) wall_ms: u64,
}

/// The current boot of the machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct BootClock {
    id: [u8; 16],
    /// The time since boot when the process's tick was 0.
    tick_zero_ms: u64,
}

impl BootClock {
    /// Reads the boot id from the kernel. If that fails, uses a random id: then only this process uses the clock since boot.
    pub(super) fn current(now: DiskClock) -> Self {
        let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
            .ok()
            .and_then(|text| parse_boot_id(&text))
            .unwrap_or_else(super::seal::random);
        let clock = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let seconds = u64::try_from(clock.tv_sec).unwrap_or(0);
        let nanoseconds = u64::try_from(clock.tv_nsec).unwrap_or(0);
        let boot_ms = seconds
            .saturating_mul(1000)
            .saturating_add(nanoseconds / 1_000_000);
        Self {
            id,
            tick_zero_ms: boot_ms.saturating_sub(now.tick.0),
        }
    }

    pub(super) fn stamp(&self, now: DiskClock) -> StoredTime {
        StoredTime {
            boot: self.id,
            boot_ms: self.tick_zero_ms.saturating_add(now.tick.0),
            wall_ms: wall_ms(now.wall),
        }
    }

    /// The time from `then` to `now`; `None`: unknown.
    pub(super) fn since(&self, then: &StoredTime, now: DiskClock) -> Option<Duration> {
        if then.boot == self.id {
            let now_ms = self.tick_zero_ms.saturating_add(now.tick.0);
            // The order of threads' clock readings varies, so a time slightly in the future counts as now.
            return (then.boot_ms <= now_ms.saturating_add(THREADS_APART_MS))
                .then(|| Duration::from_millis(now_ms.saturating_sub(then.boot_ms)));
        }
        since_wall(then, now)
    }

    /// The current age of an entry that had `age` when it was stored.
    pub(super) fn age(
        &self,
        then: &StoredTime,
        age: Duration,
        lifetime: &Lifetime,
        now: DiskClock,
    ) -> Duration {
        match self.since(then, now) {
            Some(since) => age.saturating_add(since),
            None => age.max(lifetime.fresh),
        }
    }

    #[cfg(test)]
    pub(super) fn of(id: [u8; 16], tick_zero_ms: u64) -> Self {
        Self { id, tick_zero_ms }
    }
}

/// The time from `then` to `now` by the wall clock; `None`: by that clock, `then` is in the future.
pub(super) fn since_wall(then: &StoredTime, now: DiskClock) -> Option<Duration> {
    let since = wall_ms(now.wall).checked_sub(then.wall_ms)?;
    Some(Duration::from_millis(since))
}

/// Seconds since 1970. Enough precision for the order of eviction.
pub(super) fn wall_seconds(wall: SystemTime) -> u32 {
    u32::try_from(wall_ms(wall) / 1000).unwrap_or(u32::MAX)
}

fn wall_ms(wall: SystemTime) -> u64 {
    let since_epoch = wall.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX)
}

fn parse_boot_id(text: &str) -> Option<[u8; 16]> {
    let digits = text.chars().filter_map(|c| c.to_digit(16));
    let id = digits.fold(0_u128, |id, digit| id << 4 | u128::from(digit));
    (id != 0).then(|| id.to_le_bytes())
}

/// More than the readings of one clock by different threads ever differ.
const THREADS_APART_MS: u64 = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(tick: u64, wall_s: u64) -> DiskClock {
        DiskClock {
            tick: Tick(tick),
            wall: UNIX_EPOCH + Duration::from_secs(wall_s),
        }
    }

    #[test]
    fn ages_over_restarts_and_steps() {
        let stored_by = BootClock::of([1; 16], 50_000);
        let then = stored_by.stamp(at(10_000, 1_000_000));
        let s = Duration::from_secs;
        // The reader's boot, its time, and the expected age of an entry that had 5 s when stored and is fresh for 60 s.
        let table = [
            ("same process", stored_by, at(30_000, 1_000_020), s(25)),
            ("wall stepped back", stored_by, at(30_000, 900), s(25)),
            (
                "wall stepped ahead",
                stored_by,
                at(30_000, 2_000_000),
                s(25),
            ),
            (
                "other thread, a moment ago",
                stored_by,
                at(9_000, 999_999),
                s(5),
            ),
            (
                "restarted, same boot",
                BootClock::of([1; 16], 100_000),
                at(0, 7),
                s(45),
            ),
            (
                "booted again",
                BootClock::of([2; 16], 3),
                at(0, 1_000_100),
                s(105),
            ),
            (
                "booted again, clock behind",
                BootClock::of([2; 16], 3),
                at(0, 999_999),
                s(60),
            ),
            (
                "same boot, impossible clock",
                BootClock::of([1; 16], 0),
                at(0, 5),
                s(60),
            ),
        ];
        for (what, reader, now, wanted) in table {
            let lifetime = Lifetime {
                fresh: s(60),
                ..crate::testing::lifetime()
            };
            assert_eq!(reader.age(&then, s(5), &lifetime, now), wanted, "{what}");
        }
        let nothing_known = BootClock::of([2; 16], 3);
        let lifetime = crate::testing::lifetime();
        let old = nothing_known.age(&then, s(500), &lifetime, at(0, 5));
        assert_eq!(old, s(500), "never younger than it was");
    }

    #[test]
    fn boot_ids() {
        let text = "00000000-0000-0000-0000-0000000001ff\n";
        assert_eq!(parse_boot_id(text), Some(0x1ff_u128.to_le_bytes()));
        assert_eq!(parse_boot_id(""), None);
        let current = BootClock::current(at(0, 0));
        assert_eq!(current.id, BootClock::current(at(0, 0)).id);
    }

    #[test]
    fn seconds_stop_at_the_ends() {
        assert_eq!(wall_seconds(UNIX_EPOCH - Duration::from_secs(9)), 0);
        assert_eq!(wall_seconds(UNIX_EPOCH + Duration::from_secs(9)), 9);
        assert_eq!(
            wall_seconds(UNIX_EPOCH + Duration::from_secs(1 << 40)),
            u32::MAX
        );
    }
}
