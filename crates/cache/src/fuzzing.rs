//! Access for fuzz targets to private formats. Compiled only for them (`--cfg fuzzing`).

pub use crate::disk::fuzzing::disk_entry;
pub use crate::log::fuzzing::purge_log;
