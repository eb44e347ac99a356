//! HTTP responses of an upstream that Galley has to reject or accept.

const HTML: &str = "Content-Type: text/html\r\nCache-Control: max-age=600\r\n";

/// A response and what Galley does with it.
pub struct ResponseCase {
    /// Path of the request, without the slash.
    pub name: &'static str,
    pub bytes: String,
    /// Body of an accepted response, or a part of the reason that is logged for a rejected one.
    pub expected: Result<&'static str, &'static str>,
}

fn case(
    name: &'static str,
    bytes: impl Into<String>,
    expected: Result<&'static str, &'static str>,
) -> ResponseCase {
    let bytes = bytes.into();
    ResponseCase {
        name,
        bytes,
        expected,
    }
}

fn head(fields: &str) -> String {
    format!("HTTP/1.1 200 OK\r\n{HTML}{fields}\r\n")
}

const CHUNKED_HELLO: &str = "5\r\nhello\r\n0\r\n\r\n";
const CHUNKED: &str = "Transfer-Encoding: chunked\r\n";

fn with_body(fields: &str) -> String {
    format!("{}hello", head(fields))
}

fn with_chunked_body(fields: &str) -> String {
    format!("{}{CHUNKED_HELLO}", head(fields))
}

/// All cases.
pub fn http_cases() -> Vec<ResponseCase> {
    [
        framing_cases(),
        field_and_status_cases(),
        chunk_and_valid_cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn framing_cases() -> Vec<ResponseCase> {
    vec![
        case(
            "coding",
            with_chunked_body("Transfer-Encoding: gzip, chunked\r\n"),
            Err("transfer coding"),
        ),
        case(
            "identity",
            with_chunked_body("Transfer-Encoding: identity\r\n"),
            Err("transfer coding"),
        ),
        case(
            "chunked-twice",
            with_chunked_body(&format!("{CHUNKED}{CHUNKED}")),
            Err("transfer coding"),
        ),
        case(
            "both",
            with_chunked_body(&format!("{CHUNKED}Content-Length: 5\r\n")),
            Err("content length"),
        ),
        case(
            "two-lengths",
            with_body("Content-Length: 5\r\nContent-Length: 5\r\n"),
            Err("content length"),
        ),
        case(
            "list",
            with_body("Content-Length: 5, 5\r\n"),
            Err("content length"),
        ),
        case(
            "sign",
            with_body("Content-Length: +5\r\n"),
            Err("content length"),
        ),
        case(
            "old-chunked",
            with_chunked_body(CHUNKED).replace("HTTP/1.1", "HTTP/1.0"),
            Err(""),
        ),
        case(
            "status-line-lf",
            with_body("Content-Length: 5\r\n").replacen("OK\r\n", "OK\n", 1),
            Err("line feed"),
        ),
        case(
            "field-lf",
            with_body("X: y\nContent-Length: 5\r\n"),
            Err("line feed"),
        ),
        case(
            "end-lf",
            format!("HTTP/1.1 200 OK\r\n{HTML}Content-Length: 5\r\n\nhello"),
            Err("line feed"),
        ),
        case(
            "cr",
            with_body("X: a\rb\r\nContent-Length: 5\r\n"),
            Err("carriage return"),
        ),
    ]
}

fn field_and_status_cases() -> Vec<ResponseCase> {
    vec![
        case(
            "fold",
            with_body("X: a\r\n b\r\nContent-Length: 5\r\n"),
            Err("folded"),
        ),
        case(
            "empty-line",
            format!("\r\n{}", with_body("Content-Length: 5\r\n")),
            Err("status line"),
        ),
        case(
            "nul",
            with_body("X: a\0b\r\nContent-Length: 5\r\n"),
            Err("NUL in its value"),
        ),
        case(
            "space",
            with_body("X : a\r\nContent-Length: 5\r\n"),
            Err("white space"),
        ),
        case(
            "length-control",
            with_body("Content-Length: 5\x01\r\n"),
            Err("about the framing"),
        ),
        case(
            "coding-name",
            with_body("Transfer-Encoding\u{e9}: chunked\r\nContent-Length: 5\r\n"),
            Err("about the framing"),
        ),
        case(
            "interim-lf",
            format!(
                "HTTP/1.1 103 Early Hints\nLink: </a>\n\n{}",
                with_body("Content-Length: 5\r\n")
            ),
            Err("line feed"),
        ),
        case(
            "large",
            with_body(&format!(
                "X: {}\r\nContent-Length: 5\r\n",
                "x".repeat(70_000)
            )),
            Err("too large"),
        ),
        case(
            "fine-status-600",
            format!("HTTP/1.1 600 What\r\n{HTML}Content-Length: 5\r\n\r\nhello"),
            Ok("hello"),
        ),
        case(
            "fine-status-999",
            format!("HTTP/1.1 999 What\r\n{HTML}Content-Length: 5\r\n\r\nhello"),
            Ok("hello"),
        ),
        case(
            "reset-length",
            format!("HTTP/1.1 205 Reset\r\n{HTML}Content-Length: 5\r\n\r\nhello"),
            Err("does not allow content"),
        ),
        case(
            "reset-chunked",
            format!("HTTP/1.1 205 Reset\r\n{HTML}{CHUNKED}\r\n{CHUNKED_HELLO}"),
            Err("does not allow content"),
        ),
        case(
            "none-length",
            format!("HTTP/1.1 204 None\r\n{HTML}Content-Length: 5\r\n\r\nhello"),
            Err("does not allow content"),
        ),
        case(
            "none-chunked",
            format!("HTTP/1.1 204 None\r\n{HTML}{CHUNKED}\r\n{CHUNKED_HELLO}"),
            Err("does not allow content"),
        ),
    ]
}

fn chunk_and_valid_cases() -> Vec<ResponseCase> {
    vec![
        case(
            "chunk-lf",
            format!("{}5\nhello\n0\n\n", head(CHUNKED)),
            Err(""),
        ),
        case(
            "chunk-size",
            format!("{}0x5\r\nhello\r\n0\r\n\r\n", head(CHUNKED)),
            Err(""),
        ),
        case("fine", with_body("Content-Length: 5\r\n"), Ok("hello")),
        case(
            "fine-chunked",
            with_chunked_body("Transfer-Encoding: Chunked\r\n"),
            Ok("hello"),
        ),
        case(
            "fine-extension",
            format!("{}5;a=b\r\nhello\r\n0\r\nX: y\r\n\r\n", head(CHUNKED)),
            Ok("hello"),
        ),
        case(
            "fine-none",
            "HTTP/1.1 204 None\r\nContent-Length: 0\r\n\r\n",
            Ok(""),
        ),
        case(
            "fine-reset",
            "HTTP/1.1 205 Reset\r\nContent-Length: 0\r\n\r\n",
            Ok(""),
        ),
        case(
            "fine-reset-chunked",
            format!("HTTP/1.1 205 Reset\r\n{CHUNKED}\r\n0\r\n\r\n"),
            Ok(""),
        ),
        case(
            "fine-interim",
            format!(
                "HTTP/1.1 100 Continue\r\n\r\n{}",
                with_body("Content-Length: 5\r\n")
            ),
            Ok("hello"),
        ),
        case(
            "fine-large",
            with_body(&format!(
                "X: {}\r\nContent-Length: 5\r\n",
                "x".repeat(30_000)
            )),
            Ok("hello"),
        ),
    ]
}
