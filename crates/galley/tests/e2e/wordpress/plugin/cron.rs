//! Scheduled tasks of a real WordPress that Galley runs: on time though nobody reaches PHP, once, and for each blog of a network.

use std::fs;

use galley_testkit::{Cron, wait_for};

use super::super::network::{NET, network};
use super::super::stack::{HIT, HOUR, Kind, PATIENCE, Plan, Stack, assert_text, assert_way};
use super::{PLUGIN, TOKEN, install};

both_alone! { a_scheduled_post_appears_though_nobody_reaches_php }

const OFTEN: &str = "cron = \"1s\"";

/// Says on each page who is to start tasks, and notes the calls that WordPress makes.
const SPY: &str = r#"<?php
add_action( 'wp_footer', function () {
	echo defined( 'DISABLE_WP_CRON' ) && DISABLE_WP_CRON ? 'tasks: the server' : 'tasks: visits';
} );
add_filter( 'pre_http_request', function ( $answer, $arguments, $url ) {
	file_put_contents( dirname( ABSPATH ) . '/notes/calls', "$url\n", FILE_APPEND );
	return $answer;
}, 10, 3 );
"#;

fn plan(host: &'static str, lines: &str) -> Plan {
    let mut plan = Plan::new([(host, format!("{lines}\n{HOUR}"))]);
    plan.token = Some(TOKEN);
    plan.options.cron = Cron::OnVisits;
    // A program's call to a host that nobody has would keep WordPress's lock for a minute.
    "if ( PHP_SAPI === 'cli' ) { define( 'DISABLE_WP_CRON', true ); }\n"
        .clone_into(&mut plan.options.extra_config);
    let spy = ("spy.php".to_owned(), SPY.to_owned());
    plan.options.mu_plugins.push(spy);
    plan
}

fn calls(stack: &Stack) -> String {
    fs::read_to_string(stack.scratch.join("notes/calls")).unwrap_or_default()
}

/// A second run begins when the first has ended.
fn wait_for_runs(stack: &Stack) {
    wait_for("tasks to be run", PATIENCE, || {
        stack.runs("/wp-cron.php") > 1
    });
}

fn a_scheduled_post_appears_though_nobody_reaches_php(kind: Kind) {
    let stack = Stack::start(kind, &plan(PLUGIN, OFTEN));
    install(&stack);
    wait_for_runs(&stack);
    let id = stack.php(
        "echo wp_insert_post(['post_title' => 'Right on time', 'post_name' => 'right-on-time', 'post_content' => 'x', \
         'post_status' => 'future', 'post_date' => gmdate('Y-m-d H:i:s', time() + 3600), 'post_author' => 1]);",
    );
    stack.get("/");
    let before = stack.get("/");
    assert_way(&before, HIT);
    assert!(!before.text().contains("Right on time"));
    assert_text(&before, "tasks: the server");
    let composed = stack.runs("/");
    // Its moment comes, past every hook: nothing but a run of the tasks can find out.
    stack.php(&format!(
        "global $wpdb; $past = gmdate('Y-m-d H:i:s', time() - 5); \
         $wpdb->update($wpdb->posts, ['post_date' => $past, 'post_date_gmt' => $past], ['ID' => {id}]); \
         wp_clear_scheduled_hook('publish_future_post', [{id}]); wp_schedule_single_event(time() - 5, 'publish_future_post', [{id}]);"
    ));
    wait_for("the post on the home page", PATIENCE * 2, || {
        stack.get("/").text().contains("Right on time")
    });
    assert_eq!(
        stack.runs("/"),
        composed + 1,
        "PHP composed it when it had changed"
    );
    let log = stack.galley.log();
    assert!(!log.contains("scheduled tasks do not run"), "{log}");
    let calls = calls(&stack);
    assert!(!calls.contains("plugin.test/wp-cron.php"), "{calls}");
}

#[test]
fn visits_start_the_tasks_where_galley_does_not() {
    let stack = Stack::start(Kind::Fpm, &plan(PLUGIN, "cron = \"off\""));
    install(&stack);
    let claim = galley_testkit::client::Request::get("/").field("Galley-Cron", "kept");
    assert_text(&stack.ask(claim), "tasks: visits");
}

#[test]
fn all_blogs_of_a_network_have_their_tasks_run() {
    let mut plan = plan(NET, &format!("{OFTEN}\nmultisite = true"));
    let stack = network(Kind::Fpm, &mut plan);
    install(&stack);
    stack.php(
        "foreach ([1, 2] as $id) { switch_to_blog($id); _set_cron_array([]); restore_current_blog(); } \
         switch_to_blog(2); wp_schedule_single_event(time() - 5, 'a_task_of_the_second'); restore_current_blog();",
    );
    wait_for("the second blog to be called", PATIENCE * 2, || {
        calls(&stack).contains("http://net.test/second/wp-cron.php?doing_wp_cron\n")
    });
    let calls = calls(&stack);
    assert!(
        !calls.contains("http://net.test/wp-cron.php?doing_wp_cron\n"),
        "{calls}"
    );
}
