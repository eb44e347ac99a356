//! What is generated from the table of options: the reference page, the manual page, the sample and the schema.

mod manual_page;
mod reference;
mod schema;

pub use manual_page::manual_page;
pub use reference::{reference, sample};
pub use schema::schema;
