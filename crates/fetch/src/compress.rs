//! Compresses responses while they are sent to clients.
//!
//! A passed response is compressed for its one client. A page that is shared while it is generated is compressed once for each
//! coding that a client accepts, for the first request with that coding. The compressed form has a separate fill; the original
//! fill remains plain, to be stored. The fetch thread compresses, not a front core, whose hits would have to wait, and it
//! compresses in pieces that alternate with other work. A client receives what PHP flushed as soon as PHP pauses; flushing each
//! piece instead would make pages larger. Without memory for an encoder the plain body is sent.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use galley_cache::fill::{self, FillError, FillHead, FillReader, FillSharing, FillWriter};
use galley_policy::compress::live;
use galley_policy::encoding::Coding;
use galley_policy::request_info::{Method, RequestInfo};
use http::{StatusCode, header};
use tokio::task::yield_now;
use tokio::time::sleep;

use super::in_progress::{InProgressFetch, WaitingRequest};
use super::spool::{ResponseSpool, WINDOW};
use super::{FetchSite, FetchWorker, PassJob};
use galley_codec::encode::{AT_ONCE, EncoderStream};
use galley_sys::yield_processor;
use galley_upstream::IncomingResponse;

/// The readers of a fill, with an encoder before them if the body is compressed.
pub(super) struct Outlet<'w> {
    writer: &'w mut FillWriter,
    spool: ResponseSpool,
    stream: Option<EncoderStream>,
    /// No readers remain.
    has_no_readers: bool,
}

impl<'w> Outlet<'w> {
    pub(super) fn new(
        writer: &'w mut FillWriter,
        spool: ResponseSpool,
        stream: Option<EncoderStream>,
    ) -> Self {
        Self {
            writer,
            spool,
            stream,
            has_no_readers: false,
        }
    }

    /// Relays a response to its end, or until its client has disconnected.
    pub(super) async fn relay(&mut self, incoming: &mut IncomingResponse) -> Result<(), FillError> {
        loop {
            let next = self.wait_while_read(pin!(incoming.chunk())).await;
            let Some(chunk) = next else {
                if incoming.has_all() {
                    incoming.run_out().await;
                }
                return Err(FillError::Aborted);
            };
            match chunk? {
                Some(chunk) => self.push(chunk).await?,
                None => return self.finish().await,
            }
        }
    }

    /// Waits for the next piece. If it is not ready, sends everything before it to the client.
    pub(super) async fn wait<T>(&mut self, mut next: Pin<&mut impl Future<Output = T>>) -> T {
        match self.wait_while_read(next.as_mut()).await {
            Some(output) => output,
            None => next.await,
        }
    }

    /// As `wait`; `None` when no readers remain.
    async fn wait_while_read<T>(
        &mut self,
        mut next: Pin<&mut impl Future<Output = T>>,
    ) -> Option<T> {
        if !self.has_no_readers {
            if let Poll::Ready(output) = poll_once(next.as_mut()).await {
                return Some(output);
            }
            self.writer.release();
        }
        while !self.has_no_readers {
            let is_dirty = self.stream.as_ref().is_some_and(EncoderStream::is_dirty);
            tokio::select! {
                biased;
                output = next.as_mut() => return Some(output),
                _failure = self.spool.feed_readers(self.writer) => self.has_no_readers = true,
                () = sleep(PAUSE), if is_dirty => drop(self.flush().await),
            }
        }
        None
    }

    /// Sends the next piece. Fails when no readers remain.
    pub(super) async fn push(&mut self, chunk: Bytes) -> Result<(), FillError> {
        if self.has_no_readers {
            return Err(FillError::Aborted);
        }
        let Some(stream) = &mut self.stream else {
            return self.send(chunk).await;
        };
        if chunk.len() <= AT_ONCE {
            let coded = stream
                .push(&chunk, &yield_processor)
                .map_err(|_| FillError::Aborted)?;
            return self.send(coded).await;
        }
        for piece in chunk.chunks(AT_ONCE) {
            let Some(stream) = &mut self.stream else {
                break;
            };
            let coded = stream
                .push(piece, &yield_processor)
                .map_err(|_| FillError::Aborted)?;
            self.send(coded).await?;
            yield_now().await;
        }
        Ok(())
    }

    /// Wakes the readers; see [`FillWriter::hold`].
    pub(super) fn release(&mut self) {
        self.writer.release();
    }

    /// Sends the bytes that the encoder and the spool still contain. The caller ends the fill.
    pub(super) async fn finish(&mut self) -> Result<(), FillError> {
        if let Some(stream) = self.stream.take() {
            let rest = stream.finish().map_err(|_| FillError::Aborted)?;
            self.send(rest).await?;
        }
        self.spool.drain(self.writer).await
    }

    async fn flush(&mut self) -> Result<(), FillError> {
        let Some(stream) = &mut self.stream else {
            return Ok(());
        };
        let flushed = stream.flush().map_err(|_| FillError::Aborted)?;
        self.send(flushed).await
    }

    async fn send(&mut self, bytes: Bytes) -> Result<(), FillError> {
        let forwarded = self.spool.forward(self.writer, bytes).await;
        self.has_no_readers |= forwarded.is_err();
        forwarded
    }
}

/// Polls a future once, for a task that does not wait for it yet.
async fn poll_once<T>(mut next: Pin<&mut impl Future<Output = T>>) -> Poll<T> {
    poll_fn(|cx| Poll::Ready(next.as_mut().poll(cx))).await
}

/// Compresses a page that is being generated, for all clients that accept the coding.
pub(super) struct Coder {
    in_progress: Rc<InProgressFetch>,
    coding: Coding,
    source: FillReader,
    stream: EncoderStream,
    spool: ResponseSpool,
    writer: FillWriter,
}

impl Coder {
    /// Runs to the end of the page, or until the compressed page has no readers.
    pub(super) async fn run(self) {
        let Self {
            in_progress,
            coding,
            mut source,
            stream,
            spool,
            mut writer,
        } = self;
        match encode(&mut source, Outlet::new(&mut writer, spool, Some(stream))).await {
            Ok(()) => {
                writer.finish();
            }
            Err(failure) => {
                // First, before anything else happens on this thread, so that no request joins the failed encoding.
                in_progress.waiters.forget_coded(coding);
                writer.fail(failure);
            }
        }
    }
}

async fn encode(source: &mut FillReader, mut outlet: Outlet<'_>) -> Result<(), FillError> {
    loop {
        if !outlet.writer.has_readers() {
            return Err(FillError::Aborted);
        }
        let next = outlet.wait(pin!(source.next())).await?;
        match next {
            Some(chunk) => outlet.push(chunk).await?,
            None => return outlet.finish().await,
        }
    }
}

/// The compressed body for a request that waited for a fetch.
#[derive(Default)]
pub(super) struct EncodedBody {
    /// A reader of the compressed page; `None`: the reader in the request's slot is used.
    pub(super) reader: Option<FillReader>,
    /// The task that compresses the page, which the caller must run.
    pub(super) coder: Option<Coder>,
}

impl FetchWorker {
    /// Finds or starts the encoding of a received page, for a request that accepts it. If only this request may read the
    /// response, the coder takes its reader, and the request reads the compressed body.
    pub(super) fn code_for(
        &self,
        site: &FetchSite,
        info: &RequestInfo,
        wait: &mut WaitingRequest,
        index: usize,
        head: &FillHead,
    ) -> EncodedBody {
        self.start_encoding(site, info, wait, index, head)
            .unwrap_or_default()
    }

    fn start_encoding(
        &self,
        site: &FetchSite,
        info: &RequestInfo,
        wait: &mut WaitingRequest,
        index: usize,
        head: &FillHead,
    ) -> Option<EncodedBody> {
        let compressing = &site.compressing;
        let in_progress = Rc::clone(&wait.slot(index)?.in_progress);
        // PHP sends no length, but a short page is complete at once.
        let length = head.length.or_else(|| in_progress.fill.whole_length());
        let coding = compressing.live(info, head.status, &head.fields, length)?;
        let is_shared = match head.share {
            FillSharing::Shared { .. } => true,
            FillSharing::Private if site.policy.flags.compress_passed => false,
            FillSharing::Private | FillSharing::File(_) => return None,
        };
        if let Some(reader) = in_progress.waiters.coded(coding).filter(|_| is_shared) {
            return Some(EncodedBody {
                reader: Some(reader),
                coder: None,
            });
        }
        let stream = EncoderStream::new(coding, compressing.settings(), self.storer.budget())?;
        let keep = is_shared.then(|| self.storer.retention());
        let (mut writer, fill) = fill::fill(WINDOW, keep);
        let fields = if is_shared {
            live::shared_fields(&head.fields, coding)
        } else {
            live::passed_fields(&head.fields, coding)
        };
        writer.head(FillHead {
            status: head.status,
            fields,
            share: head.share.clone(),
            length: None,
        });
        let reader = fill.reader()?;
        let (source, reader) = if is_shared {
            let source = in_progress.fill.reader()?;
            in_progress.waiters.add_coded(coding, fill);
            (source, Some(reader))
        } else {
            (wait.exchange_reader(index, reader)?, None)
        };
        let coder = Coder {
            in_progress,
            coding,
            source,
            stream,
            spool: self.upstreams.spool(),
            writer,
        };
        Some(EncodedBody {
            reader,
            coder: Some(coder),
        })
    }

    /// The head of a response for one client, and the encoder for its body.
    pub(super) fn passed(
        &self,
        job: &PassJob,
        incoming: &IncomingResponse,
    ) -> (FillHead, Option<EncoderStream>) {
        let compressing = &job.site.compressing;
        let mut head = FillHead {
            status: incoming.status,
            fields: self.passed_head(job, incoming),
            share: incoming.share(),
            length: incoming.length(),
        };
        let is_file = incoming.send_file.is_some();
        if job.is_read_here || is_file || !job.site.policy.flags.compress_passed {
            return (head, None);
        }
        if head.status == StatusCode::NOT_MODIFIED {
            keep_known_tag(&job.info, &mut head);
            return (head, None);
        }
        let length = incoming.announced();
        compressing.announce(head.status, &mut head.fields, length);
        let Some(coding) = compressing.live(&job.info, head.status, &head.fields, length) else {
            return (head, None);
        };
        let is_head = job.info.method() == Method::Head;
        let stream = EncoderStream::new(coding, compressing.settings(), self.storer.budget());
        if stream.is_some() || is_head {
            head.fields = live::passed_fields(&head.fields, coding);
            head.length = None;
        }
        (head, stream.filter(|_| !is_head))
    }
}

/// In a 304, replaces the `ETag` by the one with which the client received its compressed copy.
fn keep_known_tag(info: &RequestInfo, head: &mut FillHead) {
    let etag = head
        .fields
        .get(header::ETAG)
        .zip(info.if_none_match())
        .and_then(|(etag, sent)| live::known_tag(etag, sent));
    if let Some(etag) = etag {
        head.fields.insert(header::ETAG, etag);
    }
}

/// The time after which an upstream counts as paused. PHP prints pieces of 4 KiB at intervals of microseconds; a script that
/// flushes on purpose works for longer.
const PAUSE: Duration = Duration::from_millis(5);
