//! A damaged file gives no entry or the right bytes, never wrong ones, and is removed.

use proptest::prelude::*;

use super::*;

#[test]
fn every_byte_of_a_small_file_counts() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, site) = open(dir.path());
    disk.put(site, &page("/a", 3, content(1, 300)), at(0))
        .unwrap();
    let path = files(dir.path()).remove(0);
    let good = std::fs::read(&path).unwrap();
    let check = |bytes: &[u8], what: &str| {
        std::fs::write(&path, bytes).unwrap();
        assert_eq!(read(&disk, site, "/a", at(0)), None, "{what}");
        assert!(!path.exists(), "{what}: removed");
        // The row went with it, so it is put back in the usual way.
        disk.put(site, &page("/a", 3, content(1, 300)), at(0))
            .unwrap();
    };
    for place in 0..good.len() {
        for flip in [1, 0x80, 0xff] {
            let mut bytes = good.clone();
            bytes[place] ^= flip;
            check(&bytes, &format!("byte {place} flipped by {flip}"));
        }
        check(&good[..place], &format!("cut at {place}"));
    }
    check(&[&good[..], b"x"].concat(), "one byte longer");
    check(&[&good[..], &good[..]].concat(), "twice");
    std::fs::write(&path, &good).unwrap();
    assert_eq!(read(&disk, site, "/a", at(0)), Some((3, content(1, 300))));
}

#[test]
fn a_file_of_another_page_site_or_directory_is_a_miss() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, site) = open(dir.path());
    disk.put(site, &page("/a", 0, "a"), at(0)).unwrap();
    let a = files(dir.path()).remove(0);
    let bytes = std::fs::read(&a).unwrap();
    disk.put(site, &page("/b", 0, "b"), at(0)).unwrap();
    let b = files(dir.path())
        .into_iter()
        .find(|path| *path != a)
        .unwrap();
    std::fs::write(&b, &bytes).unwrap();
    assert_eq!(read(&disk, site, "/b", at(0)), None, "another page's file");
    assert!(!b.exists());

    let other = disk.site("b.test", 7);
    assert_eq!(read(&disk, other, "/a", at(0)), None, "another site");
    assert!(a.exists(), "which has nothing to do with this file");

    let elsewhere = tempfile::tempdir().unwrap();
    let (foreign, foreign_site) = open(elsewhere.path());
    foreign
        .put(foreign_site, &page("/a", 0, "a"), at(0))
        .unwrap();
    let target = files(elsewhere.path()).remove(0);
    std::fs::write(&target, &bytes).unwrap();
    assert_eq!(
        read(&foreign, foreign_site, "/a", at(0)),
        None,
        "another key"
    );

    let changed = disk.site("a.test", 8);
    assert_eq!(changed.id, site.id);
    assert_eq!(read(&disk, changed, "/a", at(0)), None, "changed rules");
    assert_eq!(files(dir.path()), Vec::<PathBuf>::new());
    assert_eq!(disk.usage().damaged, 2);
}

#[test]
fn a_directory_in_a_files_place_is_no_entry() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, site) = open(dir.path());
    disk.put(site, &page("/a", 0, "a"), at(0)).unwrap();
    let path = files(dir.path()).remove(0);
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    assert_eq!(read(&disk, site, "/a", at(0)), None);
}

#[test]
fn a_block_that_goes_bad_while_it_is_read_ends_the_body() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, site) = open(dir.path());
    let body = content(5, 1 << 20);
    disk.put(site, &page("/a", 0, body.clone()), at(0)).unwrap();
    let found = disk.get(site, b"/a", at(0), &MemoryBudget::new(0));
    let DiskLookup::Found(OnDisk::Pieces(_, pieces)) = found else {
        panic!("{found:?}");
    };
    let path = files(dir.path()).remove(0);
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    std::fs::write(&path, bytes).unwrap();
    assert_eq!(pieces.read(&(0..10)).unwrap(), body[..10]);
    assert!(whole(DiskLookup::Absent).is_none());
    let bad = (0..16_u64).filter(|block| pieces.read(&(block * 65_536..u64::MAX)).is_err());
    assert_eq!(bad.count(), 1, "one block of sixteen");
    assert!(!path.exists(), "and nobody meets it again");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Any damage, anywhere, also to what is read in pieces: right bytes or none.
    #[test]
    fn damage_never_gives_wrong_bytes(
        length in prop_oneof![0_usize..300, 60_000_usize..140_000, 262_000_usize..270_000],
        damage in proptest::collection::vec((any::<prop::sample::Index>(), 0_u8..4, any::<u8>()), 1..4),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let (disk, site) = open(dir.path());
        let body = content(length as u64, length);
        disk.put(site, &page("/a", 9, body.clone()), at(0)).unwrap();
        let path = files(dir.path()).remove(0);
        let good = std::fs::read(&path).unwrap();
        let mut bytes = good.clone();
        for (place, how, value) in damage {
            let place = place.index(bytes.len().max(1));
            match how {
                _ if bytes.is_empty() => bytes.push(value),
                0 => bytes[place] ^= value,
                1 => bytes.truncate(place),
                2 => bytes.insert(place, value),
                _ => bytes.extend(std::iter::repeat_n(value, place % 5_000)),
            }
        }
        std::fs::write(&path, &bytes).unwrap();
        match read(&disk, site, "/a", at(0)) {
            Some(found) => prop_assert_eq!((found, &bytes), ((9, body), &good)),
            None => prop_assert!(bytes != good && !path.exists()),
        }
    }

    /// Any bytes where a key or a snapshot should be: the directory opens, and gives nothing or the right bytes.
    #[test]
    fn any_key_and_any_snapshot(bytes in proptest::collection::vec(any::<u8>(), 0..200), name in 0..2_usize) {
        let dir = tempfile::tempdir().unwrap();
        let (disk, site) = open(dir.path());
        disk.put(site, &page("/a", 9, "page"), at(0)).unwrap();
        disk.close().unwrap();
        drop(disk);
        std::fs::write(dir.path().join(["key", "index"][name]), bytes).unwrap();
        let (disk, site) = open(dir.path());
        let found = read(&disk, site, "/a", at(0));
        prop_assert_eq!(found.is_some(), name == 1, "a key is needed, a snapshot is not");
        scan(&disk);
        prop_assert_eq!(disk.usage().entries, u64::from(name == 1));
    }
}
