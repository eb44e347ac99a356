//! Converts a VCL file: its backends, access lists and subroutines.

use std::path::Path;

use super::fields::{deliver, response};
use super::idioms::{COMPUTES, is_about_phones, network, switch_on};
use super::receive::receive;
use crate::draft::{Draft, ImportedSite, Value};
use crate::report::Report;
use crate::source::Source;
use crate::tree::{self, Grammar, ParsedDirective};
use crate::units;

/// Converts a VCL file to one site for every host.
pub(crate) fn convert(source: &dyn Source, main: &Path, report: &mut Report) -> Draft {
    let all = tree::read(source, main, Grammar::Vcl, report);
    let mut site = ImportedSite::default();
    site.section.add("hosts", ["*".to_owned()], None);
    for directive in &all {
        match directive.name() {
            "vcl" | "import" => report.not_needed(directive.id, "Galley needs no program"),
            "backend" => backend(directive, &mut site, report),
            "acl" => acl(directive, &mut site, report),
            "probe" => {
                directive.not_needed("Galley notices a failing server by its responses", report);
            }
            "sub" => subroutine(directive, &all, &mut site, report),
            _ => {}
        }
    }
    site.sort_rules();
    Draft {
        sites: vec![site],
        ..Draft::default()
    }
}

/// Converts a backend: `.host = "127.0.0.1"; .port = "8080";`
fn backend(directive: &ParsedDirective, site: &mut ImportedSite, report: &mut Report) {
    let value = |name: &str| {
        let mut all = directive.inner().iter();
        all.find(|inner| inner.name() == name)
            .map(|inner| inner.argument(1))
    };
    let host = value(".host").unwrap_or("127.0.0.1");
    let port = value(".port").unwrap_or("80");
    let section = &mut site.section;
    directive.adds(
        "upstream",
        [format!("http://{host}:{port}")],
        section,
        report,
    );
    for inner in directive.inner() {
        let value = inner.argument(1);
        match (inner.name(), units::duration(value)) {
            (".host" | ".port", _) => report.carried(inner.id, "upstream"),
            (".connect_timeout", Some(time)) => {
                inner.sets("connect_timeout", time, section, report);
            }
            (".first_byte_timeout", Some(time)) => {
                inner.sets("first_byte_timeout", time, section, report);
            }
            (".between_bytes_timeout", Some(time)) => {
                inner.sets("read_timeout", time, section, report);
            }
            (".max_connections", _) => {
                inner.sets("in_flight", Value::Verbatim(number(value)), section, report);
            }
            _ => inner.not_needed("Galley notices a failing server by its responses", report),
        }
    }
}

fn number(text: &str) -> String {
    text.parse::<u32>().unwrap_or(0).min(65_536).to_string()
}

/// Converts an access list; one with `purge` or `ban` in its name permits purges.
fn acl(directive: &ParsedDirective, site: &mut ImportedSite, report: &mut Report) {
    let is_for_purges = ["purge", "ban"]
        .iter()
        .any(|word| directive.argument(0).contains(word));
    for inner in directive.inner() {
        match network(inner).filter(|_| is_for_purges) {
            Some(network) => inner.adds("purge_allow", [network], &mut site.section, report),
            None => report.not_carried(
                inner.id,
                "name addresses and networks in `purge_allow`, `allow` or `admin_allow`",
            ),
        }
    }
    if is_for_purges {
        report.carried(directive.id, "purge_allow");
    } else {
        report.not_carried(directive.id, "use the list in `allow` or `admin_allow`");
    }
}

fn subroutine(
    directive: &ParsedDirective,
    all: &[ParsedDirective],
    site: &mut ImportedSite,
    report: &mut Report,
) {
    match directive.argument(0) {
        "vcl_recv" => {
            report.not_needed(directive.id, CONVERTED);
            for inner in directive.inner() {
                receive(inner, all, site, report);
            }
        }
        "vcl_backend_response" | "vcl_fetch" => statements(directive, response, site, report),
        "vcl_deliver" => statements(directive, deliver, site, report),
        "vcl_hash" if directive.inner().iter().any(is_about_phones) => {
            switch_on("device_variants", directive, site, report);
        }
        "vcl_hash" | "vcl_hit" | "vcl_miss" | "vcl_pass" | "vcl_pipe" | "vcl_purge"
        | "vcl_init" | "vcl_fini" | "vcl_backend_fetch" | "vcl_synth" | "vcl_backend_error"
        | "vcl_error" => {
            let why = "Galley's key, purges, WebSockets and error pages need no program";
            directive.not_needed(why, report);
        }
        _ => directive.not_carried(COMPUTES, report),
    }
}

fn statements(
    directive: &ParsedDirective,
    convert: fn(&ParsedDirective, &mut ImportedSite, &mut Report),
    site: &mut ImportedSite,
    report: &mut Report,
) {
    report.not_needed(directive.id, CONVERTED);
    for inner in directive.inner() {
        convert(inner, site, report);
    }
}

const CONVERTED: &str = "the statements in the subroutine are converted one by one";
