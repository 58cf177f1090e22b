//! The picture: a table of ranks, and below it what the job printed last.

use std::io;
use std::time::Duration;

use ratatui::crossterm::event::{self, Event, KeyCode, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Style};
use ratatui::widgets::{Block, Cell, Paragraph, Row, Table};
use ratatui::{DefaultTerminal, Frame};

use crate::board::{Board, Rank};
use crate::output::Output;

/// Lines of output that are shown.
const LINES: usize = 6;

/// The terminal, which is as it was before when this is dropped.
pub struct Screen {
    terminal: DefaultTerminal,
    first: usize,
}

impl Screen {
    /// Takes it.
    pub fn new() -> io::Result<Screen> {
        Ok(Screen {
            terminal: ratatui::try_init()?,
            first: 0,
        })
    }

    /// What the keys mean: a signal for the job, if any. Arrows move through long tables.
    pub fn typed(&mut self) -> Option<i32> {
        while event::poll(Duration::ZERO).unwrap_or(false) {
            let Ok(Event::Key(key)) = event::read() else {
                continue;
            };
            match key.code {
                KeyCode::Char('q') => return Some(libc::SIGTERM),
                KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                    return Some(libc::SIGINT);
                }
                KeyCode::Down => self.first += 1,
                KeyCode::Up => self.first = self.first.saturating_sub(1),
                KeyCode::PageDown => self.first += 20,
                KeyCode::PageUp => self.first = self.first.saturating_sub(20),
                _ => {}
            }
        }
        None
    }

    /// Draws.
    pub fn draw(&mut self, board: &Board, output: &Output) -> io::Result<()> {
        self.first = self.first.min(board.ranks.len().saturating_sub(1));
        let first = self.first;
        self.terminal
            .draw(|frame| picture(frame, board, first, output))?;
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

fn picture(frame: &mut Frame, board: &Board, first: usize, output: &Output) {
    let parts = [Constraint::Min(3), Constraint::Length(LINES as u16 + 1)];
    let [above, below] = Layout::vertical(parts).areas(frame.area());
    let heads = [
        "rank",
        "function",
        "for",
        "peer",
        "tag",
        "communicator",
        "MPI",
        "calls",
        "bytes",
    ];
    let rows = board
        .ranks
        .iter()
        .skip(first)
        .map(|(number, rank)| row(*number, rank));
    let widths = [
        Constraint::Length(6),
        Constraint::Length(24),
        Constraint::Length(8),
        Constraint::Length(6),
        Constraint::Length(8),
        Constraint::Min(14),
        Constraint::Length(5),
        Constraint::Length(9),
        Constraint::Length(10),
    ];
    let here = board.ranks.len();
    let title = match board.size as usize - here.min(board.size as usize) {
        0 => format!(" {here} ranks (q ends the job) "),
        others => format!(" {here} ranks here, {others} not seen here (q ends the job) "),
    };
    let table = Table::new(rows, widths)
        .header(Row::new(heads).style(Style::new().bold()))
        .block(Block::bordered().title(title));
    frame.render_widget(table, above);
    let text = output.last(LINES).join("\n");
    let block = Block::new()
        .borders(ratatui::widgets::Borders::TOP)
        .title(" output ");
    frame.render_widget(Paragraph::new(text).block(block), below);
}

fn row(number: u32, rank: &Rank) -> Row<'static> {
    let (function, time, color) = match &rank.doing {
        _ if rank.gone => ("(has ended)".to_owned(), String::new(), Color::DarkGray),
        None => ("computes".to_owned(), String::new(), Color::Green),
        Some((name, time)) if *time > 1_000_000_000 => (name.clone(), span(*time), Color::Red),
        Some((name, time)) => (name.clone(), span(*time), Color::Yellow),
    };
    let inside = rank.doing.is_some() && !rank.gone;
    let number_or = |value: Option<i32>, any: i32| match value.filter(|_| inside) {
        None => String::new(),
        Some(value) if value == any => "any".to_owned(),
        Some(value) => value.to_string(),
    };
    let comm = if inside {
        rank.comm.clone()
    } else {
        String::new()
    };
    Row::new(
        [
            number.to_string(),
            function,
            time,
            number_or(rank.peer, -2),
            number_or(rank.tag, -1),
            comm,
            format!("{:.0} %", rank.share),
            rank.calls.to_string(),
            amount(rank.bytes),
        ]
        .map(Cell::from),
    )
    .style(Style::new().fg(color))
}

/// A time for people.
fn span(nanoseconds: u64) -> String {
    match nanoseconds {
        0..1_000_000 => format!("{} us", nanoseconds / 1000),
        1_000_000..1_000_000_000 => format!("{} ms", nanoseconds / 1_000_000),
        _ => format!("{:.1} s", nanoseconds as f64 / 1e9),
    }
}

/// An amount of data for people.
fn amount(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{bytes} B"),
        _ => format!("{value:.1} {}", units[unit]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_for_people() {
        assert_eq!(span(999), "0 us");
        assert_eq!(span(2_500_000), "2 ms");
        assert_eq!(span(3_200_000_000), "3.2 s");
        assert_eq!(amount(1000), "1000 B");
        assert_eq!(amount(1536), "1.5 KiB");
        assert_eq!(amount(5 << 30), "5.0 GiB");
    }
}
