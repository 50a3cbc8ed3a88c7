//! `playmeter config`: what is in force and where each value comes from.

use figment::Figment;
use figment::value::{Dict, Value};
use serde_json::json;

use crate::cli::ServeArgs;
use crate::settings;

/// Prints every setting. Settings that could not be started with are an error, as at the start.
pub fn run(args: ServeArgs) -> anyhow::Result<()> {
    let figment = settings::layers(&args)?;
    settings::read(&figment)?.resolve()?;
    let values: Dict = figment.extract()?;
    let mut rows = Vec::new();
    flatten("", &values, &mut rows);
    for (key, value) in rows {
        let source = source(&figment, &key);
        if args.json {
            println!("{}", json!({ "key": key, "value": value, "source": source }));
        } else {
            println!("{key} = {value}    # {source}");
        }
    }
    Ok(())
}

fn flatten(prefix: &str, values: &Dict, rows: &mut Vec<(String, serde_json::Value)>) {
    for (key, value) in values {
        let key = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        match value {
            Value::Dict(_, inner) => flatten(&key, inner, rows),
            value => rows.push((key, serde_json::to_value(value).unwrap_or_default())),
        }
    }
}

fn source(figment: &Figment, key: &str) -> String {
    figment.find_metadata(key).map_or_else(|| "default".into(), settings::source)
}
