//! What is shown, as tables: from two looks at the server to rows of text.

use serde_json::Value;

/// A heading and rows of cells; the first row names the columns.
#[derive(Debug, PartialEq)]
pub struct Table {
    /// What it is about.
    pub title: String,
    /// The names of the columns.
    pub columns: &'static [&'static str],
    /// As many cells as columns.
    pub rows: Vec<Vec<String>>,
}

/// All tables. Rates are those since `before`, or since the start.
pub fn tables(now: &Value, before: Option<&Value>) -> Vec<Table> {
    let looks = Looks { now, before, seconds: seconds_between(now, before) };
    let all = [
        looks.server(),
        looks.events(),
        looks.requests(),
        looks.collectors(),
        looks.stores(),
        looks.subscriptions(),
    ];
    all.into_iter().filter(|table| !table.rows.is_empty()).collect()
}

impl Table {
    /// As plain text, the columns below each other.
    pub fn text(&self) -> String {
        let widths = self.widths();
        let line = |cells: &mut dyn Iterator<Item = &str>| {
            let cells = cells.zip(&widths).enumerate();
            let padded = cells.map(|(place, (cell, width))| match place {
                0 => format!("{cell:<width$}"),
                _ => format!("  {cell:>width$}"),
            });
            padded.collect::<String>().trim_end().to_owned() + "\n"
        };
        let head = line(&mut self.columns.iter().copied());
        let rows = self.rows.iter().map(|row| line(&mut row.iter().map(String::as_str)));
        format!("{}\n{head}{}", self.title, rows.collect::<String>())
    }

    /// The characters that each column needs.
    pub fn widths(&self) -> Vec<usize> {
        let width = |column: usize| {
            let cells = self.rows.iter().map(|row| row[column].chars().count());
            cells.max().unwrap_or(0).max(self.columns[column].chars().count())
        };
        (0..self.columns.len()).map(width).collect()
    }
}

struct Looks<'a> {
    now: &'a Value,
    before: Option<&'a Value>,
    seconds: f64,
}

impl Looks<'_> {
    fn server(&self) -> Table {
        let process = &self.now["process"];
        let cpu = self.growth(&self.now["process"], self.before.map(|before| &before["process"]), "cpu_s");
        let row = vec![
            text(&self.now["version"]),
            duration(number(&self.now["uptime_s"])),
            format!("{:.1} %", cpu * 100.0),
            bytes(number(&process["memory_bytes"])),
            count(number(&process["threads"])),
            count(number(&process["open_files"])),
        ];
        let columns = &["version", "up", "CPU", "memory", "threads", "open files"];
        Table { title: "Server".to_owned(), columns, rows: vec![row] }
    }

    /// `events.accepted  527,837  98.25 %`.
    fn events(&self) -> Table {
        let rows = self.sorted("events", |row| number(&row["count"]));
        let total: f64 = rows.iter().map(|row| number(&row["count"])).sum();
        let tell = |row: &&Value| {
            let before = self.earlier("events", row, &["game", "endpoint", "outcome", "reason"]);
            let reason = row["reason"].as_str().map(|reason| format!(" {reason}")).unwrap_or_default();
            vec![
                format!("{}.{}{reason}", text(&row["endpoint"]), text(&row["outcome"])),
                text(&row["game"]),
                count(number(&row["count"])),
                share(number(&row["count"]), total),
                rate(self.growth(row, before, "count")),
            ]
        };
        let columns = &["outcome", "game", "count", "share", "per second"];
        Table { title: "Events since the start".to_owned(), columns, rows: rows.iter().map(tell).collect() }
    }

    fn requests(&self) -> Table {
        let all = |row: &Value| number(&row["ok"]) + number(&row["refused"]) + number(&row["failed"]);
        let rows = self.sorted("requests", all);
        let total: f64 = rows.iter().map(|row| all(row)).sum();
        let tell = |row: &&Value| {
            let before = self.earlier("requests", row, &["method", "path"]);
            let grown = ["ok", "refused", "failed"].map(|outcome| self.growth(row, before, outcome));
            vec![
                format!("{} {}", text(&row["method"]), text(&row["path"])),
                count(all(row)),
                share(all(row), total),
                rate(grown.iter().sum()),
                count(number(&row["refused"])),
                count(number(&row["failed"])),
                millis(number(&row["p50_us"])),
                millis(number(&row["p99_us"])),
            ]
        };
        let columns = &["request", "count", "share", "per second", "refused", "failed", "p50 ms", "p99 ms"];
        Table { title: "Requests since the start".to_owned(), columns, rows: rows.iter().map(tell).collect() }
    }

    fn collectors(&self) -> Table {
        let rows = self.sorted("collectors", |row| number(&row["counters"]["received"]));
        let tell = |row: &&Value| {
            let before = self.earlier("collectors", row, &["name"]).map(|row| &row["counters"]);
            let counters = &row["counters"];
            vec![
                format!("{} ({} {})", text(&row["name"]), text(&row["transport"]), text(&row["decoder"])),
                text(&row["state"]),
                count(number(&counters["received"])),
                rate(self.growth(counters, before, "received")),
                count(number(&counters["refused"])),
                count(number(&counters["kernel_drops"])),
                count(number(&counters["connections"])),
            ]
        };
        let columns = &["collector", "state", "received", "per second", "refused", "dropped", "connections"];
        Table {
            title: "Collectors since the start".to_owned(),
            columns,
            rows: rows.iter().map(tell).collect(),
        }
    }

    fn stores(&self) -> Table {
        let rows = self.sorted("stores", |row| number(&row["bytes"]));
        let tell = |row: &&Value| {
            let before = self.earlier("stores", row, &["store"]);
            let of_a_core = |field| format!("{:.1} %", self.growth(row, before, field) / 1e6 * 100.0);
            vec![
                text(&row["store"]),
                row["count"].as_f64().map(count).unwrap_or_default(),
                if number(&row["bytes"]) > 0.0 { bytes(number(&row["bytes"])) } else { String::new() },
                rate(self.growth(row, before, "reads")),
                of_a_core("read_us"),
                rate(self.growth(row, before, "writes")),
                of_a_core("write_us"),
            ]
        };
        let columns = &["store", "count", "size", "reads/s", "reading", "writes/s", "writing"];
        Table { title: "Stores".to_owned(), columns, rows: rows.iter().map(tell).collect() }
    }

    fn subscriptions(&self) -> Table {
        let rows = self.sorted("subscriptions", |row| number(&row["cost_us"]["total"]));
        let tell = |row: &&Value| {
            let what = match &row["what"] {
                Value::Null => String::new(),
                what => what.to_string(),
            };
            vec![
                format!("{} {}", text(&row["topic"]), shortened(&what)),
                text(&row["mode"]),
                count(number(&row["watchers"])),
                count(number(&row["interval_ms"])),
                count(number(&row["computations"])),
                count(number(&row["changes"])),
                count(number(&row["merged"])),
                millis(number(&row["cost_us"]["mean"])),
            ]
        };
        let columns =
            &["subscription", "mode", "watchers", "every ms", "computed", "changes", "merged", "mean ms"];
        Table { title: "Subscriptions by cost".to_owned(), columns, rows: rows.iter().map(tell).collect() }
    }

    /// The rows of a list, the largest first.
    fn sorted(&self, list: &str, by: impl Fn(&Value) -> f64) -> Vec<&Value> {
        let mut rows: Vec<&Value> = self.now[list].as_array().into_iter().flatten().collect();
        rows.sort_by(|one, other| by(other).total_cmp(&by(one)));
        rows
    }

    /// The same row in the look before.
    fn earlier(&self, list: &str, row: &Value, keys: &[&str]) -> Option<&Value> {
        let rows = self.before?[list].as_array()?;
        rows.iter().find(|other| keys.iter().all(|key| other[key] == row[key]))
    }

    /// How much a field grew per second.
    fn growth(&self, row: &Value, before: Option<&Value>, field: &str) -> f64 {
        let before = before.map_or(0.0, |before| number(&before[field]));
        (number(&row[field]) - before).max(0.0) / self.seconds
    }
}

fn seconds_between(now: &Value, before: Option<&Value>) -> f64 {
    let seconds = |look: &Value| number(&look["uptime_ms"]) / 1000.0;
    (seconds(now) - before.map_or(0.0, seconds)).max(0.001)
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(0.0)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or("-").to_owned()
}

/// `527,837`.
fn count(number: f64) -> String {
    let digits = format!("{number:.0}");
    let head = (digits.len() - 1) % 3 + 1;
    let groups = digits.as_bytes()[head..].chunks(3).map(|group| String::from_utf8_lossy(group).into_owned());
    std::iter::once(digits[..head].to_owned()).chain(groups).collect::<Vec<_>>().join(",")
}

fn share(part: f64, total: f64) -> String {
    if total > 0.0 { format!("{:.2} %", part / total * 100.0) } else { String::new() }
}

fn rate(per_second: f64) -> String {
    if per_second < 10.0 && per_second > 0.0 { format!("{per_second:.1}") } else { count(per_second) }
}

fn millis(us: f64) -> String {
    format!("{:.3}", us / 1000.0)
}

fn bytes(bytes: f64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let power =
        UNITS.len().min(1 + (1..UNITS.len()).filter(|power| bytes >= 1024f64.powi(*power as i32)).count())
            - 1;
    let value = bytes / 1024f64.powi(power as i32);
    if power == 0 { format!("{value:.0} B") } else { format!("{value:.1} {}", UNITS[power]) }
}

fn duration(seconds: f64) -> String {
    let seconds = seconds as u64;
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, ..) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

/// Questions can be long.
fn shortened(what: &str) -> String {
    const CHARACTERS: usize = 48;
    if what.chars().count() <= CHARACTERS {
        return what.to_owned();
    }
    what.chars().take(CHARACTERS - 1).chain(['…']).collect()
}
