//! The PHP page of most test sites, and how tests read its output.

/// The form of a page's path that file names in `notes/` use.
pub fn note_name(page: &str) -> String {
    page.replace('/', "_")
}

/// The value after `name=` at the start of a line of [`TEST_PAGE`].
pub fn page_value<'a>(body: &'a str, name: &str) -> &'a str {
    let start = format!("{name}=");
    body.lines()
        .find_map(|line| line.strip_prefix(start.as_str()))
        .unwrap_or_else(|| panic!("no `{name}` in {body}"))
}

/// Counts its runs, waits where files in `notes/` say so, sends the header fields from a file, and prints the request.
pub const TEST_PAGE: &str = r#"<?php
$notes = __DIR__ . '/../notes';
$path = explode('?', $_SERVER['REQUEST_URI'])[0];
$name = str_replace('/', '_', $path);
$file = fopen("$notes/runs$name", 'c+');
flock($file, LOCK_EX);
$run = (int) stream_get_contents($file) + 1;
rewind($file);
fwrite($file, (string) $run);
fflush($file);
flock($file, LOCK_UN);
fclose($file);
function await($file) {
    for ($i = 0; $i < 10000; $i++) {
        clearstatcache();
        if (file_exists($file)) {
            return;
        }
        usleep(2000);
    }
    exit("timed out\n");
}
if (file_exists("$notes/hold$name")) {
    touch("$notes/held$name");
    await("$notes/go$name");
}
foreach (@file("$notes/head$name", FILE_IGNORE_NEW_LINES) ?: [] as $line) {
    if (preg_match('/^Status: (\d+)/', $line, $found)) {
        http_response_code((int) $found[1]);
    } else {
        header(str_replace('{run}', $run, $line), false);
    }
}
echo "<html><body>\nrun=$run\npath=$path\n";
if (file_exists("$notes/pause$name")) {
    while (ob_get_level() > 0) {
        ob_end_flush();
    }
    flush();
    touch("$notes/paused$name");
    await("$notes/resume$name");
}
echo "method=$_SERVER[REQUEST_METHOD]\nuri=$_SERVER[REQUEST_URI]\nquery=$_SERVER[QUERY_STRING]\n";
foreach ($_SERVER as $key => $value) {
    if (strncmp($key, 'HTTP_', 5) === 0) {
        echo "$key=$value\n";
    }
}
echo 'body=', file_get_contents('php://input'), "\n</body></html>\n";
"#;
