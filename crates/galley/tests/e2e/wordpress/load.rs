//! `galley load` against a real WordPress, with a share of requests from a user that it logs in.

use galley_testkit::Scratch;

use super::stack::WordPressStack;
use crate::load::{load, report};
use crate::support::{AssertStatus, output_text};

test_with_shared_stacks! { load_sends_a_share_of_requests_as_a_logged_in_user }

fn load_sends_a_share_of_requests_as_a_logged_in_user(stack: &WordPressStack) {
    stack.publish(["load-first", "load-second"]);
    for page in ["/load-first/", "/load-second/"] {
        stack.get(page).assert_status(200);
    }
    let dir = Scratch::new().unwrap();
    let password = dir.write("password", &stack.wordpress.password).unwrap();
    let password = password.display().to_string();
    let address = stack.addr().to_string();
    let url = format!("http://{}/load-first/", stack.host);
    let second = format!("http://{}/load-second/", stack.host);
    let run = [
        &*url,
        &second,
        "--connect-to",
        &address,
        "--rate",
        "20",
        "--duration",
        "3s",
        "--json",
    ];
    let logged_in = |password_file: &str| {
        let login = ["--logged-in", "30%", "--user", "editor", "--password-file"];
        load(&[&run[..], &login, &[password_file]].concat())
    };
    let output = logged_in(&password);
    assert_eq!(output.status.code(), Some(0), "{}", output_text(&output));
    let report = report(&output);
    assert_eq!(
        (&report["responses"], &report["failures"]),
        (&60.into(), &0.into()),
        "{report}"
    );
    assert_eq!(report["statuses"]["200"], 60, "{report}");
    // PHP generates the responses to the editor. The others come from the cache.
    let count = |word: &str| report["cache"][word].as_u64().unwrap_or_default();
    assert!((8..=30).contains(&count("bypass")), "{report}");
    assert_eq!(count("hit") + count("bypass"), 60, "{report}");

    let wrong = dir.write("wrong", "no password").unwrap();
    let wrong = wrong.display().to_string();
    let output = logged_in(&wrong);
    assert_eq!(output.status.code(), Some(1), "{}", output_text(&output));
    let text = output_text(&output);
    assert!(text.contains("did not log `editor` in"), "{text}");
}
