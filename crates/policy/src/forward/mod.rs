//! What a request looks like to the upstream.
//!
//! Two forms. *Trimmed*, for fetches whose answer may be shared: a closed list, made from what is all in the key,
//! so equal keys give equal bytes and nothing unkeyed can shape a stored page. *Whole*, for everything else: what the
//! client sent, less what belongs to the connection, what claims to come from a proxy, and what could collide as a CGI
//! variable. In both, forwarding fields are our own.
//! Does not write bytes: FastCGI and HTTP each put this into their form.

mod request;
mod rfc9110;
mod trace;

pub(crate) use self::request::address_text;
pub use self::request::{
    BodyLength, Client, Schedule, UpstreamRequest, address, capabilities, for_plugin, fragment,
    member, members, schedule, set_acknowledged, trimmed, whole,
};
pub use self::rfc9110::{BY_GALLEY, Credentials, announce, fetch, is_loop, revalidate};
pub use self::trace::{ForwardedTrace, TRACEPARENT, set_trace};
