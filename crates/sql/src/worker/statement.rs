//! Which statements may run: one, and only if DuckDB itself says that it reads.

use sql::protocol::{Failure, FailureKind};

use super::database::{Database, Prepared};

/// Statement types of DuckDB's C API.
const SELECT: u32 = 1;
const EXPLAIN: u32 = 4;

/// Prepares a statement that may run.
pub(crate) fn prepare<'a>(database: &'a Database, sql: &str) -> Result<Prepared<'a>, Failure> {
    let statement = database.prepare(sql)?;
    match statement.kind() {
        SELECT => {}
        // EXPLAIN ANALYZE runs the statement behind it.
        EXPLAIN if explains_select(database, sql) => {}
        _ => {
            let message = "only statements that read are allowed: SELECT, WITH, FROM, VALUES, DESCRIBE, SHOW, \
                SUMMARIZE and EXPLAIN of these";
            return Err(Failure::new(FailureKind::NotAllowed, message));
        }
    }
    match statement.parameters() {
        0 => Ok(statement),
        _ => Err(Failure::new(
            FailureKind::NotAllowed,
            "parameters are not supported; write the values instead",
        )),
    }
}

/// Returns whether what an EXPLAIN explains is a SELECT. Where the explained statement starts is read from the text;
/// what it is, DuckDB decides.
fn explains_select(database: &Database, sql: &str) -> bool {
    let Some(rest) = after_word(sql, &["explain"]) else { return false };
    let mut starts = vec![rest];
    if let Some(rest) = after_word(rest, &["analyze", "analyse"]) {
        starts = vec![rest];
    }
    if let Some(rest) = after_parentheses(starts[0]) {
        starts.push(rest);
    }
    starts.iter().any(|start| database.prepare(start).is_ok_and(|statement| statement.kind() == SELECT))
}

/// Returns what follows one of these words at the start of a statement.
fn after_word<'a>(sql: &'a str, words: &[&str]) -> Option<&'a str> {
    let sql = skip_space(sql);
    let end = sql.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(sql.len());
    let (word, rest) = sql.split_at(end);
    words.iter().any(|known| word.eq_ignore_ascii_case(known)).then_some(rest)
}

/// Returns what follows the options of an EXPLAIN, which are plain words: `(FORMAT json, ANALYZE)`.
fn after_parentheses(sql: &str) -> Option<&str> {
    let (options, rest) = skip_space(sql).strip_prefix('(')?.split_once(')')?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c.is_ascii_whitespace() || matches!(c, ',' | '_');
    options.chars().all(is_plain).then_some(rest)
}

/// Returns the text behind white space and comments.
fn skip_space(sql: &str) -> &str {
    let mut rest = sql.trim_start();
    loop {
        rest = match (rest.strip_prefix("--"), rest.strip_prefix("/*")) {
            (Some(comment), _) => comment.split_once('\n').map_or("", |(_, rest)| rest),
            (_, Some(comment)) => comment.split_once("*/").map_or("", |(_, rest)| rest),
            _ => return rest,
        }
        .trim_start();
    }
}
