//! A connection that was upgraded from HTTP to another protocol: bytes are copied in both directions until both sides have ended.
//!
//! They are not interpreted. Each direction has one buffer, so a slow receiver slows its sender down. The end of one
//! direction is forwarded in that direction only. A tunnel without traffic for a while is closed, and so is one during a
//! drain.

use std::cell::Cell;
use std::io;
use std::pin::pin;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::Core;
use super::io::ClientConnection;
use galley_upstream::switch::Tunnel;

/// Copies bytes until both sides have ended, or nothing arrived for too long. Returns how many bytes the client received.
pub(super) async fn carry(
    core: &Core,
    connection: &mut ClientConnection,
    mut tunnel: Tunnel,
) -> u64 {
    let step = core.services.tunnels.silence() / STEPS;
    let (moved, down) = (Cell::new(0_u64), Cell::new(0_u64));
    let (socket, input, timer) = connection.tunnel();
    let (client_in, client_out) = tokio::io::split(socket);
    let (upstream_in, upstream_out) = tokio::io::split(&mut tunnel.stream);
    // Bytes that the client has sent after its request belong to the new protocol.
    let first = std::mem::take(input);
    let up = copy(first, client_in, upstream_out, |count| {
        moved.set(moved.get() + count);
    });
    let back = copy(BytesMut::new(), upstream_in, client_out, |count| {
        moved.set(moved.get() + count);
        down.set(down.get() + count);
    });
    let mut both = pin!(async { tokio::try_join!(up, back) });
    let (mut before, mut silent) = (moved.get(), 0);
    while !core.ends_tunnels.get() && timer.idle_within(step, both.as_mut()).await.is_err() {
        silent = if moved.get() == before { silent + 1 } else { 0 };
        before = moved.get();
        if silent == STEPS {
            break;
        }
    }
    down.get()
}

/// Copies one direction: `first`, then everything that arrives, up to its end, which is forwarded.
async fn copy(
    first: BytesMut,
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    count: impl Fn(u64),
) -> io::Result<()> {
    let mut piece = first;
    loop {
        if !piece.is_empty() {
            to.write_all(&piece).await?;
            to.flush().await?;
            count(piece.len() as u64);
            piece.clear();
        }
        piece.reserve(PIECE);
        let mut room = (&mut from).take(PIECE as u64);
        if room.read_buf(&mut piece).await? == 0 {
            return to.shutdown().await;
        }
    }
}

/// Buffer size of one direction: many messages of a chat.
const PIECE: usize = 16 * 1024;

/// Checks of the traffic within the permitted time of silence.
const STEPS: u32 = 4;
