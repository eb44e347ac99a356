//! The channel between the two processes: messages in both directions, until one of them ends.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::io::Interest;
use tokio::net::UnixDatagram;
use tokio::net::unix::pipe;

use super::packet::{MOST_BYTES, Packet, UpgradeMessage};
use crate::sys::packets;

/// One end.
#[derive(Debug)]
pub struct UpgradeChannel(UnixDatagram);

/// A message, with its descriptors.
#[derive(Debug)]
pub struct Received {
    /// The message.
    pub message: UpgradeMessage,
    /// Its descriptors.
    pub descriptors: Vec<OwnedFd>,
}

/// The end of a process that another one has started, before it has a runtime.
#[derive(Debug)]
pub struct Predecessor {
    socket: OwnedFd,
    /// Its process id.
    pid: i32,
}

impl Predecessor {
    /// What the process before has left as standard input, which is nothing from then on; `None`: this one was not started by
    /// another. To be called once, before there are other threads.
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
    pub fn receive(&self) -> io::Result<Received> {
        let mut buffer = vec![0; MOST_BYTES];
        let (length, descriptors) = packets::receive_all(&self.socket, &mut buffer)?;
        match Packet::read(buffer.get(..length).unwrap_or_default()) {
            Some(Packet::Message(message)) => Ok(Received {
                message,
                descriptors,
            }),
            _ if length == 0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Err(unknown()),
        }
    }

    /// Tells the process before why this one does not start, and whether it would after a restart.
    pub fn refuse(&self, why: &str, needs_restart: bool) {
        let why = why.chars().take(MOST_OF_A_REASON).collect();
        let packet = Packet::Message(UpgradeMessage::Failed { why, needs_restart });
        // It may have ended.
        let _ = packets::send_all(&self.socket, &packet.bytes(), &[]);
    }

    /// The same channel for tasks. Call within a runtime.
    pub fn channel(&self) -> io::Result<UpgradeChannel> {
        UpgradeChannel::new(self.socket.try_clone()?)
    }

    /// Waits until the process before is gone, whose channel has ended: only then is all closed that it had locked. A moment.
    ///
    /// Its descriptor becomes readable when the last of its threads has ended, and there is none when the process was reaped. This one
    /// gets another parent earlier, while threads of the old one may still have its files.
    pub async fn wait_for_end(&self) {
        let process = Pid::from_raw(self.pid).map(|pid| pidfd_open(pid, PidfdFlags::NONBLOCK));
        let Some(Ok(process)) = process else {
            return;
        };
        // To the runtime, what becomes readable is a pipe.
        if let Ok(process) = pipe::Receiver::from_owned_fd_unchecked(process) {
            let _ = tokio::time::timeout(END_PATIENCE, process.readable()).await;
        }
    }
}

impl UpgradeChannel {
    /// Over one end of a pair of sockets. Call within a runtime.
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

    /// The next message; purges must not have begun to arrive.
    ///
    /// Errors: the other process has ended (`UnexpectedEof`), or sends an unknown message.
    pub async fn receive(&self) -> io::Result<Received> {
        let mut descriptors = Vec::new();
        match self.receive_packet(&mut descriptors).await? {
            Some(Packet::Message(message)) => Ok(Received {
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

    /// The next packet; `None`: the other process has ended.
    pub(super) async fn receive_packet(
        &self,
        descriptors: &mut Vec<OwnedFd>,
    ) -> io::Result<Option<Packet>> {
        let mut buffer = vec![0; MOST_BYTES];
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

/// The length of what is kept of a process's output when it does not start.
const MOST_OF_A_REASON: usize = 8192;

/// What the kernel may take to end a process that was killed.
const END_PATIENCE: Duration = Duration::from_secs(5);

/// The variable of the environment by which a process knows that standard input is a channel to the one before: its process id.
pub const ENVIRONMENT: &str = "GALLEY_UPGRADE_FROM";
