//! The soak in its short form: 200,000 requests over 250 connections, a tenth of them uncached through FastCGI, without a
//! failure and with flat memory and descriptors. `make soak` runs the long form of the same.

use std::path::Path;

use galley_testkit::stress::{Form, Part, Setting};

#[test]
fn a_long_load_fails_no_request_and_leaks_nothing() {
    let setting = Setting {
        galley: Path::new(env!("CARGO_BIN_EXE_galley")).to_owned(),
        form: Form::Short,
        requests: None,
        connections: None,
        killed_for: None,
        progress: |_| {},
    };
    let row = Part::Soak.run(&setting).unwrap();
    assert_eq!(row.requests, 200_000);
    let complaints = row.complaints(setting.form);
    assert!(complaints.is_empty(), "{complaints:?}\n{row:#?}");
}
