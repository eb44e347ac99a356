//! The part of the publisher that appends entries to the stream, with a seal if nodes share a key.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::engine::Session;
use crate::engine_replies::{AppendReply, EngineSpace, NewEntry};
use crate::entry_seal;
use crate::error::EngineError;
use crate::message::{Message, RemotePurge};
use crate::page_value::milliseconds;
use crate::publisher::Publisher;
use crate::stream_id::StreamId;

impl Publisher {
    /// Appends an entry that purges nothing, so that this run has one in the stream: pages are shared with the newest entry of
    /// a node as their point.
    pub(crate) fn mark(&mut self, session: &mut Session) -> Result<(), EngineError> {
        if self.key.is_none() {
            return Ok(());
        }
        let request = self.shared.own.request();
        let mark = [self.message(self.sequence + 1, None)];
        let kept = self.kept_in_stream();
        let ids = match self.append(session, &mark, kept, EngineSpace::Left) {
            Err(error) if error.is_full() => {
                self.append(session, &mark, kept, EngineSpace::None)?
            }
            ids => ids?,
        };
        for id in ids {
            self.note_entry(id);
            self.shared.own.marked(self.sequence, id, request);
        }
        Ok(())
    }

    pub(crate) fn message(&self, sequence: u64, content: Option<RemotePurge>) -> Message {
        Message {
            node: self.shared.incarnation.clone(),
            sequence,
            content,
        }
    }

    /// Records the next entry of this run.
    pub(crate) fn note_entry(&mut self, id: StreamId) {
        self.sequence += 1;
        self.newest = Some(id);
        self.previous = id;
    }

    /// Appends all entries or none. With a key, each entry has an id in its seal, which must be above those in the stream. If
    /// another node was faster, the ids are chosen again, further ahead each time.
    pub(crate) fn append(
        &self,
        session: &mut Session,
        messages: &[Message],
        kept: usize,
        space: EngineSpace,
    ) -> Result<Vec<StreamId>, EngineError> {
        let own_newest = self.newest.unwrap_or_default();
        let mut last = own_newest.max(self.shared.own.horizon());
        for attempt in 0..MAX_ATTEMPTS {
            let entries = self.entries(messages, last, (1 << attempt) - 1);
            match session.append(&entries, kept, space)? {
                AppendReply::Ids(ids) => return Ok(ids),
                AppendReply::Behind(newest) => last = last.max(newest),
            }
        }
        Err(EngineError::Reply("other nodes append faster"))
    }

    fn entries(&self, messages: &[Message], last: StreamId, ahead: u64) -> Vec<NewEntry> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = milliseconds(now.unwrap_or_default());
        let (mut id, mut previous) = (StreamId::after(last, now, ahead), self.previous);
        let entries = messages.iter().map(|message| {
            let mut fields = message.fields();
            let Some(key) = &self.key else {
                return NewEntry { id: None, fields };
            };
            let seal = entry_seal::seal(key, id, previous, &fields);
            fields.push((entry_seal::FIELD, seal));
            previous = id;
            id = id.next();
            NewEntry {
                id: Some(previous),
                fields,
            }
        });
        entries.collect()
    }
}

/// How often ids are chosen: the last ones are a minute ahead of those of other nodes.
const MAX_ATTEMPTS: u32 = 16;
