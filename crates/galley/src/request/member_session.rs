//! The session of a request, if something private may be stored for it.

use galley_cache::private::{PrivateStore, SessionEnd, VisitorId};
use galley_policy::key::variant_id;
use galley_policy::private::session_cookies;

use super::exchange::Exchange;

/// The session of a request.
pub(super) fn visitor(exchange: &Exchange<'_>, store: &PrivateStore) -> Option<VisitorId> {
    let cookies = session_cookies(exchange.fields(), exchange.policy());
    let agent = exchange.info.user_agent().unwrap_or_default();
    Some(store.visitor(variant_id(&exchange.key)?, &cookies, agent))
}

/// What ends the session of a request, where something may be kept of it.
pub(super) fn session_end(exchange: &Exchange<'_>) -> Option<SessionEnd> {
    let store = exchange.site.core.private.as_ref()?;
    let visitor = exchange
        .info
        .has_session()
        .then(|| visitor(exchange, store))?;
    Some(SessionEnd::of(store, visitor?))
}
