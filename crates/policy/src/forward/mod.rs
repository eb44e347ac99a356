//! The request for the upstream.
//!
//! A request has one of two forms. *Trimmed*, for fetches whose response may be shared: a closed list of fields, all of which
//! are in the key, so equal keys give equal bytes and no unkeyed input can affect a stored page. *Whole*, for everything else:
//! the client's request without fields of the connection, fields that claim to be from a proxy, and fields that could collide
//! as CGI variables. In both forms, Galley sets the forwarding fields itself. This module does not write bytes: FastCGI and
//! HTTP each encode the result.

mod request;
mod rfc9110;
mod trace;

pub(crate) use self::request::address_text;
pub use self::request::{
    BodyLength, Client, Schedule, UpstreamRequest, address, capabilities, for_plugin, fragment,
    member, members, schedule, set_acknowledged, trimmed, visit_link, whole,
};
pub use self::rfc9110::{BY_GALLEY, Credentials, announce, fetch, is_loop, revalidate};
pub use self::trace::{ForwardedTrace, TRACEPARENT, set_trace};
