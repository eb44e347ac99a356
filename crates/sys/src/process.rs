//! Limits, priorities, processors and descriptors of this process.

use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use rustix::ioctl::{Getter, Opcode, ioctl};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::scheduling;

/// Raises the soft limit of open descriptors to the hard limit and returns it.
///
/// Every connection needs one descriptor, and two while it waits for PHP; distributions start programs with 1,024.
pub fn raise_descriptor_limit() -> u64 {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let raised = Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        };
        if setrlimit(Resource::Nofile, raised).is_ok() {
            limit = raised;
        }
    }
    limit.current.unwrap_or(UNLIMITED_DESCRIPTORS)
}

/// The number of open descriptors (0 without `/proc`) and their limit. Lists a directory: do not call on a front thread.
pub fn descriptors() -> (u64, u64) {
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    let limit = getrlimit(Resource::Nofile).current;
    (open as u64, limit.unwrap_or(UNLIMITED_DESCRIPTORS))
}

/// Lowers the priority of the calling thread below others, in time slices of `slice`. Without permission nothing changes.
pub fn lower_priority(slice: Duration) {
    scheduling::request_slice(slice);
    let thread = Some(rustix::thread::gettid());
    // If Galley was started with a lower priority, the thread keeps it.
    if rustix::process::getpriority_process(thread).is_ok_and(|now| now < LOW_PRIORITY) {
        let _ = rustix::process::setpriority_process(thread, LOW_PRIORITY);
    }
}

/// The nice value, of at most 19: the thread still makes progress while others work.
const LOW_PRIORITY: i32 = 10;

/// Raises the priority of the calling thread, in time slices of `slice`. Root and `CAP_SYS_NICE` permit a higher priority, and
/// every user may change the time slice; without permission nothing changes.
///
/// For threads that work for microseconds and then wait. PHP works for tens of milliseconds at a time, and the kernel lets a
/// process run for some of them before it switches; a thread with a shorter time slice preempts it.
pub fn raise_priority(slice: Duration) {
    scheduling::request_slice(slice);
    let thread = Some(rustix::thread::gettid());
    if rustix::process::getpriority_process(thread).is_ok_and(|now| now > HIGH_PRIORITY) {
        let _ = rustix::process::setpriority_process(thread, HIGH_PRIORITY);
    }
}

/// Yields the processor to other runnable threads, at the cost of the rest of the calling thread's time slice if there are any.
///
/// For long work on threads with short time slices. A front thread that has just worked has no lag in its favor when it wakes up,
/// or when the thread before it goes to sleep. Then it does not preempt another thread, whatever the priority of that one, and
/// the kernel decides again only at its next tick, up to 4 ms later. Work that yields every 50 us made the 99th percentile of hits
/// during misses two to three times that of hits alone, instead of five.
pub fn yield_processor() {
    std::thread::yield_now();
}

/// Resets the priority and the time slice of a thread that inherited them from a thread of high priority.
pub fn usual_priority() {
    scheduling::reset();
    let thread = Some(rustix::thread::gettid());
    if rustix::process::getpriority_process(thread).is_ok_and(|now| now < 0) {
        let _ = rustix::process::setpriority_process(thread, 0);
    }
}

/// The nice value, of at least -20: three times the weight of PHP and of the database. A thread that has used less than its share
/// of a processor preempts at once; one that has used more waits, and then finds several requests to process.
///
/// With -10, nine times the weight, such a thread always preempted: it interrupted PHP for each single response, and woke an idle
/// client on the other processor each time. Scripts that take PHP 50 us were then served at 0.64 times the rate of tuned nginx,
/// with -5 at 1.06 times (article 3 of `make seeds`, AMD EPYC). Hits during misses showed no difference beyond noise
/// (docs/internals/performance/misses.md).
const HIGH_PRIORITY: i32 = -5;

/// The number of processes of this machine that run or could run now, without the calling thread, and the number of processors;
/// `None` without `/proc`.
///
/// The first call opens the files that later calls read, so that a sandboxed thread can call it after that.
pub fn running_processes() -> Option<(usize, usize)> {
    static MACHINE: OnceLock<Option<(File, usize)>> = OnceLock::new();
    let opened = MACHINE.get_or_init(|| {
        // All processors of the machine: the count of running processes is over all of them.
        let text = std::fs::read_to_string("/proc/stat").ok()?;
        let rows = text.lines().filter(|line| line.starts_with("cpu"));
        let processors = rows.count().saturating_sub(1).max(1);
        Some((File::open("/proc/loadavg").ok()?, processors))
    });
    let (loadavg, processors) = opened.as_ref()?;
    let mut line = [0; 128];
    // From offset 0, where the kernel generates the content again.
    let length = loadavg.read_at(&mut line, 0).ok()?;
    let text = std::str::from_utf8(line.get(..length)?).ok()?;
    Some((running_of(text)?.saturating_sub(1), *processors))
}

/// The fourth field of `/proc/loadavg` is `RUNNING/ALL` (`proc_loadavg(5)`).
fn running_of(loadavg: &str) -> Option<usize> {
    let field = loadavg.split_ascii_whitespace().nth(3)?;
    field.split('/').next()?.parse().ok()
}

/// The maximum number of helper threads for files in the runtime of one thread: more than disks can use. A front thread interrupts
/// the helper that has just woken it, so that helper is still busy when the next piece is to be written, and the runtime starts
/// another: without a limit, eight slow readers caused three hundred of them on a busy machine, and the kernel killed Galley.
pub const HELPERS: usize = 64;

/// The number of processors that this process may use, with cgroup quotas considered.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Whether `error` means that the process or the machine has no free descriptor.
pub fn is_out_of_descriptors(error: &io::Error) -> bool {
    let code = error.raw_os_error();
    code == Some(rustix::io::Errno::MFILE.raw_os_error())
        || code == Some(rustix::io::Errno::NFILE.raw_os_error())
        || code == Some(rustix::io::Errno::NOMEM.raw_os_error())
        || code == Some(rustix::io::Errno::NOBUFS.raw_os_error())
}

/// Bytes that were written to a socket and are not acknowledged by the peer; 0 if the kernel does not report it.
pub fn unsent(socket: BorrowedFd<'_>) -> u64 {
    // SAFETY: `TIOCOUTQ`, which tcp(7) calls `SIOCOUTQ`, writes one `int`, for which `Getter` has space, and reads nothing.
    #[expect(unsafe_code, reason = "rustix has no call of its own for it")]
    let result = unsafe { ioctl(socket, Getter::<TIOCOUTQ, i32>::new()) };
    result
        .ok()
        .and_then(|count| u64::try_from(count).ok())
        .unwrap_or(0)
}

/// From asm-generic/ioctls.h; the same on all architectures that Galley is built for.
const TIOCOUTQ: Opcode = 0x5411;

/// The name of the user who owns `path`; `None` for root, and for a user id without a name.
///
/// PHP runs as the owner of the site's files, so that WordPress can write its uploads and nothing else.
pub fn owner(path: &Path) -> Option<String> {
    use std::os::unix::fs::MetadataExt;
    let id = std::fs::metadata(path).ok()?.uid();
    let accounts = std::fs::read_to_string("/etc/passwd").ok()?;
    let name = super::account::find_name(&accounts, id)?;
    (id != 0).then_some(name)
}

/// Random bytes from the kernel; the first part of request ids.
pub fn random_bytes() -> [u8; 8] {
    let mut bytes = [0_u8; 8];
    let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    if filled.is_err() {
        let fallback = std::process::id().to_ne_bytes();
        bytes[..fallback.len()].copy_from_slice(&fallback);
    }
    bytes
}

/// The value used for an unlimited number of descriptors.
const UNLIMITED_DESCRIPTORS: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_is_raised_to_the_hard_limit() {
        let raised = raise_descriptor_limit();
        let limit = getrlimit(Resource::Nofile);
        assert_eq!(limit.current, limit.maximum);
        assert_eq!(limit.current.unwrap_or(UNLIMITED_DESCRIPTORS), raised);
    }

    #[test]
    fn a_lower_priority_is_not_raised() {
        let helper = || {
            let thread = Some(rustix::thread::gettid());
            let lowered = || {
                lower_priority(Duration::from_micros(100));
                rustix::process::getpriority_process(thread).unwrap()
            };
            let before = rustix::process::getpriority_process(thread).unwrap();
            assert_eq!(lowered(), before.max(LOW_PRIORITY));
            // An even lower priority, which every user may set.
            rustix::process::setpriority_process(thread, 19).unwrap();
            assert_eq!(lowered(), 19);
        };
        std::thread::spawn(helper).join().unwrap();
    }

    #[test]
    fn running_processes_are_counted() {
        assert_eq!(running_of("0.39 0.84 1.54 3/412 9731\n"), Some(3));
        for text in ["", "0.1 0.2 0.3", "0.1 0.2 0.3 x/1 2", "0.1 0.2 0.3 / 2"] {
            assert_eq!(running_of(text), None, "{text}");
        }
        let (_, processors) = running_processes().unwrap();
        assert!(processors >= cores());
        // The same in a sandboxed thread, which cannot open files.
        let confined = std::thread::spawn(|| {
            crate::sandbox::Sandbox::default().enter().unwrap();
            running_processes()
        });
        assert!(confined.join().unwrap().is_some());
    }

    #[test]
    fn a_raised_priority_can_be_reset() {
        let at = || rustix::process::getpriority_process(Some(rustix::thread::gettid())).unwrap();
        std::thread::spawn(move || {
            let before = at();
            raise_priority(Duration::from_millis(1));
            assert!(at() == HIGH_PRIORITY || at() == before, "{}", at());
            usual_priority();
            assert!(at() == 0 || at() == before, "{}", at());
        })
        .join()
        .unwrap();
    }

    #[test]
    fn unacknowledged_bytes_are_counted() {
        use std::io::{Read, Write};
        use std::os::fd::AsFd;
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        assert_eq!(unsent(server.as_fd()), 0);
        server.set_nonblocking(true).unwrap();
        let mut written = 0;
        let sent = vec![0; 65_536];
        while let Ok(count) = server.write(&sent) {
            written += count as u64;
        }
        let waiting = unsent(server.as_fd());
        assert!(0 < waiting && waiting < written, "{waiting} of {written}");
        let mut read = 0;
        let mut piece = vec![0; 65_536];
        while read < written {
            read += client.read(&mut piece).unwrap() as u64;
        }
        // Acknowledgments arrive a moment later.
        while unsent(server.as_fd()) > 0 {
            std::thread::yield_now();
        }
    }
}
