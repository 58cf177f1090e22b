//! Statements and tokens of the two tables.

use std::fmt;

/// A mistake in a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParseError {
    /// The file's name.
    pub file: String,
    /// The line on which the statement begins, from 1.
    pub line: usize,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.what)
    }
}

impl std::error::Error for ParseError {}

/// A statement: a line that begins at the left margin, and the indented lines below it.
#[derive(Debug)]
pub(crate) struct Statement<'a> {
    pub line: usize,
    /// The lines, without comments, first line first.
    pub lines: Vec<&'a str>,
}

impl Statement<'_> {
    /// Returns the statement as one line.
    pub fn text(&self) -> String {
        let trimmed: Vec<&str> = self.lines.iter().map(|line| line.trim()).collect();
        trimmed.join(" ")
    }
}

/// Splits a table into statements; `#` begins a comment, empty lines are ignored.
pub(crate) fn statements<'a>(file: &str, text: &'a str) -> Result<Vec<Statement<'a>>, ParseError> {
    let mut found: Vec<Statement<'a>> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line_number = index + 1;
        let code = line.split('#').next().unwrap_or_default().trim_end();
        if code.is_empty() {
            continue;
        }
        if code.starts_with([' ', '\t']) {
            match found.last_mut() {
                Some(statement) => statement.lines.push(code),
                None => {
                    return Err(ParseError {
                        file: file.to_owned(),
                        line: line_number,
                        what: "a continuation line without a statement above it".to_owned(),
                    });
                }
            }
        } else {
            found.push(Statement {
                line: line_number,
                lines: vec![code],
            });
        }
    }
    Ok(found)
}

/// Iterates over the identifiers of a Rust expression that can be names of variables, with their
/// positions: not those of paths, fields, functions and strings.
pub(crate) fn identifiers(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut at = 0;
    let words = text
        .split_inclusive(move |c| !is_word(c))
        .map(move |piece| {
            let start = at;
            at += piece.len();
            (start, piece.trim_end_matches(|c| !is_word(c)))
        });
    words.filter(move |(start, word)| {
        let before = text[..*start].trim_end();
        let after = text[start + word.len()..].trim_start();
        let first = word.chars().next();
        first.is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
            && !before.ends_with(['.', '"'])
            && !before.ends_with("::")
            && !after.starts_with([':', '(', '{'])
    })
}

/// The tokens of a statement, with one token of look-ahead. Errors are texts without a line number.
pub(crate) struct Tokens<'a> {
    rest: &'a str,
}

impl<'a> Tokens<'a> {
    pub fn new(text: &'a str) -> Self {
        Tokens {
            rest: text.trim_start(),
        }
    }

    fn split(&self) -> (&'a str, &'a str) {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let length = match self.rest.chars().next() {
            None => 0,
            Some(c) if is_word(c) => self.rest.find(|c| !is_word(c)).unwrap_or(self.rest.len()),
            Some(c) => ["...", "->", "::"]
                .iter()
                .find(|long| self.rest.starts_with(**long))
                .map_or(c.len_utf8(), |long| long.len()),
        };
        self.rest.split_at(length)
    }

    /// Returns the next token, empty at the end.
    pub fn peek(&self) -> &'a str {
        self.split().0
    }

    /// Takes the next token, empty at the end.
    pub fn next(&mut self) -> &'a str {
        let (token, rest) = self.split();
        self.rest = rest.trim_start();
        token
    }

    /// Takes the next token if it is `token`.
    pub fn take(&mut self, token: &str) -> bool {
        let found = self.peek() == token;
        if found {
            self.next();
        }
        found
    }

    /// Takes `token`.
    pub fn expect(&mut self, token: &str) -> Result<(), String> {
        if self.take(token) {
            Ok(())
        } else {
            Err(format!("expected `{token}` before `{}`", self.rest))
        }
    }

    /// Takes an identifier; `what` describes it in errors.
    pub fn identifier(&mut self, what: &str) -> Result<&'a str, String> {
        let token = self.peek();
        if token.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
            Ok(self.next())
        } else {
            Err(format!("expected {what} before `{}`", self.rest))
        }
    }

    /// Takes a text in parentheses, if it comes next, and returns it without them.
    pub fn parenthesized(&mut self) -> Result<Option<&'a str>, String> {
        if self.peek() != "(" {
            return Ok(None);
        }
        let mut depth = 0;
        for (at, c) in self.rest.char_indices() {
            match c {
                '(' => depth += 1,
                ')' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                let inner = &self.rest[1..at];
                self.rest = self.rest[at + 1..].trim_start();
                return Ok(Some(inner));
            }
        }
        Err(format!("`{}` has no closing parenthesis", self.rest))
    }

    /// Returns the remaining text.
    pub fn rest(&self) -> &'a str {
        self.rest
    }
}
