//! A text change purges a search if the text contains its words before or after the change, and no other search.

use serde_json::json;

use super::super::stack::WordPressStack;
use super::{ExpectedPurges, rest_api, shared_stack};

/// A search over the REST API, and the terms for the same query in PHP.
struct Search {
    path: &'static str,
    terms: &'static str,
    /// Whether each of the edits below purges the search, in the same order.
    purged_by: [bool; 6],
}

/// Successive texts of one post.
const TEXTS: [&str; 6] = [
    "A boat.",
    "A striped QUAGGAS herd.",
    "A qu\u{e4}gga.",
    "Quagga and zorilla.",
    "Quagga.",
    "A boat again.",
];

const SEARCHES: &[Search] = &[
    search(
        "/wp-json/wp/v2/posts?search=quagga",
        "quagga",
        [false, true, true, true, true, true],
    ),
    search(
        "/wp-json/wp/v2/posts?search=uagg",
        "uagg",
        [false, true, true, true, true, true],
    ),
    search(
        "/wp-json/wp/v2/posts?search=a+striped+quagga",
        "a striped quagga",
        [false, true, true, false, false, false],
    ),
    search(
        "/wp-json/wp/v2/posts?search=%22striped+quagga%22",
        "\"striped quagga\"",
        [false, true, true, false, false, false],
    ),
    search(
        "/wp-json/wp/v2/posts?search=quagga+-zorilla",
        "quagga -zorilla",
        [false, true, true, true, true, true],
    ),
    search(
        "/wp-json/wp/v2/posts?search=zorilla",
        "zorilla",
        [false, false, false, true, true, false],
    ),
    search(
        "/wp-json/wp/v2/posts?search=zeppelin",
        "zeppelin",
        [false; 6],
    ),
    // Searches without a usable required word are purged by each text change.
    search("/wp-json/wp/v2/posts?search=-quagga", "-quagga", [true; 6]),
    search(
        "/wp-json/wp/v2/posts?search=%D0%BF%D0%B0%D1%80%D0%BE%D0%BC",
        "\u{43f}\u{430}\u{440}\u{43e}\u{43c}",
        [true; 6],
    ),
];

const fn search(path: &'static str, terms: &'static str, purged_by: [bool; 6]) -> Search {
    Search {
        path,
        terms,
        purged_by,
    }
}

/// Returns how many posts WordPress finds.
fn found_count(stack: &WordPressStack, terms: &str) -> String {
    stack.php(&format!(
        "echo (new WP_Query(['s' => '{terms}', 'post_type' => 'post', 'post_status' => 'publish']))->found_posts;"
    ))
}

#[test]
fn a_text_change_purges_searches_for_its_words() {
    let (stack, _lock) = shared_stack();
    let id = stack.publish(["searched-for"])[0];
    for (number, text) in TEXTS.iter().enumerate() {
        let paths = |purged: bool| -> Vec<&str> {
            let matching = SEARCHES
                .iter()
                .filter(|search| search.purged_by[number] == purged);
            matching.map(|search| search.path).collect()
        };
        let expected = ExpectedPurges {
            purged: &paths(true),
            unaffected: &paths(false),
        };
        expected.check_after(stack, || {
            rest_api(
                stack,
                "POST",
                &format!("/wp/v2/posts/{id}"),
                &json!({ "content": text }),
            );
        });
        for Search { path, terms, .. } in SEARCHES {
            let page = stack.get(path);
            let total = page.field("x-wp-total").unwrap_or_default();
            assert_eq!(total, found_count(stack, terms).trim(), "{terms} in {text}");
        }
    }
}

#[test]
fn publishing_or_removing_a_post_purges_matching_searches() {
    let (stack, _lock) = shared_stack();
    let id = stack.publish(["axolotl-seen"])[0];
    let expected = ExpectedPurges {
        purged: &["/wp-json/wp/v2/posts?search=axolotl"],
        unaffected: &[
            "/wp-json/wp/v2/posts?search=zeppelin",
            "/wp-json/wp/v2/pages?search=axolotl",
        ],
    };
    for status in ["draft", "publish", "trash"] {
        expected.check_after(stack, || {
            stack.php(&format!(
                "wp_update_post(['ID' => {id}, 'post_status' => '{status}']);"
            ));
        });
    }
}

#[test]
fn too_many_search_words_purge_all_searches() {
    let (stack, _lock) = shared_stack();
    let rows = "SELECT COUNT(*) FROM $wpdb->options WHERE option_name LIKE 'galley\\_word\\_%'";
    let count = || stack.php(&format!("global $wpdb; echo $wpdb->get_var(\"{rows}\");"));
    let id = stack.publish(["full-of-words"])[0];
    stack.php(
        "global $wpdb; foreach (range(1, 120) as $n) { $wpdb->query(\"INSERT IGNORE INTO $wpdb->options (option_name, option_value, autoload) VALUES ('galley_word_filler$n', '', 'no')\"); }",
    );
    let expected = ExpectedPurges {
        // The word of the first search exceeded the limit, and that of the second was discarded.
        purged: &[
            "/wp-json/wp/v2/posts?search=latecomer",
            "/wp-json/wp/v2/posts?search=filler7",
        ],
        unaffected: &[],
    };
    expected.check_after(stack, || {
        stack.php(&format!(
            "wp_update_post(['ID' => {id}, 'post_content' => 'Nothing of that.']);"
        ));
    });
    assert_eq!(count().trim(), "2");
    let expected = ExpectedPurges {
        purged: &[],
        unaffected: expected.purged,
    };
    expected.check_after(stack, || {
        stack.php(&format!(
            "wp_update_post(['ID' => {id}, 'post_content' => 'Nothing of that either.']);"
        ));
    });
}

/// Each letter that the database treats as equal to an ASCII letter, the plugin does, too. No single letter equals two ASCII letters.
#[test]
fn the_plugin_folds_letters_like_the_database_collations() {
    let (stack, _lock) = shared_stack();
    let output = stack.php(
        r#"
        global $wpdb;
        $letters = array_merge(range('a', 'z'), array_map('strval', range(0, 9)));
        $known = array_column($wpdb->get_results("SELECT FULL_COLLATION_NAME name FROM information_schema.COLLATION_CHARACTER_SET_APPLICABILITY WHERE CHARACTER_SET_NAME = 'utf8mb4'", ARRAY_A), 'name');
        $plain = preg_grep('/nopad/', preg_grep(\Galley\PLAIN_COLLATIONS, $known), PREG_GREP_INVERT);
        $alike = 0;
        foreach ($plain as $collation) {
            $wpdb->query('DROP TEMPORARY TABLE IF EXISTS letters');
            $wpdb->query("CREATE TEMPORARY TABLE letters (code INT, letter VARCHAR(4) CHARACTER SET utf8mb4 COLLATE $collation)");
            $wpdb->query("INSERT INTO letters SELECT seq, CONVERT(CHAR(seq USING utf32) USING utf8mb4) FROM seq_48_to_131071 WHERE seq NOT BETWEEN 55296 AND 57343");
            foreach (array('aa', 'ss', 'ae', 'oe', 'ff', 'fi', 'ij', 'th', 'tm', 'nj', 'dz', '12') as $pair) {
                foreach ($wpdb->get_col("SELECT code FROM letters WHERE letter LIKE '$pair'") as $code) {
                    echo "$pair equals one letter: $code\n";
                }
            }
            foreach ($letters as $letter) {
                foreach ($wpdb->get_col("SELECT code FROM letters WHERE letter LIKE '$letter'") as $code) {
                    $text = 'x' . mb_chr((int) $code, 'UTF-8') . 'x';
                    $alike++;
                    if (array() === \Galley\words_in(array("x{$letter}x"), $text)) {
                        echo "$collation $letter $code\n";
                    }
                }
            }
        }
        echo count($plain) > 2 && $alike > 1000 ? 'compared' : "$alike in " . implode(' ', $plain), $wpdb->last_error;
        "#,
    );
    assert_eq!(output.trim(), "compared");
}
