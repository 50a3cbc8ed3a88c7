//! The interactive view of the tables in a terminal.

use std::io::Write;
use std::time::{Duration, Instant};

use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use crossterm::style::{Attribute, Print, SetAttribute};
use crossterm::terminal::{self, Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen};
use crossterm::{execute, queue};
use serde_json::Value;

use super::tables::{Table, tables};

/// The tables on the screen and the state of the view.
pub(super) struct TopView {
    tables: Vec<Table>,
    /// Index of the first visible table.
    first_table: usize,
    is_paused: bool,
    /// The error of the last update.
    error: Option<String>,
}

/// The terminal in raw mode on the alternate screen; restored when dropped, also on errors.
struct TerminalGuard;

impl TerminalGuard {
    fn enter() -> std::io::Result<TerminalGuard> {
        terminal::enable_raw_mode()?;
        let guard = TerminalGuard;
        execute!(std::io::stdout(), EnterAlternateScreen, Hide)?;
        Ok(guard)
    }
}

impl Drop for TerminalGuard {
    fn drop(&mut self) {
        let _ = execute!(std::io::stdout(), Show, LeaveAlternateScreen);
        let _ = terminal::disable_raw_mode();
    }
}

/// Shows a snapshot every interval until `q`, Escape or Ctrl-C is pressed.
pub(crate) fn run(
    first: Value,
    every: Duration,
    snapshot: impl Fn() -> anyhow::Result<Value>,
) -> anyhow::Result<()> {
    let _terminal = TerminalGuard::enter()?;
    let mut view = TopView::new(tables(&first, None));
    let mut previous = first;
    loop {
        let (width, height) = terminal::size()?;
        view.draw(&mut std::io::stdout().lock(), width.into(), height.into())?;
        if view.handle_keys_until(Instant::now() + every)? {
            return Ok(());
        }
        if view.is_paused {
            continue;
        }
        match snapshot() {
            Ok(now) => {
                view.tables = tables(&now, Some(&previous));
                (view.error, previous) = (None, now);
            }
            Err(error) => view.error = Some(format!("{error:#}")),
        }
    }
}

impl TopView {
    pub(super) fn new(tables: Vec<Table>) -> TopView {
        TopView { tables, first_table: 0, is_paused: false, error: None }
    }

    /// Handles keys until then. Returns true if the user wants to quit.
    fn handle_keys_until(&mut self, end: Instant) -> anyhow::Result<bool> {
        while event::poll(end.saturating_duration_since(Instant::now()))? {
            match event::read()? {
                Event::Key(key) if key.kind == KeyEventKind::Press => {
                    self.press(key.code);
                    return Ok(is_quit(key));
                }
                Event::Resize(..) => return Ok(false),
                _ => {}
            }
        }
        Ok(false)
    }

    pub(super) fn press(&mut self, key: KeyCode) {
        let last = self.tables.len().saturating_sub(1);
        match key {
            KeyCode::Down | KeyCode::Char('j') => self.first_table = (self.first_table + 1).min(last),
            KeyCode::Up | KeyCode::Char('k') => self.first_table = self.first_table.saturating_sub(1),
            KeyCode::Char(' ') => self.is_paused = !self.is_paused,
            _ => {}
        }
    }

    /// Draws one screen. Whatever does not fit is cut off.
    pub(super) fn draw(&self, out: &mut impl Write, width: usize, height: usize) -> std::io::Result<()> {
        let cut = |line: &str| line.chars().take(width).collect::<String>();
        let lines = self.lines();
        let mut lines = lines.iter().take(height.saturating_sub(1));
        for row in 0..height.saturating_sub(1) {
            queue!(out, MoveTo(0, row as u16), Clear(ClearType::CurrentLine))?;
            let Some((is_heading, line)) = lines.next() else { continue };
            let (before, after) = match is_heading {
                true => (Attribute::Bold, Attribute::Reset),
                false => (Attribute::Reset, Attribute::Reset),
            };
            queue!(out, SetAttribute(before), Print(cut(line)), SetAttribute(after))?;
        }
        let last_row = height.saturating_sub(1) as u16;
        queue!(out, MoveTo(0, last_row), Clear(ClearType::CurrentLine), Print(cut(&self.status_line())))?;
        out.flush()
    }

    /// Returns the lines; true marks a heading.
    fn lines(&self) -> Vec<(bool, String)> {
        let tables = self.tables.iter().skip(self.first_table).map(Table::text);
        let lines = |text: String| {
            let lines = text.lines().map(str::to_owned).chain([String::new()]);
            lines.enumerate().map(|(index, line)| (index == 0, line)).collect::<Vec<_>>()
        };
        tables.flat_map(lines).collect()
    }

    fn status_line(&self) -> String {
        match (&self.error, self.is_paused) {
            (Some(error), _) => error.clone(),
            (None, true) => "paused; space resumes, q quits".to_owned(),
            (None, false) => "q quits, space pauses, up and down scroll".to_owned(),
        }
    }
}

fn is_quit(key: KeyEvent) -> bool {
    let is_control_c = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
    is_control_c || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc)
}
