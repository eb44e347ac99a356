//! Fixtures of the end-to-end tests: a site with its upstream, a PHP page that files in `notes/` control, and helpers that send
//! requests and read output.
//!
//! Every wait has a deadline, and every resource belongs to one test. The page ([`TEST_PAGE`]) counts its runs, and a test can
//! hold it at any point.

mod builder;
mod bytes;
mod output;
mod page;
mod process;
mod request;
mod site;

pub use builder::{HOST, SiteBuilder, binary, token_file};
pub use bytes::{random_bytes, sha256};
pub use output::{doctor_finding, json_number, output_text};
pub use page::{TEST_PAGE, note_name, page_value};
pub use process::{account, children, is_running, kill, status_field};
pub use request::{AssertStatus, run_concurrently, with_host};
pub use site::{SHORT_TIMEOUT, TIMEOUT, TestSite};
