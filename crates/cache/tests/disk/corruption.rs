//! Reading a damaged file returns no entry or the correct bytes, never wrong bytes, and removes the file.

use proptest::prelude::*;

use super::*;

#[test]
fn damage_to_any_byte_of_a_small_file_is_detected() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, site) = open(dir.path());
    disk.put(site, &page("/a", 3, content(1, 300)), at(0))
        .unwrap();
    let path = files(dir.path()).remove(0);
    let original = std::fs::read(&path).unwrap();
    let check = |bytes: &[u8], what: &str| {
        std::fs::write(&path, bytes).unwrap();
        assert_eq!(read(&disk, site, "/a", at(0)), None, "{what}");
        assert!(!path.exists(), "{what}: removed");
        // The index entry was removed, too, so store the page again.
        disk.put(site, &page("/a", 3, content(1, 300)), at(0))
            .unwrap();
    };
    for position in 0..original.len() {
        for flip in [1, 0x80, 0xff] {
            let mut bytes = original.clone();
            bytes[position] ^= flip;
            check(&bytes, &format!("byte {position} flipped by {flip}"));
        }
        check(&original[..position], &format!("truncated at {position}"));
    }
    check(&[&original[..], b"x"].concat(), "one byte longer");
    check(&[&original[..], &original[..]].concat(), "twice");
    std::fs::write(&path, &original).unwrap();
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
    assert!(a.exists(), "the lookup does not touch this file");

    let other_dir = tempfile::tempdir().unwrap();
    let (other_disk, other_disk_site) = open(other_dir.path());
    other_disk
        .put(other_disk_site, &page("/a", 0, "a"), at(0))
        .unwrap();
    let target = files(other_dir.path()).remove(0);
    std::fs::write(&target, &bytes).unwrap();
    assert_eq!(
        read(&other_disk, other_disk_site, "/a", at(0)),
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
fn a_directory_instead_of_a_file_is_a_miss() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, site) = open(dir.path());
    disk.put(site, &page("/a", 0, "a"), at(0)).unwrap();
    let path = files(dir.path()).remove(0);
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    assert_eq!(read(&disk, site, "/a", at(0)), None);
}

#[test]
fn a_block_damaged_while_reading_fails_and_removes_the_file() {
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
    assert!(read_body(DiskLookup::Absent).is_none());
    let bad = (0..16_u64).filter(|block| pieces.read(&(block * 65_536..u64::MAX)).is_err());
    assert_eq!(bad.count(), 1, "one block of sixteen");
    assert!(!path.exists(), "the file is removed");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Any damage, also to bodies that are read in pieces, results in the correct bytes or none.
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
        let original = std::fs::read(&path).unwrap();
        let mut bytes = original.clone();
        for (position, how, value) in damage {
            let position = position.index(bytes.len().max(1));
            match how {
                _ if bytes.is_empty() => bytes.push(value),
                0 => bytes[position] ^= value,
                1 => bytes.truncate(position),
                2 => bytes.insert(position, value),
                _ => bytes.extend(std::iter::repeat_n(value, position % 5_000)),
            }
        }
        std::fs::write(&path, &bytes).unwrap();
        match read(&disk, site, "/a", at(0)) {
            Some(found) => prop_assert_eq!((found, &bytes), ((9, body), &original)),
            None => prop_assert!(bytes != original && !path.exists()),
        }
    }

    /// With any bytes instead of the key or the snapshot, the directory opens and returns nothing or the correct bytes.
    #[test]
    fn a_damaged_key_or_snapshot_does_not_prevent_opening(bytes in proptest::collection::vec(any::<u8>(), 0..200), name in 0..2_usize) {
        let dir = tempfile::tempdir().unwrap();
        let (disk, site) = open(dir.path());
        disk.put(site, &page("/a", 9, "page"), at(0)).unwrap();
        disk.close().unwrap();
        drop(disk);
        std::fs::write(dir.path().join(["key", "index"][name]), bytes).unwrap();
        let (disk, site) = open(dir.path());
        let found = read(&disk, site, "/a", at(0));
        prop_assert_eq!(found.is_some(), name == 1, "the key is required, the snapshot is not");
        scan(&disk);
        prop_assert_eq!(disk.usage().entries, u64::from(name == 1));
    }
}
