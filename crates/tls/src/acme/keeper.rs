//! Maintains one certificate: loads it from disk, orders it, renews it, and keeps using the current one while that fails.
//!
//! The time of a renewal is determined by the wall clock, like the validity of certificates; pauses after failures use the
//! monotonic clock, so that a clock that jumps cannot cause endless orders. No sleep is longer than ten minutes, so that a
//! machine that was suspended, or whose clock was set, reacts soon.
//!
//! In a cluster one node orders for all (`sharing`): a keeper uses the certificate of another node, and orders only when
//! it is this node's turn.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use galley_cluster::{EngineUnavailable, SecretLock};
use instant_acme::Error;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use super::Acme;
use super::account::{AccountOpener, OpenedAccount};
use super::certificate::IssuedCertificate;
use super::order::OrderRequest;
use super::problem::OrderError;
use super::schedule::{self, RenewalFailure, RenewalWindow};
use super::sharing::Sharing;
use super::state::{CertificateStatus, StatusFields};
use super::store::{self, Store};
use crate::Certificates;
use galley_sys::clock::Clock;

/// The parts that a keeper needs.
pub(super) struct KeeperParts {
    pub(super) acme: Arc<Acme>,
    pub(super) certificate: Arc<CertificateStatus>,
    pub(super) opener: Arc<AccountOpener>,
    pub(super) store: Arc<Store>,
    pub(super) handshakes: Arc<Certificates>,
    /// Limits the number of concurrent orders.
    pub(super) turns: Arc<Semaphore>,
    pub(super) clock: Clock,
    /// The secrets shared with other nodes; `None`: this node orders for itself.
    pub(super) sharing: Option<Arc<Sharing>>,
}

/// Whether this node may order.
enum OrderPermission {
    /// This node orders for all nodes.
    Shared(SecretLock),
    /// This node orders for itself: there are no other nodes, or the engine has been unavailable for long.
    Alone,
    /// This node waits: another node orders, or the engine may become available again.
    Wait,
}

/// Maintains one certificate.
pub(super) struct CertificateKeeper {
    parts: KeeperParts,
    /// The certificate in use.
    held: Option<IssuedCertificate>,
    /// The directory's renewal window, and the time of the next query for it.
    window: Option<RenewalWindow>,
    query_at: Instant,
    /// The earliest time of the next order: after a pause following a failure or a success.
    not_before: Instant,
    failures_in_a_row: u32,
    /// Whether the certificate in use must still be written to disk.
    is_unwritten: bool,
    /// While the engine of the cluster is unavailable: the time at which this node orders without it.
    alone_at: Option<Instant>,
}

impl CertificateKeeper {
    /// Loads the stored certificate, and installs it for handshakes.
    pub(super) fn open(parts: KeeperParts) -> Self {
        let now = Instant::now();
        let held = stored(&parts);
        let StatusFields {
            failures_in_a_row,
            next,
            ..
        } = parts.certificate.state();
        // A previous keeper of the same certificate may have failed recently.
        let pause = next
            .filter(|_| failures_in_a_row > 0)
            .and_then(|next| next.duration_since(parts.clock.wall()).ok());
        let keeper = Self {
            parts,
            held,
            window: None,
            query_at: now,
            not_before: now + pause.unwrap_or_default(),
            failures_in_a_row,
            is_unwritten: false,
            alone_at: None,
        };
        keeper.hand_over();
        keeper
    }

    /// Runs until the future is dropped.
    pub(super) async fn run(mut self) {
        loop {
            self.synchronize().await;
            self.write_again().await;
            self.query_window().await;
            let now = self.parts.clock.wall();
            let wait = self.wait(now);
            let next = now.checked_add(wait);
            self.parts.certificate.note(|state| state.next = next);
            if wait.is_zero() {
                self.attempt().await;
            } else {
                let longest = match self.parts.sharing {
                    Some(_) => SYNCHRONIZE_EVERY,
                    None => MAX_SLEEP,
                };
                tokio::time::sleep(wait.min(longest)).await;
            }
        }
    }

    /// The time until the next order.
    fn wait(&self, now: SystemTime) -> Duration {
        let pause = self.not_before.saturating_duration_since(Instant::now());
        let usable = self.held.as_ref().filter(|held| self.is_complete(held));
        let due = usable.map_or(now, |held| {
            schedule::renewal(held.validity, self.window, held.random)
        });
        due.duration_since(now).unwrap_or_default().max(pause)
    }

    /// Whether the certificate covers all wanted names.
    fn is_complete(&self, held: &IssuedCertificate) -> bool {
        let wanted = &self.parts.certificate.wanted.names;
        held.covered(wanted).len() == wanted.len()
    }

    async fn attempt(&mut self) {
        let turns = Arc::clone(&self.parts.turns);
        let Ok(_turn) = turns.acquire().await else {
            return std::future::pending().await;
        };
        match self.take_turn().await {
            OrderPermission::Alone => {
                if let Err(trouble) = Box::pin(self.get()).await {
                    self.failed(&trouble, None);
                }
            }
            OrderPermission::Wait => self.not_before = Instant::now() + RETRY_INTERVAL,
            OrderPermission::Shared(turn) => self.get_for_all(turn).await,
        }
    }

    /// Orders for all nodes, unless another one has just done so.
    async fn get_for_all(&mut self, turn: SecretLock) {
        self.synchronize().await;
        if !self.wait(self.parts.clock.wall()).is_zero() {
            return turn.release().await;
        }
        match turn.during(Box::pin(self.get())).await {
            Ok(()) => {
                self.synchronize().await;
                turn.succeeded().await;
            }
            Err(trouble) => {
                let of_all = turn.count_failure().await;
                let pause = self.failed(&trouble, of_all);
                turn.keep_for(pause).await;
                // Gives other nodes the chance to try first.
                self.not_before += RETRY_INTERVAL * 3;
            }
        }
    }

    async fn take_turn(&mut self) -> OrderPermission {
        let Some(sharing) = &self.parts.sharing else {
            return OrderPermission::Alone;
        };
        let taken = sharing.take_turn(self.first_name()).await;
        let alone_at = match taken {
            Ok(turn) => {
                self.alone_at = None;
                return turn.map_or(OrderPermission::Wait, OrderPermission::Shared);
            }
            Err(EngineUnavailable) => self.alone_at.unwrap_or_else(|| self.order_alone_at()),
        };
        self.alone_at = Some(alone_at);
        if Instant::now() < alone_at {
            OrderPermission::Wait
        } else {
            OrderPermission::Alone
        }
    }

    /// The time at which this node no longer waits for the unavailable engine.
    fn order_alone_at(&self) -> Instant {
        let now = self.parts.clock.wall();
        let usable = self.held.as_ref().filter(|held| self.is_complete(held));
        let left = usable.and_then(|held| held.validity.to.duration_since(now).ok());
        let random = u64::from_ne_bytes(galley_sys::random_bytes());
        let engine_wait = schedule::engine_wait(
            left.unwrap_or_default(),
            self.parts.opener.settings.retry,
            random,
        );
        tracing::warn!(
            site = self.parts.certificate.wanted.site,
            "{EngineUnavailable}: this node orders a certificate of its own in {} s unless it does",
            engine_wait.as_secs()
        );
        Instant::now() + engine_wait
    }

    /// Uses the certificate of another node if it is newer, and shares this one if it is newer than theirs.
    async fn synchronize(&mut self) {
        let Some(sharing) = self.parts.sharing.clone() else {
            return;
        };
        let Ok(found) = sharing.certificate(self.first_name()).await else {
            return;
        };
        let (theirs, ours) = (self.rank(found.as_ref()), self.rank(self.held.as_ref()));
        if theirs > ours
            && let Some(found) = found
        {
            self.take(found);
        } else if ours > theirs
            && let Some(held) = &self.held
        {
            sharing.store_certificate(self.first_name(), held).await;
        }
    }

    /// The rank of a certificate: the one with the highest rank is used. `None` if it is not usable.
    fn rank(&self, one: Option<&IssuedCertificate>) -> Option<(SystemTime, SystemTime, u64)> {
        let one = one.filter(|one| self.is_complete(one))?;
        let is_valid = one.validity.to > self.parts.clock.wall();
        is_valid.then_some((one.validity.from, one.validity.to, one.random))
    }

    /// Uses a certificate that another node has received.
    fn take(&mut self, found: IssuedCertificate) {
        let wanted = &self.parts.certificate.wanted;
        tracing::info!(
            site = wanted.site,
            "another node got a certificate for {}, which is in use from now on",
            wanted.names.join(", ")
        );
        self.put_into_use(found);
    }

    async fn get(&mut self) -> Result<(), OrderError> {
        self.parts
            .certificate
            .note(|state| state.is_ordering = true);
        let ordered = tokio::time::timeout(MAX_ORDER, self.order()).await;
        let ordered = ordered.unwrap_or_else(|_| Err(OrderError::new("the order took too long")));
        self.parts
            .certificate
            .note(|state| state.is_ordering = false);
        self.accept(&ordered?)?;
        self.write_again().await;
        Ok(())
    }

    async fn order(&self) -> Result<String, OrderError> {
        let opener = &self.parts.opener;
        let opened = opener.open().await?;
        let ordered = self.order_as(&opened).await;
        match ordered {
            // The directory has lost the account, or was set up again.
            Err(trouble) if trouble.kind == "accountDoesNotExist" => {
                opener.forget(opened.account.id()).await;
                let opened = opener.open().await?;
                self.order_as(&opened).await
            }
            ordered => ordered,
        }
    }

    async fn order_as(&self, opened: &OpenedAccount) -> Result<String, OrderError> {
        let settings = &self.parts.opener.settings;
        // After a failure the next challenge type is tried: a port may be closed.
        let mut ways = settings.challenges.clone();
        let turn = usize::try_from(self.failures_in_a_row).unwrap_or(0) % ways.len().max(1);
        ways.rotate_left(turn);
        // The directory may not know the previous certificate, or it was replaced already. After a failure the order omits it.
        let known = self.held.as_ref().filter(|_| self.window.is_some());
        let replaces = known.filter(|_| self.failures_in_a_row == 0);
        let request = OrderRequest {
            names: &self.parts.certificate.wanted.names,
            replaces: replaces.and_then(|held| held.id.clone()),
            profile: settings.profile.as_deref(),
            ways: &ways,
            dns: settings.dns.as_ref(),
            acme: &self.parts.acme,
            handshakes: &self.parts.handshakes,
            sharing: self.parts.sharing.as_deref(),
        };
        let ordered = request.run(opened).await;
        ordered.map_err(|trouble| opened.trouble(trouble))
    }

    /// Installs the issued certificate after checking that it covers the ordered names.
    fn accept(&mut self, pem: &str) -> Result<(), OrderError> {
        let held = IssuedCertificate::read(pem)?;
        if !self.is_complete(&held) {
            return Err(OrderError::new(
                "the directory issued a certificate for other names",
            ));
        }
        let days = held.validity.to.duration_since(self.parts.clock.wall());
        let days = days.unwrap_or_default().as_secs() / 86_400;
        self.put_into_use(held);
        self.parts.certificate.note(|state| state.issued += 1);
        let wanted = &self.parts.certificate.wanted;
        let names = wanted.names.join(", ");
        tracing::info!(
            site = wanted.site,
            "a certificate was issued for {names}, valid for {days} days"
        );
        Ok(())
    }

    /// Replaces the certificate in use.
    fn put_into_use(&mut self, held: IssuedCertificate) {
        let now = Instant::now();
        self.not_before = now + schedule::rest(held.validity);
        self.query_at = now;
        self.window = None;
        self.failures_in_a_row = 0;
        self.alone_at = None;
        self.held = Some(held);
        self.is_unwritten = true;
        self.hand_over();
        self.parts.certificate.note(|state| {
            state.trouble = None;
            state.failures_in_a_row = 0;
        });
    }

    /// Records a failure, and returns the pause before the next order. `of_all`: consecutive failures of all nodes.
    fn failed(&mut self, trouble: &OrderError, of_all: Option<u32>) -> Duration {
        self.failures_in_a_row = self.failures_in_a_row.saturating_add(1);
        let failure = RenewalFailure {
            in_a_row: self.failures_in_a_row.max(of_all.unwrap_or(0)),
            retry_after: trouble.retry_after,
            is_rate_limit: trouble.is_rate_limit(),
        };
        let random = u64::from_ne_bytes(galley_sys::random_bytes());
        let pause = schedule::pause(failure, self.parts.opener.settings.retry, random);
        self.not_before = Instant::now() + pause;
        self.parts.certificate.note(|state| {
            state.failures += 1;
            state.failures_in_a_row = self.failures_in_a_row;
            state.trouble = Some(trouble.words.clone());
        });
        let (site, seconds) = (&self.parts.certificate.wanted.site, pause.as_secs());
        let now = match self.held {
            Some(_) => "the old certificate remains in use",
            None => "the site is not served over TLS until then",
        };
        tracing::warn!(
            site,
            "no certificate was issued: {trouble}; next attempt in {seconds} s; {now}"
        );
        pause
    }

    /// Installs the certificate in use for handshakes, for the wanted names that it covers.
    fn hand_over(&self) {
        let Some(held) = &self.held else { return };
        let names = held.covered(&self.parts.certificate.wanted.names);
        let put = self.parts.handshakes.put(&names, Arc::clone(&held.key));
        if let Err(trouble) = put {
            tracing::error!("cannot load a certificate, {trouble}");
        }
        let not_after = held.validity.to;
        self.parts
            .certificate
            .note(|state| state.not_after = Some(not_after));
    }

    /// Queries the renewal window of the certificate, as often as the directory permits (RFC 9773 section 4.3).
    async fn query_window(&mut self) {
        let Some(held) = self.held.as_ref() else {
            return;
        };
        let (now, Some(id)) = (Instant::now(), held.id.clone()) else {
            return;
        };
        let is_expired = held.validity.to <= self.parts.clock.wall();
        if now < self.query_at || is_expired {
            return;
        }
        let Some(Ok(opened)) = self.parts.opener.open_existing().await else {
            self.query_at = now + schedule::DEFAULT_QUERY_INTERVAL;
            return;
        };
        let pause = match opened.account.renewal_info(&id).await {
            Ok((info, pause)) => {
                self.window = Some(RenewalWindow {
                    start: info.suggested_window.start.into(),
                    end: info.suggested_window.end.into(),
                });
                schedule::query_interval(pause)
            }
            // Renewal information may only be unavailable for now; a window received earlier is kept.
            Err(Error::Unsupported(_)) => schedule::DEFAULT_QUERY_INTERVAL,
            Err(error) => {
                let trouble = OrderError::from(error);
                tracing::debug!("the directory does not say when to renew: {trouble}");
                schedule::DEFAULT_QUERY_INTERVAL
            }
        };
        self.query_at = now + pause;
    }

    /// Writes the issued certificate. If that fails, the certificate is used nevertheless, and writing is repeated.
    async fn write_again(&mut self) {
        let Some(held) = self.held.as_ref().filter(|_| self.is_unwritten) else {
            return;
        };
        let (place, pem) = (place(&self.parts), held.pem.clone());
        let shown = place.display().to_string();
        let written = spawn_blocking(move || store::write(&place, &pem)).await;
        match written {
            Ok(Ok(())) => self.is_unwritten = false,
            Ok(Err(error)) => {
                tracing::error!(file = shown, %error, "cannot store a certificate");
            }
            Err(error) => tracing::error!(%error, "cannot store a certificate"),
        }
    }

    /// The name that identifies the certificate on disk and among the nodes.
    fn first_name(&self) -> &str {
        first_name(&self.parts)
    }
}

fn first_name(parts: &KeeperParts) -> &str {
    let names = &parts.certificate.wanted.names;
    names.first().map_or("", String::as_str)
}

fn place(parts: &KeeperParts) -> std::path::PathBuf {
    parts.store.certificate(first_name(parts))
}

/// The certificate on disk; a file that cannot be used is set aside.
fn stored(parts: &KeeperParts) -> Option<IssuedCertificate> {
    let place = place(parts);
    let read = match store::read(&place) {
        Ok(None) => return None,
        Ok(Some(text)) => IssuedCertificate::read(&text),
        Err(error) => Err(OrderError::new(error)),
    };
    match read {
        Ok(held) => Some(held),
        Err(trouble) => {
            let aside = store::set_aside(&place);
            tracing::error!(
                file = %place.display(), is_set_aside = aside.is_ok(),
                "cannot use a stored certificate: {trouble}; ordering a new one"
            );
            None
        }
    }
}

/// The interval between two checks for certificates of other nodes.
const SYNCHRONIZE_EVERY: Duration = Duration::from_secs(15);
/// The interval between two attempts while another node orders, or the engine is unavailable.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// The longest time between two readings of the clock.
const MAX_SLEEP: Duration = Duration::from_secs(600);
/// The time limit for an order. A hundred names need two minutes with a slow directory.
const MAX_ORDER: Duration = Duration::from_secs(600);
