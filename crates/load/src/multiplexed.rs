//! Several streams on one connection, each with one request after the other: HTTP/2 and HTTP/3.

use std::{io, rc::Rc};

use tokio::{sync::Mutex, task::JoinSet};

use crate::{
    connect::Dialer,
    response::ReceivedResponse,
    run::{LoadWorker, Run},
};

/// A connection for concurrent requests. Clones share it.
pub(crate) trait Multiplexed: Clone {
    /// Opens a connection.
    async fn open(link: &Dialer) -> io::Result<Self>;

    /// Sends a request with this head of HTTP/1.1, and receives its response.
    async fn exchange(
        &mut self,
        head: &[u8],
        response: &mut ReceivedResponse,
    ) -> Result<(), ExchangeError>;
}

/// Why there is no complete response.
pub(crate) struct ExchangeError {
    /// Whether the connection is of no further use.
    pub(crate) ends_connection: bool,
    /// Whether the server announced that it did not process the request, because it closes the connection.
    pub(crate) is_unprocessed: bool,
    pub(crate) source: io::Error,
}

/// Sends requests until the run ends. Returns the connection if it is reusable.
pub(crate) async fn work<M: Multiplexed + 'static>(
    run: Rc<Run>,
    link: Rc<Dialer>,
    open: M,
    streams: usize,
) -> Option<M> {
    let connection = Rc::new(Connection {
        link,
        current: Mutex::new(CurrentConnection {
            number: 0,
            open: Some(open),
        }),
    });
    let mut all = JoinSet::new();
    for _ in 0..streams.max(1) {
        all.spawn_local(stream(run.worker(), Rc::clone(&connection)));
    }
    while all.join_next().await.is_some() {}
    connection.current.lock().await.open.take()
}

/// A connection that is reopened when the server closes it; all its streams use it.
struct Connection<M> {
    link: Rc<Dialer>,
    current: Mutex<CurrentConnection<M>>,
}

struct CurrentConnection<M> {
    /// The number of the connection.
    number: u64,
    open: Option<M>,
}

impl<M: Multiplexed> Connection<M> {
    /// The open connection with its number, or a new one.
    async fn get(&self, worker: &LoadWorker) -> io::Result<(u64, M)> {
        let mut current = self.current.lock().await;
        let open = if let Some(open) = &current.open {
            open.clone()
        } else {
            let open = M::open(&self.link).await?;
            worker.reconnected();
            current.number += 1;
            current.open.insert(open).clone()
        };
        Ok((current.number, open))
    }

    /// Stops using the connection with this number.
    async fn retire(&self, number: u64) {
        let mut current = self.current.lock().await;
        if current.number == number {
            current.open = None;
        }
    }

    /// Exchanges one request and its response. If the server did not process the request because it closes the connection,
    /// the request is sent again on a new one.
    async fn exchange(
        &self,
        worker: &LoadWorker,
        head: &[u8],
        response: &mut ReceivedResponse,
    ) -> io::Result<()> {
        let mut attempts = 0;
        loop {
            let (number, mut open) = self.get(worker).await?;
            let Err(error) = open.exchange(head, response).await else {
                return Ok(());
            };
            if error.ends_connection {
                self.retire(number).await;
            }
            attempts += 1;
            let is_repeatable = error.is_unprocessed && response.is_untouched();
            if !is_repeatable || attempts == MAX_ATTEMPTS {
                return Err(error.source);
            }
        }
    }
}

/// Sends requests, one stream after the other.
async fn stream<M: Multiplexed>(worker: LoadWorker, connection: Rc<Connection<M>>) {
    let watch = connection.link.target.watch.as_deref();
    let mut response = ReceivedResponse::new(watch.map(Rc::from));
    let mut head = Vec::new();
    while let Some(expected) = worker.begin(&mut head, &mut response).await {
        match connection.exchange(&worker, &head, &mut response).await {
            Ok(()) => worker.done(expected, &mut response),
            Err(error) => worker.failed(&error),
        }
    }
}

/// The maximum number of connections on which one request is tried.
const MAX_ATTEMPTS: u32 = 10;
