//! The part of the reader that notes which purges are in the stream up to which entry, for shared pages.

use std::sync::Arc;

use crate::engine::Session;
use crate::point::{NotedPoints, StreamPoint};
use crate::reader::Reader;
use crate::sequences::SequenceEnd;
use crate::shared::NotePoint;
use crate::stream_id::StreamId;

impl Reader {
    /// Records which entries are in the stream, and whether the purges of this node are.
    pub(crate) fn note_point(&mut self, session: &Session, note: NotePoint, own: Option<StreamId>) {
        self.note_own_mark(session);
        let data: Arc<str> = self.data(session).into();
        let (last, ledger) = (self.last(), self.ledger.as_ref());
        let known_until = |known| ledger.map_or(Some(known), |ledger| ledger.known_until(known));
        if let Some(own) = own
            && let Some(known) = self
                .known
                .as_ref()
                .and_then(|(known, _)| known_until(*known))
            && let Some((_, note)) = self.known.take()
        {
            note(&NotedPoints {
                published: Some(StreamPoint::new(&data, known.max(own))),
                applied: None,
            });
        }
        let (published, applied) = match ledger {
            Some(ledger) => (
                ledger.published_until(self.last_purge, self.shared.own.mark()),
                ledger.applied_until(),
            ),
            None => (Some(last), Some(last)),
        };
        let point = |last| StreamPoint::new(&data, last);
        // The numbers were read when all entries up to the last one had a number. This node's purges get their numbers before
        // they are in the stream.
        note(&NotedPoints {
            published: own.zip(published).map(|(own, last)| point(last.max(own))),
            applied: applied.map(point),
        });
    }

    /// Records the mark of this run, if the node has begun to read behind it.
    fn note_own_mark(&mut self, session: &Session) {
        let last = self.last();
        if let Some(ledger) = &mut self.ledger
            && ledger.applied_until().is_none()
            && let Some((sequence, id)) = self.shared.own.last(&session.identity.word())
            && id <= last
        {
            let run = ledger.kept.run;
            ledger.note(SequenceEnd { run, sequence, id }, StreamId::START);
        }
    }
}
