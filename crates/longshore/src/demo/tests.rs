use super::*;

#[test]
fn every_download_is_the_file_and_the_report_stands_alone() {
    let report = std::env::temp_dir().join(format!("longshore-demo-{}.html", std::process::id()));
    let options = Options {
        report: Some(report.clone()),
        size: 2,
        loss: 0.01,
        reorder: 0.01,
        seed: 3,
    };
    run(&options).expect("the demonstration works");
    let page = std::fs::read_to_string(&report).expect("the report was written");
    std::fs::remove_file(&report).expect("the report can go");
    assert!(page.contains("<svg") && page.contains("offloaded TLS"));
    assert!(!page.contains("http:"), "nothing from elsewhere");
}
