//! The screen.

use std::time::Duration;

use ratatui::Frame;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Block, Cell, Row, Table as Grid, TableState};

use super::rates::Rates;
use super::tables::{self, Selection, Table};

/// Intervals that keys choose.
const FASTEST: Duration = Duration::from_millis(250);
const SLOWEST: Duration = Duration::from_secs(60);
const KEYS: &str =
    "Tab view · / filter · ↑ ↓ PgUp PgDn scroll · + - interval · Space pause · q quit";

/// What is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Page {
    Overview,
    Counters,
    Connections,
}

/// What a key asks of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaction {
    /// To draw.
    Draw,
    /// To ask the services so often.
    Interval(Duration),
    /// To end.
    Quit,
}

/// The screen's state.
#[derive(Debug)]
pub struct View {
    page: Page,
    rates: Option<Rates>,
    interval: Duration,
    is_paused: bool,
    selection: Selection,
    is_typing: bool,
    /// The first row that is shown of a long table.
    first_row: usize,
}

impl View {
    /// One that has heard of nothing yet.
    pub fn new(interval: Duration, selection: Selection) -> View {
        View {
            page: Page::Overview,
            rates: None,
            interval,
            is_paused: false,
            selection,
            is_typing: false,
            first_row: 0,
        }
    }

    /// Takes what is so now, unless it is paused.
    pub fn update(&mut self, rates: Rates) {
        if !self.is_paused || self.rates.is_none() {
            self.rates = Some(rates);
        }
    }

    /// Takes a key.
    pub fn press(&mut self, key: KeyEvent) -> Reaction {
        let has_control = key.modifiers.contains(KeyModifiers::CONTROL);
        if has_control && matches!(key.code, KeyCode::Char('c' | 'd')) {
            return Reaction::Quit;
        }
        if self.is_typing {
            self.type_filter(key.code);
            return Reaction::Draw;
        }
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return Reaction::Quit,
            KeyCode::Tab | KeyCode::Right => self.show(match self.page {
                Page::Overview => Page::Counters,
                Page::Counters => Page::Connections,
                Page::Connections => Page::Overview,
            }),
            KeyCode::BackTab | KeyCode::Left => self.show(match self.page {
                Page::Overview => Page::Connections,
                Page::Counters => Page::Overview,
                Page::Connections => Page::Counters,
            }),
            KeyCode::Char(' ') => self.is_paused = !self.is_paused,
            KeyCode::Char('/') => {
                if self.page == Page::Overview {
                    self.show(Page::Counters);
                }
                self.is_typing = true;
            }
            KeyCode::Up => self.first_row = self.first_row.saturating_sub(1),
            KeyCode::Down => self.first_row += 1,
            KeyCode::PageUp => self.first_row = self.first_row.saturating_sub(10),
            KeyCode::PageDown => self.first_row += 10,
            KeyCode::Home => self.first_row = 0,
            KeyCode::Char('+') => return self.ask_every(self.interval * 2),
            KeyCode::Char('-') => return self.ask_every(self.interval / 2),
            _ => {}
        }
        Reaction::Draw
    }

    fn show(&mut self, page: Page) {
        self.page = page;
        self.first_row = 0;
    }

    fn type_filter(&mut self, key: KeyCode) {
        self.first_row = 0;
        match key {
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => {
                self.selection.filter.clear();
                self.is_typing = false;
            }
            KeyCode::Backspace => {
                self.selection.filter.pop();
            }
            KeyCode::Char(character) => self.selection.filter.push(character),
            _ => {}
        }
    }

    fn ask_every(&mut self, interval: Duration) -> Reaction {
        self.interval = interval.clamp(FASTEST, SLOWEST);
        Reaction::Interval(self.interval)
    }

    /// Draws it.
    pub fn draw(&mut self, frame: &mut Frame<'_>) {
        let [head, body, foot] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Min(1),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        frame.render_widget(self.head(), head);
        frame.render_widget(self.foot(), foot);
        let Some(rates) = &self.rates else {
            frame.render_widget(Text::from("asking the services …"), body);
            return;
        };
        let table = match self.page {
            Page::Overview => return overview(frame, body, rates),
            Page::Counters => tables::counters(rates, &self.selection),
            Page::Connections => tables::connections(rates, &self.selection),
        };
        // Scrolling ends where the last row is seen.
        let seen = usize::from(body.height.saturating_sub(3));
        self.first_row = self.first_row.min(table.rows.len().saturating_sub(seen));
        draw_table(frame, body, &table, self.first_row);
    }

    fn head(&self) -> Line<'static> {
        let tab = |page: Page, name: &'static str| match page == self.page {
            true => Span::from(format!(" {name} ")).reversed(),
            false => Span::from(format!(" {name} ")),
        };
        let mut spans = vec![
            Span::from("longshore top  ").bold(),
            tab(Page::Overview, "overview"),
            tab(Page::Counters, "counters"),
            tab(Page::Connections, "connections"),
            Span::from(format!("  every {} s", self.interval.as_secs_f64())),
        ];
        if self.is_paused {
            spans.push(Span::from("  paused").fg(Color::Yellow).bold());
        }
        if !self.selection.filter.is_empty() {
            spans.push(Span::from(format!("  filter: {}", self.selection.filter)));
        }
        Line::from(spans)
    }

    fn foot(&self) -> Line<'static> {
        match self.is_typing {
            true => Line::from(format!(
                "filter: {}▏  Enter keeps it, Esc clears it",
                self.selection.filter
            )),
            false => Line::from(KEYS).dim(),
        }
    }
}

fn overview(frame: &mut Frame<'_>, area: Rect, rates: &Rates) {
    let services = tables::services(rates);
    let threads = tables::threads(rates);
    let traffic = tables::traffic(rates);
    // With its frame and its head.
    let height = |table: &Table| table.rows.len() as u16 + 3;
    let middle = height(&threads).max(height(&traffic));
    let [first, second, third] = Layout::vertical([
        Constraint::Length(height(&services).min(area.height / 3)),
        Constraint::Length(middle.min(area.height / 3)),
        Constraint::Min(4),
    ])
    .areas(area);
    draw_table(frame, first, &services, 0);
    let halves = || Layout::horizontal([Constraint::Percentage(45), Constraint::Percentage(55)]);
    let [left, right] = halves().areas(second);
    draw_table(frame, left, &threads, 0);
    draw_table(frame, right, &traffic, 0);
    let [left, right] = halves().areas(third);
    draw_table(frame, left, &tables::in_use(rates), 0);
    let [above, below] =
        Layout::vertical([Constraint::Percentage(50), Constraint::Percentage(50)]).areas(right);
    draw_table(frame, above, &tables::busiest(rates), 0);
    draw_table(frame, below, &tables::trouble(rates), 0);
}

fn draw_table(frame: &mut Frame<'_>, area: Rect, table: &Table, first_row: usize) {
    let align = |at: usize, text: &str| {
        let is_number = table.columns.get(at).is_some_and(|it| it.is_number);
        Cell::from(Text::from(text.to_owned()).alignment(match is_number {
            true => Alignment::Right,
            false => Alignment::Left,
        }))
    };
    let rows = table.rows.iter().map(|row| {
        let cells = row.iter().enumerate();
        let row_is_down = row.last().is_some_and(|cell| cell.starts_with("down: "));
        let style = match row_is_down {
            true => Style::new().fg(Color::Red),
            false => Style::new(),
        };
        Row::new(cells.map(|(at, cell)| align(at, cell))).style(style)
    });
    let head = table.columns.iter().enumerate();
    let head = Row::new(head.map(|(at, column)| align(at, column.name))).bold();
    // What is longer than the screen is cut at the end of the last column.
    let last = table.columns.len() - 1;
    let widths =
        (0..table.columns.len()).map(|at| match at == last && !table.columns[at].is_number {
            true => Constraint::Fill(1),
            false => Constraint::Length(table.width(at) as u16),
        });
    let more = table.rows.len().saturating_sub(first_row);
    let seen = usize::from(area.height.saturating_sub(3));
    let title = match more > seen || first_row > 0 {
        true => format!(
            " {} {}–{} of {} ",
            table.title,
            first_row + 1,
            first_row + more.min(seen),
            table.rows.len()
        ),
        false => format!(" {} ", table.title),
    };
    let grid = Grid::new(rows, widths)
        .header(head)
        .block(Block::bordered().title(title));
    let mut state = TableState::new().with_offset(first_row);
    frame.render_stateful_widget(grid, area, &mut state);
}
