use super::*;
use crate::handoff::Workload;

#[test]
fn every_row_is_of_a_configuration_and_the_shorthand_is_read_back() {
    let configs = configs();
    for row in rows() {
        for name in [Some(row.config), row.published.from()]
            .into_iter()
            .flatten()
        {
            let config: Config = name.parse().expect("a shorthand of Table 3");
            assert_eq!(config.to_string(), name);
            assert!(configs.contains(&config));
        }
    }
    assert!(configs.len() <= 32, "{} runs take too long", configs.len());
}

#[test]
fn every_table_and_figure_has_rows() {
    use Figure::{Figure5, Figure6, Figure7, Figure8, ResponseTimes, Table1};
    for (figure, count) in [
        (Table1, 21),
        (Figure5, 39),
        (Figure6, 3),
        (Figure7, 6),
        (Figure8, 65),
        (ResponseTimes, 5),
    ] {
        assert_eq!(
            rows().filter(|row| row.figure == figure).count(),
            count,
            "{figure}"
        );
    }
}

/// The text's percentages are those of the values that it gives with them.
#[test]
fn changes_are_what_the_text_says_of_its_values() {
    let change = |config: &str, from: &str| {
        let row = rows().find(|row| {
            row.config == config
                && row.measure == Measure::Requests
                && row.published.from() == Some(from)
        });
        row.and_then(Row::change).expect("such a row")
    };
    for (config, from, percent) in [
        // §3.1
        ("W-256-N-N-FCFS-400", "W-0-N-N-FCFS-400", 4.0),
        ("W-1024-N-N-FCFS-400", "W-256-N-N-FCFS-400", -33.0),
        ("W-1024-P-N-FCFS-400", "W-0-N-N-FCFS-400", 16.0),
        // §5.1
        ("W-4096-P-N-FCFS-400", "W-1024-P-N-FCFS-400", -52.0),
        // §5.3
        ("W-4096-P-L-FCFS-600", "W-4096-P-L-FCFS-400", 14.0),
        ("W-4096-P-L-FCFS-800", "W-4096-P-L-FCFS-400", 41.0),
        ("I-4096-P-L-FCFS-600", "I-4096-P-L-FCFS-400", 21.0),
        ("S-4096-P-L-FCFS-600", "S-4096-P-L-FCFS-400", 16.0),
    ] {
        let of_values = change(config, from);
        assert!((of_values - percent).abs() < 0.6, "{config}: {of_values}");
    }
}

#[test]
fn what_was_published_agrees_with_itself() {
    for row in rows() {
        if let Published::Value { value, from } = row.published {
            let judged = row.judge(value, from.map(|(_, from)| from));
            assert!(judged.agrees, "{row:?}");
        }
    }
}

#[test]
fn a_change_is_judged_by_the_change_not_by_the_value() {
    let row = Row {
        figure: Figure::Figure5,
        config: "W-4096-P-L-FCFS-400",
        measure: Measure::Requests,
        published: Published::Change {
            from: "W-0-N-N-FCFS-400",
            change: 12.0,
        },
        source: "",
    };
    assert!(row.judge(1120.0, Some(1000.0)).agrees);
    assert!(row.judge(1135.0, Some(1000.0)).agrees);
    assert!(!row.judge(1150.0, Some(1000.0)).agrees);
    assert!(!row.judge(1000.0, Some(1000.0)).agrees);
    assert!(!row.judge(1120.0, None).agrees);

    let idle = Row {
        measure: Measure::NicIdle,
        published: Published::Value {
            value: 5.0,
            from: Some(("W-0-N-N-FCFS-400", 62.0)),
        },
        ..row
    };
    // 57 points less, as published, from another level.
    assert!(idle.judge(3.0, Some(60.0)).agrees);
    assert_eq!(idle.judge(3.0, Some(60.0)).our_change, Some(-57.0));
    assert!(!idle.judge(15.0, Some(60.0)).agrees);
}

#[test]
fn a_bound_is_judged_by_the_value() {
    let crossing = |config| {
        rows()
            .find(|row| row.config == config && row.measure == Measure::MeanDelay)
            .expect("such a row")
    };
    assert!(crossing("W-1024-P-N-FCFS-400").judge(12.0, None).agrees);
    assert!(!crossing("W-1024-P-N-FCFS-400").judge(14.0, None).agrees);
    assert!(crossing("W-1024-N-N-FCFS-400").judge(1300.0, None).agrees);
    assert!(!crossing("W-1024-N-N-FCFS-400").judge(900.0, None).agrees);
}

#[test]
fn a_shorthand_that_is_none_is_refused() {
    for text in [
        "",
        "W-4096-P-L-FCFS",
        "X-0-N-N-FCFS-400",
        "W-4096-P-L-FCFS-400-1",
        "W-4096-Y-L-FCFS-400",
        "W-4096-P-L-FIFO-400",
    ] {
        let error = text.parse::<Config>().unwrap_err();
        assert!(error.to_string().contains("W-4096-P-L-FCFS-400"), "{error}");
    }
    let config: Config = "S-4096-P-L-T20-600".parse().expect("one of Table 3");
    assert_eq!(config.workload, Workload::SpecWeb99Static);
}
