use super::*;

fn options() -> Options {
    Options {
        report: None,
        bytes: 1 << 20,
        rounds: 2,
        loss: 0.01,
        reorder: 0.01,
        seed: 3,
    }
}

#[test]
fn every_download_is_the_file_and_the_report_stands_alone() {
    let path = std::env::temp_dir().join(format!("longshore-demo-{}.html", std::process::id()));
    let options = Options {
        report: Some(path.clone()),
        ..options()
    };
    run(&options).expect("the demonstration works");
    let page = std::fs::read_to_string(&path).expect("the report was written");
    std::fs::remove_file(&path).expect("the report can go");
    assert!(page.contains("class=\"bar\"") && page.contains("offloaded TLS"));
    assert!(!page.contains("http:"), "nothing from elsewhere");
}

#[test]
fn the_median_round_stands_for_all_and_each_is_kept() {
    let options = options();
    let content = Content::new(options.seed, options.bytes);
    let hidden = ProgressBar::hidden();
    let mut rounds = Vec::new();
    for cycles in [5, 1, 3] {
        let mut round = download(&options, Mode::Software, &content, &hidden).expect("a download");
        for round in &mut round.rounds {
            round.taken.host = cycles * round.count;
        }
        rounds.push(round);
    }
    for case in Downloads::of(Mode::Software, &rounds).cases {
        assert_eq!(case.cost.host.total, 3.0);
        assert_eq!(case.rounds, [5.0, 1.0, 3.0]);
    }
}

#[test]
fn the_report_ends_in_a_sentence_and_says_when_rounds_scatter() {
    let options = options();
    let content = Content::new(options.seed, options.bytes);
    let mut downloads: Vec<Downloads> = MODES
        .into_iter()
        .map(|mode| {
            let round = download(&options, mode, &content, &ProgressBar::hidden());
            Downloads::of(mode, &[round.expect("a download")])
        })
        .collect();
    let calm = printed::page(&options, &downloads).text();
    assert!(calm.contains("as many bytes per host cycle as software TLS"));
    assert!(!calm.contains("busy"), "{calm}");
    downloads[0].cases[0].rounds = vec![1.0, 3.1];
    let text = printed::page(&options, &downloads).text();
    let warning =
        "The machine is busy: rounds differ by up to 3.1 times; take the ratios with care.";
    assert!(text.contains(warning), "{text}");
    for line in text.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
}
