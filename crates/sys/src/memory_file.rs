//! Sealed files in memory, which pass immutable content to another process (`memfd_create(2)`).

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;

use rustix::fs::{MemfdFlags, SealFlags};

/// Creates a sealed file with this content. A process that is started inherits it only if its descriptor is passed on.
pub fn sealed(name: &str, content: &[u8]) -> io::Result<OwnedFd> {
    let mut file = create(name)?;
    file.write_all(content)?;
    seal(&mut file)?;
    Ok(file.into())
}

/// Reads a sealed file of at most `most` bytes.
///
/// Errors: also if it is not sealed.
pub fn read_sealed(file: impl AsFd, most: u64) -> io::Result<Vec<u8>> {
    let file = File::from(file.as_fd().try_clone_to_owned()?);
    if !rustix::fs::fcntl_get_seals(&file).is_ok_and(|seals| seals.contains(SEALS)) {
        return Err(io::Error::other("the file can be changed"));
    }
    let length = file.metadata()?.len();
    if length > most {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut content = vec![0; usize::try_from(length).map_err(io::Error::other)?];
    // The descriptor's position is shared with other processes, so it is not used.
    file.read_exact_at(&mut content, 0)?;
    Ok(content)
}

/// Creates an empty file, to be written and then sealed.
pub fn create(name: &str) -> io::Result<File> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    Ok(rustix::fs::memfd_create(name, flags).map(File::from)?)
}

/// Seals the file against changes, and rewinds it.
pub fn seal(file: &mut File) -> io::Result<()> {
    file.seek(SeekFrom::Start(0))?;
    Ok(rustix::fs::fcntl_add_seals(file, SEALS)?)
}

const SEALS: SealFlags = SealFlags::SEAL
    .union(SealFlags::SHRINK)
    .union(SealFlags::GROW)
    .union(SealFlags::WRITE);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_file_is_readable_and_immutable() {
        let file = sealed("a", b"content").unwrap();
        assert_eq!(read_sealed(&file, 7).unwrap(), b"content");
        // Again: reading has not moved the position.
        assert_eq!(read_sealed(&file, 7).unwrap(), b"content");
        assert!(read_sealed(&file, 6).is_err());
        let mut file = File::from(file);
        assert!(file.write_all(b"other").is_err() && file.set_len(0).is_err());
    }

    #[test]
    fn a_file_that_can_be_changed_is_rejected() {
        let mut file = create("a").unwrap();
        file.write_all(b"content").unwrap();
        assert!(read_sealed(&file, 9).is_err());
        seal(&mut file).unwrap();
        assert_eq!(read_sealed(&file, 9).unwrap(), b"content");
    }
}
