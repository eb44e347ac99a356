//! HTTP/2 in the clear: what HTTP/1 answers, HTTP/2 answers, and what attacks a connection ends it.

mod alike;
pub mod ask;
pub mod attacks;
mod programs;
mod slow;
mod streams;
