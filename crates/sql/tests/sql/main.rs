//! Drives real workers over Parquet files that DuckDB has written.

mod duckdb;
mod support;

mod answers;
mod docs;
mod isolation;
mod lifecycle;
