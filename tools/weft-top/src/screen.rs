//! The view: a summary, a table of ranks, and the job's last lines of output.

use std::io;
use std::time::{Duration, Instant};

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Modifier, Style};
use ratatui::widgets::{Block, Borders, Cell, Paragraph, Row, Table, Wrap};
use ratatui::{DefaultTerminal, Frame};

use crate::board::{Board, Rank};
use crate::message::Doing;
use crate::output::Output;
use crate::text;

/// Most lines of output in the view.
const LINES: u16 = 8;
/// Nanoseconds after which a call is shown in red.
const LONG: u64 = 1_000_000_000;

/// A command by a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wish {
    /// Send this signal to the job.
    Signal(i32),
    /// Close the view; the job goes on.
    Leave,
    /// Redraw now.
    Draw,
}

/// The terminal; dropping this restores it.
pub struct Screen {
    terminal: DefaultTerminal,
    /// The process number of the job's mpiexec.
    pid: u32,
    first: usize,
    by_time: bool,
}

impl Screen {
    /// Takes over the terminal.
    pub fn new(pid: u32) -> io::Result<Screen> {
        Ok(Screen {
            terminal: ratatui::try_init()?,
            pid,
            first: 0,
            by_time: false,
        })
    }

    /// Waits for a key, for at most `patience`, and returns its command. Arrows scroll the table.
    pub fn typed(&mut self, patience: Duration) -> Option<Wish> {
        let mut patience = Some(patience);
        let mut drawn = None;
        while event::poll(patience.take().unwrap_or_default()).unwrap_or(false) {
            let key = match event::read() {
                Ok(Event::Key(key)) if key.kind != KeyEventKind::Release => key,
                Ok(_) => {
                    drawn = Some(Wish::Draw);
                    continue;
                }
                Err(_) => return drawn,
            };
            let control = key.modifiers.contains(KeyModifiers::CONTROL);
            match key.code {
                KeyCode::Char('c') if control => return Some(Wish::Signal(libc::SIGINT)),
                KeyCode::Char('\\' | '4') if control => return Some(Wish::Signal(libc::SIGQUIT)),
                KeyCode::Char('q') => return Some(Wish::Leave),
                KeyCode::Char('s') => self.by_time = !self.by_time,
                KeyCode::Down => self.first += 1,
                KeyCode::Up => self.first = self.first.saturating_sub(1),
                KeyCode::PageDown => self.first += 20,
                KeyCode::PageUp => self.first = self.first.saturating_sub(20),
                KeyCode::Home => self.first = 0,
                _ => continue,
            }
            drawn = Some(Wish::Draw);
        }
        drawn
    }

    /// Draws the view.
    pub fn draw(&mut self, board: &Board, output: &Output) -> io::Result<()> {
        self.first = self.first.min(board.ranks.len().saturating_sub(1));
        let (pid, first, by_time) = (self.pid, self.first, self.by_time);
        let lines = output.last(usize::from(LINES));
        self.terminal
            .draw(|frame| picture(frame, board, pid, first, by_time, &lines))?;
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

fn picture(
    frame: &mut Frame,
    board: &Board,
    pid: u32,
    first: usize,
    by_time: bool,
    lines: &[String],
) {
    let now = Instant::now();
    let area = frame.area();
    let warning = board.warning(now);
    let mut said = board.summary(now);
    if let Some(warning) = &warning {
        said = format!("{warning}\n{said}");
    }
    let width = usize::from(area.width.max(1));
    let needed: usize = said
        .lines()
        .map(|line| line.len().div_ceil(width).max(1))
        .sum();
    let said_height = (needed as u16).min(4);
    let below = (lines.len() as u16 + 1).min(LINES + 1).min(area.height / 3);
    let parts = [
        Constraint::Length(1),
        Constraint::Length(said_height),
        Constraint::Min(3),
        Constraint::Length(below),
    ];
    let [title, summary, table, text] = Layout::vertical(parts).areas(area);
    let head = format!(
        "mpiexec {pid}: {} ranks   q leave the view, Ctrl-C end the job, s sort by {}, arrows scroll",
        board.size,
        if by_time { "rank" } else { "time" },
    );
    let reverse = Style::new().add_modifier(Modifier::REVERSED);
    frame.render_widget(Paragraph::new(head).style(reverse), title);
    let style = match warning {
        Some(_) => Style::new().fg(Color::Red),
        None => Style::new(),
    };
    let said = Paragraph::new(said).style(style).wrap(Wrap { trim: true });
    frame.render_widget(said, summary);
    ranks(frame, table, board, first, by_time, now);
    let block = Block::new().borders(Borders::TOP).title(" output ");
    let shown = usize::from(below.saturating_sub(1));
    let shown = lines[lines.len().saturating_sub(shown)..].join("\n");
    frame.render_widget(Paragraph::new(shown).block(block), text);
}

fn ranks(
    frame: &mut Frame,
    area: ratatui::layout::Rect,
    board: &Board,
    first: usize,
    by_time: bool,
    now: Instant,
) {
    let mut all: Vec<&Rank> = board.ranks.values().collect();
    if by_time {
        let time = |rank: &&Rank| match rank.last.doing {
            Doing::In(_, time) => time,
            _ => 0,
        };
        all.sort_by_key(|rank| std::cmp::Reverse(time(rank)));
    }
    let hosts = all.iter().any(|rank| rank.last.host != all[0].last.host);
    let mut heads = vec!["rank", "doing", "for", "with", "tag", "communicator"];
    let mut widths = vec![
        Constraint::Length(6),
        Constraint::Length(20),
        Constraint::Length(8),
        Constraint::Fill(1),
        Constraint::Length(7),
        Constraint::Length(widest(&all, 12, |rank| &rank.last.comm)),
    ];
    heads.extend(["MPI", "calls", "bytes"]);
    widths.extend([5, 10, 10].map(Constraint::Length));
    if hosts {
        heads.insert(1, "host");
        let width = widest(&all, 4, |rank| &rank.last.host);
        widths.insert(1, Constraint::Length(width));
    }
    let rows = all.iter().skip(first).map(|rank| row(rank, hosts, now));
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let table = Table::new(rows, widths).header(Row::new(heads).style(bold));
    frame.render_widget(table, area);
}

/// Returns the width of a column, from `least` to 24.
fn widest(all: &[&Rank], least: u16, of: impl Fn(&Rank) -> &str) -> u16 {
    let longest = all.iter().map(|rank| of(rank).chars().count()).max();
    (longest.unwrap_or(0).min(24) as u16).max(least)
}

fn row(rank: &Rank, hosts: bool, now: Instant) -> Row<'static> {
    let last = &rank.last;
    let (doing, time, color) = match &last.doing {
        _ if rank.is_silent(now) => ("silent".to_owned(), String::new(), Color::DarkGray),
        Doing::Finalized => ("finalized".to_owned(), String::new(), Color::DarkGray),
        Doing::Computing => ("computes".to_owned(), String::new(), Color::Green),
        Doing::In(name, 0) => (name.clone(), String::new(), Color::Yellow),
        Doing::In(name, time) if *time >= LONG => (name.clone(), text::span(*time), Color::Red),
        Doing::In(name, time) => (name.clone(), text::span(*time), Color::Yellow),
    };
    let number = match last.spawned {
        true => format!("{} sp", last.rank),
        false => last.rank.to_string(),
    };
    let mut cells = vec![
        number,
        doing,
        time,
        last.partner.clone(),
        last.tag.clone(),
        last.comm.clone(),
        format!("{:.0} %", rank.share),
        last.calls.to_string(),
        text::amount(last.bytes),
    ];
    if hosts {
        cells.insert(1, last.host.clone());
    }
    Row::new(cells.into_iter().map(Cell::from)).style(Style::new().fg(color))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::tests::of;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn drawn(width: u16, height: u16, board: &Board) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        let lines = ["hello".to_owned()];
        terminal
            .draw(|frame| picture(frame, board, 77, 0, false, &lines))
            .unwrap();
        let buffer = terminal.backend().buffer().clone();
        let lines = buffer.content.chunks(usize::from(width));
        let line = |cells: &[ratatui::buffer::Cell]| {
            let text: String = cells.iter().map(|cell| cell.symbol()).collect();
            text + "\n"
        };
        lines.map(line).collect()
    }

    #[test]
    fn ranks_calls_and_output_are_drawn() {
        let mut board = Board::default();
        let now = Instant::now();
        board.hear(of(0, "MPI_Recv", 3, Some(1)), now);
        board.hear(of(1, "", 0, None), now);
        let text = drawn(100, 20, &board);
        for wanted in [
            "mpiexec 77: 4 ranks",
            "rank 0 in MPI_Recv for 3.0 s; rank 1 computing; 2 ranks have not reported yet",
            "from 1",
            "MPI_COMM_WORLD",
            "computes",
            "hello",
        ] {
            assert!(text.contains(wanted), "{wanted} is not in\n{text}");
        }
        assert!(!text.contains("host"), "{text}");
        let mut other = of(2, "", 0, None);
        other.host = "elsewhere".to_owned();
        board.hear(other, now);
        assert!(drawn(120, 20, &board).contains("elsewhere"));
    }

    #[test]
    fn every_size_can_be_drawn() {
        let mut board = Board::default();
        for rank in 0..50 {
            board.hear(of(rank, "MPI_Barrier", 1, None), Instant::now());
        }
        for (width, height) in [(1, 1), (10, 2), (20, 5), (80, 24), (300, 100)] {
            drawn(width, height, &board);
        }
    }
}
