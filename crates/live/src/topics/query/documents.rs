//! A query result as documents: one for each point and one for each total.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use model::query::{BucketTimes, ChangedValues, QueryResult, Series};
use pipeline::query::result;
use serde_json::{Map, Value};

use crate::document_builder::DocumentBuilder;
use crate::documents::{Document, DocumentFields, FieldName, JsonText};

/// The documents of the result that was last published: the points of each series, followed by its total.
pub(super) struct ResultDocuments {
    builder: DocumentBuilder,
    /// Empty: not built yet.
    documents: Vec<Arc<Document>>,
}

impl ResultDocuments {
    pub(super) fn new(builder: DocumentBuilder) -> ResultDocuments {
        ResultDocuments { builder, documents: Vec::new() }
    }

    /// Discards the documents, because the next result has other series or times.
    pub(super) fn clear(&mut self) {
        self.documents.clear();
    }

    /// Returns the documents of a result. Unchanged documents are the same `Arc` as before.
    pub(super) fn of(&mut self, result: &QueryResult) -> Vec<Arc<Document>> {
        if self.documents.is_empty() {
            self.add_window(&result.times, &result.series, None);
            if let Some(compared) = &result.compare {
                self.add_window(&compared.times, &compared.series, Some("previous"));
            }
        }
        self.documents.clone()
    }

    /// Replaces the documents whose values differ from the previous result.
    pub(super) fn patch(&mut self, result: &QueryResult, changed: &ChangedValues) {
        if self.documents.is_empty() {
            return;
        }
        let width = result.times.minutes.len();
        for (series, bucket) in &changed.points {
            let value = result.series[*series].values[*bucket];
            replace_value(&mut self.documents[series * (width + 1) + bucket], "value", value);
        }
        for series in &changed.totals {
            let total = result.series[*series].total;
            replace_value(&mut self.documents[series * (width + 1) + width], "total", total);
        }
    }

    /// Returns the one document of a query without a result, which says why.
    pub(super) fn error(&self, why: &str) -> Vec<Arc<Document>> {
        self.builder.error(why)
    }

    /// Adds the documents of one window. The window of comparison is named in the field `window`.
    fn add_window(&mut self, times: &BucketTimes, series: &[Series], window: Option<&'static str>) {
        let time = |index| JsonText::of(&result::time(times, index));
        let time_texts: Vec<JsonText> = (0..times.minutes.len()).map(time).collect();
        for series in series {
            let (prefix, mut head) = (id_prefix(series, window), head_fields(series));
            head.extend(window.map(|window| (FieldName::from("window"), JsonText::of(window))));
            let value =
                |name: &'static str, value| (FieldName::from(name), JsonText::of(&result::number(value)));
            for (index, point) in series.values.iter().enumerate() {
                let time = (FieldName::from("time"), time_texts[index].clone());
                let fields: DocumentFields =
                    head.iter().cloned().chain([time, value("value", *point)]).collect();
                let id = format_args!("{prefix}{}", times.minutes[index]);
                self.documents.push(self.builder.document(id, fields));
            }
            let total: DocumentFields = head.into_iter().chain([value("total", series.total)]).collect();
            self.documents.push(self.builder.document(format_args!("{prefix}total"), total));
        }
    }
}

fn replace_value(document: &mut Arc<Document>, field: &'static str, value: Option<f64>) {
    let others = document.fields.iter().filter(|(name, _)| name != field).cloned();
    let value = (FieldName::from(field), JsonText::of(&result::number(value)));
    *document = Arc::new(Document { id: Arc::clone(&document.id), fields: others.chain([value]).collect() });
}

/// Returns the part of the ids that distinguishes the documents of a series. Empty for the usual case of a single series.
fn id_prefix(series: &Series, window: Option<&str>) -> String {
    if series.name.is_none() && series.key.is_empty() && window.is_none() {
        return String::new();
    }
    let mut hasher = DefaultHasher::new();
    (&series.name, &series.key, window).hash(&mut hasher);
    format!("{:x}/", hasher.finish())
}

fn head_fields(series: &Series) -> Vec<(FieldName, JsonText)> {
    let name = series.name.as_ref().map(|name| (FieldName::from("name"), JsonText::of(name)));
    name.into_iter().chain([(FieldName::from("key"), JsonText::of(&key(series)))]).collect()
}

/// Returns the dimension values of a series as a JSON object.
pub(super) fn key(series: &Series) -> Map<String, Value> {
    series.key.iter().map(|(by, value)| (by.label().to_owned(), value.as_str().into())).collect()
}
