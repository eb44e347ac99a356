//! A request body that is streamed from its client to the upstream (`stream_request`).
//!
//! Nothing is read from the client before the upstream requests it, so a request that waits for a slot costs no memory, and
//! a client that waits for `100 Continue` gets it when the upstream needs the body. The client's speed is checked only while
//! Galley waits for it.

use std::time::Duration;

use super::Core;
use super::protocol::{ArrivingBody, BodyError, Protocol};
use super::timer::DeadlinePassed;
use galley_upstream::body::streamed_body::BodySender;

/// A body that is forwarded while it is received.
pub(super) struct Upload {
    sender: BodySender,
    body: ArrivingBody,
    /// The client may wait for `100 Continue`.
    expects_continue: bool,
    state: UploadState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum UploadState {
    /// The upstream has not requested it.
    NotRequested,
    /// Parts are being forwarded.
    Open,
    /// The upstream has received all of it.
    Complete,
    /// The upstream accepts no more.
    Declined,
}

impl Upload {
    pub(super) fn new(sender: BodySender, body: ArrivingBody, expects_continue: bool) -> Self {
        Self {
            sender,
            body,
            expects_continue,
            state: UploadState::NotRequested,
        }
    }

    /// Whether [`Upload::advance`] has something to wait for.
    pub(super) fn is_in_progress(&self) -> bool {
        matches!(self.state, UploadState::NotRequested | UploadState::Open)
    }

    /// Whether the body was received completely.
    pub(super) fn is_complete(&self) -> bool {
        self.state == UploadState::Complete
    }

    /// Takes one step. Cancel-safe: no part is lost.
    pub(super) async fn advance<P: Protocol>(
        &mut self,
        protocol: &mut P,
        core: &Core,
    ) -> Result<(), BodyError> {
        if self.state == UploadState::NotRequested {
            self.sender.wanted().await;
            self.state = UploadState::Open;
            return Ok(());
        }
        let Self { sender, body, .. } = self;
        let permit = if let Some(permit) = sender.try_reserve_part() {
            permit
        } else {
            body.progress = None;
            let Some(permit) = sender.reserve_part().await else {
                self.state = UploadState::Declined;
                return Ok(());
            };
            permit
        };
        tokio::select! {
            biased;
            () = sender.closed() => self.state = UploadState::Declined,
            part = protocol.body_part(core, body) => {
                if let Some(part) = part? {
                    permit.send(part);
                } else {
                    permit.end();
                    self.state = UploadState::Complete;
                }
            }
        }
        Ok(())
    }

    /// Sends `100 Continue` once to a client that waits for it. Not cancel-safe.
    pub(super) async fn send_continue<P: Protocol>(
        &mut self,
        protocol: &mut P,
    ) -> Result<(), BodyError> {
        if self.state == UploadState::Open && std::mem::take(&mut self.expects_continue) {
            protocol.send_continue().await?;
        }
        Ok(())
    }

    /// Notes that the upstream has responded. Its request for the body may not have been noticed before.
    fn note_response(&mut self) {
        if self.state == UploadState::NotRequested {
            self.state = if self.sender.is_wanted() {
                UploadState::Open
            } else {
                self.sender.stop();
                UploadState::Declined
            };
        }
    }

    /// The upstream has responded: forwards the rest as long as the upstream accepts it. Its response waits for that, because most
    /// clients read it only when they have sent their body.
    pub(super) async fn finish<P: Protocol>(
        &mut self,
        protocol: &mut P,
        core: &Core,
    ) -> Result<(), BodyError> {
        self.note_response();
        self.send_continue(protocol).await?;
        let timer = core.timers.register();
        while self.state == UploadState::Open {
            let permit = timer.within(STALLED, self.sender.reserve_part()).await;
            match permit.map(|permit| permit.is_some()) {
                Ok(true) => self.advance(protocol, core).await?,
                Ok(false) => self.state = UploadState::Declined,
                Err(DeadlinePassed) => {
                    self.sender.stop();
                    self.state = UploadState::Declined;
                }
            }
        }
        Ok(())
    }
}

/// How long an upstream that has responded may accept nothing of the body before its response is sent without waiting for the rest.
const STALLED: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use galley_http::body::BodyReader;
    use galley_http::framing::BodyKind;

    use super::*;
    use galley_upstream::body::RequestBody;
    use galley_upstream::body::streamed_body::stream;
    use galley_upstream::testing::spools;

    /// The state of an upload whose upstream responds before this side has noticed anything.
    fn responded(requests_body: bool) -> UploadState {
        let (sender, streamed) = stream(&spools(1 << 20, 0, 0), Some(3)).unwrap();
        let body = ArrivingBody {
            reader: BodyReader::new(BodyKind::Length(3), 3),
            room: 3,
            progress: None,
        };
        let mut upload = Upload::new(sender, body, false);
        let streamed = RequestBody::Streamed(streamed);
        if requests_body {
            let mut reader = streamed.reader();
            let polled = reader.poll_chunk(&mut Context::from_waker(Waker::noop()));
            assert!(polled.is_pending());
        }
        upload.note_response();
        upload.state
    }

    #[test]
    fn a_body_is_forwarded_though_the_response_comes_first() {
        assert!(responded(true) == UploadState::Open);
    }

    #[test]
    fn a_body_that_nobody_has_requested_is_not_forwarded_after_the_response() {
        assert!(responded(false) == UploadState::Declined);
    }
}
