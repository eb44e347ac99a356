//! Hits that are sent together: the responses to pipelined requests, in their order, in one vectored write.
//!
//! Heads are contiguous in the connection's output buffer, each with its body if that is short; other bodies stay
//! where they are stored. Nothing is copied to resume a partial write: the number of written bytes gives the position, and
//! afterwards how much of each response was sent.

use std::io::IoSlice;
use std::net::IpAddr;

use galley_http::response_writer::ConnectionField;

use super::request_log_fields::RequestLogFields;
use galley_request::Hit;

/// A hit whose head is in the output buffer.
pub(super) struct ReadyHit<'b> {
    pub(super) hit: Hit,
    pub(super) log_fields: RequestLogFields<'b>,
    /// The address of the client.
    pub(super) client: IpAddr,
    /// The end of the hit's part of the output buffer: its head, and its body if that was copied.
    pub(super) end: usize,
    /// Whether the body was copied behind the head.
    pub(super) is_copied: bool,
    pub(super) connection: ConnectionField,
    /// The access log: an index into those of the core.
    pub(super) log: usize,
    /// The site's row in the counters.
    pub(super) site: u32,
}

/// A batch of hits.
pub(super) struct HitBatch<'b>(Vec<ReadyHit<'b>>);

impl<'b> HitBatch<'b> {
    /// An empty batch that reuses `slices`.
    pub(super) fn within(buffer: Vec<ReadyHit<'static>>) -> Self {
        Self(recycled(buffer))
    }

    /// The slices, for reuse.
    pub(super) fn into_buffer(self) -> Vec<ReadyHit<'static>> {
        recycled(self.0)
    }

    pub(super) fn push(&mut self, ready: ReadyHit<'b>) {
        self.0.push(ready);
    }

    pub(super) fn responses(&self) -> &[ReadyHit<'b>] {
        &self.0
    }

    /// Whether another response may join. A client that pipelines without end must not occupy the core, nor make it collect more than
    /// a socket accepts at once.
    pub(super) fn has_capacity(&self) -> bool {
        let bytes: usize = self.0.iter().map(|ready| ready.hit.body().len()).sum();
        self.0.len() < MAX_RESPONSES && bytes < MAX_BYTES
    }

    /// The bytes of all responses.
    pub(super) fn length(&self, heads: &[u8]) -> usize {
        let bodies = self.0.iter().map(|ready| ready.separate_body().len());
        heads.len() + bodies.sum::<usize>()
    }

    /// Whether all responses are in the output buffer.
    pub(super) fn is_contiguous(&self) -> bool {
        self.0.iter().all(|ready| ready.separate_body().is_empty())
    }

    /// The slices to write after `written` bytes, as many as `slices` has room for; empty at the end.
    pub(super) fn slices<'a, 'r>(
        &'a self,
        heads: &'a [u8],
        written: usize,
        slices: &'r mut [IoSlice<'a>],
    ) -> &'r [IoSlice<'a>] {
        let parts = self
            .0
            .iter()
            .map(|ready| (ready.end, ready.separate_body()));
        pieces(parts, heads, written, slices)
    }

    /// Each response with the number of body bytes that were sent, and whether the response was not sent completely.
    pub(super) fn ends(&self, written: usize) -> impl Iterator<Item = (&ReadyHit<'b>, u64, bool)> {
        let (mut start, mut left) = (0, written);
        self.0.iter().map(move |ready| {
            let body = ready.hit.body().len();
            let all = ready.end - start + ready.separate_body().len();
            start = ready.end;
            let of_body = (left + body).saturating_sub(all).min(body);
            let is_short = left < all;
            left = left.saturating_sub(all);
            (ready, of_body as u64, is_short)
        })
    }
}

impl ReadyHit<'_> {
    /// The body, if it is not in the output buffer.
    fn separate_body(&self) -> &[u8] {
        if self.is_copied {
            return &[];
        }
        self.hit.body()
    }
}

/// The contents of a buffer that ends at each of `parts`, with the bytes that follow each part from another place, without the first
/// `skip` bytes.
fn pieces<'a, 'r>(
    parts: impl Iterator<Item = (usize, &'a [u8])>,
    buffer: &'a [u8],
    mut skip: usize,
    slices: &'r mut [IoSlice<'a>],
) -> &'r [IoSlice<'a>] {
    let (mut start, mut used) = (0, 0);
    let mut targets = slices.iter_mut();
    let mut parts = parts.peekable();
    'all: while let Some((end, apart)) = parts.next() {
        // Neighbors in the buffer become one slice.
        if apart.is_empty() && parts.peek().is_some() {
            continue;
        }
        let together = buffer.get(start..end).unwrap_or_default();
        start = end;
        for piece in [together, apart] {
            let Some(left) = piece.get(skip..) else {
                skip -= piece.len();
                continue;
            };
            skip = 0;
            if left.is_empty() {
                continue;
            }
            let Some(target) = targets.next() else {
                break 'all;
            };
            *target = IoSlice::new(left);
            used += 1;
        }
    }
    slices.get(..used).unwrap_or_default()
}

/// Copies a body behind its head if that is cheaper than another slice; returns whether it did.
pub(super) fn copy_behind(output: &mut Vec<u8>, body: &[u8]) -> bool {
    let is_short = output.len() + body.len() <= MAX_COPIED;
    if is_short {
        output.extend_from_slice(body);
    }
    is_short
}

/// The same slices with another lifetime: collecting an empty iterator reuses the memory.
fn recycled<'to>(mut buffer: Vec<ReadyHit<'_>>) -> Vec<ReadyHit<'to>> {
    buffer.clear();
    buffer.into_iter().map_while(|_| None).collect()
}

/// Maximum number of responses in a batch, and of turns of a connection before other connections run.
pub(super) const MAX_RESPONSES: usize = 32;

/// Slices of the longest batch: head and body of each response.
pub(super) const MAX_SLICES: usize = SLICES_OF_ONE * MAX_RESPONSES;
pub(super) const SLICES_OF_ONE: usize = 2;

/// Maximum number of bytes that are sent from the output buffer together. The kernel takes one piece by `send` 0.2 us sooner than two
/// by `writev`; copying up to 12 KB that are in the processor's cache costs less than that, 16 KB more.
const MAX_COPIED: usize = 12 * 1024;

/// Bytes of bodies after which no further response joins.
const MAX_BYTES: usize = 256 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    /// The end of each part in the buffer, and the bytes that follow it from another place.
    type Parts = &'static [(usize, &'static [u8])];

    #[test]
    fn a_write_goes_on_where_the_last_one_ended() {
        let buffer = b"head1body1head2head3body3head4".as_slice();
        // Bodies that are not copied, and the number of slices of the whole batch.
        let table: [(Parts, &str, usize); 4] = [
            (&[(10, b"")], "head1body1", 1),
            (
                &[(10, b""), (15, b""), (25, b"")],
                "head1body1head2head3body3",
                1,
            ),
            (&[(5, b"apart")], "head1apart", 2),
            (
                &[(10, b""), (15, b"body2"), (25, b""), (30, b"body4")],
                "head1body1head2body2head3body3head4body4",
                4,
            ),
        ];
        for (parts, all, count) in table {
            for written in 0..=all.len() {
                for slots in 1..=5 {
                    let mut slices = vec![IoSlice::new(&[]); slots];
                    let slices = pieces(parts.iter().copied(), buffer, written, &mut slices);
                    let text: Vec<u8> = slices.iter().flat_map(|slice| slice.to_vec()).collect();
                    let left = all.get(written..).unwrap_or_default();
                    assert!(left.as_bytes().starts_with(&text), "{all} from {written}");
                    assert_eq!(text.is_empty(), left.is_empty(), "{all} from {written}");
                    if slots >= count {
                        assert_eq!(text.len(), left.len(), "{all} from {written}");
                    }
                }
            }
        }
    }
}
