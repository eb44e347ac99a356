//! What fuzz targets may do with formats that nobody else sees from outside. Compiled for them alone (`--cfg fuzzing`).

pub use crate::disk::fuzzing::disk_entry;
pub use crate::log::fuzzing::purge_log;
