//! The file format: files are read as they were written, and invalid files are rejected.

use std::collections::BTreeSet;
use std::sync::Arc;

use galley_policy::esi::template::{IncludeSource, OnError};
use galley_policy::fragments::FragmentPart;

use crate::fragment_table::{FragmentTable, RenderedFragment};
use crate::fragments::PageFragment;
use crate::includes::{Assembly, IncludedPart, IncludedResponses, PageInclude};
use proptest::prelude::*;

use super::*;
use crate::disk::layout::{
    BLOCK, FIXED, InvalidFile, MAX_HEADER, VERSION, check, fixed, header_sum, seal_header, sums,
    table,
};
use crate::testing::{lifetime, scopes};
use http::HeaderMap;
use http::HeaderValue;

fn seal() -> DirectoryKey {
    DirectoryKey::new([9; 16])
}

fn origin() -> StoredOrigin {
    let site = seal().site("a.test");
    StoredOrigin {
        generation: [1; 16],
        name: seal().name(site, b"/a?b"),
        fingerprint: 77,
        stamp: StoredTime {
            boot: [2; 16],
            boot_ms: 3,
            wall_ms: 4,
        },
        age: Duration::from_millis(5_500),
    }
}

fn page() -> EntryParts {
    let mut fields = HeaderMap::new();
    for (name, value) in [
        ("content-type", "text/html"),
        ("link", "<a>"),
        ("link", "<b>"),
    ] {
        fields.append(name, HeaderValue::from_static(value));
    }
    fields.append("x-bytes", HeaderValue::from_bytes(b"\xff\x80").unwrap());
    EntryParts {
        key: Key::new(b"/a?b"),
        kind: EntryKind::Page,
        status: StatusCode::NOT_FOUND,
        fields,
        body: StoredBody::default(),
        stored_at: Tick(0),
        lifetime: Lifetime {
            fresh: Duration::MAX,
            stale_if_error: Duration::from_secs(9),
            ..lifetime()
        },
        scopes: scopes("a.test", "/a?b", &["post-1", "front"]),
        tags: vec!["post-1".into(), "früh".into()],
        born: 42,
    }
}

fn sealed(parts: EntryParts, body: &[u8]) -> Vec<u8> {
    let mut bytes = header(&Entry::new(parts), &origin()).unwrap();
    let table = table(body, &seal());
    seal_header(&mut bytes, body.len() as u64, &table, &seal());
    bytes
}

#[test]
fn a_header_reads_back() {
    let bytes = sealed(page(), b"body");
    let read = fixed(&bytes).unwrap();
    assert_eq!((read.generation, read.fingerprint), ([1; 16], 77));
    assert_eq!(read.name, origin().name);
    assert_eq!(read.layout.header, bytes.len());
    assert_eq!(read.layout.total(), bytes.len() as u64 + 4 + 8);
    let StoredHeader {
        parts,
        composition,
        stamp,
    } = stored(&bytes, &seal()).unwrap();
    assert!(composition.fragments.is_empty() && composition.assembly.is_none());
    let wanted = page();
    assert_eq!(stamp, origin().stamp);
    assert_eq!(parts.key, wanted.key);
    assert_eq!((parts.kind, parts.status), (wanted.kind, wanted.status));
    assert_eq!(parts.fields, wanted.fields);
    assert_eq!(parts.scopes, wanted.scopes);
    assert_eq!((parts.tags, parts.born), (wanted.tags, wanted.born));
    assert_eq!(parts.lifetime.initial_age, Duration::from_millis(5_500));
    assert_eq!(
        parts.lifetime.fresh,
        Duration::from_millis(u64::MAX),
        "longest that can be written"
    );
    assert_eq!(parts.lifetime.stale_if_error, Duration::from_secs(9));
}

#[test]
fn fragments_read_back() {
    let table = FragmentTable::default();
    let part = FragmentPart {
        label: "widget:x-2".to_owned(),
        start: 1,
        length: 2,
        blocks: "-".to_owned(),
        definition: "d.m".to_owned(),
        tags: galley_policy::tags::from_list("a,b").unwrap(),
        has_context: false,
    };
    let version = table.version(0, &part, 7).unwrap();
    let rendered = RenderedFragment {
        entry: Arc::new(Entry::new(page())),
        blocks: "-".into(),
        digest: 7,
    };
    table.rendered(version.id, rendered);
    let fragment = |range| PageFragment {
        range,
        version: Arc::clone(&version),
        generated_tags: Arc::default(),
        born: 9,
        except: [3, 4].into(),
    };
    let patched = |range| PageFragment {
        generated_tags: [5, 6].into(),
        ..fragment(range)
    };
    let sealed = |fragments| {
        let entry = Entry::new(page()).with_fragments(fragments);
        let mut bytes = header(&entry, &origin()).unwrap();
        seal_header(
            &mut bytes,
            4,
            &super::super::layout::table(b"body", &seal()),
            &seal(),
        );
        bytes
    };
    let read = stored(&sealed(vec![fragment(1..3), patched(3..4)]), &seal()).unwrap();
    let fragments = read.composition.fragments;
    let [one, other] = &fragments[..] else {
        panic!("{fragments:?}");
    };
    assert_eq!((one.range.clone(), one.born), (1..3, 9));
    assert_eq!(&*one.except, [3, 4]);
    assert_eq!((one.version.id, one.version.digest), (version.id, 7));
    assert_eq!(&*one.version.definition, "d.m");
    assert!(one.version.is_shared());
    let tags = |fragment: &PageFragment| fragment.tags().collect::<BTreeSet<_>>();
    assert_eq!(tags(one), tags(&fragment(1..3)));
    assert_eq!(
        tags(other),
        tags(&patched(3..4)),
        "also those of the generated page"
    );
    let overlapping = sealed(vec![fragment(1..3), fragment(2..4)]);
    assert!(stored(&overlapping, &seal()).is_err());
}

/// A page with two includes, one of which consists of two parts: a page of the disk and one that is older than the page.
fn assembled() -> Entry {
    let include = |range, alt: Option<&str>, on_error| PageInclude {
        range,
        source: Arc::new(IncludeSource {
            src: "/part?x=1".into(),
            alt: alt.map(Box::from),
            on_error,
        }),
    };
    let part = |born| IncludedPart {
        scopes: scopes("a.test", "/part?x=1", &["part", "more"]),
        born,
    };
    let page = EntryParts {
        lifetime: lifetime(),
        ..page()
    };
    Entry::new(page).with_assembly(Some(Arc::new(Assembly {
        own: lifetime().fresh_for(Duration::from_secs(70)),
        includes: [
            include(1..3, Some("/other"), OnError::Continue),
            include(3..3, None, OnError::Fail),
        ]
        .into(),
        inclusions: IncludedResponses {
            parts: [part(7), part(50)].into(),
            depth: 2,
            is_cut: false,
        },
    })))
}

fn sealed_entry(entry: &Entry) -> Vec<u8> {
    let mut bytes = header(entry, &origin()).unwrap();
    seal_header(&mut bytes, 4, &table(b"body", &seal()), &seal());
    bytes
}

#[test]
fn includes_read_back() {
    let entry = assembled();
    let bytes = sealed_entry(&entry);
    let read = stored(&bytes, &seal()).unwrap().composition.assembly;
    let (read, wanted) = (read.unwrap(), entry.assembly().unwrap());
    assert_eq!(read.own, wanted.own);
    assert_eq!(read.includes, wanted.includes);
    assert_eq!((read.inclusions.depth, read.inclusions.is_cut), (2, false));
    let parts = &read.inclusions.parts;
    assert_eq!(parts[0].scopes, wanted.inclusions.parts[0].scopes);
    // The part was valid when the page was requested.
    assert_eq!([parts[0].born, parts[1].born], [page().born, 50]);
    let mut newer = bytes.clone();
    newer[4..6].copy_from_slice(&(VERSION + 1).to_le_bytes());
    assert!(fixed(&newer).is_err());
}

#[test]
fn a_file_of_an_earlier_version_is_read() {
    for version in [1_u16, 2] {
        let mut bytes = header(&Entry::new(page()), &origin()).unwrap();
        bytes[4..6].copy_from_slice(&version.to_le_bytes());
        let table = table(b"body", &seal());
        seal_header(&mut bytes, 4, &table, &seal());
        assert!(fixed(&bytes).is_ok() && stored(&bytes, &seal()).is_ok());
    }
}

#[test]
fn markers_are_stored_and_too_long_heads_are_refused() {
    let marker = EntryParts {
        kind: EntryKind::HitForPass,
        ..page()
    };
    let read = stored(&sealed(marker, b""), &seal()).unwrap();
    assert_eq!(read.parts.kind, EntryKind::HitForPass);
    let too_long = EntryParts {
        key: Key::new(&vec![b'k'; MAX_HEADER]),
        ..page()
    };
    assert!(header(&Entry::new(too_long), &origin()).is_none());
}

#[test]
fn every_bit_of_a_header_counts() {
    let whole = sealed_entry(&assembled());
    for at in 0..whole.len() {
        for bit in 0..8 {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << bit;
            assert!(stored(&bytes, &seal()).is_err(), "byte {at} bit {bit}");
        }
        assert!(stored(&whole[..at], &seal()).is_err(), "cut at {at}");
    }
    assert!(
        stored(&whole, &DirectoryKey::new([8; 16])).is_err(),
        "another key"
    );
    let longer = [&whole[..], b"x"].concat();
    assert!(stored(&longer, &seal()).is_err());
}

#[test]
fn bodies_are_checked_block_by_block() {
    let body = vec![7; BLOCK * 2 + 5];
    let table = table(&body, &seal());
    let bytes = sealed(page(), &body);
    let read = fixed(&bytes).unwrap();
    assert_eq!(read.layout.blocks(), 3);
    let sums = sums(&table, &read, &seal()).unwrap();
    assert_eq!(check(&body, &sums, &seal()), Ok(()));
    assert_eq!(check(&body[..BLOCK], &sums[..1], &seal()), Ok(()));
    let mut flipped = body.clone();
    flipped[BLOCK * 2] ^= 1;
    assert_eq!(check(&flipped, &sums, &seal()), Err(InvalidFile));
    assert_eq!(check(&flipped[..BLOCK * 2], &sums[..2], &seal()), Ok(()));
    assert_eq!(
        check(&body[..BLOCK], &sums, &seal()),
        Err(InvalidFile),
        "too few"
    );
    for at in 0..table.len() {
        let mut table = table.clone();
        table[at] ^= 1;
        assert!(crate::disk::layout::sums(&table, &read, &seal()).is_err());
    }
    assert!(crate::disk::layout::sums(&table[..16], &read, &seal()).is_err());
}

#[test]
fn an_empty_body_has_no_table() {
    assert!(table(b"", &seal()).is_empty());
    let read = fixed(&sealed(page(), b"")).unwrap();
    assert_eq!(sums(b"", &read, &seal()), Ok([].into()));
    assert_eq!(check(b"", &[], &seal()), Ok(()));
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        let _ = fixed(&bytes);
        prop_assert!(stored(&bytes, &seal()).is_err());
    }

    /// The checksum is recomputed, so that wrong lengths, counts and texts reach the code after the check.
    #[test]
    fn wrong_contents_below_a_right_checksum_do_not_panic(
        flips in proptest::collection::vec((0_usize..700, any::<u8>()), 1..6),
        cut in 0_usize..700,
    ) {
        let mut bytes = sealed_entry(&assembled());
        let last = bytes.len() - 1;
        for (at, value) in flips {
            bytes[at.min(last)] = value;
        }
        bytes.truncate(cut.max(FIXED));
        let sum = header_sum(&bytes, &seal()).unwrap();
        bytes[184..192].copy_from_slice(&sum.to_le_bytes());
        let _ = fixed(&bytes).map(|fixed| fixed.layout.total());
        if let Ok(read) = stored(&bytes, &seal()) {
            prop_assert!(read.parts.fields.len() <= 700);
        }
    }

    #[test]
    fn any_counts_do_not_panic(counts in proptest::array::uniform5(any::<u32>())) {
        let mut bytes = sealed(page(), b"body");
        for (place, count) in bytes[152..172].chunks_mut(4).zip(counts) {
            place.copy_from_slice(&count.to_le_bytes());
        }
        let sum = header_sum(&bytes, &seal()).unwrap();
        bytes[184..192].copy_from_slice(&sum.to_le_bytes());
        prop_assert!(stored(&bytes, &seal()).is_err());
    }
}
