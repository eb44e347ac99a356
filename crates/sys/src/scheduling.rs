//! The length of a thread's time slices.
//!
//! The scheduler of Linux 6.6 and later (EEVDF; Stoica and Abdel-Wahab, 1995) lets a thread run to the end of its slice before it
//! considers other runnable threads, and then selects the one whose slice would end first. So a thread of high priority that has
//! just woken still waits for the slice of PHP, up to some milliseconds. Since 6.12 a thread may set the length of its slices,
//! without any privilege; when it wakes and has a shorter slice than the running thread, it preempts it at once. Its total share
//! does not grow. Older kernels ignore the request.
//!
//! Threads and programs that such a thread starts inherit the length; [`reset`] reverts it.

use std::io;
use std::time::Duration;

/// Requests time slices of `length` for the calling thread: 100 us to 100 ms, limited by the kernel. Nothing changes if that is not
/// possible, or if the process does not have the default scheduling policy.
pub(super) fn request_slice(length: Duration) {
    let length = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
    if let Ok(now) = read()
        && now.policy == DEFAULT_POLICY
    {
        let _ = write(&Attributes {
            runtime: length,
            ..now
        });
    }
}

/// Restores the kernel's default length.
pub(super) fn reset() {
    request_slice(Duration::ZERO);
}

/// The first version of `struct sched_attr` (`sched_setattr(2)`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    /// With the default policy: the slice in nanoseconds, 0 for the kernel's default. Ignored and not reported before Linux 6.12.
    runtime: u64,
    deadline: u64,
    period: u64,
}

fn read() -> io::Result<Attributes> {
    let mut now = Attributes::default();
    // SAFETY: the kernel writes at most `SIZE` bytes, the size of `now`, any of which are valid for its fields.
    #[expect(unsafe_code, reason = "rustix has no call for it")]
    let done =
        unsafe { libc::syscall(libc::SYS_sched_getattr, THIS, &raw mut now, SIZE, NO_FLAGS) };
    if done == 0 {
        Ok(now)
    } else {
        Err(io::Error::last_os_error())
    }
}

fn write(wanted: &Attributes) -> io::Result<()> {
    let attributes = Attributes {
        size: SIZE,
        ..*wanted
    };
    // SAFETY: the kernel reads `SIZE` bytes, the size of `wanted`, and changes nothing but the thread's scheduling.
    #[expect(unsafe_code, reason = "rustix has no call for it")]
    let done = unsafe {
        libc::syscall(
            libc::SYS_sched_setattr,
            THIS,
            &raw const attributes,
            NO_FLAGS,
        )
    };
    if done == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// The calling thread.
const THIS: libc::pid_t = 0;

const NO_FLAGS: libc::c_uint = 0;

/// `SCHED_OTHER`.
const DEFAULT_POLICY: u32 = 0;

/// `SCHED_ATTR_SIZE_VER0`, which every kernel since 3.14 knows.
const SIZE: u32 = 48;

const _: () = assert!(size_of::<Attributes>() == SIZE as usize);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_slice_has_the_requested_length_until_reset() {
        std::thread::spawn(|| {
            let before = read().unwrap();
            request_slice(Duration::from_micros(300));
            let asked = read().unwrap();
            // A new thread inherits the slice, and can reset it.
            let child = || {
                let inherited = read().unwrap();
                reset();
                (inherited.runtime, read().unwrap().runtime)
            };
            let child = std::thread::spawn(child).join().unwrap();
            if before.policy != DEFAULT_POLICY || asked.runtime == before.runtime {
                // An older kernel ignores the request.
                assert_eq!(child, (before.runtime, before.runtime));
                return;
            }
            assert_eq!(asked.runtime, 300_000);
            assert_eq!((asked.nice, asked.flags), (before.nice, before.flags));
            assert_eq!(child, (300_000, before.runtime));
        })
        .join()
        .unwrap();
    }
}
