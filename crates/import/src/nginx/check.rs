//! The requests for which a server is compared with the draft: those of its locations, conditions and rules, combined so that those
//! that overlap meet.

use std::collections::BTreeSet;

use crate::comparison::{self, ComparedRequests};
use crate::directive::Directive;
use crate::draft::Draft;
use crate::evidence;
use crate::nginx::answer::NginxServer;
use crate::nginx::condition::{METHODS, comparison};
use crate::nginx::context::Context;
use crate::nginx::location_paths::LocationPaths;
use crate::nginx::server::{ServerRole, role};
use crate::requests::{USUAL_TARGETS, clients, longer, targets};
use crate::served::StatementPaths;

/// Compares a server with the draft.
pub(super) fn check<'d>(
    own: Vec<&'d Directive>,
    inherited: &[&'d Directive],
    draft: &Draft,
    context: &Context<'_>,
) {
    let ServerRole { schemes, host } = role(&own);
    let server = NginxServer::new(own, inherited, context);
    let directives = server.all();
    let of_access = |one: &&&Directive| matches!(one.name(), "allow" | "deny");
    let is_about_files =
        |one: &&Directive| one.name() == "if" && comparison(one).operator == "$request_filename";
    let is_about_methods =
        |one: &Directive| one.name() == "if" && comparison(one).variable == "$request_method";
    let depends_on_files = directives.iter().any(is_about_files);
    let compared = ComparedRequests {
        name: &host,
        schemes: &schemes,
        clients: clients(
            directives
                .iter()
                .filter(of_access)
                .map(|one| one.argument(0)),
        ),
        methods: if directives.iter().any(|one| is_about_methods(one)) {
            METHODS
        } else {
            &[]
        },
        is_missing: if depends_on_files {
            &[false, true]
        } else {
            &[false]
        },
        targets: samples(&directives, draft, &host),
        all: directives,
    };
    comparison::check(&server, &compared, draft, context.source);
}

fn samples(all: &[&Directive], draft: &Draft, host: &str) -> BTreeSet<String> {
    let mut names = USUAL_TARGETS.map(str::to_owned).to_vec();
    let mut folders = Vec::new();
    for one in all {
        // Paths of a location inside another one are those that both match.
        for inner in one.inner().iter().filter(|one| one.name() == "location") {
            let outer = LocationPaths::of(one).samples().samples();
            let inner = LocationPaths::of(inner).samples().samples();
            let both = |outer: &String| {
                let outer = outer.trim_end_matches('/').to_owned();
                inner.iter().map(move |inner| format!("{outer}{inner}"))
            };
            names.extend(outer.iter().flat_map(both));
        }
        let paths = match one.name() {
            "location" => LocationPaths::of(one).samples(),
            "rewrite" => StatementPaths::of_rule_pattern(one.argument(0)),
            "if" => StatementPaths::of_rule_pattern(&comparison(one).pattern),
            _ => continue,
        };
        let samples = paths.samples().into_iter();
        if matches!(paths, StatementPaths::Pattern(_)) {
            folders.extend(samples.filter(|sample| sample.ends_with('/')));
            names.extend(longer(&paths));
        } else {
            folders.extend(samples);
        }
    }
    let rules = draft.site_of(host).map_or(&[][..], |site| &site.rules);
    names.extend(
        rules
            .iter()
            .flat_map(|rule| evidence::samples(&rule.section)),
    );
    targets(&names, &folders)
}
