//! The tables of header compression: the static one (RFC 7541 appendix A), and a client's own (section 2.3.2).

use std::collections::VecDeque;

/// See the module. The client's own fields are in one buffer, oldest first.
#[derive(Debug)]
pub(super) struct DynamicTable {
    bytes: Vec<u8>,
    /// Where the buffer begins, counted in all bytes that were ever put in.
    base: usize,
    /// Oldest first.
    entries: VecDeque<TableEntry>,
    /// As RFC 7541 section 4.1 counts it.
    size: usize,
    most: usize,
}

#[derive(Clone, Copy, Debug)]
struct TableEntry {
    at: usize,
    name: usize,
    value: usize,
}

impl Default for DynamicTable {
    fn default() -> Self {
        Self {
            bytes: Vec::new(),
            base: 0,
            entries: VecDeque::new(),
            size: 0,
            most: LARGEST,
        }
    }
}

impl DynamicTable {
    /// The field with this index, which begins with 1.
    pub(super) fn get(&self, index: usize) -> Option<(&[u8], &[u8])> {
        let index = index.checked_sub(1)?;
        if let Some((name, value)) = STATIC.get(index) {
            return Some((name.as_bytes(), value.as_bytes()));
        }
        let newest = self.entries.len().checked_sub(1)?;
        let place = newest.checked_sub(index - STATIC.len())?;
        let entry = self.entries.get(place)?;
        let bytes = self.bytes.get(entry.at.checked_sub(self.base)?..)?;
        let (name, rest) = bytes.split_at_checked(entry.name)?;
        Some((name, rest.get(..entry.value)?))
    }

    /// RFC 7541 section 4.4: a field that is larger than the table empties it.
    pub(super) fn insert(&mut self, name: &[u8], value: &[u8]) {
        let size = size_of_field(name.len(), value.len());
        self.evict(self.most.saturating_sub(size));
        if size > self.most {
            return;
        }
        self.close_up();
        self.entries.push_back(TableEntry {
            at: self.base + self.bytes.len(),
            name: name.len(),
            value: value.len(),
        });
        self.bytes.extend_from_slice(name);
        self.bytes.extend_from_slice(value);
        self.size += size;
    }

    /// Whether the table may have this size.
    pub(super) fn resize(&mut self, most: usize) -> bool {
        if most > LARGEST {
            return false;
        }
        self.most = most;
        self.evict(most);
        true
    }

    /// Drops the oldest fields until at most `size` remains.
    fn evict(&mut self, size: usize) {
        while self.size > size
            && let Some(entry) = self.entries.pop_front()
        {
            self.size -= size_of_field(entry.name, entry.value);
        }
    }

    /// Releases the room of dropped fields, if it is much.
    fn close_up(&mut self) {
        let end = self.base + self.bytes.len();
        let begin = self.entries.front().map_or(end, |entry| entry.at);
        let gone = begin - self.base;
        if gone >= LARGEST / 2 || gone == self.bytes.len() {
            self.bytes.drain(..gone);
            self.base = begin;
        }
    }
}

const LARGEST: usize = TABLE_BYTES as usize;

/// RFC 7541 appendix A.
pub(super) const STATIC: [(&str, &str); 61] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];

/// Bytes of the table, as RFC 7541 section 4.1 counts them: what a side that says nothing allows (RFC 9113 section 6.5.2).
pub const TABLE_BYTES: u32 = 4096;

/// RFC 7541 section 4.1, RFC 9113 section 6.5.2.
pub(super) const fn size_of_field(name: usize, value: usize) -> usize {
    name.saturating_add(value).saturating_add(32)
}
