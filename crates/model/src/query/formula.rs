//! Arithmetic over the metrics of a query: `A / B`, `(wins + draws) / plays * 100`.
//!
//! A formula is compiled once into operations on a stack, then evaluated per bucket and per total.

use super::QueryError;
use crate::limits::QUERY_FORMULA_BYTES_MAX;

/// A compiled formula, in which names are indices into the list of metrics.
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
    /// Compiles a formula over metrics with these names. Errors name the field `formula`.
    pub(crate) fn parse(text: &str, names: &[&str]) -> Result<Formula, QueryError> {
        if text.len() > QUERY_FORMULA_BYTES_MAX {
            let message = format!("must be at most {QUERY_FORMULA_BYTES_MAX} bytes long");
            return Err(QueryError::new("formula", message));
        }
        let mut parser = FormulaParser { text, at: 0, names, steps: Vec::new() };
        parser.sum()?;
        match parser.peek() {
            None => Ok(Formula { steps: parser.steps }),
            Some(_) => Err(parser.expected("an operator")),
        }
    }

    /// Evaluates the formula with one value per metric. `None` if an operand is missing, for a division by zero, and
    /// if the result is not finite.
    pub(crate) fn value(
        &self,
        metrics: impl Fn(usize) -> Option<f64>,
        stack: &mut Vec<Option<f64>>,
    ) -> Option<f64> {
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

/// A recursive-descent parser; the length of the text bounds its depth.
struct FormulaParser<'a> {
    text: &'a str,
    at: usize,
    names: &'a [&'a str],
    steps: Vec<Op>,
}

impl FormulaParser<'_> {
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
        let token = self.token(|byte| byte.is_ascii_digit() || byte == b'.');
        let number = token.parse().map_err(|_| formula_error(format!("\"{token}\" is not a number")))?;
        self.steps.push(Op::Number(number));
        Ok(())
    }

    fn name(&mut self) -> Result<(), QueryError> {
        let token = self.token(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let found = self.names.iter().position(|name| *name == token);
        let index = found.ok_or_else(|| {
            formula_error(format!("unknown metric \"{token}\"; use the name of a metric of this query"))
        })?;
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

    fn token(&mut self, belongs: impl Fn(u8) -> bool) -> String {
        let rest = &self.text[self.at..];
        let end = rest.bytes().position(|byte| !belongs(byte)).unwrap_or(rest.len());
        self.at += end;
        rest[..end].to_owned()
    }

    fn expected(&self, what: &str) -> QueryError {
        match self.text[self.at..].chars().next() {
            Some(found) => {
                formula_error(format!("expected {what}, found \"{found}\" at position {}", self.at + 1))
            }
            None => formula_error(format!("expected {what}, found the end of the formula")),
        }
    }
}

fn formula_error(message: String) -> QueryError {
    QueryError::new("formula", message)
}
