//! Tests of the cached entry after a page was compressed, packed and unpacked.

use super::*;
use galley_cache::testing;

use bytes::Bytes;
use galley_cache::entry::EntryParts;
use galley_policy::time::Tick;
use http::header::{self, HeaderValue};

fn settings() -> Compress {
    Compress {
        codings: vec![Coding::Brotli, Coding::Gzip, Coding::Zstd],
        types: vec!["text/*".to_owned()],
        min_bytes: 100,
        gzip_level: 5,
        brotli_level: 4,
        zstd_level: 6,
        dense_after: 0,
    }
}

fn entry(body: &str, lines: &[(header::HeaderName, &'static str)]) -> Entry {
    let mut fields = HeaderMap::new();
    fields.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html"));
    for (name, value) in lines {
        fields.insert(name, HeaderValue::from_static(value));
    }
    Entry::new(EntryParts {
        fields,
        body: Bytes::copy_from_slice(body.as_bytes()).into(),
        ..testing::page()
    })
}

fn work(memory: &Arc<Memory>, entry: &Arc<Entry>, step: CompressionStep) -> CompressionCounters {
    let counts = CompressionCounters::default();
    let job = CompressionJob {
        memory: Arc::clone(memory),
        entry: Arc::downgrade(entry),
        settings: Arc::new(settings()),
        step,
    };
    job.work(&counts);
    counts
}

#[test]
fn a_coding_must_save_a_tenth() {
    assert!(is_gain(1000, 899));
    assert!(!is_gain(1000, 900));
    assert!(!is_gain(0, 0));
}

#[test]
fn a_page_is_compressed_in_all_codings_and_accounted() {
    let memory = Arc::new(Memory::new(64 << 20, 1 << 20));
    let page = Arc::new(entry(&"<p>row</p>".repeat(2000), &[]));
    memory.put(Arc::clone(&page)).unwrap();
    let plain_alone = memory.budget().used();
    work(&memory, &page, CompressionStep::Tried);
    let coded = memory.peek(b"k").unwrap();
    let codings: Vec<_> = coded.coded().iter().map(|one| one.coding).collect();
    assert_eq!(codings, settings().codings);
    assert!(coded.is_packed() && coded.length() == page.length());
    let head_alone = plain_alone - page.length();
    drop(page);
    let bodies: usize = coded.coded().iter().map(|one| one.body.bytes().len()).sum();
    assert!(memory.budget().used() > head_alone + bodies as u64);
    assert!(
        memory.budget().used() < head_alone + bodies as u64 + 8192,
        "room is given back"
    );
    memory.remove(b"k");
    drop(coded);
    assert_eq!(memory.budget().used(), 0);
}

#[test]
fn a_page_stays_plain_without_memory_to_compress() {
    let memory = Arc::new(Memory::new(64 << 20, 1 << 20));
    let page = Arc::new(entry(&"<p>row</p>".repeat(2000), &[]));
    memory.put(Arc::clone(&page)).unwrap();
    let free = memory.budget().limit() - memory.budget().used();
    let held = memory.budget().try_reserve(free - 600 * 1024).unwrap();
    let counts = work(&memory, &page, CompressionStep::Tried);
    // There is only enough memory for gzip.
    assert_eq!(counts.bytes.into_inner(), page.length());
    let codings = memory.peek(b"k").unwrap();
    assert_eq!(codings.coded().len(), 1);
    drop(held);
}

#[test]
fn a_plain_body_needed_twice_is_kept_while_there_is_memory() {
    let memory = Arc::new(Memory::new(64 << 20, 1 << 20));
    let page = Arc::new(entry(&"<p>row</p>".repeat(2000), &[]));
    memory.put(Arc::clone(&page)).unwrap();
    work(&memory, &page, CompressionStep::Tried);
    let compressor = Compressor::start(1).unwrap();
    let compressing = Compressing::new(compressor, Arc::clone(&memory), settings());
    let held = || memory.peek(b"k").unwrap();
    let wanted = |at: Duration| {
        let unpacked = compressing.unpack(&held(), Tick(0).plus(at)).unwrap();
        assert_eq!(unpacked.body(), page.body());
        !held().is_packed()
    };
    assert!(!wanted(Duration::ZERO) && !wanted(RECENT));
    assert!(
        wanted(RECENT + Duration::from_secs(1)),
        "twice within the time"
    );
    compressing.offer(&held());
    assert!(!held().is_packed() && held().is_packable());
    let free = memory.budget().limit() - memory.budget().used();
    let others = memory.budget().try_reserve(free / 4 * 3).unwrap();
    let packed = held();
    assert!(compressing.is_memory_short() && packed.claim_compression(CompressionStep::Packed));
    work(&memory, &packed, CompressionStep::Packed);
    drop(packed);
    assert!(!wanted(RECENT + Duration::from_secs(2)), "memory is short");
    assert_eq!(held().compression_step(), CompressionStep::Quick);
    drop(others);
}

#[test]
fn a_damaged_page_is_removed() {
    let memory = Arc::new(Memory::new(64 << 20, 1 << 20));
    let page = Arc::new(entry(&"<p>row</p>".repeat(2000), &[]));
    let gzip = EncodedEntry::new(Coding::Gzip, &page.fields, Bytes::from_static(b"?").into());
    let page = page.with_coded(&page.fields, vec![gzip], CompressionStep::Quick);
    let damaged = Arc::new(page.packed());
    memory.put(Arc::clone(&damaged)).unwrap();
    let compressor = Compressor::start(1).unwrap();
    let compressing = Compressing::new(compressor, Arc::clone(&memory), settings());
    assert!(compressing.unpack(&damaged, Tick(0)).is_none());
    assert!(memory.peek(b"k").is_none());
}

#[test]
fn codings_are_inherited_by_an_equal_body() {
    let memory = Arc::new(Memory::new(64 << 20, 1 << 20));
    let body = "<p>row</p>".repeat(2000);
    let page = Arc::new(entry(&body, &[]));
    memory.put(Arc::clone(&page)).unwrap();
    work(&memory, &page, CompressionStep::Dense);
    let held = memory.peek(b"k").unwrap();
    let compressing = Compressing::new(Compressor::start(1).unwrap(), memory, settings());
    let renewed = compressing.inherit(entry(&body, &[(header::ETAG, "\"new\"")]), &held);
    assert_eq!(
        (renewed.coded().len(), renewed.compression_step()),
        (3, CompressionStep::Dense)
    );
    for (new, old) in renewed.coded().iter().zip(held.coded()) {
        assert_eq!(
            new.fields()[header::ETAG],
            format!("\"new-{}\"", new.coding.token())
        );
        assert_eq!(
            new.body.bytes().as_ptr(),
            old.body.bytes().as_ptr(),
            "shared"
        );
    }
    assert_eq!(renewed.fields[header::VARY], "Accept-Encoding");
    assert!(
        !renewed.claim_compression(CompressionStep::Tried),
        "nothing is left to do"
    );
    let changed = compressing.inherit(entry(&body[1..], &[]), &held);
    assert!(changed.coded().is_empty());
    let forbidden = entry(&body, &[(header::CACHE_CONTROL, "no-transform")]);
    let forbidden = compressing.inherit(forbidden, &held);
    assert!(forbidden.coded().is_empty());
}
