//! Packets between two processes of one machine, which may carry descriptors (`SOCK_SEQPACKET`, unix(7)).
//!
//! Each packet arrives completely or not at all. If the other process ends, receiving returns length 0.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use tokio::net::UnixDatagram;

/// Creates a pair of connected sockets. A program that is started inherits neither unless its descriptor is passed on.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let family = AddressFamily::UNIX;
    let flags = SocketFlags::CLOEXEC;
    Ok(rustix::net::socketpair(
        family,
        SocketType::SEQPACKET,
        flags,
        None,
    )?)
}

/// Wraps a socket for use in tasks: tokio's type for datagrams makes no system call that packet sockets do not support. Call within
/// a runtime.
pub fn waited_for(socket: OwnedFd) -> io::Result<UnixDatagram> {
    let socket = std::os::unix::net::UnixDatagram::from(socket);
    socket.set_nonblocking(true)?;
    UnixDatagram::from_std(socket)
}

/// Sends one packet, with or without a descriptor. `WouldBlock`: the buffer of a non-blocking socket is full.
pub fn send(socket: impl AsFd, packet: &[u8], carried: Option<BorrowedFd<'_>>) -> io::Result<()> {
    send_all(socket, packet, carried.as_slice())
}

/// As [`send`], with at most [`MAX_CARRIED`] descriptors.
pub fn send_all(socket: impl AsFd, packet: &[u8], carried: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_CARRIED))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !carried.is_empty() && !control.push(SendAncillaryMessage::ScmRights(carried)) {
        return Err(io::Error::other("no space for the descriptors"));
    }
    let pieces = [IoSlice::new(packet)];
    rustix::net::sendmsg(socket, &pieces, &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives one packet and returns its length and descriptor. A packet that is longer than `buffer` is truncated, so pass a buffer
/// that is one byte longer than the longest valid packet. Length 0 means that the other end is closed.
pub fn receive(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
    let (length, mut carried) = receive_all(socket, buffer)?;
    Ok((length, carried.pop()))
}

/// As [`receive`], with at most [`MAX_CARRIED`] descriptors.
pub fn receive_all(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_CARRIED))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut pieces = [IoSliceMut::new(buffer)];
    let flags = RecvFlags::CMSG_CLOEXEC;
    let received = rustix::net::recvmsg(socket, &mut pieces, &mut control, flags)?;
    if received.flags.contains(ReturnFlags::CTRUNC) {
        // At the limit of descriptors the kernel drops some, and says only this.
        return Err(io::Error::other("descriptors were lost"));
    }
    let mut carried = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            carried.extend(descriptors);
        }
    }
    Ok((received.bytes, carried))
}

/// The maximum number of descriptors in one packet.
pub const MAX_CARRIED: usize = 4;

/// As [`receive`], without descriptors: the kernel closes those that arrive.
pub fn receive_plain(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    let (_, length) = rustix::net::recv(socket, buffer, RecvFlags::empty())?;
    Ok(length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn packets_have_boundaries_and_carry_descriptors() {
        let (here, there) = pair().unwrap();
        let (mut reader, mut writer) = std::io::pipe().unwrap();
        send(&here, b"one", None).unwrap();
        send(&here, b"longer", Some(reader.as_fd())).unwrap();
        send(&here, b"three", Some(reader.as_fd())).unwrap();
        let mut buffer = [0; 4];
        let (length, none) = receive(&there, &mut buffer).unwrap();
        assert_eq!((&buffer[..length], none.is_none()), (&b"one"[..], true));
        let (length, carried) = receive(&there, &mut buffer).unwrap();
        assert_eq!(&buffer[..length], b"long");
        assert_eq!(receive_plain(&there, &mut buffer).unwrap(), 4);
        writer.write_all(b"x").unwrap();
        drop(writer);
        let mut text = String::new();
        std::fs::File::from(carried.unwrap())
            .read_to_string(&mut text)
            .unwrap();
        assert_eq!(text, "x");
        assert_eq!(reader.read_to_string(&mut text).unwrap(), 0);
        drop(here);
        assert_eq!(receive(&there, &mut buffer).unwrap().0, 0);
        assert!(send(&there, b"a", None).is_err());
    }
}
