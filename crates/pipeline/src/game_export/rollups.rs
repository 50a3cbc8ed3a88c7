//! The rollups of a game by hour.

use std::collections::BTreeSet;

use anyhow::Context;
use model::Dimension;
use model::ports::counters::SlotSelector;
use model::rollup::Aggregate;
use model::series::{Cut, Resolution, SERVER_DIMENSIONS};
use serde_json::{Map, Value, json};

use super::{ExportTarget, GameExport, LineFolder};
use crate::time::rfc3339;

const MINUTES_PER_DAY: u32 = 24 * 60;
/// The times that rollups can have.
const ALL: std::ops::Range<u32> = 0..u32::MAX;

impl GameExport<'_> {
    /// Writes one line per metric, hour and value of a dimension. Returns the number of lines.
    pub(super) fn write_rollups(&self, target: &mut dyn ExportTarget) -> anyhow::Result<u64> {
        let mut folder = LineFolder::new("rollups");
        let counters = &self.views.counters;
        for metric in counters.metrics(self.game.number, ALL).context("reading the rollups")? {
            let mut days = BTreeSet::new();
            let select = |cut| SlotSelector {
                game: self.game.number,
                metric: &metric,
                cut,
                values: None,
                resolution: Resolution::Hour,
            };
            let mut add_day = |_: &str, minute: u32, _: &Aggregate| {
                days.insert(minute / MINUTES_PER_DAY);
            };
            counters.visit(select(Cut::Total), ALL, &mut add_day).context("reading the rollups")?;
            for day in days {
                self.check_running()?;
                for (cut, by) in self.cuts() {
                    let minutes = day * MINUTES_PER_DAY..(day + 1) * MINUTES_PER_DAY;
                    // A line is written only after the visit, which the applier waits for.
                    let mut rows = Vec::new();
                    let mut add = |value: &str, minute, aggregate: &Aggregate| {
                        rows.push(row(&metric, minute, by, value, aggregate));
                    };
                    counters.visit(select(cut), minutes, &mut add).context("reading the rollups")?;
                    for row in &rows {
                        folder.add(row, target)?;
                    }
                }
            }
        }
        folder.finish(target)
    }

    /// Returns the divisions of each metric, with the name of the dimension.
    fn cuts(&self) -> Vec<(Cut, Option<&str>)> {
        let built_in = Dimension::ALL.map(|dimension| (Cut::By(dimension), Some(dimension.label())));
        let stamped = SERVER_DIMENSIONS.map(|(number, name)| (Cut::Declared(number), Some(name)));
        let declared = self.game.settings.dimensions.iter();
        let declared = declared.map(|dimension| (Cut::Declared(dimension.number), Some(&*dimension.name)));
        [(Cut::Total, None)].into_iter().chain(built_in).chain(stamped).chain(declared).collect()
    }
}

fn row(metric: &str, minute: u32, by: Option<&str>, value: &str, aggregate: &Aggregate) -> Value {
    let mut fields = Map::new();
    fields.insert("metric".to_owned(), metric.into());
    fields.insert("hour".to_owned(), rfc3339(i64::from(minute) * 60_000).into());
    if let Some(by) = by {
        fields.insert("by".to_owned(), by.into());
        fields.insert("key".to_owned(), value.into());
    }
    fields.insert("count".to_owned(), aggregate.count.into());
    let players = aggregate.players.count();
    if players > 0 {
        fields.insert("players".to_owned(), players.into());
    }
    if let Some(values) = &aggregate.values {
        fields.insert("sum".to_owned(), values.sum.value().into());
        fields.insert("min".to_owned(), values.min.into());
        fields.insert("max".to_owned(), values.max.into());
        for (name, q) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99)] {
            fields.insert(name.to_owned(), json!(values.quantile(q)));
        }
        if let Some(last) = &values.last {
            fields.insert("last".to_owned(), last.value.into());
        }
    }
    fields.into()
}
