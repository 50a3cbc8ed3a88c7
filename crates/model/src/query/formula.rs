//! Arithmetic over the metrics of a query: `A / B`, `(wins + draws) / plays * 100`.
//!
//! A formula is read once into steps for a stack and then runs per bucket and per total.

use super::QueryError;
use crate::limits::QUERY_FORMULA_BYTES_MAX;

/// A formula whose names have become places in the list of metrics.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Formula {
    steps: Vec<Op>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Op {
    Number(f64),
    Metric(usize),
    Negate,
    Add,
    Subtract,
    Multiply,
    Divide,
}

impl Formula {
    /// Reads a formula over metrics of these names. Errors name `formula`.
    pub fn parse(text: &str, names: &[&str]) -> Result<Formula, QueryError> {
        if text.len() > QUERY_FORMULA_BYTES_MAX {
            let message = format!("a formula may have {QUERY_FORMULA_BYTES_MAX} bytes");
            return Err(QueryError::new("formula", message));
        }
        let mut parser = Parser { text, at: 0, names, steps: Vec::new() };
        parser.sum()?;
        match parser.peek() {
            None => Ok(Formula { steps: parser.steps }),
            Some(_) => Err(parser.expected("an operator")),
        }
    }

    /// The formula over one value per metric. `None`: something needed is missing, or something is divided by zero, or
    /// the result is beyond any number.
    pub fn value(&self, metrics: impl Fn(usize) -> Option<f64>, stack: &mut Vec<Option<f64>>) -> Option<f64> {
        stack.clear();
        for step in &self.steps {
            let value = match step {
                Op::Number(number) => Some(*number),
                Op::Metric(index) => metrics(*index),
                Op::Negate => pop(stack).map(|value| -value),
                binary => {
                    let (right, left) = (pop(stack), pop(stack));
                    left.zip(right).and_then(|(left, right)| binary.apply(left, right))
                }
            };
            stack.push(value);
        }
        pop(stack).filter(|value| value.is_finite())
    }
}

impl Op {
    fn apply(self, left: f64, right: f64) -> Option<f64> {
        match self {
            Op::Add => Some(left + right),
            Op::Subtract => Some(left - right),
            Op::Multiply => Some(left * right),
            Op::Divide => (right != 0.0).then(|| left / right),
            Op::Number(_) | Op::Metric(_) | Op::Negate => None,
        }
    }
}

fn pop(stack: &mut Vec<Option<f64>>) -> Option<f64> {
    stack.pop().expect("the parser puts operands before their operator")
}

/// Recursive descent; the depth is bounded by the length of the text.
struct Parser<'a> {
    text: &'a str,
    at: usize,
    names: &'a [&'a str],
    steps: Vec<Op>,
}

impl Parser<'_> {
    fn sum(&mut self) -> Result<(), QueryError> {
        self.product()?;
        while let Some(op) = self.operator(&[(b'+', Op::Add), (b'-', Op::Subtract)]) {
            self.product()?;
            self.steps.push(op);
        }
        Ok(())
    }

    fn product(&mut self) -> Result<(), QueryError> {
        self.operand()?;
        while let Some(op) = self.operator(&[(b'*', Op::Multiply), (b'/', Op::Divide)]) {
            self.operand()?;
            self.steps.push(op);
        }
        Ok(())
    }

    fn operand(&mut self) -> Result<(), QueryError> {
        match self.peek() {
            Some(b'(') => self.group(),
            Some(b'-') => self.negation(),
            Some(b'0'..=b'9' | b'.') => self.number(),
            Some(b'a'..=b'z' | b'A'..=b'Z' | b'_') => self.name(),
            _ => Err(self.expected("a number, a name or \"(\"")),
        }
    }

    fn group(&mut self) -> Result<(), QueryError> {
        self.at += 1;
        self.sum()?;
        if self.peek() != Some(b')') {
            return Err(self.expected("\")\""));
        }
        self.at += 1;
        Ok(())
    }

    fn negation(&mut self) -> Result<(), QueryError> {
        self.at += 1;
        self.operand()?;
        self.steps.push(Op::Negate);
        Ok(())
    }

    fn number(&mut self) -> Result<(), QueryError> {
        let word = self.word(|byte| byte.is_ascii_digit() || byte == b'.');
        let number = word.parse().map_err(|_| refuse(format!("\"{word}\" is not a number")))?;
        self.steps.push(Op::Number(number));
        Ok(())
    }

    fn name(&mut self) -> Result<(), QueryError> {
        let word = self.word(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let found = self.names.iter().position(|name| *name == word);
        let index = found.ok_or_else(|| refuse(format!("no metric is called \"{word}\"")))?;
        self.steps.push(Op::Metric(index));
        Ok(())
    }

    fn operator(&mut self, known: &[(u8, Op)]) -> Option<Op> {
        let byte = self.peek()?;
        let (_, op) = known.iter().find(|(sign, _)| *sign == byte)?;
        self.at += 1;
        Some(*op)
    }

    fn peek(&mut self) -> Option<u8> {
        let rest = self.text[self.at..].trim_ascii_start();
        self.at = self.text.len() - rest.len();
        rest.bytes().next()
    }

    fn word(&mut self, belongs: impl Fn(u8) -> bool) -> String {
        let rest = &self.text[self.at..];
        let end = rest.bytes().position(|byte| !belongs(byte)).unwrap_or(rest.len());
        self.at += end;
        rest[..end].to_owned()
    }

    fn expected(&self, what: &str) -> QueryError {
        match self.text[self.at..].chars().next() {
            Some(found) => refuse(format!("expected {what}, found \"{found}\" at position {}", self.at + 1)),
            None => refuse(format!("expected {what}, found the end")),
        }
    }
}

fn refuse(message: String) -> QueryError {
    QueryError::new("formula", message)
}
