use super::*;

#[test]
fn the_page_refers_to_nothing_outside_of_itself() {
    let mut table = Table::new(["mode", "cycles"]);
    table.row(["<plain>", "1.0"]);
    let page = Page::new("a & b")
        .heading("one")
        .paragraph("\"quoted\"")
        .table(&table)
        .bars(&Bars {
            title: "bars".into(),
            unit: "cycles".into(),
            legend: vec!["TCP".into()],
            bars: vec![Bar {
                label: "plain".into(),
                parts: vec![1.5],
            }],
        })
        .to_string();
    assert!(page.contains("a &amp; b") && page.contains("&lt;plain&gt;"));
    for outside in [
        "http:", "https:", "src=", "href=", "url(", "@import", "<script",
    ] {
        assert!(!page.contains(outside), "{outside} in {page}");
    }
}

#[test]
fn bars_share_one_scale_and_empty_parts_are_left_out() {
    let bars = Bars {
        title: "t".into(),
        unit: "u".into(),
        legend: vec!["a".into(), "b".into()],
        bars: vec![
            Bar {
                label: "long".into(),
                parts: vec![2.0, 2.0],
            },
            Bar {
                label: "short".into(),
                parts: vec![0.0, 1.0],
            },
        ],
    };
    let svg = bars.to_string();
    // Two entries of the legend, two parts of the long bar, one of the short bar.
    assert_eq!(svg.matches("<rect").count(), 5);
    assert_eq!(svg.matches("width=\"275.00\"").count(), 2);
    assert_eq!(svg.matches("width=\"137.50\"").count(), 1);
}

#[test]
fn a_plot_of_nothing_divides_by_nothing() {
    let bars = Bars {
        title: String::new(),
        unit: String::new(),
        legend: vec!["a".into()],
        bars: vec![Bar {
            label: "none".into(),
            parts: vec![0.0],
        }],
    };
    assert!(!bars.to_string().contains("NaN"));
}

#[test]
fn text_columns_are_aligned() {
    let mut table = Table::new(["mode", "c/B"]);
    table.row(["plain", "0.1"]).row(["software", "12.25"]);
    assert_eq!(
        table.text(),
        "mode        c/B\nplain       0.1\nsoftware  12.25\n"
    );
}

#[test]
fn lines_share_one_scale_from_zero() {
    let lines = Lines {
        title: "a & b".into(),
        x: "s".into(),
        lines: vec![
            Line {
                label: "up".into(),
                points: vec![(0.0, 0.0), (2.0, 100.0)],
            },
            Line {
                label: "level".into(),
                points: vec![(0.0, 50.0), (1.0, 50.0)],
            },
        ],
        levels: vec![("limit".into(), 80.0)],
    };
    let svg = lines.to_string();
    assert!(svg.contains("a &amp; b") && svg.contains(">limit<"));
    assert_eq!(svg.matches("<polyline").count(), 2);
    // The left end of the axis is 60, its right end 770, its lower end 356.
    assert!(svg.contains("points=\"60.0,356.0 770.0,"), "{svg}");
    assert!(svg.contains(" 415.0,"), "half way: {svg}");
    for tick in [">0<", ">20<", ">100<", ">0.5<", ">2<"] {
        assert!(svg.contains(tick), "{tick} in {svg}");
    }
}

#[test]
fn lines_of_nothing_divide_by_nothing() {
    let lines = Lines {
        title: String::new(),
        x: String::new(),
        lines: vec![Line {
            label: "none".into(),
            points: vec![(0.0, 0.0)],
        }],
        levels: Vec::new(),
    };
    assert!(!lines.to_string().contains("NaN"));
}
