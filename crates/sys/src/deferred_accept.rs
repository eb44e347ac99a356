//! Connections that the kernel reports when their first bytes have arrived (`TCP_DEFER_ACCEPT`, tcp(7)).
//!
//! In HTTP and TLS the client speaks first, so there is nothing to do for a connection before that. If a client connects ahead
//! of its request, the kernel sends the last segment of its handshake once more, and then reports the connection.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Sets the option for all future connections of a listening socket.
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

/// Seconds after which a silent connection is reported. The kernel converts them to retransmissions, the first of which comes
/// after 1 s.
static DEFERRED_S: libc::c_int = 1;

/// The size of the value, in bytes.
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
