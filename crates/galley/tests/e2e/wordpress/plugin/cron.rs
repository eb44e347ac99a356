//! Scheduled tasks of a real WordPress that Galley runs: on time though nobody reaches PHP, once, and for each blog of a network.

use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use galley_testkit::{Cron, Galley, wait_for};
use serde_json::json;

use super::super::network::{NET, network};
use super::super::stack::{HIT, HOUR, Kind, SiteBuilder, Stack, TIMEOUT, assert_text, assert_way};
use super::{PLUGIN, TOKEN, assert_hit, install, rest};

both_alone! { a_scheduled_post_appears_though_nobody_reaches_php, a_scheduled_post_is_seen_at_its_second }

const OFTEN: &str = "cron = \"1s\"";

/// Says on each page who is to start tasks, notes the calls that WordPress makes, and leaves posts scheduled that are due within a
/// minute, which WordPress would publish at once.
const SPY: &str = r#"<?php
add_action( 'wp_footer', function () {
	echo defined( 'DISABLE_WP_CRON' ) && DISABLE_WP_CRON ? 'tasks: the server' : 'tasks: visits';
} );
add_filter( 'pre_http_request', function ( $answer, $arguments, $url ) {
	file_put_contents( dirname( ABSPATH ) . '/notes/calls', "$url\n", FILE_APPEND );
	return $answer;
}, 10, 3 );
add_filter( 'wp_insert_post_data', function ( $data ) {
	return strtotime( $data['post_date_gmt'] . ' GMT' ) > time() ? array( 'post_status' => 'future' ) + $data : $data;
} );
"#;

fn plan(host: &'static str, lines: &str) -> SiteBuilder {
    let mut plan = SiteBuilder::new([(host, format!("{lines}\n{HOUR}"))]);
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
    wait_for("tasks to be run", TIMEOUT, || {
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
    wait_for("the post on the home page", TIMEOUT * 2, || {
        stack.get("/").text().contains("Right on time")
    });
    assert_eq!(
        stack.runs("/"),
        composed + 1,
        "PHP composed it when it had changed"
    );
    let log = stack.galley.log();
    assert!(!log.contains("scheduled tasks failed"), "{log}");
    let calls = calls(&stack);
    assert!(!calls.contains("plugin.test/wp-cron.php"), "{calls}");
}

/// A rhythm that no test lives to see.
const SELDOM: &str = "cron = \"1d\"";

/// Seconds that a run may take on a busy machine; fewer than runs keep between each other.
const ON_TIME: std::ops::Range<f64> = 0.0..4.0;

/// Seconds from now to a moment in which the post's second has come, and then until it is on the front page.
fn seen_after(stack: &Stack, title: &str, due: u64) -> f64 {
    let now = || {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap()
            .as_secs_f64()
    };
    wait_for("the post on the home page", TIMEOUT, || {
        stack.get("/").text().contains(title)
    });
    now() - f64::from(u32::try_from(due).unwrap())
}

fn a_scheduled_post_is_seen_at_its_second(kind: Kind) {
    let mut plan = plan(PLUGIN, SELDOM);
    plan.options.cron = Cron::Off;
    let mut stack = Stack::start(kind, &plan);
    install(&stack);
    assert_hit(&stack, "/");
    assert_eq!(stack.runs("/wp-cron.php"), 0);
    let due = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs()
        + 8;
    let date = stack.php(&format!("echo gmdate('Y-m-d\\TH:i:s', {due});"));
    let post = json!({ "title": "To the second", "status": "future", "date_gmt": date.trim() });
    rest(&stack, "POST", "/wp/v2/posts", &post);
    let late = seen_after(&stack, "To the second", due);
    assert!(ON_TIME.contains(&late), "{late} s after its time");
    assert_eq!(stack.runs("/wp-cron.php"), 1, "one run for one post");
    // By a program, past Galley; and Galley starts anew before the moment has come.
    let due = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs()
        + 12;
    stack.php(&format!(
        "wp_insert_post(['post_title' => 'After a restart', 'post_content' => 'x', 'post_status' => 'future', \
         'post_date' => gmdate('Y-m-d H:i:s', {due}), 'post_date_gmt' => gmdate('Y-m-d H:i:s', {due}), 'post_author' => 1]);"
    ));
    let _ = stack.galley.stop();
    let config = stack.scratch.join("galley/galley.toml");
    let binary = Path::new(env!("CARGO_BIN_EXE_galley"));
    stack.galley =
        Galley::start_config(binary, &stack.scratch.dir("again").unwrap(), &config).unwrap();
    install(&stack);
    // The next page that PHP generates says it again.
    stack.get("/");
    let late = seen_after(&stack, "After a restart", due);
    assert!(ON_TIME.contains(&late), "{late} s after its time");
    assert_eq!(stack.runs("/wp-cron.php"), 2, "one run for each post");
}

#[test]
fn visits_start_the_tasks_where_galley_does_not() {
    let stack = Stack::start(Kind::Fpm, &plan(PLUGIN, "cron = \"off\""));
    install(&stack);
    let claim = galley_testkit::client::Request::get("/").field("Galley-Cron", "kept");
    assert_text(&stack.send(claim), "tasks: visits");
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
    wait_for("the second blog to be called", TIMEOUT * 2, || {
        calls(&stack).contains("http://net.test/second/wp-cron.php?doing_wp_cron\n")
    });
    let calls = calls(&stack);
    assert!(
        !calls.contains("http://net.test/wp-cron.php?doing_wp_cron\n"),
        "{calls}"
    );
}
