//! `$filter`, from text to tree.
//!
//! Precedence rises from `or` over `and` and `not` to the six comparisons. Operators wait on a stack of their
//! own until an operator that binds no tighter, a parenthesis or the end comes, so nesting is a loop and is
//! bounded by a limit, not by the stack of the thread.

use tavola_model::{
    Comparison, EdmValue, FILTER_COMPARISONS_MAX, FILTER_NESTING_MAX, Filter, FilterBuilder, FilterNode,
    NodeId, Operator, PropertyRef, ServiceError,
};

use crate::compare::holds;
use crate::error::{Fault, ParseError};
use crate::lexer::{Lexer, Token, TokenKind};
use crate::literal::{Literal, parse_literal};

/// Reads a filter; blank text is no filter.
pub fn parse_filter(text: &str) -> Result<Option<Filter>, ServiceError> {
    parse(text).map_err(|error| error.into_service_error(text))
}

fn parse(text: &str) -> Result<Option<Filter>, ParseError> {
    let mut lexer = Lexer::new(text)?;
    if lexer.current.kind == TokenKind::End {
        return Ok(None);
    }
    let mut parser = Parser::default();
    loop {
        parser.read_operand(&mut lexer)?;
        if !parser.read_operator(&mut lexer)? {
            return parser.finish().map(Some);
        }
    }
}

/// Something an operator can take.
enum Operand {
    Property(PropertyRef),
    Literal(Literal),
    Predicate(NodeId),
}

/// An operator, or an open parenthesis, that waits for its right side.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Waiting {
    OpenParen,
    Or,
    And,
    Not,
    Compare(Operator),
}

impl Waiting {
    fn precedence(self) -> u8 {
        match self {
            Waiting::OpenParen => 0,
            Waiting::Or => 1,
            Waiting::And => 2,
            Waiting::Not => 3,
            Waiting::Compare(_) => 4,
        }
    }
}

#[derive(Default)]
struct Parser {
    builder: FilterBuilder,
    /// Each with the offset at which it began, for error texts.
    operands: Vec<(Operand, usize)>,
    waiting: Vec<Waiting>,
    nesting: usize,
    comparisons: usize,
}

impl Parser {
    /// Reads `not` and open parentheses, then one property or literal.
    fn read_operand(&mut self, lexer: &mut Lexer<'_>) -> Result<(), ParseError> {
        loop {
            let token = lexer.current;
            if token.kind == TokenKind::OpenParen {
                self.nest(Waiting::OpenParen, token)?;
            } else if token.kind == TokenKind::Identifier && token.text == "not" {
                self.nest(Waiting::Not, token)?;
            } else {
                break;
            }
            lexer.advance()?;
        }
        let token = lexer.current;
        let operand = match parse_literal(token)? {
            Some(literal) => Operand::Literal(literal),
            None if token.kind == TokenKind::Identifier => {
                if lexer.open_paren_follows() {
                    return Err(ParseError { at: token.at, fault: Fault::NotImplemented });
                }
                Operand::Property(PropertyRef::from_name(token.text))
            }
            None if token.kind == TokenKind::Mark && token.text == "-" => {
                return Err(ParseError { at: token.at, fault: Fault::NotImplemented });
            }
            None => return Err(ParseError { at: token.at, fault: Fault::ExpressionExpected }),
        };
        self.operands.push((operand, token.at));
        lexer.advance()?;
        Ok(())
    }

    /// Reads close parentheses, then an operator; `false` at the end of the text.
    fn read_operator(&mut self, lexer: &mut Lexer<'_>) -> Result<bool, ParseError> {
        while lexer.current.kind == TokenKind::CloseParen {
            self.close(lexer)?;
            lexer.advance()?;
        }
        let token = lexer.current;
        if token.kind == TokenKind::End {
            self.reduce_down_to(Waiting::OpenParen.precedence() + 1)?;
            if !self.waiting.is_empty() {
                return Err(ParseError { at: token.at, fault: Fault::CloseParenOrOperatorExpected });
            }
            return Ok(false);
        }
        let Some(operator) = read_operator_word(token)? else {
            let inside = self.waiting.contains(&Waiting::OpenParen);
            return Err(match inside {
                true => ParseError { at: token.at, fault: Fault::CloseParenOrOperatorExpected },
                false => lexer.syntax_error(),
            });
        };
        // All operators are left-associative: what binds as tight as the new one is done first.
        self.reduce_down_to(operator.precedence())?;
        if matches!(operator, Waiting::And | Waiting::Or) {
            let left = self.pop_predicate()?;
            self.operands.push((Operand::Predicate(left), token.at));
        }
        self.waiting.push(operator);
        lexer.advance()?;
        Ok(true)
    }

    fn finish(mut self) -> Result<Filter, ParseError> {
        self.pop_predicate()?;
        Ok(self.builder.finish())
    }

    fn nest(&mut self, waiting: Waiting, token: Token<'_>) -> Result<(), ParseError> {
        self.nesting += 1;
        if self.nesting > FILTER_NESTING_MAX {
            return Err(ParseError { at: token.at, fault: Fault::Input });
        }
        self.waiting.push(waiting);
        Ok(())
    }

    fn close(&mut self, lexer: &Lexer<'_>) -> Result<(), ParseError> {
        self.reduce_down_to(Waiting::OpenParen.precedence() + 1)?;
        if self.waiting.pop() != Some(Waiting::OpenParen) {
            return Err(lexer.syntax_error());
        }
        self.nesting -= 1;
        Ok(())
    }

    /// Does every waiting operator of at least this precedence, the latest first.
    fn reduce_down_to(&mut self, precedence: u8) -> Result<(), ParseError> {
        while let Some(waiting) = self.waiting.pop_if(|waiting| waiting.precedence() >= precedence) {
            match waiting {
                Waiting::OpenParen => unreachable!("nothing asks for the precedence of a parenthesis"),
                Waiting::Or | Waiting::And => {
                    let right = self.pop_predicate()?;
                    let left = self.pop_predicate()?;
                    let node = match waiting {
                        Waiting::Or => FilterNode::Or(left, right),
                        _ => FilterNode::And(left, right),
                    };
                    self.push_node(node);
                }
                Waiting::Not => {
                    self.nesting -= 1;
                    let inner = self.pop_predicate()?;
                    self.push_node(FilterNode::Not(inner));
                }
                Waiting::Compare(operator) => self.compare(operator)?,
            }
        }
        Ok(())
    }

    fn compare(&mut self, operator: Operator) -> Result<(), ParseError> {
        let (right, at) = self.pop();
        let (left, _) = self.pop();
        self.count_comparison(at)?;
        let refused = ParseError { at, fault: Fault::Input };
        match (left, right) {
            (Operand::Property(property), Operand::Literal(literal)) => {
                let value = literal.value().ok_or(refused)?;
                self.push_node(FilterNode::Compare(Comparison::new(property, operator, value)));
            }
            (Operand::Literal(literal), Operand::Property(property)) => {
                let value = literal.value().ok_or(refused)?;
                self.push_node(FilterNode::Compare(Comparison::new(property, operator.mirrored(), value)));
            }
            (Operand::Literal(left), Operand::Literal(right)) => {
                let (Some(left), Some(right)) = (left.value(), right.value()) else { return Err(refused) };
                self.push_node(FilterNode::Constant(holds(left, operator, right)));
            }
            (Operand::Predicate(node), Operand::Literal(literal))
            | (Operand::Literal(literal), Operand::Predicate(node)) => match (operator, literal.value()) {
                (Operator::Eq, Some(EdmValue::Boolean(true)))
                | (Operator::Ne, Some(EdmValue::Boolean(false))) => {
                    self.operands.push((Operand::Predicate(node), at));
                }
                (Operator::Eq, Some(EdmValue::Boolean(false)))
                | (Operator::Ne, Some(EdmValue::Boolean(true))) => self.push_node(FilterNode::Not(node)),
                _ => return Err(refused),
            },
            (Operand::Property(_) | Operand::Predicate(_), Operand::Property(_) | Operand::Predicate(_)) => {
                return Err(refused);
            }
        }
        Ok(())
    }

    /// The latest operand as something that is true or false: a bare property is compared with `true`.
    fn pop_predicate(&mut self) -> Result<NodeId, ParseError> {
        let (operand, at) = self.pop();
        match operand {
            Operand::Predicate(node) => Ok(node),
            Operand::Property(property) => {
                self.count_comparison(at)?;
                let is_true = Comparison::new(property, Operator::Eq, EdmValue::Boolean(true));
                Ok(self.builder.add(FilterNode::Compare(is_true)))
            }
            Operand::Literal(Literal::Fixed(EdmValue::Boolean(flag))) => {
                Ok(self.builder.add(FilterNode::Constant(flag)))
            }
            Operand::Literal(_) => Err(ParseError { at, fault: Fault::Input }),
        }
    }

    fn count_comparison(&mut self, at: usize) -> Result<(), ParseError> {
        self.comparisons += 1;
        if self.comparisons > FILTER_COMPARISONS_MAX {
            return Err(ParseError { at, fault: Fault::Input });
        }
        Ok(())
    }

    fn pop(&mut self) -> (Operand, usize) {
        self.operands.pop().expect("an operand is read before and behind every operator")
    }

    fn push_node(&mut self, node: FilterNode) {
        let node = self.builder.add(node);
        self.operands.push((Operand::Predicate(node), 0));
    }
}

/// The operator a token names; `None` if it names none.
fn read_operator_word(token: Token<'_>) -> Result<Option<Waiting>, ParseError> {
    let not_implemented = ParseError { at: token.at, fault: Fault::NotImplemented };
    match token.kind {
        TokenKind::Identifier => Ok(Some(match token.text {
            "or" => Waiting::Or,
            "and" => Waiting::And,
            "eq" => Waiting::Compare(Operator::Eq),
            "ne" => Waiting::Compare(Operator::Ne),
            "gt" => Waiting::Compare(Operator::Gt),
            "ge" => Waiting::Compare(Operator::Ge),
            "lt" => Waiting::Compare(Operator::Lt),
            "le" => Waiting::Compare(Operator::Le),
            "add" | "sub" | "mul" | "div" | "mod" => return Err(not_implemented),
            _ => return Ok(None),
        })),
        // `a/b` asks for a property of a property.
        TokenKind::Mark if token.text == "/" => Err(not_implemented),
        _ => Ok(None),
    }
}
