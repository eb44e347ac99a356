//! Who is next for a place at the upstream: shares between classes, turns between clients.
//!
//! Classes that wait are served in proportion to their shares, by stride scheduling (Waldspurger and Weihl, 1995): a class
//! pays for each place with a stride that is the shorter the larger its share, and who has paid least is next. A class that
//! comes anew begins at what the others have paid by now, so nothing is saved up while away. Within a class the clients take
//! turns (fair queueing, Nagle 1987, RFC 970), and a client's own requests stay in their order. So what a request waits for is
//! how many *others* there are, never how much one of them has asked for. Whoever may not be served at the moment is passed
//! over and loses nothing by it.
//!
//! In a full queue a newcomer takes the place of the newest request of the client that has most waiting, in the class that is
//! furthest above its share; where that is the newcomer's own, the newcomer is refused. Nobody thus fills the queue against
//! others, and without others a client may have all of it.
//!
//! Pure: no clock, no runtime. Memory follows the requests that wait: lists carry at most as many dead entries as living.

use std::collections::{BTreeSet, HashMap, VecDeque};

use galley_policy::class::{Class, Network};

/// In whose name a request waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueIdentity {
    /// Its class.
    pub class: Class,
    /// Its client.
    pub client: Network,
}

/// A request in the queue. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct QueueTicket(u64);

/// Requests that wait, with what each is woken by.
#[derive(Debug)]
pub(super) struct AdmissionQueue<T> {
    waiting: HashMap<QueueTicket, (QueueIdentity, T)>,
    lines: Vec<ClassQueue>,
    most: usize,
    next: u64,
    /// What the class that was served last had paid before.
    paid: u64,
}

/// One class.
#[derive(Debug)]
struct ClassQueue {
    class: Class,
    clients: HashMap<Network, QueuedClient>,
    /// Whose turn it is. Each client in `clients` stands here once.
    turns: VecDeque<Network>,
    /// Clients by how many of their requests wait, those without left out.
    longest: BTreeSet<(usize, Network)>,
    waiting: usize,
    paid: u64,
}

#[derive(Debug, Default)]
struct QueuedClient {
    /// In the order of asking; those that have left meanwhile are still here.
    tickets: VecDeque<QueueTicket>,
    waiting: usize,
}

/// What became of a request that came.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Joined<T> {
    /// It waits.
    Waits(QueueTicket),
    /// It waits, and this one had to leave for it.
    InPlaceOf(QueueTicket, T),
    /// There is no room for it.
    Refused,
}

impl<T> AdmissionQueue<T> {
    /// A queue of at most `most` requests.
    pub(super) fn new(most: usize) -> Self {
        Self {
            waiting: HashMap::new(),
            lines: Class::ALL
                .iter()
                .map(|class| ClassQueue::new(*class))
                .collect(),
            most,
            next: 0,
            paid: 0,
        }
    }

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// How many of a class wait.
    pub(super) fn len_of(&self, class: Class) -> usize {
        self.line_ref(class).map_or(0, |line| line.waiting)
    }

    /// Lets a request wait.
    pub(super) fn join(&mut self, who: QueueIdentity, waker: T) -> Joined<T> {
        let mut evicted = None;
        if self.waiting.len() >= self.most {
            let Some(victim) = self.victim(who) else {
                return Joined::Refused;
            };
            evicted = self.leave(victim);
        }
        let ticket = QueueTicket(self.next);
        self.next += 1;
        self.waiting.insert(ticket, (who, waker));
        self.enter_line(who, ticket);
        match evicted {
            Some((_, waker)) => Joined::InPlaceOf(ticket, waker),
            None => Joined::Waits(ticket),
        }
    }

    /// Whether one more request of `who` would be refused.
    pub(super) fn is_shut_for(&self, who: QueueIdentity) -> bool {
        self.waiting.len() >= self.most && self.victim(who).is_none()
    }

    /// Whether one more request of a class would be refused whoever sends it: of one who has nothing in the queue, even.
    pub(super) fn is_shut_for_all(&self, class: Class) -> bool {
        self.waiting.len() >= self.most && self.victim_of(class, 0).is_none()
    }

    /// Takes a request out; `None` where it is not in here any more.
    pub(super) fn leave(&mut self, ticket: QueueTicket) -> Option<(QueueIdentity, T)> {
        let (who, waker) = self.waiting.remove(&ticket)?;
        if let Some(line) = self.line(who.class) {
            line.left(who.client);
        }
        self.tidy(who);
        Some((who, waker))
    }

    /// Moves a request to the end of another client's line, if it is served sooner there: somebody else waits for the same
    /// page. True where it has moved.
    pub(super) fn promote(&mut self, ticket: QueueTicket, who: QueueIdentity) -> bool {
        if !self.is_sooner(ticket, who) {
            return false;
        }
        let Some((_, waker)) = self.leave(ticket) else {
            return false;
        };
        self.waiting.insert(ticket, (who, waker));
        self.enter_line(who, ticket);
        true
    }

    /// Whether a class with a larger share has it, or a client of as good a class with fewer requests than stand before it.
    fn is_sooner(&self, ticket: QueueTicket, who: QueueIdentity) -> bool {
        let Some((held, _)) = self.waiting.get(&ticket) else {
            return false;
        };
        let (ours, theirs) = (held.class.share(), who.class.share());
        if *held == who || ours != theirs {
            return ours < theirs;
        }
        let of = |who: &QueueIdentity| self.line_ref(who.class)?.clients.get(&who.client);
        let others = of(&who).map_or(0, |client| client.waiting);
        let stands = of(held)
            .into_iter()
            .flat_map(|client| client.tickets.iter());
        let mut before = stands
            .filter(|one| self.is_of(**one, *held))
            .take(others + 1);
        before.all(|one| *one != ticket)
    }

    /// The class under which a request waits.
    pub(super) fn class_of(&self, ticket: QueueTicket) -> Option<Class> {
        self.waiting.get(&ticket).map(|(who, _)| who.class)
    }

    /// The next to be served of those who `may` be; who may not keeps its turn.
    pub(super) fn pop(
        &mut self,
        mut may: impl FnMut(QueueIdentity, &T) -> bool,
    ) -> Option<(QueueTicket, QueueIdentity, T)> {
        let mut tried = Vec::new();
        while let Some(line) = self
            .lines
            .iter_mut()
            .filter(|line| line.waiting > 0 && !tried.contains(&line.class))
            .min_by_key(|line| line.paid)
        {
            let waiting = &self.waiting;
            let of = |ticket: QueueTicket, who: QueueIdentity| {
                let found = waiting.get(&ticket).filter(|(held, _)| *held == who);
                found.map(|(_, waker)| waker)
            };
            let Some(ticket) = line.next(of, &mut may) else {
                tried.push(line.class);
                continue;
            };
            self.paid = line.paid;
            line.paid += STRIDE / line.class.share();
            let (who, waker) = self.waiting.remove(&ticket)?;
            return Some((ticket, who, waker));
        }
        None
    }

    fn enter_line(&mut self, who: QueueIdentity, ticket: QueueTicket) {
        let paid = self.paid;
        let Some(line) = self.line(who.class) else {
            return;
        };
        if line.waiting == 0 {
            line.paid = line.paid.max(paid);
        }
        line.joined(who.client, ticket);
    }

    /// Who has to leave so that `who` may come.
    fn victim(&self, who: QueueIdentity) -> Option<QueueTicket> {
        let line = self.line_ref(who.class)?;
        self.victim_of(who.class, line.waiting_of(who.client))
    }

    /// Who has to leave for one more of a client of `class` with `waiting` requests: the newest of the client with most, in the
    /// class that is furthest above its share if that is further than this one with it. `None` where nobody has more than it
    /// would have.
    fn victim_of(&self, class: Class, waiting: usize) -> Option<QueueTicket> {
        // How much of its share a class has taken. Both factors are small.
        let load = |class: Class, waiting: usize| waiting as u64 * (STRIDE / class.share());
        let own = load(class, self.len_of(class) + 1);
        let fullest = self
            .lines
            .iter()
            .max_by_key(|line| load(line.class, line.waiting))
            .filter(|line| load(line.class, line.waiting) > own);
        let line = match fullest {
            Some(line) => line,
            None => self
                .line_ref(class)
                .filter(|line| line.most() > waiting + 1)?,
        };
        let (_, client) = line.longest.last()?;
        let held = QueueIdentity {
            class: line.class,
            client: *client,
        };
        let newest = line.clients.get(client)?.tickets.iter().rev();
        newest.copied().find(|ticket| self.is_of(*ticket, held))
    }

    fn is_of(&self, ticket: QueueTicket, who: QueueIdentity) -> bool {
        self.waiting
            .get(&ticket)
            .is_some_and(|(held, _)| *held == who)
    }

    /// Forgets those that have left, when they are more than those that wait.
    fn tidy(&mut self, who: QueueIdentity) {
        let waiting = &self.waiting;
        let Some(line) = self.lines.iter_mut().find(|line| line.class == who.class) else {
            return;
        };
        if let Some(client) = line.clients.get_mut(&who.client)
            && client.tickets.len() > 2 * client.waiting
        {
            let is_of =
                |ticket: &QueueTicket| waiting.get(ticket).is_some_and(|(held, _)| *held == who);
            client.tickets.retain(is_of);
        }
        if line.turns.len() > 2 * line.longest.len() {
            line.clients.retain(|_, client| client.waiting > 0);
            let clients = &line.clients;
            line.turns.retain(|client| clients.contains_key(client));
        }
    }

    fn line(&mut self, class: Class) -> Option<&mut ClassQueue> {
        self.lines.iter_mut().find(|line| line.class == class)
    }

    fn line_ref(&self, class: Class) -> Option<&ClassQueue> {
        self.lines.iter().find(|line| line.class == class)
    }
}

impl ClassQueue {
    fn new(class: Class) -> Self {
        Self {
            class,
            clients: HashMap::new(),
            turns: VecDeque::new(),
            longest: BTreeSet::new(),
            waiting: 0,
            paid: 0,
        }
    }

    /// What the client with most requests has waiting.
    fn most(&self) -> usize {
        self.longest.last().map_or(0, |(most, _)| *most)
    }

    fn waiting_of(&self, network: Network) -> usize {
        self.clients
            .get(&network)
            .map_or(0, |client| client.waiting)
    }

    fn joined(&mut self, network: Network, ticket: QueueTicket) {
        let turns = &mut self.turns;
        let client = self.clients.entry(network).or_insert_with(|| {
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

    fn left(&mut self, network: Network) {
        let Some(client) = self.clients.get_mut(&network) else {
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

    /// The first living request of the first client whose turn it is and who `may` be served; it then stands at the end.
    /// `of`: what a living request of a client waits with.
    fn next<'w, T: 'w>(
        &mut self,
        of: impl Fn(QueueTicket, QueueIdentity) -> Option<&'w T>,
        may: &mut impl FnMut(QueueIdentity, &T) -> bool,
    ) -> Option<QueueTicket> {
        let mut at = 0;
        while let Some(network) = self.turns.get(at).copied() {
            let who = QueueIdentity {
                class: self.class,
                client: network,
            };
            let Some(client) = self.clients.get_mut(&network) else {
                self.turns.remove(at);
                continue;
            };
            while let Some(dead) = client.tickets.front().copied()
                && of(dead, who).is_none()
            {
                client.tickets.pop_front();
            }
            let Some(first) = client.tickets.front().copied() else {
                self.clients.remove(&network);
                self.turns.remove(at);
                continue;
            };
            if of(first, who).is_none_or(|waker| !may(who, waker)) {
                at += 1;
                continue;
            }
            client.tickets.pop_front();
            self.left(network);
            self.turns.remove(at);
            if self.waiting_of(network) > 0 {
                self.turns.push_back(network);
            } else {
                self.clients.remove(&network);
            }
            return Some(first);
        }
        None
    }
}

/// What a place costs a class with a share of one.
const STRIDE: u64 = 1 << 20;

#[cfg(test)]
mod tests;
