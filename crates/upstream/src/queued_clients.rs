//! The clients of a class with queued requests: each has its turn, and its own order.

use std::collections::{BTreeSet, HashMap, VecDeque};

use galley_policy::class::Network;

/// A queued request. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct QueueTicket(pub(super) u64);

/// The queued requests of clients, by client.
#[derive(Debug, Default)]
pub(super) struct Clients {
    queued: HashMap<Network, QueuedClient>,
    /// The order of the round robin: contains each client in `queued` once.
    turns: VecDeque<Network>,
    /// The clients by their number of queued requests, without clients that have none.
    longest: BTreeSet<(usize, Network)>,
    waiting: usize,
}

/// The queued requests of one client.
#[derive(Debug, Default)]
pub(super) struct QueuedClient {
    /// In order of arrival; may contain requests that are no longer queued.
    pub(super) tickets: VecDeque<QueueTicket>,
    /// The number of queued requests.
    pub(super) waiting: usize,
}

impl Clients {
    /// The number of queued requests of all clients.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// The largest number of queued requests of one client.
    pub(super) fn most(&self) -> usize {
        self.longest.last().map_or(0, |(most, _)| *most)
    }

    /// The client with the most queued requests.
    pub(super) fn largest(&self) -> Option<(Network, &QueuedClient)> {
        let (_, client) = self.longest.last()?;
        Some((*client, self.queued.get(client)?))
    }

    /// A client with queued requests.
    pub(super) fn get(&self, client: Network) -> Option<&QueuedClient> {
        self.queued.get(&client)
    }

    /// The number of queued requests of a client.
    pub(super) fn waiting_of(&self, client: Network) -> usize {
        self.get(client).map_or(0, |client| client.waiting)
    }

    /// Adds a request of a client.
    pub(super) fn note_joined(&mut self, network: Network, ticket: QueueTicket) {
        let turns = &mut self.turns;
        let client = self.queued.entry(network).or_insert_with(|| {
            turns.push_back(network);
            QueuedClient::default()
        });
        client.tickets.push_back(ticket);
        let before = client.waiting;
        client.waiting += 1;
        self.waiting += 1;
        self.longest.remove(&(before, network));
        self.longest.insert((before + 1, network));
    }

    /// Counts that a request of a client is no longer queued.
    pub(super) fn note_left(&mut self, network: Network) {
        let Some(client) = self.queued.get_mut(&network) else {
            return;
        };
        let before = client.waiting;
        client.waiting = before.saturating_sub(1);
        self.waiting = self.waiting.saturating_sub(1);
        self.longest.remove(&(before, network));
        if client.waiting > 0 {
            self.longest.insert((client.waiting, network));
        }
    }

    /// Removes entries of requests that are no longer queued, if they outnumber the queued ones. `is_live`: whether a request of
    /// `network` is queued.
    pub(super) fn compact(&mut self, network: Network, is_live: impl Fn(&QueueTicket) -> bool) {
        if let Some(client) = self.queued.get_mut(&network)
            && client.tickets.len() > 2 * client.waiting
        {
            client.tickets.retain(is_live);
        }
        if self.turns.len() > 2 * self.longest.len() {
            self.queued.retain(|_, client| client.waiting > 0);
            let queued = &self.queued;
            self.turns.retain(|client| queued.contains_key(client));
        }
    }

    /// The first live request of the first client in turn for which `may_serve` is true; the client then moves to the end. `of`
    /// returns the value of a live request.
    pub(super) fn next<'w, T: 'w>(
        &mut self,
        of: impl Fn(QueueTicket, Network) -> Option<&'w T>,
        may_serve: &mut impl FnMut(Network, &T) -> bool,
    ) -> Option<QueueTicket> {
        let mut at = 0;
        while let Some(network) = self.turns.get(at).copied() {
            let Some(client) = self.queued.get_mut(&network) else {
                self.turns.remove(at);
                continue;
            };
            while let Some(dead) = client.tickets.front().copied()
                && of(dead, network).is_none()
            {
                client.tickets.pop_front();
            }
            let Some(first) = client.tickets.front().copied() else {
                self.queued.remove(&network);
                self.turns.remove(at);
                continue;
            };
            if of(first, network).is_none_or(|pending| !may_serve(network, pending)) {
                at += 1;
                continue;
            }
            client.tickets.pop_front();
            self.note_left(network);
            self.turns.remove(at);
            if self.waiting_of(network) > 0 {
                self.turns.push_back(network);
            } else {
                self.queued.remove(&network);
            }
            return Some(first);
        }
        None
    }

    /// The clients in `turns`, and the entries of all their requests.
    #[cfg(test)]
    pub(super) fn entries(&self) -> (usize, usize) {
        let tickets = self.queued.values().map(|client| client.tickets.len());
        (self.turns.len().max(self.queued.len()), tickets.sum())
    }
}
