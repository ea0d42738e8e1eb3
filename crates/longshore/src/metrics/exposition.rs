//! Counters as OpenMetrics text.

use std::collections::BTreeMap;
use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit as MetricUnit};

use super::names::{Unit, snake_case, split_unit};
use crate::control::{CounterGroup, Glossary};

/// What one service has told.
#[derive(Clone, Debug)]
pub struct Scrape {
    /// Its name.
    pub service: String,
    /// Its counters; nothing if it does not answer.
    pub groups: Option<Vec<CounterGroup>>,
}

type Labels = Vec<(&'static str, String)>;

/// One metric with its values.
#[derive(Debug, Default)]
struct Family {
    help: String,
    unit: Option<Unit>,
    is_gauge: bool,
    values: Vec<(Labels, u64)>,
}

/// Every metric, by name.
#[derive(Debug, Default)]
struct Families(BTreeMap<String, Family>);

/// What `GET /metrics` gives: `longshore_PART_COUNTER` for each counter, `_total` behind those that only grow, and
/// `longshore_up` for each service.
///
/// # Errors
/// None that a `String` has.
pub fn exposition(scrapes: &[Scrape]) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Families::of(scrapes)));
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry)?;
    Ok(text)
}

impl Families {
    fn of(scrapes: &[Scrape]) -> Families {
        let glossary = Glossary::new();
        let mut families = Families::default();
        for scrape in scrapes {
            let up = families.0.entry("longshore_up".to_owned()).or_default();
            up.help = "1 when the service answers, 0 when it does not.".to_owned();
            up.is_gauge = true;
            let labels = vec![("service", scrape.service.clone())];
            up.values.push((labels, u64::from(scrape.groups.is_some())));
            for group in scrape.groups.iter().flatten() {
                families.add(&glossary, &scrape.service, group);
            }
        }
        families
    }

    fn add(&mut self, glossary: &Glossary, service: &str, group: &CounterGroup) {
        let kind = glossary.kind_of(group);
        let mut labels: Labels = vec![("service", service.to_owned())];
        labels.extend(kind.labels(&group.name));
        for (counter, value) in &group.counters {
            let name = snake_case(counter);
            let (name, unit) = split_unit(&name);
            let family = self
                .0
                .entry(format!("longshore_{}_{name}", kind.part))
                .or_insert_with(|| Family {
                    help: glossary
                        .explain(&group.name, counter)
                        .unwrap_or_default()
                        .to_owned(),
                    unit: unit.or_else(|| kind.is_in_bytes(counter).then_some(Unit::Bytes)),
                    is_gauge: kind.is_gauge(counter),
                    values: Vec::new(),
                });
            family.values.push((labels.clone(), *value));
        }
    }
}

impl Collector for Families {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for (name, family) in &self.0 {
            let unit = family.unit.map(|unit| match unit {
                Unit::Bytes => MetricUnit::Bytes,
                Unit::Cycles => MetricUnit::Other("cycles".to_owned()),
            });
            let metric_type = match family.is_gauge {
                true => MetricType::Gauge,
                false => MetricType::Counter,
            };
            // As OpenMetrics 1.0 has it; the encoder does so in labels alone.
            let help = family.help.replace('\\', r"\\").replace('"', r#"\""#);
            let mut metric = encoder.encode_descriptor(name, &help, unit.as_ref(), metric_type)?;
            for (labels, value) in &family.values {
                let labelled = metric.encode_family(labels)?;
                match family.is_gauge {
                    true => ConstGauge::new(*value).encode(labelled)?,
                    false => ConstCounter::new(*value).encode(labelled)?,
                }
            }
        }
        Ok(())
    }
}
