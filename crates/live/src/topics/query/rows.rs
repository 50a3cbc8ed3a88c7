//! An answer as documents: one for each point and one for each total.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use model::query::{BucketTimes, ChangedValues, QueryResult, Series};
use serde_json::{Map, Value};

use crate::docs::{Doc, Fields, Json, Name};
use crate::topic::List;
use pipeline::query::result;

/// The documents of the answer that was told last, in the order of its points: each series, and then its total.
pub(super) struct Rows {
    list: List,
    /// Empty: they have to be made.
    docs: Vec<Arc<Doc>>,
}

impl Rows {
    pub fn new(list: List) -> Rows {
        Rows { list, docs: Vec::new() }
    }

    /// The answer is another one altogether.
    pub fn clear(&mut self) {
        self.docs.clear();
    }

    /// The documents of an answer. Those that were not touched since the last one are the same.
    pub fn of(&mut self, answer: &QueryResult) -> Vec<Arc<Doc>> {
        if self.docs.is_empty() {
            self.window(&answer.times, &answer.series, None);
            if let Some(compared) = &answer.compare {
                self.window(&compared.times, &compared.series, Some("previous"));
            }
        }
        self.docs.clone()
    }

    /// Makes those documents again in which the answer differs from the one before.
    pub fn patch(&mut self, answer: &QueryResult, changed: &ChangedValues) {
        if self.docs.is_empty() {
            return;
        }
        let width = answer.times.minutes.len();
        for (series, bucket) in &changed.points {
            let value = answer.series[*series].values[*bucket];
            replace(&mut self.docs[series * (width + 1) + bucket], "value", value);
        }
        for series in &changed.totals {
            replace(&mut self.docs[series * (width + 1) + width], "total", answer.series[*series].total);
        }
    }

    /// Why there is no answer.
    pub fn failed(&self, why: &str) -> Vec<Arc<Doc>> {
        self.list.failed(why)
    }

    /// The documents of a window. Those of the window compared with say so.
    fn window(&mut self, times: &BucketTimes, series: &[Series], window: Option<&'static str>) {
        let clock = |index| Json::of(&result::time(times, index));
        let clock: Vec<Json> = (0..times.minutes.len()).map(clock).collect();
        for series in series {
            let (row, mut head) = (row_of(series, window), head_of(series));
            head.extend(window.map(|window| (Name::from("window"), Json::of(window))));
            let value = |name: &'static str, value| (Name::from(name), Json::of(&result::number(value)));
            for (index, point) in series.values.iter().enumerate() {
                let time = (Name::from("time"), clock[index].clone());
                let fields: Fields = head.iter().cloned().chain([time, value("value", *point)]).collect();
                self.docs.push(self.list.doc(format_args!("{row}{}", times.minutes[index]), fields));
            }
            let total: Fields = head.into_iter().chain([value("total", series.total)]).collect();
            self.docs.push(self.list.doc(format_args!("{row}total"), total));
        }
    }
}

/// The document with another value in this field.
fn replace(doc: &mut Arc<Doc>, field: &'static str, value: Option<f64>) {
    let others = doc.fields.iter().filter(|(name, _)| name != field).cloned();
    let value = (Name::from(field), Json::of(&result::number(value)));
    *doc = Arc::new(Doc { id: Arc::clone(&doc.id), fields: others.chain([value]).collect() });
}

/// Tells the documents of a series from those of others. There is mostly only one, which needs no more.
fn row_of(series: &Series, window: Option<&str>) -> String {
    if series.name.is_none() && series.key.is_empty() && window.is_none() {
        return String::new();
    }
    let mut hasher = DefaultHasher::new();
    (&series.name, &series.key, window).hash(&mut hasher);
    format!("{:x}/", hasher.finish())
}

fn head_of(series: &Series) -> Vec<(Name, Json)> {
    let name = series.name.as_ref().map(|name| (Name::from("name"), Json::of(name)));
    name.into_iter().chain([(Name::from("key"), Json::of(&key(series)))]).collect()
}

/// The values by which a series differs from others.
pub(super) fn key(series: &Series) -> Map<String, Value> {
    series.key.iter().map(|(by, value)| (by.label().to_owned(), value.as_str().into())).collect()
}
