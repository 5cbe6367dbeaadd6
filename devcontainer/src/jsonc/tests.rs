use proptest::prelude::*;
use serde_json::json;

use super::*;

fn error(bytes: impl AsRef<[u8]>) -> (JsoncErrorKind, u32, u32) {
    let error = parse_object(bytes.as_ref()).unwrap_err();
    (error.kind, error.position.line, error.position.column)
}

fn syntax(message: &str) -> JsoncErrorKind {
    JsoncErrorKind::Syntax { message: message.to_owned() }
}

#[test]
fn b001_comments_and_trailing_commas() {
    let text = "{ // c\n\"image\":\"deb\", /* x */ \"containerEnv\":{\"A\":\"1\",\"U\":\"http://h/*x*/\"}, }";
    let document = parse_object(text.as_bytes()).unwrap();
    assert_eq!(document.value(), &json!({"image": "deb", "containerEnv": {"A": "1", "U": "http://h/*x*/"}}));
    assert_eq!(document.position("/containerEnv/A"), Position { line: 2, column: 44 });
    assert_eq!(document.key_position("/containerEnv/A"), Position { line: 2, column: 40 });
}

#[test]
fn b001_a_real_error_has_file_line_and_column() {
    let failed = parse_object(b"{\n  \"image\": \"deb\",\n  \"build\": {\n").unwrap_err();
    let diagnostic = failed.diagnostic("services/api/.devcontainer.json");
    assert_eq!(diagnostic.position, Some(Position { line: 3, column: 12 }));
    assert_eq!(
        diagnostic.to_string(),
        "services/api/.devcontainer.json:3:12: unterminated object (correct the JSON at this place)"
    );
}

#[test]
fn b002_byte_order_mark_and_crlf() {
    let bytes = b"\xEF\xBB\xBF{\r\n  \"image\": \"deb\",\r\n  \"init\": 1 // c\r\n}\r\n";
    let document = parse_object(bytes).unwrap();
    assert_eq!(document.value(), &json!({"image": "deb", "init": 1}));
    assert_eq!(document.position(""), Position { line: 1, column: 1 });
    assert_eq!(document.position("/init"), Position { line: 3, column: 11 });
    assert_eq!(error(b"\xEF\xBB\xBF"), (JsoncErrorKind::Empty, 1, 1));
}

#[test]
fn b003_empty_and_null_are_invalid_and_never_a_panic() {
    for bytes in ["", " \n\t", "// nothing\n/* at all */"] {
        assert_eq!(error(bytes).0, JsoncErrorKind::Empty, "{bytes:?}");
    }
    for (bytes, found) in [
        ("null", "null"),
        ("[]", "an array"),
        ("\"x\"", "a string"),
        ("1", "a number"),
        ("true", "true or false"),
    ] {
        assert_eq!(error(bytes), (JsoncErrorKind::NotAnObject { found: found.into() }, 1, 1), "{bytes:?}");
    }
    assert_eq!(error("// c\n  null").1, 2);
    assert_eq!(parse_object(b"{}").unwrap().value(), &json!({}));
    assert_eq!(parse(b"[{}]").unwrap().value(), &json!([{}]));
}

#[test]
fn what_the_reference_only_recovers_from_is_refused() {
    for (text, kind, line, column) in [
        ("{\"a\":1 \"b\":2}", syntax("expected comma"), 1, 7),
        ("{\"a\":[1 2]}", syntax("expected comma"), 1, 8),
        ("{\"a\":1,,}", syntax("unexpected token in object"), 1, 8),
        ("{a:1}", syntax("expected string for object property"), 1, 2),
        ("{'a':1}", syntax("single-quoted strings are not allowed"), 1, 2),
        ("{\"a\":0x1}", syntax("hexadecimal numbers are not allowed"), 1, 6),
        ("{\"a\":+1}", syntax("unary plus on numbers is not allowed"), 1, 6),
        ("{\"a\":01}", syntax("expected comma"), 1, 7),
        ("{\"a\":.5}", syntax("leading or trailing decimal points on numbers are not allowed"), 1, 6),
        ("{\"a\":NaN}", syntax("unexpected token"), 1, 6),
        ("{} {}", syntax("text cannot contain more than one JSON value"), 1, 4),
        ("{\"a\":\"\\x41\"}", syntax("invalid escape"), 1, 7),
        ("{\"a\":\"b\nc\"}", JsoncErrorKind::LineBreakInString, 1, 6),
        ("{\"a\":\"b", JsoncErrorKind::LineBreakInString, 1, 6),
        ("{\"a\":\"\\ud800\"}", JsoncErrorKind::LoneSurrogate, 1, 7),
        ("{\"a\":\"\\udc00x\"}", JsoncErrorKind::LoneSurrogate, 1, 7),
        ("{\"a\":\"\\ud800\\u0041\"}", JsoncErrorKind::LoneSurrogate, 1, 7),
        ("{\"a\":1e999}", JsoncErrorKind::NumberOutOfRange, 1, 6),
        ("{\"a\":\"\\u0000\"}", JsoncErrorKind::Nul, 1, 6),
        ("{\"\\u0000\":1}", JsoncErrorKind::Nul, 1, 2),
        ("{\n \"é\": \"\0\"}", JsoncErrorKind::Nul, 2, 8),
        ("{\"a\": /* ", syntax("unterminated comment block"), 1, 7),
    ] {
        assert_eq!(error(text), (kind, line, column), "{text:?}");
    }
}

#[test]
fn columns_are_characters_and_lines_end_in_any_way() {
    let document =
        parse_object("{\"é🦀\": 1, \"b\": 2\r, \"c\": 3\r\n, \"d\": 4\n, \"e\": 5}".as_bytes()).unwrap();
    assert_eq!(document.position("/é🦀"), Position { line: 1, column: 8 });
    assert_eq!(document.key_position("/b"), Position { line: 1, column: 11 });
    assert_eq!(document.key_position("/c"), Position { line: 2, column: 3 });
    assert_eq!(document.key_position("/d"), Position { line: 3, column: 3 });
    assert_eq!(document.key_position("/e"), Position { line: 4, column: 3 });
}

#[test]
fn pointers_are_escaped_and_fall_back_to_the_ancestor() {
    let document = parse_object(b"{\"a/b~c\": {\"x\": [1, 22]}}").unwrap();
    assert_eq!(pointer_token("a/b~c"), "a~1b~0c");
    assert_eq!(document.position("/a~1b~0c/x/1").column, 21);
    assert_eq!(document.position("/a~1b~0c/x/7").column, 17);
    assert_eq!(document.key_position("/a~1b~0c/none/deeper").column, 11);
}

#[test]
fn of_a_duplicate_key_the_last_value_counts_and_it_is_listed() {
    let document = parse_object(b"{\"a\": 1, \"b\": {\"c\": 1, \"c\": 2},\n \"a\": 3}").unwrap();
    assert_eq!(document.value(), &json!({"a": 3, "b": {"c": 2}}));
    assert_eq!(document.value().as_object().unwrap().keys().collect::<Vec<_>>(), ["a", "b"]);
    let listed: Vec<_> =
        document.duplicates().iter().map(|d| (d.pointer.as_str(), d.position.line)).collect();
    assert_eq!(listed, [("/b/c", 1), ("/a", 2)]);
    assert_eq!(document.position("/a"), Position { line: 2, column: 7 });
    let many = format!("{{{}}}", "\"a\":1,".repeat(500));
    assert_eq!(parse_object(many.as_bytes()).unwrap().duplicates().len(), MAX_DUPLICATES);
}

#[test]
fn encodings_other_than_utf8_are_named() {
    let utf16: Vec<u8> = "{}".encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert_eq!(error(&utf16).0, JsoncErrorKind::Utf16);
    let utf16: Vec<u8> = "\u{feff}{}".encode_utf16().flat_map(u16::to_be_bytes).collect();
    assert_eq!(error(&utf16).0, JsoncErrorKind::Utf16);
    assert_eq!(error(b"{\n \"\xC3\xA9\xFF\": 1}"), (JsoncErrorKind::NotUtf8, 2, 4));
}

#[test]
fn limits_hold_at_their_edge() {
    let sized = |size: usize| format!("{{\"a\":\"{}\"}}", "x".repeat(size - 8)).into_bytes();
    assert_eq!(sized(MAX_BYTES).len(), MAX_BYTES);
    assert!(parse_object(&sized(MAX_BYTES)).is_ok());
    assert_eq!(error(sized(MAX_BYTES + 1)).0, JsoncErrorKind::TooLarge { bytes: MAX_BYTES + 1 });

    let nested = |depth: usize| format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
    assert!(parse_object(nested(MAX_DEPTH).as_bytes()).is_ok());
    assert_eq!(error(nested(MAX_DEPTH + 1)), (JsoncErrorKind::TooDeep, 1, 64 * 5 + 1));
    for depth in [300, 1000, MAX_BYTES / 6] {
        assert_eq!(error(nested(depth)).0, JsoncErrorKind::TooDeep, "{depth}");
    }
    assert_eq!(error("[".repeat(MAX_BYTES)).0, JsoncErrorKind::TooDeep);
}

#[test]
fn long_keys_above_many_leaves_cost_no_more_than_the_file() {
    let leaves = "0,".repeat(100_000);
    let mut text = format!("[{leaves}0]");
    for _ in 0..60 {
        text = format!("{{\"{}\":{text}}}", "k".repeat(10_000));
    }
    assert!(parse(text.as_bytes()).is_ok());
}

proptest! {
    #[test]
    fn any_bytes_give_an_answer(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse(&bytes);
    }

    #[test]
    fn any_text_of_json_characters_gives_an_answer(text in "[\\[\\]{}\",:/*\\\\ \nu0dex1tfé🦀'+.-]{0,60}") {
        let _ = parse(text.as_bytes());
    }

    #[test]
    fn a_value_is_the_same_with_comments_and_marks(value in json_value()) {
        let plain = serde_json::to_vec(&value).unwrap();
        prop_assert_eq!(parse(&plain).unwrap().into_value(), value.clone());
        let mut dressed = b"\xEF\xBB\xBF/* a */".to_vec();
        dressed.extend_from_slice(&serde_json::to_vec_pretty(&value).unwrap());
        dressed.extend_from_slice(b" // b\r\n");
        prop_assert_eq!(parse(&dressed).unwrap().into_value(), value);
    }

    #[test]
    fn positions_point_at_the_value(value in json_value()) {
        let text = serde_json::to_string_pretty(&value).unwrap();
        let document = parse(text.as_bytes()).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        for (pointer, leaf) in leaves(&value, String::new()) {
            let at = document.position(&pointer);
            let rest: String = lines[at.line as usize - 1].chars().skip(at.column as usize - 1).collect();
            let written = serde_json::to_string(leaf).unwrap();
            prop_assert!(rest.starts_with(&written), "{} at {}: {}", pointer, at, rest);
        }
    }
}

fn json_value() -> impl Strategy<Value = Value> {
    let text = "[a-z~/é\" \t\\\\]{0,6}";
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i32>().prop_map(Value::from),
        text.prop_map(Value::String),
    ];
    leaf.prop_recursive(4, 32, 4, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            proptest::collection::vec((text, inner), 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn leaves(value: &Value, pointer: String) -> Vec<(String, &Value)> {
    match value {
        Value::Array(elements) => {
            elements.iter().enumerate().flat_map(|(i, e)| leaves(e, format!("{pointer}/{i}"))).collect()
        }
        Value::Object(members) => {
            members.iter().flat_map(|(k, v)| leaves(v, format!("{pointer}/{}", pointer_token(k)))).collect()
        }
        leaf => vec![(pointer, leaf)],
    }
}
