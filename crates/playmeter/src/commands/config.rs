//! `playmeter config`: prints the effective settings and their sources.

use figment::Figment;
use figment::value::{Dict, Value};
use serde_json::json;

use crate::cli::ServeArgs;
use crate::settings;
use crate::settings::collectors::{self, RawCollectors};

/// Prints every setting. Fails for settings with which `playmeter serve` would fail.
pub(crate) fn run(args: ServeArgs) -> anyhow::Result<()> {
    let figment = settings::layers(&args)?;
    settings::read(&figment)?.resolve()?;
    let values: Dict = figment.extract()?;
    let mut rows = Vec::new();
    flatten("", &values, &mut rows);
    let sources: Vec<String> = rows.iter().map(|(key, _)| source(&figment, key)).collect();
    let collectors = settings::read(&figment)?.collectors;
    let inherited = inherited_rows(&figment, &collectors)?;
    let rows = rows.into_iter().zip(sources).map(|((key, value), source)| (key, value, source));
    for (key, value, source) in rows.chain(inherited) {
        if args.json {
            println!("{}", json!({ "key": key, "value": value, "source": source }));
        } else {
            println!("{key} = {value}    # {source}");
        }
    }
    Ok(())
}

/// Returns the keys that collectors inherit, with their values and sources.
fn inherited_rows(
    figment: &Figment,
    all: &RawCollectors,
) -> anyhow::Result<Vec<(String, serde_json::Value, String)>> {
    let mut rows = Vec::new();
    for (name, own) in all {
        let (bases, merged) = (collectors::bases(name, all)?, collectors::inherited(name, all)?);
        let values = serde_json::to_value(&merged)?;
        let has = |name: &str, key: &str| all[name].keys().contains(&key);
        for key in merged.keys().into_iter().filter(|key| !own.keys().contains(key)) {
            let Some(base) = bases.iter().find(|base| has(base, key)) else { continue };
            let origin = source(figment, &format!("collectors.{base}.{key}"));
            rows.push((
                format!("collectors.{name}.{key}"),
                values[key].clone(),
                format!("extends {base}, {origin}"),
            ));
        }
    }
    Ok(rows)
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
