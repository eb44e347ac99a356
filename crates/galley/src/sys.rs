//! The operating system: descriptors, listening sockets, accounts, privileges, cores, signal numbers.
//!
//! These calls are made at the start or on the control thread, except for [`unsent`], which is called for slow clients.

pub mod account;
pub mod cgroup;
mod deferred_accept;
pub mod memory_file;
pub mod packets;
mod pages;
pub mod privileges;
pub mod reach;
pub mod sandbox;
mod scheduling;
pub mod sockets;
pub mod stamps;

use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use rustix::ioctl::{Getter, Opcode, ioctl};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

pub use pages::use_small_pages;

/// Raises the soft limit of open descriptors to the hard one and returns it.
///
/// Every connection takes one descriptor, and one that waits for PHP takes two; distributions start programs with 1,024.
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

/// Descriptors that are open, and how many may be; 0 open where `/proc` does not tell. Looks at a folder: not for a core.
pub fn descriptors() -> (u64, u64) {
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    let limit = getrlimit(Resource::Nofile).current;
    (open as u64, limit.unwrap_or(UNLIMITED_DESCRIPTORS))
}

/// Lets every other thread run before the calling one, which gets time slices of `turn`. Without permission nothing changes.
pub fn lower_priority(turn: Duration) {
    scheduling::ask_for(turn);
    let thread = Some(rustix::thread::gettid());
    // Where Galley as a whole was begun with a lower one, this thread keeps it.
    if rustix::process::getpriority_process(thread).is_ok_and(|now| now < LOW_PRIORITY) {
        let _ = rustix::process::setpriority_process(thread, LOW_PRIORITY);
    }
}

/// Of 19: it still gets on while others work.
const LOW_PRIORITY: i32 = 10;

/// Lets the calling thread run before others when it has work, in slices of `turn`. Root and `CAP_SYS_NICE` allow a higher
/// priority, every user a slice of its own; without permission nothing changes.
///
/// For threads that answer in microseconds and then wait. PHP works for tens of milliseconds at a time, and the kernel lets a
/// process run for some before it looks for others; a thread with a shorter slice need not wait for that.
pub fn raise_priority(turn: Duration) {
    scheduling::ask_for(turn);
    let thread = Some(rustix::thread::gettid());
    if rustix::process::getpriority_process(thread).is_ok_and(|now| now > HIGH_PRIORITY) {
        let _ = rustix::process::setpriority_process(thread, HIGH_PRIORITY);
    }
}

/// Lets other threads that wait for this processor run before the calling thread continues, at the cost of one of its slices
/// if there are any.
///
/// For long work on threads with short slices. A thread that answers and has just worked has no lag in its favour at the
/// moment in which it wakes, or in which the thread before it goes to sleep; then it does not preempt another one, however
/// low, and the kernel decides again only at its next tick, up to 4 ms later. Work that yields every 50 us made the 99th
/// percentile of hits beside misses two to three times what it is alone, instead of five.
pub fn let_others_go() {
    std::thread::yield_now();
}

/// The same again for a thread that was begun by one of high priority, and is not to have it: threads inherit it.
pub fn usual_priority() {
    scheduling::reset();
    let thread = Some(rustix::thread::gettid());
    if rustix::process::getpriority_process(thread).is_ok_and(|now| now < 0) {
        let _ = rustix::process::setpriority_process(thread, 0);
    }
}

/// Of -20: three times the weight of PHP and of the database. A thread that has used less than its share of a processor goes first at
/// once, one that has used more waits for its turn and then finds several requests to answer.
///
/// With -10, nine times the weight, such a thread always went first: it interrupted PHP for each single response, and woke an idle
/// client on the other processor each time. Scripts that take PHP 50 us were then served at 0.64 times the rate of tuned nginx, with -5
/// at 1.06 times (article 3 of `make seeds`, AMD EPYC). Hits beside misses showed no difference beyond noise
/// (docs/internals/performance/misses.md).
const HIGH_PRIORITY: i32 = -5;

/// How many processes of this machine run or could run at this moment, without the calling thread, and how many processors it
/// has; `None` if `/proc` does not say.
///
/// The first call opens what the later ones read, so that a confined thread can call it if it was called before.
pub fn running_processes() -> Option<(usize, usize)> {
    static MACHINE: OnceLock<Option<(File, usize)>> = OnceLock::new();
    let opened = MACHINE.get_or_init(|| {
        // All of the machine's: what runs is counted over all of them.
        let text = std::fs::read_to_string("/proc/stat").ok()?;
        let rows = text.lines().filter(|line| line.starts_with("cpu"));
        let processors = rows.count().saturating_sub(1).max(1);
        Some((File::open("/proc/loadavg").ok()?, processors))
    });
    let (loadavg, processors) = opened.as_ref()?;
    let mut line = [0; 128];
    // From its beginning, where the kernel generates it again.
    let length = loadavg.read_at(&mut line, 0).ok()?;
    let text = std::str::from_utf8(line.get(..length)?).ok()?;
    Some((running_of(text)?.saturating_sub(1), *processors))
}

/// The fourth field of `/proc/loadavg` is `RUNNING/ALL` (`proc_loadavg(5)`).
fn running_of(loadavg: &str) -> Option<usize> {
    let field = loadavg.split_ascii_whitespace().nth(3)?;
    field.split('/').next()?.parse().ok()
}

/// Helper threads that the runtime of a core may have for files: more than disks have use for. A thread that answers interrupts
/// the helper that has just woken it, so that this one is not yet free when it has the next piece to write, and the runtime begins
/// another: without a limit eight slow readers made three hundred of them on a busy machine, and the kernel ended Galley.
pub const HELPERS: usize = 64;

/// How many cores this process may use (cgroup quotas counted).
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Whether `error` means that no descriptor is left, for this process or for the machine.
pub fn is_out_of_descriptors(error: &io::Error) -> bool {
    let code = error.raw_os_error();
    code == Some(rustix::io::Errno::MFILE.raw_os_error())
        || code == Some(rustix::io::Errno::NFILE.raw_os_error())
        || code == Some(rustix::io::Errno::NOMEM.raw_os_error())
        || code == Some(rustix::io::Errno::NOBUFS.raw_os_error())
}

/// Bytes that were written to a socket and have not arrived at its other end; 0 where the kernel does not tell.
pub fn unsent(socket: BorrowedFd<'_>) -> u64 {
    // SAFETY: `TIOCOUTQ`, which tcp(7) calls `SIOCOUTQ`, writes one `int` and reads nothing: what `Getter` has room for.
    #[expect(unsafe_code, reason = "rustix has no call of its own for it")]
    let told = unsafe { ioctl(socket, Getter::<TIOCOUTQ, i32>::new()) };
    told.ok()
        .and_then(|count| u64::try_from(count).ok())
        .unwrap_or(0)
}

/// asm-generic/ioctls.h; the same on all machines that Galley is built for.
const TIOCOUTQ: Opcode = 0x5411;

/// The name of the user who owns `path`; `None` for root, and for a number without a name.
///
/// PHP runs as the owner of the site's files, so that WordPress can write its uploads and nothing else.
pub fn owner(path: &Path) -> Option<String> {
    use std::os::unix::fs::MetadataExt;
    let id = std::fs::metadata(path).ok()?.uid();
    let accounts = std::fs::read_to_string("/etc/passwd").ok()?;
    let mut rows = accounts.lines().map(|line| line.split(':'));
    let name = rows.find_map(|mut row| {
        let name = row.next()?;
        let number: u32 = row.nth(1)?.parse().ok()?;
        (number == id).then_some(name)
    })?;
    (id != 0).then(|| name.to_owned())
}

/// Random bytes from the kernel; the start of request ids.
pub fn random_bytes() -> [u8; 8] {
    let mut bytes = [0_u8; 8];
    let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    if filled.is_err() {
        let fallback = std::process::id().to_ne_bytes();
        bytes[..fallback.len()].copy_from_slice(&fallback);
    }
    bytes
}

/// What an unlimited number of descriptors is taken for.
const UNLIMITED_DESCRIPTORS: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_reaches_the_hard_one() {
        let raised = raise_descriptor_limit();
        let limit = getrlimit(Resource::Nofile);
        assert_eq!(limit.current, limit.maximum);
        assert_eq!(limit.current.unwrap_or(UNLIMITED_DESCRIPTORS), raised);
    }

    #[test]
    fn a_priority_that_is_lower_already_stays() {
        let helper = || {
            let thread = Some(rustix::thread::gettid());
            let lowered = || {
                lower_priority(Duration::from_micros(100));
                rustix::process::getpriority_process(thread).unwrap()
            };
            let before = rustix::process::getpriority_process(thread).unwrap();
            assert_eq!(lowered(), before.max(LOW_PRIORITY));
            // Lower still, which everybody may be.
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
        // Also to threads that may open nothing, as those of the fetch threads.
        let confined = std::thread::spawn(|| {
            sandbox::Sandbox::default().enter().unwrap();
            running_processes()
        });
        assert!(confined.join().unwrap().is_some());
    }

    #[test]
    fn a_thread_that_was_raised_can_be_usual_again() {
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
    fn what_has_not_arrived_is_counted() {
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
        // Confirmations arrive after a moment.
        while unsent(server.as_fd()) > 0 {
            std::thread::yield_now();
        }
    }
}
