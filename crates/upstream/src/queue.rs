//! The admission queue of an upstream: shares between classes, round robin between clients.
//!
//! Classes are served in proportion to their shares, by stride scheduling (Waldspurger and Weihl, 1995): each slot adds the
//! class's stride to its pass, a larger share has a shorter stride, and the class with the lowest pass is next. A class that was
//! empty starts at the current pass of the others, so it gains nothing from its absence. Within a class, proven clients get
//! [`PROVEN_TURNS`] turns for each turn of the unproven ones: they go first, and the others are never starved. Clients take turns
//! (fair queueing, Nagle 1987, RFC 970), and the requests of one client stay in order. The wait of a request therefore depends
//! on the number of *other clients*, never on the number of requests of one of them. A request that may not be served yet is
//! skipped and keeps its turn.
//!
//! If the queue is full, a new request evicts the newest request of the client with the most queued requests, in the class that is
//! furthest above its share. If that is the client of the new request, the new request is rejected. So no client fills the queue
//! at the expense of others, and a client alone may use all of it. If no client has more requests than another, the first request
//! of a proven client evicts one of an unproven client.
//!
//! Pure: no clock, no runtime. Memory is proportional to the queued requests: each list has at most as many dead entries as live
//! ones.

use std::collections::HashMap;

use galley_policy::class::{Class, Network, Standing};

use super::queued_clients::{Clients, QueueTicket};

/// The class and client under which a request is queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueIdentity {
    /// The class.
    pub class: Class,
    /// Whether the client has proved what the class requires.
    pub is_proven: bool,
    /// The client.
    pub client: Network,
}

impl QueueIdentity {
    /// The identity of a client's request.
    pub fn new(standing: Standing, client: Network) -> Self {
        let Standing { class, is_proven } = standing;
        Self {
            class,
            is_proven,
            client,
        }
    }
}

/// The queued requests, each with a value of the caller.
#[derive(Debug)]
pub(super) struct AdmissionQueue<T> {
    waiting: HashMap<QueueTicket, (QueueIdentity, T)>,
    classes: Vec<ClassQueue>,
    most: usize,
    next: u64,
    /// The pass of the class that was served last, before it was served.
    pass: u64,
}

/// The queue of one class.
#[derive(Debug)]
struct ClassQueue {
    class: Class,
    proven: Clients,
    unproven: Clients,
    /// How many proven clients had their turn since an unproven one had.
    streak: u32,
    pass: u64,
}

/// The outcome of joining the queue.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum JoinResult<T> {
    /// The request is queued.
    Waits(QueueTicket),
    /// The request is queued, and the request of this value was evicted.
    Evicting(QueueTicket, T),
    /// The queue is full.
    Refused,
}

impl<T> AdmissionQueue<T> {
    /// A queue of at most `most` requests.
    pub(super) fn new(most: usize) -> Self {
        Self {
            waiting: HashMap::new(),
            classes: Class::ALL
                .iter()
                .map(|class| ClassQueue::new(*class))
                .collect(),
            most,
            next: 0,
            pass: 0,
        }
    }

    /// The number of queued requests.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// The number of queued requests of a class.
    pub(super) fn len_of(&self, class: Class) -> usize {
        self.class_queue(class).map_or(0, ClassQueue::waiting)
    }

    /// Adds a request.
    pub(super) fn join(&mut self, identity: QueueIdentity, pending: T) -> JoinResult<T> {
        let mut evicted = None;
        if self.waiting.len() >= self.most {
            let Some(victim) = self.victim(identity) else {
                return JoinResult::Refused;
            };
            evicted = self.leave(victim);
        }
        let ticket = QueueTicket(self.next);
        self.next += 1;
        self.waiting.insert(ticket, (identity, pending));
        self.push_to_class(identity, ticket);
        match evicted {
            Some((_, pending)) => JoinResult::Evicting(ticket, pending),
            None => JoinResult::Waits(ticket),
        }
    }

    /// Whether one more request of `identity` would be rejected.
    pub(super) fn is_full_for(&self, identity: QueueIdentity) -> bool {
        self.waiting.len() >= self.most && self.victim(identity).is_none()
    }

    /// Whether one more request of a class would be rejected, even from a client without queued requests.
    pub(super) fn is_full_for_class(&self, standing: Standing) -> bool {
        self.waiting.len() >= self.most && self.victim_of(standing, 0).is_none()
    }

    /// Removes a request; `None` if it is no longer queued.
    pub(super) fn leave(&mut self, ticket: QueueTicket) -> Option<(QueueIdentity, T)> {
        let (identity, pending) = self.waiting.remove(&ticket)?;
        if let Some(queue) = self.class_queue_mut(identity.class) {
            queue.clients_mut(identity).note_left(identity.client);
        }
        self.compact(identity);
        Some((identity, pending))
    }

    /// Moves a request to the end of another client's queue, if it is served sooner there. Returns whether it was moved.
    pub(super) fn promote(&mut self, ticket: QueueTicket, identity: QueueIdentity) -> bool {
        if !self.is_sooner(ticket, identity) {
            return false;
        }
        let Some((_, pending)) = self.leave(ticket) else {
            return false;
        };
        self.waiting.insert(ticket, (identity, pending));
        self.push_to_class(identity, ticket);
        true
    }

    /// Whether the class of `identity` has a larger share, or, in the same class, its client is proven and that of the request is
    /// not, or has fewer queued requests than there are before this one.
    fn is_sooner(&self, ticket: QueueTicket, identity: QueueIdentity) -> bool {
        let Some((held, _)) = self.waiting.get(&ticket) else {
            return false;
        };
        let (current_share, other_share) = (held.class.share(), identity.class.share());
        if *held == identity || current_share != other_share {
            return current_share < other_share;
        }
        if held.is_proven != identity.is_proven {
            return identity.is_proven;
        }
        let of = |identity: &QueueIdentity| {
            self.class_queue(identity.class)?
                .clients(*identity)
                .get(identity.client)
        };
        let others = of(&identity).map_or(0, |client| client.waiting);
        let ahead = of(held)
            .into_iter()
            .flat_map(|client| client.tickets.iter());
        let mut before = ahead
            .filter(|one| self.is_of(**one, *held))
            .take(others + 1);
        before.all(|one| *one != ticket)
    }

    /// The class under which a request is queued.
    pub(super) fn class_of(&self, ticket: QueueTicket) -> Option<Class> {
        self.waiting
            .get(&ticket)
            .map(|(identity, _)| identity.class)
    }

    /// Removes and returns the next request for which `may_serve` is true; the requests before it keep their turn.
    pub(super) fn pop(
        &mut self,
        mut may_serve: impl FnMut(QueueIdentity, &T) -> bool,
    ) -> Option<(QueueTicket, QueueIdentity, T)> {
        let mut tried = Vec::new();
        while let Some(queue) = self
            .classes
            .iter_mut()
            .filter(|queue| queue.waiting() > 0 && !tried.contains(&queue.class))
            .min_by_key(|queue| queue.pass)
        {
            let waiting = &self.waiting;
            let of = |ticket: QueueTicket, identity: QueueIdentity| {
                let found = waiting.get(&ticket).filter(|(held, _)| *held == identity);
                found.map(|(_, pending)| pending)
            };
            let Some(ticket) = queue.next(&of, &mut may_serve) else {
                tried.push(queue.class);
                continue;
            };
            // A class that was held back at its bound lags. Its pass must not pull the others back: a class that begins to wait then
            // would get every slot until it has caught up.
            self.pass = self.pass.max(queue.pass);
            queue.pass += STRIDE / queue.class.share();
            let (identity, pending) = self.waiting.remove(&ticket)?;
            return Some((ticket, identity, pending));
        }
        None
    }

    fn push_to_class(&mut self, identity: QueueIdentity, ticket: QueueTicket) {
        let pass = self.pass;
        let Some(queue) = self.class_queue_mut(identity.class) else {
            return;
        };
        if queue.waiting() == 0 {
            queue.pass = queue.pass.max(pass);
        }
        queue
            .clients_mut(identity)
            .note_joined(identity.client, ticket);
    }

    /// The request to evict for one more request of `identity`.
    fn victim(&self, identity: QueueIdentity) -> Option<QueueTicket> {
        let QueueIdentity {
            class,
            is_proven,
            client,
        } = identity;
        let clients = self.class_queue(class)?.clients(identity);
        self.victim_of(Standing { class, is_proven }, clients.waiting_of(client))
    }

    /// The request to evict for one more request of a client of this standing with `waiting` queued requests: the newest of the
    /// client with the most requests, in the class that is furthest above its share, if that class is further above its share
    /// than this class would be. Otherwise one in the same class, see the module. `None`: the new request is rejected.
    fn victim_of(&self, standing: Standing, waiting: usize) -> Option<QueueTicket> {
        // The queued requests of a class in relation to its share. Both factors are small.
        let load = |class: Class, waiting: usize| waiting as u64 * (STRIDE / class.share());
        let own_load = load(standing.class, self.len_of(standing.class) + 1);
        let fullest = self
            .classes
            .iter()
            .max_by_key(|queue| load(queue.class, queue.waiting()))
            .filter(|queue| load(queue.class, queue.waiting()) > own_load);
        let (queue, clients) = if let Some(queue) = fullest {
            let most = queue.clients_above(1).or(queue.unproven_clients());
            (queue, most.unwrap_or(&queue.proven))
        } else {
            let queue = self.class_queue(standing.class)?;
            let weaker = || {
                let goes_first = standing.is_proven && waiting == 0;
                queue.unproven_clients().filter(|_| goes_first)
            };
            (queue, queue.clients_above(waiting + 1).or_else(weaker)?)
        };
        let (client, queued) = clients.largest()?;
        let held = QueueIdentity {
            class: queue.class,
            is_proven: std::ptr::eq(clients, &raw const queue.proven),
            client,
        };
        let newest = queued.tickets.iter().rev();
        newest.copied().find(|ticket| self.is_of(*ticket, held))
    }

    fn is_of(&self, ticket: QueueTicket, identity: QueueIdentity) -> bool {
        self.waiting
            .get(&ticket)
            .is_some_and(|(held, _)| *held == identity)
    }

    /// Removes entries of requests that are no longer queued, if they outnumber the queued ones.
    fn compact(&mut self, identity: QueueIdentity) {
        let waiting = &self.waiting;
        let Some(queue) = self
            .classes
            .iter_mut()
            .find(|queue| queue.class == identity.class)
        else {
            return;
        };
        let is_of = |ticket: &QueueTicket| {
            waiting
                .get(ticket)
                .is_some_and(|(held, _)| *held == identity)
        };
        queue.clients_mut(identity).compact(identity.client, is_of);
    }

    fn class_queue_mut(&mut self, class: Class) -> Option<&mut ClassQueue> {
        self.classes.iter_mut().find(|queue| queue.class == class)
    }

    fn class_queue(&self, class: Class) -> Option<&ClassQueue> {
        self.classes.iter().find(|queue| queue.class == class)
    }
}

impl ClassQueue {
    fn new(class: Class) -> Self {
        Self {
            class,
            proven: Clients::default(),
            unproven: Clients::default(),
            streak: 0,
            pass: 0,
        }
    }

    fn waiting(&self) -> usize {
        self.proven.waiting() + self.unproven.waiting()
    }

    fn clients(&self, identity: QueueIdentity) -> &Clients {
        if identity.is_proven {
            &self.proven
        } else {
            &self.unproven
        }
    }

    fn clients_mut(&mut self, identity: QueueIdentity) -> &mut Clients {
        if identity.is_proven {
            &mut self.proven
        } else {
            &mut self.unproven
        }
    }

    /// The clients among which one has the most queued requests of the class, if these are more than `above`.
    fn clients_above(&self, above: usize) -> Option<&Clients> {
        let most = if self.proven.most() > self.unproven.most() {
            &self.proven
        } else {
            &self.unproven
        };
        (most.most() > above).then_some(most)
    }

    fn unproven_clients(&self) -> Option<&Clients> {
        (self.unproven.waiting() > 0).then_some(&self.unproven)
    }

    /// The first live request of the first client in turn for which `may_serve` is true; the client then moves to the end. `of`
    /// returns the value of a live request.
    fn next<'w, T: 'w>(
        &mut self,
        of: &impl Fn(QueueTicket, QueueIdentity) -> Option<&'w T>,
        may_serve: &mut impl FnMut(QueueIdentity, &T) -> bool,
    ) -> Option<QueueTicket> {
        let proven_first = self.streak < PROVEN_TURNS;
        for is_proven in [proven_first, !proven_first] {
            let class = self.class;
            let clients = if is_proven {
                &mut self.proven
            } else {
                &mut self.unproven
            };
            let identity = |client| QueueIdentity {
                class,
                is_proven,
                client,
            };
            let found = clients.next(
                |ticket, client| of(ticket, identity(client)),
                &mut |client, pending| may_serve(identity(client), pending),
            );
            if found.is_some() {
                self.streak = if is_proven { self.streak + 1 } else { 0 };
                self.streak = self.streak.min(PROVEN_TURNS);
                return found;
            }
        }
        None
    }
}

/// The turns of proven clients for one turn of an unproven client of the same class.
const PROVEN_TURNS: u32 = 3;

/// The stride of a class with a share of one.
const STRIDE: u64 = 1 << 20;

#[cfg(test)]
mod tests;
