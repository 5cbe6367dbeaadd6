//! Durations as Go and kubectl write them.

use std::time::Duration;

/// The longest accepted duration: ten years.
const MAX: f64 = 10.0 * 365.0 * 86_400.0;

/// Parses `1h30m`, `90s`, `1.5h`, `500ms`; a plain number is seconds.
///
/// # Errors
/// A sentence that says what is accepted.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let refused = || format!("{text:?} is no duration: write it like 90s, 5m or 1h30m");
    let mut seconds = 0.0;
    let mut rest = text;
    if rest.is_empty() {
        return Err(refused());
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let number: f64 = rest[..digits].parse().map_err(|_| refused())?;
        rest = &rest[digits..];
        let letters = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        let unit = match &rest[..letters] {
            "" if digits == text.len() => 1.0,
            "ms" => 0.001,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return Err(refused()),
        };
        rest = &rest[letters..];
        seconds += number * unit;
    }
    if seconds > MAX {
        return Err(format!("{text:?} is longer than ten years"));
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// A duration for people: `0.2s`, `12s`, `3m4s`, `1h2m`.
pub(crate) fn show(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..10 => format!("{:.1}s", duration.as_secs_f64()),
        10..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{}s", seconds / 60, seconds % 60),
        _ => format!("{}h{}m", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, millis) in [
            ("90", 90_000),
            ("90s", 90_000),
            ("1h30m", 5_400_000),
            ("1.5m", 90_000),
            ("500ms", 500),
            ("0", 0),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "s", "1d", "-1s", "1 s", "1m30", "1e3s", "1..2s", "99999999999h", "NaN"] {
            assert!(parse(text).is_err(), "{text}");
        }
        for (millis, text) in [(240, "0.2s"), (12_900, "12s"), (184_000, "3m4s"), (3_720_000, "1h2m")] {
            assert_eq!(show(Duration::from_millis(millis)), text);
        }
    }
}
