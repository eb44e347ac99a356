//! Memory in pages of its own, which the kernel sends without a copy (`vmsplice(2)`, `splice(2)`).
//!
//! A socket's queue refers to the pages themselves until the client has acknowledged them. So the bytes are written before the
//! pages can be sent, nothing writes to them afterwards, and they never return to the allocator: an unmapped page stays as it is
//! until the kernel has sent it.
//!
//! A send passes through a pipe. Bytes that the socket did not accept stay in it, so such a pipe is closed, and never used for
//! another client.

use std::cell::Cell;
use std::io;
use std::ops::Deref;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::io::Errno;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
use rustix::pipe::{
    IoSliceRaw, PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice, vmsplice,
};

/// Bytes that do not change, in pages of their own.
#[derive(Debug)]
pub struct OwnPages(
    /// The mapping, which ends with this value: never handed out for longer than that.
    &'static [u8],
);

impl OwnPages {
    /// Copies `bytes`.
    ///
    /// Errors: those of the kernel, and `QuotaExceeded` if there are too many already.
    pub fn copy_of(bytes: &[u8]) -> io::Result<Self> {
        if MAPPINGS.fetch_add(1, Ordering::Relaxed) >= MAX_MAPPINGS {
            MAPPINGS.fetch_sub(1, Ordering::Relaxed);
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        let length = bytes.len();
        let flags = MapFlags::PRIVATE | MapFlags::POPULATE;
        // SAFETY: without an address of the caller, the mapping replaces no other one.
        #[expect(unsafe_code, reason = "no library maps anonymous memory safely")]
        let mapped = unsafe {
            mmap_anonymous(
                ptr::null_mut(),
                length,
                ProtFlags::READ | ProtFlags::WRITE,
                flags,
            )
        };
        let start = mapped.inspect_err(|_| {
            MAPPINGS.fetch_sub(1, Ordering::Relaxed);
        })?;
        // SAFETY: the mapping has `length` bytes, only this function knows it yet, and after this nothing writes to it. Only
        // `drop` unmaps it.
        #[expect(unsafe_code, reason = "no library maps anonymous memory safely")]
        let pages = unsafe {
            ptr::copy_nonoverlapping(bytes.as_ptr(), start.cast(), length);
            Self(std::slice::from_raw_parts(start.cast(), length))
        };
        // SAFETY: as above; the bytes are only read from here on.
        #[expect(unsafe_code, reason = "no library maps anonymous memory safely")]
        unsafe { mprotect(start, length, MprotectFlags::READ) }?;
        Ok(pages)
    }

    /// The memory that `length` bytes take, in bytes.
    pub fn size_of(length: usize) -> usize {
        length.next_multiple_of(rustix::param::page_size())
    }
}

impl Deref for OwnPages {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0
    }
}

impl Drop for OwnPages {
    fn drop(&mut self) {
        let start = self.0.as_ptr().cast_mut().cast();
        // SAFETY: the mapping was made for this value, and no reference to it outlives the value.
        #[expect(unsafe_code, reason = "no library maps anonymous memory safely")]
        let _ = unsafe { munmap(start, self.0.len()) };
        MAPPINGS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Sends pages to sockets, one after the other. Keeps a pipe open from its first use on.
#[derive(Default)]
pub struct PageSender {
    pipe: Cell<Option<Pipe>>,
    /// Whether the kernel, or a filter of system calls, does not have the call.
    is_refused: Cell<bool>,
}

impl PageSender {
    /// Sends pages as far as a non-blocking socket accepts them at once, and returns how many bytes that are: 0 also if the kernel
    /// cannot do it, or the socket fails.
    pub fn send(&self, socket: BorrowedFd<'_>, pages: &OwnPages) -> usize {
        if self.is_refused.get() {
            return 0;
        }
        let Some(pipe) = self.pipe.take().or_else(|| Pipe::open().ok()) else {
            return 0;
        };
        let mut rest: &[u8] = pages;
        let all = rest.len();
        while !rest.is_empty() {
            let carried = pipe.carry(rest, socket);
            if let Err(Errno::NOSYS | Errno::PERM | Errno::ACCESS) = carried {
                self.is_refused.set(true);
            }
            let (count, is_pipe_empty) = carried.unwrap_or((0, false));
            rest = rest.get(count..).unwrap_or_default();
            if !is_pipe_empty {
                return all - rest.len();
            }
        }
        self.pipe.set(Some(pipe));
        all
    }
}

struct Pipe {
    from: OwnedFd,
    to: OwnedFd,
}

impl Pipe {
    fn open() -> io::Result<Self> {
        let (from, to) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        // A smaller pipe takes more turns.
        let _ = fcntl_setpipe_size(&to, PIPE_BYTES);
        Ok(Self { from, to })
    }

    /// Sends the beginning of `pages`, which are part of [`OwnPages`] and not empty. The number of bytes, and whether they are all
    /// that passed into the pipe. An error is that of `vmsplice`.
    fn carry(&self, pages: &[u8], socket: BorrowedFd<'_>) -> Result<(usize, bool), Errno> {
        let slices = [IoSliceRaw::from_slice(pages)];
        // SAFETY: `to` is the end for writing, so the kernel only reads the pages.
        #[expect(unsafe_code, reason = "no library offers this call as a safe one")]
        let in_pipe = unsafe { vmsplice(&self.to, &slices, SpliceFlags::NONBLOCK) }?;
        let mut flags = SpliceFlags::NONBLOCK;
        flags.set(SpliceFlags::MORE, in_pipe < pages.len());
        let mut sent = 0;
        while sent < in_pipe {
            match splice(&self.from, None, socket, None, in_pipe - sent, flags) {
                Ok(count) if count > 0 => sent += count,
                Ok(_) | Err(_) => break,
            }
        }
        Ok((sent, sent > 0 && sent == in_pipe))
    }
}

/// The values of [`OwnPages`] in this process.
static MAPPINGS: AtomicUsize = AtomicUsize::new(0);

/// Maximum number of values of [`OwnPages`]. The kernel limits the mappings of a process to 65,530 by default, and the allocator
/// needs some.
const MAX_MAPPINGS: usize = 4096;

/// A pipe takes a reference to each page, not the page: 10 KiB of memory for this size, which is the largest by default.
const PIPE_BYTES: usize = 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;
    use std::sync::Mutex;

    /// Held by each test: one of them takes all mappings.
    static ALONE: Mutex<()> = Mutex::new(());

    fn content(length: usize) -> Vec<u8> {
        (0..=250).cycle().take(length).collect()
    }

    /// Two connected sockets; the first does not block.
    fn sockets() -> (std::net::TcpStream, std::net::TcpStream) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        server.set_nonblocking(true).unwrap();
        (server, client)
    }

    #[test]
    fn pages_in_the_queue_of_a_socket_outlive_their_memory() {
        let _alone = ALONE.lock();
        let sender = PageSender::default();
        let (mut server, mut client) = sockets();
        // Repeatedly more than the queues hold, so that pipes are left with bytes.
        for length in [1, 4096, 70_001, 9_000_000, 300_000] {
            let content = content(length);
            let pages = OwnPages::copy_of(&content).unwrap();
            let sent = sender.send(server.as_fd(), &pages);
            drop(pages);
            // What would show if the queue referred to memory that is in use again.
            let other = OwnPages::copy_of(&vec![255; length]).unwrap();
            let mut received = vec![0; sent];
            client.read_exact(&mut received).unwrap();
            assert!(received == content[..sent], "{length}: {sent} bytes");
            assert!(sent == length || length == 9_000_000, "{length}: {sent}");
            drop(other);
        }
        server.write_all(b"end").unwrap();
        let mut end = [0; 3];
        client.read_exact(&mut end).unwrap();
        assert_eq!(&end, b"end");
    }

    #[test]
    fn nothing_is_sent_to_a_closed_socket() {
        let _alone = ALONE.lock();
        let sender = PageSender::default();
        let pages = OwnPages::copy_of(b"content").unwrap();
        let (one, mut other) = UnixStream::pair().unwrap();
        let sent = sender.send(one.as_fd(), &pages);
        let mut received = vec![0; sent];
        other.read_exact(&mut received).unwrap();
        assert_eq!(received, b"content"[..sent]);
        drop(other);
        assert_eq!(sender.send(one.as_fd(), &pages), 0);
    }

    #[test]
    fn the_number_of_mappings_is_limited_and_they_return() {
        let _alone = ALONE.lock();
        for _ in 0..2 {
            let all: Vec<_> = (0..=MAX_MAPPINGS)
                .map_while(|_| OwnPages::copy_of(b"a").ok())
                .collect();
            assert_eq!(all.len(), MAX_MAPPINGS);
            assert!(all.iter().all(|pages| **pages == *b"a"));
        }
        assert!(
            OwnPages::copy_of(&[]).is_err(),
            "the kernel maps no empty memory"
        );
    }
}
