//! The tables on a terminal, until somebody has seen enough.

use std::io::Write;
use std::time::{Duration, Instant};

use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use crossterm::style::{Attribute, Print, SetAttribute};
use crossterm::terminal::{self, Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen};
use crossterm::{execute, queue};
use serde_json::Value;

use super::tables::{Table, tables};

/// What is on the screen.
pub(super) struct Shown {
    tables: Vec<Table>,
    /// The first table that is seen.
    top: usize,
    is_paused: bool,
    /// Why the last look failed.
    failure: Option<String>,
}

/// The terminal as ours; given back when dropped, also when something fails.
struct Screen;

impl Screen {
    fn take() -> std::io::Result<Screen> {
        terminal::enable_raw_mode()?;
        let screen = Screen;
        execute!(std::io::stdout(), EnterAlternateScreen, Hide)?;
        Ok(screen)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = execute!(std::io::stdout(), Show, LeaveAlternateScreen);
        let _ = terminal::disable_raw_mode();
    }
}

/// Looks and shows, again and again. Ends at `q`, Escape or Ctrl-C.
pub fn run(first: Value, every: Duration, look: impl Fn() -> anyhow::Result<Value>) -> anyhow::Result<()> {
    let _screen = Screen::take()?;
    let mut shown = Shown::of(tables(&first, None));
    let mut before = first;
    loop {
        let (width, height) = terminal::size()?;
        shown.draw(&mut std::io::stdout().lock(), width.into(), height.into())?;
        if shown.keys_until(Instant::now() + every)? {
            return Ok(());
        }
        if shown.is_paused {
            continue;
        }
        match look() {
            Ok(now) => {
                shown.tables = tables(&now, Some(&before));
                (shown.failure, before) = (None, now);
            }
            Err(failure) => shown.failure = Some(format!("{failure:#}")),
        }
    }
}

impl Shown {
    pub(super) fn of(tables: Vec<Table>) -> Shown {
        Shown { tables, top: 0, is_paused: false, failure: None }
    }

    /// Follows keys until then. True: enough.
    fn keys_until(&mut self, end: Instant) -> anyhow::Result<bool> {
        while event::poll(end.saturating_duration_since(Instant::now()))? {
            match event::read()? {
                Event::Key(key) if key.kind == KeyEventKind::Press => {
                    self.press(key.code);
                    return Ok(is_end(key));
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
            KeyCode::Down | KeyCode::Char('j') => self.top = (self.top + 1).min(last),
            KeyCode::Up | KeyCode::Char('k') => self.top = self.top.saturating_sub(1),
            KeyCode::Char(' ') => self.is_paused = !self.is_paused,
            _ => {}
        }
    }

    /// Writes one screen: what does not fit is left out.
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
        let foot = height.saturating_sub(1) as u16;
        queue!(out, MoveTo(0, foot), Clear(ClearType::CurrentLine), Print(cut(&self.foot())))?;
        out.flush()
    }

    /// Each line, and whether it is a heading.
    fn lines(&self) -> Vec<(bool, String)> {
        let tables = self.tables.iter().skip(self.top).map(Table::text);
        let lines = |text: String| {
            let lines = text.lines().map(str::to_owned).chain([String::new()]);
            lines.enumerate().map(|(place, line)| (place == 0, line)).collect::<Vec<_>>()
        };
        tables.flat_map(lines).collect()
    }

    fn foot(&self) -> String {
        match (&self.failure, self.is_paused) {
            (Some(failure), _) => failure.clone(),
            (None, true) => "paused; space goes on, q ends".to_owned(),
            (None, false) => "q ends, space pauses, up and down move".to_owned(),
        }
    }
}

fn is_end(key: KeyEvent) -> bool {
    let is_control_c = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
    is_control_c || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc)
}
