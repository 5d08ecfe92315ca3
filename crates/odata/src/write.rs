//! `$filter`, from tree to text, with no more parentheses than the tree needs.

use tavola_model::{Filter, FilterNode};

use crate::literal::write_literal;

/// The text that reads back as this filter.
pub fn write_filter(filter: &Filter) -> String {
    let nodes = filter.nodes();
    let mut out = String::new();
    let mut rest = vec![Piece::Node { index: nodes.len() - 1, inside: Binding::Or }];
    while let Some(piece) = rest.pop() {
        let (index, inside) = match piece {
            Piece::Text(text) => {
                out.push_str(text);
                continue;
            }
            Piece::Node { index, inside } => (index, inside),
        };
        let node = &nodes[index];
        if Binding::of(node) < inside {
            out.push('(');
            rest.push(Piece::Text(")"));
        }
        match node {
            FilterNode::Constant(flag) => out.push_str(if *flag { "true" } else { "false" }),
            FilterNode::Compare(comparison) => {
                out.push_str(comparison.property.name());
                out.push(' ');
                out.push_str(comparison.operator.as_str());
                out.push(' ');
                write_literal(comparison.literal(), &mut out);
            }
            FilterNode::And(left, right) => {
                rest.push(Piece::Node { index: right.index(), inside: Binding::Not });
                rest.push(Piece::Text(" and "));
                rest.push(Piece::Node { index: left.index(), inside: Binding::And });
            }
            FilterNode::Or(left, right) => {
                rest.push(Piece::Node { index: right.index(), inside: Binding::And });
                rest.push(Piece::Text(" or "));
                rest.push(Piece::Node { index: left.index(), inside: Binding::Or });
            }
            FilterNode::Not(inner) => {
                out.push_str("not ");
                rest.push(Piece::Node { index: inner.index(), inside: Binding::Word });
            }
        }
    }
    out
}

/// What is still to be written; the last comes first.
enum Piece {
    Text(&'static str),
    /// A node, in parentheses if it binds less tightly than `inside`.
    Node {
        index: usize,
        inside: Binding,
    },
}

/// How tightly a node holds together in text, loosest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Binding {
    Or,
    And,
    Not,
    Compare,
    /// Behind `not` even a comparison gets parentheses: the OData of other products binds `not` tighter.
    Word,
}

impl Binding {
    fn of(node: &FilterNode) -> Self {
        match node {
            FilterNode::Or(..) => Binding::Or,
            FilterNode::And(..) => Binding::And,
            FilterNode::Not(_) => Binding::Not,
            FilterNode::Compare(_) => Binding::Compare,
            FilterNode::Constant(_) => Binding::Word,
        }
    }
}
