//! Hostile input, sent as raw bytes to the running server and to its peers: what one reader takes for one request and
//! another for two, what poisons a page for the next visitor, and what makes a page of one visitor public.

#![expect(clippy::unwrap_used, reason = "tests, their helpers too")]

mod case;
mod corpus;
mod cuts;
mod differ;
mod drive;
mod early;
mod http2;
#[path = "../../../http/tests/it/peer.rs"]
mod peer;
#[path = "../../../http/tests/it/reader.rs"]
mod reader;
mod stage;
mod table;
