//! `galley why` predicts the next response: generated sites, pages, requests and purges, with one question and one request each.
//!
//! A run prints its seed. `GALLEY_EXACT_SEED=7` repeats one, `GALLEY_EXACT_SECONDS=600` makes it longer.

mod compare;
mod dice;
mod pages;
mod run;
mod sites;
mod steps;
