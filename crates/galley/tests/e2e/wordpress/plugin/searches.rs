//! Searches are purged by texts that their words are in, before or after, and by no others.

use serde_json::json;

use super::super::stack::Stack;
use super::{Around, rest, turn};

/// A search of REST, what a text needs for it (`None`: whatever changes purges), and the terms as WordPress is asked for them.
struct Search {
    path: &'static str,
    terms: &'static str,
    /// Which of the texts below change its page: of each edit, in their order.
    purged_by: [bool; 6],
}

/// One after the other, of the same post.
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
    // No word that results must have: each change of a text.
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

/// How many posts WordPress finds.
fn found(stack: &Stack, terms: &str) -> String {
    stack.php(&format!(
        "echo (new WP_Query(['s' => '{terms}', 'post_type' => 'post', 'post_status' => 'publish']))->found_posts;"
    ))
}

#[test]
fn a_text_purges_the_searches_whose_word_it_has() {
    let (stack, _turn) = turn();
    let id = stack.publish(["searched-for"])[0];
    for (number, text) in TEXTS.iter().enumerate() {
        let paths = |purged: bool| -> Vec<&str> {
            let some = SEARCHES.iter().filter(|it| it.purged_by[number] == purged);
            some.map(|it| it.path).collect()
        };
        let around = Around {
            changed: &paths(true),
            kept: &paths(false),
        };
        around.edit(stack, || {
            rest(
                stack,
                "POST",
                &format!("/wp/v2/posts/{id}"),
                &json!({ "content": text }),
            );
        });
        for Search { path, terms, .. } in SEARCHES {
            let page = stack.get(path);
            let total = page.field("x-wp-total").unwrap_or_default();
            assert_eq!(total, found(stack, terms).trim(), "{terms} in {text}");
        }
    }
}

#[test]
fn a_post_that_comes_or_goes_purges_its_searches() {
    let (stack, _turn) = turn();
    let id = stack.publish(["axolotl-seen"])[0];
    let around = Around {
        changed: &["/wp-json/wp/v2/posts?search=axolotl"],
        kept: &[
            "/wp-json/wp/v2/posts?search=zeppelin",
            "/wp-json/wp/v2/pages?search=axolotl",
        ],
    };
    for status in ["draft", "publish", "trash"] {
        around.edit(stack, || {
            stack.php(&format!(
                "wp_update_post(['ID' => {id}, 'post_status' => '{status}']);"
            ));
        });
    }
}

#[test]
fn too_many_words_are_forgotten_with_all_searches() {
    let (stack, _turn) = turn();
    let rows = "SELECT COUNT(*) FROM $wpdb->options WHERE option_name LIKE 'galley\\_word\\_%'";
    let count = || stack.php(&format!("global $wpdb; echo $wpdb->get_var(\"{rows}\");"));
    let id = stack.publish(["full-of-words"])[0];
    stack.php(
        "global $wpdb; foreach (range(1, 120) as $n) { $wpdb->query(\"INSERT IGNORE INTO $wpdb->options (option_name, option_value, autoload) VALUES ('galley_word_filler$n', '', 'no')\"); }",
    );
    let around = Around {
        // Its word came too late, and that of the other is forgotten.
        changed: &[
            "/wp-json/wp/v2/posts?search=latecomer",
            "/wp-json/wp/v2/posts?search=filler7",
        ],
        kept: &[],
    };
    around.edit(stack, || {
        stack.php(&format!(
            "wp_update_post(['ID' => {id}, 'post_content' => 'Nothing of that.']);"
        ));
    });
    assert_eq!(count().trim(), "2");
    let around = Around {
        changed: &[],
        kept: around.changed,
    };
    around.edit(stack, || {
        stack.php(&format!(
            "wp_update_post(['ID' => {id}, 'post_content' => 'Nothing of that either.']);"
        ));
    });
}

/// Whatever letter the database takes for one of ASCII, the plugin does, and no two of ASCII are one.
#[test]
fn letters_that_are_alike_for_the_database_are_for_the_plugin() {
    let (stack, _turn) = turn();
    let said = stack.php(
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
                    echo "$pair is one letter: $code\n";
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
    assert_eq!(said.trim(), "compared");
}
