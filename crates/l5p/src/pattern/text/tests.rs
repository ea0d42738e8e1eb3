use super::*;

fn string(line: &str) -> Result<Vec<u8>, LineError> {
    match parse_line(line)? {
        Some(Pattern::String(string)) => Ok(string),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_line_is_a_string_without_the_blanks_around_it() {
    assert_eq!(string("  evil.example\t"), Ok(b"evil.example".to_vec()));
    assert_eq!(string("a # b"), Ok(b"a # b".to_vec()));
    assert_eq!(string("[a-z]+"), Ok(b"[a-z]+".to_vec()));
}

#[test]
fn comments_and_empty_lines_are_no_patterns() {
    for line in ["", "   ", "# evil", "  #evil"] {
        assert_eq!(parse_line(line), Ok(None));
    }
}

#[test]
fn quotes_keep_blanks_and_have_escapes() {
    assert_eq!(string("\" # a \""), Ok(b" # a ".to_vec()));
    assert_eq!(
        string(r#""\\\"\n\r\t\0\x00\xfF""#),
        Ok(b"\\\"\n\r\t\0\0\xff".to_vec())
    );
    assert_eq!(string("\"é\""), Ok("é".as_bytes().to_vec()));
}

#[test]
fn what_is_wrong_with_a_string_is_said() {
    for (line, expected) in [
        ("\"\"", LineError::EmptyString),
        ("\"a", LineError::UnclosedString),
        ("\"a\\", LineError::UnclosedString),
        ("\"a\" b", LineError::AfterString("b".into())),
        ("\"\\q\"", LineError::Escape("q".into())),
        ("\"\\x+1\"", LineError::Escape("x+1".into())),
        ("\"\\x1\"", LineError::Escape("x1\"".into())),
    ] {
        assert_eq!(string(line), Err(expected), "{line}");
    }
}

#[test]
fn what_is_wrong_with_an_expression_is_said() {
    for (line, expected) in [
        ("/a", LineError::UnclosedExpression),
        ("/usr/bin", LineError::Flag('b')),
        ("/a*/", LineError::MatchesEmpty),
        ("/[a&&b]/", LineError::NeverMatches),
        ("/^a/", LineError::Border),
        ("/a$/", LineError::Border),
        (r"/a\b/", LineError::Border),
        (r"/(?m:a$)/", LineError::Border),
        ("/a(/", LineError::Expression("unclosed group".into())),
    ] {
        assert_eq!(parse_line(line), Err(expected), "{line}");
    }
    assert!(matches!(
        parse_line(r"/\p{Greek}/"),
        Err(LineError::Expression(_))
    ));
}

#[test]
fn an_expression_may_have_slashes_and_flags() {
    for line in ["/a/b/", "/a/i", "/a b/xsi", "/\\//"] {
        assert!(
            matches!(parse_line(line), Ok(Some(Pattern::Expression(_)))),
            "{line}"
        );
    }
}
