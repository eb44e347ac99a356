//! Converts sizes, durations, addresses and rates of other servers to Galley's syntax.

/// Converts `1m`, `1h 30m`, `90` (seconds), `500ms` to Galley's largest whole unit. `None`: not a duration of nginx.
pub(crate) fn duration(text: &str) -> Option<String> {
    milliseconds(text).map(write_duration)
}

/// As [`duration`], in whole seconds, rounded down.
pub(crate) fn seconds(text: &str) -> Option<u64> {
    milliseconds(text).map(|milliseconds| milliseconds / 1_000)
}

fn milliseconds(text: &str) -> Option<u64> {
    let mut milliseconds: u64 = 0;
    let mut rest = text.trim();
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let number: u64 = rest.get(..digits)?.parse().ok()?;
        let unit = rest.get(digits..)?;
        let letters = unit.bytes().take_while(u8::is_ascii_alphabetic).count();
        let factor = unit_ms(unit.get(..letters)?)?;
        milliseconds = milliseconds.checked_add(number.checked_mul(factor)?)?;
        rest = unit.get(letters..)?.trim_start();
    }
    Some(milliseconds)
}

/// Writes a duration in the largest unit that gives a whole number.
fn write_duration(milliseconds: u64) -> String {
    let units = [
        (86_400_000, "d"),
        (3_600_000, "h"),
        (60_000, "m"),
        (1_000, "s"),
    ];
    let unit = units
        .iter()
        .find(|(factor, _)| milliseconds >= *factor && milliseconds.is_multiple_of(*factor));
    match unit {
        Some((factor, name)) => format!("{}{name}", milliseconds / factor),
        None if milliseconds == 0 => "0s".to_owned(),
        None => format!("{milliseconds}ms"),
    }
}

/// Converts `16m`, `1g`, `512k`, `4096`, `10MB`. `None`: not a size.
pub(crate) fn size(text: &str) -> Option<String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let number: u64 = text.get(..digits)?.parse().ok()?;
    let unit = match text.get(digits..)?.to_ascii_lowercase().as_str() {
        "" | "b" => "B",
        "k" | "kb" | "kib" => "KiB",
        "m" | "mb" | "mib" => "MiB",
        "g" | "gb" | "gib" => "GiB",
        _ => return None,
    };
    Some(format!("{number}{unit}"))
}

/// Converts `[::]:443`.
fn bracketed(text: &str, default_port: u16) -> Option<String> {
    let (address, after) = text.split_once(']')?;
    let port = match after.strip_prefix(':') {
        Some(port) => port.parse::<u16>().ok()?,
        None if after.is_empty() => default_port,
        None => return None,
    };
    Some(format!("{address}]:{port}"))
}

/// The value of a unit of nginx in milliseconds.
fn unit_ms(unit: &str) -> Option<u64> {
    Some(match unit {
        "ms" => 1,
        "" | "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        "w" => 7 * 86_400_000,
        "M" => 30 * 86_400_000,
        "y" => 365 * 86_400_000,
        _ => return None,
    })
}

/// Converts `80`, `*:80`, `1.2.3.4`, `[::]:443`, `localhost:80`, `unix:/path` to a listener. `None`: not an address.
pub(crate) fn listener(text: &str, default_port: u16) -> Option<String> {
    if let Some(path) = text.strip_prefix("unix:") {
        return path.starts_with('/').then(|| text.to_owned());
    }
    if let Ok(port) = text.parse::<u16>() {
        return Some(format!("0.0.0.0:{port}"));
    }
    if text.starts_with('[') {
        return bracketed(text, default_port);
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) => (host, port.parse::<u16>().ok()?),
        None => (text, default_port),
    };
    let host = match host {
        "*" | "" | "_default_" => "0.0.0.0",
        "localhost" => "127.0.0.1",
        host => host,
    };
    let address: std::net::Ipv4Addr = host.parse().ok()?;
    Some(format!("{address}:{port}"))
}

/// Converts `unix:/path`, with or without a trailing `:`, or `host:port` to a value of `php`.
pub(crate) fn fastcgi(text: &str) -> Option<String> {
    if let Some(path) = text.strip_prefix("unix:") {
        let path = path.trim_start_matches("//").trim_end_matches(':');
        let path = if path.starts_with('/') {
            path.to_owned()
        } else {
            format!("/{path}")
        };
        return (path.len() > 1).then(|| format!("unix:{path}"));
    }
    let (host, port) = text.rsplit_once(':')?;
    let is_valid = !host.is_empty() && port.parse::<u16>().is_ok() && !host.contains(['$', '/']);
    is_valid.then(|| text.to_owned())
}

/// Converts `5r/s` and `30r/m` to the rate of a limit.
pub(crate) fn rate(text: &str) -> Option<String> {
    let (number, unit) = text.split_once("r/")?;
    let number: u64 = number.parse().ok()?;
    matches!(unit, "s" | "m").then(|| format!("{number}/{unit}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_converted() {
        for (text, want) in [
            ("60", Some("1m")),
            ("1h 30m", Some("90m")),
            ("30d", Some("30d")),
            ("1y", Some("365d")),
            ("500ms", Some("500ms")),
            ("0", Some("0s")),
            ("90s", Some("90s")),
            ("max", None),
            ("", None),
            ("99999999999999999999y", None),
        ] {
            assert_eq!(duration(text).as_deref(), want, "{text}");
        }
        assert_eq!(seconds("1h"), Some(3_600));
        assert_eq!(seconds("365d"), Some(31_536_000));
    }

    #[test]
    fn sizes_are_converted() {
        for (text, want) in [
            ("8m", Some("8MiB")),
            ("1G", Some("1GiB")),
            ("0", Some("0B")),
            ("1000", Some("1000B")),
            ("m", None),
            ("10x", None),
        ] {
            assert_eq!(size(text).as_deref(), want, "{text}");
        }
    }

    #[test]
    fn listeners_are_converted() {
        for (text, want) in [
            ("80", Some("0.0.0.0:80")),
            ("*:8080", Some("0.0.0.0:8080")),
            ("[::]:443", Some("[::]:443")),
            ("[::]", Some("[::]:80")),
            ("192.0.2.1", Some("192.0.2.1:80")),
            ("localhost:81", Some("127.0.0.1:81")),
            ("unix:/run/x.sock", Some("unix:/run/x.sock")),
            ("$port", None),
            ("99999", None),
        ] {
            assert_eq!(listener(text, 80).as_deref(), want, "{text}");
        }
    }

    #[test]
    fn fastcgi_servers_are_converted() {
        for (text, want) in [
            (
                "unix:/run/php/php8.2-fpm.sock",
                Some("unix:/run/php/php8.2-fpm.sock"),
            ),
            ("unix:/run/php.sock:", Some("unix:/run/php.sock")),
            ("unix:///run/php.sock", Some("unix:/run/php.sock")),
            ("127.0.0.1:9000", Some("127.0.0.1:9000")),
            ("$upstream", None),
            ("php", None),
        ] {
            assert_eq!(fastcgi(text).as_deref(), want, "{text}");
        }
    }
}
