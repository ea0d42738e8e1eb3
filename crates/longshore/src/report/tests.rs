use super::*;

fn lines(points: Vec<(f64, f64)>, levels: Vec<(String, f64)>) -> String {
    let line = |label: &str, points| Line {
        label: label.into(),
        points,
    };
    let lines = Lines {
        title: "a & b".into(),
        x: "s".into(),
        lines: vec![line("up", points), line("level", vec![(0.0, 0.0)])],
        levels,
    };
    lines.to_string()
}

fn bars(bars: Vec<Vec<f64>>) -> String {
    let bar = |parts| Bar {
        label: "a bar".into(),
        parts,
    };
    let bars = Bars {
        title: "bars, cycles".into(),
        legend: vec!["TCP".into(), "<copy>".into()],
        bars: bars.into_iter().map(bar).collect(),
    };
    bars.to_string()
}

#[test]
fn the_page_refers_to_nothing_outside_of_itself() {
    let mut table = Table::new([Column::text("mode"), Column::number("cycles", "")]);
    table.numbers("<plain>", [1.0]);
    let mut page = Page::new("a & b", "longshore demo");
    page.heading("one")
        .paragraph("\"quoted\"")
        .table(table)
        .bars(Bars {
            title: "bars".into(),
            legend: vec!["TCP".into()],
            bars: Vec::new(),
        });
    let page = page.to_string();
    assert!(page.contains("a &amp; b") && page.contains("&lt;plain&gt;"));
    for outside in [
        "http:", "https:", "src=", "href=", "url(", "@import", "<script",
    ] {
        assert!(!page.contains(outside), "{outside} in {page}");
    }
}

#[test]
fn the_conclusion_is_at_the_top_of_the_page_and_at_the_end_on_a_terminal() {
    let mut page = Page::new("bench", "longshore bench");
    page.paragraph("Detail.")
        .conclusion("Twice as fast.")
        .warning("Busy.");
    let (html, text) = (page.to_string(), page.text());
    let at = |text: &str, what: &str| text.find(what).expect("it is in the report");
    assert!(at(&html, "Twice as fast.") < at(&html, "Busy."));
    assert!(at(&html, "Busy.") < at(&html, "Detail."));
    assert!(at(&text, "Detail.") < at(&text, "Twice as fast."));
    assert!(text.ends_with("Busy.\n"), "{text}");
}

#[test]
fn bars_share_one_scale_and_empty_parts_are_left_out() {
    let html = bars(vec![vec![2.0, 2.0], vec![0.0, 1.0]]);
    assert_eq!(html.matches("width:50.00%").count(), 2);
    assert_eq!(html.matches("width:25.00%").count(), 1);
    assert_eq!(html.matches("style=").count(), 3);
    assert!(html.contains("&lt;copy&gt;: 1.00"), "{html}");
}

#[test]
fn plots_of_nothing_divide_by_nothing() {
    assert!(!bars(vec![vec![0.0, 0.0]]).contains("NaN"));
    assert!(!lines(vec![(0.0, 0.0)], Vec::new()).contains("NaN"));
}

#[test]
fn lines_share_one_scale_from_zero() {
    let html = lines(vec![(0.0, 0.0), (2.0, 100.0)], vec![("limit".into(), 80.0)]);
    assert!(html.contains("a &amp; b") && html.contains(">limit<"));
    assert_eq!(html.matches("<polyline").count(), 2);
    assert!(html.contains("points=\"0.00,100.00 100.00,"), "{html}");
    for tick in [">0<", ">20<", ">100<", ">0.5<", ">2<"] {
        assert!(html.contains(tick), "{tick} in {html}");
    }
}

#[test]
fn numbers_have_three_significant_digits() {
    for (value, text) in [
        (0.0, "0"),
        (1234.5, "1234"),
        (123.4, "123"),
        (99.96, "100"),
        (9.996, "10.0"),
        (1.0, "1.00"),
        (0.1234, "0.123"),
        (-0.0123, "-0.012"),
        (0.0001, "<0.001"),
        (f64::INFINITY, "∞"),
    ] {
        assert_eq!(significant(value), text, "{value}");
    }
    for (value, text) in [
        (1, "1 byte"),
        (1000, "1000 bytes"),
        (64 << 20, "64 MiB"),
        (1536, "1.50 KiB"),
    ] {
        assert_eq!(bytes(value), text);
    }
}

#[test]
fn columns_are_aligned_at_the_point_with_the_unit_below_the_name() {
    let mut table = Table::new([Column::text("mode"), Column::number("per\nbyte", "cycles")]);
    table.numbers("plain", [0.1]).numbers("software", [12.25]);
    table.row(["Linux".into(), Cell::Missing]);
    let text = "             per\n            byte\nmode      cycles\nplain      0.100\nsoftware  12.2  \nLinux      –    \n";
    let trimmed: Vec<&str> = text.lines().map(str::trim_end).collect();
    assert_eq!(table.text().lines().collect::<Vec<_>>(), trimmed);
    assert!(table.to_string().contains("12.2\u{2007}\u{2007}</td>"));
}

#[test]
fn a_column_has_one_unit_that_suits_its_largest_number() {
    let mut table = Table::new([
        Column::text("mode"),
        Column::bytes("read"),
        Column::count("records"),
        Column::rate("requests/s"),
    ]);
    for (mode, bytes, records, rate) in [
        ("a", 3u64 << 20, 16_384u64, 123_456.0),
        ("b", 1 << 29, 3, 9_000.0),
    ] {
        table.row([mode.into(), bytes.into(), records.into(), rate.into()]);
    }
    let text = table.text();
    for part in ["MiB", "3.00", "512", "16384", " k", "123", "9.00"] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
}

#[test]
#[should_panic(expected = "two columns are called \"ours\"")]
fn two_columns_can_not_have_the_same_name() {
    Table::new(["published", "ours", "ours"].map(Column::text));
}

#[test]
fn a_table_that_may_not_fit_says_that_it_scrolls() {
    let mut table = Table::new((0..9).map(|at| Column::number(&format!("column {at}"), "")));
    table.row([1.0; 9].map(Cell::Number));
    assert!(table.to_string().contains("class=\"table wide-on-phone\""));
    assert!(table.to_string().contains("scroll for more columns"));
}

#[test]
fn rounds_that_scatter_are_told_of() {
    let calm: [&[f64]; 2] = [&[1.0, 1.1], &[5.0]];
    assert_eq!(busy(calm), None);
    let single: [&[f64]; 2] = [&[1.0], &[5.0]];
    assert!(busy(single).is_some_and(|warning| warning.starts_with("One round")));
    let wild: [&[f64]; 2] = [&[1.0, 1.1], &[2.0, 6.2, 3.0]];
    assert_eq!(
        busy(wild).as_deref(),
        Some("The machine is busy: rounds differ by up to 3.1 times; take the ratios with care.")
    );
}
