//! The countries of addresses, from a database in the format of MMDB files (`server.geoip`).
//!
//! The file is read into memory, up to [`MAX_BYTES`]. Providers replace it every few days: [`Countries::refresh`] reads it
//! again if it has changed, and keeps the previous data if the new file cannot be used. A lookup walks a tree in memory,
//! without a lock.

use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use galley_policy::access::CountryCode;
use maxminddb::{MaxMindDbError, PathElement, Reader};

use galley_sys::Lock;
use galley_sys::stamps::{FileStamp, stamp};

/// The database of countries.
pub struct Countries {
    path: PathBuf,
    database: ArcSwap<Reader<Vec<u8>>>,
    /// The stamp of the file that was read last, usable or not.
    tried: Lock<Option<FileStamp>>,
}

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CountryFileError {
    /// The file cannot be read.
    #[error("{0}")]
    System(#[from] io::Error),
    /// The file is larger than any database of countries or cities.
    #[error("it has more than {} MiB", MAX_BYTES >> 20)]
    TooLarge,
    /// The file is not an MMDB file.
    #[error("it is no database in MaxMind's format: {0}")]
    Content(#[from] MaxMindDbError),
    /// The database contains other data than countries.
    #[error("its database, `{0}`, contains no countries")]
    Kind(String),
}

impl Countries {
    /// Reads the database. Blocks on the disk.
    pub fn open(path: &Path) -> Result<Self, CountryFileError> {
        let tried = stamp(path);
        Ok(Self {
            path: path.to_owned(),
            database: ArcSwap::from_pointee(read(path)?),
            tried: Lock::new(tried),
        })
    }

    /// Finds the country of an address; `None`: it has none, such as private addresses.
    pub fn find(&self, address: IpAddr) -> Option<CountryCode> {
        let database = self.database.load();
        let record = database.lookup(address.to_canonical()).ok()?;
        let code = ["country", "registered_country"].iter().find_map(|key| {
            let path = [PathElement::Key(key), PathElement::Key("iso_code")];
            record.decode_path::<&str>(&path).ok().flatten()
        });
        CountryCode::parse(code?)
    }

    /// Reads the file again if it has changed. Blocks on the disk.
    pub fn refresh(&self) {
        let now = stamp(&self.path);
        let mut tried = self.tried.lock();
        // The file may not exist while it is being replaced.
        if now.is_none() || now == *tried {
            return;
        }
        *tried = now;
        drop(tried);
        let path = self.path.display();
        match read(&self.path) {
            Ok(database) => {
                self.database.store(Arc::new(database));
                tracing::info!(%path, "read the database of countries again");
            }
            Err(error) => {
                tracing::warn!(%path, %error, "cannot use the new database of countries; the old one remains in use");
            }
        }
    }
}

fn read(path: &Path) -> Result<Reader<Vec<u8>>, CountryFileError> {
    let file = std::fs::File::open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a regular file").into());
    }
    if metadata.len() > MAX_BYTES {
        return Err(CountryFileError::TooLarge);
    }
    let mut bytes = Vec::new();
    // The file may have grown since its size was read.
    io::Read::read_to_end(&mut io::Read::take(file, MAX_BYTES), &mut bytes)?;
    let database = Reader::from_source(bytes)?;
    let kind = &database.metadata().database_type;
    if !["Country", "City", "Enterprise"]
        .iter()
        .any(|known| kind.contains(known))
    {
        return Err(CountryFileError::Kind(kind.clone()));
    }
    Ok(database)
}

/// Databases of cities, which also contain countries, have 60 to 120 MiB.
const MAX_BYTES: u64 = 256 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    const FIXTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/countries.mmdb");

    fn found(countries: &Countries, address: &str) -> Option<String> {
        let country = countries.find(address.parse().unwrap());
        country.map(|country| country.to_string())
    }

    #[test]
    fn addresses_have_countries() {
        let countries = Countries::open(Path::new(FIXTURE)).unwrap();
        for (address, country) in [
            ("192.0.2.7", Some("DE")),
            ("::ffff:192.0.2.7", Some("DE")),
            ("198.51.100.200", Some("AT")),
            ("203.0.113.1", Some("FR")),
            ("2001:db8::1", Some("DE")),
            ("10.0.0.1", None),
            ("2001:db9::1", None),
        ] {
            assert_eq!(found(&countries, address).as_deref(), country, "{address}");
        }
    }

    #[test]
    fn a_file_that_changes_is_read_again_and_a_bad_one_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("countries.mmdb");
        assert!(Countries::open(&path).is_err());
        std::fs::copy(FIXTURE, &path).unwrap();
        let countries = Countries::open(&path).unwrap();
        let replace = |bytes: &[u8]| {
            let new = dir.path().join("new");
            std::fs::write(&new, bytes).unwrap();
            std::fs::rename(&new, &path).unwrap();
            countries.refresh();
        };
        replace(b"no database");
        assert_eq!(found(&countries, "192.0.2.7").as_deref(), Some("DE"));
        let original = std::fs::read(FIXTURE).unwrap();
        let mut other = original.clone();
        let germany = other.windows(3).position(|bytes| bytes == b"BDE").unwrap();
        other[germany + 1..germany + 3].copy_from_slice(b"PL");
        replace(&other);
        assert_eq!(found(&countries, "192.0.2.7").as_deref(), Some("PL"));
        std::fs::remove_file(&path).unwrap();
        countries.refresh();
        assert_eq!(found(&countries, "192.0.2.7").as_deref(), Some("PL"));
    }

    /// A damaged file gives wrong countries at worst.
    #[test]
    fn a_damaged_database_gives_wrong_countries_at_worst() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("countries.mmdb");
        let original = std::fs::read(FIXTURE).unwrap();
        for place in (0..original.len()).step_by(7) {
            let mut damaged = original.clone();
            damaged[place] ^= 0xff;
            std::fs::write(&path, &damaged).unwrap();
            if let Ok(countries) = Countries::open(&path) {
                for address in ["192.0.2.7", "198.51.100.200", "2001:db8::1", "8.8.8.8"] {
                    let _ = found(&countries, address);
                }
            }
        }
    }
}
