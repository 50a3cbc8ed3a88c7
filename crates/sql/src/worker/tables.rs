//! The views `events`, `sessions`, `players` and `scores` over the files of a game.

use std::path::{Path, PathBuf};

use sql::protocol::{Failure, FailureKind, FileFormat, TableFile, Tables};

use super::database::Database;

/// The columns of events and the types they have if no file has them.
const EVENTS: [(&str, &str); 13] = [
    ("ts", "TIMESTAMPTZ"),
    ("event", "VARCHAR"),
    ("id", "VARCHAR"),
    ("player", "VARCHAR"),
    ("session", "VARCHAR"),
    ("value", "DOUBLE"),
    ("country", "VARCHAR"),
    ("platform", "VARCHAR"),
    ("version", "VARCHAR"),
    ("source", "VARCHAR"),
    ("level", "VARCHAR"),
    ("props", "VARCHAR"),
    ("received", "TIMESTAMPTZ"),
];

/// The column of the archive by which players are hidden.
const PLAYER_HASH: &str = "player_hash";

const SESSIONS: [(&str, &str); 10] = [
    ("session", "VARCHAR"),
    ("player", "VARCHAR"),
    ("started", "TIMESTAMPTZ"),
    ("ended", "TIMESTAMPTZ"),
    ("duration_s", "DOUBLE"),
    ("events", "BIGINT"),
    ("country", "VARCHAR"),
    ("platform", "VARCHAR"),
    ("version", "VARCHAR"),
    ("source", "VARCHAR"),
];

const PLAYERS: [(&str, &str); 8] = [
    ("player", "VARCHAR"),
    ("first_seen", "TIMESTAMPTZ"),
    ("last_seen", "TIMESTAMPTZ"),
    ("events", "BIGINT"),
    ("sessions", "BIGINT"),
    ("country", "VARCHAR"),
    ("platform", "VARCHAR"),
    ("version", "VARCHAR"),
];

const SCORES: [(&str, &str); 10] = [
    ("board", "VARCHAR"),
    ("rank", "BIGINT"),
    ("player", "VARCHAR"),
    ("name", "VARCHAR"),
    ("score", "DOUBLE"),
    ("subscore", "DOUBLE"),
    ("ts", "TIMESTAMPTZ"),
    ("source", "VARCHAR"),
    ("verified", "BOOLEAN"),
    ("fields", "VARCHAR"),
];

/// A session is what carries its id. Its attributes are those of its first event that has them.
const SESSIONS_OF_EVENTS: &str = "SELECT session, arg_max(player, ts) AS player, min(ts) AS started, max(ts) AS ended, \
    (epoch_ms(max(ts)) - epoch_ms(min(ts))) / 1000.0::DOUBLE AS duration_s, count(*) AS events, \
    arg_min(country, ts) AS country, arg_min(platform, ts) AS platform, arg_min(version, ts) AS version, \
    arg_min(source, ts) AS source FROM events WHERE session IS NOT NULL GROUP BY session";

/// A player's attributes are those of the newest event that has them.
const PLAYERS_OF_EVENTS: &str = "SELECT player, min(ts) AS first_seen, max(ts) AS last_seen, count(*) AS events, \
    count(DISTINCT session) AS sessions, arg_max(country, ts) AS country, arg_max(platform, ts) AS platform, \
    arg_max(version, ts) AS version FROM events WHERE player IS NOT NULL GROUP BY player";

/// Creates the views. `paths` are those under which this process finds the files, in the order of [`all_files`].
pub(crate) fn create_views(database: &Database, tables: &Tables, paths: &[PathBuf]) -> Result<(), Failure> {
    let mut paths = paths.iter();
    let mut take = |files: &[TableFile]| -> Files {
        let mut taken = Files::default();
        for (file, path) in files.iter().zip(paths.by_ref()) {
            match file.format {
                FileFormat::Parquet => taken.parquet.push(path.clone()),
                FileFormat::Ndjson => taken.ndjson.push(path.clone()),
            }
        }
        taken
    };
    let [events, sessions, players, scores] =
        [&tables.events, &tables.sessions, &tables.players, &tables.scores].map(|files| take(files));
    let view = |name: &str, query: &str| database.run(&format!("CREATE VIEW {name} AS {query}"));
    let rows = |files: &Files, columns: &[(&str, &str)], derived: Option<&str>| match derived {
        Some(derived) if files.is_empty() => derived.to_owned(),
        _ => files.rows(columns),
    };
    view("events", &events_query(database, &events, &tables.hidden_players)?)?;
    view("sessions", &rows(&sessions, &SESSIONS, Some(SESSIONS_OF_EVENTS)))?;
    view("players", &rows(&players, &PLAYERS, Some(PLAYERS_OF_EVENTS)))?;
    view("scores", &rows(&scores, &SCORES, None))
}

/// Returns the files of all tables.
pub(crate) fn all_files(tables: &Tables) -> impl Iterator<Item = &TableFile> {
    [&tables.events, &tables.sessions, &tables.players, &tables.scores].into_iter().flatten()
}

/// The files of a table under the names that this process has for them.
#[derive(Default)]
struct Files {
    parquet: Vec<PathBuf>,
    ndjson: Vec<PathBuf>,
}

impl Files {
    fn is_empty(&self) -> bool {
        self.parquet.is_empty() && self.ndjson.is_empty()
    }

    /// Returns a query for the rows of these files. All have at least these columns.
    fn rows(&self, columns: &[(&str, &str)]) -> String {
        let mut parts = vec![no_rows(columns)];
        if !self.parquet.is_empty() {
            parts.push(format!("SELECT * FROM {}", read_parquet(&self.parquet)));
        }
        if !self.ndjson.is_empty() {
            parts.push(format!("SELECT * FROM {}", read_ndjson(&self.ndjson, columns)));
        }
        parts.join(" UNION ALL BY NAME ")
    }
}

fn events_query(database: &Database, files: &Files, hidden: &[u64]) -> Result<String, Failure> {
    let mut found = Vec::new();
    if !files.parquet.is_empty() {
        let describe = format!("DESCRIBE SELECT * FROM {}", read_parquet(&files.parquet));
        found = database.first_two_columns(&describe)?;
    }
    let shredded: Vec<(String, String)> =
        found.iter().filter(|(name, _)| name.starts_with("props.")).cloned().collect();
    let mut parts = Vec::new();
    if !files.parquet.is_empty() {
        let expression = |name: &str, default: &str| match found.iter().find(|(found, _)| found == name) {
            // `ts` in files of other writers may lack the mark that it is UTC.
            Some((_, of)) if default == "TIMESTAMPTZ" && of != "TIMESTAMP WITH TIME ZONE" => {
                format!("timezone('UTC', {}::TIMESTAMP) AS {0}", quoted(name))
            }
            // The archive has UUIDs; a text can be compared with any text.
            Some((_, of)) if default == "VARCHAR" && of != "VARCHAR" => {
                format!("{}::VARCHAR AS {0}", quoted(name))
            }
            Some(_) => quoted(name),
            None => format!("NULL::{default} AS {}", quoted(name)),
        };
        let mut columns: Vec<String> = EVENTS.iter().map(|(name, of)| expression(name, of)).collect();
        columns.extend(shredded.iter().map(|(name, _)| quoted(name)));
        let mut part = format!("SELECT {} FROM {}", columns.join(", "), read_parquet(&files.parquet));
        if !hidden.is_empty() && found.iter().any(|(name, _)| name == PLAYER_HASH) {
            let hidden: Vec<String> = hidden.iter().map(u64::to_string).collect();
            let hidden = hidden.join(", ");
            part.push_str(&format!(" WHERE {PLAYER_HASH} IS NULL OR {PLAYER_HASH} NOT IN ({hidden})"));
        }
        parts.push(part);
    }
    if !files.ndjson.is_empty() {
        let fields: Vec<(&str, &str)> =
            EVENTS.iter().map(|(name, of)| (*name, if *name == "props" { "JSON" } else { *of })).collect();
        let replaced = replace_shredded(&shredded)?;
        parts.push(format!("SELECT {replaced} FROM {}", read_ndjson(&files.ndjson, &fields)));
    }
    if parts.is_empty() {
        parts.push(no_rows(&EVENTS));
    }
    // The order of the columns is fixed, whatever the files have.
    let mut names: Vec<String> = EVENTS.iter().map(|(name, _)| (*name).to_owned()).collect();
    let before_props = EVENTS.len() - 2;
    names.splice(before_props..before_props, shredded.into_iter().map(|(name, _)| name));
    let mut columns: Vec<String> = names.iter().map(|name| quoted(name)).collect();
    // A plain TIMESTAMP is cut to hours and days ten times faster; `ts` itself lets DuckDB skip files by their times.
    columns.insert(1, "make_timestamp(epoch_us(ts)) AS ts_utc".to_owned());
    Ok(format!("SELECT {} FROM ({})", columns.join(", "), parts.join(" UNION ALL BY NAME ")))
}

/// Returns the columns of events in NDJSON: properties that have columns of their own in the archive move there.
fn replace_shredded(shredded: &[(String, String)]) -> Result<String, Failure> {
    if shredded.is_empty() {
        return Ok("* REPLACE (props::VARCHAR AS props)".to_owned());
    }
    let property = |name: &str| name["props.".len()..].to_owned();
    let removed: serde_json::Map<_, _> =
        shredded.iter().map(|(name, _)| (property(name), serde_json::Value::Null)).collect();
    let removed = serde_json::to_string(&removed)
        .map_err(|error| Failure::new(FailureKind::Internal, error.to_string()))?;
    let rest =
        format!("nullif(json_merge_patch(coalesce(props, '{{}}'), {})::VARCHAR, '{{}}')", literal(&removed));
    let mut columns = vec![format!("* REPLACE ({rest} AS props)")];
    for (name, of) in shredded {
        let pointer = format!("/{}", property(name).replace('~', "~0").replace('/', "~1"));
        let text = format!("json_extract_string(props, {})", literal(&pointer));
        columns.push(format!("TRY_CAST({text} AS {of}) AS {}", quoted(name)));
    }
    Ok(columns.join(", "))
}

fn no_rows(columns: &[(&str, &str)]) -> String {
    let columns: Vec<String> =
        columns.iter().map(|(name, of)| format!("NULL::{of} AS {}", quoted(name))).collect();
    format!("(SELECT {} LIMIT 0)", columns.join(", "))
}

fn read_parquet(paths: &[PathBuf]) -> String {
    format!("read_parquet({}, union_by_name = true)", list(paths))
}

fn read_ndjson(paths: &[PathBuf], columns: &[(&str, &str)]) -> String {
    let columns: Vec<String> =
        columns.iter().map(|(name, of)| format!("{}: {}", literal(name), literal(of))).collect();
    format!(
        "read_json({}, format = 'newline_delimited', compression = 'uncompressed', columns = {{{}}})",
        list(paths),
        columns.join(", ")
    )
}

/// Returns paths as a list of SQL.
pub(crate) fn list(paths: &[PathBuf]) -> String {
    let paths: Vec<String> = paths.iter().map(|path| literal(&path_text(path))).collect();
    format!("[{}]", paths.join(", "))
}

fn path_text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
