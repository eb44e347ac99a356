//! Query strings, read exactly as PHP reads them.
//!
//! An ignored parameter is dropped from the key *and* from the request to the upstream, so a name that only Galley ignores
//! cannot be used to smuggle a value past the key. Names are compared after one decoding (`utm%5fsource`), and reasons to
//! pass after PHP's renaming (`preview.id` and `preview[id` are `$_GET['preview_id']`). Only `&` separates. Parameters are
//! sorted by the PHP variable that they set, stably, so that the later of two stays the later.

mod normalise;
mod pairs;

pub use self::normalise::normalise;
pub(crate) use self::normalise::{QueryCacheability, drops_all, scan, write_dropped, write_kept};
pub use self::pairs::MAX_PARAMETERS;
pub(crate) use self::pairs::{
    FormDecoded, Parameter, is_urlencoded, split_pair, variable, variables,
};
