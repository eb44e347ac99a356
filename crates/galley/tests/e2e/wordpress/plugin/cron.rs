//! Scheduled tasks that Galley runs for a real WordPress: on time without requests to PHP, only once, and for each site of a
//! multisite.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use galley_testkit::{Cron, Galley, wait_for};
use serde_json::json;

use super::super::multisite::{NET, start_multisite};
use super::super::stack::{
    HIT, HOUR, StackOptions, TIMEOUT, UpstreamKind, WordPressStack, assert_cache_status,
    assert_text,
};
use super::{PLUGIN, TOKEN, assert_hit, install, rest_api};

test_with_own_stack! { a_scheduled_post_appears_without_requests_to_php, a_scheduled_post_appears_within_seconds_of_its_date }

const EVERY_SECOND: &str = "cron = \"1s\"";

/// Prints on each page what starts tasks, records the HTTP requests of WordPress, and keeps posts scheduled that are due within a
/// minute, which WordPress would publish immediately.
const SPY: &str = r#"<?php
add_action( 'wp_footer', function () {
	echo defined( 'DISABLE_WP_CRON' ) && DISABLE_WP_CRON ? 'tasks: the server' : 'tasks: visits';
} );
add_filter( 'pre_http_request', function ( $response, $arguments, $url ) {
	file_put_contents( dirname( ABSPATH ) . '/notes/calls', "$url\n", FILE_APPEND );
	return $response;
}, 10, 3 );
add_filter( 'wp_insert_post_data', function ( $data ) {
	return strtotime( $data['post_date_gmt'] . ' GMT' ) > time() ? array( 'post_status' => 'future' ) + $data : $data;
} );
"#;

fn stack_options(host: &'static str, lines: &str) -> StackOptions {
    let mut options = StackOptions::new([(host, format!("{lines}\n{HOUR}"))]);
    options.admin_token = Some(TOKEN);
    options.wordpress.cron = Cron::OnVisits;
    // On the command line, a request of WordPress to an unresolvable host would hold its cron lock for a minute.
    "if ( PHP_SAPI === 'cli' ) { define( 'DISABLE_WP_CRON', true ); }\n"
        .clone_into(&mut options.wordpress.extra_config);
    let spy = ("spy.php".to_owned(), SPY.to_owned());
    options.wordpress.mu_plugins.push(spy);
    options
}

fn http_requests(stack: &WordPressStack) -> String {
    fs::read_to_string(stack.scratch.join("notes/calls")).unwrap_or_default()
}

/// Waits for the start of the second run, which implies that the first has ended.
fn wait_for_runs(stack: &WordPressStack) {
    wait_for("tasks to be run", TIMEOUT, || {
        stack.php_runs("/wp-cron.php") > 1
    });
}

fn a_scheduled_post_appears_without_requests_to_php(kind: UpstreamKind) {
    let stack = WordPressStack::start(kind, &stack_options(PLUGIN, EVERY_SECOND));
    install(&stack);
    wait_for_runs(&stack);
    let id = stack.php(
        "echo wp_insert_post(['post_title' => 'Right on time', 'post_name' => 'right-on-time', 'post_content' => 'x', \
         'post_status' => 'future', 'post_date' => gmdate('Y-m-d H:i:s', time() + 3600), 'post_author' => 1]);",
    );
    stack.get("/");
    let before = stack.get("/");
    assert_cache_status(&before, HIT);
    assert!(!before.text().contains("Right on time"));
    assert_text(&before, "tasks: the server");
    let generated = stack.php_runs("/");
    // The post becomes due without any hook, so only a run of the tasks can publish it.
    stack.php(&format!(
        "global $wpdb; $past = gmdate('Y-m-d H:i:s', time() - 5); \
         $wpdb->update($wpdb->posts, ['post_date' => $past, 'post_date_gmt' => $past], ['ID' => {id}]); \
         wp_clear_scheduled_hook('publish_future_post', [{id}]); wp_schedule_single_event(time() - 5, 'publish_future_post', [{id}]);"
    ));
    wait_for("the post on the home page", TIMEOUT * 2, || {
        stack.get("/").text().contains("Right on time")
    });
    assert_eq!(
        stack.php_runs("/"),
        generated + 1,
        "PHP did not generate the page exactly once after the change"
    );
    let log = stack.galley.log();
    assert!(!log.contains("scheduled tasks failed"), "{log}");
    let requests = http_requests(&stack);
    assert!(!requests.contains("plugin.test/wp-cron.php"), "{requests}");
}

/// An interval longer than any test.
const DAILY: &str = "cron = \"1d\"";

/// Permitted delay in seconds on a busy machine, less than the interval between runs.
const ON_TIME: std::ops::Range<f64> = 0.0..4.0;

fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

/// Waits until the post is on the front page, and returns the seconds since it was due.
fn publication_delay(stack: &WordPressStack, title: &str, due: u64) -> f64 {
    wait_for("the post on the home page", TIMEOUT, || {
        stack.get("/").text().contains(title)
    });
    since_epoch().as_secs_f64() - f64::from(u32::try_from(due).unwrap())
}

fn a_scheduled_post_appears_within_seconds_of_its_date(kind: UpstreamKind) {
    let mut options = stack_options(PLUGIN, DAILY);
    options.wordpress.cron = Cron::Off;
    let mut stack = WordPressStack::start(kind, &options);
    install(&stack);
    assert_hit(&stack, "/");
    assert_eq!(stack.php_runs("/wp-cron.php"), 0);
    let due = since_epoch().as_secs() + 8;
    let date = stack.php(&format!("echo gmdate('Y-m-d\\TH:i:s', {due});"));
    let post = json!({ "title": "To the second", "status": "future", "date_gmt": date.trim() });
    rest_api(&stack, "POST", "/wp/v2/posts", &post);
    let delay = publication_delay(&stack, "To the second", due);
    assert!(
        ON_TIME.contains(&delay),
        "published {delay} s after it was due"
    );
    assert_eq!(
        stack.php_runs("/wp-cron.php"),
        1,
        "number of runs for one post"
    );
    // The second post is scheduled on the command line, and Galley restarts before it is due.
    let due = since_epoch().as_secs() + 12;
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
    // The next page that PHP generates tells Galley the due date again.
    stack.get("/");
    let delay = publication_delay(&stack, "After a restart", due);
    assert!(
        ON_TIME.contains(&delay),
        "published {delay} s after it was due"
    );
    assert_eq!(
        stack.php_runs("/wp-cron.php"),
        2,
        "number of runs for two posts"
    );
}

#[test]
fn visits_start_scheduled_tasks_when_galley_cron_is_off() {
    let stack = WordPressStack::start(UpstreamKind::Fpm, &stack_options(PLUGIN, "cron = \"off\""));
    install(&stack);
    let forged = galley_testkit::client::Request::get("/").field("Galley-Cron", "kept");
    assert_text(&stack.send(forged), "tasks: visits");
}

#[test]
fn cron_runs_for_every_site_of_a_multisite() {
    let mut options = stack_options(NET, &format!("{EVERY_SECOND}\nmultisite = true"));
    let stack = start_multisite(UpstreamKind::Fpm, &mut options);
    install(&stack);
    stack.php(
        "foreach ([1, 2] as $id) { switch_to_blog($id); _set_cron_array([]); restore_current_blog(); } \
         switch_to_blog(2); wp_schedule_single_event(time() - 5, 'a_task_of_the_second'); restore_current_blog();",
    );
    wait_for("a request to the second site", TIMEOUT * 2, || {
        http_requests(&stack).contains("http://net.test/second/wp-cron.php?doing_wp_cron\n")
    });
    let requests = http_requests(&stack);
    assert!(
        !requests.contains("http://net.test/wp-cron.php?doing_wp_cron\n"),
        "{requests}"
    );
}
