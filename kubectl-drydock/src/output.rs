//! How data is written to stdout, and failures to where their reader looks.

use std::io::{IsTerminal as _, Write as _};
use std::str::FromStr;

use serde_json::Value;

use crate::cli::Global;
use crate::failure::Failure;
use crate::text::line;

/// The value of `-o`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// For people.
    Table,
    /// For people, with more columns.
    Wide,
    /// One JSON document.
    Json,
    /// One YAML document.
    Yaml,
    /// `kind/name`.
    Name,
    /// What an expression selects.
    JsonPath(Vec<Step>),
}

/// One step of a path expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A field.
    Field(String),
    /// An element.
    Index(usize),
    /// All elements or fields.
    All,
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "table" => Self::Table,
            "wide" => Self::Wide,
            "json" => Self::Json,
            "yaml" => Self::Yaml,
            "name" => Self::Name,
            _ => match text.strip_prefix("jsonpath=") {
                Some(expression) => Self::JsonPath(parse_path(expression)?),
                None => return Err("write table, wide, json, yaml, name or jsonpath=EXPRESSION".to_owned()),
            },
        })
    }
}

/// Parses `{.a.b[0].c}`, with or without braces.
fn parse_path(expression: &str) -> Result<Vec<Step>, String> {
    let refused = || {
        format!("{expression:?} can't be read: write it like {{.status.route.rule}} or {{.items[*].name}}")
    };
    let inner =
        expression.strip_prefix('{').map_or(Ok(expression), |e| e.strip_suffix('}').ok_or_else(refused))?;
    let mut rest = inner.strip_prefix('$').unwrap_or(inner);
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('[') {
            let (index, after) = after.split_once(']').ok_or_else(refused)?;
            let quoted = index.strip_prefix('\'').and_then(|i| i.strip_suffix('\''));
            steps.push(match (index, quoted) {
                ("*", _) => Step::All,
                (_, Some(field)) => Step::Field(field.to_owned()),
                (index, None) => Step::Index(index.parse().map_err(|_| refused())?),
            });
            rest = after;
        } else {
            let after = rest.strip_prefix('.').ok_or_else(refused)?;
            let mut end = 0;
            let mut field = String::new();
            let mut chars = after.char_indices();
            while let Some((at, c)) = chars.next() {
                match c {
                    '.' | '[' => break,
                    '\\' => field.extend(chars.next().map(|(at, c)| {
                        end = at + c.len_utf8();
                        c
                    })),
                    c => {
                        field.push(c);
                        end = at + c.len_utf8();
                    }
                }
            }
            match field.as_str() {
                "" if after.is_empty() && steps.is_empty() => {}
                "" => return Err(refused()),
                "*" => steps.push(Step::All),
                _ => steps.push(Step::Field(field)),
            }
            rest = &after[end..];
        }
    }
    Ok(steps)
}

/// The values that a path selects, in order.
fn select<'a>(value: &'a Value, steps: &[Step]) -> Vec<&'a Value> {
    let mut found = vec![value];
    for step in steps {
        found = found
            .into_iter()
            .flat_map(|value| -> Vec<&Value> {
                match (step, value) {
                    (Step::Field(name), Value::Object(map)) => map.get(name).into_iter().collect(),
                    (Step::Index(at), Value::Array(items)) => items.get(*at).into_iter().collect(),
                    (Step::All, Value::Array(items)) => items.iter().collect(),
                    (Step::All, Value::Object(map)) => map.values().collect(),
                    _ => Vec::new(),
                }
            })
            .collect();
    }
    found
}

/// A document in a machine's format; none in a person's.
pub(crate) fn document(format: &Format, name: &str, value: &Value) -> Option<String> {
    Some(match format {
        Format::Table | Format::Wide => return None,
        Format::Json => format!("{value:#}\n"),
        Format::Yaml => serde_saphyr::to_string(value).unwrap_or_else(|_| format!("{value}\n")),
        Format::Name => format!("{name}\n"),
        Format::JsonPath(steps) => {
            let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let found: Vec<String> = select(value, steps).into_iter().map(text).collect();
            format!("{}\n", found.join(" "))
        }
    })
}

/// Rows with their columns under each other; a last column as long as it is.
pub(crate) fn table(heads: &[&str], rows: &[Vec<String>], with_heads: bool) -> String {
    let mut all: Vec<Vec<String>> = Vec::new();
    if with_heads {
        all.push(heads.iter().map(|h| (*h).to_owned()).collect());
    }
    all.extend(rows.iter().map(|row| row.iter().map(|cell| line(cell)).collect()));
    let width = |column: usize| {
        all.iter().filter_map(|r| r.get(column)).map(|c| c.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let mut out = String::new();
    for row in &all {
        let mut text = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            text.push_str(&format!("{cell:<width$}   "));
        }
        out.push_str(text.trim_end());
        out.push('\n');
    }
    out
}

/// Writes to stdout; whether somebody read it.
pub(crate) fn write(text: &str) -> bool {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).is_ok()
}

/// Writes a failure: lines on stderr; with `-o json` an object on stdout.
pub(crate) fn failure(global: &Global, failure: &Failure) {
    if global.output == Format::Json {
        write(&format!("{:#}\n", failure.json()));
        return;
    }
    let lines = failure.lines();
    let mut stderr = std::io::stderr().lock();
    let colour =
        !global.no_color && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty()) && stderr.is_terminal();
    let text = match lines.strip_prefix("error:") {
        Some(rest) if colour => format!("\u{1b}[31merror:\u{1b}[0m{rest}"),
        _ => lines,
    };
    let _ = writeln!(stderr, "{text}");
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_select() {
        let value = json!({"a": {"b": [{"c": 1}, {"c": "x"}], "d.e": true}});
        for (expression, text) in [
            ("{.a.b[0].c}", "1\n"),
            (".a.b[*].c", "1 x\n"),
            ("{$.a['d.e']}", "true\n"),
            ("{.a.d\\.e}", "true\n"),
            ("{.a.nope}", "\n"),
            ("{.a.b[1]}", "{\"c\":\"x\"}\n"),
        ] {
            let format: Format = format!("jsonpath={expression}").parse().unwrap();
            assert_eq!(document(&format, "", &value).unwrap(), text, "{expression}");
        }
        for bad in ["{.a", "a", "{.a[x]}", "{.a..b}", "{.a[1}"] {
            assert!(format!("jsonpath={bad}").parse::<Format>().is_err(), "{bad}");
        }
        assert!("tables".parse::<Format>().is_err());
    }

    #[test]
    fn a_table_is_plain_and_aligned() {
        let rows = vec![
            vec!["a".into(), "\u{1b}[1mlong cell".into(), "z".into()],
            vec!["bb".into(), String::new(), String::new()],
        ];
        assert_eq!(
            table(&["ONE", "TWO", "THREE"], &rows, true),
            "ONE   TWO         THREE\na     long cell   z\nbb\n"
        );
        assert_eq!(table(&["ONE", "TWO", "THREE"], &rows, false), "a    long cell   z\nbb\n");
    }

    #[test]
    fn machine_formats_are_whole_documents() {
        let value = json!({"rule": "Host", "n": [1]});
        assert_eq!(document(&Format::Table, "x", &value), None);
        assert_eq!(document(&Format::Name, "trun/x", &value).unwrap(), "trun/x\n");
        let json = document(&Format::Json, "x", &value).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&json).unwrap(), value);
        let yaml = document(&Format::Yaml, "x", &value).unwrap();
        assert_eq!(serde_saphyr::from_str::<Value>(&yaml).unwrap(), value);
    }
}
