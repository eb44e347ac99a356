//! Sends ranges of a file to a socket: cached ranges with `sendfile`, other ranges through a helper thread.
//!
//! `sendfile` saves the copy into user memory and two wake-ups of a helper thread for each piece, but it waits for the disk
//! if a page is not in memory, and every connection of the core would wait with it. So each piece is probed: one byte of
//! each [`PROBE`] is read with `RWF_NOWAIT`, which returns `EAGAIN` in place of waiting. A helper thread reads pieces that
//! are not cached, and files on file systems without this flag (overlayfs, some network file systems); its read-ahead fills
//! the page cache for what follows. A page that is evicted between probe and sending, or is missing between two probed
//! ones, makes the core wait for that one read.
//!
//! The socket's queue refers to the file's own memory: if a program overwrites a file in place, instead of renaming a
//! new one onto it, clients that are receiving it may see the change. The length is announced before; if a file ends
//! earlier, the connection is closed.
//!
//! Over TLS the bytes have to be encrypted, so they are read in any case: cached ones here, the rest by a helper.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;
use rustix::io::ReadWriteFlags;
use std::ops::Range;
use tokio::task::{spawn_blocking, yield_now};

use super::io::{ClientConnection, IoError};

/// Sends the bytes `span` of a file, after the head in `connection.output` if there is one. `sent` counts the sent bytes. Not
/// cancel-safe: if it is dropped midway, the connection must be closed.
pub(super) async fn send(
    connection: &mut ClientConnection,
    file: &Arc<File>,
    span: Range<u64>,
    sent: &mut u64,
) -> Result<(), IoError> {
    let piece = if connection.takes_files() {
        PIECE
    } else {
        PIECE_TO_READ
    };
    let mut at = span.start;
    while at < span.end {
        let wanted = (span.end - at).min(piece);
        let is_at_hand = is_at_hand(file, at, wanted);
        if is_at_hand && connection.takes_files() {
            connection.send_head_before_more().await?;
            let upto = at + wanted;
            while at < upto {
                let count = connection.send_of_file(file, at, upto - at).await?;
                at += count;
                *sent += count;
            }
            // A client that accepts everything at once must not starve the core's other connections.
            yield_now().await;
        } else {
            let piece = if is_at_hand {
                read_now(file, at, wanted)?
            } else {
                read(Arc::clone(file), at, wanted).await?
            };
            at += piece.len() as u64;
            *sent += piece.len() as u64;
            connection.send(&[piece]).await?;
            yield_now().await;
        }
    }
    Ok(())
}

/// The next bytes of a file, at most `most`, for a socket that cannot use `sendfile`.
pub(super) async fn piece(file: &Arc<File>, at: u64, most: u64) -> Result<Bytes, IoError> {
    if is_at_hand(file, at, most) {
        return Ok(read_now(file, at, most)?);
    }
    read(Arc::clone(file), at, most).await
}

/// Whether `length` bytes from `at` can be read without waiting for a disk.
fn is_at_hand(file: &File, at: u64, length: u64) -> bool {
    let last = at + length.saturating_sub(1);
    let mut probe = at;
    while probe < last {
        if !is_byte_at_hand(file, probe) {
            return false;
        }
        probe += PROBE;
    }
    is_byte_at_hand(file, last)
}

fn is_byte_at_hand(file: &File, at: u64) -> bool {
    let mut byte = [0];
    let mut into = [IoSliceMut::new(&mut byte)];
    // Nothing was read: the file has been truncated. The slow path detects this, too.
    matches!(
        rustix::io::preadv2(file, &mut into, at, ReadWriteFlags::NOWAIT),
        Ok(1)
    )
}

async fn read(file: Arc<File>, at: u64, length: u64) -> Result<Bytes, IoError> {
    // Allocated here, where it is dropped: otherwise each of dozens of helper threads would keep its own buffers.
    let piece = empty(length)?;
    let piece = spawn_blocking(move || fill(&file, at, piece));
    Ok(piece.await.map_err(|_| IoError::Closed)??)
}

fn read_now(file: &File, at: u64, length: u64) -> io::Result<Bytes> {
    fill(file, at, empty(length)?)
}

fn empty(length: u64) -> io::Result<Vec<u8>> {
    Ok(vec![0; usize::try_from(length).map_err(io::Error::other)?])
}

fn fill(file: &File, at: u64, mut piece: Vec<u8>) -> io::Result<Bytes> {
    // The file may have been truncated after its length was sent; then the connection ends early.
    file.read_exact_at(&mut piece, at)?;
    Ok(piece.into())
}

/// Bytes that are probed, and then sent or read, at one time.
pub(super) const PIECE: u64 = 256 * 1024;

/// The same if the bytes pass through user memory: as much as a TLS session accepts before the kernel has taken some.
const PIECE_TO_READ: u64 = 64 * 1024;

/// The kernel reads ahead 128 KiB and more at a time, so everything between two bytes of this distance was read with one of
/// them and is usually evicted with one of them.
const PROBE: u64 = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_just_written_is_at_hand_and_what_is_not_there_is_not() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&vec![1; 300_000], 0).unwrap();
        let can_say = is_byte_at_hand(&file, 0);
        // A file system without the flag always reports false.
        assert_eq!(is_at_hand(&file, 0, 300_000), can_say);
        assert_eq!(is_at_hand(&file, 299_999, 1), can_say);
        assert!(!is_at_hand(&file, 299_999, 2));
        assert!(!is_at_hand(&file, 300_000, 1));
    }
}
