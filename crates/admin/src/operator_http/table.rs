//! The open connections of a listener: which client may open one more, and which connection ends for it.
//!
//! A client at its limit loses its oldest connection whose request is not complete or whose response is not read; a request that
//! is being answered is never interrupted. So a client with hundreds of connections that send nothing delays neither others nor
//! its own requests, and PHP of several sites may share one user.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::listener::Peer;
use galley_sys::Lock;

/// The maximum number of connections of a listener, for a process with this limit of descriptors: far below it, because
/// visitors need them.
pub fn max_connections(descriptors: u64) -> usize {
    let part = usize::try_from(descriptors / DESCRIPTORS_FOR_EACH).unwrap_or(usize::MAX);
    part.clamp(FEWEST_CONNECTIONS, MOST_CONNECTIONS)
}

/// The connections of a listener.
pub(super) struct ConnectionTable {
    most: usize,
    open: Lock<OpenConnections>,
}

#[derive(Default)]
struct OpenConnections {
    /// By number, so the oldest is the first.
    connections: BTreeMap<u64, AdmittedConnection>,
    next: u64,
}

struct AdmittedConnection {
    peer: Peer,
    step: Step,
    deadline: Option<Instant>,
    changed: Arc<Notify>,
}

/// The step of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The client sends its request.
    Receiving,
    /// The request is complete; the response is not.
    Answering,
    /// The client reads the response.
    Sending,
}

/// The place of an open connection; freed on drop.
pub(super) struct ConnectionPlace {
    table: Arc<ConnectionTable>,
    number: u64,
    changed: Arc<Notify>,
}

impl ConnectionTable {
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self {
            most,
            open: Lock::default(),
        })
    }

    /// Admits a connection, if necessary instead of another one, which then ends. `None`: all that it could replace are being
    /// answered.
    pub(super) fn admit(self: &Arc<Self>, peer: Peer, until: Instant) -> Option<ConnectionPlace> {
        let mut open = self.open.lock();
        if let Some(crowd) = open.crowd(peer, self.most) {
            open.end_oldest(crowd)?;
        }
        let (number, changed) = (open.next, Arc::new(Notify::new()));
        open.next += 1;
        let connection = AdmittedConnection {
            peer,
            step: Step::Receiving,
            deadline: Some(until),
            changed: Arc::clone(&changed),
        };
        open.connections.insert(number, connection);
        Some(ConnectionPlace {
            table: Arc::clone(self),
            number,
            changed,
        })
    }
}

impl OpenConnections {
    /// The client that must lose a connection before `peer` may open another: `peer` itself at its limit, or the client with most
    /// connections. The operator has a quarter of all, which no other client can take.
    fn crowd(&self, peer: Peer, most: usize) -> Option<Peer> {
        let mut counts: HashMap<Peer, usize> = HashMap::new();
        for connection in self.connections.values() {
            *counts.entry(connection.peer).or_default() += 1;
        }
        let operator = counts.remove(&Peer::Operator).unwrap_or_default();
        if peer == Peer::Operator {
            return (operator >= most / 4).then_some(peer);
        }
        let of_peer = counts.get(&peer).copied().unwrap_or_default();
        if of_peer >= most / 2 {
            return Some(peer);
        }
        let open: usize = counts.values().sum();
        let largest = counts.into_iter().max_by_key(|(_, count)| *count);
        largest
            .filter(|_| open >= most - most / 4)
            .map(|(peer, _)| peer)
    }

    /// Ends the oldest connection of a client that is not being answered.
    fn end_oldest(&mut self, of: Peer) -> Option<()> {
        let mut rows = self.connections.iter();
        let (number, _) = rows.find(|(_, one)| one.peer == of && one.step != Step::Answering)?;
        let number = *number;
        let ended = self.connections.remove(&number)?;
        ended.changed.notify_one();
        Some(())
    }
}

impl ConnectionPlace {
    /// Begins the next step, which may take `limit`.
    pub(super) fn begin(&self, step: Step, limit: Option<Duration>) {
        let mut open = self.table.open.lock();
        if let Some(connection) = open.connections.get_mut(&self.number) {
            connection.step = step;
            connection.deadline = limit.map(|limit| Instant::now() + limit);
            self.changed.notify_one();
        }
    }

    /// Waits until a step has taken too long, or another connection has replaced this one.
    pub(super) async fn overdue(&self) {
        loop {
            let deadline = {
                let open = self.table.open.lock();
                match open.connections.get(&self.number) {
                    Some(connection) => connection.deadline,
                    None => return,
                }
            };
            match deadline {
                None => self.changed.notified().await,
                Some(at) => tokio::select! {
                    () = tokio::time::sleep_until(at) => return,
                    () = self.changed.notified() => {}
                },
            }
        }
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        self.table.open.lock().connections.remove(&self.number);
    }
}

/// One connection for so many descriptors.
const DESCRIPTORS_FOR_EACH: u64 = 8;

/// A command and a purge at the same time, and two that wait.
const FEWEST_CONNECTIONS: usize = 8;

/// More than PHP workers of a machine purge in the same millisecond.
const MOST_CONNECTIONS: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    const PHP: Peer = Peer::User(33);

    fn later() -> Instant {
        Instant::now() + Duration::from_secs(1)
    }

    fn admit(table: &Arc<ConnectionTable>, peer: Peer) -> ConnectionPlace {
        table.admit(peer, later()).expect("a place")
    }

    fn is_open(place: &ConnectionPlace) -> bool {
        place
            .table
            .open
            .lock()
            .connections
            .contains_key(&place.number)
    }

    #[test]
    fn connections_are_few_for_any_limit_of_descriptors() {
        for (descriptors, most) in [(0, 8), (64, 8), (1024, 128), (u64::MAX, 128)] {
            assert_eq!(max_connections(descriptors), most, "{descriptors}");
        }
    }

    #[tokio::test]
    async fn a_client_at_its_limit_loses_its_oldest_connection() {
        let table = ConnectionTable::new(8);
        let places: Vec<_> = (0..4).map(|_| admit(&table, PHP)).collect();
        let other = admit(&table, Peer::User(34));
        let fifth = admit(&table, PHP);
        let open: Vec<bool> = places.iter().map(is_open).collect();
        assert_eq!(open, [false, true, true, true]);
        assert!(is_open(&other) && is_open(&fifth));
        // Ends at once, long before its deadline.
        places[0].overdue().await;
    }

    #[test]
    fn a_request_that_is_being_answered_is_not_interrupted() {
        let table = ConnectionTable::new(8);
        let places: Vec<_> = (0..4).map(|_| admit(&table, PHP)).collect();
        for place in &places {
            place.begin(Step::Answering, None);
        }
        assert!(table.admit(PHP, later()).is_none());
        places[2].begin(Step::Sending, None);
        assert!(table.admit(PHP, later()).is_some());
        assert!(!is_open(&places[2]) && is_open(&places[0]));
    }

    #[test]
    fn many_clients_leave_places_for_the_operator_and_for_one_more_client() {
        let table = ConnectionTable::new(16);
        let places: Vec<_> = (0..100)
            .map(|number| admit(&table, Peer::User(number % 3)))
            .collect();
        let strangers = places.iter().filter(|place| is_open(place)).count();
        assert_eq!(strangers, 12);
        let new = admit(&table, PHP);
        let operators: Vec<_> = (0..9).map(|_| admit(&table, Peer::Operator)).collect();
        assert!(is_open(&new));
        assert_eq!(operators.iter().filter(|place| is_open(place)).count(), 4);
        assert_eq!(table.open.lock().connections.len(), 16);
        drop((places, new, operators));
        assert_eq!(table.open.lock().connections.len(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn each_step_has_a_deadline_of_its_own() {
        let table = ConnectionTable::new(8);
        let place = admit(&table, PHP);
        let begun = Instant::now();
        place.begin(Step::Answering, None);
        let overdue = tokio::time::timeout(Duration::from_secs(3600), place.overdue());
        assert!(overdue.await.is_err());
        place.begin(Step::Sending, Some(Duration::from_secs(5)));
        place.overdue().await;
        assert_eq!(begun.elapsed().as_secs(), 3605);
    }
}
