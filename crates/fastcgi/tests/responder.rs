//! A connection against scripted responders: writes, both directions at once, ends of every kind.

#![expect(clippy::unwrap_used, reason = "a test may fail")]

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use galley_fastcgi::record::{self, ParsedRecord, RecordType};
use galley_fastcgi::{
    BodySource, EndStatus, Error, FastCgiConnection, FastCgiEvent, FastCgiRequest, NoBody,
    ProtocolStatus,
};
use tokio::io::{
    AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf, duplex,
};
use tokio::net::UnixStream;

const COMPLETE: EndStatus = EndStatus {
    app_status: 0,
    protocol_status: ProtocolStatus::RequestComplete,
};
const GET: FastCgiRequest<'static> = FastCgiRequest {
    variables: &[],
    body_length: 0,
};

fn post(body_length: u64) -> FastCgiRequest<'static> {
    FastCgiRequest {
        variables: &[],
        body_length,
    }
}

/// Chunks that are there already; `None` in the list is a failing source.
struct Chunks(VecDeque<Option<Bytes>>);

impl Chunks {
    fn new(chunks: impl IntoIterator<Item = Bytes>) -> Chunks {
        Chunks(chunks.into_iter().map(Some).collect())
    }

    /// `count` chunks of `size` bytes.
    fn many(count: usize, size: usize) -> Chunks {
        let chunk = Bytes::from(vec![b'u'; size]);
        Chunks::new(std::iter::repeat_n(chunk, count))
    }
}

impl BodySource for Chunks {
    fn poll_chunk(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        Poll::Ready(match self.0.pop_front() {
            Some(None) => Err(io::ErrorKind::ConnectionReset.into()),
            Some(Some(chunk)) => Ok(Some(chunk)),
            None => Ok(None),
        })
    }
}

/// Nothing in these tests may wait for longer.
async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), future)
        .await
        .expect("a deadlock")
}

fn end() -> Vec<u8> {
    let mut out = Vec::new();
    record::write_end(&mut out, COMPLETE);
    out
}

fn answer(body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    record::write_stream(&mut out, RecordType::Stdout, body);
    out.extend(end());
    out
}

/// Reads records until the one that ends `until`; gives their number of content bytes.
async fn read_until_end_of(stream: &mut (impl AsyncRead + Unpin), until: RecordType) -> usize {
    let (mut bytes, mut sum) = (Vec::new(), 0);
    loop {
        while let ParsedRecord::Whole {
            header,
            content,
            length,
        } = record::parse(&bytes).unwrap()
        {
            sum += content.len();
            bytes.drain(..length);
            if header.content == 0 && header.code == until.code() {
                assert!(
                    bytes.is_empty() || until != RecordType::Stdin,
                    "bytes after the end"
                );
                return sum;
            }
        }
        assert_ne!(
            stream.read_buf(&mut bytes).await.unwrap(),
            0,
            "closed within a request"
        );
    }
}

/// Everything until the end, both streams joined.
async fn hear<S: AsyncRead + AsyncWrite + Unpin>(
    connection: &mut FastCgiConnection<S>,
    body: &mut impl BodySource,
) -> Result<(Vec<u8>, Vec<u8>), Error> {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    loop {
        match soon(connection.event(body)).await? {
            FastCgiEvent::Stdout(bytes) => stdout.extend_from_slice(&bytes),
            FastCgiEvent::Stderr(bytes) => stderr.extend_from_slice(&bytes),
            FastCgiEvent::End(status) => {
                assert_eq!(status, COMPLETE);
                return Ok((stdout, stderr));
            }
        }
    }
}

/// Notes the size of every write.
struct Noted<S> {
    inner: S,
    writes: Vec<usize>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Noted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> Noted<S> {
    fn note(&mut self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(count)) = &written {
            self.writes.push(*count);
        }
        written
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Noted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(cx, buf);
        self.note(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write_vectored(cx, bufs);
        self.note(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

/// The request with a body that is there already; the responder answers when it has all. Gives the writes.
async fn writes_of<S>(ours: S, mut theirs: S, body: usize) -> Vec<usize>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let name = b"SCRIPT_FILENAME".as_slice();
    let variables = [(name.into(), vec![b'x'; 900].into())];
    let mut connection = FastCgiConnection::new(Noted {
        inner: ours,
        writes: Vec::new(),
    });
    let responder = tokio::spawn(async move {
        read_until_end_of(&mut theirs, RecordType::Stdin).await;
        theirs.write_all(&answer(b"A: b\n\nbody")).await.unwrap();
        theirs
    });
    let request = FastCgiRequest {
        variables: &variables,
        body_length: u64::try_from(body).unwrap(),
    };
    soon(connection.send(&request)).await.unwrap();
    let heard = hear(
        &mut connection,
        &mut Chunks::many(usize::from(body > 0), body),
    )
    .await
    .unwrap();
    assert_eq!(heard.0, b"A: b\n\nbody");
    assert!(connection.is_reusable());
    drop(responder.await.unwrap());
    connection.stream().writes.clone()
}

#[tokio::test]
async fn a_request_leaves_in_one_write() {
    for body in [0, 1, 4096, 8192, 60_000] {
        let (ours, theirs) = UnixStream::pair().unwrap();
        assert_eq!(
            writes_of(ours, theirs, body).await.len(),
            1,
            "body of {body} bytes, vectored"
        );
    }
    for body in [0, 1, 4096, 8192] {
        let (ours, theirs) = duplex(128 * 1024);
        assert_eq!(
            writes_of(ours, theirs, body).await.len(),
            1,
            "body of {body} bytes, plain"
        );
    }
}

#[tokio::test]
async fn a_request_without_body_leaves_with_send() {
    let (ours, mut theirs) = duplex(1024);
    let mut connection = FastCgiConnection::new(ours);
    connection.send(&GET).await.unwrap();
    soon(read_until_end_of(&mut theirs, RecordType::Stdin)).await;
}

#[tokio::test]
async fn printing_while_reading_does_not_lock_up() {
    const CHUNK: usize = 100_000;
    const COUNT: usize = 40;
    // The pipe holds far less than a record, so each side blocks all the time.
    let (ours, theirs) = duplex(1000);
    let responder = tokio::spawn(async move {
        let (mut read, mut write) = tokio::io::split(theirs);
        let mut buffer = [0; 700];
        let mut seen = 0;
        while seen < COUNT * CHUNK {
            seen += read.read(&mut buffer).await.unwrap();
            // One thread of control: it does not read while it prints.
            let mut out = Vec::new();
            record::write_stream(&mut out, RecordType::Stdout, &[b'd'; 2000]);
            write.write_all(&out).await.unwrap();
        }
        write.write_all(&end()).await.unwrap();
        (read, write, seen)
    });
    let mut connection = FastCgiConnection::new(ours);
    connection
        .send(&post((COUNT * CHUNK) as u64))
        .await
        .unwrap();
    let (stdout, _) = hear(&mut connection, &mut Chunks::many(COUNT, CHUNK))
        .await
        .unwrap();
    assert!(stdout.len() > COUNT * CHUNK && stdout.iter().all(|&byte| byte == b'd'));
    drop(responder.await.unwrap());
}

#[tokio::test]
async fn an_early_answer_ends_an_upload() {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let mut connection = FastCgiConnection::new(ours);
    connection.send(&post(100 << 20)).await.unwrap();
    let responder = tokio::spawn(async move {
        read_until_end_of(&mut theirs, RecordType::Params).await;
        theirs
            .write_all(&answer(b"Status: 413\n\nno"))
            .await
            .unwrap();
        theirs
    });
    let (stdout, _) = hear(&mut connection, &mut Chunks::many(1600, 64 * 1024))
        .await
        .unwrap();
    assert_eq!(stdout, b"Status: 413\n\nno");
    assert!(!connection.is_reusable());
    assert!(matches!(connection.send(&GET).await, Err(Error::OutOfTurn)));
    drop(responder.await.unwrap());
}

#[tokio::test]
async fn a_response_is_read_although_writing_fails() {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let mut connection = FastCgiConnection::new(ours);
    connection.send(&post(100 << 20)).await.unwrap();
    // Answers, closes and never reads the body: a write fails before the answer has been read.
    let responder = tokio::spawn(async move {
        read_until_end_of(&mut theirs, RecordType::Params).await;
        theirs
            .write_all(&answer(b"Status: 413\n\nno"))
            .await
            .unwrap();
    });
    let mut body = Chunks::many(1600, 64 * 1024);
    let (stdout, _) = hear(&mut connection, &mut body).await.unwrap();
    assert_eq!(stdout, b"Status: 413\n\nno");
    assert!(!connection.is_reusable());
    responder.await.unwrap();
}

#[tokio::test]
async fn closed_connections_are_distinguished() {
    let notice = {
        let mut out = Vec::new();
        record::write_stream(&mut out, RecordType::Stderr, b"PHP message");
        out
    };
    let whole = answer(b"A: b\n\nbody");
    for (bytes, received) in [
        (&[][..], false),
        (&notice[..], true),
        (&whole[..3], true),
        (&whole[..whole.len() - 1], true),
    ] {
        let (ours, mut theirs) = duplex(1024);
        let mut connection = FastCgiConnection::new(ours);
        connection.send(&GET).await.unwrap();
        read_until_end_of(&mut theirs, RecordType::Stdin).await;
        theirs.write_all(bytes).await.unwrap();
        drop(theirs);
        let error = hear(&mut connection, &mut NoBody).await.unwrap_err();
        assert!(matches!(error, Error::Closed), "{error:?}");
        assert_eq!(connection.has_received(), received);
        assert!(!connection.is_reusable() && !error.is_before_request());
    }
}

#[tokio::test]
async fn a_failed_write_without_an_answer_is_an_error() {
    let (ours, mut theirs) = duplex(1024);
    let mut connection = FastCgiConnection::new(ours);
    connection.send(&post(1 << 20)).await.unwrap();
    let responder =
        tokio::spawn(async move { read_until_end_of(&mut theirs, RecordType::Params).await });
    let error = hear(&mut connection, &mut Chunks::many(16, 1 << 16))
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Write(_)), "{error:?}");
    assert!(!connection.has_received() && !connection.is_reusable());
    responder.await.unwrap();
}

#[tokio::test]
async fn a_kept_connection_must_be_silent_and_open() {
    for (bytes, open) in [
        (&b""[..], true),
        (b"", false),
        (b"\x01", true),
        (&answer(b"Status: 200\n\nforged"), true),
    ] {
        let (ours, mut theirs) = duplex(1024);
        let mut connection = FastCgiConnection::new(ours);
        connection.send(&GET).await.unwrap();
        read_until_end_of(&mut theirs, RecordType::Stdin).await;
        theirs.write_all(&end()).await.unwrap();
        hear(&mut connection, &mut NoBody).await.unwrap();
        assert!(connection.is_reusable());
        theirs.write_all(bytes).await.unwrap();
        let theirs = open.then_some(theirs);
        let fine = open && bytes.is_empty();
        let result = connection.send(&GET).await;
        assert_eq!(result.is_ok(), fine);
        assert!(result.is_ok() || matches!(result, Err(Error::Stale)));
        drop(theirs);
    }
}

#[tokio::test]
async fn an_idle_connection_reports_its_end() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut connection = FastCgiConnection::new(ours);
    assert!(
        poll_fn(|cx| Poll::Ready(connection.poll_idle(cx)))
            .await
            .is_pending()
    );
    drop(theirs);
    soon(poll_fn(|cx| connection.poll_idle(cx))).await;
    assert!(!connection.is_reusable());
}

#[tokio::test]
async fn stderr_is_kept_apart() {
    let (ours, mut theirs) = duplex(1 << 20);
    let mut connection = FastCgiConnection::new(ours);
    let mut out = Vec::new();
    for _ in 0..300 {
        record::write_stream(&mut out, RecordType::Stderr, b"<e>");
        record::write_stream(&mut out, RecordType::Stdout, &[b'o'; 300]);
    }
    out.extend(end());
    connection.send(&GET).await.unwrap();
    theirs.write_all(&out).await.unwrap();
    let (stdout, stderr) = hear(&mut connection, &mut NoBody).await.unwrap();
    assert_eq!((stdout.len(), stderr.len()), (90_000, 900));
    assert!(stdout.iter().all(|&byte| byte == b'o') && connection.is_reusable());
}

#[tokio::test]
async fn a_failing_body_ends_the_exchange() {
    for (chunks, length) in [
        (vec![Some(Bytes::from_static(b"half")), None], 8),
        (vec![Some(Bytes::from_static(b"half"))], 8),
        (vec![Some(Bytes::from_static(b"too long"))], 4),
        (vec![], 1),
    ] {
        let (ours, mut theirs) = duplex(1024);
        let mut connection = FastCgiConnection::new(ours);
        connection.send(&post(length)).await.unwrap();
        let error = soon(connection.event(&mut Chunks(chunks.into())))
            .await
            .unwrap_err();
        assert!(
            matches!(error, Error::Body(_) | Error::BodyLength { .. }),
            "{error:?}"
        );
        assert!(!connection.is_reusable());
        drop(connection);
        // The responder must not have seen the end of STDIN.
        let mut seen = Vec::new();
        theirs.read_to_end(&mut seen).await.unwrap();
        assert!(!seen.ends_with(&[1, RecordType::Stdin.code(), 0, 1, 0, 0, 0, 0]));
    }
}

/// Polls once, as a `select!` that then takes another branch would.
async fn once<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    poll_fn(|cx| {
        Poll::Ready(match future.as_mut().poll(cx) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        })
    })
    .await
}

#[tokio::test]
async fn a_dropped_event_loses_nothing() {
    let (ours, mut theirs) = duplex(777);
    let responder = tokio::spawn(async move {
        let seen = read_until_end_of(&mut theirs, RecordType::Stdin).await;
        let reply = answer(&vec![b'r'; 100_000]);
        for piece in reply.chunks(555) {
            theirs.write_all(piece).await.unwrap();
        }
        (theirs, seen)
    });
    let mut connection = FastCgiConnection::new(ours);
    connection.send(&post(500_000)).await.unwrap();
    let mut body = Chunks::many(50, 10_000);
    let mut stdout = 0;
    soon(async {
        loop {
            match once(connection.event(&mut body)).await {
                Some(Ok(FastCgiEvent::Stdout(bytes))) => stdout += bytes.len(),
                Some(Ok(FastCgiEvent::End(_))) => break,
                Some(other) => panic!("{other:?}"),
                None => tokio::task::yield_now().await,
            }
        }
    })
    .await;
    assert_eq!(stdout, 100_000);
    assert!(connection.is_reusable());
    assert_eq!(responder.await.unwrap().1, 8 + 500_000);
}

#[tokio::test]
async fn little_is_buffered_in_either_direction() {
    const PIPE: usize = 4096;
    let (ours, mut theirs): (DuplexStream, DuplexStream) = duplex(PIPE);
    let mut connection = FastCgiConnection::new(ours);
    connection.send(&post(1 << 30)).await.unwrap();
    let mut body = Chunks::many(1 << 12, 10_000);
    let all = body.0.len();
    // A responder that does not read: the body waits at its source.
    for _ in 0..100 {
        assert!(once(connection.event(&mut body)).await.is_none());
    }
    let taken = (all - body.0.len()) * 10_000;
    assert!(taken < 128 * 1024, "{taken} bytes taken from the body");
    // A caller that does not ask on: the responder waits.
    let output = vec![record_of(60_000); 100].concat();
    let mut written = 0;
    let mut first = None;
    for _ in 0..1000 {
        if let Some(count) = once(theirs.write(&output[written..])).await {
            written += count.unwrap();
        }
        if first.is_none() {
            first = once(connection.event(&mut body)).await;
        }
    }
    assert!(first.is_some());
    assert!(
        written <= 64 * 1024 + 2 * PIPE,
        "{written} bytes taken from the responder"
    );
}

fn record_of(length: usize) -> Vec<u8> {
    let mut out = Vec::new();
    record::write_stream(&mut out, RecordType::Stdout, &vec![b'x'; length]);
    out
}
