//! `galley why` predicts the next response. Sites, pages, requests and purges are generated; each request is predicted and then sent.
//!
//! A run prints its seed. `GALLEY_EXACT_SEED=7` repeats one, `GALLEY_EXACT_SECONDS=600` makes it longer.

mod compare;
mod pages;
mod random;
mod run;
mod sites;
mod steps;
