//! HTTP/1.1 on one connection: a request, its response, and the next one.

use std::{io, pin::Pin, rc::Rc};

use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf};

use crate::{
    connect::{Connections, Dialer, Stream},
    response::ReceivedResponse,
    run::{LoadWorker, Run},
};

/// Sends requests until the run ends. Returns the connection if it is reusable.
pub(crate) async fn work(
    run: Rc<Run>,
    link: Rc<Dialer>,
    mut stream: Option<Stream>,
) -> Option<Stream> {
    let mut response = ReceivedResponse::new(link.target.watch.as_deref().map(Rc::from));
    let mut head = Vec::new();
    let worker = run.worker();
    while let Some(expected) = worker.begin(&mut head, &mut response).await {
        match exchange(&worker, &link, stream.take(), &head, &mut response).await {
            Ok(open) => {
                worker.done(expected, &mut response);
                stream = next(&worker, &link, open, response.closes).await;
            }
            Err(error) => worker.failed(&error),
        }
    }
    stream
}

/// Exchanges one request and its response, on a new connection if there is none, or if the server has closed the old one.
async fn exchange(
    worker: &LoadWorker,
    link: &Dialer,
    stream: Option<Stream>,
    head: &[u8],
    response: &mut ReceivedResponse,
) -> io::Result<Stream> {
    if let Some(mut stream) = stream {
        match one(link, &mut stream, head, response).await {
            Ok(()) => return Ok(stream),
            Err(_) if response.is_untouched() => worker.reconnected(),
            Err(error) => return Err(error),
        }
    }
    let mut stream = link.open().await?;
    one(link, &mut stream, head, response).await?;
    Ok(stream)
}

async fn one(
    link: &Dialer,
    stream: &mut Stream,
    head: &[u8],
    response: &mut ReceivedResponse,
) -> io::Result<()> {
    stream.write_all(head).await?;
    stream.flush().await?;
    loop {
        let step = read(link, stream, |bytes| response.feed(bytes)).await?;
        match step {
            Some(Ok(false)) => {}
            Some(Ok(true)) => return Ok(()),
            Some(Err(malformed)) => return Err(io::Error::other(malformed.0)),
            None if response.ends_with_connection() => return Ok(()),
            None => return Err(io::Error::other("the connection broke")),
        }
    }
}

/// Passes the next bytes to `take`; `None` at the end of the connection.
async fn read<T>(
    link: &Dialer,
    stream: &mut Stream,
    take: impl FnOnce(&[u8]) -> T,
) -> io::Result<Option<T>> {
    let mut take = Some(take);
    std::future::poll_fn(|context| {
        let mut space = link.buffer.borrow_mut();
        let mut buffer = ReadBuf::new(&mut space);
        let ready = Pin::new(&mut *stream).poll_read(context, &mut buffer);
        ready.map_ok(|()| {
            let take = take.take().filter(|_| !buffer.filled().is_empty());
            take.map(|take| take(buffer.filled()))
        })
    })
    .await
}

/// The connection for the next request. If the server closes it, it is read to its end first: closing it on this side could send a
/// reset.
async fn next(
    worker: &LoadWorker,
    link: &Dialer,
    mut stream: Stream,
    closes: bool,
) -> Option<Stream> {
    let is_kept = link.target.connections == Connections::Kept;
    if closes {
        while let Ok(Some(())) = read(link, &mut stream, |_| ()).await {}
        if is_kept {
            worker.reconnected();
        }
        return None;
    }
    is_kept.then_some(stream)
}
