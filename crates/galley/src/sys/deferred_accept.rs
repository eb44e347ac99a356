//! Connections that the kernel reports with their first bytes (`TCP_DEFER_ACCEPT`, tcp(7)).
//!
//! In HTTP and TLS the client speaks first, so before that there is nothing to do for a connection. A client that has connected
//! ahead of its request gets the last segment of the kernel's handshake once more meanwhile, and is reported then.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// For all connections of a listening socket from now on.
pub(super) fn defer(socket: &impl AsFd) -> io::Result<()> {
    let value = (&raw const DEFERRED_S).cast();
    // SAFETY: the kernel reads `LENGTH` bytes of `value`, a constant of that size.
    #[expect(unsafe_code, reason = "rustix has no call for it")]
    let done = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_DEFER_ACCEPT,
            value,
            LENGTH,
        )
    };
    if done == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Seconds until a silent connection is reported. The kernel counts in its own retransmissions, the first of which comes after one.
static DEFERRED_S: libc::c_int = 1;

/// Bytes of it.
const LENGTH: libc::socklen_t = libc::c_int::BITS / u8::BITS;

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_connection_is_reported_with_its_first_bytes() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        defer(&listener).unwrap();
        listener.set_nonblocking(true).unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
        client.write_all(b"GET").unwrap();
        listener.set_nonblocking(false).unwrap();
        assert!(listener.accept().is_ok());
    }
}
