//! The admission queue of an upstream: shares between classes, round robin between clients.
//!
//! Classes are served in proportion to their shares, by stride scheduling (Waldspurger and Weihl, 1995): each slot adds the
//! class's stride to its pass, a larger share has a shorter stride, and the class with the lowest pass is next. A class that was
//! empty starts at the current pass of the others, so it gains nothing from its absence. Within a class, proven clients get
//! [`FIRST_TURNS`] turns for each turn of the unproven ones, and among these plain ones as many for each turn of the doubtful ones:
//! they go first, and the others are never starved. Clients take turns (fair queueing, Nagle 1987, RFC 970), and the requests of
//! one client stay in order. The wait of a request therefore depends on the number of *other clients*, never on the number of
//! requests of one of them. Clients without proof in one /24 or /48 count as one, because a crawler rents addresses by the
//! network. A request that may not be served yet is skipped and keeps its turn.
//!
//! If the queue is full, a new request evicts the newest request of the client with the most queued requests, in the class that is
//! furthest above its share. If that is the client of the new request, the new request is rejected. So no client fills the queue
//! at the expense of others, and a client alone may use all of it. If no client has more requests than another, the first request
//! of a client evicts one of a client that has less [`Trust`].
//!
//! Pure: no clock, no runtime. Memory is proportional to the queued requests: each list has at most as many dead entries as live
//! ones.

use std::cmp::Ordering;
use std::collections::HashMap;

use galley_policy::class::{Class, Network, Standing, Trust};

use super::queued_clients::{Clients, QueueTicket};

/// The class and client under which a request is queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueIdentity {
    /// The class.
    pub class: Class,
    /// The order within the class.
    pub trust: Trust,
    /// The client; its /24 or /48 if it has proved nothing.
    pub client: Network,
}

impl QueueIdentity {
    /// The identity of a client's request.
    pub fn new(standing: Standing, client: Network) -> Self {
        let Standing { class, trust } = standing;
        Self {
            class,
            trust,
            client: match trust {
                Trust::Proven => client,
                Trust::Plain | Trust::Doubtful => client.widened(),
            },
        }
    }

    /// The class, and the order within it.
    pub(super) fn standing(self) -> Standing {
        let Self { class, trust, .. } = self;
        Standing { class, trust }
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
    /// By their trust, in its order.
    clients: [Clients; Trust::ALL.len()],
    /// For each trust but the last, how many of its clients had their turn since one of less trust had.
    streaks: [u32; Trust::ALL.len()],
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

    /// The number of queued requests of a standing.
    pub(super) fn len_of_standing(&self, standing: Standing) -> usize {
        let queue = self.class_queue(standing.class);
        let clients = queue.and_then(|queue| queue.of(standing.trust));
        clients.map_or(0, Clients::waiting)
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

    /// Whether the class of `identity` has a larger share, or, in the same class, its client has more trust than that of the
    /// request, or has fewer queued requests than there are before this one.
    fn is_sooner(&self, ticket: QueueTicket, identity: QueueIdentity) -> bool {
        let Some((held, _)) = self.waiting.get(&ticket) else {
            return false;
        };
        let (current_share, other_share) = (held.class.share(), identity.class.share());
        if *held == identity || current_share != other_share {
            return current_share < other_share;
        }
        if held.trust != identity.trust {
            return identity.trust < held.trust;
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

    /// The identity under which a request is queued.
    pub(super) fn identity_of(&self, ticket: QueueTicket) -> Option<QueueIdentity> {
        self.waiting.get(&ticket).map(|(identity, _)| *identity)
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
                let of_identity = waiting.get(&ticket).filter(|(held, _)| *held == identity);
                of_identity.map(|(_, pending)| pending)
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
            trust,
            client,
        } = identity;
        let clients = self.class_queue(class)?.clients(identity);
        self.victim_of(Standing { class, trust }, clients.waiting_of(client))
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
        let (queue, trust) = if let Some(queue) = fullest {
            (queue, queue.most_above(1).or(queue.least_trusted())?)
        } else {
            let queue = self.class_queue(standing.class)?;
            let weaker = || {
                let least = queue.least_trusted()?;
                (waiting == 0 && standing.trust < least).then_some(least)
            };
            (queue, queue.most_above(waiting + 1).or_else(weaker)?)
        };
        let (client, queued) = queue.of(trust)?.largest()?;
        let identity = QueueIdentity {
            class: queue.class,
            trust,
            client,
        };
        let newest = queued.tickets.iter().rev();
        newest.copied().find(|ticket| self.is_of(*ticket, identity))
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
            clients: Default::default(),
            streaks: Default::default(),
            pass: 0,
        }
    }

    fn waiting(&self) -> usize {
        self.clients.iter().map(Clients::waiting).sum()
    }

    fn of(&self, trust: Trust) -> Option<&Clients> {
        self.clients.get(trust as usize)
    }

    fn clients(&self, identity: QueueIdentity) -> &Clients {
        let [proven, plain, doubtful] = &self.clients;
        match identity.trust {
            Trust::Proven => proven,
            Trust::Plain => plain,
            Trust::Doubtful => doubtful,
        }
    }

    fn clients_mut(&mut self, identity: QueueIdentity) -> &mut Clients {
        let [proven, plain, doubtful] = &mut self.clients;
        match identity.trust {
            Trust::Proven => proven,
            Trust::Plain => plain,
            Trust::Doubtful => doubtful,
        }
    }

    /// The trust of the client with the most queued requests of the class, if these are more than `above`; the least of several.
    fn most_above(&self, above: usize) -> Option<Trust> {
        let by_trust = Trust::ALL.into_iter().zip(&self.clients);
        let (trust, clients) = by_trust.max_by_key(|(_, clients)| clients.most())?;
        (clients.most() > above).then_some(trust)
    }

    /// The least trust among the queued requests.
    fn least_trusted(&self) -> Option<Trust> {
        let mut by_trust = Trust::ALL.into_iter().zip(&self.clients).rev();
        by_trust
            .find(|(_, clients)| clients.waiting() > 0)
            .map(|(trust, _)| trust)
    }

    /// The first live request of the first client in turn for which `may_serve` is true; the client then moves to the end. `of`
    /// returns the value of a live request.
    fn next<'w, T: 'w>(
        &mut self,
        of: &impl Fn(QueueTicket, QueueIdentity) -> Option<&'w T>,
        may_serve: &mut impl FnMut(QueueIdentity, &T) -> bool,
    ) -> Option<QueueTicket> {
        let class = self.class;
        for trust in self.turns() {
            let identity = |client| QueueIdentity {
                class,
                trust,
                client,
            };
            let next = self.clients.get_mut(trust as usize)?.next(
                |ticket, client| of(ticket, identity(client)),
                &mut |client, pending| may_serve(identity(client), pending),
            );
            if next.is_some() {
                self.note_turn(trust);
                return next;
            }
        }
        None
    }

    /// In which order the trusts have their turn now.
    fn turns(&self) -> [Trust; 3] {
        use Trust::{Doubtful, Plain, Proven};
        let [first, second, _] = self.streaks.map(|streak| streak < FIRST_TURNS);
        let [next, last] = if second {
            [Plain, Doubtful]
        } else {
            [Doubtful, Plain]
        };
        if first {
            [Proven, next, last]
        } else {
            [next, last, Proven]
        }
    }

    fn note_turn(&mut self, trust: Trust) {
        for (one, streak) in Trust::ALL.into_iter().zip(&mut self.streaks) {
            match one.cmp(&trust) {
                Ordering::Less => *streak = 0,
                Ordering::Equal => *streak = (*streak + 1).min(FIRST_TURNS),
                Ordering::Greater => {}
            }
        }
    }
}

/// The turns of clients for one turn of those with less trust in the same class.
const FIRST_TURNS: u32 = 3;

/// The stride of a class with a share of one.
const STRIDE: u64 = 1 << 20;

#[cfg(test)]
mod tests;
