//! Text that names hold.

/// Short text: held without an allocation where the feature `inline` is on, which is for a server that holds names of every
/// request. A client does without the crate.
#[cfg(feature = "inline")]
pub type Text = smol_str::SmolStr;

/// Short text.
#[cfg(not(feature = "inline"))]
pub type Text = Box<str>;
