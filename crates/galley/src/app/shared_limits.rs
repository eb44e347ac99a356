//! Limits on clients that the nodes of a cluster count together.

use std::sync::Arc;

use galley_cluster::{ChargeSink, ClusterPublisher, LimitCharge};
use galley_config::Config;
use galley_policy::access::{AccessSetting, RateLimit};
use galley_policy::site::Policy;

use galley_access::ClientState;
use galley_sys::clock::Clock;

/// Exchanges counts with the other nodes if a limit of the configuration is shared; otherwise stops the exchange.
pub(super) fn exchange(
    cluster: &ClusterPublisher,
    config: &Config,
    clients: &Arc<ClientState>,
    clock: Clock,
) {
    let is_wanted = config.sites.iter().any(|site| has_shared(&site.policy));
    let sink = is_wanted.then(|| -> Arc<dyn ChargeSink> {
        Arc::new(ClientsSink {
            clients: Arc::clone(clients),
            clock,
        })
    });
    cluster.share_limits(sink);
}

fn has_shared(policy: &Policy) -> bool {
    let access = &policy.access;
    let of_site = [access.login_limit, access.xmlrpc_limit];
    let is_shared = |limit: &RateLimit| limit.is_shared();
    let rules = policy.rules.iter().map(|rule| &rule.access);
    let mut access_rules = rules.chain([&access.common]);
    of_site.iter().flatten().any(is_shared)
        || access_rules
            .any(|one| matches!(&one.limit, AccessSetting::Is(limit) if limit.is_shared()))
}

struct ClientsSink {
    clients: Arc<ClientState>,
    clock: Clock,
}

impl ChargeSink for ClientsSink {
    fn charge(&self, charges: &[LimitCharge]) {
        self.clients.charge(charges, self.clock.tick());
    }
}
