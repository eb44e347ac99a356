//! The channel between the two processes of an upgrade: messages in both directions, until one of them ends.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::io::Interest;
use tokio::net::UnixDatagram;
use tokio::net::unix::pipe;

use super::packet::{MAX_BYTES, Packet, UpgradeMessage};
use galley_sys::packets;

/// One end of the channel.
#[derive(Debug)]
pub struct UpgradeChannel(UnixDatagram);

/// A received message with its descriptors.
#[derive(Debug)]
pub struct ReceivedMessage {
    /// The message.
    pub message: UpgradeMessage,
    /// The descriptors that the packet carried.
    pub descriptors: Vec<OwnedFd>,
}

/// The new process's end of the channel, before it has a runtime.
#[derive(Debug)]
pub struct Predecessor {
    socket: OwnedFd,
    /// The process id of the old process.
    pid: i32,
}

impl Predecessor {
    /// Takes the channel from standard input, which becomes `/dev/null`; `None`: no other Galley started this process. Call
    /// once, before other threads exist.
    pub fn inherited() -> io::Result<Option<Self>> {
        let Ok(pid) = std::env::var(ENVIRONMENT) else {
            return Ok(None);
        };
        let pid = pid.parse().map_err(io::Error::other)?;
        let channel = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let nothing = rustix::fs::open("/dev/null", flags, Mode::empty())?;
        rustix::stdio::dup2_stdin(&nothing)?;
        Ok(Some(Self {
            socket: channel,
            pid,
        }))
    }

    /// Waits for the next message. Errors: as [`UpgradeChannel::receive`].
    pub fn receive(&self) -> io::Result<ReceivedMessage> {
        let mut buffer = vec![0; MAX_BYTES];
        let (length, descriptors) = packets::receive_all(&self.socket, &mut buffer)?;
        match Packet::read(buffer.get(..length).unwrap_or_default()) {
            Some(Packet::Message(message)) => Ok(ReceivedMessage {
                message,
                descriptors,
            }),
            _ if length == 0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Err(unknown()),
        }
    }

    /// Reports to the old process why this one does not start, and whether it would after a restart.
    pub fn refuse(&self, why: &str, needs_restart: bool) {
        let why = why.chars().take(MAX_REASON).collect();
        let packet = Packet::Message(UpgradeMessage::Failed { why, needs_restart });
        // The old process may have ended.
        let _ = packets::send_all(&self.socket, &packet.bytes(), &[]);
    }

    /// Returns the channel for use in tasks. Call within a runtime.
    pub fn channel(&self) -> io::Result<UpgradeChannel> {
        UpgradeChannel::new(self.socket.try_clone()?)
    }

    /// Waits a moment until the old process, whose channel has closed, has ended: only then are all files closed that it had
    /// locked.
    ///
    /// A process's descriptor (pidfd) becomes readable when the last thread has ended, and cannot be opened after the process
    /// was reaped. The parent process id changes earlier, while threads of the old process may still have its files open.
    pub async fn wait_for_end(&self) {
        let process = Pid::from_raw(self.pid).map(|pid| pidfd_open(pid, PidfdFlags::NONBLOCK));
        let Some(Ok(process)) = process else {
            return;
        };
        // The runtime waits for any readable descriptor as for a pipe.
        if let Ok(process) = pipe::Receiver::from_owned_fd_unchecked(process) {
            let _ = tokio::time::timeout(END_TIMEOUT, process.readable()).await;
        }
    }
}

impl UpgradeChannel {
    /// Wraps one end of a socket pair. Call within a runtime.
    pub fn new(socket: OwnedFd) -> io::Result<Self> {
        packets::waited_for(socket).map(Self)
    }

    /// Sends a message, with at most four descriptors.
    pub async fn send(
        &self,
        message: UpgradeMessage,
        carried: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        self.send_packet(&Packet::Message(message), carried).await
    }

    /// Receives the next message, before the exchange of purges begins.
    ///
    /// Errors: the other process has ended (`UnexpectedEof`), or has sent an unknown message.
    pub async fn receive(&self) -> io::Result<ReceivedMessage> {
        let mut descriptors = Vec::new();
        match self.receive_packet(&mut descriptors).await? {
            Some(Packet::Message(message)) => Ok(ReceivedMessage {
                message,
                descriptors,
            }),
            Some(Packet::Purge(..) | Packet::Done(_)) => Err(unknown()),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    pub(super) async fn send_packet(
        &self,
        packet: &Packet,
        carried: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        let bytes = packet.bytes();
        let send = || packets::send_all(self.0.as_fd(), &bytes, carried);
        self.0.async_io(Interest::WRITABLE, send).await
    }

    /// Receives the next packet; `None`: the other process has ended.
    pub(super) async fn receive_packet(
        &self,
        descriptors: &mut Vec<OwnedFd>,
    ) -> io::Result<Option<Packet>> {
        let mut buffer = vec![0; MAX_BYTES];
        let receive = || packets::receive_all(self.0.as_fd(), &mut buffer);
        let (length, carried) = match self.0.async_io(Interest::READABLE, receive).await {
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
            received => received?,
        };
        if length == 0 {
            return Ok(None);
        }
        *descriptors = carried;
        let packet = Packet::read(buffer.get(..length).unwrap_or_default());
        packet.map(Some).ok_or_else(unknown)
    }
}

fn unknown() -> io::Error {
    let why = "the other process uses another version of the upgrade protocol";
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// The maximum length of a reason, such as the output of a process that does not start, in characters.
const MAX_REASON: usize = 8192;

/// The maximum time that the kernel needs to end a killed process.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// The environment variable with the process id of the old process, which means that standard input is the channel to it.
pub const ENVIRONMENT: &str = "GALLEY_UPGRADE_FROM";
