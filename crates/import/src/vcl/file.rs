//! Converts a VCL file: its backends, access lists and subroutines.

use std::path::Path;

use super::fields::{deliver, response};
use super::receive::{is_after, receive, returns};
use super::words::computes;
use crate::directive::ParsedDirective;
use crate::draft::{Draft, ImportedSite};
use crate::report::Report;
use crate::source::Source;
use crate::tree::{self, Grammar};
use crate::units;

/// Converts a VCL file to one site for every host.
pub(crate) fn convert(source: &dyn Source, main: &Path, report: &mut Report) -> Draft {
    let all = tree::read(source, main, Grammar::Vcl, report);
    let mut site = ImportedSite::default();
    site.section.add("hosts", ["*".to_owned()], None);
    let mut backends = all.iter().filter(|one| one.name() == "backend");
    // Varnish uses the backend of this name, otherwise the first one.
    let default = backends.clone().find(|one| one.argument(0) == "default");
    let default = default.or_else(|| backends.next()).map(|one| one.id);
    for directive in &all {
        match directive.name() {
            "vcl" | "import" => report.not_needed(directive.id, "Galley needs no program"),
            "backend" if default == Some(directive.id) => backend(directive, &mut site, report),
            "backend" => directive.not_carried(ONE_BACKEND, report),
            "sub" => subroutine(directive, &all, &mut site, report),
            _ => {}
        }
    }
    unused_lists(&all, report);
    site.sort_rules();
    Draft {
        sites: vec![site],
        ..Draft::default()
    }
}

const ONE_BACKEND: &str = "write a rule with `upstream` for its paths";

/// Reports the access lists that no subroutine carried.
fn unused_lists(all: &[ParsedDirective], report: &mut Report) {
    for list in all.iter().filter(|one| one.name() == "acl") {
        if !report.has_outcome(list.id) {
            let remedy = "name the networks in `purge_allow`, `allow` or `admin_allow`";
            list.not_carried(remedy, report);
        }
    }
}

/// Converts a backend: `.host = "127.0.0.1"; .port = "8080";`
fn backend(directive: &ParsedDirective, site: &mut ImportedSite, report: &mut Report) {
    let value = |name: &str| {
        let mut all = directive.inner().iter();
        all.find(|inner| inner.name() == name)
            .map(|inner| inner.argument(1))
    };
    let (Some(host), port) = (
        value(".host").filter(|host| !host.starts_with('/')),
        value(".port").unwrap_or("80"),
    ) else {
        return directive.not_carried("set `upstream` to the address of the server", report);
    };
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
            _ => inner.not_carried(
                "set `health_check` and the other options of the upstream",
                report,
            ),
        }
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
            let mut before = Vec::new();
            for inner in directive.inner() {
                receive(inner, all, site, report);
                if is_after(inner, &before) {
                    inner.not_carried(AFTER_RETURN, report);
                }
                before.extend(returns(inner));
            }
        }
        "vcl_backend_response" | "vcl_fetch" => statements(directive, response, site, report),
        "vcl_deliver" => statements(directive, deliver, site, report),
        _ => computes(directive, report),
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

const AFTER_RETURN: &str =
    "a statement before it returns for some requests: compare which ones get here";

const CONVERTED: &str = "the statements in the subroutine are converted one by one";
