//! Receives the body of an HTTP/1 request whole before the request is handled: into memory, then into a file.

use std::sync::Arc;

use bytes::{Buf, Bytes};
use galley_http::body::BodyReader;
use galley_http::framing::{BodyKind, Framing};
use galley_http::head::BadRequest;
use galley_policy::outcome::RefusedWhy;

use super::Core;
use super::io::{ClientConnection, Gone};
use super::speed::ReceiveProgress;
use crate::body::spools::{SpoolFull, Spools};
use crate::body::{RequestBody, Spool};
use crate::fault::Fault;
use crate::request::{self, Exchange};

/// Why a body could not be taken in.
pub(super) enum Untaken {
    Gone,
    /// It came too slowly.
    Late,
    Fault(Fault),
}

impl From<Fault> for Untaken {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// Takes the body of a request in that may come in: into memory, then into a file, never beyond the site's limit.
pub(super) async fn take_body(
    core: &Core,
    wire: &mut ClientConnection,
    framing: &Framing<'_>,
    exchange: &mut Exchange<'_>,
) -> Result<(), Untaken> {
    request::enter(&core.services, exchange).await?;
    if matches!(framing.body, BodyKind::None) {
        return Ok(());
    }
    let spools = &core.services.spools;
    if let BodyKind::Length(length) = framing.body
        && Spool::needs_file(length)
        && !spools.has_room(length)
    {
        return Err(no_room(spools));
    }
    let mut reader = BodyReader::new(framing.body, exchange.request_body());
    let mut spool = Spool::new(Arc::clone(spools));
    if framing.expect_continue && wire.input.is_empty() {
        wire.output.extend_from_slice(galley_http::answer::CONTINUE);
        wire.send(&[]).await.map_err(|_| Untaken::Gone)?;
    }
    let mut coming = ReceiveProgress::begin(core.limits.coming, &wire.timer);
    while !reader.is_done() {
        let decoded = reader.decode(&wire.input).map_err(body_fault)?;
        let consumed = decoded.consumed;
        if !decoded.data.is_empty() {
            let pushed = spool.push(decoded.data).await;
            pushed.map_err(|SpoolFull| no_room(spools))?;
        }
        wire.input.advance(consumed);
        if consumed == 0 && !reader.is_done() {
            match wire.fill_body(&mut coming).await {
                Ok(()) => {}
                Err(Gone::Closed) => return Err(Untaken::Gone),
                Err(Gone::Late) => return Err(Untaken::Late),
            }
        }
    }
    let body = spool.finish().await.map_err(|SpoolFull| no_room(spools))?;
    exchange.body = match body {
        RequestBody::Empty => RequestBody::Memory(Bytes::new()),
        body => body,
    };
    Ok(())
}

fn body_fault(refusal: BadRequest) -> Fault {
    let why = if refusal.status() == 413 {
        RefusedWhy::BodyTooLarge
    } else {
        RefusedWhy::BadRequest
    };
    Fault::new(why, refusal.to_string())
}

/// RFC 9110 §15.6.4: it passes by itself, and the request is not at fault.
pub(super) fn no_room(spools: &Spools) -> Untaken {
    spools.refuse();
    let note = "there is no room for the request's body";
    Fault::new(RefusedWhy::NoRoom, note).into()
}
