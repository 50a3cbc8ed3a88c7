//! The tables of `playmeter top`, computed from two snapshots of the server.

use serde_json::Value;

/// A titled table of text.
#[derive(Debug, PartialEq)]
pub(crate) struct Table {
    pub(crate) title: String,
    pub(crate) columns: &'static [&'static str],
    /// Each row has as many cells as there are columns.
    pub(crate) rows: Vec<Vec<String>>,
}

/// Returns the tables that have rows. Rates are since `previous`, or since the start of the server.
pub(crate) fn tables(now: &Value, previous: Option<&Value>) -> Vec<Table> {
    let snapshots = MonitorSnapshots { now, previous, seconds: seconds_between(now, previous) };
    let all = [
        snapshots.server(),
        snapshots.events(),
        snapshots.requests(),
        snapshots.collectors(),
        snapshots.stores(),
        snapshots.subscriptions(),
    ];
    all.into_iter().filter(|table| !table.rows.is_empty()).collect()
}

impl Table {
    /// Formats the table as plain text with aligned columns.
    pub(crate) fn text(&self) -> String {
        let widths = self.widths();
        let line = |cells: &mut dyn Iterator<Item = &str>| {
            let cells = cells.zip(&widths).enumerate();
            let padded = cells.map(|(index, (cell, width))| match index {
                0 => format!("{cell:<width$}"),
                _ => format!("  {cell:>width$}"),
            });
            padded.collect::<String>().trim_end().to_owned() + "\n"
        };
        let header = line(&mut self.columns.iter().copied());
        let rows = self.rows.iter().map(|row| line(&mut row.iter().map(String::as_str)));
        format!("{}\n{header}{}", self.title, rows.collect::<String>())
    }

    /// Returns the width of each column in characters.
    pub(crate) fn widths(&self) -> Vec<usize> {
        let width = |column: usize| {
            let cells = self.rows.iter().map(|row| row[column].chars().count());
            cells.max().unwrap_or(0).max(self.columns[column].chars().count())
        };
        (0..self.columns.len()).map(width).collect()
    }
}

struct MonitorSnapshots<'a> {
    now: &'a Value,
    previous: Option<&'a Value>,
    /// Between the two.
    seconds: f64,
}

impl MonitorSnapshots<'_> {
    fn server(&self) -> Table {
        let process = &self.now["process"];
        let cpu = self.growth_per_second(
            &self.now["process"],
            self.previous.map(|previous| &previous["process"]),
            "cpu_s",
        );
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
        let cells = |row: &&Value| {
            let previous = self.previous_row("events", row, &["game", "endpoint", "outcome", "reason"]);
            let reason = row["reason"].as_str().map(|reason| format!(" {reason}")).unwrap_or_default();
            vec![
                format!("{}.{}{reason}", text(&row["endpoint"]), text(&row["outcome"])),
                text(&row["game"]),
                count(number(&row["count"])),
                share(number(&row["count"]), total),
                rate(self.growth_per_second(row, previous, "count")),
            ]
        };
        let columns = &["outcome", "game", "count", "share", "per second"];
        Table { title: "Events since the start".to_owned(), columns, rows: rows.iter().map(cells).collect() }
    }

    fn requests(&self) -> Table {
        let count_of = |row: &Value| number(&row["ok"]) + number(&row["refused"]) + number(&row["failed"]);
        let rows = self.sorted("requests", count_of);
        let total: f64 = rows.iter().map(|row| count_of(row)).sum();
        let cells = |row: &&Value| {
            let previous = self.previous_row("requests", row, &["method", "path"]);
            let rates =
                ["ok", "refused", "failed"].map(|outcome| self.growth_per_second(row, previous, outcome));
            vec![
                format!("{} {}", text(&row["method"]), text(&row["path"])),
                count(count_of(row)),
                share(count_of(row), total),
                rate(rates.iter().sum()),
                count(number(&row["refused"])),
                count(number(&row["failed"])),
                millis(number(&row["p50_us"])),
                millis(number(&row["p99_us"])),
            ]
        };
        let columns = &["request", "count", "share", "per second", "rejected", "failed", "p50 ms", "p99 ms"];
        Table {
            title: "Requests since the start".to_owned(),
            columns,
            rows: rows.iter().map(cells).collect(),
        }
    }

    fn collectors(&self) -> Table {
        let rows = self.sorted("collectors", |row| number(&row["counters"]["received"]));
        let cells = |row: &&Value| {
            let previous = self.previous_row("collectors", row, &["name"]).map(|row| &row["counters"]);
            let counters = &row["counters"];
            vec![
                format!("{} ({} {})", text(&row["name"]), text(&row["transport"]), text(&row["decoder"])),
                text(&row["state"]),
                count(number(&counters["received"])),
                rate(self.growth_per_second(counters, previous, "received")),
                count(number(&counters["refused"])),
                count(number(&counters["kernel_drops"])),
                count(number(&counters["connections"])),
            ]
        };
        let columns = &["collector", "state", "received", "per second", "rejected", "dropped", "connections"];
        Table {
            title: "Collectors since the start".to_owned(),
            columns,
            rows: rows.iter().map(cells).collect(),
        }
    }

    fn stores(&self) -> Table {
        let rows = self.sorted("stores", |row| number(&row["bytes"]));
        let cells = |row: &&Value| {
            let previous = self.previous_row("stores", row, &["store"]);
            let core_share =
                |field| format!("{:.1} %", self.growth_per_second(row, previous, field) / 1e6 * 100.0);
            vec![
                text(&row["store"]),
                row["count"].as_f64().map(count).unwrap_or_default(),
                if number(&row["bytes"]) > 0.0 { bytes(number(&row["bytes"])) } else { String::new() },
                rate(self.growth_per_second(row, previous, "reads")),
                core_share("read_us"),
                rate(self.growth_per_second(row, previous, "writes")),
                core_share("write_us"),
            ]
        };
        let columns = &["store", "count", "size", "reads/s", "reading", "writes/s", "writing"];
        Table { title: "Stores".to_owned(), columns, rows: rows.iter().map(cells).collect() }
    }

    fn subscriptions(&self) -> Table {
        let rows = self.sorted("subscriptions", |row| number(&row["cost_us"]["total"]));
        let cells = |row: &&Value| {
            let query = match &row["what"] {
                Value::Null => String::new(),
                query => query.to_string(),
            };
            vec![
                format!("{} {}", text(&row["topic"]), shortened(&query)),
                text(&row["mode"]),
                count(number(&row["watchers"])),
                count(number(&row["interval_ms"])),
                count(number(&row["computations"])),
                count(number(&row["changes"])),
                count(number(&row["merged"])),
                millis(number(&row["cost_us"]["mean"])),
            ]
        };
        let columns = &[
            "subscription",
            "mode",
            "subscribers",
            "interval ms",
            "computed",
            "changes",
            "merged",
            "mean ms",
        ];
        Table { title: "Subscriptions by cost".to_owned(), columns, rows: rows.iter().map(cells).collect() }
    }

    /// Returns the rows of a list, largest first.
    fn sorted(&self, list: &str, by: impl Fn(&Value) -> f64) -> Vec<&Value> {
        let mut rows: Vec<&Value> = self.now[list].as_array().into_iter().flatten().collect();
        rows.sort_by(|one, other| by(other).total_cmp(&by(one)));
        rows
    }

    /// Returns the row with the same keys in the previous snapshot.
    fn previous_row(&self, list: &str, row: &Value, keys: &[&str]) -> Option<&Value> {
        let rows = self.previous?[list].as_array()?;
        rows.iter().find(|other| keys.iter().all(|key| other[key] == row[key]))
    }

    /// Returns the growth of a field per second.
    fn growth_per_second(&self, row: &Value, previous: Option<&Value>, field: &str) -> f64 {
        let previous = previous.map_or(0.0, |previous| number(&previous[field]));
        (number(&row[field]) - previous).max(0.0) / self.seconds
    }
}

fn seconds_between(now: &Value, previous: Option<&Value>) -> f64 {
    let seconds = |snapshot: &Value| number(&snapshot["uptime_ms"]) / 1000.0;
    (seconds(now) - previous.map_or(0.0, seconds)).max(0.001)
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
    let first = (digits.len() - 1) % 3 + 1;
    let groups =
        digits.as_bytes()[first..].chunks(3).map(|group| String::from_utf8_lossy(group).into_owned());
    std::iter::once(digits[..first].to_owned()).chain(groups).collect::<Vec<_>>().join(",")
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

/// Cuts a long query off.
fn shortened(query: &str) -> String {
    const CHARACTERS: usize = 48;
    if query.chars().count() <= CHARACTERS {
        return query.to_owned();
    }
    query.chars().take(CHARACTERS - 1).chain(['…']).collect()
}
