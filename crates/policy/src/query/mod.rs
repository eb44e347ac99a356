//! Query strings, read exactly as PHP reads them.
//!
//! What is ignored is dropped from the key *and* from the request that goes upstream, so a name that only looks ignored
//! to us cannot be used to smuggle a value past the key. Names are compared after one decoding (`utm%5fsource`), and
//! reasons to pass after PHP's renaming (`preview.id` and `preview[id` are `$_GET['preview_id']`). Only `&` separates.
//! Parameters are sorted by the PHP variable they set, stably, so that the later of two writers stays the later.

mod normalise;
mod pairs;

pub use self::normalise::normalise;
pub(crate) use self::normalise::{QueryCacheability, drops_all, scan, write_dropped, write_kept};
pub use self::pairs::MAX_PARAMETERS;
pub(crate) use self::pairs::{
    FormDecoded, Parameter, is_urlencoded, split_pair, variable, variables,
};
