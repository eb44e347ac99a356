//! A connection to scripted responders: writes, concurrent reading and writing, and every kind of end.

#![expect(clippy::unwrap_used, reason = "tests")]

#[path = "responder_side/records.rs"]
mod records;

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use galley_fastcgi::record::{self, RecordType};
use galley_fastcgi::{
    BodySource, EndStatus, Error, FastCgiConnection, FastCgiEvent, FastCgiRequest, NoBody,
    ProtocolStatus,
};
use tokio::io::{
    AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf, duplex,
};
use tokio::net::UnixStream;

use self::records::ParsedRecord;

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

/// A body of chunks that are available immediately; `None` in the list is an error of the source.
struct ChunkedBody(VecDeque<Option<Bytes>>);

impl ChunkedBody {
    fn new(chunks: impl IntoIterator<Item = Bytes>) -> ChunkedBody {
        ChunkedBody(chunks.into_iter().map(Some).collect())
    }

    /// `count` chunks of `size` bytes.
    fn repeat(count: usize, size: usize) -> ChunkedBody {
        let chunk = Bytes::from(vec![b'u'; size]);
        ChunkedBody::new(std::iter::repeat_n(chunk, count))
    }
}

impl BodySource for ChunkedBody {
    fn poll_chunk(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        Poll::Ready(match self.0.pop_front() {
            Some(None) => Err(io::ErrorKind::ConnectionReset.into()),
            Some(Some(chunk)) => Ok(Some(chunk)),
            None => Ok(None),
        })
    }
}

/// Limits every wait in these tests.
async fn with_timeout<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), future)
        .await
        .expect("timeout, perhaps a deadlock")
}

fn end() -> Vec<u8> {
    let mut out = Vec::new();
    record::write_header(&mut out, RecordType::EndRequest, 8);
    out.extend([0; 8]);
    out
}

fn response(body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    record::write_stream(&mut out, RecordType::Stdout, body);
    out.extend(end());
    out
}

/// Reads records up to the end of the stream `until` and returns the number of content bytes.
async fn read_until_end_of(stream: &mut (impl AsyncRead + Unpin), until: RecordType) -> usize {
    let (mut bytes, mut sum) = (Vec::new(), 0);
    loop {
        while let ParsedRecord::Whole {
            header,
            content,
            length,
        } = records::parse(&bytes).unwrap()
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

/// Receives the complete stdout and stderr.
async fn receive<S: AsyncRead + AsyncWrite + Unpin>(
    connection: &mut FastCgiConnection<S>,
    body: &mut impl BodySource,
) -> Result<(Vec<u8>, Vec<u8>), Error> {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    loop {
        match with_timeout(connection.event(body)).await? {
            FastCgiEvent::Stdout(bytes) => stdout.extend_from_slice(&bytes),
            FastCgiEvent::Stderr(bytes) => stderr.extend_from_slice(&bytes),
            FastCgiEvent::End(status) => {
                assert_eq!(status, COMPLETE);
                return Ok((stdout, stderr));
            }
        }
    }
}

/// A stream that records the size of every write.
struct RecordingStream<S> {
    inner: S,
    writes: Vec<usize>,
}

impl<S: AsyncRead + Unpin> AsyncRead for RecordingStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> RecordingStream<S> {
    fn record(&mut self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(count)) = &written {
            self.writes.push(*count);
        }
        written
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for RecordingStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(cx, buf);
        self.record(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write_vectored(cx, bufs);
        self.record(written)
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

/// Sends a request whose body is available immediately, to a responder that reads all of it, and returns the sizes of the writes.
async fn request_writes<S>(client: S, mut responder_stream: S, body: usize) -> Vec<usize>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let name = b"SCRIPT_FILENAME".as_slice();
    let variables = [(name.into(), vec![b'x'; 900].into())];
    let mut connection = FastCgiConnection::new(RecordingStream {
        inner: client,
        writes: Vec::new(),
    });
    let responder = tokio::spawn(async move {
        read_until_end_of(&mut responder_stream, RecordType::Stdin).await;
        responder_stream
            .write_all(&response(b"A: b\n\nbody"))
            .await
            .unwrap();
        responder_stream
    });
    let request = FastCgiRequest {
        variables: &variables,
        body_length: u64::try_from(body).unwrap(),
    };
    with_timeout(connection.send(&request)).await.unwrap();
    let output = receive(
        &mut connection,
        &mut ChunkedBody::repeat(usize::from(body > 0), body),
    )
    .await
    .unwrap();
    assert_eq!(output.0, b"A: b\n\nbody");
    assert!(connection.is_reusable());
    drop(responder.await.unwrap());
    connection.stream().writes.clone()
}

#[tokio::test]
async fn a_request_is_sent_in_one_write() {
    for body in [0, 1, 4096, 8192, 60_000] {
        let (client, responder_stream) = UnixStream::pair().unwrap();
        assert_eq!(
            request_writes(client, responder_stream, body).await.len(),
            1,
            "body of {body} bytes, vectored"
        );
    }
    for body in [0, 1, 4096, 8192] {
        let (client, responder_stream) = duplex(128 * 1024);
        assert_eq!(
            request_writes(client, responder_stream, body).await.len(),
            1,
            "body of {body} bytes, plain"
        );
    }
}

#[tokio::test]
async fn send_writes_a_request_without_a_body_completely() {
    let (client, mut responder_stream) = duplex(1024);
    let mut connection = FastCgiConnection::new(client);
    connection.send(&GET).await.unwrap();
    with_timeout(read_until_end_of(&mut responder_stream, RecordType::Stdin)).await;
}

#[tokio::test]
async fn a_responder_that_writes_while_reading_causes_no_deadlock() {
    const CHUNK: usize = 100_000;
    const COUNT: usize = 40;
    // The pipe is much smaller than a record, so each side blocks often.
    let (client, responder_stream) = duplex(1000);
    let responder = tokio::spawn(async move {
        let (mut read, mut write) = tokio::io::split(responder_stream);
        let mut buffer = [0; 700];
        let mut received = 0;
        while received < COUNT * CHUNK {
            received += read.read(&mut buffer).await.unwrap();
            // The responder does not read while it writes.
            let mut out = Vec::new();
            record::write_stream(&mut out, RecordType::Stdout, &[b'd'; 2000]);
            write.write_all(&out).await.unwrap();
        }
        write.write_all(&end()).await.unwrap();
        (read, write, received)
    });
    let mut connection = FastCgiConnection::new(client);
    connection
        .send(&post((COUNT * CHUNK) as u64))
        .await
        .unwrap();
    let (stdout, _) = receive(&mut connection, &mut ChunkedBody::repeat(COUNT, CHUNK))
        .await
        .unwrap();
    assert!(stdout.len() > COUNT * CHUNK && stdout.iter().all(|&byte| byte == b'd'));
    drop(responder.await.unwrap());
}

#[tokio::test]
async fn an_early_response_ends_an_upload() {
    let (client, mut responder_stream) = UnixStream::pair().unwrap();
    let mut connection = FastCgiConnection::new(client);
    connection.send(&post(100 << 20)).await.unwrap();
    let responder = tokio::spawn(async move {
        read_until_end_of(&mut responder_stream, RecordType::Params).await;
        responder_stream
            .write_all(&response(b"Status: 413\n\nno"))
            .await
            .unwrap();
        responder_stream
    });
    let (stdout, _) = receive(&mut connection, &mut ChunkedBody::repeat(1600, 64 * 1024))
        .await
        .unwrap();
    assert_eq!(stdout, b"Status: 413\n\nno");
    assert!(!connection.is_reusable());
    assert!(matches!(connection.send(&GET).await, Err(Error::OutOfTurn)));
    drop(responder.await.unwrap());
}

#[tokio::test]
async fn a_response_is_read_even_if_writing_fails() {
    let (client, mut responder_stream) = UnixStream::pair().unwrap();
    let mut connection = FastCgiConnection::new(client);
    connection.send(&post(100 << 20)).await.unwrap();
    // Responds, closes and never reads the body, so a write fails before the response has been read.
    let responder = tokio::spawn(async move {
        read_until_end_of(&mut responder_stream, RecordType::Params).await;
        responder_stream
            .write_all(&response(b"Status: 413\n\nno"))
            .await
            .unwrap();
    });
    let mut body = ChunkedBody::repeat(1600, 64 * 1024);
    let (stdout, _) = receive(&mut connection, &mut body).await.unwrap();
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
    let complete = response(b"A: b\n\nbody");
    for (bytes, received) in [
        (&[][..], false),
        (&notice[..], true),
        (&complete[..3], true),
        (&complete[..complete.len() - 1], true),
    ] {
        let (client, mut responder_stream) = duplex(1024);
        let mut connection = FastCgiConnection::new(client);
        connection.send(&GET).await.unwrap();
        read_until_end_of(&mut responder_stream, RecordType::Stdin).await;
        responder_stream.write_all(bytes).await.unwrap();
        drop(responder_stream);
        let error = receive(&mut connection, &mut NoBody).await.unwrap_err();
        assert!(matches!(error, Error::Closed), "{error:?}");
        assert_eq!(connection.has_received(), received);
        assert!(!connection.is_reusable());
    }
}

#[tokio::test]
async fn a_failed_write_without_a_response_is_an_error() {
    let (client, mut responder_stream) = duplex(1024);
    let mut connection = FastCgiConnection::new(client);
    connection.send(&post(1 << 20)).await.unwrap();
    let responder =
        tokio::spawn(
            async move { read_until_end_of(&mut responder_stream, RecordType::Params).await },
        );
    let error = receive(&mut connection, &mut ChunkedBody::repeat(16, 1 << 16))
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Write(_)), "{error:?}");
    assert!(!connection.has_received() && !connection.is_reusable());
    responder.await.unwrap();
}

#[tokio::test]
async fn a_connection_with_unexpected_bytes_or_closed_is_not_reused() {
    for (bytes, open) in [
        (&b""[..], true),
        (b"", false),
        (b"\x01", true),
        (&response(b"Status: 200\n\nforged"), true),
    ] {
        let (client, mut responder_stream) = duplex(1024);
        let mut connection = FastCgiConnection::new(client);
        connection.send(&GET).await.unwrap();
        read_until_end_of(&mut responder_stream, RecordType::Stdin).await;
        responder_stream.write_all(&end()).await.unwrap();
        receive(&mut connection, &mut NoBody).await.unwrap();
        assert!(connection.is_reusable());
        responder_stream.write_all(bytes).await.unwrap();
        let responder_stream = open.then_some(responder_stream);
        let is_usable = open && bytes.is_empty();
        let result = connection.send(&GET).await;
        assert_eq!(result.is_ok(), is_usable);
        assert!(result.is_ok() || matches!(result, Err(Error::Stale)));
        drop(responder_stream);
    }
}

#[tokio::test]
async fn an_idle_connection_reports_that_it_was_closed() {
    let (client, responder_stream) = UnixStream::pair().unwrap();
    let mut connection = FastCgiConnection::new(client);
    assert!(
        poll_fn(|cx| Poll::Ready(connection.poll_idle(cx)))
            .await
            .is_pending()
    );
    drop(responder_stream);
    with_timeout(poll_fn(|cx| connection.poll_idle(cx))).await;
    assert!(!connection.is_reusable());
}

#[tokio::test]
async fn stdout_and_stderr_are_separate() {
    let (client, mut responder_stream) = duplex(1 << 20);
    let mut connection = FastCgiConnection::new(client);
    let mut out = Vec::new();
    for _ in 0..300 {
        record::write_stream(&mut out, RecordType::Stderr, b"<e>");
        record::write_stream(&mut out, RecordType::Stdout, &[b'o'; 300]);
    }
    out.extend(end());
    connection.send(&GET).await.unwrap();
    responder_stream.write_all(&out).await.unwrap();
    let (stdout, stderr) = receive(&mut connection, &mut NoBody).await.unwrap();
    assert_eq!((stdout.len(), stderr.len()), (90_000, 900));
    assert!(stdout.iter().all(|&byte| byte == b'o') && connection.is_reusable());
}

#[tokio::test]
async fn a_failed_or_mismatched_body_ends_the_exchange() {
    for (chunks, length) in [
        (vec![Some(Bytes::from_static(b"half")), None], 8),
        (vec![Some(Bytes::from_static(b"half"))], 8),
        (vec![Some(Bytes::from_static(b"too long"))], 4),
        (vec![], 1),
    ] {
        let (client, mut responder_stream) = duplex(1024);
        let mut connection = FastCgiConnection::new(client);
        connection.send(&post(length)).await.unwrap();
        let error = with_timeout(connection.event(&mut ChunkedBody(chunks.into())))
            .await
            .unwrap_err();
        assert!(
            matches!(error, Error::Body(_) | Error::BodyLength { .. }),
            "{error:?}"
        );
        assert!(!connection.is_reusable());
        drop(connection);
        // The responder must not have received the end of STDIN.
        let mut received = Vec::new();
        responder_stream.read_to_end(&mut received).await.unwrap();
        assert!(!received.ends_with(&[1, RecordType::Stdin.code(), 0, 1, 0, 0, 0, 0]));
    }
}

/// Polls once and drops the future, like a `select!` that takes another branch.
async fn poll_once<T>(future: impl Future<Output = T>) -> Option<T> {
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
async fn dropping_an_event_future_loses_nothing() {
    let (client, mut responder_stream) = duplex(777);
    let responder = tokio::spawn(async move {
        let received = read_until_end_of(&mut responder_stream, RecordType::Stdin).await;
        let reply = response(&vec![b'r'; 100_000]);
        for piece in reply.chunks(555) {
            responder_stream.write_all(piece).await.unwrap();
        }
        (responder_stream, received)
    });
    let mut connection = FastCgiConnection::new(client);
    connection.send(&post(500_000)).await.unwrap();
    let mut body = ChunkedBody::repeat(50, 10_000);
    let mut stdout = 0;
    with_timeout(async {
        loop {
            match poll_once(connection.event(&mut body)).await {
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
async fn buffering_is_limited_in_both_directions() {
    const PIPE: usize = 4096;
    let (client, mut responder_stream): (DuplexStream, DuplexStream) = duplex(PIPE);
    let mut connection = FastCgiConnection::new(client);
    connection.send(&post(1 << 30)).await.unwrap();
    let mut body = ChunkedBody::repeat(1 << 12, 10_000);
    let all = body.0.len();
    // The responder does not read, so the body is not read from its source.
    for _ in 0..100 {
        assert!(poll_once(connection.event(&mut body)).await.is_none());
    }
    let consumed = (all - body.0.len()) * 10_000;
    assert!(consumed < 128 * 1024, "{consumed} bytes read from the body");
    // The caller requests no more events, so the responder waits.
    let output = vec![record_of(60_000); 100].concat();
    let mut written = 0;
    let mut first = None;
    for _ in 0..1000 {
        if let Some(count) = poll_once(responder_stream.write(&output[written..])).await {
            written += count.unwrap();
        }
        if first.is_none() {
            first = poll_once(connection.event(&mut body)).await;
        }
    }
    assert!(first.is_some());
    assert!(
        written <= 64 * 1024 + 2 * PIPE,
        "{written} bytes read from the responder"
    );
}

fn record_of(length: usize) -> Vec<u8> {
    let mut out = Vec::new();
    record::write_stream(&mut out, RecordType::Stdout, &vec![b'x'; length]);
    out
}
